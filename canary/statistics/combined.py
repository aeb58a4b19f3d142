"""What a combination of p-values returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from canary.records.fields import from_fields

__all__ = ["CombinedP"]


@dataclass(frozen=True)
class CombinedP:
    """One p-value for a group of canaries.

    Parameters
    ----------
    p_value : float
        Probability of exposures at least as large in sum if none was learned.
    statistic : float
        The test statistic, ``-2 sum ln p``, after the correction if there was one.
    degrees_of_freedom : int
        Of the chi-square distribution that it is compared with unless the draws are shared.
    count : int
        Canaries in the group.
    shared_draws : int or None
        Number of draws that the p-values have in common; None if they are exact.
    """

    p_value: float
    statistic: float
    degrees_of_freedom: int
    count: int
    shared_draws: int | None

    def to_dict(self) -> dict[str, Any]:
        """The result as plain data."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> CombinedP:
        """The inverse of `to_dict`; a TypeError names a field of another type."""
        return from_fields(cls, data)
