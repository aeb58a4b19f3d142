"""One model given as two is seen; two models that agree by rounding or saturation are not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from many_models import halves, table_of

import canary
from canary.errors import EstimationError, InputError
from canary.membership import sharing
from canary.membership.attacking import applicable, scored
from canary.membership.attacks import with_many_models
from canary.membership.many import attack_models
from canary.membership.neural import neural_attack
from canary.membership.privacy import attack_epsilon
from canary.membership.risk import risk_scores
from canary.membership.shadow_survey import survey
from canary.membership.sharing import Repeat, check_two_models, repeated_models, shared_rows
from canary.signals.definitions import SIGNALS
from canary.signals.signal_table import Origin

N = 400
MANY = [name for name, one in with_many_models().items() if SIGNALS[one.signal].of_losses]


def softmax(logits):
    return np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)


def outputs(seed, *, samples=N, classes=10, gap=3.0, digits=None):
    """Probabilities, labels and members of a model."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, samples)
    probs = softmax(rng.normal(size=(samples, classes)) + gap * np.eye(classes)[labels])
    if digits is not None:
        probs = np.round(probs, digits)
        probs /= probs.sum(axis=1, keepdims=True)
    return probs, labels, rng.random(samples) < 0.5


def table(given, labels, member, outputs="probs"):
    return canary.measure(given, y=labels, member=member, outputs=outputs, keep_outputs=True)


def of_logits(*given):
    return table(*given, "logits")


def permuted(probs, labels, member, *, rows=None):
    order = np.random.default_rng(99).permutation(len(labels))[:rows]
    return probs[order], labels[order], member[order]


def joined(*parts):
    return tuple(np.concatenate(columns) for columns in zip(*parts, strict=True))


