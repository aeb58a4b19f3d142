"""Ranks of some candidates among others: counted as costs stream by, or bounded for certain."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from canary.statistics.histogram import Histogram, HistogramBuilder
from canary.tokens.arrays import LEAF, TokenTree, exact_counts
from canary.tokens.tree import LARGEST

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class CensusResult:
    """Ranks with the bounds that noise leaves open.

    Parameters
    ----------
    rank, lower, upper : int64 arrays of shape (k,)
        Candidates with Px <= Px(canary), the canary included; counting of the others
        only those surely below, and all those not surely above.
    histogram : Histogram
        Px of all candidates, in bits.
    candidates : int
        How many were counted.
    kept_bits : float64 array of shape (d,)
        Px of those that were asked for, ascending: nothing says which is whose.
    """

    rank: Ints
    lower: Ints
    upper: Ints
    histogram: Histogram
    candidates: int
    kept_bits: Floats


class Limits:
    """Counts the others that are at least as likely as each canary, batch by batch.

    Costs within `noise_bits` of a canary's are ties of unknown order. The canary itself is known
    by its number (`index`: of its leaf, or of its fill) and left out, whatever the noise did to
    its cost. Without noise a tie is a tie and counts. All arrays have shape (k,).
    """

    def __init__(self, px_bits: Floats, index: Ints, *, noise_bits: float) -> None:
        self._index = np.asarray(index)
        # Up to these others are surely below, at most as dear, and not surely above.
        below = np.nextafter(px_bits - noise_bits, -np.inf) if noise_bits else px_bits
        self._limits = np.stack([below, px_bits, px_bits + noise_bits])

    def count(
        self,
        ordered_bits: Floats,
        costs_bits: Floats,
        bounds: tuple[int, int],
        index: Callable[[], Ints],
    ) -> Ints:
        """Others surely below each canary, at most as dear, and not surely above: shape (3, k).

        A batch of candidates is given in ascending order, and in that of their numbers. `bounds`
        and `index` are as in `Census.add`.
        """
        counts = np.searchsorted(ordered_bits, self._limits, side="right")
        inside = np.flatnonzero((self._index >= bounds[0]) & (self._index < bounds[1]))
        if len(inside) and len(costs_bits):
            numbers = index()
            order = np.argsort(numbers)
            place = np.searchsorted(numbers, self._index[inside], sorter=order)
            place = order[np.minimum(place, len(order) - 1)]
            here = numbers[place] == self._index[inside]
            canaries = inside[here]
            counts[:, canaries] -= costs_bits[place[here]] <= self._limits[:, canaries]
        return counts


class Census:
    """Ranks of canaries among all candidates, and how those are distributed.

    Parameters
    ----------
    px_bits, index, noise_bits
        As in `Limits`.
    keep : int64 array of shape (d,), optional
        Different numbers of candidates whose costs are kept as they are found.
    """

    def __init__(
        self, px_bits: Floats, index: Ints, *, noise_bits: float, keep: Ints | None = None
    ) -> None:
        self._px_bits, self._noise = px_bits, noise_bits
        self._index = np.asarray(index, np.int64)
        self._limits = Limits(px_bits, index, noise_bits=noise_bits)
        self._counts = np.zeros((3, len(px_bits)), np.int64)
        self._histogram = HistogramBuilder()
        self._candidates = 0
        self._keep = np.sort(np.zeros(0, np.int64) if keep is None else keep)
        self._kept = np.zeros(0)

    def add(self, costs_bits: Floats, bounds: tuple[int, int], index: Callable[[], Ints]) -> None:
        """Count a batch of candidates; O(m log m + k log m + m log d).

        Parameters
        ----------
        costs_bits : array of shape (m,)
        bounds : (int, int)
            All their numbers are in this half-open range.
        index : callable
            Gives the numbers, shape (m,); called only if a canary or one of those to be
            kept may be among them.
        """
        ordered = np.sort(costs_bits)
        self._counts += self._limits.count(ordered, costs_bits, bounds, index)
        self._histogram.add(ordered, ordered=True)
        self._candidates += len(ordered)
        first, last = np.searchsorted(self._keep, bounds)
        if len(ordered) and first < last:
            kept = costs_bits[np.isin(index(), self._keep[first:last])]
            self._kept = np.concatenate([self._kept, kept])

    def part(self) -> Census:
        """An empty census of the same canaries, for some of the candidates."""
        return Census(self._px_bits, self._index, noise_bits=self._noise, keep=self._keep)

    def to_dict(self) -> dict[str, Any]:
        """What was counted, as plain data: numbers only, nothing of a fill.

        The kept costs ascend. Beside their numbers, gaps would give away fills: who has the seed
        of the draws knows which candidates were drawn, and the canaries are left out.
        """
        return {
            "counts": self._counts.tolist(),
            "histogram": self._histogram.build().to_dict(),
            "candidates": self._candidates,
            "kept": np.sort(self._kept).tolist(),
        }

    def merge(self, counted: Mapping[str, Any]) -> None:
        """Add what `to_dict` gave of a census of the same canaries over other candidates."""
        self._counts += np.array(counted["counts"], np.int64).reshape(self._counts.shape)
        self._histogram.merge(Histogram.from_dict(counted["histogram"]))
        self._candidates += int(counted["candidates"])
        self._kept = np.concatenate([self._kept, np.array(counted["kept"], np.float64)])

    def result(self) -> CensusResult:
        """The ranks over everything added."""
        lower, rank, upper = 1 + self._counts
        histogram = self._histogram.build()
        return CensusResult(rank, lower, upper, histogram, self._candidates, np.sort(self._kept))


@dataclass(frozen=True, eq=False)
class RankBounds:
    """What a walk knows of each canary's rank, in the order in which they were given.

    Parameters
    ----------
    lower, upper : integer arrays of shape (k,)
        The rank is between them: for certain, to within the noise. Python's integers
        (dtype object) where int64 does not hold them.
    rank : int64 array of shape (k,)
        Candidates with Px <= Px(canary), the canary included, where it is `exact`;
        elsewhere those that were found so far.
    exact : bool array of shape (k,)
        Whether every candidate that may count was scored. Then `lower` and `upper`
        differ by the ties only that the noise leaves undecided.
    candidates : int
        Leaves that were scored, those of passes that began anew more than once.
    queries : int
        Tokens computed below the context.
    """

    lower: Ints
    upper: Ints
    rank: Ints
    exact: NDArray[np.bool_]
    candidates: int
    queries: int

    def to_dict(self) -> dict[str, Any]:
        """The bounds as plain data: numbers only, nothing of a fill."""
        return {
            name: value.tolist() if isinstance(value, np.ndarray) else value
            for name, value in vars(self).items()
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> RankBounds:
        """The inverse of `to_dict`."""
        arrays = {name: exact_counts(data[name]) for name in ("lower", "upper", "rank")}
        return cls(**{**data, **arrays, "exact": np.array(data["exact"], np.bool_)})


def tokens_below(tree: TokenTree) -> int:
    """Most tokens of a candidate below the context of a tree."""
    ahead = 1 + np.diff(tree.forced_offsets)
    inner = tree.targets != LEAF
    depth = np.zeros(len(tree.leaves), np.int64)
    while True:  # one round per token
        below = np.where(inner, depth[tree.targets], 0)
        longer = np.maximum.reduceat(ahead + below, tree.offsets[:-1])
        if (longer == depth).all():
            return int(depth[0])
        depth = longer


def nodes_by_level(tree: TokenTree) -> list[int]:
    """Inner nodes at each depth below the root, each counted with the tokens forced before it."""
    inner = np.flatnonzero(tree.targets != LEAF)
    owners = np.repeat(np.arange(len(tree.leaves)), tree.degrees)[inner]
    targets, tokens = tree.targets[inner], 1 + np.diff(tree.forced_offsets)[inner]
    here: Floats = np.zeros(len(tree.leaves))
    levels: list[int] = []
    here[0] = 1.0
    while True:
        reached = here[owners]
        levels.append(int((reached * tokens).sum()))
        here = np.bincount(targets, weights=reached, minlength=len(here)).astype(np.float64)
        if not here.any():
            return levels[:-1]


def most_leaves(bits: Floats, leaves: Ints, *, excess_bits: float) -> Ints:
    """At least as many leaves below a node as can cost at most so many bits below it.

    Each of them has a probability of at least ``2**-bits`` below its node, and they sum to
    at most ``2**excess_bits`` there: what the model's arithmetic may add to a sum of 1. `bits`
    are 0 or more, `leaves` all leaves below; both of shape (n,).
    """
    if leaves.dtype == object:
        powers = np.exp2(np.clip(bits, 0.0, math.log2(LARGEST)) + excess_bits)
        return np.minimum(np.frompyfunc(int, 1, 1)(powers), leaves)
    few = bits + excess_bits < 62.0
    bound = np.exp2(np.where(few, bits, 0.0) + excess_bits).astype(np.int64)
    return np.where(few, np.minimum(bound, leaves), leaves)


def bounds_by_place(
    px_bits: Floats,
    leaves: Ints,
    rest_bits: float,
    *,
    size: int,
    context_bits: float,
    noise_bits: float,
    excess_bits: float,
) -> tuple[Ints, Ints]:
    """Least and greatest rank of each of the most likely leaves, by their costs, ascending.

    They are counted among those found, whose numbers are `leaves`. Every other leaf of the
    `size` candidates costs at least `rest_bits`. Where one may be as likely, at most ``2**B`` can
    be, B being the bits below the context.
    """
    limits = Limits(px_bits, leaves, noise_bits=noise_bits)
    everywhere = (0, int(leaves.max(initial=-1)) + 1)
    below, _, not_above = 1 + limits.count(px_bits, px_bits, everywhere, leaves.copy)
    up_to = px_bits + noise_bits
    sizes = exact_counts([size] * len(px_bits))
    free = most_leaves(up_to - context_bits, sizes, excess_bits=excess_bits)
    return below, np.where(up_to < rest_bits, not_above, np.maximum(free, below))
