"""Precision and recall by threshold, and leakage at other priors."""

from __future__ import annotations

import numpy as np
import pytest

from canary.membership.analysis import leakage, precision_recall, risk_at
from canary.membership.risk import RiskScores, risk_scores
from canary.signals.signal_table import SignalTable


def risks(scores, prior=0.5):
    return RiskScores(np.asarray(scores, float), prior, 5, "log", np.zeros(1, bool))


def test_by_hand_golden():
    # Members 1, 0.9, 0.4, 0.4 and nonmembers 0.9, 0.1.
    scores, member = [1, 0.9, 0.4, 0.4, 0.9, 0.1], [1, 1, 1, 1, 0, 0]
    found = precision_recall(scores, member, [1, 0.9, 0.4, 2])
    assert [(g.true_positives, g.false_positives) for g in found] == [
        (1, 0),
        (2, 1),
        (4, 1),
        (0, 0),
    ]
    assert [g.precision and g.precision.value for g in found] == [1, 2 / 3, 4 / 5, None]
    assert [g.recall.value for g in found] == [0.25, 0.5, 1, 0]
    # At prior 1/2 nonmembers weigh twice: 2 of 2 + 2, 4 of 4 + 2.
    found = precision_recall(risks(scores), member, [0.9, 0.4])
    assert [g.precision.value for g in found] == pytest.approx([1 / 2, 2 / 3])
    # At prior 1/10, 0.1 * 2/4 of 0.1 * 2/4 + 0.9 * 1/2.
    found = precision_recall(scores, member, [0.9], prior=0.1)
    assert found[0].precision.value == pytest.approx(0.05 / 0.5)


def test_precision_at_a_prior_coverage():
    # A member is called with chance 0.3 and a nonmember with 0.1: at prior 0.2 the precision
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
        SignalTable(
            {"modified-entropy": np.exp(rng.normal(-1.0 * member, 1))[None]},
            member[None],
            np.zeros(400, int),
            1,
        )
        for _ in range(2)
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
    assert single.leakage.lower == -0.5
