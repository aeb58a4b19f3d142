"""Outputs of classifiers that are made up, with members that stand out."""

from __future__ import annotations

from pathlib import Path

import numpy as np


def save_outputs(path: Path, seed: int, *, samples: int = 2000, gap: float = 1.5) -> None:
    """Logits of 5 classes; the label's own is higher by `gap` for members."""
    rng = np.random.default_rng(seed)
    labels, member = rng.integers(0, 5, samples), rng.random(samples) < 0.5
    logits = rng.normal(0, 1, (samples, 5)).astype(np.float32)
    logits[np.arange(samples), labels] += 1 + gap * member
    np.savez(path, logits=logits, labels=labels, member=member.astype(np.int8))
