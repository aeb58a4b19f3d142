"""Are losses in nats? Those of two models that were trained alike differ by no constant factor."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from canary.signals.signal_table import SignalTable
from canary.statistics.distances import chance_distance, ks_distance

__all__ = ["confidences", "other_units"]

_FACTOR = 1.2
"""Least factor that is looked at."""

_CHANCE = 1e-6
"""Chance that losses of one distribution differ so much."""

_BETTER = 3.0
"""How many times closer the distributions are with the factor than without it."""

_FEWEST = 50
"""Losses below which nothing is said of their range."""

_NEAR = 0.9
_MANY = 0.05
"""Losses above `_NEAR` as a share of all, from which on none above 1 is no chance."""

_CLOSE = 0.03
"""Distance of two distributions up to which they are alike, however many samples there are."""


def confidences(table: SignalTable, what: str) -> tuple[str, ...]:
    """What a reader has to know of losses that can only be probabilities of the own class."""
    if "correctness" in table.values or "loss" not in table.values or table.samples < _FEWEST:
        return ()
    loss = table.signal("loss")
    # Of losses, most are near 0, and few near the largest.
    odd = (loss.max(axis=1) <= 1.0) & ((loss > _NEAR).mean(axis=1) >= _MANY)
    if not odd.any():
        return ()
    of = f" in {int(odd.sum())} of {table.models} models" * (table.models > 1)
    return (
        f"No loss of the {what} is above 1, and many are near 1{of}: these are "
        "probabilities and not losses. Save -log of the probability of each sample's class, or "
        "logits",
    )


def other_units(
    ours: NDArray[np.float64], theirs: NDArray[np.float64], what: str, other: str
) -> tuple[str, ...]:
    """What a reader has to know of losses that are those of another model times a constant.

    Parameters
    ----------
    ours, theirs : ndarray of float64 of shape (samples,)
        Losses of nonmembers.
    what, other : str
        Whose they are, for the note.

    Notes
    -----
    The factor is that of the medians. It is said if it is 1.2 or more either way, the two
    distributions differ without it (Kolmogorov and Smirnov, at one in a million), and with it they
    are alike, and three times closer. A model that learned more or less has losses of another
    shape, as a rule.
    """
    if not len(ours) or not len(theirs):
        return ()
    medians = float(np.median(ours)), float(np.median(theirs))
    if not all(0.0 < median < math.inf for median in medians):
        return ()
    factor = medians[0] / medians[1]
    if max(factor, 1.0 / factor) < _FACTOR:
        return ()
    sizes = len(ours), len(theirs)
    before, after = ks_distance(ours, theirs), ks_distance(ours / factor, theirs)
    if before < chance_distance(*sizes, level=_CHANCE) or after > before / _BETTER:
        return ()
    if after > max(_CLOSE, chance_distance(*sizes)):
        return ()
    return (
        f"The losses of the {what} are {factor:.3g} times those of the {other}, and otherwise "
        "alike, as in other units: bits are 1.44 and decimal logarithms 0.43 times nats, sums are "
        "larger than means. What is learned on one does not fit the other. Save one loss in nats "
        "for each sample; if they are that, train both models alike",
    )
