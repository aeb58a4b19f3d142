"""Metric attacks: what they learn, what they say, and what they refuse."""

from __future__ import annotations

import math

import numpy as np
import pytest

import canary
from canary.errors import InputError
from canary.membership.attacking import applicable


def outputs(rng, samples=3000, classes=4, *, gap=1.0, by_class=0.0):
    """Logits, labels and members: members have a logit of their label higher by `gap`."""
    labels = rng.integers(0, classes, samples)
    member = rng.random(samples) < 0.5
    logits = rng.normal(0, 1, (samples, classes))
    logits[np.arange(samples), labels] += 1 + gap * member + by_class * labels
    return logits, labels, member


def table(rng, **options):
    logits, labels, member = outputs(rng, **options)
    return canary.measure(logits, y=labels, member=member, outputs="logits")


@pytest.fixture
def pair():
    rng = np.random.default_rng(0)
    return table(rng, by_class=1.5), table(rng, by_class=1.5)


def accuracy(target, name, shadow):
    return canary.evaluate(canary.attack(target, name, shadow=shadow), target.member[0]).accuracy


def test_one_sample_by_hand_golden():
    # Shadow, class 0: members have confidence 0.9 and 0.8, nonmembers 0.8 and 0.1. At 0.9
    # one member and no nonmember are called, at 0.8 two and one: both gain a half, and the
    # higher threshold stands. Class 1 has no nonmembers: together with it, 0.9 calls one of
    # three members, 0.8 two of three and one of two nonmembers, 0.7 three and one: 0.7.
    shadow = canary.measure(
        np.array([[0.9, 0.1], [0.8, 0.2], [0.8, 0.2], [0.1, 0.9], [0.3, 0.7]]),
        y=[0, 0, 0, 0, 1],
        member=[1, 1, 0, 0, 1],
        outputs="probs",
    )
    target = canary.measure(
        np.array([[0.95, 0.05], [0.85, 0.15], [0.25, 0.75]]),
        y=[0, 0, 1],
        member=[1, 0, 1],
        outputs="probs",
    )
    found = canary.attack(target, "confidence", shadow=shadow)
    assert found.thresholds.tolist() == [0.9, 0.7]
    assert found.guess.tolist() == [True, False, True]
    np.testing.assert_allclose(found.scores, [0.05, -0.05, 0.05])
    assert found.notes == (
        "The shadow lacks members or nonmembers of 1 class (1): the threshold of all classes "
        "together serves there",
    )


def test_class_dependent_thresholds_are_better_where_classes_differ_theory(pair):
    for name in ("confidence", "loss", "modified-entropy"):
        gain = accuracy(*pair[:1], name, pair[1]).value
        assert gain > accuracy(*pair[:1], f"{name}-one-threshold", pair[1]).value + 0.02


def test_modified_entropy_is_better_than_entropy_theory():
    rng = np.random.default_rng(1)
    target, shadow = table(rng, samples=20_000), table(rng, samples=20_000)
    modified = accuracy(target, "modified-entropy", shadow)
    assert modified.lower > accuracy(target, "entropy", shadow).upper


def test_monotone_signals_give_one_attack_property(pair):
    target, shadow = pair
    found = [
        canary.attack(target, n, shadow=shadow) for n in ("confidence", "loss", "logit-confidence")
    ]
    for other in found[1:]:
        assert (other.guess == found[0].guess).mean() > 0.999  # ties of rounded numbers


def test_a_model_that_never_saw_the_data_gives_nothing_away_theory():
    rng = np.random.default_rng(2)
    target, shadow = table(rng, gap=0.0), table(rng, gap=0.0)
    for name in applicable(target):
        found = canary.evaluate(
            canary.attack(target, name, shadow=shadow), target.member[0], confidence=0.999
        )
        assert found.auc.lower <= 0.5 <= found.auc.upper, name


def test_members_of_the_target_are_never_looked_at_property(pair):
    target, shadow = pair
    turned = type(target)(target.values, ~target.member, target.label, target.classes)
    for name in applicable(target):
        one, other = (canary.attack(t, name, shadow=shadow) for t in (target, turned))
        np.testing.assert_array_equal(one.scores, other.scores)
        np.testing.assert_array_equal(one.guess, other.guess)


def test_order_of_samples_does_not_matter_property(pair):
    target, shadow = pair
    order = np.random.default_rng(3).permutation(shadow.samples)
    values = {name: value[:, order] for name, value in shadow.values.items()}
    mixed = type(shadow)(values, shadow.member[:, order], shadow.label[order], shadow.classes)
    for name in applicable(target):
        one, other = (canary.attack(target, name, shadow=s) for s in (shadow, mixed))
        np.testing.assert_array_equal(one.guess, other.guess)


def test_other_models_of_the_table_are_the_shadows():
    rng = np.random.default_rng(4)
    logits, labels, member = outputs(rng, samples=500)
    masks = np.array([member, ~member])
    both = canary.measure(
        [logits, logits[:, ::-1].copy()], y=labels, member=masks, outputs="logits"
    )
    one = canary.measure(logits, y=labels, member=member, outputs="logits")
    two = canary.measure(logits[:, ::-1].copy(), y=labels, member=~member, outputs="logits")
    inside = canary.attack(both, "loss", target=0)
    np.testing.assert_array_equal(inside.scores, canary.attack(one, "loss", shadow=two).scores)
    with pytest.raises(InputError, match="there is no shadow"):
        canary.attack(one, "loss")


def test_infinities_reach_their_own_thresholds_degenerate():
    # Every member has probability 1, every nonmember of class 1 too: nobody can be told.
    probs = np.array([[1, 0], [1, 0], [0.6, 0.4], [0, 1], [0, 1]], float)
    shadow = canary.measure(probs, y=[0, 0, 0, 1, 1], member=[1, 1, 0, 1, 0], outputs="probs")
    found = canary.attack(shadow, "logit-confidence", shadow=shadow)
    assert found.thresholds[0] == math.inf
    assert math.isnan(found.thresholds[1])
    assert found.guess.tolist() == [True, True, False, False, False]
    assert found.scores.tolist() == [0, 0, -math.inf, -math.inf, -math.inf]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda t, s: canary.attack(t, "lira", shadow=s), "there is no attack 'lira'"),
        (lambda t, s: canary.attack(t, "loss", shadow=s, target=1), "no model 1 in a table of 1"),
        (
            lambda t, s: canary.attack(
                t, "loss", shadow=table(np.random.default_rng(0), classes=3)
            ),
            "the target has 4 classes and the shadow 3; train the shadow on the target's classes",
        ),
        (
            lambda t, s: canary.attack(
                canary.measure(np.ones(2), y=[0, 1], member=[0, 1], outputs="losses"),
                "entropy",
                shadow=s,
            ),
            "no signal 'entropy'; there are confidence, loss, logit-confidence; entropies and",
        ),
    ],
)
def test_refused_input(pair, change, words):
    with pytest.raises(InputError, match=words):
        change(*pair)
