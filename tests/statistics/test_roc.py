"""The ROC, its area and its points, against counting by hand and over repeated draws."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta, binom, norm
from scipy.stats import t as student

from canary.errors import EstimationError
from canary.statistics import shares
from canary.statistics.roc import _newcombe, balanced_accuracy, roc
from canary.statistics.shares import difference_interval, nonmembers_for_lower_end

SCORE = st.sampled_from([-math.inf, -1.0, 0.0, 0.5, 2.0, math.inf])
SAMPLES = st.lists(st.tuples(SCORE, st.booleans()), min_size=2, max_size=40).filter(
    lambda rows: len({m for _, m in rows}) == 2
)


# --- the area -----------------------------------------------------------------------


@given(SAMPLES)
def test_area_is_the_share_of_ordered_pairs_oracle(rows):
    inside = [s for s, m in rows if m]
    outside = [s for s, m in rows if not m]
    pairs = [1.0 if a > b else 0.5 if a == b else 0.0 for a in inside for b in outside]
    found = roc(*zip(*rows, strict=True)).auc()
    assert found.value == pytest.approx(np.mean(pairs), abs=1e-12)
    assert 0 <= found.lower <= found.value + 1e-12 <= found.upper + 2e-12 <= 1 + 2e-12


@pytest.mark.parametrize("widening", [1.0, 1.5])
def test_delong_by_hand_golden(widening):
    # Members 3, 1; non-members 2, 0. Of the members 1 and 1/2 of the non-members are below, of
    # the non-members 1/2 and 1 of the members above: AUC 3/4, both variances 1/8, so the
    # variance is 1/8 / 2 + 1/8 / 2 = 1/8. On the logit scale sqrt(1/8) / (3/16) = 1.8856.
    found = roc([3, 1, 2, 0], [True, True, False, False]).auc(widening=widening)
    assert found.value == 0.75
    half = 1.959963984540054 * widening * math.sqrt(1 / 8) / (3 / 16)
    for end, sign in ((found.lower, -1), (found.upper, 1)):
        assert math.log(end / (1 - end)) == pytest.approx(math.log(3) + sign * half)


def test_newcombes_area_golden():
    # Newcombe 2006, method 5: (U - area)^2 = z^2 V(U), by the variance of Hanley and McNeil
    # with (m + n) / 2 - 1 in place of m - 1 and n - 1; here both ends by substitution.
    m, n, area, z = 10, 190, 0.98, 1.959963984540054

    def variance(t):
        more = (m + n) / 2 - 1
        return t * (1 - t) / (m * n) * (1 + more * ((1 - t) / (2 - t) + t / (1 + t)))

    low, high = _newcombe(area, m, n, z), 1 - _newcombe(1 - area, m, n, z)
    assert (area - low) ** 2 == pytest.approx(z * z * variance(low))
    assert (high - area) ** 2 == pytest.approx(z * z * variance(high))
    assert low < area < high < 1
    assert _newcombe(0.0, m, n, z) == 0.0


def test_separation_and_constant_scores_degenerate():
    # Five disjoint pairs that all agree exclude shares of agreeing pairs p with p^5 < 0.025.
    found = roc([1] * 5 + [0] * 9, [True] * 5 + [False] * 9).auc()
    assert (found.value, found.upper) == (1, 1)
    assert found.lower == pytest.approx(0.025 ** (1 / 5))
    turned = roc([0] * 5 + [1] * 9, [True] * 5 + [False] * 9).auc()
    assert (turned.lower, turned.value) == (0, 0)
    assert turned.upper == pytest.approx(1 - 0.025 ** (1 / 5))
    coin = roc([7.0] * 40, [True, False] * 20)
    assert coin.auc().lower < coin.auc().value == 0.5 < coin.auc().upper
    assert coin.advantage() == 0
    point = coin.tpr_at_fpr(0.5)
    assert (point.tpr.value, point.threshold) == (0, math.inf)


def test_intervals_cover_coverage():
    # Members from N(1, 1), non-members from N(0, 1): AUC = Phi(1 / sqrt 2), and the balanced
    # accuracy at 1/2 is Phi(1/2).
    rng, member = np.random.default_rng(0), np.arange(100) < 40
    auc, accuracy = 0, 0
    for _ in range(400):
        scores = rng.normal(size=100) + member
        area = roc(scores, member).auc()
        auc += area.lower <= norm.cdf(1 / math.sqrt(2)) <= area.upper
        right = balanced_accuracy(scores >= 0.5, member)
        accuracy += right.lower <= norm.cdf(0.5) <= right.upper
    # 95 % of 400 are 380; 366 is below all but 1 in 500 of such runs.
    assert min(auc, accuracy) >= 366


@pytest.mark.parametrize(
    ("each", "shift", "spread"),
    [((10, 190), 2.98, 1.0), ((10, 190), 2.0, 3.0), ((190, 10), 2.0, 0.3), ((20, 400), 0.0, 1.0)],
)
def test_few_of_one_kind_are_covered_coverage(each, shift, spread):
    """At an AUC of 0.98 DeLong's interval covers 89 %; Newcombe's alone 80 % of uneven spreads."""
    rng, runs, held = np.random.default_rng(5), 300, 0
    member = np.arange(sum(each)) < each[0]
    truth = norm.cdf(shift / math.hypot(1.0, spread))
    for _ in range(runs):
        scores = rng.normal(size=len(member))
        scores[member] = shift + spread * scores[member]
        found = roc(scores, member).auc()
        held += found.lower <= truth <= found.upper
    assert held >= 0.92 * runs


# --- balanced accuracy and differences ----------------------------------------------


def test_balanced_accuracy_and_newcombes_difference_golden():
    # Newcombe 1998, table II, method 10: 56/70 - 48/80 gives 0.0524 to 0.3339.
    low, high = difference_interval(56, 70, 48, 80, confidence=0.95)
    assert (low, high) == pytest.approx((0.0524, 0.3339), abs=5e-5)
    # 3 of 4 members and 50 of 100 non-members: (0.75 + 0.5) / 2.
    guess = [True] * 3 + [False] + [True, False] * 50
    found = balanced_accuracy(guess, [True] * 4 + [False] * 100)
    assert found.value == 0.625
    low, high = difference_interval(3, 4, 50, 100, confidence=0.95)
    assert (found.lower, found.upper) == ((1 + low) / 2, (1 + high) / 2)


# --- the rate at a chosen false positive rate ---------------------------------------


@given(SAMPLES, st.floats(0.01, 1), st.sampled_from([0.5, 0.9, 0.95, 0.999]))
def test_point_is_the_best_that_a_threshold_reaches_oracle(rows, fpr, confidence):
    scores, member = (np.array(column) for column in zip(*rows, strict=True))
    nonmembers = int((~member).sum())
    curve = roc(scores, member)
    if fpr < 1 / nonmembers:
        with pytest.raises(EstimationError, match=f"cannot be seen with {nonmembers} non-member"):
            curve.tpr_at_fpr(fpr)
        return
    found = curve.tpr_at_fpr(fpr, confidence=confidence)
    reachable = [(0.0, 0.0)] + [
        ((scores[~member] >= t).mean(), (scores[member] >= t).mean()) for t in set(scores)
    ]
    assert found.tpr.value == max(tpr for f, tpr in reachable if f <= fpr * (1 + 1e-12))
    assert found.tpr.value == curve.tpr_value(fpr)
    assert found.fpr <= fpr * (1 + 1e-12)
    if found.true_positives + found.false_positives:
        called = scores >= found.threshold
        assert (called & member).sum() == found.true_positives
        assert (called & ~member).sum() == found.false_positives
    assert 0 <= found.tpr.lower <= found.tpr.value <= found.tpr.upper <= 1
    assert found.fpr_interval[0] <= found.fpr <= found.fpr_interval[1]
    wider = curve.tpr_at_fpr(fpr, confidence=(1 + confidence) / 2)
    assert wider.tpr.lower <= found.tpr.lower + 1e-9
    assert wider.tpr.upper >= found.tpr.upper - 1e-9


@pytest.mark.parametrize("nonmembers", [1000, 3000, 7000, 10_000])
def test_one_of_a_thousand_is_not_lost_to_rounding_regression(nonmembers):
    scores = np.append(np.arange(nonmembers), nonmembers + 1.0)
    member = np.arange(nonmembers + 1) == nonmembers
    assert roc(scores, member).tpr_at_fpr(3 / nonmembers).false_positives == 3


def test_ends_are_quantiles_of_averaged_betas_oracle():
    rng = np.random.default_rng(0)
    member = np.arange(90) < 30
    scores = rng.normal(size=90) + member
    found = roc(scores, member).tpr_at_fpr(0.2, confidence=0.9).tpr
    inside, outside = scores[member], np.sort(scores[~member])[::-1]
    edges = [np.inf, *outside, -np.inf]
    lower = upper = 0.0
    for k in range(61):
        fewest, most = ((inside > edges[at]).sum() for at in (k, k + 1))
        weight = binom.pmf(k, 60, 0.2)
        lower += weight * (beta.cdf(found.lower, fewest, 31 - fewest) if fewest else 1.0)
        upper += weight * (beta.sf(found.upper, most + 1, 30 - most) if most < 30 else 1.0)
    assert (lower, upper) == pytest.approx((0.05, 0.05), abs=1e-8)


@pytest.mark.parametrize(("fpr", "confidence"), [(0.1, 0.95), (0.01, 0.95), (0.02, 0.99)])
def test_no_lower_end_below_so_many_nonmembers_oracle(fpr, confidence):
    """The threshold may be above all non-members, and then nothing is known of members there."""
    needed = nonmembers_for_lower_end(fpr, confidence=confidence)
    for nonmembers, there in ((needed - 1, False), (needed, True)):
        member = np.arange(nonmembers + 500) < 500
        found = roc(np.where(member, 1.0, 0.0), member).tpr_at_fpr(fpr, confidence=confidence)
        assert found.tpr.value == found.tpr.upper == 1.0
        assert (found.tpr.lower > 0) is there


def test_every_sample_called_a_member_degenerate():
    found = roc([3.0, 1.0, 2.0, 0.0], [True, True, False, False]).tpr_at_fpr(1.0)
    assert (found.tpr.value, found.tpr.upper) == (1.0, 1.0)
    assert 0 < found.tpr.lower < 1


def test_counts_in_groups_cost_a_hundredth_of_the_width(monkeypatch):
    rng = np.random.default_rng(2)
    member = np.arange(120_000) < 60_000
    curve = roc(rng.normal(size=120_000) + member, member)
    grouped = curve.tpr_at_fpr(0.2).tpr
    monkeypatch.setattr(shares, "_NODES", 1 << 20)
    single = curve.tpr_at_fpr(0.2).tpr
    assert grouped.lower <= single.lower
    assert grouped.upper >= single.upper
    assert grouped.upper - grouped.lower < 1.03 * (single.upper - single.lower)


def missed(truth, shift, each, fpr, runs, *, seed, noise=norm, step=None):
    """Shares of intervals that begin above the truth and that end below it; the median width."""
    rng, member = np.random.default_rng(seed), np.arange(2 * each) < each
    ends = []
    for _ in range(runs):
        scores = noise.rvs(size=2 * each, random_state=rng) + shift * member
        if step is not None:
            scores = np.floor(scores / step) * step
        found = roc(scores, member).tpr_at_fpr(fpr).tpr
        ends.append((found.lower, found.upper))
    low, high = np.array(ends).T
    return np.mean(low > truth), np.mean(high < truth), np.median(high - low)


def test_covers_the_rate_at_the_asked_fpr_coverage():
    """Clopper and Pearson's interval for the chosen threshold covers it in 48 % here."""
    truth = norm.sf(norm.isf(0.01) - 2)
    above, below, width = missed(truth, 2, 1000, 0.01, 200, seed=1)
    assert max(above, below) <= 0.05
    assert width < 0.3


