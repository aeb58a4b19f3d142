"""Two ways of training that reach one test loss: what does each memorize of one to nine copies?

Figure 1 of the paper. The two are those of the study `optimizer` whose losses are nearest to each
other while their exposures are far apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from alone import FORMATS, one_each
from optimizers import CHANGES
from optimizers import STUDY as OPTIMIZERS
from study import Texts, interval, sweep
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
    """Each strategy's loss, and its exposures by copies: each seed, the mean and its interval."""
    ends: dict[str, list[Mapping[str, Any]]] = {}
    for row in results["trainings"].values():
        if "variants" in row:
            ends.setdefault(row["about"]["strategies"], []).append(row["epochs"][-1])
    copies = sorted({one["copies"] for rows in ends.values() for one in rows[0]["canaries"]})
    lines = [
        f"| copies | {' | '.join(f'{name}: exposure, bits' for name in ends)} |",
        f"| ---: |{' --- |' * len(ends)}",
    ]
    for number in copies:
        cells = []
        for rows in ends.values():
            bits = [[c["bits"] for c in row["canaries"] if c["copies"] == number] for row in rows]
            each = [float(np.mean(one)) for one in bits]
            cells.append(f"{interval(each)}: {', '.join(f'{one:.1f}' for one in each)}")
        lines.append(f"| {number or 'control'} | {' | '.join(cells)} |")
    losses = [
        f"{name}: {np.mean(nats):.3f} ({', '.join(f'{one:.3f}' for one in nats)})"
        for name, nats in ((n, [row["test_nats"] for row in rows]) for n, rows in ends.items())
    ]
    return "\n".join([*lines, "", f"Test loss at the end, nats/char: {'; '.join(losses)}."]) + "\n"


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
