"""One model given as two is seen; two models that agree by rounding or saturation are not."""

from __future__ import annotations

import numpy as np
import pytest

import canary
from canary.errors import InputError
from canary.membership import sharing
from canary.membership.attacking import applicable
from canary.membership.neural import neural_attack
from canary.membership.risk import risk_scores
from canary.membership.shadow_survey import survey
from canary.membership.sharing import check_two_models, shared_rows

N = 400


def smooth_scores(*tables, **options):
    return risk_scores(*tables, smooth=True, **options)


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


def same_samples(seed, *, apart, samples=2000, classes=10):
    """Logits and labels of two models that learned the same but for noise, and members."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, samples)
    logits = rng.normal(size=(samples, classes)) + 3 * np.eye(classes)[labels]
    return (
        logits,
        logits + apart * rng.normal(size=logits.shape),
        labels,
        rng.random(samples) < 0.5,
        rng.random(samples) < 0.5,
    )


def of_logits(logits, labels, member):
    return canary.measure(logits, y=labels, member=member, outputs="logits")


SAVED = {
    "float32": lambda logits: logits.astype(np.float32),
    "float16": lambda logits: logits.astype(np.float16),
    "three decimals": lambda logits: logits.round(3),
    "moved": lambda logits: logits + 5,
    "softmax": lambda logits: np.log(np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)),
    "softmax32": lambda logits: np.log(
        (np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)).astype(np.float32)
    ),
}


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


def test_rows_of_every_target_are_compared_once(monkeypatch):
    probs, labels, member = outputs(0)
    flags = np.stack([member] * 2)
    several = canary.measure([outputs(1)[0], probs], y=labels, member=flags, outputs="probs")
    shadow, asked = table(probs, labels, member), []
    compared = sharing._compared
    monkeypatch.setattr(sharing, "_compared", lambda *given: asked.append(0) or compared(*given))
    for row, shared in ((0, 0), (1, N), (1, N), (0, 0)):
        assert shared_rows(several, shadow, row=row).shared == shared
    assert len(asked) == 2


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


@pytest.mark.slow
def test_two_models_of_rounded_probabilities_in_540_pairs_theory(capsys):
    """As above, of 90 pairs of each kind: by chance a note in 3 of 1,000 or fewer."""
    refused = noted = 0
    for classes in (2, 10):
        for digits in (1, 2, 3):
            for seed in range(90):
                pair = [
                    table(
                        *outputs([seed, at], samples=(N, 700)[at], classes=classes, digits=digits)
                    )
                    for at in (0, 1)
                ]
                found = shared_rows(*pair)
                refused, noted = refused + found.one_model, noted + found.sure
    with capsys.disabled():
        print(f"of 540 pairs {refused} refused, {noted} with a note")  # noqa: T201
    assert refused == 0
    assert noted <= 3


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
        lambda: smooth_scores(target, shadow=shadow),
        lambda: neural_attack(target, shadow=shadow),
    ]
    for ask in refused:
        with pytest.raises(InputError, match=r"400 samples .* of 400 and 400 that could"):
            ask()


def test_no_bound_follows_from_a_shadow_that_shares_samples():
    given, other = outputs(0), outputs(1)
    target = table(*given, keep_outputs=True)
    shadow = table(*joined(other, permuted(*given, rows=60)), keep_outputs=True)
    for name in ("loss", "modified-entropy-one-threshold", "neural"):
        assert not canary.attack(target, name, shadow=shadow).blind
        assert canary.attack(target, name, shadow=table(*other, keep_outputs=True)).blind
    assert canary.attack(target, "correctness", shadow=shadow).blind


@pytest.mark.parametrize("how", SAVED)
@pytest.mark.parametrize(("samples", "classes"), [(300, 10), (3000, 2)])
def test_a_target_that_was_saved_otherwise_is_found_regression(how, samples, classes):
    """Saved as float32, noise gave an AUC of 0.71 and an epsilon of 0.53 at least."""
    logits, _, labels, member, _ = same_samples(7, apart=0, samples=samples, classes=classes)
    order = np.random.default_rng(8).permutation(samples)
    target = of_logits(logits, labels, member)
    shadow = of_logits(SAVED[how](logits)[order], labels[order], member[order])
    assert shared_rows(target, shadow).one_model
    with pytest.raises(InputError, match="of the shadow have .*the outputs .* are of one model"):
        canary.attack(target, "loss", shadow=shadow)
    inverted = of_logits(SAVED[how](logits)[order], labels[order], ~member[order])
    assert shared_rows(target, inverted).sure


def test_saved_with_few_digits_and_flags_that_are_not_its_own_a_model_tells_nothing():
    logits, _, labels, member, other = same_samples(9, apart=0)
    target = of_logits(logits, labels, member)
    assert not shared_rows(target, of_logits(logits.astype(np.float16), labels, other)).sure
    (note,) = check_two_models(target, of_logits(logits.astype(np.float16), labels, ~member))
    assert "have but for rounding the outputs" in note


@pytest.mark.parametrize("apart", [1e-3, 1e-2, 0.1, 1.0])
@pytest.mark.parametrize("classes", [2, 10])
def test_two_models_that_learned_much_the_same_of_the_same_samples_are_two(apart, classes):
    """Linear models of many samples: trained on halves that have nothing to do with each other,
    or on the two halves of one."""
    for seed in range(4):
        one, two, labels, member, other = same_samples(seed, apart=apart, classes=classes)
        target = of_logits(one, labels, member)
        assert not shared_rows(target, of_logits(two, labels, other)).sure
        assert not shared_rows(target, of_logits(two, labels, ~member)).one_model
        if apart >= 0.1:
            assert not shared_rows(target, of_logits(two, labels, member)).sure


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
            member = rng.random(1500) < 0.5
            pair.append(table(np.stack([1 - share, share], axis=1), labels, member))
        assert check_two_models(*pair) == ()


def test_of_many_samples_only_some_are_sorted_and_all_counted(monkeypatch):
    monkeypatch.setattr(sharing, "_ROWS", 300)
    logits, _, labels, member, other = same_samples(3, apart=0)
    target = of_logits(logits, labels, member)
    found = shared_rows(target, of_logits(logits.astype(np.float32), labels, member))
    assert found.one_model
    assert found.shared > 1800
    apart = same_samples(4, apart=0)
    assert not shared_rows(target, of_logits(apart[0], apart[2], other)).sure


def test_the_note_of_shared_samples_stays_with_the_scores_regression():
    """Only the survey told of them."""
    given, other = outputs(0), outputs(1)
    target = table(*given, keep_outputs=True)
    shadow = table(*joined(other, permuted(*given, rows=60)), keep_outputs=True)
    for name in ("loss", "modified-entropy", "neural", "S"):
        notes = canary.attack(target, name, shadow=shadow).notes
        assert sum(note.startswith("60 samples of the shadow have") for note in notes) == 1
    assert canary.attack(target, "correctness", shadow=shadow).notes == ()
    assert survey(target, shadow, attacks="loss").notes.count(notes[0]) == 1
