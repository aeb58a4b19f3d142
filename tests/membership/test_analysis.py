"""Risk against generalization error, sensitivity and distances in feature space."""

from __future__ import annotations

import math

import numpy as np
import pytest

from canary.errors import EstimationError, InputError
from canary.membership.analysis import (
    by_risk,
    class_risks,
    feature_distances,
    possible_class_risks,
    sensitivity,
)
from canary.membership.risk import RiskScores, risk_scores
from canary.signals.measuring import measure
from canary.signals.signal_table import SignalTable
from canary.statistics.distances import correlation


def risks(scores):
    return RiskScores(np.asarray(scores, float), 0.5, 5, "log", np.zeros(1, bool))


def test_class_risks_golden():
    # Five classes; class c has two members, both right, of risk c/10 on average, and four
    # nonmembers of which c are wrong; class 5 has no nonmember.
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
    with pytest.raises(EstimationError, match="0 pairs of numbers"):
        class_risks(table, risks([*np.abs(score), 1.0]))


def test_possible_class_risks_are_none_where_there_are_too_few_classes_and_hide_no_error():
    rng = np.random.default_rng(3)

    def made(classes):
        values = {"correctness": (rng.random((1, 400)) < 0.7).astype(float)}
        return SignalTable(values, rng.random((1, 400)) < 0.5, np.arange(400) % classes, classes)

    of_all = risks(rng.random(400))
    four = made(4)
    assert possible_class_risks(made(3), of_all) is None
    assert possible_class_risks(four, risks(np.full(400, 0.5))) is None
    found = possible_class_risks(four, of_all, confidence=0.8)
    assert found is not None
    assert found.correlation == class_risks(four, of_all, confidence=0.8).correlation
    for table in (made(3), four):
        with pytest.raises(EstimationError, match="confidence must lie between 0 and 1"):
            possible_class_risks(table, of_all, confidence=95)
        with pytest.raises(InputError, match="numbers of 399 samples for 400"):
            possible_class_risks(table, risks(rng.random(399)))


def test_classes_that_generalize_badly_are_at_risk_theory():
    # Logits of class c: members of all classes are known, nonmembers the worse the later.
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
    table = SignalTable({"modified-entropy": entropy}, member, np.zeros(4, int), 2)
    expected = [1, math.log(1e-7 / 1e-10), math.nan, math.nan]
    np.testing.assert_allclose(sensitivity(table), expected)
    endless = SignalTable(
        {"modified-entropy": np.array([[math.inf, 1.0, math.inf], [math.inf, math.inf, 1.0]])},
        np.array([[1, 1, 1], [0, 0, 0]], bool),
        np.zeros(3, int),
        2,
    )
    assert sensitivity(endless).tolist() == [0, math.inf, -math.inf]
    with pytest.raises(InputError, match="of 4 models none lacks a member of model 3"):
        sensitivity(
            SignalTable({"modified-entropy": entropy}, member | True, np.zeros(4, int), 2), target=3
        )


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
    with pytest.raises(InputError, match="numbers of 2 samples for 1"):
        by_risk(risks([0.5]), [1, 2])


def test_feature_distances_golden():
    points = [[0, 0], [3, 4], [0, 1], [100, 100], [0, 0]]
    found = feature_distances(points, [0, 0, 0, 1, 2])
    root = math.sqrt(18)
    np.testing.assert_allclose(found.nearest, [1, root, 1, np.nan, np.nan])
    np.testing.assert_allclose(found.mean, [3, (5 + root) / 2, (1 + root) / 2, np.nan, np.nan])
    among = np.array([0, 1, 0, 1, 0], bool)
    found = feature_distances(points, [0, 0, 0, 1, 2], among=among)
    np.testing.assert_allclose(found.nearest, [5, np.nan, root, np.nan, np.nan])
    np.testing.assert_allclose(found.mean, found.nearest)


def test_feature_distances_in_pieces_oracle(monkeypatch):
    rng = np.random.default_rng(2)
    points, label = rng.normal(size=(60, 3)), rng.integers(0, 3, 60)
    monkeypatch.setattr("canary.membership.analysis._NUMBERS", 50)
    found = feature_distances(points, label)
    for row in range(60):
        others = [i for i in range(60) if i != row and label[i] == label[row]]
        distance = [math.dist(points[row], points[i]) for i in others]
        assert found.nearest[row] == pytest.approx(min(distance))
        assert found.mean[row] == pytest.approx(np.mean(distance))
