"""What an exposure estimator returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from canary.records.fields import from_fields

__all__ = ["Exposure"]


@dataclass(frozen=True)
class Exposure:
    """Exposure of one canary: log2|R| - log2 rank, in bits.

    Parameters
    ----------
    bits : float or None
        The estimate; None where only a bound is known (`censored`).
    lower_bits, upper_bits : float
        The interval.
    confidence : float or None
        Confidence of the interval; None where it is certain, to within the noise of the
        model's arithmetic.
    method : str
        ``"enumeration"`` or ``"uniform draws"``.
    space_bits : float
        log2|R|, the largest exposure that there is.
    p_value : float
        Probability of an exposure at least as large if the canary was not learned.
    rank, rank_lower, rank_upper : int or None
        Candidates with Px <= Px(canary), the canary included, and its bounds; None for
        an estimate from draws.
    draws, hits : int or None
        Candidates drawn, and those among them with Px <= Px(canary).
    """

    bits: float | None
    lower_bits: float
    upper_bits: float
    confidence: float | None
    method: str
    space_bits: float
    p_value: float
    rank: int | None = None
    rank_lower: int | None = None
    rank_upper: int | None = None
    draws: int | None = None
    hits: int | None = None

    @property
    def censored(self) -> bool:
        """Whether only a lower bound is known: no draw was as likely as the canary."""
        return self.bits is None

    def to_dict(self) -> dict[str, Any]:
        """The result as plain data."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Exposure:
        """The inverse of `to_dict`; a TypeError names a field of another type."""
        return from_fields(cls, data)
