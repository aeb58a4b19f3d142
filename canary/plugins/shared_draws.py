"""Canaries among uniform draws that are made once and priced again and again."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from canary.audits.history import WatchedCanary, WatchedFormat
from canary.corpus.canaries import CanarySet
from canary.errors import EstimationError, NotFiniteError
from canary.models.language_model import LanguageModel
from canary.scoring.batcher import Batcher
from canary.search.pricing import ListedRows
from canary.statistics.checks import LARGEST_BITS
from canary.statistics.exposure_result import Exposure
from canary.statistics.exposures import exposure_by_draws
from canary.statistics.extrapolation import skew_normal_bits
from canary.tokens.candidates import CandidateEncoder
from canary.tokens.normalization_check import check_kept_apart
from canary.tokens.tokenizer import Encoding

__all__ = ["Measured", "SharedDraws"]

_STREAM = 0x6D6F6E69  # keeps the draws apart from the canaries of the same seed


@dataclass(frozen=True, eq=False)
class Measured:
    """The canaries of a set under a model, in their order."""

    px_bits: tuple[float, ...]
    exposures: tuple[Exposure, ...]
    curve_bits: tuple[float | None, ...]


@dataclass(frozen=True, eq=False)
class _OneFormat:
    """Rows of a format: its canaries, then the draws that are none of them.

    `draws` are the places of all draws among the rows, `places` those of the canaries in
    the set.
    """

    places: tuple[int, ...]
    rows: ListedRows
    draws: NDArray[np.int64]
    about: WatchedFormat


@dataclass(frozen=True, eq=False)
class SharedDraws:
    """Token rows of all canaries and draws, encoded once."""

    canaries: tuple[WatchedCanary, ...]
    parts: tuple[_OneFormat, ...]

    @classmethod
    def of(
        cls, canaries: CanarySet, encoder: CandidateEncoder, *, draws: int, seed: int
    ) -> SharedDraws:
        """Draw from each format, and encode.

        Raises
        ------
        FormatError, InputError, ModelError
            As `canary.exposure`: if a format cannot be ranked under this tokenizer.
        """
        parts = []
        for number, format in enumerate(canaries.formats):
            format.check_prefix_free()
            check_kept_apart(format, encoder)
            mine = [(at, c.fill) for at, c in enumerate(canaries) if c.format == number]
            rng = np.random.default_rng([_STREAM, seed, number])
            drawn = format.sample(min(draws, format.size), rng=rng)
            rows = {fill: row for row, (_, fill) in enumerate(mine)}
            for fill in drawn:
                rows.setdefault(fill, len(rows))
            parts.append(
                _OneFormat(
                    places=tuple(at for at, _ in mine),
                    rows=ListedRows(encoder.candidates(format, list(rows))),
                    draws=np.array([rows[fill] for fill in drawn], np.int64),
                    about=WatchedFormat(format.text, format.masked, format.size, len(drawn)),
                )
            )
        watched = tuple(WatchedCanary(c.id, c.format, c.repetitions) for c in canaries)
        return cls(watched, tuple(parts))

    @property
    def formats(self) -> tuple[WatchedFormat, ...]:
        """What a history says of each format."""
        return tuple(part.about for part in self.parts)

    @property
    def longest(self) -> int:
        """Tokens of the longest row."""
        return max(part.rows.longest for part in self.parts)

    def tokens(self, model: LanguageModel) -> int:
        """Tokens that a model computes for all rows."""
        return sum(part.rows.tokens(model) for part in self.parts)

    def some(self, count: int) -> list[Encoding]:
        """So many rows, to try how long they take."""
        return [row for part in self.parts for row in part.rows.encodings][:count]

    def certain_bits(self) -> tuple[float, ...]:
        """Of each format, the largest exposure that its draws can show: no draw as likely."""
        return tuple(
            exposure_by_draws([0.0], np.ones(f.draws), space_size=f.space_size)[0].lower_bits
            for f in self.formats
        )

    def measure(self, model: LanguageModel, *, batch_size: int | None) -> Measured:
        """Exposure of every canary under the model as it is now.

        Raises
        ------
        NotFiniteError
            If the model gives NaN, or gives a canary no probability at all.
        OutOfMemory
            If not even one row fits.
        """
        count = len(self.canaries)
        px_bits = np.zeros(count)
        exposures: list[Exposure | None] = [None] * count
        curves: list[float | None] = [None] * count
        batcher = Batcher(model, batch_size=batch_size)
        for part in self.parts:
            px = part.rows.price(batcher)
            mine = px[: len(part.places)]
            if not np.isfinite(mine).all():
                raise NotFiniteError(
                    f"the model gives a canary of {part.about.masked!r} probability 0",
                    cure="check which tokens the model forbids",
                )
            noise_bits = model.facts.noise_bits(part.rows.longest)
            found = exposure_by_draws(
                mine,
                # A candidate of probability 0 is a miss like any other.
                np.minimum(px[part.draws], LARGEST_BITS),
                space_size=part.about.space_size,
                noise_bits=noise_bits,
            )
            others = px[part.draws[part.draws >= len(part.places)]]
            estimates = _curve_bits(mine, others, noise_bits=noise_bits)
            for at, place in enumerate(part.places):
                px_bits[place] = mine[at]
                exposures[place], curves[place] = found[at], estimates[at]
        return Measured(
            tuple(px_bits.tolist()), tuple(e for e in exposures if e is not None), tuple(curves)
        )


def _curve_bits(
    px: NDArray[np.float64], others: NDArray[np.float64], *, noise_bits: float
) -> Sequence[float | None]:
    try:
        bits = skew_normal_bits(px, others, noise_bits=noise_bits)
    except EstimationError:
        return [None] * len(px)
    return [value if math.isfinite(value) else None for value in bits.tolist()]
