"""What a combination of p-values returns."""

from __future__ import annotations

from dataclasses import dataclass

from canary.records.record import Record

__all__ = ["CombinedP"]


@dataclass(frozen=True)
class CombinedP(Record):
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
