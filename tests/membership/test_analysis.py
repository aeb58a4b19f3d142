"""What risk scores are worth: guesses, leakage, generalization error, sensitivity, distances."""

from __future__ import annotations

import math

import numpy as np
import pytest

from canary.errors import CanaryError
from canary.membership.analysis import (
    by_risk,
    class_risks,
    feature_distances,
    leakage,
    overstated,
    possible_class_risks,
    precision_recall,
    risk_at,
    sensitivity,
)
from canary.membership.risk import RiskScores, risk_scores
from canary.signals.measuring import measure
from canary.signals.signal_table import SignalTable
from canary.statistics.distances import correlation


def risks(scores, prior=0.5):
    return RiskScores(np.asarray(scores, float), prior, 5, "log", np.zeros(1, bool))


def test_precision_and_recall_golden():
    # Members 1, 0.9, 0.4, 0.4 and non-members 0.9, 0.1.
    scores, member = [1, 0.9, 0.4, 0.4, 0.9, 0.1], [1, 1, 1, 1, 0, 0]
    found = precision_recall(scores, member, [1, 0.9, 0.4, 2])
    counts = [(one.true_positives, one.false_positives) for one in found]
    assert counts == [(1, 0), (2, 1), (4, 1), (0, 0)]
    assert [g.precision and g.precision.value for g in found] == [1, 2 / 3, 4 / 5, None]
    assert [g.recall.value for g in found] == [0.25, 0.5, 1, 0]
    # At prior 1/2 non-members weigh twice: 2 of 2 + 2, 4 of 4 + 2.
    found = precision_recall(risks(scores), member, [0.9, 0.4])
    assert [g.precision.value for g in found] == pytest.approx([1 / 2, 2 / 3])
    # At prior 1/10, 0.1 * 2/4 of 0.1 * 2/4 + 0.9 * 1/2.
    found = precision_recall(scores, member, [0.9], prior=0.1)
    assert found[0].precision.value == pytest.approx(0.05 / 0.5)


@pytest.mark.parametrize(("right", "noted"), [(77, True), (84, False), (0, False)])
def test_scores_that_claim_more_than_is_true_are_noted_theory(right, noted):
    """Of 100 samples of a score of 0.95, 84 may be members where 90 are (77 may not)."""
    scores = np.concatenate([np.full(100, 0.95), np.full(100, 0.1)])
    scores[: 100 * (not right)] = 0.1  # then no sample is at high risk
    member = np.concatenate([np.arange(100) < right, np.arange(100) >= right])
    notes = overstated(risks(scores), member)
    assert bool(notes) is noted
    assert not noted or "77.0 % (67.5 to 84.8) were in the training data" in notes[0]


def test_precision_at_a_prior_coverage():
    # A member is called with chance 0.3 and a non-member with 0.1: at prior 0.2 the precision
    # is 0.06 / (0.06 + 0.08).
    rng = np.random.default_rng(0)
    member = np.arange(300) < 200
    missed = 0
    for _ in range(400):
        scores = rng.random(300) < np.where(member, 0.3, 0.1)
        (found,) = precision_recall(scores, member, [1], prior=0.2)
        missed += not found.precision.lower <= 3 / 7 <= found.precision.upper
    assert missed <= 20 + 9  # two standard errors


def test_another_prior_is_the_score_computed_anew_oracle():
    rng = np.random.default_rng(1)
    member = np.arange(400) % 2 == 0
    table, shadow = (
        SignalTable({"modified-entropy": np.exp(values)[None]}, member[None], np.zeros(400, int), 1)
        for values in rng.normal(-1.0 * member, 1, (2, 400))
    )
    for prior in (0.02, 0.7):
        anew = risk_scores(table, shadow=shadow, prior=prior).scores
        again = risk_at(risk_scores(table, shadow=shadow, prior=0.3), prior)
        np.testing.assert_allclose(again, anew, rtol=1e-12)


