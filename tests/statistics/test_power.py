"""Planned power against simulated audits."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from unlearned import ends_by_hits

from canary.statistics.exposures import exposure_by_draws
from canary.statistics.medians import agreeing
from canary.statistics.power import (
    canaries_for,
    draws_to_tell,
    evidence_power,
    limit_power,
    smallest_seen,
)
from canary.statistics.pvalues import fisher_tails

SIZE = 10**9


def simulated(median, *, audits, canaries, draws=None, size=SIZE, seed=0):
    """p-values of learned canaries, and how many draws were as likely; shape (audits, k)."""
    rng = np.random.default_rng([seed, canaries, draws or 0])
    px = rng.normal(-stats.norm.isf(2.0**-median), 1, (audits, canaries))
    if draws is None:
        return np.maximum(np.ceil(stats.norm.cdf(px) * size), 1) / size, None
    hits = np.stack([np.searchsorted(np.sort(rng.normal(0, 1, draws)), row) for row in px])
    return (1 + hits) / (1 + draws), hits


@pytest.mark.parametrize(
    ("median", "canaries", "draws", "size"),
    [
        (1.0, 8, None, SIZE),
        (2.0, 8, None, SIZE),
        (2.5, 4, None, SIZE),
        (1.5, 64, None, SIZE),
        (3.0, 4, None, 10),  # ten candidates
        (2.0, 8, 200, SIZE),
        (1.5, 64, 500, SIZE),
        (1.2, 128, 500, SIZE),  # more than have an exact p-value
        (3.0, 4, 2_000, SIZE),
    ],
)
def test_evidence_theory(median, canaries, draws, size):
    p, _ = simulated(median, audits=4_000, canaries=canaries, draws=draws, size=size)
    seen = np.mean(fisher_tails(p, shared_draws=draws) <= 0.01)
    planned = evidence_power(median, canaries=canaries, draws=draws, space_size=size)
    assert planned == pytest.approx(seen, abs=0.03)


@pytest.mark.parametrize(
    ("median", "limit", "canaries", "draws", "size"),
    [
        (14.0, 10.0, 8, None, SIZE),
        (6.0, 10.0, 8, None, SIZE),
        (10.0, 10.0, 16, None, SIZE),
        (3.0, 2.0, 8, None, 16),  # the first three of sixteen candidates
        (6.0, 4.0, 8, 500, SIZE),
        (2.0, 4.0, 12, 500, SIZE),
        (1.0, 10.0, 8, 20_000, SIZE),
        (9.0, 10.0, 8, 200, 1_000),  # no exposure is above 9.97 bits
    ],
)
def test_limit_theory(median, limit, canaries, draws, size):
    p, hits = simulated(median, audits=1_000, canaries=canaries, draws=draws, size=size, seed=1)
    if draws is None:
        low = high = -np.log2(p)
    else:
        low, high = (ends[hits] for ends in ends_by_hits(draws, size))
    needed = agreeing((canaries,), (0.0 if draws is None else 0.025,), confidence=0.9)
    above = np.mean((low > limit).sum(axis=1) >= needed)
    below = np.mean((high <= limit).sum(axis=1) >= needed)
    options = {"canaries": canaries, "draws": draws, "space_size": size}
    assert limit_power(median, limit, **options) == pytest.approx((above, below), abs=0.05)


def power(median, k=8, draws=None):
    return evidence_power(median, canaries=k, draws=draws, space_size=SIZE)


def test_power_grows_and_is_searched_property():
    assert power(1.0) < power(2.0) < power(3.0) < power(20.0) <= 1
    assert power(2.0, 4) < power(2.0, 8) < power(2.0, 32)
    assert power(3.0, 8, 20) < power(3.0, 8, 20_000) <= power(3.0, 8) + 1e-3
    bits = smallest_seen(power, 0.9, low=1.0, high=29.0)
    assert power(bits) >= 0.9 > power(bits - 0.01)
    assert smallest_seen(power, 1.1, low=1.0, high=29.0) is None
    canaries = canaries_for(lambda k: power(2.0, k), 0.9)
    assert power(2.0, canaries) >= 0.9 > power(2.0, canaries - 1)
    assert canaries_for(lambda k: 0.0, 0.9) is None
    assert canaries_for(lambda k: 1.0, 0.9) == 1


@pytest.mark.parametrize("limit", [4.0, 10.0])
def test_draws_without_a_hit_oracle(limit):
    draws = draws_to_tell(None, limit, tail=0.025)
    (enough,) = exposure_by_draws([0.0], np.ones(draws), space_size=2**40)
    (fewer,) = exposure_by_draws([0.0], np.ones(draws - 1), space_size=2**40)
    assert fewer.lower_bits <= limit < enough.lower_bits
    assert draws_to_tell(None, 80.0, tail=0.025) is None


@pytest.mark.parametrize(("bits", "limit"), [(6.0, 5.0), (5.0, 6.0), (9.9, 10.0)])
def test_draws_with_hits_oracle(bits, limit):
    def decided(n):
        px = np.where(np.arange(n) < round(n * 2.0**-bits), 0.0, 2.0)
        (found,) = exposure_by_draws([1.0], px, space_size=2**40)
        return found.upper_bits <= limit or found.lower_bits > limit

    draws = draws_to_tell(bits, limit, tail=0.025)
    assert decided(round(draws * 1.05))
    assert not decided(draws // 2)
    assert draws_to_tell(bits, bits, tail=0.025) is None
