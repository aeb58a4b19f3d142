"""The ROC, its area and its points, against counting by hand and over repeated draws."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from canary.errors import EstimationError
from canary.statistics.roc import balanced_accuracy, roc
from canary.statistics.shares import difference_interval

SCORE = st.sampled_from([-math.inf, -1.0, 0.0, 0.5, 2.0, math.inf])
SAMPLES = st.lists(st.tuples(SCORE, st.booleans()), min_size=2, max_size=30).filter(
    lambda rows: len({m for _, m in rows}) == 2
)


@given(SAMPLES)
def test_area_is_the_share_of_ordered_pairs_oracle(rows):
    inside = [s for s, m in rows if m]
    outside = [s for s, m in rows if not m]
    pairs = [1.0 if a > b else 0.5 if a == b else 0.0 for a in inside for b in outside]
    found = roc(*zip(*rows, strict=True)).auc()
    assert found.value == pytest.approx(np.mean(pairs), abs=1e-12)
    assert 0 <= found.lower <= found.value + 1e-12 <= found.upper + 2e-12 <= 1 + 2e-12


@given(SAMPLES, st.floats(0.01, 1))
def test_point_is_the_best_that_a_threshold_reaches_oracle(rows, fpr):
    scores, member = (np.array(column) for column in zip(*rows, strict=True))
    nonmembers = int((~member).sum())
    curve = roc(scores, member)
    if fpr < 1 / nonmembers:
        with pytest.raises(EstimationError, match=f"cannot be seen with {nonmembers} nonmember"):
            curve.tpr_at_fpr(fpr)
        return
    found = curve.tpr_at_fpr(fpr)
    reachable = [(0.0, 0.0)] + [
        ((scores[~member] >= t).mean(), (scores[member] >= t).mean()) for t in set(scores)
    ]
    assert found.tpr.value == max(tpr for f, tpr in reachable if f <= fpr * (1 + 1e-12))
    assert found.fpr <= fpr * (1 + 1e-12)
    if found.true_positives + found.false_positives:
        called = scores >= found.threshold
        assert (called & member).sum() == found.true_positives
        assert (called & ~member).sum() == found.false_positives


@pytest.mark.parametrize("widening", [1.0, 1.5])
def test_delong_by_hand_golden(widening):
    # Members 3, 1; nonmembers 2, 0. Of the members 1 and 1/2 of the nonmembers are below, of
    # the nonmembers 1/2 and 1 of the members above: AUC 3/4, both variances 1/8, so the
    # variance is 1/8 / 2 + 1/8 / 2 = 1/8. On the logit scale sqrt(1/8) / (3/16) = 1.8856.
    found = roc([3, 1, 2, 0], [True, True, False, False]).auc(widening=widening)
    assert found.value == 0.75
    half = 1.959963984540054 * widening * math.sqrt(1 / 8) / (3 / 16)
    for end, sign in ((found.lower, -1), (found.upper, 1)):
        assert math.log(end / (1 - end)) == pytest.approx(math.log(3) + sign * half)


def test_perfect_separation_has_an_interval_degenerate():
    # Five disjoint pairs that all agree exclude shares of agreeing pairs p with p^5 < 0.025.
    found = roc([1] * 5 + [0] * 9, [True] * 5 + [False] * 9).auc()
    assert (found.value, found.upper) == (1, 1)
    assert found.lower == pytest.approx(0.025 ** (1 / 5))
    turned = roc([0] * 5 + [1] * 9, [True] * 5 + [False] * 9).auc()
    assert (turned.lower, turned.value) == (0, 0)
    assert turned.upper == pytest.approx(1 - 0.025 ** (1 / 5))


def test_constant_scores_are_a_coin_degenerate():
    curve = roc([7.0] * 40, [True, False] * 20)
    found = curve.auc()
    assert found.value == 0.5
    assert found.lower < 0.5 < found.upper
    assert curve.advantage() == 0
    assert curve.tpr_at_fpr(0.5).tpr.value == 0
    assert curve.tpr_at_fpr(0.5).threshold == math.inf


def test_one_of_a_thousand_is_not_lost_to_rounding_regression():
    for nonmembers in (1000, 3000, 7000, 10_000):
        scores = np.append(np.arange(nonmembers), nonmembers + 1.0)
        member = np.arange(nonmembers + 1) == nonmembers
        assert roc(scores, member).tpr_at_fpr(3 / nonmembers).false_positives == 3


def test_balanced_accuracy_weighs_both_kinds_alike_golden():
    # 3 of 4 members and 50 of 100 nonmembers: (0.75 + 0.5) / 2.
    guess = [True] * 3 + [False] + [True, False] * 50
    found = balanced_accuracy(guess, [True] * 4 + [False] * 100)
    assert found.value == 0.625
    low, high = difference_interval(3, 4, 50, 100, confidence=0.95)
    assert (found.lower, found.upper) == ((1 + low) / 2, (1 + high) / 2)


def test_difference_is_newcombes_example_golden():
    # Newcombe 1998, table II, method 10: 56/70 - 48/80 gives 0.0524 to 0.3339.
    low, high = difference_interval(56, 70, 48, 80, confidence=0.95)
    assert (low, high) == pytest.approx((0.0524, 0.3339), abs=5e-5)


def test_intervals_cover_coverage():
    # Members from N(1, 1), nonmembers from N(0, 1): AUC = Phi(1 / sqrt 2), and the balanced
    # accuracy at 1/2 is Phi(1/2).
    from scipy.special import ndtr

    rng = np.random.default_rng(0)
    auc, accuracy, runs = 0, 0, 400
    member = np.arange(100) < 40
    for _ in range(runs):
        scores = rng.normal(size=100) + member
        area = roc(scores, member).auc()
        auc += area.lower <= ndtr(1 / math.sqrt(2)) <= area.upper
        right = balanced_accuracy(scores >= 0.5, member)
        accuracy += right.lower <= ndtr(0.5) <= right.upper
    # 95 % of 400 are 380; 366 is below all but 1 in 500 of such runs.
    assert min(auc, accuracy) >= 366


@pytest.mark.parametrize(
    ("scores", "member", "words"),
    [
        ([1, math.nan], [1, 0], "1 of 2 scores are NaN"),
        ([1, 2], [1, 1], "all 2 samples are members"),
        ([1, 2], [0, 0], "all 2 samples are nonmembers"),
        ([1, 2, 3], [1, 0], r"shape \(3,\) for members of shape \(2,\)"),
        ([1, 2], [1, 2], "must hold true and false"),
        ([], [], "all 0 samples"),
    ],
)
def test_refused_input(scores, member, words):
    with pytest.raises(EstimationError, match=words):
        roc(scores, member)


@pytest.mark.parametrize(
    ("each", "shift", "spread"),
    [((10, 190), 2.98, 1.0), ((10, 190), 2.0, 3.0), ((190, 10), 2.0, 0.3), ((20, 400), 0.0, 1.0)],
)
def test_few_of_one_kind_are_covered_coverage(each, shift, spread):
    """At an AUC of 0.98 DeLong's interval covers 89 %; Newcombe's alone 80 % of uneven spreads."""
    from scipy.special import ndtr

    rng, runs, held = np.random.default_rng(5), 300, 0
    member = np.arange(sum(each)) < each[0]
    for _ in range(runs):
        scores = rng.normal(size=len(member))
        scores[member] = shift + spread * scores[member]
        found = roc(scores, member).auc()
        held += found.lower <= ndtr(shift / math.hypot(1.0, spread)) <= found.upper
    assert held >= 0.92 * runs


def test_newcombes_example_golden():
    # Newcombe 2006, method 5: (U - area)^2 = z^2 V(U), by the variance of Hanley and McNeil
    # with (m + n) / 2 - 1 in place of m - 1 and n - 1; here both ends by substitution.
    from canary.statistics.roc import _newcombe

    m, n, area, z = 10, 190, 0.98, 1.959963984540054

    def variance(t):
        more = (m + n) / 2 - 1
        return t * (1 - t) / (m * n) * (1 + more * ((1 - t) / (2 - t) + t / (1 + t)))

    low, high = _newcombe(area, m, n, z), 1 - _newcombe(1 - area, m, n, z)
    assert (area - low) ** 2 == pytest.approx(z * z * variance(low))
    assert (high - area) ** 2 == pytest.approx(z * z * variance(high))
    assert low < area < high < 1
    assert _newcombe(0.0, m, n, z) == 0.0