def test_leakage_golden():
    # Likelihood ratios 3 and 1 of two members: at prior 1/2 scores 3/4 and 1/2, mean 5/8; at
    # 1/4, odds 1 and 1/3, scores 1/2 and 1/4.
    found = leakage(risks([0.75, 0.5, 0.0]), [1, 1, 0], [0.5, 0.25])
    assert [one.leakage.value for one in found] == pytest.approx([1 / 8, 1 / 8])
    assert [one.above for one in found] == [0.5, 0.5]
    assert found[0].leakage.upper <= 0.5
    (single,) = leakage(risks([0.9, 0.0]), [1, 0], [0.5])
    assert (single.leakage.lower, single.leakage.upper) == (-0.5, 0.5)


def test_class_risks_golden():
    # Five classes; class c has two members, both right, of risk c/10 on average, and four
    # non-members of which c are wrong; class 5 has no non-member.
    label, member, right, score = [], [], [], []
    for c in range(5):
        label += [c] * 6
        member += [1, 1, 0, 0, 0, 0]
        right += [1, 1] + [0] * c + [1] * (4 - c)
        score += [c / 10 - 0.01, c / 10 + 0.01] + [0.9] * 4
    table = SignalTable(
        {"correctness": np.array([[*right, 1]], float)},
        np.array([[*member, 1]], bool),
        np.array([*label, 5]),
        6,
    )
    found = class_risks(table, risks([*np.abs(score), 1.0]), least=2)
    assert found.classes.tolist() == [0, 1, 2, 3, 4]
    np.testing.assert_allclose(found.error, [0, 0.25, 0.5, 0.75, 1])
    np.testing.assert_allclose(found.risk, [0.01, 0.1, 0.2, 0.3, 0.4])
    assert found.correlation.rank.value == 1
    assert found.summary().startswith("Over 5 classes the mean risk of the members and the gen")
    assert "Class 4 generalizes worst: its error is 100 %, and the mean risk" in found.summary()
    assert found.to_frame()["class"].tolist() == [0, 1, 2, 3, 4]


def test_possible_class_risks_are_none_where_there_are_too_few_classes():
    rng = np.random.default_rng(3)

    def made(classes):
        values = {"correctness": (rng.random((1, 400)) < 0.7).astype(float)}
        return SignalTable(values, rng.random((1, 400)) < 0.5, np.arange(400) % classes, classes)

    of_all, four = risks(rng.random(400)), made(4)
    assert possible_class_risks(made(3), of_all) is None
    assert possible_class_risks(four, risks(np.full(400, 0.5))) is None
    found = possible_class_risks(four, of_all, confidence=0.8)
    assert found.correlation == class_risks(four, of_all, confidence=0.8).correlation


def test_classes_that_generalize_badly_are_at_risk_theory():
    # Logits of class c: members of all classes are known, non-members the worse the later.
    rng = np.random.default_rng(0)

    def drawn():
        label, member = rng.integers(0, 10, 8000), rng.random(8000) < 0.5
        logits = rng.normal(0, 1, (8000, 10))
        logits[np.arange(8000), label] += np.where(member, 5.0, 5.0 - label / 3)
        return measure(logits, y=label, member=member, outputs="logits")

    target = drawn()
    found = class_risks(target, risk_scores(target, shadow=drawn()))
    assert found.correlation.rank.lower > 0.5
    assert found.correlation.linear.value > 0.9


def test_sensitivity_golden():
    # Samples 0, 1, 2 are members of model 0. Model 1 lacks sample 0, models 2 and 3 lack
    # sample 1, nobody lacks sample 2; sample 3 is no member.
    entropy = np.array([[1, 0, 1, 1], [math.e, 9, 9, 9], [9, 1e-8, 9, 9], [9, 1e-6, 9, math.inf]])
    member = np.array([[1, 1, 1, 0], [0, 1, 1, 0], [1, 0, 1, 0], [1, 0, 1, 1]], bool)
    labels = np.zeros(4, int)
    expected = [1, math.log(1e-7 / 1e-10), math.nan, math.nan]
    table = SignalTable({"modified-entropy": entropy}, member, labels, 2)
    np.testing.assert_allclose(sensitivity(table), expected)
    endless = np.array([[math.inf, 1.0, math.inf], [math.inf, math.inf, 1.0]])
    of_all = np.array([[1, 1, 1], [0, 0, 0]], bool)
    table = SignalTable({"modified-entropy": endless}, of_all, labels[:3], 2)
    assert sensitivity(table).tolist() == [0, math.inf, -math.inf]


