"""Privacy risk scores: by hand, against plain loops, where the posterior is known, and smoothed."""

from __future__ import annotations

import math

import numpy as np
import pytest

from canary.errors import EstimationError
from canary.membership.risk import reliability, risk_scores
from canary.signals.signal_table import SignalTable


def table(values, member, label=None, classes=1):
    values = np.asarray(values, float)[None]
    label = np.zeros(values.shape[1], int) if label is None else np.asarray(label)
    return SignalTable({"modified-entropy": values}, np.asarray(member, bool)[None], label, classes)


def test_by_hand_golden():
    # Two bins on the linear scale, [0, 1) and [1, 2]. Members 0, 0.5, 1, non-members 1.5, 2:
    # shares (2/3, 1/3) and (0, 1). A score in the low bin is 1, in the high one
    # (1/3) / (1/3 + 1) = 1/4; with prior 0.1, (1/30) / (1/30 + 9/10) = 1/28.
    shadow, target = table([0, 0.5, 1, 1.5, 2], [1, 1, 1, 0, 0]), table([-5, 0.9, 1, 2, 7], [1] * 5)
    options = {"shadow": shadow, "bins": 2, "scale": "linear", "least": 1}
    by_hand = risk_scores(target, **options)
    np.testing.assert_allclose(by_hand.scores, [1, 1, 0.25, 0.25, 0.25])
    assert by_hand.support.tolist() == [2, 2, 3, 3, 3]
    assert by_hand.thin.all()  # fewer than ten
    found = risk_scores(target, **options, prior=0.1).scores
    np.testing.assert_allclose(found, [1, 1, 1 / 28, 1 / 28, 1 / 28])


def test_empty_bins_and_infinity_golden():
    # Four bins of [0, 4]: members in 0, non-members in 3, none in 1 and 2: those take the
    # nearest. Infinity has a bin of its own, here with a member and a non-member of 2 and 4.
    shadow = table([0, math.inf, 4, 4, 4, math.inf], [1, 1, 0, 0, 0, 0])
    target = table([1.5, 2.5, math.inf], [1, 0, 1])
    options = {"scale": "linear", "least": 1}
    found = risk_scores(target, shadow=shadow, bins=4, **options)
    np.testing.assert_allclose(found.scores, [1, 0, (1 / 2) / (1 / 2 + 1 / 4)])
    assert found.support.tolist() == [1, 3, 2]
    # Without infinite shadow samples it takes the last bin; of two as near, the lower.
    found = risk_scores(target, shadow=table([0, 4, 4], [1, 0, 0]), bins=3, **options)
    np.testing.assert_allclose(found.scores, [1, 1, 0])


def slow_histograms(target, shadow, *, bins, least):
    """The same rule, one sample at a time."""
    scores, support = [], []
    for value, label in zip(target.values["modified-entropy"][0], target.label, strict=True):
        mine = shadow.label == label
        inside = shadow.member[0]
        if min((mine & inside).sum(), (mine & ~inside).sum()) < least:
            mine = np.ones_like(mine)
        logs = np.log(np.maximum(shadow.values["modified-entropy"][0][mine], 1e-10))
        finite = logs[np.isfinite(logs)]
        low, high = finite.min(), finite.max()

        def place(x, low=low, high=high):
            if x == math.inf:
                return bins
            return min(max(int((x - low) * (bins / (high - low))), 0), bins - 1)

        at = place(math.log(max(value, 1e-10)))
        places = np.array([place(x) for x in logs])
        nearest = min(set(places.tolist()), key=lambda p: (abs(p - at), p))
        a = (places[inside[mine]] == nearest).mean()
        b = (places[~inside[mine]] == nearest).mean()
        scores.append(a / (a + b))
        support.append((places == nearest).sum())
    return scores, support


def test_classes_and_pooling_against_one_sample_at_a_time_oracle():
    rng = np.random.default_rng(0)

    def drawn(samples):
        label = rng.choice(6, samples, p=[0.4, 0.3, 0.2, 0.08, 0.01, 0.01])
        member = rng.random(samples) < 0.4
        values = np.exp(rng.normal(label - member, 1.5))
        values[rng.random(samples) < 0.03] = math.inf
        values[rng.random(samples) < 0.03] = 0.0
        return table(values, member, label, 6)

    shadow, target = drawn(400), drawn(500)
    known = np.bincount(shadow.label[shadow.member[0]])
    edge = min(known[3], np.bincount(shadow.label)[3] - known[3])  # just enough of a class
    for least in (10, edge):
        found = risk_scores(target, shadow=shadow, bins=7, least=int(least))
        expected, support = slow_histograms(target, shadow, bins=7, least=least)
        np.testing.assert_allclose(found.scores, expected, rtol=1e-12)
        np.testing.assert_array_equal(found.support, support)
        assert 0 < found.thin.sum() < 500
        assert 0 < found.pooled.sum() < 6
    # A class that the target has not teaches nothing of the others.
    less = table(target.values["modified-entropy"][0], target.member[0], target.label % 5, 5)
    five = shadow.select(samples=shadow.label < 5)
    scores = [risk_scores(less, shadow=one, bins=7).scores for one in (shadow, five)]
    np.testing.assert_array_equal(*scores)


