"""One model given as two is seen; two models that agree by rounding or saturation are not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from many_models import halves, random_table, table_of

import canary
from canary.errors import EstimationError, InputError
from canary.membership.many import MANY, attack_models
from canary.membership.metric import applicable
from canary.membership.neural import neural_attack
from canary.membership.privacy import attack_epsilon
from canary.membership.repeats import check_two_models, shared_rows
from canary.membership.risk import risk_scores
from canary.membership.smoothing import smooth_risk_scores
from canary.membership.survey import survey
from canary.signals.table import Origin

N = 400


def outputs(seed, *, samples=N, classes=10, gap=3.0, digits=None):
    """Probabilities, labels and members of a model."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, samples)
    logits = rng.normal(size=(samples, classes))
    logits[np.arange(samples), labels] += gap
    probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    if digits is not None:
        probs = np.round(probs, digits)
        probs /= probs.sum(axis=1, keepdims=True)
    return probs, labels, rng.random(samples) < 0.5


def table(probs, labels, member, **options):
    return canary.measure(probs, y=labels, member=member, outputs="probs", **options)


def permuted(probs, labels, member, *, rows=None):
    order = np.random.default_rng(99).permutation(len(labels))[:rows]
    return probs[order], labels[order], member[order]


def joined(*parts):
    return tuple(np.concatenate(columns) for columns in zip(*parts, strict=True))


def test_the_same_table_a_permuted_copy_and_inverted_flags_are_one_model():
    given = outputs(0)
    target = table(*given)
    probs, labels, member = permuted(*given)
    for shadow in (target, table(probs, labels, member), table(probs, labels, ~member)):
        found = shared_rows(target, shadow)
        assert (found.shared, found.target, found.shadow) == (N, N, N)
        assert found.one_model
    for seed in range(20):
        assert shared_rows(target, table(*outputs(seed + 1))).shared == 0


def test_one_target_among_the_shadows_and_a_shadow_that_holds_the_target_are_found():
    probs, labels, member = outputs(0)
    others = [outputs(seed)[0] for seed in (1, 2, 3)]
    target = table(probs, labels, member)
    flags = np.stack([member] * 4)
    several = canary.measure([*others, probs], y=labels, member=flags, outputs="probs")
    assert shared_rows(target, several).one_model
    assert shared_rows(several, target, row=3).one_model
    assert not shared_rows(several, target, row=0).sure
    larger = table(*joined(outputs(5, samples=4 * N), (probs, labels, member)))
    assert shared_rows(target, larger).one_model


@pytest.mark.parametrize("classes", [2, 10])
@pytest.mark.parametrize("digits", [1, 2, 3])
def test_two_models_of_rounded_probabilities_are_two_theory(classes, digits):
    """Rows agree by chance, and repeat within a file as often. A note by mistake is rarer than
    one of 1,000; of 12 pairs none."""
    for seed in range(12):
        pair = [
            table(*outputs(2 * seed + at, samples=(N, 700)[at], classes=classes, digits=digits))
            for at in (0, 1)
        ]
        assert not shared_rows(*pair).sure


def test_saturated_and_constant_outputs_are_not_taken_for_copies():
    probs, labels, member = outputs(0, gap=1.0)
    one_hot = np.eye(10)[probs.argmax(axis=1)]
    constant = np.full((N, 10), 0.1)
    for said in (one_hot, constant):
        target = table(said, labels, member)
        assert shared_rows(target, target).shared <= 20  # few stand once
        other = outputs(1, gap=1.0)
        assert check_two_models(target, table(np.eye(10)[other[0].argmax(1)], *other[1:])) == ()


def test_samples_that_repeat_within_the_files_are_no_copies_and_hide_none():
    """Binary features: a sample that stands three times has the same output three times."""
    twice = [joined(part, part) for part in (outputs(0), outputs(1))]
    assert check_two_models(*(table(*one) for one in twice)) == ()
    some = joined(outputs(0), permuted(*outputs(0), rows=100))
    assert shared_rows(table(*some), table(*some)).one_model


def test_some_shared_samples_are_counted_and_few_are_not_told_of():
    given, other = outputs(0), outputs(1)
    target = table(*given)
    shadow = table(*joined(other, permuted(*given, rows=60)))
    (note,) = check_two_models(target, shadow)
    assert note.startswith("60 samples of the shadow have the outputs and the label of samples")
    assert note in survey(target, shadow, attacks="loss").notes
    assert check_two_models(target, table(*joined(other, permuted(*given, rows=5)))) == ()


def test_every_attack_by_a_shadow_that_is_the_target_is_refused():
    target = table(*outputs(0), keep_outputs=True)
    shadow = table(*permuted(*outputs(0)), keep_outputs=True)
    names = [name for name in applicable(target) if name != "correctness"]
    assert "neural" in names
    for name in names:
        with pytest.raises(InputError, match="they are of one model"):
            canary.attack(target, name, shadow=shadow)
    refused = [
        lambda: survey(target, shadow, attacks="correctness"),
        lambda: risk_scores(target, shadow=shadow),
        lambda: smooth_risk_scores(target, shadow=shadow),
        lambda: neural_attack(target, shadow=shadow),
    ]
    for ask in refused:
        with pytest.raises(InputError, match=r"400 samples .* of 400 and 400 that could"):
            ask()


