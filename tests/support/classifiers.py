"""Outputs of classifiers that are made up, with members that stand out."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import canary
from canary.signals.signal_table import SignalTable


def save_outputs(path: Path, seed: int, *, samples: int = 2000, gap: float = 1.5) -> None:
    """Logits of 5 classes; the label's own is higher by `gap` for members."""
    rng = np.random.default_rng(seed)
    labels, member = rng.integers(0, 5, samples), rng.random(samples) < 0.5
    logits = rng.normal(0, 1, (samples, 5)).astype(np.float32)
    logits[np.arange(samples), labels] += 1 + gap * member
    np.savez(path, logits=logits, labels=labels, member=member.astype(np.int8))


def save_models(folder: Path, models: int, *, samples: int = 300, gap: float = 2.0) -> None:
    """Logits of several models on the same samples, each of which is in half of the models."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 5, samples)
    member = np.argsort(rng.random((models, samples)), axis=0) < models // 2
    ease = 1.5 * rng.normal(size=samples)
    for number, known in enumerate(member):
        logits = rng.normal(0, 1, (samples, 5))
        logits[np.arange(samples), labels] += 2 + ease + gap * known
        np.savez(
            folder / f"model{number}.npz",
            logits=logits.astype(np.float32),
            labels=labels,
            member=known.astype(np.int8),
        )


def measured_outputs(seed: int, *, samples: int = 2000) -> SignalTable:
    """Two classes: members are right more often, and of a tenth of them the model is very sure."""
    rng = np.random.default_rng(seed)
    label, member = rng.integers(0, 2, samples), np.arange(samples) < samples // 2
    right = member | (rng.random(samples) >= 0.3)
    size = rng.uniform(1, 3, samples) + 9 * (member & (rng.random(samples) < 0.1))
    logits = np.zeros((samples, 2))
    logits[np.arange(samples), np.where(right, label, 1 - label)] = size
    return canary.measure(logits, y=label, member=member, outputs="logits")
