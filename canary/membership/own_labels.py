"""Labels that are models' own answers, samples of which only right ones were kept, flat answers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from canary.errors import InputError
from canary.membership.unlike import HIDES
from canary.signals.signal_table import SignalTable
from canary.statistics.numbers import count, percent_of
from canary.statistics.shares import difference_interval

if TYPE_CHECKING:
    from canary.signals.loss_tables import Answers

_ENOUGH = 300
"""Non-members of each model that must all be right."""

_NEAR, _LEAST, _SHARE = 0.1, 10, 0.01
"""A close call is one whose two best classes are closer than this share of the middle gap. A
note takes this number of them for each model, and this share of its non-members: a model that is
really always right has fewer, whatever the scale of its logits."""

_SURE = math.log(9.0)
"""Middle log-odds of an answer from which on they take the place of gaps that are not known."""

_RIGHT, _BETTER = 0.8, 0.999
"""Share of its members that a model names rightly whose answers should be sure, and the confidence
with which it is better on them than on others. After few steps of training, honest answers are
flat, too: then fewer are right, or as many of others."""

_ADABOOST = 0.75
"""What the log-odds of AdaBoost before an even share are at most, of three classes or more."""

_SURER, _MOSTLY = 2.0, 0.5
"""The log-odds of another model's answer beside which these are too flat, and the share of right
answers from which on: models of one design that were trained alike are not so different."""

_FLAT = "as after a softmax of sigmoids or of probabilities"
_ONE_SOFTMAX = "save the logits as the model computes them, or probabilities after one softmax"


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


def too_flat(table: SignalTable, row: int, what: str) -> str | None:
    """A note where a model is right on its members, and yet never sure of an answer.

    The log-odds of an answer before an even share is at most 1 after a softmax of numbers from 0
    to 1, and near it where some are near 0 and 1. Of two classes this decides nothing.
    """
    right, loss, classes = table.values.get("correctness"), table.values.get("loss"), table.classes
    if right is None or loss is None or classes < 3:
        return None
    known, members = right[row] > 0.0, table.member[row]
    counts = [int(x) for kind in (members, ~members) for x in ((known & kind).sum(), kind.sum())]
    if not counts[3] or counts[0] < max(1.0, _RIGHT * counts[1]):
        return None
    if difference_interval(*counts, confidence=_BETTER)[0] <= 0.0:
        return None
    surest, before = _surest(float(loss[row, known].min()), classes)
    if not _is_flat(before):
        return None
    return (
        f"The {what} is right on {percent_of(counts[0] / counts[1])} of its members, and gives no "
        f"right class more than {percent_of(surest)}, {_FLAT}: {HIDES}. "
        f"S{_ONE_SOFTMAX[1:]}"
    )


def refuse_flat(read: Mapping[str, Answers]) -> None:
    """An InputError if answers are too flat beside those of models that were trained alike."""
    found: list[tuple[float, float, float, str]] = []
    for role, said in read.items():
        if said.correct is not None and said.classes > 2:
            for losses, right, source in zip(said.losses, said.correct, said.sources, strict=True):
                surest, before = _surest(float(losses.min()), said.classes)
                place = source if Path(source).suffix else role
                found.append((before, surest, float(right), place))
    for before, surest, right, place in found:
        if _is_flat(before) and right > _MOSTLY and max(found)[0] > _SURER:
            raise InputError(
                f"no label has a probability above {percent_of(surest)}, though "
                f"{percent_of(right)} of the answers are right, {_FLAT}; the answers in "
                f"{max(found)[3]} are not so flat",
                cure=_ONE_SOFTMAX,
                where=place,
            )


def _surest(loss: float, classes: int) -> tuple[float, float]:
    """The probability of the lowest loss, and its log-odds before an even share."""
    surest = math.exp(-loss)
    return surest, math.log(max(surest * (classes - 1), 1e-300) / max(1.0 - surest, 1e-300))


def _is_flat(before: float) -> bool:
    return _ADABOOST < before <= 1.0 + 1e-3


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


def sorted_rows(table: SignalTable) -> Iterator[str]:
    """A note on rows that are sorted by class, since their flags may not have been sorted along."""
    label = table.label
    if np.unique(label).size > 1 and (np.diff(label) >= 0).all():
        yield (
            "the rows are sorted by class: make sure that the flags of members (member) were "
            "sorted along; flags in another order look as if nothing was memorized"
        )
