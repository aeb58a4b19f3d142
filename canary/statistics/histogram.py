"""A histogram of log-perplexities that can be filled chunk by chunk."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from canary.errors import EstimationError
from canary.records.record import Record
from canary.statistics.number_checks import LARGEST_BITS

_MOST_BINS = 4096
_LEAST_WIDTH = 2.0**-64
_EXACT = 2.0**52  # bins from 0 whose numbers and edges are exact


@dataclass(frozen=True)
class Histogram(Record):
    """Counts in bins of equal width.

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

    def _check(self) -> None:
        if not all(count >= 0 for count in self.counts) or self.total >= 2**63:
            raise ValueError("counts of a histogram are 0 or more, in sum fewer than 2^63")
        # Far beyond what any log-perplexity is, and far from what overflows.
        if not (abs(self.start_bits) < 1e15 and 1e-6 < self.width_bits < 1e15):
            raise ValueError("a histogram has a finite start and bins of a positive width")


class HistogramBuilder:
    """Counts values into bins of one width; memory grows with the range, not the count.

    The width is a power of two, else an EstimationError says so: then the edges are exact, and no
    value falls between two bins or into both. Where the values span more than 4,096 bins it is
    doubled until they do not.
    """

    def __init__(self, width_bits: float = 0.125) -> None:
        if math.frexp(width_bits)[0] != 0.5 or not _LEAST_WIDTH <= width_bits <= LARGEST_BITS:
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

        One that is `ordered` has one dimension and ascends: it is not sorted again.
        """
        values = values_bits if ordered else np.sort(values_bits, axis=None)
        # NaN sorts behind +inf.
        values = values[np.searchsorted(values, -np.inf, "right") : np.searchsorted(values, np.inf)]
        if not len(values):
            return
        farthest = max(-values[0], values[-1])
        if farthest > LARGEST_BITS:
            raise EstimationError(
                f"{farthest:g} is no log-perplexity in bits",
                cure="look for overflow in the model's numbers",
                where="HistogramBuilder.add",
            )
        while (
            values[-1] - values[0] > _MOST_BINS * self.width_bits
            or farthest > _EXACT * self.width_bits
        ):
            self._coarsen()
        ends = np.floor(values[[0, -1]] / self.width_bits)
        ends -= ends * self.width_bits > values[[0, -1]]  # the quotient may underflow to 0
        first, last = ends.astype(np.int64).tolist()
        edges = np.arange(first, last + 2) * self.width_bits
        self._count(first, np.diff(np.searchsorted(values, edges)))

    def merge(self, histogram: Histogram) -> None:
        """Count what a histogram has counted; the coarser bins of the two are kept.

        Raises
        ------
        EstimationError
            If its bins are no joined or split ones of these.
        """
        first, width = histogram.start_bits / histogram.width_bits, histogram.width_bits
        if math.frexp(width)[0] != 0.5 or first != int(first):
            raise EstimationError(
                f"bins of {width} bits from {histogram.start_bits} do not fit "
                f"bins of {self.width_bits} bits",
                cure="count again with bins whose width is a power of two",
                where="HistogramBuilder.merge",
            )
        if not histogram.counts:
            return
        place, counts = int(first), np.array(histogram.counts, np.int64)
        while self.width_bits < width:
            self._coarsen()
        while width < self.width_bits:
            place, counts = joined(place, counts)
            width *= 2
        self._count(place, counts)

    def build(self) -> Histogram:
        """The histogram so far."""
        return Histogram(
            self._first * self.width_bits, self.width_bits, tuple(self._counts.tolist())
        )

    def _coarsen(self) -> None:
        """Join bins in pairs."""
        self.width_bits *= 2
        if len(self._counts):
            self._first, self._counts = joined(self._first, self._counts)

    def _count(self, first: int, counts: NDArray[np.int64]) -> None:
        """Add the counts of bins from the first on, all joined in pairs where there are many."""
        while True:
            start, end = first, first + len(counts)
            if len(self._counts):
                start = min(first, self._first)
                end = max(end, self._first + len(self._counts))
            if end - start <= _MOST_BINS:
                break
            self._coarsen()
            first, counts = joined(first, counts)
        total = np.zeros(end - start, np.int64)
        for place, some in ((self._first, self._counts), (first, counts)):
            total[place - start : place - start + len(some)] += some
        self._first, self._counts = start, total


def joined(first: int, counts: NDArray[np.int64]) -> tuple[int, NDArray[np.int64]]:
    """First number and counts of bins joined in pairs, each of an even number with the next."""
    lead = first % 2
    padded = np.pad(counts, (lead, (lead + len(counts)) % 2))
    return first // 2, padded.reshape(-1, 2).sum(axis=1)
