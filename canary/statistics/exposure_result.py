"""What an exposure estimator returns."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from canary.records.fields import from_fields

__all__ = [
    "ENUMERATION",
    "IMPORTANCE",
    "MOST_BITS",
    "RANK",
    "RANK_AND_DRAWS",
    "SKEW_NORMAL",
    "UNIFORM_DRAWS",
    "Exposure",
]

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
class Exposure:
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
    upper_bits: float
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

    def to_dict(self) -> dict[str, Any]:
        """The result as plain data; no upper end is None, for JSON has no infinity."""
        upper = None if math.isinf(self.upper_bits) else self.upper_bits
        return {**asdict(self), "upper_bits": upper}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Exposure:
        """The inverse of `to_dict`.

        A TypeError names a field of another type, a ValueError one that does not go with
        the method (a p-value of a skew-normal estimate, or a missing one of another) or
        with the other fields.
        """
        if not isinstance(data, Mapping):
            raise TypeError(f"an exposure must be an object, got {type(data).__name__}")
        unbounded = data.get("method") == SKEW_NORMAL
        open_ended = unbounded and data.get("upper_bits", 0.0) is None
        found = from_fields(cls, {**data, "upper_bits": 0.0} if open_ended else data)
        if unbounded != (found.p_value is None):
            raise ValueError(f"p_value of a {found.method} exposure is {found.p_value!r}")
        if open_ended:
            found = replace(found, upper_bits=math.inf)
        if problem := _misfit(found):
            raise ValueError(f"{problem} of a {found.method} exposure cannot be")
        return found


def _misfit(e: Exposure) -> str | None:
    """The fields that cannot all be true; None if there are none."""
    most = MOST_BITS if e.unbounded else e.space_bits + _ROUNDING_BITS
    ends = (e.lower_bits, e.upper_bits)
    middle = e.lower_bits if e.bits is None else e.bits
    ranks = [rank for rank in (e.rank_lower, e.rank, e.rank_upper) if rank is not None]
    sound = {
        "space_bits": 0.0 <= e.space_bits <= MOST_BITS,
        "an end of the interval": all(
            end >= -_ROUNDING_BITS and (end <= most or end == math.inf) for end in ends
        ),
        "bits outside of the interval": middle <= most
        and ends[0] - _ROUNDING_BITS <= middle <= ends[1] + _ROUNDING_BITS,
        "ranks": ranks == sorted(ranks)
        and all(n >= 1 and math.log2(n) <= e.space_bits + _ROUNDING_BITS for n in ranks),
        "draws and hits": 0 <= (e.hits or 0) <= (0 if e.draws is None else e.draws),
        "confidence": e.confidence is None or 0.0 < e.confidence < 1.0,
    }
    return next((name for name, holds in sound.items() if not holds), None)