def noise(models=8, samples=300, *, decimals=None):
    """Losses that know nothing; samples that are members of two models or more, and not of two."""
    rng = np.random.default_rng(0)
    loss = rng.exponential(1, (models, samples))
    loss = loss if decimals is None else np.round(loss, decimals)
    return table_of(loss, halves(rng, models, samples))


def alone(table, row=0):
    return table.select(models=[row]), table.select(models=np.delete(np.arange(8), row))


@pytest.mark.parametrize("name", MANY)
def test_every_attack_by_references_that_hold_the_target_is_refused(name):
    table = noise()
    one, others = alone(table, row=2)
    again = table.select()  # read again: another object
    for targets, rows, words in (
        ([2], None, "model 2 of the references and model 2 of the targets are one model"),
        ([2], [1, 2, 3], "model 2 of the references"),
    ):
        with pytest.raises(InputError, match=words):
            attack_models(table, name, targets=targets, shadow=again, references=rows)
    with pytest.raises(InputError, match="model 2 of the references and model 0"):
        canary.attack(one, name, shadow=again)
    with pytest.raises(InputError, match="it says the same of every sample"):
        attack_models(table, name, targets=[2], shadow=table)
    if name not in "LD":
        with pytest.raises(InputError, match="model 5 of the references and model 5"):
            attack_models(table, name, shadow=table.select(models=range(6)), targets=[7, 5])
    found = attack_models(one, name, shadow=others)
    assert not any("said of every sample" in note for note in found.notes)
    many = attack_models(table, name, targets=[2], shadow=again, references=[0, 1, 3, 4, 5, 6, 7])
    np.testing.assert_array_equal(found.scores, many.scores)


@pytest.mark.parametrize("name", [name for name in MANY if name not in "LD"])
def test_a_model_that_stands_twice_in_a_table_is_no_reference_to_itself(name):
    table = noise()
    twice = table.select(models=[0, 1, 2, 3, 4, 5, 6, 7, 3])
    for targets in (None, [3], [8]):
        with pytest.raises(InputError, match="are one model"):
            attack_models(twice, name, targets=targets)
    assert attack_models(twice, name, targets=[0], references=range(8)).notes == ()
    with pytest.raises(InputError, match="are one model"):
        canary.attack(twice, "loss", target=3)


def test_a_target_is_known_by_its_fingerprint():
    table = replace(noise(), origin=Origin("data", tuple("abcdefgh")))
    other = replace(noise(samples=300), values={"loss": 1.01 * noise().signal("loss")})
    other = replace(other, origin=Origin("data", tuple("ijklmnca")))
    for targets, words in (([0], "model 7 .* model 0 .*by its fing"), ([2], "model 6 .* model 2")):
        with pytest.raises(InputError, match=words):
            attack_models(table, "R", targets=targets, shadow=other)
    assert attack_models(table, "R", targets=[1], shadow=other).notes == ()


def test_shadows_of_s_in_another_order_or_beside_others_are_seen():
    table = noise()
    order = np.random.default_rng(1).permutation(300)
    one, others = alone(table)
    with pytest.raises(InputError, match="300 samples of the shadow .* they are of one model"):
        attack_models(one, "S", shadow=one.select(samples=order))
    assert attack_models(one, "S", shadow=others.select(samples=order)).blind
    shadow = replace(
        one.select(samples=order),
        values={
            "loss": np.where(np.arange(300) < 60, one.signal("loss")[0, order], 9.5 + order)[None]
        },
    )
    some = attack_models(one, "S", shadow=shadow)
    assert not some.blind
    assert some.notes[0].startswith("60 samples of the shadow have the outputs and the label")


def test_no_bound_follows_from_a_shadow_that_may_hold_the_target():
    """Two models of hard labels may be equal, or be one: then the scores are not blind."""
    table = noise()
    hard = replace(table, values={"loss": np.where(table.signal("loss") < 1, 0.1, 3.0)})
    one, others = alone(hard)
    assert attack_models(one, "S", shadow=others).blind
    found = attack_models(one, "S", shadow=hard.select())
    assert not found.blind
    assert found.notes[0].startswith("1 reference said of every sample what a target said, in too")
    with pytest.raises(EstimationError, match="no bound on epsilon follows"):
        attack_epsilon(found, one.member[0], coins=True)
    equal = replace(table, values={"loss": np.full((8, 300), 0.3)})
    assert attack_models(equal.select(models=[0]), "S", shadow=equal.select()).notes == ()


def test_no_bound_follows_from_a_shadow_that_shares_samples():
    given, other = outputs(0), outputs(1)
    target = table(*given, keep_outputs=True)
    shadow = table(*joined(other, permuted(*given, rows=60)), keep_outputs=True)
    for name in ("loss", "modified-entropy-one-threshold", "neural"):
        assert not canary.attack(target, name, shadow=shadow).blind
        assert canary.attack(target, name, shadow=table(*other, keep_outputs=True)).blind
    assert canary.attack(target, "correctness", shadow=shadow).blind


@pytest.mark.parametrize("name", ["loss", "lira-online-fixed", "R", "S"])
def test_nothing_is_found_in_noise_by_the_same_table_read_again_regression(name):
    """It gave an AUC of 0.645, and an epsilon of 0.29 at least."""
    given = random_table(np.random.default_rng(0), models=8, samples=300)
    rng = np.random.default_rng(1)
    noisy = replace(given, values={"loss": rng.exponential(1, given.member.shape)})
    with pytest.raises(InputError, match="are one model|are of one model"):
        canary.attack(noisy.select(models=[0]), name, shadow=noisy.select())
