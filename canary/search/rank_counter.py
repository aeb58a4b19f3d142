"""Ranks of some candidates among all of them, counted as the costs stream by."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from canary.statistics.histogram import Histogram, HistogramBuilder

Ints = NDArray[np.int64]


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
        Px of those that were asked for, ascending: nothing tells which is whose.
    """

    rank: Ints
    lower: Ints
    upper: Ints
    histogram: Histogram
    candidates: int
    kept_bits: NDArray[np.float64]


class Limits:
    """Counts the others that are at least as likely as each canary, batch by batch.

    Costs within `noise_bits` of a canary's are ties of unknown order. The canary itself
    is known by its number and left out, whatever the noise did to its cost. Without noise a
    tie is a tie and counts.

    Parameters
    ----------
    px_bits : float64 array of shape (k,)
        Log-perplexity of each canary.
    index : int64 array of shape (k,)
        Number by which each canary is known: of its leaf, or of its fill.
    noise_bits : float
    """

    def __init__(self, px_bits: NDArray[np.float64], index: Ints, *, noise_bits: float) -> None:
        self._index = np.asarray(index)
        # Three limits per canary: surely below, at most, not surely above.
        below, not_above = px_bits - noise_bits, px_bits + noise_bits
        self._below, self._at_most, self._not_above = below, px_bits, not_above
        if noise_bits == 0.0:
            self._below = np.nextafter(px_bits, np.inf)

    def inside(self, bounds: tuple[int, int]) -> Ints:
        """The canaries whose numbers lie in a half-open range."""
        return np.flatnonzero((self._index >= bounds[0]) & (self._index < bounds[1]))

    def count(
        self,
        ordered_bits: NDArray[np.float64],
        costs_bits: NDArray[np.float64],
        bounds: tuple[int, int],
        index: Callable[[], Ints],
    ) -> Ints:
        """Others surely below each canary, at most as dear, and not surely above.

        Parameters
        ----------
        ordered_bits, costs_bits : arrays of shape (m,)
            A batch of candidates in ascending order, and in that of their numbers.
        bounds, index
            As in `Census.add`.

        Returns
        -------
        int64 array of shape (3, k)
        """
        counts = np.stack(
            [
                np.searchsorted(ordered_bits, self._below, side="left"),
                np.searchsorted(ordered_bits, self._at_most, side="right"),
                np.searchsorted(ordered_bits, self._not_above, side="right"),
            ]
        )
        inside = self.inside(bounds)
        if len(inside) and len(costs_bits):
            numbers = index()
            order = np.argsort(numbers)
            at = np.searchsorted(numbers, self._index[inside], sorter=order)
            at = order[np.minimum(at, len(order) - 1)]
            here = numbers[at] == self._index[inside]
            canaries, own = inside[here], costs_bits[at[here]]
            counts[0, canaries] -= own < self._below[canaries]
            counts[1, canaries] -= own <= self._at_most[canaries]
            counts[2, canaries] -= own <= self._not_above[canaries]
        return counts


class Census:
    """Ranks of canaries among all candidates, and how those are distributed.

    Parameters
    ----------
    px_bits, index, noise_bits
        As in `Limits`.
    keep : int64 array of shape (d,), optional
        Different numbers of candidates whose costs are kept as they come by.
    """

    def __init__(
        self,
        px_bits: NDArray[np.float64],
        index: Ints,
        *,
        noise_bits: float,
        keep: Ints | None = None,
    ) -> None:
        self._px_bits, self._noise = px_bits, noise_bits
        self._index = np.asarray(index, np.int64)
        self._limits = Limits(px_bits, index, noise_bits=noise_bits)
        self._counts = np.zeros((3, len(px_bits)), np.int64)
        self._histogram = HistogramBuilder()
        self._candidates = 0
        self._keep = np.sort(np.zeros(0, np.int64) if keep is None else keep)
        self._kept: list[NDArray[np.float64]] = []

    def add(
        self,
        costs_bits: NDArray[np.float64],
        bounds: tuple[int, int],
        index: Callable[[], Ints],
    ) -> None:
        """Count a batch of candidates.

        Parameters
        ----------
        costs_bits : array of shape (m,)
        bounds : (int, int)
            All their numbers lie in this half-open range.
        index : callable
            Gives the numbers, shape (m,); called only if a canary or one of those to be
            kept may be among them.

        Notes
        -----
        O(m log m + k log m + m log d).
        """
        ordered = np.sort(costs_bits)
        self._counts += self._limits.count(ordered, costs_bits, bounds, index)
        self._histogram.add(ordered, ordered=True)
        self._candidates += len(ordered)
        first, last = np.searchsorted(self._keep, bounds)
        if len(ordered) and first < last:
            numbers = index()
            at = np.minimum(np.searchsorted(self._keep, numbers), last - 1)
            self._kept.append(costs_bits[self._keep[at] == numbers])

    def part(self) -> Census:
        """An empty census of the same canaries, for some of the candidates."""
        return Census(self._px_bits, self._index, noise_bits=self._noise, keep=self._keep)

    def to_dict(self) -> dict[str, Any]:
        """What was counted, as plain data: numbers only, nothing of a fill.

        The kept costs ascend. Beside their numbers, gaps would tell fills: who has the seed
        of the draws knows which candidates were drawn, and the canaries are left out.
        """
        return {
            "counts": self._counts.tolist(),
            "histogram": self._histogram.build().to_dict(),
            "candidates": self._candidates,
            "kept": self._kept_bits().tolist(),
        }

    def merge(self, counted: Mapping[str, Any]) -> None:
        """Add what `to_dict` gave of a census of the same canaries over other candidates."""
        self._counts += np.array(counted["counts"], np.int64).reshape(self._counts.shape)
        self._histogram.merge(Histogram.from_dict(counted["histogram"]))
        self._candidates += int(counted["candidates"])
        self._kept.append(np.array(counted["kept"], np.float64))

    def result(self) -> CensusResult:
        """The ranks over everything added."""
        lower, rank, upper = 1 + self._counts
        histogram = self._histogram.build()
        return CensusResult(rank, lower, upper, histogram, self._candidates, self._kept_bits())

    def _kept_bits(self) -> NDArray[np.float64]:
        return np.sort(np.concatenate([np.zeros(0), *self._kept]))
