"""Intervals over fleets: the jackknife by hand, what they cover, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from many_models import halves, random_table, table_of

from canary.errors import EstimationError, InputError
from canary.membership.aggregate import evaluate_models, over_fleets
from canary.membership.many import attack_models


def test_each_model_is_left_out_oracle():
    table = random_table(np.random.default_rng(0), models=6, samples=60)
    found = over_fleets(table, "R", fprs=[0.1, 0.5], rule="linear", confidence=0.9)
    left = []
    for model in range(6):
        rest = table.select(models=[row for row in range(6) if row != model])
        left.append(evaluate_models(attack_models(rest, "R", rule="linear")))
    # Student's t of 5 degrees of freedom has 2.015 at 95 %.
    for estimate, values in (
        (found.auc, [one.auc.mean for one in left]),
        (found.tpr[0], [one.tpr_at_fpr(0.1).mean for one in left]),
        (found.tpr[1], [one.tpr_at_fpr(0.5).mean for one in left]),
    ):
        error = np.sqrt(5 / 6 * np.sum((np.array(values) - np.mean(values)) ** 2))
        assert estimate.upper == pytest.approx(min(estimate.value + 2.0150484 * error, 1), abs=1e-7)
        assert estimate.lower == pytest.approx(max(estimate.value - 2.0150484 * error, 0), abs=1e-7)
    whole = evaluate_models(attack_models(table, "R", rule="linear"))
    assert found.auc.value == whole.auc.mean
    assert found.tpr[1].value == whole.tpr_at_fpr(0.5).mean
    assert (found.groups, found.models, found.fprs) == (6, 6, (0.1, 0.5))
    counted = []
    assert over_fleets(table, "P", groups=2, done=counted.append).groups == 2
    assert counted == [1, 1, 1]
    counted.clear()
    given = over_fleets(
        table,
        "R",
        fprs=[0.1, 0.5],
        rule="linear",
        confidence=0.9,
        across=whole,
        done=counted.append,
    )
    assert (given.auc, given.tpr, given.groups) == (found.auc, found.tpr, found.groups)
    assert counted == [1] * 6
    assert found.auc_at(0.99) == over_fleets(table, "R", rule="linear", confidence=0.99).auc


def fleet(seed, models, samples, *, effect=1.0):
    """A table of models on halves of the same samples, with fresh splits and trainings."""
    ease = 2 * np.random.default_rng(0).normal(size=samples)
    rng = np.random.default_rng([seed, models])
    member = halves(rng, models, samples)
    learned = effect + 0.3 * rng.normal(size=(models, 1))
    logit = ease + learned * member + rng.normal(size=member.shape)
    return table_of(np.logaddexp(0, -logit), member)


def covered(name, models, fleets, samples, *, fpr=0.1, effect=1.0):
    """How often the intervals of AUC and TPR hold the mean over fleets, on the same samples."""
    found = []
    for seed in range(fleets):
        table = fleet(seed, models, samples, effect=effect)
        over = over_fleets(table, name, fprs=[fpr])
        found.append((over.auc, over.tpr[0]))
    return [
        np.mean([one.lower <= np.mean([x.value for x in row]) <= one.upper for one in row])
        for row in zip(*found, strict=True)
    ]


def test_other_fleets_are_covered_coverage():
    assert min(covered("lira-online-fixed", 8, 40, 100)) >= 0.88


def test_parts_that_agree_are_no_proof_degenerate():
    """All parts with an AUC of 1 or a TPR of 0 have the width that so few samples leave."""
    perfect = fleet(0, 8, 60, effect=30.0)
    found = over_fleets(perfect, "lira-online-fixed", fprs=[0.2])
    own = evaluate_models(attack_models(perfect, "lira-online-fixed"))
    auc = [one.auc for one in own.evaluations]
    assert found.auc.lower == pytest.approx(np.mean([one.lower for one in auc]))
    assert (found.auc_error, found.auc.value, found.auc.upper) == (0.0, 1.0, 1.0)
    assert 0.8 < found.tpr[0].lower < found.tpr[0].value == found.tpr[0].upper == 1.0
    assert found.auc_at(0.99).lower < found.auc.lower < found.auc_at(0.9).lower < 1.0
    # By the empirical rule three references say nothing at 5 %: nobody is called a member.
    nothing = over_fleets(fleet(0, 8, 60), "R", fprs=[0.05]).tpr[0]
    assert (nothing.value, nothing.lower) == (0.0, 0.0)
    assert 0.05 < nothing.upper < 0.2
    # Equal losses have an AUC of 0.5 in every part.
    equal = fleet(0, 8, 60)
    equal.values["loss"][:] = 0.3
    assert over_fleets(equal, "R").auc.lower < 0.5 < over_fleets(equal, "R").auc.upper


def test_fleets_of_nearly_perfect_attacks_are_covered_coverage():
    """Most parts have an AUC of 1; without a width of their own one interval in four covered."""
    assert min(covered("lira-online-fixed", 8, 20, 60, effect=7.0)) >= 0.9


@pytest.mark.slow
@pytest.mark.parametrize("models", [8, 16])
@pytest.mark.parametrize("name", ["R", "P", "lira-online-fixed", "rmia"])
def test_attacks_are_covered_coverage(name, models):
    """Of a TPR they cover more often than they say: rates come in steps."""
    auc, tpr = covered(name, models, 100, 300)
    assert auc >= 0.9
    assert tpr >= 0.9


def test_over_fleets_input():
    table = random_table(np.random.default_rng(0), models=6)
    for options, words in (
        ({"groups": 7}, "7 groups of 6 models; ask for 2 to 6"),
        ({"groups": 1}, "1 groups of 6 models"),
        ({"name": "D"}, "attack D needs models that were distilled"),
        ({"table": table.select(models=range(3))}, "3 models; train 4 or more"),
    ):
        with pytest.raises(InputError, match=words):
            over_fleets(**{"table": table, "name": "R", **options})
    with pytest.raises(EstimationError, match="groups must be a positive integer"):
        over_fleets(table, "R", groups=0)
    # Of four models on halves, three leave samples that one of them is out of.
    few = random_table(np.random.default_rng(0), models=4)
    with pytest.raises(InputError, match="members of every model that they could be compared"):
        over_fleets(few, "R")
