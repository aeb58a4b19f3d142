"""Was a target trained as the models that it is compared with? By accuracy and by loss."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from canary.signals.signal_table import SignalTable
from canary.statistics.numbers import percent_of, plural
from canary.statistics.roc import Estimate
from canary.statistics.shares import difference_interval

PAIR = "The target", "the shadow", "its own", "shadow"
"""Of one target and one shadow: both, whose samples those of the shadow are, what to train."""

_GAP = 0.1
"""Least difference of two shares that is noted: models that were trained alike are closer."""

_LEAST_GAP, _RARE = 0.03, 1e-3
"""Of a target and three or more others, where their spread is known: the least difference of the
accuracy on non-members, and the chance of a larger one among models that were trained alike."""

_SCALED, _FEWEST = 0.2, 30
"""Of the spread of logits: the least logarithm of a ratio, and non-members that show it."""

_LOW = "the figures may be too low"
HIDES = f"{_LOW}, but not too high"
"""Of a doubt by which attacks find less, and nothing that is not there."""

_UNRELATED = (
    "{} is right on {} of its members and {} of its non-members, nearly the same, and {} on {} and "
    "{} of {}: either the flags are not those of this model's samples, or it was trained "
    "differently, as on other data or for less or more time. In that case, "
)
_WHY = (
    "what is learned on so different a model may not fit, and {}. First "
    "make sure that labels and flags are those of this model's own samples, in the same order. If "
    "they are, train the {} as the target was, on as many samples of the same source"
)


def only_hides(note: str) -> bool:
    """Whether a note says that attacks may find too little, and nothing that is not there.

    What attacks learned does not depend on who is a member of the target, so that it fits badly
    makes no members. But where the target's members are the easier ones, by more than those of the
    others are, they may be of another source: then attacks find that.
    """
    return HIDES in note


def unlike_others(
    names: Sequence[str],
    targets: Sequence[int],
    counts: Sequence[NDArray[np.int64]],
    aucs: Mapping[int, Estimate],
    table: SignalTable,
    *,
    sure: float,
) -> list[str | None]:
    """A note on each target that is unlike the others: by `right_of`, scale or the AUC of the loss.

    `counts` are of all models, or empty; `aucs` of those that have one, with intervals.
    """
    every = np.sum(counts, axis=0)
    several = len(names) > 2
    others = f"the other model{'s' * several}", "theirs" if several else "its own", "others"
    notes: list[str | None] = []
    for row in targets if len(names) > 1 else ():
        note, rest = None, [auc for other, auc in aucs.items() if other != row]
        if len(counts):
            pair = f"Model {names[row]}", *others
            each = 1.0 - (1.0 - sure) / len(targets)
            note = unlike_accuracy(counts[row], every - counts[row], pair, sure=each)
            note = note or _outside(counts, row, names[row], len(targets))
        note = note or _other_scale(table, row, names[row], len(targets))
        if note is None and row in aucs and rest:
            note = _unlike_auc(aucs[row], rest, names[row])
        notes.append(note)
    return notes


def right_of(right: NDArray[np.bool_], member: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Non-members that are named rightly, and their number; in a second row those of members."""
    both = [(right & kind, kind) for kind in (~member, member)]
    return np.array([[int(one.sum()), int(every.sum())] for one, every in both])


def unlike_accuracy(
    ours: NDArray[np.int64],
    theirs: NDArray[np.int64],
    names: tuple[str, str, str, str],
    *,
    sure: float,
) -> str | None:
    """A note if a target and others, as `right_of` counts them, are not as accurate.

    `names` are as in `PAIR`; `sure` is the confidence.
    """
    gaps = [
        float("inf") if not one[:, 1].all() else one[1, 0] / one[1, 1] - one[0, 0] / one[0, 1]
        for one in (ours, theirs)
    ]
    low_only = gaps[0] <= gaps[1] < float("inf")
    for kind, ours_of, theirs_of in zip(("non-members", "members"), ours, theirs, strict=True):
        counts = (*ours_of.tolist(), *theirs_of.tolist())
        if not (counts[1] and counts[3]):
            continue
        low, high = difference_interval(*counts, confidence=1.0 - (1.0 - sure) / 2.0)
        shares = counts[0] / counts[1], counts[2] / counts[3]
        if not low <= 0.0 <= high and abs(shares[0] - shares[1]) >= _GAP:
            note = (
                f"{names[0]} is right on {percent_of(shares[0])} of its {kind} and {names[1]} on "
                f"{percent_of(shares[1])} of {names[2]}: "
            )
            if _no_gap(ours, sure=sure) and gaps[1] >= _GAP and not _no_gap(theirs, sure=sure):
                of = [[percent_of(row[0] / row[1]) for row in one[::-1]] for one in (ours, theirs)]
                note = _UNRELATED.format(names[0], *of[0], names[1], *of[1], names[2])
            return f"{note}{_WHY.format(HIDES if low_only else _LOW, names[3])}"
    return None


