"""Distances and correlations against scipy and a loop; their intervals cover."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import ks_2samp, norm, pearsonr, spearmanr

from canary.statistics.distances import (
    chance_distance,
    correlation,
    ks_distance,
    ratio_interval,
    resampled_distance,
    resamples,
)

numbers = st.lists(
    st.one_of(st.integers(0, 5).map(float), st.floats(allow_nan=False)), min_size=1, max_size=40
)


@given(numbers, numbers)
def test_distance_is_that_of_every_point_of_the_pooled_support_oracle(first, second):
    one, other = np.array(first), np.array(second)
    expected = max(
        abs((one <= at).sum() * len(other) - (other <= at).sum() * len(one))
        for at in np.concatenate([one, other])
    ) / (len(one) * len(other))
    assert ks_distance(first, second) == expected
    assert ks_distance(first, first) == 0.0
    # Exact ranks are an increasing function of both.
    ranks = np.unique(np.concatenate([one, other]), return_inverse=True)[1]
    assert ks_distance(ranks[: len(one)], ranks[len(one) :]) == expected


def test_distance_is_scipys_oracle():
    rng = np.random.default_rng(0)
    one, other = rng.normal(size=300).round(1), rng.normal(0.3, 1, 170).round(1)
    assert ks_distance(one, other) == pytest.approx(ks_2samp(one, other).statistic, abs=1e-12)


def test_errors_of_resamples_are_those_of_a_loop_oracle():
    rng = np.random.default_rng(1)
    one, other = rng.normal(size=60).round(1), rng.normal(0.5, 1, 60).round(1)
    times = resamples(60, 30, seed=3)
    assert (times.sum(axis=1) == 60).all()
    found = resampled_distance(one, other, times)
    points = np.unique(np.concatenate([one, other]))
    seen = np.array([(one <= x).mean() - (other <= x).mean() for x in points])
    assert found.value == pytest.approx(np.abs(seen).max())
    errors = np.array(
        [[(w * ((one <= x) * 1.0 - (other <= x))).sum() / 60 for x in points] for w in times] - seen
    )
    noise = np.quantile(np.abs(errors).max(axis=1), 0.95)
    above, below = seen >= found.value - noise, -seen >= found.value - noise
    excess = np.hstack([errors[:, above], -errors[:, below]]).max(axis=1)
    at = np.abs(seen).argmax()
    assert found.excess == pytest.approx(excess)
    assert found.shortfall == pytest.approx(np.sign(seen[at]) * errors[:, at])
    turned = resampled_distance(other, one, times)
    assert turned.shortfall == pytest.approx(found.shortfall)
    assert turned.excess == pytest.approx(excess)


def test_chance_distance_is_exceeded_as_often_as_it_says_theory():
    """Asymptotic, and a little too large a limit; 1,500 runs have a standard error of 0.6 %."""
    rng = np.random.default_rng(2)
    limit = chance_distance(200, 200, level=0.05)
    seen = np.mean([ks_distance(*rng.normal(size=(2, 200))) > limit for _ in range(1500)])
    assert 0.02 < seen < 0.06


def covered(size, near, far, *, runs, count):
    """How often the interval held the truth, for normal losses that share a part."""
    rng = np.random.default_rng(4)
    truth = (2 * norm.cdf(near / 2) - 1) / (2 * norm.cdf(far / 2) - 1)
    hits = 0
    for run in range(runs):
        common = rng.normal(size=size)
        query, target, other = (
            (common + rng.normal(size=size)) / np.sqrt(2) + shift for shift in (0.0, near, far)
        )
        times = resamples(size, count, seed=run)
        pair = [resampled_distance(query, model, times) for model in (target, other)]
        lower, upper = ratio_interval(*pair)
        hits += lower <= truth <= upper
    return hits / runs


@pytest.mark.parametrize("near", [0.0, 1.0])
def test_interval_of_the_ratio_coverage(near):
    """Also where the true distance is 0, of which percentiles of resamples miss all."""
    runs = 120
    seen = covered(200, near, 1.0, runs=runs, count=200)
    assert seen >= 0.93 - 1.3 * np.sqrt(0.05 * 0.95 / runs)


@pytest.mark.slow
@pytest.mark.parametrize("size", [50, 500, 2000])
def test_interval_of_the_ratio_at_every_size_coverage(size):
    for near, far in [(0.0, 1.0), (0.1, 1.0), (0.5, 1.0), (1.0, 1.0), (2.0, 1.0), (0.2, 0.2)]:
        seen = covered(size, near, far, runs=200, count=300)
        print(f"{size} samples, shifts {near} and {far}: {100 * seen:.1f} %")  # noqa: T201
        assert seen >= 0.93


def test_ratio_without_a_denominator_has_no_upper_end_degenerate():
    losses, times = np.random.default_rng(5).normal(size=(2, 50)), resamples(50, 100)
    _, upper = ratio_interval(
        resampled_distance(losses[0], losses[1], times),
        resampled_distance(losses[0], losses[0] + 0.01, times),
    )
    assert upper == np.inf


# --- correlation --------------------------------------------------------------------


def test_correlation_against_scipy_oracle():
    rng = np.random.default_rng(0)
    for scale in (1.0, 1e200):
        x = rng.integers(0, 9, 40).astype(float)
        y = scale * (x + rng.normal(0, 5, 40))
        found = correlation(x, y, confidence=0.9)
        assert found.rank.value == pytest.approx(spearmanr(x, y).statistic)
        expected = pearsonr(x, y / scale)
        assert found.linear.value == pytest.approx(expected.statistic)
        ends = expected.confidence_interval(0.9)
        assert (found.linear.lower, found.linear.upper) == pytest.approx((ends.low, ends.high))


@pytest.mark.parametrize("r", [0.0, 0.9])
def test_correlation_coverage(r):
    # Of normal pairs Spearman's is 6 / pi asin(r / 2).
    rng, runs = np.random.default_rng(1), 400
    truth = 6 / math.pi * math.asin(r / 2)
    missed = [0, 0]
    for _ in range(runs):
        x = rng.normal(size=30)
        found = correlation(x, r * x + math.sqrt(1 - r * r) * rng.normal(size=30))
        missed[0] += not found.rank.lower <= truth <= found.rank.upper
        missed[1] += not found.linear.lower <= r <= found.linear.upper
    assert max(missed) <= 0.05 * runs + 11  # 2.5 standard errors


def test_full_agreement_has_a_width_degenerate():
    found = correlation(range(6), [math.exp(k) for k in range(6)])
    assert (found.rank.value, found.rank.upper) == (1.0, 1.0)
    assert 0.3 < found.rank.lower < 1 - 12 / (6 * 35)
    swapped = correlation(range(6), [0, 1, 3, 2, 4, 5])  # one pair of neighbours
    assert found.rank.lower == pytest.approx(swapped.rank.lower)
    down = correlation(range(6), [5, 4, 3, 2, 1, -math.inf])
    assert (down.rank.value, down.rank.lower) == (-1.0, -1.0)
    assert math.isnan(down.linear.value)
    assert (down.linear.lower, down.linear.upper) == (-1, 1)
