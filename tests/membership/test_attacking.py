"""Metric attacks: what they learn, what they say, and what they refuse."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import canary
from canary.errors import InputError
from canary.membership.attacking import applicable, learn_thresholds, scored
from canary.membership.risk import risk_scores

NUMBER = st.sampled_from([-math.inf, -1.0, 0.0, 0.5, 1.0, 2.0, math.inf])
SAMPLES = st.lists(
    st.tuples(NUMBER, st.booleans(), st.integers(0, 3)), min_size=2, max_size=24
).filter(lambda rows: len({m for _, m, _ in rows}) == 2)


def best_by_trying(values, member):
    """Nobody, or the highest threshold of the best balanced accuracy."""
    members, nonmembers = member.sum(), (~member).sum()
    best, most = math.nan, 0
    for threshold in sorted(set(values), reverse=True):
        called = values >= threshold
        gain = (called & member).sum() * nonmembers - (called & ~member).sum() * members
        if gain > most:
            best, most = threshold, gain
    return best


@given(SAMPLES)
def test_every_threshold_was_tried_oracle(rows):
    values, member, label = (np.array(column) for column in zip(*rows, strict=True))
    learned = learn_thresholds(values, member, label, classes=5)
    for number in range(5):
        mine = label == number
        both = mine.any() and len(set(member[mine])) == 2
        assert learned.pooled[number] == (not both)
        chosen = mine if both else np.ones_like(mine)
        expected = best_by_trying(values[chosen], member[chosen])
        np.testing.assert_equal(learned.values[number], expected)


def table(seed, samples=3000, classes=4, *, gap=1.0, by_class=0.0):
    """Members have a logit of their label higher by `gap`."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, samples)
    member = rng.random(samples) < 0.5
    logits = rng.normal(0, 1, (samples, classes))
    logits[np.arange(samples), labels] += 1 + gap * member + by_class * labels
    return canary.measure(logits, y=labels, member=member, outputs="logits")


PAIR = table(0, by_class=1.5), table(10, by_class=1.5)


def accuracy(target, name, shadow):
    return canary.evaluate(canary.attack(target, name, shadow=shadow), target.member[0]).accuracy


def of_probs(rows, labels, member):
    return canary.measure(np.array(rows, float), y=labels, member=member, outputs="probs")


def test_one_sample_by_hand_golden():
    # Shadow, class 0: members have confidence 0.9 and 0.8, non-members 0.8 and 0.1. At 0.9
    # one member and no non-member are called, at 0.8 two and one: both gain a half, and the
    # higher threshold stands. Class 1 has no non-members: together with it, 0.9 calls one of
    # three members, 0.8 two of three and one of two non-members, 0.7 three and one: 0.7.
    rows = [[0.9, 0.1], [0.8, 0.2], [0.8, 0.2], [0.1, 0.9], [0.3, 0.7]]
    shadow = of_probs(rows, [0, 0, 0, 0, 1], [1, 1, 0, 0, 1])
    target = of_probs([[0.95, 0.05], [0.85, 0.15], [0.25, 0.75]], [0, 0, 1], [1, 0, 1])
    found = canary.attack(target, "confidence", shadow=shadow)
    assert found.thresholds.tolist() == [0.9, 0.7]
    assert found.guess.tolist() == [True, False, True]
    np.testing.assert_allclose(found.scores, [0.05, -0.05, 0.05])
    assert found.notes == (
        "The shadow lacks members or non-members of 1 class (1): the threshold of all classes "
        "together is used for them",
    )


def test_infinities_reach_their_own_thresholds_degenerate():
    # Every member has probability 1, every non-member of class 1 too: nobody can be told.
    rows = [[1, 0], [1, 0], [0.6, 0.4], [0, 1], [0, 1]]
    shadow = of_probs(rows, [0, 0, 0, 1, 1], [1, 1, 0, 1, 0])
    found = canary.attack(shadow, "logit-confidence", shadow=shadow)
    np.testing.assert_equal(found.thresholds, [math.inf, math.nan])
    assert found.guess.tolist() == [True, True, False, False, False]
    assert found.scores.tolist() == [0, 0, -math.inf, -math.inf, -math.inf]


def test_class_dependent_thresholds_are_better_where_classes_differ_theory():
    for name in ("confidence", "loss", "modified-entropy"):
        gain = accuracy(PAIR[0], name, PAIR[1]).value
        assert gain > accuracy(PAIR[0], f"{name}-one-threshold", PAIR[1]).value + 0.02


def test_modified_entropy_is_better_than_entropy_theory():
    target, shadow = table(1, samples=20_000), table(2, samples=20_000)
    modified = accuracy(target, "modified-entropy", shadow)
    assert modified.lower > accuracy(target, "entropy", shadow).upper


