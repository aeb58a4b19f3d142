"""How many samples a limit takes: what the number promises, and that the guide has it."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from canary.errors import InputError
from canary.membership.samples_needed import plan_attacks
from canary.statistics.roc import nonmembers_for_auc, roc
from canary.statistics.shares import nonmembers_for_lower_end, nonmembers_to_decide

GUIDE = Path(__file__).parents[2] / "docs/guides/membership.md"


def upper(scores, fpr, confidence):
    member = np.arange(len(scores)) < len(scores) // 2
    return roc(scores, member).tpr_at_fpr(fpr, confidence=confidence).tpr.upper


@pytest.mark.parametrize(("fpr", "limit"), [(0.1, 0.2), (0.02, 0.05), (0.01, 0.03)])
def test_guesses_are_within_the_limit_coverage(fpr, limit):
    """In 90 of 100 tests, and with half of the samples in far fewer."""
    needed = nonmembers_to_decide(fpr, limit, confidence=0.95)
    rng = np.random.default_rng(0)
    for number, least, most in ((needed, 0.82, 0.98), (needed // 2, 0.1, 0.75)):
        within = [upper(rng.random(2 * number), fpr, 0.95) <= limit for _ in range(200)]
        assert least < np.mean(within) < most


@pytest.mark.parametrize("limit", [0.55, 0.7])
def test_guesses_are_within_a_limit_on_the_auc_coverage(limit):
    needed = nonmembers_for_auc(limit, confidence=0.95)
    rng = np.random.default_rng(0)
    for number, least, most in ((needed, 0.82, 0.98), (needed // 2, 0.1, 0.75)):
        member = np.arange(2 * number) < number
        found = [roc(rng.random(2 * number), member).auc().upper <= limit for _ in range(200)]
        assert least < np.mean(found) < most
    assert roc(np.repeat([1.0, 0.0], needed), np.arange(2 * needed) < needed).auc().lower > limit


def test_a_wide_limit_takes_what_any_alarm_takes():
    for fpr, limit in ((0.001, 0.02), (0.01, 0.2)):
        least = nonmembers_for_lower_end(fpr, confidence=0.95)
        assert nonmembers_to_decide(fpr, limit, confidence=0.95) == least
        member = np.arange(2 * least) < least
        found = roc(member.astype(float), member).tpr_at_fpr(fpr, confidence=0.95)
        assert found.tpr.lower > limit


def test_a_plan_in_words():
    planned = plan_attacks({0.001: 0.02, 0.01: 0.01})
    assert planned.nonmembers == {0.001: 6251, 0.01: None}
    words = planned.summary()
    assert "6,251 non-members and as many members with 13 attacks, 3,688 with one" in words
    assert "it is what guessing reaches" in words
    assert planned.to_frame()["with_one_attack"][0] == 3688


def test_a_plan_for_the_auc_in_words():
    planned = plan_attacks(max_auc=0.55)
    words = "A limit of 0.55 on the AUC: 1,152 non-members and as many members with 13 attacks, 696"
    assert planned.summary().startswith(words)
    assert plan_attacks(max_auc=0.5).nonmembers == {None: None}
    with pytest.raises(InputError, match="no limit to plan for.*or max_auc"):
        plan_attacks()


@pytest.mark.parametrize("options", [{"attacks": 0}, {"confidence": 1.0}, {"max_auc": 0.4}])
def test_bad_numbers_are_refused_input(options):
    with pytest.raises((InputError, ValueError)):
        plan_attacks({0.001: 0.02}, **options)


def test_the_table_of_the_guide():
    rows = re.findall(
        r"^\| ([\d.]+) % at ([\d.]+) % \| ([\d,]+) \| ([\d,]+) \|$", GUIDE.read_text(), re.M
    )
    assert len(rows) >= 4
    (auc,) = re.findall(r"^\| AUC ([\d.]+) \| ([\d,]+) \| ([\d,]+) \|$", GUIDE.read_text(), re.M)
    planned = plan_attacks(max_auc=float(auc[0]))
    assert auc[1:] == (f"{planned.with_one[None]:,}", f"{planned.nonmembers[None]:,}")
    for limit, fpr, one, many in rows:
        rate, most = float(fpr) / 100, float(limit) / 100
        planned = plan_attacks({rate: most})
        assert (planned.with_one[rate], planned.nonmembers[rate]) == tuple(
            int(number.replace(",", "")) for number in (one, many)
        )
