"""Exposures from certain bounds of a rank, and from bounds and draws together."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import hypergeom

from canary.errors import EstimationError
from canary.statistics.exposures import (
    Exposure,
    exposure_by_bounds,
    exposure_by_bounds_and_draws,
    exposure_by_draws,
    exposure_by_rank,
)


def test_bounds_golden() -> None:
    """Among 1,024 candidates, 8th to 32nd: 5 to 7 bits, p = 32/1024."""
    found = exposure_by_bounds(lower=8, upper=32, space_size=1024)
    assert (found.bits, found.lower_bits, found.upper_bits) == (None, 5.0, 7.0)
    assert (found.p_value, found.confidence, found.rank) == (32 / 1024, None, None)
    assert found.censored
    assert not found.exact
    counted = exposure_by_bounds(lower=8, rank=16, upper=32, space_size=1024)
    assert (counted.bits, counted.exact) == (6.0, True)
    by_rank = exposure_by_rank(16, lower=8, upper=32, space_size=1024)
    assert counted.to_dict() == {**by_rank.to_dict(), "method": "rank"}
    assert Exposure.from_dict(found.to_dict()) == found


@pytest.mark.parametrize(
    "given",
    [
        {"lower": 0, "upper": 2},
        {"lower": 3, "upper": 2},
        {"lower": 1, "upper": 11},
        {"lower": 1, "upper": 5, "rank": 6},
        {"lower": 1.5, "upper": 5},
    ],
)
def test_bounds_input(given) -> None:
    with pytest.raises(EstimationError, match="exposure_by_bounds: "):
        exposure_by_bounds(**given, space_size=10)


def test_bounds_and_draws_input() -> None:
    bounds = exposure_by_bounds(lower=1, upper=5, space_size=10)
    with pytest.raises(EstimationError, match="not one of bounds and one of draws"):
        exposure_by_bounds_and_draws(bounds, bounds)


@settings(deadline=None, max_examples=200)
@given(st.data())
def test_the_common_interval_property(data) -> None:
    """It misses the truth only where the draws' interval does, and is never wider."""
    size = data.draw(st.integers(1, 10**6))
    rank = data.draw(st.integers(1, size))
    lower = data.draw(st.integers(1, rank))
    upper = data.draw(st.integers(rank, size))
    draws = data.draw(st.integers(1, 300))
    hits = data.draw(st.integers(0, draws))
    px = np.r_[np.zeros(hits), np.full(draws - hits, 9.0)]
    (drawn,) = exposure_by_draws([1.0], px, space_size=size)
    certain = exposure_by_bounds(lower=lower, upper=upper, space_size=size)
    found = exposure_by_bounds_and_draws(certain, drawn)
    truth = np.log2(size / rank)
    assert certain.lower_bits <= found.lower_bits <= found.upper_bits <= certain.upper_bits
    if drawn.lower_bits <= truth <= drawn.upper_bits:
        assert found.lower_bits <= truth <= found.upper_bits
        assert drawn.lower_bits <= found.lower_bits
        assert found.upper_bits <= drawn.upper_bits
    if found.bits is not None:
        assert found.lower_bits <= found.bits <= found.upper_bits
    assert found.p_value >= min(upper / size, (1 + hits) / (1 + draws))
    # With the rank, nothing of the draws is left but the p-value.
    counted = exposure_by_bounds(lower=lower, rank=rank, upper=upper, space_size=size)
    both = exposure_by_bounds_and_draws(counted, drawn)
    assert (both.bits, both.lower_bits) == (counted.bits, counted.lower_bits)
    assert both.p_value == found.p_value
    assert (both.draws is None) == (upper / size <= 1 / (1 + draws))


def null_rate(p_value, *, size: int, draws: int) -> float:
    """Largest Pr[p <= u] / u over all u, exactly: ranks uniform, draws without the canary."""
    masses: dict[float, float] = {}
    hits = np.arange(draws + 1)
    for rank in range(1, size + 1):
        chance = hypergeom.pmf(hits, size - 1, rank - 1, draws) / size
        for count, mass in zip(hits.tolist(), chance.tolist(), strict=True):
            p = p_value(rank, count)
            masses[p] = masses.get(p, 0.0) + mass
    levels = np.array(sorted(masses))
    return float((np.cumsum([masses[p] for p in levels]) / levels).max())


@pytest.mark.parametrize(("size", "draws"), [(200, 9), (200, 49), (90, 30), (40, 19)])
def test_the_p_value_is_one_theory(size: int, draws: int) -> None:
    """However tight the bounds are and whatever their tightness depends on."""
    (base,) = exposure_by_draws([1.0], np.full(draws, 9.0), space_size=size)

    def joined(rank: int, hits: int, slack: int) -> float:
        upper = min(size, rank + slack)
        certain = exposure_by_bounds(lower=1, upper=upper, space_size=size)
        drawn = Exposure(**{**vars(base), "hits": hits})
        return exposure_by_bounds_and_draws(certain, drawn).p_value

    for slack in (
        lambda rank, hits: 0,
        lambda rank, hits: rank % 3,
        lambda rank, hits: 0 if hits else size,  # the draws decide what is searched
        lambda rank, hits: size if hits else 0,
    ):
        worst = null_rate(
            lambda rank, hits, slack=slack: joined(rank, hits, slack(rank, hits)),
            size=size,
            draws=draws,
        )
        assert worst <= 1 + 1e-9
    # The smaller of both would be no p-value.
    smaller = null_rate(
        lambda rank, hits: min(rank / size, (1 + hits) / (1 + draws)), size=size, draws=draws
    )
    assert smaller > 1.03
