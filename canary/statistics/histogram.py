"""A histogram of log-perplexities that can be filled chunk by chunk."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from canary.errors import EstimationError

__all__ = ["Histogram", "HistogramBuilder"]

_MOST_BINS = 4096


@dataclass(frozen=True)
class Histogram:
    """Counts in bins of equal width.

    Parameters
    ----------
    start_bits : float
        Left edge of the first bin.
    width_bits : float
        Width of every bin.
    counts : tuple of int
        Bin ``i`` counts the values in
        ``[start_bits + i * width_bits, start_bits + (i + 1) * width_bits)``.
    """

    start_bits: float
    width_bits: float
    counts: tuple[int, ...]

    @property
    def total(self) -> int:
        """Number of values counted."""
        return sum(self.counts)

    def edges(self) -> NDArray[np.float64]:
        """Edges of the bins, shape (bins + 1,), in bits."""
        return self.start_bits + self.width_bits * np.arange(len(self.counts) + 1, dtype=np.float64)

    def to_dict(self) -> dict[str, Any]:
        """The histogram as plain data."""
        return {
            "start_bits": self.start_bits,
            "width_bits": self.width_bits,
            "counts": list(self.counts),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Histogram:
        """The inverse of `to_dict`; a ValueError or TypeError says what does not fit."""
        counts = tuple(data["counts"])
        if not all(type(count) is int and count >= 0 for count in counts):
            raise ValueError("counts of a histogram are integers, 0 or more")
        start, width = float(data["start_bits"]), float(data["width_bits"])
        if not (math.isfinite(start) and 0.0 < width < math.inf):
            raise ValueError("a histogram has a finite start and bins of a positive width")
        return cls(start, width, counts)


class HistogramBuilder:
    """Counts values into bins of one width; memory grows with the range, not the count.

    Parameters
    ----------
    width_bits : float
        Width of the bins, a power of two: so the edges are exact, and no value falls
        between two bins or into both. Where the values span more than 4,096 bins it is
        doubled until they do not.

    Raises
    ------
    EstimationError
        If the width is not a positive power of two.
    """

    def __init__(self, width_bits: float = 0.125) -> None:
        if math.frexp(width_bits)[0] != 0.5:
            raise EstimationError(
                f"the width of bins must be a positive power of two, got {width_bits!r}",
                cure="0.125 bits is usual",
                where="HistogramBuilder",
            )
        self.width_bits = width_bits
        self._first = 0
        self._counts = np.zeros(0, np.int64)

    def add(self, values_bits: NDArray[np.float64], *, ordered: bool = False) -> None:
        """Count the finite values of an array of any shape.

        Parameters
        ----------
        values_bits : float64 array
        ordered : bool
            The array has one dimension and ascends: then it is not sorted again.
        """
        values = values_bits if ordered else np.sort(values_bits, axis=None)
        # NaN sorts behind +inf.
        values = values[np.searchsorted(values, -np.inf, "right") : np.searchsorted(values, np.inf)]
        if not len(values):
            return
        while values[-1] - values[0] > _MOST_BINS * self.width_bits:
            self._coarsen()
        first = int(np.floor(values[0] / self.width_bits))
        last = int(np.floor(values[-1] / self.width_bits))
        while self._span(first, last) > _MOST_BINS:
            self._coarsen()
            first, last = first // 2, last // 2
        self._grow(first, last)
        edges = np.arange(first, last + 2) * self.width_bits
        counts = np.diff(np.searchsorted(values, edges, side="left"))
        at = first - self._first
        self._counts[at : at + len(counts)] += counts

    def merge(self, histogram: Histogram) -> None:
        """Count what a builder of the same width has counted.

        Either may have doubled its bins on the way; then the finer bins are joined.

        Raises
        ------
        EstimationError
            If its bins do not fit into these, nor these into its.
        """
        start = histogram.start_bits / histogram.width_bits
        if math.frexp(histogram.width_bits)[0] != 0.5 or start != int(start):
            raise EstimationError(
                f"bins of {histogram.width_bits} bits from {histogram.start_bits} do not fit "
                f"bins of {self.width_bits} bits",
                cure="count again with bins of one width",
                where="HistogramBuilder.merge",
            )
        if not histogram.counts:
            return
        other = HistogramBuilder(histogram.width_bits)
        other._first, other._counts = int(start), np.array(histogram.counts, np.int64)
        while self.width_bits < other.width_bits:
            self._coarsen()
        while other.width_bits < self.width_bits:
            other._coarsen()
        while self._span(other._first, other._first + len(other._counts) - 1) > _MOST_BINS:
            self._coarsen()
            other._coarsen()
        self._grow(other._first, other._first + len(other._counts) - 1)
        at = other._first - self._first
        self._counts[at : at + len(other._counts)] += other._counts

    def build(self) -> Histogram:
        """The histogram so far."""
        return Histogram(
            self._first * self.width_bits, self.width_bits, tuple(self._counts.tolist())
        )

    def _span(self, first: int, last: int) -> int:
        """Bins from the first to the last, those that are there included."""
        if len(self._counts):
            first = min(first, self._first)
            last = max(last, self._first + len(self._counts) - 1)
        return last - first + 1

    def _coarsen(self) -> None:
        """Join bins in pairs, those of an even number with the next."""
        self.width_bits *= 2
        if len(self._counts):
            lead = self._first % 2
            padded = np.pad(self._counts, (lead, (lead + len(self._counts)) % 2))
            self._counts = padded.reshape(-1, 2).sum(axis=1)
            self._first //= 2

    def _grow(self, first: int, last: int) -> None:
        if not len(self._counts):
            self._first = first
            self._counts = np.zeros(last - first + 1, np.int64)
            return
        before = max(self._first - first, 0)
        after = max(last - (self._first + len(self._counts) - 1), 0)
        if before or after:
            self._counts = np.pad(self._counts, (before, after))
            self._first -= before
