"""Evaluation across targets, attacks compared, and the losses behind a threshold."""

from __future__ import annotations

import numpy as np
import pytest
from many_models import null_of, random_table

import canary
from canary.membership.aggregate import (
    ALPHAS,
    Spread,
    agreement,
    evaluate_models,
    rates,
    sample_auc,
)
from canary.membership.diagnostics import null_losses, scatter
from canary.membership.many import ManyScores, attack_models, loss_thresholds


@pytest.fixture(params=[False, True], ids=["smooth", "ties"])
def table(request):
    return random_table(np.random.default_rng(0), samples=60, ties=request.param)


def test_targets_one_by_one_oracle(table):
    scores = attack_models(table, "R")
    across = evaluate_models(scores, fprs=[0.0, 0.1, 0.25, 1.0])
    each = [
        canary.evaluate(score, member)
        for score, member in zip(scores.scores, table.member, strict=True)
    ]
    areas = [one.auc.value for one in each]
    assert across.auc == Spread.of(areas)
    assert across.auc.mean == pytest.approx(np.mean(areas))
    assert across.auc.sd == pytest.approx(np.std(areas, ddof=1))
    assert across.most_vulnerable()[0] == int(np.argmax(areas))
    at = [[one.tpr_at_fpr(f).tpr.value for f in (0.1, 0.25, 1.0)] for one in each]
    np.testing.assert_array_equal(across.tprs[:, 1:], at)
    assert across.average_tpr[-1] == 1.0
    assert across.tpr_at_fpr(0.25).mean == pytest.approx(np.mean(at, axis=0)[1])
    at_none = [
        np.mean(score[member] > score[~member].max())
        for score, member in zip(scores.scores, table.member, strict=True)
    ]
    np.testing.assert_array_equal(across.tprs[:, 0], at_none)


def test_samples_one_by_one_oracle(table):
    scores = attack_models(table, "R")
    found = sample_auc(scores)
    for at, auc, inside in zip(found.samples, found.auc, found.members, strict=True):
        expected = canary.evaluate(scores.scores[:, at], table.member[:, at])
        assert auc == pytest.approx(expected.auc.value)
        assert inside == table.member[:, at].sum()
    np.testing.assert_array_equal(found.members + found.nonmembers, 8)


def test_samples_with_infinite_scores_golden():
    # Sample 0: the member ties with one nonmember at minus infinity, the other is higher.
    scores = np.array([[-np.inf, np.inf], [-np.inf, 0.0], [0.0, 0.0]])
    member = np.array([[True, True], [False, False], [False, False]])
    judged = np.array([True, True])
    found = sample_auc(ManyScores("R", scores, member, judged, (0, 1, 2), 2, (), False))
    assert found.auc.tolist() == [0.25, 1.0]
    assert found.most_vulnerable(1).tolist() == [1]


def test_agreement_by_hand_golden():
    judged = np.ones(4, np.bool_)
    member = np.array([[True, True, False, False]])
    # At 1/2 a bit is needed.
    first = ManyScores("R", np.array([[2.0, 0.5, 2.0, 0.0]]), member, judged, (0,), 1, (), False)
    second = ManyScores("S", np.array([[2.0, 2.0, 0.0, 0.0]]), member, judged, (0,), 1, (), False)
    found = agreement([first, second], alpha=0.5)
    assert found.names == ("truth", "R", "S")
    assert found.members.tolist() == [[1, 0.5, 1], [0.5, 1, 0.5], [1, 0.5, 1]]
    assert found.nonmembers.tolist() == [[1, 0.5, 1], [0.5, 1, 0.5], [1, 0.5, 1]]


def test_rates_are_those_of_guesses(table):
    scores = attack_models(table, "P")
    found = rates(scores)
    for alpha, fpr, tpr in zip(ALPHAS, found.fpr, found.tpr, strict=True):
        guess = scores.guess(alpha)
        assert fpr == guess[~table.member].mean()
        assert tpr == guess[table.member].mean()
    assert (np.diff(found.fpr) >= 0).all()


@pytest.mark.parametrize("name", list("SPRDL"))
def test_losses_behind_a_threshold_oracle(table, name):
    own = name in ("D", "L")
    one = table.select(models=[5]) if own else table
    others = np.delete(np.arange(table.models), 5)
    shadow, target = (table.select(models=others), 0) if own else (None, 5)
    for sample in (0, 7, 31):
        found = null_losses(one, name, target=target, sample=sample, alpha=0.4, shadow=shadow)
        expected = np.sort(null_of(one, name, target, sample, shadow=shadow))
        np.testing.assert_array_equal(found.losses, expected)
        assert found.observed == one.signal("loss")[target, sample]
        thresholds = loss_thresholds(one, name, 0.4, targets=[target], shadow=shadow)
        assert found.threshold == thresholds[0, sample]
        assert found.member == one.member[target, sample]


def test_population_behind_a_threshold_oracle(table):
    aside = np.arange(60) < 30
    found = null_losses(table, "P", target=2, sample=40, alpha=0.4, population=aside)
    expected = np.sort(null_of(table, "P", 2, 40, population=aside))
    np.testing.assert_array_equal(found.losses, expected)


def test_margins_are_losses_less_thresholds(table):
    found = scatter(table, ("S", "R"), alpha=0.05, target=3)
    for name, margin in zip(found.names, found.margins, strict=True):
        at = loss_thresholds(table, name, 0.05, targets=[3])[0]
        np.testing.assert_array_equal(margin <= 0, table.signal("loss")[3] <= at)
        finite = np.isfinite(at)
        np.testing.assert_allclose(margin[finite], (table.signal("loss")[3] - at)[finite])
        assert (margin[~finite] == np.inf).all()
    aside = scatter(table, ("S", "P"), alpha=0.3, population=range(30))
    assert aside.margins.shape == (2, 30)
