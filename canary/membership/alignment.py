"""Do several models speak of the same samples, in the same order?

What is hard for one model is hard for another one that was trained alike: the losses of samples
that neither was trained on go together. They do not if one file has its samples in another order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from canary.membership.unlike import right_of, together
from canary.signals.signal_table import SignalTable
from canary.statistics.shares import clopper_pearson

Floats = NDArray[np.float64]

_SURE, _SURE_OF_ALL = 3.3, 2.3
"""Standard errors by which a correlation has to be below what is asked of it: of one model, and
of all of them."""

_PART = 1.0 / 3.0
"""Of the correlation of the others with each other: what a model has at least with them."""

_LEAST = 0.1
"""Correlation of any two models that were trained alike. The lowest that was seen is 0.10, of full
trees on noisy data; networks and linear models have 0.24 to 0.97."""

_FEW = 64

_CURE = (
    "may have its samples in another order, within each class. Then attacks compare different "
    "samples, and find too little. Save all files from one list of samples, with their names (id): "
    "another order is then an error"
)


def other_order(table: SignalTable, names: Sequence[str]) -> tuple[str, ...]:
    """Notes on models whose losses do not go together with those of the others of a table.

    By rank correlations within classes, over the samples that neither of two models was trained
    on. O(K^2 n + K n log n) for K models and n samples.
    """
    if table.models < 2 or "loss" not in table.values:
        return ()
    found, counts = correlations(table)
    apart = ~np.eye(table.models, dtype=np.bool_)
    usual = [float(np.median(row[others])) for row, others in zip(found, apart, strict=True)]
    every = float(np.median(found[apart]))
    notes: list[str | None] = [None] * table.models
    for row in range(table.models) if table.models > 2 else ():
        among = every
        if table.models <= _FEW:  # of many one hardly matters
            rest = apart.copy()
            rest[row] = rest[:, row] = False
            among = float(np.median(found[rest]))
        error = _SURE / math.sqrt(max(float(np.median(counts[row][apart[row]])), 1.0))
        if among > 2.0 * error and usual[row] + error < _PART * among:
            notes[row] = (
                f"Samples that are hard for the other models are not for model {names[row]}: the "
                f"rank correlation of losses within classes is {usual[row]:.2f}, and "
                f"{among:.2f} between the others, on samples that neither was trained on. "
                f"Model {names[row]} {_CURE}"
            )
    if any(notes) or not _generalizes(table):
        return together(notes)
    mean, pairs = float(found[apart].mean()), float(np.median(counts[apart]))
    if mean + _SURE_OF_ALL / math.sqrt(max(pairs * (table.models - 1), 1.0)) >= _LEAST:
        return ()
    return (
        "Samples that are hard for one model are not hard for another: the rank correlation of "
        f"losses within classes is {mean:.2f} on average, on samples that neither was trained on. "
        f"Each file {_CURE}",
    )


def correlations(table: SignalTable) -> tuple[Floats, Floats]:
    """Of each two models, over samples that neither was trained on, and how many these are."""
    from scipy.stats import rankdata

    losses, outside = table.signal("loss"), ~table.member
    ranks = np.zeros(losses.shape)
    for row, own in enumerate(outside):
        ranks[row, own] = rankdata(losses[row, own])
        label = table.label[own]
        sizes = np.maximum(np.bincount(label), 1)
        ranks[row, own] -= (np.bincount(label, ranks[row, own]) / sizes)[label]
    counts = outside.astype(np.float64) @ outside.T
    squares = (ranks * ranks) @ outside.T
    scale = np.sqrt(squares * squares.T)
    found = np.where(scale > 0.0, ranks @ ranks.T / np.maximum(scale, 1e-300), 0.0)
    return found, np.where(scale > 0.0, counts, 0.0)


def _generalizes(table: SignalTable) -> bool:
    """Whether all models learned much of their members, and something of other samples.

    What a model finds hard after a few steps is what its first weights made hard.
    """
    right = table.values.get("correctness")
    if right is None:
        return False
    for row, member in enumerate(table.member):
        (good, every), (learned, inside) = right_of(right[row].astype(np.bool_), member)
        if not every or not inside:
            return False
        common = np.bincount(table.label).max() / table.samples
        if learned / inside < (1.0 + common) / 2.0:
            return False
        if clopper_pearson(int(good), int(every), 1e-3)[0] <= common:
            return False
    return True
