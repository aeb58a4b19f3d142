"""Correlations: against scipy, their intervals by simulation, and at the ends."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import pearsonr, spearmanr

from canary.errors import EstimationError
from canary.statistics.distances import correlation


def test_against_scipy_oracle():
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
def test_intervals_coverage(r):
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
    down = correlation(range(6), [5, 4, 3, 2, 1, -math.inf])
    assert (down.rank.value, down.rank.lower) == (-1.0, -1.0)
    assert math.isnan(down.linear.value)
    assert (down.linear.lower, down.linear.upper) == (-1, 1)


@pytest.mark.parametrize(
    ("x", "y", "words"),
    [
        ([1, 2, 3], [1, 2, 3], "3 pairs of numbers"),
        ([1, 1, 1, 1], [1, 2, 3, 4], "one side is constant"),
        ([1, 2, 3, 4], [1, 2, 3], "shapes"),
        ([1, 2, 3, math.nan], [1, 2, 3, 4], "or one is NaN"),
    ],
)
def test_refused_input(x, y, words):
    with pytest.raises(EstimationError, match=words):
        correlation(x, y)
