"""Two ways of training that end at nearly one test loss: what does each memorize of few copies?

Figure 1 of the paper. In the study `optimizer` these two ended within 0.01 nats of each other and
more than 20 bits of exposure apart; they were chosen for that. Canaries are drawn anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from alone import FORMATS, one_each
from optimizers import CHANGES
from optimizers import STUDY as OPTIMIZERS
from study import Texts, best_of, sweep
from train import Settings

import canary

STRATEGIES = ("RMSprop, rate 0.004", "Adam, rate 0.002")
COPIES = range(1, 10)


def one_to_nine(_: Texts, seed: int, *, quick: bool) -> canary.CanarySet:
    """One canary of each number of copies, each in a format of its own; quick, the ends alone.

    Which format has how many copies is another draw for each seed.
    """
    copies = COPIES[:: 8 if quick else 1]
    formats = [str(f) for f in np.random.default_rng(seed).permutation(FORMATS)[: len(copies)]]
    digits = "{digit:4}" if quick else "{digit:9}"
    return one_each([f.replace("{digit:9}", digits) for f in formats], copies, seed)


def summary(results: Mapping[str, Any]) -> str:
    """Losses, and exposures by copies, where a user would stop and at the end.

    Each cell has the mean over trainings, then each training; its controls are averaged.
    """
    columns: dict[str, list[Mapping[str, Any]]] = {}
    for row in results["trainings"].values():
        if "variants" in row:
            name, epochs = row["about"]["strategies"], row["epochs"]
            columns.setdefault(f"{name}, at its lowest validation loss", []).append(best_of(epochs))
            columns.setdefault(f"{name}, at the end", []).append(epochs[-1])
    losses = (
        f"{np.mean(nats):.3f}: {', '.join(f'{one:.3f}' for one in nats)}"
        for nats in ([epoch["test_nats"] for epoch in epochs] for epochs in columns.values())
    )
    lines = [
        f"| copies | {' | '.join(columns)} |",
        f"| --- |{' --- |' * len(columns)}",
        f"| test loss, nats/char | {' | '.join(losses)} |",
    ]
    some = next(iter(columns.values()))[0]["canaries"]
    for copies in sorted({one["copies"] for one in some}):
        cells = []
        for epochs in columns.values():
            each = [
                float(np.mean([c["bits"] for c in epoch["canaries"] if c["copies"] == copies]))
                for epoch in epochs
            ]
            cells.append(f"{np.mean(each):.1f}: {', '.join(f'{one:.1f}' for one in each)}")
        lines.append(f"| {copies or 'control'} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


STUDY = replace(
    sweep(
        "strategies",
        {name: CHANGES[name] for name in STRATEGIES},
        share=OPTIMIZERS.share,
        base=Settings(epochs=20, batch=16),
        drawn=one_to_nine,
    ),
    summary=summary,
)
