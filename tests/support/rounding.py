"""What rounding alone may do to a training: the same one, with the last bit of its start changed.

Two orders of the same sums differ in their last bits, and each step of a training multiplies
that. By how much is a matter of the training, not of the code under test, and of the processor:
batch norm over four samples of little variance makes 1e-4 of 1e-7. So the bound is measured.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

TIMES = 8
"""Rounding occurs at each step, a nudge only where values enter; and some draws are lucky."""

ULPS = 16
"""Of the largest value of an array: what a sum of a few terms may lose without any step."""

REPEATS = 4


def nudged(values, seed):
    """Each value as the next float32 above or below it, as the toss of a coin has it."""
    values = np.asarray(values, np.float32)
    up = np.random.default_rng(seed).random(values.shape) < 0.5
    return np.nextafter(values, np.where(up, np.inf, -np.inf).astype("f4"))


def _built(build, seed):
    module = build()
    with torch.no_grad():
        for number, weight in enumerate(module.parameters()):
            weight.copy_(torch.from_numpy(nudged(weight.numpy(), [seed, number])))
    return module


def trained_nudged(train, task):
    """The plain loop from samples and initial weights that are nudged, several times."""
    return [
        replace(train, build=lambda seed=seed: _built(train.build, seed))(
            replace(task, samples=nudged(task.samples, seed))
        )
        for seed in range(REPEATS)
    ]


def assert_within_rounding(found, wanted, nudged, what=""):
    """`found` is as near to `wanted` as some of `nudged` are, times `TIMES`, plus `ULPS`."""
    least = ULPS * np.spacing(np.abs(wanted).max().astype("f4"))
    bound = TIMES * max(np.abs(one - wanted).max() for one in nudged) + least
    apart = np.abs(found - wanted).max()
    assert apart <= bound, f"{what}: {apart:.3g} apart, of which rounding explains {bound:.3g}"
