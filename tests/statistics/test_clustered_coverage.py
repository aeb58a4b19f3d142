"""Shares of windows: intervals cover over simulated corpora of unequal documents."""

from __future__ import annotations

import numpy as np
import pytest

from canary.errors import EstimationError
from canary.statistics.clustered import clustered_difference, clustered_share

KINDS = {
    "independent": lambda rng, m: np.full(len(m), 0.05),
    "beta": lambda rng, m: rng.beta(0.1, 0.9, len(m)),
    "one in ten whole": lambda rng, m: np.where(rng.random(len(m)) < 0.1, 0.9, 1e-4),
    "one in a hundred whole": lambda rng, m: np.where(rng.random(len(m)) < 0.01, 0.9, 1e-4),
    "long ones": lambda rng, m: np.where(m > 10, 0.3, 0.02),
}


def corpus(rng, kind, documents):
    """Windows of documents from one to hundreds, and how many of each come out."""
    sizes = np.maximum(rng.lognormal(1.5, 1.0, documents).astype(int), 1)
    return rng.binomial(sizes, KINDS[kind](rng, sizes)), sizes


@pytest.mark.parametrize("documents", [30, 100])
@pytest.mark.parametrize("kind", KINDS)
def test_intervals_cover(kind, documents):
    hits, sizes = corpus(np.random.default_rng(9), kind, 1_000_000)
    share, rng = hits.sum() / sizes.sum(), np.random.default_rng(documents)
    found = [clustered_share(*corpus(rng, kind, documents)) for _ in range(1000)]
    covered = sum(one.lower <= share <= one.upper for one in found)
    assert covered >= 935  # 950 less two standard deviations; seeded


def test_null_comparisons_alarm_at_their_level():
    rng, alarms, outside = np.random.default_rng(4), 0, 0
    for seed in range(1000):
        pairs = corpus(rng, "beta", 25), corpus(rng, "beta", 25)
        found = clustered_difference(*pairs, permutations=199, seed=seed)
        alarms += found.p <= 0.05
        outside += not found.lower <= 0.0 <= found.upper
    assert 29 <= alarms <= 71  # 50 within three standard deviations
    assert outside <= 65


def test_nothing_found_bounds_the_share():
    none, one = ([0] * 50, [10] * 50), ([1] + [0] * 49, [10] * 50)
    bound = 1.0 - 0.025 ** (1 / 50)
    assert clustered_share(*none).upper == pytest.approx(bound)
    assert clustered_share(*none).lower == 0.0
    assert clustered_share(*one).upper >= bound  # more was found
    assert clustered_share([10] * 50, [10] * 50).lower == pytest.approx(1.0 - bound)
    alone = clustered_share([3], [10])
    assert (alone.lower, alone.upper) == (0.0, 1.0)
    assert clustered_share([0, 3, 0], [0, 10, 0]).documents == 1
    unequal = clustered_share([0, 0, 0], [1000, 1, 1])
    assert unequal.upper == pytest.approx(0.975, abs=0.01)  # as one document


def test_order_changes_nothing_and_a_lead_is_seen():
    rng = np.random.default_rng(0)
    hits, sizes = corpus(rng, "beta", 40)
    order = rng.permutation(40)
    mixed = clustered_share(hits[order], sizes[order])
    assert mixed.lower == pytest.approx(clustered_share(hits, sizes).lower)
    found = clustered_difference((sizes, sizes), (0 * sizes, sizes), permutations=999)
    assert (found.value, found.upper, found.p) == (1.0, 1.0, 1 / 1000)
    assert found.lower > 0.7


@pytest.mark.parametrize(
    ("hits", "sizes"), [([], []), ([0], [0]), ([2], [1]), ([-1], [1]), ([1, 1], [2]), (1, 2)]
)
def test_what_is_no_count_is_refused(hits, sizes):
    with pytest.raises(EstimationError, match="no counts of the windows"):
        clustered_share(hits, sizes)