@pytest.mark.slow
@pytest.mark.parametrize("family", ["normal", "heavy tails", "steps"])
@pytest.mark.parametrize("shift", [0, 1, 2])
def test_covers_over_the_grid_coverage(family, shift):
    """93 to 98 % where the counts allow it, and never less; the table stands in ADR 032.

    Where fewer than 3.7 non-members are expected above the threshold there is no lower end, and
    where a dozen members or fewer are, counts come in steps: then it covers more.
    """
    noise = student(2) if family == "heavy tails" else norm
    step = 0.25 if family == "steps" else None
    for each, fpr in itertools.product((200, 1000, 5000), (0.001, 0.01, 0.1)):
        if fpr * each < 1:
            continue
        cut = noise.isf(fpr) if step is None else step * np.ceil(noise.isf(fpr) / step)
        truth, runs = noise.sf(cut - shift), 600
        above, below, _ = missed(truth, shift, each, fpr, runs, seed=7, noise=noise, step=step)
        covered = 1.0 - above - below
        print(f"{family}, shift {shift}, {each} at {fpr}: {covered:.3f} ({above:.3f} {below:.3f})")  # noqa: T201
        slack = 3.0 * (0.05 * 0.95 / runs) ** 0.5
        assert covered >= 0.95 - slack
        if fpr * each >= 20 and truth * each >= 20:
            assert covered <= 0.98 + slack
