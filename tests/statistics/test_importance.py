"""Weighted counts: their variance, their intervals, and the exposure made of them."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import gamma

from canary.statistics.exposures import Exposure, exposure_by_draws
from canary.statistics.importance import (
    ImportanceCount,
    RankCount,
    count_deviation,
    exposure_by_importance,
)

# A tree of nine nodes: the root, three below it, five below those.
PARENTS = np.array([0, 0, 0, 0, 1, 1, 2, 2, 3])
LEVELS = (1, 3, 5)


def test_variance_oracle():
    """Over all outcomes of independent draws, the mean estimate is the variance of the count."""
    rng = np.random.default_rng(1)
    for _ in range(3):
        below = np.concatenate([[1.0], rng.uniform(0.2, 1.0, 8)])
        chances = np.ones(9)
        for node in range(1, 9):
            chances[node] = below[node] * chances[PARENTS[node]]
        leaves = rng.integers(0, 5, 9)
        mean = square = estimate = 0.0
        for outcome in itertools.product([False, True], repeat=8):
            probability = np.prod(np.where(outcome, below[1:], 1 - below[1:]))
            entered = np.ones(9, np.bool_)
            for node in range(1, 9):
                entered[node] = entered[PARENTS[node]] and outcome[node - 1]
            kept = np.flatnonzero(entered)
            place = np.cumsum(entered) - 1
            weights, parents = 1 / chances[kept], place[PARENTS[kept]]
            levels = [1, int(entered[1:4].sum()), int(entered[4:].sum())]
            total = float(weights @ leaves[kept])
            mean += probability * total
            square += probability * total**2
            estimate += probability * count_deviation(leaves[kept], weights, parents, levels) ** 2
        assert mean == pytest.approx(leaves.sum())
        assert estimate == pytest.approx(square - mean**2)


@pytest.mark.parametrize("heavy", [1e200, 2.0**990])
def test_counts_of_large_spaces_property(heavy):
    """(1 / w - 1 / w') S^2 grows with the scale of the weights, as their squares do not fit."""
    counts, weights = np.arange(9), np.arange(1.0, 10.0)
    plain = count_deviation(counts, weights, PARENTS, LEVELS)
    found = count_deviation(counts, heavy * weights, PARENTS, LEVELS)
    assert found == pytest.approx(math.sqrt(heavy) * plain)
    few = np.array([0, 3, 0, 0, 0, 0, 0, 0, 0])
    beside = np.array([1.0, 2.0, 2.0, 2.0, heavy, heavy, heavy, heavy, heavy])
    assert count_deviation(few, beside, PARENTS, LEVELS) == pytest.approx(math.sqrt(0.5 * 36))
    low, high = by_importance(50 * heavy, 10 * heavy, 20, 8 * heavy, 10**306).interval(0.95)
    assert (low / heavy, high / heavy) == pytest.approx((32.36, 81.11), abs=0.02)


def by_importance(total=50.0, deviation=10.0, found=20, heaviest=8.0, unseen=10**6):
    return ImportanceCount(total, deviation, found, heaviest, unseen)


def test_interval_golden():
    """Quantiles of gamma distributions, by another implementation, rounded to whole numbers."""
    low = gamma.ppf(0.025, 50**2 / 100, scale=100 / 50)
    found = gamma(50**2 / 100, scale=100 / 50)
    more = gamma((50 + 8) ** 2 / (100 + 8**2), scale=(100 + 8**2) / (50 + 8))
    high = brentq(lambda x: found.cdf(x) + more.cdf(x) - 2 * 0.975, 50, 200)
    assert (low, high) == pytest.approx((32.36, 81.11), abs=0.02)
    assert by_importance().interval(0.95) == (33, 81)
    assert by_importance().effective == 25.0


def test_interval_degenerate():
    # With nothing found: a quantile of an exponential distribution, half of the time.
    nothing = by_importance(total=0.0, deviation=0.0, found=0)
    assert nothing.interval(0.95) == (0, math.floor(8 * math.log(20)))
    # Even if all leaves thereabouts were found for certain, one may lie below a node that
    # promised nothing.
    assert by_importance(total=7.0, deviation=0.0, found=7, heaviest=1.0).interval(0.95) == (7, 9)
    # Certain facts have the last word.
    assert by_importance(found=40).interval(0.95) == (40, 81)
    assert by_importance(unseen=3).interval(0.95) == (23, 23)
    assert by_importance(unseen=40).interval(0.95) == (33, 60)
    # Both quantiles between 3 and 4: no whole number is, and the next one stays possible.
    assert by_importance(3.5, 0.01, 1, 0.01, 10).interval(0.95) == (4, 4)
    assert by_importance(total=20.0, unseen=0, heaviest=None).interval(0.95) == (20, 20)
    assert by_importance(heaviest=None).interval(0.95) is None


@pytest.mark.parametrize("heavy", [1.0, 5.0, 50.0])
def test_interval_coverage(heavy):
    """Bernoulli trials of leaves, a tenth of them with the larger weight: 95 % or more."""
    rng = np.random.default_rng(2)
    covered = []
    for true in (3, 30, 300):
        weights = np.where(np.arange(true) % 10 == 9, heavy, 1.0 + 0.2 * heavy)
        for _ in range(400):
            found = rng.random(true) < 1 / weights
            variance = float(((1 - 1 / weights) * weights**2)[found].sum())
            total, number = float(weights[found].sum()), int(found.sum())
            count = by_importance(total, math.sqrt(variance), number, weights.max())
            low, high = count.interval(0.95)
            covered.append(low <= true <= high)
    assert np.mean(covered) >= 0.94


def rank_count(count, known=1):
    return RankCount(count, count, count, known, known, known)


def uniform(hits, draws=99):
    px = np.concatenate([np.zeros(hits), np.full(draws - hits, 2.0)])
    return exposure_by_draws([1.0], px, space_size=2**20)[0]


def exposure(count, drawn=0, size=2**20):
    (found,) = exposure_by_importance([count], [uniform(drawn)], space_size=size)
    return found


def test_exposure_golden():
    """Rank 1 + 50 of 2^20, from 34 to 82; p beside bounds is (2 + 0) / 100."""
    found = exposure(rank_count(by_importance()))
    assert found.method == "importance draws"
    assert found.bits == pytest.approx(20 - math.log2(51))
    assert found.lower_bits == pytest.approx(20 - math.log2(82))
    assert found.upper_bits == pytest.approx(20 - math.log2(34))
    assert found.confidence == 0.95
    assert found.p_value == pytest.approx(0.02)
    assert (found.draws, found.hits, found.effective_draws) == (99, 0, 25.0)
    assert Exposure.from_dict(found.to_dict()) == found


def test_exact_counts_are_certain():
    """3 canaries and 4 others, all found: rank 7 without confidence, p = 7 / 2^20."""
    exact = by_importance(total=4.0, deviation=0.0, found=4, heaviest=1.0, unseen=0)
    found = exposure(rank_count(exact, 3))
    assert found.confidence is None
    assert found.lower_bits == found.bits == found.upper_bits == 20 - math.log2(7)
    assert found.p_value == pytest.approx(7 / 2**20)
    assert found.effective_draws is None
    assert (found.rank, found.rank_lower, found.rank_upper) == (7, 7, 7)


def test_refusal_keeps_the_bound_of_uniform_draws_and_certain_facts():
    lost = by_importance(heaviest=None)
    drawn = exposure(rank_count(lost))
    assert drawn.censored
    assert (drawn.method, drawn.effective_draws) == ("rank and draws", None)
    assert drawn.lower_bits == uniform(0).lower_bits
    assert drawn.upper_bits == pytest.approx(20 - math.log2(21))
    plain = exposure(rank_count(replace(lost, found=0)), 3)
    assert (plain.method, plain.effective_draws) == ("uniform draws", None)
    assert (plain.bits, plain.lower_bits) == (uniform(3).bits, uniform(3).lower_bits)
    sure = exposure(rank_count(replace(lost, unseen=100)))
    assert sure.lower_bits == pytest.approx(20 - math.log2(121))
    assert sure.lower_bits > drawn.lower_bits
    assert sure.p_value == pytest.approx(121 / 2**20)


def test_noise_widens_the_interval():
    below, up_to = by_importance(total=30.0, found=10), by_importance(total=90.0, found=40)
    noisy = RankCount(by_importance(), below, up_to, known=3, known_below=1, known_up_to=5)
    found = exposure(noisy, 1)
    low, high = below.interval(0.95)[0], up_to.interval(0.95)[1]
    assert found.bits == pytest.approx(20 - math.log2(53))
    assert found.upper_bits == pytest.approx(20 - math.log2(1 + low))
    assert found.lower_bits == pytest.approx(20 - math.log2(5 + high))


def test_the_space_bounds_the_rank():
    """An estimate above the size of the space has exposure 0, not less."""
    found = exposure(rank_count(by_importance()), 1, size=45)
    assert found.bits == found.lower_bits == 0.0
    assert found.upper_bits == pytest.approx(math.log2(45 / 34))
    assert found.p_value <= 1.0
