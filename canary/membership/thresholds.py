"""The thresholds that tell members from nonmembers best, for all classes at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from canary.errors import EstimationError


@dataclass(frozen=True, eq=False)
class Thresholds:
    """A threshold for each class.

    Parameters
    ----------
    values : ndarray of float64 of shape (classes,)
        A sample is called a member when its value is at least that of its class. NaN calls
        nobody a member: no threshold does better than a coin.
    pooled : ndarray of bool of shape (classes,)
        Classes that have no threshold of their own, since they lack members or nonmembers:
        they take the one of all classes together.
    """

    values: NDArray[np.float64]
    pooled: NDArray[np.bool_]


def learn_thresholds(
    values: NDArray[np.float64],
    member: NDArray[np.bool_],
    label: NDArray[np.int64],
    *,
    classes: int,
) -> Thresholds:
    """For each class the threshold with the best balanced accuracy on these samples. O(n log n).

    Parameters
    ----------
    values : ndarray of float64 of shape (samples,)
        Higher for what looks like a member. Infinities are values like others.
    member : ndarray of bool of shape (samples,)
    label : ndarray of int64 of shape (samples,)
        From 0 to classes - 1.
    classes : int

    Returns
    -------
    Thresholds
        Of equally good ones the highest, which calls the fewest samples members; the
        candidates are the values themselves and "nobody".

    Raises
    ------
    EstimationError
        If a value is NaN, or all samples together are of one kind.
    """
    where = "learn_thresholds"
    if np.isnan(values).any():
        raise EstimationError(
            f"{int(np.isnan(values).sum())} of {len(values)} values are NaN",
            cure="leave out samples that have no value",
            where=where,
        )
    if member.all() or not member.any():
        raise EstimationError(
            f"all {len(member)} shadow samples are of one kind",
            cure="give members and nonmembers of the shadow model",
            where=where,
        )
    order = np.argsort(-values)  # how ties lie does not matter
    together = _best(values[order], member[order], np.zeros(len(order), np.int64), 1)[0]
    if classes == 1:
        return Thresholds(np.array([together]), np.zeros(1, np.bool_))
    # Labels of 16 bits are sorted by counting.
    small = label[order].astype(np.uint16 if classes <= 1 << 16 else np.int64)
    order = order[np.argsort(small, kind="stable")]
    found = _best(values[order], member[order], label[order], classes)
    members = np.bincount(label[member], minlength=classes)
    nonmembers = np.bincount(label, minlength=classes) - members
    pooled = (members == 0) | (nonmembers == 0)
    return Thresholds(np.where(pooled, together, found), pooled)


def _best(
    values: NDArray[np.float64],
    member: NDArray[np.bool_],
    label: NDArray[np.int64],
    classes: int,
) -> NDArray[np.float64]:
    """The best threshold of each class; NaN for nobody and for classes of one kind.

    Samples come sorted by class, and within a class from the highest value down.
    """
    sizes = np.bincount(label, minlength=classes)
    ends = np.cumsum(sizes)
    hits = np.cumsum(member, dtype=np.int64)
    before = np.append(0, hits)[ends - sizes]  # members of the classes before
    members = np.append(0, hits)[ends] - before
    nonmembers = sizes - members
    # A threshold calls all samples of one value together: only the last of them counts.
    last = np.ones(len(values), np.bool_)
    last[:-1] = (values[1:] != values[:-1]) | (label[1:] != label[:-1])
    at = np.flatnonzero(last)
    of = label[at]
    called = at + 1 - (ends - sizes)[of]
    true = hits[at] - before[of]
    gain = true * nonmembers[of] - (called - true) * members[of]
    best = np.full(classes, np.nan)
    there = np.flatnonzero(sizes)
    starts = np.searchsorted(of, there)
    most = np.zeros(classes, np.int64)
    most[there] = np.maximum.reduceat(gain, starts)
    winners = np.flatnonzero((gain == most[of]) & (gain > 0))
    first = winners[::-1]  # the highest value is written last
    best[of[first]] = values[at[first]]
    return best