def _no_gap(counts: NDArray[np.int64], *, sure: float) -> bool:
    """Whether as many members as non-members are named rightly, up to chance, and not all."""
    if not counts[:, 1].all() or counts[0, 0] == counts[0, 1]:
        return False
    low, high = difference_interval(*counts[::-1].ravel().tolist(), confidence=sure)
    return low <= 0.0 <= high and abs(float(np.diff(counts[:, 0] / counts[:, 1])[0])) < _GAP


def _outside(counts: Sequence[NDArray[np.int64]], row: int, name: str, targets: int) -> str | None:
    """A note if a target's accuracy on non-members is outside the spread of the others'."""
    from scipy.special import stdtrit

    every = np.array(counts, dtype=np.float64)  # (models, non-members and members, right and all)
    of = every[row, 0, 1]
    if len(every) < 4 or not every[:, 0, 1].all():
        return None
    right = every[..., 0] / np.maximum(every[..., 1], 1.0)
    ours, shares = float(right[row, 0]), np.delete(right[:, 0], row)
    gaps = right[:, 1] - right[:, 0]
    low_only = bool(every[:, 1, 1].all() and gaps[row] <= np.delete(gaps, row).mean())
    mean = float(shares.mean())
    spread = max(float(shares.std(ddof=1)), math.sqrt(mean * (1.0 - mean) / of))
    far = -float(stdtrit(len(shares) - 1, _RARE / (2 * targets)))
    if abs(ours - mean) < max(_LEAST_GAP, far * spread * math.sqrt(1.0 + 1.0 / len(shares))):
        return None
    return (
        f"Model {name} is right on {percent_of(ours)} of its non-members and the "
        f"{len(shares)} other models on {percent_of(float(shares.min()))} to "
        f"{percent_of(float(shares.max()))} of theirs, as models of another network or training "
        f"are: {_WHY.format(HIDES if low_only else _LOW, 'others')}"
    )


def _other_scale(table: SignalTable, row: int, name: str, targets: int) -> str | None:
    """A note if a target's logits are on another scale than the others': of its non-members."""
    from scipy.special import stdtrit

    if "logit-confidence" not in table.values or table.models < 4:
        return None
    kept = [
        one[~own] for one, own in zip(table.signal("logit-confidence"), table.member, strict=True)
    ]
    kept = [one[np.isfinite(one)] for one in kept]
    if min(map(len, kept)) < _FEWEST or not all(one.std() > 0.0 for one in kept):
        return None
    scales = np.log([float(one.std()) for one in kept])
    others = np.delete(scales, row)
    gap = float(scales[row] - others.mean())
    spread = max(float(others.std(ddof=1)), 1.0 / math.sqrt(len(kept[row])))
    far = -float(stdtrit(len(others) - 1, _RARE / (2 * targets)))
    if abs(gap) < max(_SCALED, far * spread * math.sqrt(1.0 + 1.0 / len(others))):
        return None
    return (
        f"The logits of model {name} vary {math.exp(gap):.2f} times as much on its non-members as "
        f"those of the {len(others)} other models on theirs, as where one model's outputs were "
        f"calibrated (temperature): {_WHY.format(HIDES, 'others')}"
    )


def _unlike_auc(ours: Estimate, others: Sequence[Estimate], what: str) -> str | None:
    """A note if the loss of a target separates members much better, or worse, than others' do."""
    middle = sorted(others, key=lambda auc: auc.value)[len(others) // 2]
    apart = ours.upper < middle.lower or middle.upper < ours.lower
    if not apart or abs(ours.value - middle.value) < _GAP:
        return None
    return (
        f"The loss of the member is lower in {percent_of(ours.value)} of pairs of a member and a "
        f"non-member of model {what}, and in {percent_of(middle.value)} of those of the "
        "other models: " + _WHY.format(HIDES if ours.value < middle.value else _LOW, "others")
    )


def together(notes: Sequence[str | None]) -> tuple[str, ...]:
    """Of several models with the same doubt the first, and how many they are."""
    said = [note for note in notes if note]
    also = f". That holds for {len(said)} of {plural(len(notes), 'model')}" * (len(said) > 1)
    return (f"{said[0]}{also}",) if said else ()