def test_a_model_that_never_saw_the_data_gives_nothing_away_theory():
    target, shadow = table(3, gap=0.0), table(4, gap=0.0)
    for name in applicable(target):
        scores = canary.attack(target, name, shadow=shadow)
        auc = canary.evaluate(scores, target.member[0], confidence=0.999).auc
        assert auc.lower <= 0.5 <= auc.upper, name


@pytest.mark.filterwarnings("ignore:The target is better on non-members")
def test_neither_members_of_the_target_nor_the_order_of_the_shadow_matter_property():
    """And monotone signals give one attack."""
    target, shadow = PAIR
    turned = replace(target, member=~target.member)
    mixed = shadow.select(samples=np.random.default_rng(3).permutation(shadow.samples))
    guesses = {}
    for name in applicable(target):
        found, blind, other = (
            canary.attack(asked, name, shadow=taught)
            for asked, taught in ((target, shadow), (turned, shadow), (target, mixed))
        )
        np.testing.assert_array_equal(found.scores, blind.scores)
        np.testing.assert_array_equal(found.guess, blind.guess)
        np.testing.assert_array_equal(found.guess, other.guess)
        guesses[name] = found.guess
    for name in ("loss", "logit-confidence"):
        assert (guesses[name] == guesses["confidence"]).mean() > 0.999  # ties of rounded numbers


def test_other_models_of_the_table_are_the_shadows():
    first = table(5, samples=500)
    losses = [first.signal("loss")[0], np.random.default_rng(5).exponential(1, 500)]
    flags = np.array([first.member[0], ~first.member[0]])
    both = canary.measure(losses, y=first.label, member=flags, outputs="losses")
    one, two = (both.select(models=[row]) for row in (0, 1))
    inside = canary.attack(both, "loss", target=0)
    np.testing.assert_array_equal(inside.scores, scored(one, "loss", shadow=two).scores)


def test_refused_input():
    target, shadow = PAIR
    losses = canary.measure(np.ones(2), y=[0, 1], member=[0, 1], outputs="losses")
    other = table(0, classes=3)
    for asked, name, options, words in (
        (target, "lira", {}, "unknown attack 'lira'; did you mean lira-online, lira-offline or"),
        (target, "loss", {"target": 1}, "no model 1 in a table of 1"),
        (target, "loss", {"shadow": None}, "there is no shadow"),
        (target, "loss", {"shadow": other}, "4 classes and the shadow 3; train the shadow on the"),
        (losses, "entropy", {}, "use one of confidence, loss, logit-confidence; entropies and"),
    ):
        with pytest.raises(InputError, match=words):
            canary.attack(asked, name, **{"shadow": shadow, **options})


def test_an_evaluation_by_a_column_is_that_of_each_part_oracle():
    rng = np.random.default_rng(3)
    scores, member = rng.normal(size=90), rng.random(90) < 0.5
    column = np.where(np.arange(90) < 60, np.where(np.arange(90) % 2, "dog", "cat"), "owl")
    member[60:] = True  # all owls are members, so there is nothing to compare
    found = canary.evaluate(scores, member.tolist(), by=column.tolist())
    assert found.auc == canary.evaluate(scores, member).auc
    assert [part.value for part in found.parts] == ["cat", "dog", "owl"]
    for part in found.parts[:2]:
        rows = column == part.value
        assert part.auc == canary.evaluate(scores[rows], member[rows]).auc
        assert (part.members, part.members + part.nonmembers) == (member[rows].sum(), rows.sum())
    assert found.parts[2].auc is None
    lines = found.summary().splitlines()
    assert lines[3] == "  owl: AUC none without both kinds, 30 members, 0 non-members"
    with pytest.raises(InputError, match="one value for each sample"):
        canary.evaluate(scores, member, by=column[:9])


def test_flags_that_look_swapped_are_told_once_and_not_by_a_survey():
    right, theirs = table(3, gap=4.0), table(4, gap=4.0)
    swapped = replace(right, member=~right.member)
    with pytest.warns(UserWarning, match="The target is better on non-members than on members"):
        canary.attack(swapped, "loss", shadow=theirs)
    canary.attack(swapped, "entropy", shadow=theirs)  # a second warning would be an error
    with pytest.warns(UserWarning, match="The shadow is better on non-members"):
        risk_scores(theirs, shadow=swapped)
    canary.attack(right, "loss", shadow=theirs)
    surveyed = canary.survey(replace(swapped), theirs, attacks="loss")
    assert "The target is better on non-members" in surveyed.doubts[0]
    for alone in (canary.attack(right, "loss", shadow=theirs), risk_scores(right, shadow=theirs)):
        with pytest.raises(InputError, match=r"give what canary.survey\(target, shadow\) returned"):
            canary.check(alone, max_auc=0.6)
    with pytest.raises(InputError, match="and this is RiskScores"):
        canary.report(alone, "page.html", model_name="net")
