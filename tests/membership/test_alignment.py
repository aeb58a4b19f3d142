"""Models whose samples are in another order decide nothing; honest fleets are not doubted."""

from __future__ import annotations

import numpy as np
import pytest

import canary
from canary.membership.alignment import correlations, other_order
from canary.membership.models_survey import survey_models

SAMPLES, CLASSES = 2000, 5


def fleet(orders, *, shared=1.5, gap=2.0, seed=0, samples=SAMPLES):
    """Models of the same samples, each in its own order of those of a class (`orders`)."""
    rng = np.random.default_rng(seed)
    labels, ease = rng.integers(0, CLASSES, samples), shared * rng.normal(size=samples)
    each, members = [], []
    for order in orders:
        member, logits = rng.random(samples) < 0.5, rng.normal(size=(samples, CLASSES))
        logits[np.arange(samples), labels] += gap + ease + 2.0 * member
        place = np.arange(samples)
        if order is not None:
            mixed = np.random.default_rng(order)
            for label in range(CLASSES):
                inside = np.flatnonzero(labels == label)
                place[inside] = mixed.permutation(inside)
        each.append(logits[place])
        members.append(member[place])
    return canary.measure(each, y=labels, member=np.array(members), outputs="logits")


def named(table):
    return [str(row) for row in range(table.models)]


@pytest.mark.parametrize(
    ("orders", "which"),
    [
        ((None, 1, 1, 1, 1, 1), "are not for model 0:"),  # the target alone has another order
        ((None, None, 1, None), "are not for model 2:"),
        ((1, 2, 3, 4), "Each file may"),
        ((None, 1, 2, 3, 4, 5, 6, 7), "Each file may"),
    ],
)
def test_another_order_within_each_class_decides_nothing(orders, which):
    found = survey_models(fleet(orders), attacks="P", targets=[0])
    assert any("in another order, within each class" in d and which in d for d in found.doubts)
    assert found.told_apart() is None
    assert canary.check(found, max_tpr_at_fpr={0.1: 0.9}).outcome == "undecided"


@pytest.mark.parametrize("gap", [0.5, 2.0, 12.0])  # of the last, most losses are near 0
@pytest.mark.parametrize("samples", [40, 200, 2000])
def test_models_of_the_same_samples_are_not_doubted_coverage(gap, samples):
    for seed in range(20):
        table = fleet([None] * (2 + seed % 4), gap=gap, seed=seed, samples=samples, shared=1.0)
        assert other_order(table, named(table)) == ()


def test_models_that_learned_nothing_are_not_said_to_be_in_another_order():
    rng = np.random.default_rng(0)
    labels, member = rng.integers(0, CLASSES, SAMPLES), rng.random((4, SAMPLES)) < 0.5
    logits = rng.normal(size=(4, SAMPLES, CLASSES))
    table = canary.measure(list(logits), y=labels, member=member, outputs="logits")
    assert other_order(table, named(table)) == ()


def test_correlations_are_those_of_ranks_within_classes_of_samples_that_neither_saw_oracle():
    from scipy.stats import rankdata

    table = fleet([None, 3, None], samples=300)
    found, counts = correlations(table)
    for one, other in ((0, 1), (1, 2), (0, 2)):
        ranks = np.zeros((2, 300))
        for row, model in enumerate((one, other)):
            own = ~table.member[model]
            ranks[row, own] = rankdata(table.signal("loss")[model, own])
            for label in range(CLASSES):
                of_class = own & (table.label == label)
                ranks[row, of_class] -= ranks[row, of_class].mean()
        both = ~table.member[one] & ~table.member[other]
        ours, theirs = ranks[:, both]
        slow = ours @ theirs / np.sqrt((ours @ ours) * (theirs @ theirs))
        assert counts[one, other] == both.sum()
        assert found[one, other] == pytest.approx(slow)
