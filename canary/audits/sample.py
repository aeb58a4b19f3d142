"""Canaries beside uniform draws, encoded once to be priced again and again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from canary.errors import EstimationError
from canary.formats.format import Format
from canary.scoring.batcher import Batcher
from canary.search.pricing import ListedRows
from canary.statistics.exposures import Exposure, exposure_by_draws
from canary.statistics.extrapolation import skew_normal_bits
from canary.statistics.number_checks import LARGEST_BITS
from canary.tokens.candidates import CandidateEncoder

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class SampleResult:
    """Canaries of a sample: log-perplexities, exposures, and estimates off a fitted curve.

    `px_bits` and `curve_bits` have shape (k,); `curve_bits` is NaN where no curve fits.
    """

    px_bits: Floats
    exposures: Sequence[Exposure]
    curve_bits: Floats


@dataclass(frozen=True, eq=False)
class Sample:
    """Token rows of canaries, then of the draws that are no canaries.

    `draws` are the places of all draws among the rows.
    """

    rows: ListedRows = field(repr=False)
    canaries: int
    draws: NDArray[np.int64]
    space_size: int

    @classmethod
    def of(
        cls, format: Format, fills: Sequence[str], drawn: Sequence[str], encoder: CandidateEncoder
    ) -> Sample:
        """Encode fills of canaries, and fills that were drawn."""
        places = {fill: place for place, fill in enumerate(fills)}
        for fill in drawn:
            places.setdefault(fill, len(places))
        rows = ListedRows(encoder.candidates(format, list(places)))
        draws = np.array([places[fill] for fill in drawn], np.int64)
        return cls(rows, len(fills), draws, format.size)

    def measure(self, batcher: Batcher) -> SampleResult:
        """Exposure of every canary under the model as it is now."""
        px = self.rows.price(batcher)
        bounded = np.minimum(px, LARGEST_BITS)  # probability 0 is a miss like any other
        mine, others = bounded[: self.canaries], self.draws[self.draws >= self.canaries]
        noise_bits = batcher.model.facts.noise_bits(self.rows.longest)
        exposures = exposure_by_draws(
            mine, bounded[self.draws], space_size=self.space_size, noise_bits=noise_bits
        )
        try:
            curve = skew_normal_bits(mine, px[others], noise_bits=noise_bits)
        except EstimationError:  # few draws, or all alike
            curve = np.full(self.canaries, np.nan)
        return SampleResult(px[: self.canaries], exposures, np.asarray(curve, np.float64))