def test_influential_samples_of_a_linear_model_are_at_risk_theory():
    # Ridge classifiers by least squares, one without each member; samples far out have the
    # leverage, and so the sensitivity.
    rng = np.random.default_rng(1)
    n, d = 60, 20
    x = rng.normal(size=(2 * n, d)) * rng.choice([0.5, 3.0], (2 * n, 1))
    y = rng.integers(0, 2, 2 * n)

    def outputs(rows):
        a = x[rows]
        w = np.linalg.solve(a.T @ a + np.eye(d), a.T @ (2.0 * y[rows] - 1))
        score = 3 * x @ w
        return np.column_stack([-score, score])

    parts = [np.arange(n), *(np.delete(np.arange(n), i) for i in range(n))]
    member = np.array([np.isin(np.arange(2 * n), part) for part in parts])
    table = measure([outputs(p) for p in parts], y=y, member=member, outputs="logits")
    found = sensitivity(table)
    leverage = np.einsum("ij,ij->i", x[:n], np.linalg.solve(x[:n].T @ x[:n] + np.eye(d), x[:n].T).T)
    assert (found[:n] > 0).mean() > 0.95
    assert correlation(found[:n], leverage).rank.lower > 0.4
    assert np.isnan(found[n:]).all()


def test_by_risk_golden():
    values = [1, 2, 3, 4, 10, math.nan, 7]
    found = by_risk(risks([0.11, 0.12, 0.1, 0.19, 1.0, 0.5, 0.95]), values)
    assert [(b.low, b.count, b.mean) for b in found] == [(0.1, 4, 2.5), (0.9, 2, 8.5)]
    assert (found[0].first_quartile, found[0].third_quartile) == (1.75, 3.25)


def test_feature_distances_golden(monkeypatch):
    points, label, root = [[0, 0], [3, 4], [0, 1], [100, 100], [0, 0]], [0, 0, 0, 1, 2], 18**0.5
    for numbers in (1 << 24, 2):  # in one piece, and in several
        monkeypatch.setattr("canary.membership.analysis._NUMBERS", numbers)
        found = feature_distances(points, label)
        np.testing.assert_allclose(found.nearest, [1, root, 1, np.nan, np.nan])
        np.testing.assert_allclose(found.mean, [3, (5 + root) / 2, (1 + root) / 2, np.nan, np.nan])
        found = feature_distances(points, label, among=np.array([0, 1, 0, 1, 0], bool))
        np.testing.assert_allclose(found.nearest, [5, np.nan, root, np.nan, np.nan])
        np.testing.assert_allclose(found.mean, found.nearest)


def test_refused_input():
    of_all, labels = risks(np.full(400, 0.5)), np.zeros(400, int)
    table, entropy = (
        SignalTable({name: np.ones((1, 400))}, np.ones((1, 400)) == 1, labels, 1)
        for name in ("correctness", "modified-entropy")
    )
    other, one = risks(np.ones(399)), {"among": [True, True]}
    for words, function, *given, options in (
        ("0 pairs of numbers", class_risks, table, of_all, {}),
        ("numbers of 399 samples for 400", class_risks, table, other, {}),
        ("numbers of 399 samples for 400", possible_class_risks, table, other, {}),
        ("confidence must be", possible_class_risks, table, of_all, {"confidence": 95}),
        ("of 1 models none lacks a member of model 0", sensitivity, entropy, {}),
        ("numbers of 2 samples for 1", by_risk, risks([0.5]), [1, 2], {}),
        ("a choice of .2,.", feature_distances, [[0.0]], [0], one),
        ("a feature is NaN", feature_distances, [[math.nan]], [0], {}),
        ("thresholds must be numbers", precision_recall, [1, 0], [1, 0], [math.nan], {}),
    ):
        with pytest.raises(CanaryError, match=words):
            function(*given, **options)
