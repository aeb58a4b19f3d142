"""What an exposure estimator returns."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

from canary.records.record import Infinite, Record

ENUMERATION = "enumeration"
"""The method that prices every candidate of the space."""

RANK = "rank"
"""The method that prices all candidates that may count, or bounds the rank where it cannot."""

RANK_AND_DRAWS = "rank and draws"
"""The method in which such bounds cut the interval of uniform draws."""

UNIFORM_DRAWS = "uniform draws"
"""The method whose exposures rest on draws alone."""

IMPORTANCE = "importance draws"
"""The method that draws what is likely more often, and weights it."""

SKEW_NORMAL = "skew-normal"
"""The method whose exposures are unbounded and have no p-value."""


MOST_BITS = 1e15
"""Beyond it no exposure is one, and no figure could show it."""

_ROUNDING_BITS = 1e-6


@dataclass(frozen=True)
class Exposure(Record):
    """Exposure of one canary: log2|R| - log2 rank, in bits.

    Parameters
    ----------
    bits : float or None
        The estimate; None where only a bound is known (`censored`).
    lower_bits, upper_bits : float
        The interval. Only that of a skew-normal estimate may have no upper end (infinity).
    confidence : float or None
        Confidence of the interval; None where it is certain, to within the noise of the
        model's arithmetic.
    method : str
        `ENUMERATION`, `RANK`, `RANK_AND_DRAWS`, `UNIFORM_DRAWS`, `IMPORTANCE` or
        `SKEW_NORMAL`.
    space_bits : float
        log2|R|, the largest exposure that there is; a skew-normal estimate may exceed it.
    p_value : float or None
        Probability of an exposure at least as large if the canary was not learned. None
        for a skew-normal estimate: it is read off a curve that was fitted, and nothing
        bounds how often it is too high.
    rank, rank_lower, rank_upper : int or None
        Candidates with Px <= Px(canary), the canary included, and its bounds; None for
        an estimate from draws. Where only the bounds are known, `rank` is None.
    draws, hits : int or None
        Candidates drawn uniformly, and those among them with Px <= Px(canary); None where neither
        the interval nor the p-value rests on draws.
    tail_bits : float or None
        Of a skew-normal estimate, the whole tail of the curve: ``-log2 F(Px)`` beside the
        ``-log2 (F(Px) - F(0))`` of `bits`. None if the curve has nothing there at all.
    effective_draws : float or None
        Of importance draws: how many uniform hits would tell as much of the rank. None
        where all that count were found, or where the sample tells nothing of it.
    """

    bits: float | None
    lower_bits: float
    upper_bits: Annotated[float, Infinite(up=None)]
    confidence: float | None
    method: str
    space_bits: float
    p_value: float | None
    rank: int | None = None
    rank_lower: int | None = None
    rank_upper: int | None = None
    draws: int | None = None
    hits: int | None = None
    tail_bits: float | None = None
    effective_draws: float | None = None

    @property
    def censored(self) -> bool:
        """Whether only bounds are known: no draw was as likely, or the search did not end."""
        return self.bits is None

    @property
    def exact(self) -> bool:
        """Whether the rank was counted, to within the noise of the model's arithmetic."""
        return self.rank is not None

    @property
    def unbounded(self) -> bool:
        """Whether it may exceed log2|R|: it is read off a curve, not counted."""
        return self.method == SKEW_NORMAL

    def _check(self) -> None:
        if self.unbounded != (self.p_value is None):
            raise ValueError("p_value does not go with the method")
        most = MOST_BITS if self.unbounded else self.space_bits + _ROUNDING_BITS
        low, high = self.lower_bits, self.upper_bits
        middle = low if self.bits is None else self.bits
        ranks = [n for n in (self.rank_lower, self.rank, self.rank_upper) if n is not None]
        open_ended = self.unbounded and high == math.inf
        sound = {
            "space_bits": 0.0 <= self.space_bits <= MOST_BITS,
            "lower_bits or upper_bits": -_ROUNDING_BITS <= low <= most
            and (open_ended or -_ROUNDING_BITS <= high <= most),
            "bits outside of the interval": middle <= most
            and low - _ROUNDING_BITS <= middle <= high + _ROUNDING_BITS,
            "ranks": ranks == sorted(ranks)
            and all(n >= 1 and math.log2(n) <= self.space_bits + _ROUNDING_BITS for n in ranks),
            "draws and hits": 0 <= (self.hits or 0) <= (self.draws or 0),
            "confidence": self.confidence is None or 0.0 < self.confidence < 1.0,
        }
        for name, holds in sound.items():
            if not holds:
                raise ValueError(f"{name} cannot be")
