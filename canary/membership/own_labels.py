"""Labels that are the models' own answers, or samples of which only the right ones were kept."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from canary.membership.unlike import HIDES
from canary.signals.signal_table import SignalTable
from canary.statistics.numbers import count

_ENOUGH = 300
"""Non-members of each model that must all be right."""

_NEAR, _LEAST, _SHARE = 0.1, 10, 0.01
"""A close call is one whose two best classes are closer than this share of the middle gap. A
note takes this number of them for each model, and this share of its non-members: a model that is
really always right has fewer, whatever the scale of its logits."""

_SURE = math.log(9.0)
"""Middle log-odds of an answer from which on they take the place of gaps that are not known."""


def never_wrong(tables: Sequence[SignalTable]) -> tuple[str, ...]:
    """A note where all models are right on all non-members, of which many were close calls."""
    fewest, closest = [], []
    for table in tables:
        right = table.values.get("correctness")
        if right is None:
            return ()
        for row in range(table.models):
            outside = ~table.member[row]
            if outside.sum() < _ENOUGH or not right[row][outside].all():
                return ()
            gap = _gaps(table, row)[outside]
            near = int((gap < _NEAR * np.median(gap)).sum())
            if near < max(_LEAST, _SHARE * len(gap)):
                return ()
            fewest.append(len(gap))
            closest.append(near)
    return (
        f"Every model is right on all of its non-members ({count(min(fewest))} or more), though in "
        f"{count(min(closest))} or more it hardly preferred its answer to the next class. So the "
        "labels may be the models' own answers, or samples with wrong answers may have been left "
        f"out: {HIDES}. Save the true labels, of all samples",
    )


def _gaps(table: SignalTable, row: int) -> NDArray[np.float64]:
    """By how many nats the answer is before the next class; before all others if that is not known.

    Those of a model that is unsure of most answers say nothing then, and are infinite.
    """
    if table.outputs is not None and table.classes > 1:
        best = np.partition(table.outputs[row], -2, axis=1)[:, -2:].astype(np.float64)
        return best[:, 1] - best[:, 0]
    loss = np.maximum(table.signal("loss")[row], 1e-300)
    odds = -loss - np.log(-np.expm1(-loss))
    return odds if np.median(odds) >= _SURE else np.full(len(odds), np.inf)
