"""Equally many references for members and for nonmembers, whatever the split.

What a loss is compared with must not tell whose it is. Where losses of all models are alike, the
score of a sample still has a law that depends on the number of its references; members and
nonmembers have scores of one law only if those numbers have one law. In a table they often have
not: of a sample in exactly half of the models, a member of the target is outside one more of the
others than a nonmember; where models failed, or samples were chosen by their number of models,
it is something between.

So each target does without references until the numbers agree. With ``Q1`` and ``Q0`` the
quantile functions of the numbers that members and nonmembers have, a sample at the place u among
its own kind keeps ``min(Q1(u), Q0(u))``. Of a u that is uniform both kinds then keep numbers of
the same law, exactly and for every split, and no rule that only takes references away keeps more.
u is the place of the number in its kind, and within equal numbers that of a random order of the
samples, which has a fixed seed. References that a sample is a member of have the numbers that
are left, and the place ``1 - u``: so both numbers together agree as well.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Matching", "places"]

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
Floats = NDArray[np.float64]

_SEED = 20


def places(samples: int) -> Floats:
    """A random order of the samples, from 0 to 1; always the same."""
    return np.random.default_rng(_SEED).random(samples)


@dataclass(frozen=True, eq=False)
class Matching:
    """How many references are kept, for each target, kind (nonmember, member) and number.

    Parameters
    ----------
    ends : ndarray of int64 of shape (targets, 2, numbers + 1)
        Samples of a kind with fewer references than 0, 1, ..., times the samples of the other
        kind: places of both kinds on one scale.
    low, high : ndarray of int64 of shape (targets, 2, numbers)
        The numbers of the other kind at the first and at the last place of each.
    """

    ends: Ints
    low: Ints
    high: Ints

    @classmethod
    def of(cls, seen: Iterable[tuple[Ints, Flags]], targets: int, most: int) -> Matching:
        """From all samples that are judged.

        Parameters
        ----------
        seen : iterable of pairs of arrays of shape (targets, part)
            How many references each has, and whether it is a member.
        targets, most : int
            Number of targets, and of references.

        Notes
        -----
        Linear in the numbers that are given. Where one kind is empty everything is kept.
        """
        size = most + 1
        cells = np.zeros(targets * 2 * size, np.int64)
        row = 2 * np.arange(targets)[:, None]
        for counts, member in seen:
            cells += np.bincount(((row + member) * size + counts).ravel(), minlength=len(cells))
        table = cells.reshape(targets, 2, size)
        of_kind = table.sum(axis=2, keepdims=True)
        ends = np.zeros((targets, 2, size + 1), np.int64)
        ends[:, :, 1:] = table.cumsum(axis=2) * of_kind[:, ::-1]
        low = np.full((targets, 2, size), most)
        high = low.copy()
        for target, kind in np.argwhere(of_kind.all(axis=1).repeat(2, axis=1)):
            own, other = ends[target, kind], ends[target, 1 - kind, 1:]
            low[target, kind] = np.searchsorted(other, own[:-1], side="right")
            high[target, kind] = np.searchsorted(other, own[1:], side="left")
        low[table == 0] = high[table == 0] = most
        return cls(ends, low, high)

    def kept(self, counts: Ints, member: Flags, place: Floats) -> Ints:
        """How many references each sample keeps, of those that it has.

        Parameters
        ----------
        counts : ndarray of int64 of shape (targets, part)
        member : ndarray of bool of shape (targets, part)
        place : ndarray of float64 of shape (part,)
            Among samples of the same kind and number.
        """
        targets, _, size = self.low.shape
        kind = 2 * np.arange(targets)[:, None] + member
        cell = kind * size + counts
        found, last = self.low.ravel()[cell], self.high.ravel()[cell]
        if (found < last).any():
            ends = self.ends.ravel()
            at, other = kind * (size + 1) + counts, (kind ^ 1) * (size + 1)
            u = ends[at] + place * (ends[at + 1] - ends[at])
            while (behind := (found < last) & (u >= ends[other + found + 1])).any():
                found = found + behind
        return np.asarray(np.minimum(counts, found))
