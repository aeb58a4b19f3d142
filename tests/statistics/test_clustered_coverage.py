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


GROUPS = np.array([1_000_000, 100_000, 20_000, 4_000, 800, 150, 30])
"""Texts of a source with 1, 2, 4 ... 64 copies."""
BY_COPIES = {
    "rising": np.array([1e-4, 1e-3, 0.01, 0.05, 0.2, 0.6, 0.95]),
    "of the rare ones only": np.array([0, 0, 0, 0, 0.1, 0.5, 0.95]),
    "half": np.array([0.5, 0.5, 0.5, 0.6, 0.7, 0.8, 0.9]),
    "flat": np.full(7, 0.05),
}


def drawn(rng, shares, group):
    """Windows of documents of these groups, of which some documents come out more than others."""
    sizes = np.maximum(rng.lognormal(1.5, 1.0, len(group)).astype(int), 1)
    share = shares[group]
    return rng.binomial(sizes, rng.beta(0.3 * share + 1e-12, 0.3 * (1 - share) + 1e-12)), sizes


@pytest.mark.parametrize("chances", ["stratified", "independent"])
@pytest.mark.parametrize("kind", BY_COPIES)
def test_intervals_cover_where_chances_are_unequal(kind, chances):
    """As many of each group; or each document with a chance of its own, so numbers vary too."""
    shares, rng, covered = BY_COPIES[kind], np.random.default_rng(6), 0
    truth = GROUPS @ shares / GROUPS.sum()
    for _ in range(1000):
        wanted = np.minimum(40, GROUPS)
        taken = wanted if chances == "stratified" else rng.binomial(GROUPS, wanted / GROUPS)
        group = np.repeat(np.arange(7), taken)
        found = clustered_share(*drawn(rng, shares, group), (GROUPS / wanted)[group])
        covered += found.lower <= truth <= found.upper
    assert covered >= 935


@pytest.mark.parametrize("rarer", [1.0, np.array([0.1, 0.5, 0.4, 0.5, 0.5, 0.75, 1.0])])
def test_weighted_null_comparisons_alarm_at_their_level(rarer):
    """What is often in the source is more predictable; without weights nearly all would alarm."""
    shares = np.array([0.01, 0.02, 0.05, 0.1, 0.2, 0.4, 0.6]) * rarer
    rng, alarms, outside, unweighted = np.random.default_rng(2), 0, 0, 0
    for seed in range(300):
        group = np.repeat(np.arange(7), 20)
        texts = (*drawn(rng, shares, group), (GROUPS / 20)[group])
        controls = drawn(rng, shares, rng.choice(7, 100, p=GROUPS / GROUPS.sum()))
        found = clustered_difference(texts, controls, permutations=99, seed=seed)
        alarms += found.p <= 0.05
        outside += not found.lower <= 0.0 <= found.upper
        if seed < 20:
            bare = clustered_difference(texts[:2], controls, permutations=99, seed=seed)
            unweighted += bare.p <= 0.05
    assert alarms <= 26  # 15 within three standard deviations
    assert outside <= 15
    assert unweighted >= 15


def test_equal_weights_are_none_and_whole_weights_are_repetitions():
    hits, sizes = corpus(np.random.default_rng(5), "beta", 60)
    bare = clustered_share(hits, sizes)
    assert clustered_share(hits, sizes, np.full(60, 7.0)) == bare
    times = np.random.default_rng(0).integers(1, 4, 60)
    again = clustered_share(np.repeat(hits, times), np.repeat(sizes, times))
    found = clustered_share(hits, sizes, times)
    assert found.value == pytest.approx(again.value)
    assert (found.hits, found.documents) == (bare.hits, 60)
    # Of documents that stand for 1,000 each none has a hit: the others do not bound those.
    hits, sizes = np.repeat([0, 5], 50), np.full(100, 5)
    seen = clustered_share(hits, sizes, np.repeat([1000.0, 1.0], 50))
    assert seen.value == pytest.approx(1 / 1001)
    assert seen.upper > clustered_share([0] * 50, [5] * 50).upper > 0.07


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


@pytest.mark.parametrize("weights", [[1.0], [1.0, 0.0], [1.0, float("nan")], [1.0, float("inf")]])
def test_what_is_no_weight_is_refused(weights):
    with pytest.raises(EstimationError, match="weights are not one number above 0"):
        clustered_share([0, 1], [1, 1], weights)