def test_the_nearest_bin_decides_where_bins_are_more_than_samples():
    """100,000 bins of one class: they take memory of their number, and too many are refused."""
    rng = np.random.default_rng(2)
    shadow, target = (table(rng.random(400), rng.random(400) < 0.5) for _ in "ab")
    found = risk_scores(target, shadow=shadow, bins=100_000, scale="linear", least=1).scores
    logs = shadow.values["modified-entropy"][0]
    nearest = np.abs(target.values["modified-entropy"][0][:, None] - logs).argmin(axis=1)
    assert (found == shadow.member[0][nearest]).mean() > 0.99  # a bin is 1e-5 wide


def known(rng, each, *, wide=1.0):
    """log Mentr: N(-1, 1) of members, N(0, wide) of non-members; the table and its posterior."""
    member = np.arange(2 * each) < each
    x = np.where(member, rng.normal(-1, 1, 2 * each), rng.normal(0, wide, 2 * each))
    odds = -((x + 1) ** 2) / 2 + (x / wide) ** 2 / 2 + math.log(wide)
    return table(np.exp(x), member), 1 / (1 + np.exp(-odds))


@pytest.mark.parametrize("options", [{"bins": 60}, {"smooth": True}])
def test_calibrated_where_the_posterior_is_known_theory(options):
    rng = np.random.default_rng(1)
    wide = 2.0 if "smooth" in options else 1.0
    shadow, _ = known(rng, 50_000, wide=wide)
    target, posterior = known(rng, 50_000, wide=wide)
    risks = risk_scores(target, shadow=shadow, **options)
    assert np.abs(risks.scores - posterior).mean() < (0.01 if "smooth" in options else 0.015)
    found = reliability(risks, target.member[0])
    assert found.rmse < 0.03
    assert found.calibration_error.value < 0.01
    assert found.calibration_error.lower < 0.001
    assert found.members.sum() + found.nonmembers.sum() == 100_000


def test_kernels_are_nearer_to_the_known_posterior_than_histograms_theory():
    rng, errors = np.random.default_rng(0), []
    for _ in range(10):
        shadow, _ = known(rng, 100, wide=2.0)
        target, posterior = known(rng, 2000, wide=2.0)
        found = [risk_scores(target, shadow=shadow, smooth=smooth) for smooth in (True, False)]
        errors.append([np.abs(risks.scores - posterior).mean() for risks in found])
    kernels, histograms = np.mean(errors, axis=0)
    assert kernels < min(0.05, 0.7 * histograms)


def slow_kernels(target, shadow, row, prior):
    """The rule for one sample of the only class, by sums over all shadow samples."""
    logs = np.log(np.maximum(shadow.values["modified-entropy"][0], 1e-10))
    finite, inside = np.isfinite(logs), shadow.member[0]
    value = np.log(max(target.values["modified-entropy"][0, row], 1e-10))
    at = np.clip(value, logs[finite].min(), logs[finite].max())
    kinds = [logs[finite & (inside == kind)] for kind in (True, False)]
    spreads = []
    for one in kinds:
        low, high = np.percentile(one, [25, 75])
        spreads.append(min(one.std(), (high - low) / 1.349))
    n = min(map(len, kinds))
    width = 0.9 * math.sqrt(np.mean(np.square(spreads))) * n**-0.2
    a, b = (
        (np.exp(-((one - at) ** 2) / 2 / width**2).sum() + 0.01 * len(one) / n) / count
        for one, count in zip(kinds, (inside.sum(), (~inside).sum()), strict=True)
    )
    return prior * a / (prior * a + (1 - prior) * b)


@pytest.mark.parametrize("prior", [0.5, 0.1])
def test_the_grid_against_sums_over_all_samples_oracle(prior):
    rng = np.random.default_rng(2)
    shadow, _ = known(rng, 200, wide=2.0)
    shadow.values["modified-entropy"][0, :300:50] = math.inf
    target, _ = known(rng, 50, wide=4.0)
    found = risk_scores(target, shadow=shadow, prior=prior, smooth=True)
    expected = [slow_kernels(target, shadow, row, prior) for row in range(100)]
    np.testing.assert_allclose(found.scores, expected, atol=0.01)