def same_samples(seed, *, apart=0.0, samples=2000, classes=10):
    """Logits of two models that learned the same but for noise, labels, and members of both."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, samples)
    logits = rng.normal(size=(samples, classes)) + 3 * np.eye(classes)[labels]
    other = logits + apart * rng.normal(size=logits.shape)
    return logits, other, labels, rng.random(samples) < 0.5, rng.random(samples) < 0.5


def test_the_same_table_a_permuted_copy_and_inverted_flags_are_one_model():
    given = outputs(0)
    target = table(*given)
    probs, labels, member = permuted(*given)
    larger = table(*joined(outputs(5, samples=4 * N), given))
    for shadow in (target, table(probs, labels, member), table(probs, labels, ~member), larger):
        found = shared_rows(target, shadow)
        assert (found.shared, found.target, found.one_model) == (N, N, True)
    for seed in range(10):
        assert shared_rows(target, table(*outputs(seed + 1))).shared == 0
    # Binary features: a sample that occurs three times has the same output three times.
    some = joined(given, permuted(*given, rows=100))
    assert shared_rows(table(*some), table(*some)).one_model
    twice = [joined(part, part) for part in (given, outputs(1))]
    assert check_two_models(*(table(*one) for one in twice)) == ()
    # An added signal hides no copy.
    both = [table(one, *given[1:]) for one in (given[0], given[0].astype(np.float16))]
    for seed, one in enumerate(both):
        one.values["added"] = np.random.default_rng(seed).normal(size=(1, N))
    assert shared_rows(*both).one_model
    # One target among several; what is known of one row is not said of another.
    several = table([outputs(1)[0], given[0]], given[1], np.stack([given[2]] * 2))
    assert shared_rows(target, several).one_model
    for row, shared in ((0, 0), (1, N), (1, N), (0, 0)):
        assert shared_rows(several, target, row=row).shared == shared


def rounded_pair(seed, classes, digits):
    return [
        table(*outputs([seed, at], samples=(N, 700)[at], classes=classes, digits=digits))
        for at in (0, 1)
    ]


KINDS = [(classes, digits) for classes in (2, 10) for digits in (1, 2, 3)]


@pytest.mark.parametrize(("classes", "digits"), KINDS)
def test_two_models_of_rounded_probabilities_are_two_theory(classes, digits):
    """Rows agree by chance, and repeat within a file as often. A note by mistake is rarer than
    one of 1,000; of 12 pairs none."""
    assert not any(shared_rows(*rounded_pair(seed, classes, digits)).sure for seed in range(12))


@pytest.mark.slow
def test_two_models_of_rounded_probabilities_in_540_pairs_theory(capsys):
    """As above, of 90 pairs of each kind: by chance a note in 3 of 1,000 or fewer."""
    found = [shared_rows(*rounded_pair(seed, *kind)) for kind in KINDS for seed in range(90)]
    refused, noted = sum(one.one_model for one in found), sum(one.sure for one in found)
    with capsys.disabled():
        print(f"of 540 pairs {refused} refused, {noted} with a note")  # noqa: T201
    assert refused == 0
    assert noted <= 3


def test_saturated_and_constant_outputs_are_not_taken_for_copies_degenerate():
    probs, labels, member = outputs(0, gap=1.0)
    other = outputs(1, gap=1.0)
    for said in (np.eye(10)[probs.argmax(axis=1)], np.full((N, 10), 0.1)):
        target = table(said, labels, member)
        assert shared_rows(target, target).shared <= 20  # few occur once
        assert check_two_models(target, table(np.eye(10)[other[0].argmax(1)], *other[1:])) == ()


def test_some_shared_samples_are_noted_and_few_are_not():
    given, other = outputs(0), outputs(1)
    target, without = table(*given), table(*other)
    shadow, few = (table(*joined(other, permuted(*given, rows=rows))) for rows in (60, 5))
    (note,) = check_two_models(target, shadow)
    assert note.startswith("60 samples of the shadow have the outputs and the label of samples")
    void = survey(target, shadow, attacks="loss")
    assert (void.notes.count(note), void.why_open()) == (1, (note,))
    assert f"\nWhy: {note}" in void.summary()
    assert void.summary().count(note) == 1
    assert check_two_models(target, few) == ()
    with pytest.raises(InputError, match="the risk scores would learn answers from the shadow"):
        risk_scores(target, shadow=shadow)
    assert survey(target, shadow, attacks="loss").risks is None
    for name in ("loss", "modified-entropy-one-threshold", "neural", "S"):
        scores = scored(target, name, shadow=shadow)
        assert (scores.notes.count(note), scores.blind) == (1, False)
        assert name == "neural" or canary.attack(target, name, shadow=without).blind
    alone = canary.attack(target, "correctness", shadow=shadow)
    assert (alone.blind, alone.notes) == (True, ())


def test_every_attack_by_a_shadow_that_is_the_target_is_refused():
    target, shadow = table(*outputs(0)), table(*permuted(*outputs(0)))
    names = [name for name in applicable(target) if name != "correctness"]
    assert "neural" in names
    for ask in (
        *(lambda name=name: canary.attack(target, name, shadow=shadow) for name in names),
        lambda: survey(target, shadow, attacks="correctness"),
        lambda: risk_scores(target, shadow=shadow),
        lambda: risk_scores(target, shadow=shadow, smooth=True),
        lambda: neural_attack(target, shadow=shadow),
    ):
        with pytest.raises(InputError, match=r"400 samples .* of 400 and 400 .* are of one model"):
            ask()


SAVED = {
    "float32": lambda logits: logits.astype(np.float32),
    "float16": lambda logits: logits.astype(np.float16),
    "three decimals": lambda logits: logits.round(3),
    "moved": lambda logits: logits + 5,
    "softmax": lambda logits: np.log(softmax(logits)),
    "softmax32": lambda logits: np.log(softmax(logits).astype(np.float32)),
}


@pytest.mark.parametrize("how", SAVED)
@pytest.mark.parametrize(("samples", "classes"), [(300, 10), (3000, 2), (20000, 2)])
def test_a_target_that_was_saved_otherwise_is_found_regression(how, samples, classes):
    """Saved as float32, noise gave an AUC of 0.71 and an epsilon of 0.53 at least."""
    logits, _, labels, member, _ = same_samples(7, samples=samples, classes=classes)
    order = np.random.default_rng(8).permutation(samples)
    target = of_logits(logits, labels, member)
    shadow, inverted = (
        of_logits(SAVED[how](logits)[order], labels[order], flags[order])
        for flags in (member, ~member)
    )
    assert shared_rows(target, shadow).one_model
    assert shared_rows(target, inverted).sure
    # As close as 32 bits, it is one model whatever the flags say.
    assert shared_rows(target, inverted).one_model is (how not in ("float16", "three decimals"))
    with pytest.raises(InputError, match="of the shadow have .*the outputs .* are of one model"):
        canary.attack(target, "loss", shadow=shadow)


def test_losses_alone_that_were_saved_with_three_decimals_are_found():
    """Coarse steps make repeats of too many of them."""
    rng = np.random.default_rng(3)
    losses, labels = rng.exponential(1.0, 5000), rng.integers(0, 2, 5000)
    member = rng.random(5000) < 0.5
    target, shadow = (
        canary.measure(some, y=labels, member=member, outputs="losses")
        for some in (losses, losses.round(3))
    )
    assert shared_rows(target, shadow).one_model


def test_saved_with_few_digits_and_flags_that_are_not_its_own_a_model_tells_nothing():
    logits, _, labels, member, other = same_samples(9)
    target, few = of_logits(logits, labels, member), logits.astype(np.float16)
    assert not shared_rows(target, of_logits(few, labels, other)).sure
    mostly = np.where(np.random.default_rng(0).random(2000) < 0.6, member, other)
    for flags in (~member, mostly):
        (note,) = check_two_models(target, of_logits(few, labels, flags))
        assert "have but for rounding the outputs" in note


@pytest.mark.parametrize("apart", [1e-3, 1e-2, 0.1, 1.0])
@pytest.mark.parametrize("classes", [2, 10])
def test_two_models_that_learned_much_the_same_of_the_same_samples_are_two(apart, classes):
    """Linear models of many samples: trained on halves that have nothing to do with each other,
    or on the two halves of one."""
    for seed in range(2):
        one, two, labels, member, other = same_samples(seed, apart=apart, classes=classes)
        target = of_logits(one, labels, member)
        assert not shared_rows(target, of_logits(two, labels, other)).sure
        assert not shared_rows(target, of_logits(two, labels, ~member)).one_model
        assert apart < 0.1 or not shared_rows(target, of_logits(two, labels, member)).sure


@pytest.mark.parametrize("values", [2, 6, 30])
def test_two_models_of_few_values_asked_the_same_samples_are_two(values):
    """Trees and neighbours: each sample gets one of few outputs, alike for both models."""
    for seed in range(6):
        rng = np.random.default_rng([values, seed])
        labels, leaf = rng.integers(0, 2, 1500), rng.integers(0, values, 1500)
        pair = []
        for _ in range(2):
            share = np.clip(rng.normal(leaf / values, 0.1 / values), 0.01, 0.99)
            share = np.round(share * values) / values
            pair.append(table(np.stack([1 - share, share], axis=1), labels, rng.random(1500) < 0.5))
        assert check_two_models(*pair) == ()


def test_of_many_samples_only_some_are_sorted_and_all_counted(monkeypatch):
    monkeypatch.setattr(sharing, "_ROWS", 300)
    logits, _, labels, member, other = same_samples(3)
    target, apart = of_logits(logits, labels, member), same_samples(4)
    found = shared_rows(target, of_logits(logits.astype(np.float32), labels, member))
    assert found.one_model
    assert found.shared > 1800
    assert not shared_rows(target, of_logits(apart[0], apart[2], other)).sure


def test_a_model_that_occurs_twice_is_found_in_one_place_and_in_two():
    a, b, c = np.random.default_rng(0).exponential(size=(3, 50))
    assert repeated_models({"models": [a, b, c]}) == []
    (found,) = repeated_models({"models": [a, b, a]})
    assert found == Repeat(("models", 0), ("models", 2), certain=True)
    (found,) = repeated_models({"query": [a, b], "calibration": [c, b]})
    assert found == Repeat(("query", 1), ("calibration", 1), certain=True)
    hard = np.where(a > 1, np.inf, 0.0)
    assert not repeated_models({"models": [hard, hard]})[0].certain


def noise():
    """Losses that know nothing, of eight models."""
    rng = np.random.default_rng(0)
    return table_of(rng.exponential(1, (8, 300)), halves(rng, 8, 300))


def alone(made, row=0):
    return made.select(models=[row]), made.select(models=np.delete(np.arange(8), row))


@pytest.mark.parametrize("name", MANY)
def test_every_attack_by_references_that_hold_the_target_is_refused(name):
    made = noise()
    one, others = alone(made, row=2)
    again = made.select()  # read again: another object
    twice = made.select(models=[0, 1, 2, 3, 4, 5, 6, 7, 3])
    model = "model 2 of the references and model 2 of the t"
    among = (
        (made, {"shadow": made.select(models=range(6)), "targets": [7, 5]}, "model 5 .* model 5"),
        *((twice, {"targets": targets}, "are one model") for targets in (None, [3], [8])),
    )
    for asked, options, words in (
        (made, {"targets": [2], "shadow": again}, model),
        (made, {"targets": [2], "shadow": again, "references": [1, 2]}, model),
        (one, {"shadow": again}, "model 2 of the references and model 0"),
        (made, {"targets": [2], "shadow": made}, "it says the same of every sample"),
        *(among if name not in "LD" else ()),
    ):
        with pytest.raises(InputError, match=words):
            attack_models(asked, name, **options)
    found = attack_models(one, name, shadow=others)
    assert not any("said of every sample" in note for note in found.notes)
    many = attack_models(made, name, targets=[2], shadow=again, references=[0, 1, 3, 4, 5, 6, 7])
    np.testing.assert_array_equal(found.scores, many.scores)
    if name not in "LD":
        assert attack_models(twice, name, targets=[0], references=range(8)).notes == ()


def test_a_target_is_known_by_its_fingerprint():
    made = replace(noise(), origin=Origin("data", tuple("abcdefgh")))
    other = replace(noise(), values={"loss": 2 * noise().signal("loss")})
    other = replace(other, origin=Origin("data", tuple("ijklmnca")))
    for targets, words in (([0], "model 7 .* model 0 .*by its fing"), ([2], "model 6 .* model 2")):
        with pytest.raises(InputError, match=words):
            attack_models(made, "R", targets=targets, shadow=other)
    assert attack_models(made, "R", targets=[1], shadow=other).notes == ()


def test_no_bound_follows_from_a_shadow_that_may_hold_the_target():
    """Two models of hard labels may be equal, or be one: then the scores are not blind."""
    made = noise()
    hard = replace(made, values={"loss": np.where(made.signal("loss") < 1, 0.1, 3.0)})
    one, others = alone(hard)
    assert attack_models(one, "S", shadow=others).blind
    found = attack_models(one, "S", shadow=hard.select())
    assert not found.blind
    assert found.notes[0].startswith("1 reference said of every sample what a target said, in too")
    with pytest.raises(EstimationError, match="no bound on epsilon follows"):
        attack_epsilon(found, one.member[0], coins=True)
    equal = replace(made, values={"loss": np.full((8, 300), 0.3)})
    assert attack_models(equal.select(models=[0]), "S", shadow=equal.select()).notes == ()