def test_infinity_and_gaps_between_kernels_golden():
    # Of twelve members one is infinite, of twelve non-members three: 1 / (1 + 3). Between
    # members at log 0 and non-members at log 100 there is nobody: the prior.
    values = [*np.exp(np.linspace(0, 0.1, 11)), math.inf, *np.exp(np.linspace(99.9, 100, 9))]
    shadow = table([*values, *[math.inf] * 3], np.arange(24) < 12)
    target = table([math.inf, math.exp(50), 1e-5, 1e200], [1, 0, 1, 0])
    found = risk_scores(target, shadow=shadow, prior=0.5, smooth=True).scores
    np.testing.assert_allclose(found, [0.25, 11 / 20, 1, 0], atol=0.01)
    # Without infinite ones in the shadow, infinity is the largest value.
    shadow = table(np.exp(np.arange(24.0)), np.arange(24) < 12)
    found = risk_scores(table([math.inf, math.exp(23)], [1, 0]), shadow=shadow, smooth=True).scores
    assert found[0] == found[1] < 0.1


def test_refused_input():
    shadow = table([1, 2], [1, 0])
    for options, words in (
        ({"prior": 0.0}, "prior must be between 0 and 1, got 0.0"),
        ({"prior": math.nan}, "prior must be"),
        ({"bins": 0}, "bins must be a positive integer, got 0"),
        ({"bins": 4_194_304}, "give at most 4,194,303; 5 are usual"),
        ({"bins": 5, "smooth": True}, "smoothed risk scores have no bins"),
        ({"least": 0}, "least must be a positive integer, got 0"),
        ({"scale": "root"}, "unknown scale 'root'; use one of log, linear"),
        ({"shadow": table([1, 2], [1, 1])}, "all 2 shadow samples are of one kind"),
    ):
        with pytest.raises(EstimationError, match=words):
            risk_scores(shadow, **{"shadow": shadow, **options})
    with pytest.raises(EstimationError, match="scores lie from 0 to 2; give probabilities"):
        reliability([0.0, 2.0], np.array([True, False]))


def test_reliability_of_scores_of_any_kind_golden():
    # Outputs of a network: two bins. At 0.9 three members of M = 4 and one non-member of
    # N = 4: weights 3/8 and 1/8, share 3/4, off 0.15. At 0.2 one and three: share 1/4, off
    # 0.05. Both weigh 1/2: 0.1; root of (0.15^2 + 0.05^2) / 2.
    scores = [0.9] * 4 + [0.2] * 4
    member = np.array([1, 1, 1, 0, 1, 0, 0, 0], bool)
    found = reliability(scores, member)
    assert found.calibration_error.value == pytest.approx(0.1)
    assert found.rmse == pytest.approx(math.sqrt((0.15**2 + 0.05**2) / 2))
    # Where members are one in ten, the weights are 0.1 M / 4 and 0.9 N / 4.
    found = reliability(scores, member, prior=0.1)
    np.testing.assert_allclose(found.share, [0.025 / 0.7, 0.075 / 0.3])
    found = reliability([0.0, 1.0], np.array([False, True]), bins=1)
    assert found.calibration_error.value == 0.0
    # In one bin the mean of the errors, each kind with a spread of 0.05.
    spread = np.tile([0.45, 0.55], 1000)
    found = reliability(spread + 0.1, np.arange(2000) < 1000, bins=1).calibration_error
    assert found.value == pytest.approx(0.1)
    error = math.sqrt(2 * 0.0005**2 * (1000 * 0.05**2 + 0.5**2))  # and one more in the middle
    assert found.value - found.lower == pytest.approx(2.2414 * error, rel=0.03)
    # All scores 1/2: the share of members at prior 1/2 is 1/2, however few there are.
    shadow, target = table([1, 1], [1, 0]), table([1] * 10, [1] + [0] * 9)
    found = reliability(risk_scores(target, shadow=shadow, least=1), target.member[0])
    assert (found.rmse, found.calibration_error.value) == pytest.approx((0, 0), abs=1e-15)
    assert (found.score[0], found.share[0]) == pytest.approx((0.5, 0.5))


@pytest.mark.parametrize(("each", "slope"), [(50, 0.6), (400, 1.0), (400, 0.6)])
def test_interval_of_the_calibration_error_coverage(each, slope):
    # Scores s of a member with probability 1/2 + slope (s - 1/2). Each bin k of ten is
    # off by |1 - slope| |s - 1/2|, on average 0.25 of it.
    rng = np.random.default_rng(0)
    truth, missed, runs = 0.25 * (1 - slope), [0, 0], 100
    for _ in range(runs):
        s = rng.random(8 * each)
        kind = rng.random(len(s)) < 0.5 + slope * (s - 0.5)
        scores = np.concatenate([s[kind][:each], s[~kind][:each]])
        found = reliability(scores, np.arange(2 * each) < each).calibration_error
        missed[0] += found.lower > truth
        missed[1] += found.upper < truth
    assert max(missed) <= 0.025 * runs + 5  # 2.5 are usual, and 8 have a chance of 0.4 %
