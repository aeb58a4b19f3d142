"""Files that were put together wrongly get a note, and files that are as they should be none."""

from __future__ import annotations

import numpy as np
import pytest
from html_pages import answer_of, render

import canary
from canary.membership.doubts import doubts, doubts_of_pair
from canary.membership.models_survey import survey_models
from canary.membership.shadow_survey import survey

N, CLASSES = 1000, 10


def given(seed, *, gap=2.0, overfit=1.0, samples=N):
    """Logits, labels and members of a model that learned."""
    rng = np.random.default_rng(seed)
    labels, member = rng.integers(0, CLASSES, samples), rng.random(samples) < 0.5
    logits = rng.normal(size=(samples, CLASSES))
    logits[np.arange(samples), labels] += gap + overfit * member
    return logits, labels, member


def table(logits, labels, member):
    return canary.measure(logits, y=labels, member=member, outputs="logits")


def shifted(logits, labels, member):
    return logits, np.roll(labels, 1), member


def right_or_wrong(logits, labels, member):
    return logits, (logits.argmax(axis=1) == labels).astype(int), member


def sorted_file(logits, labels, member):
    """Members are the first half of a file that was sorted by class."""
    order = np.argsort(labels, kind="stable")
    return logits[order], labels[order], np.arange(len(labels)) < len(labels) // 2


def with_copies(logits, labels, member, copies=20):
    """Some members are among the nonmembers once more."""
    at = np.flatnonzero(member)[:copies]
    return (
        np.concatenate([logits, logits[at]]),
        np.concatenate([labels, labels[at]]),
        np.concatenate([member, np.zeros(len(at), bool)]),
    )


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (shifted, "labels are of other samples, in another order, or numbered otherwise"),
        (right_or_wrong, "name 2 of 10 classes"),
        (sorted_file, "not of the same classes"),
        (lambda *of: with_copies(*of, 400), "800 samples of the target have the outputs"),
        (
            lambda logits, labels, member: (np.eye(CLASSES)[logits.argmax(1)] * 9, labels, member),
            "have the same loss, as hard labels",
        ),
        (with_copies, "40 samples of the target have the outputs and the label of a sample of the"),
    ],
)
def test_wrong_files_are_doubted(wrong, words):
    notes = doubts(table(*wrong(*given(0))), "target")
    assert any(words in note for note in notes), notes
    assert any(
        note in survey(table(*wrong(*given(0))), table(*given(1)), attacks="loss").notes
        for note in notes
    )


def test_files_as_they_should_be_are_not_doubted_coverage():
    """Also of models that remember nothing, have seldom classes, or are always right."""
    noted = []
    for seed in range(60):
        options = ({}, {"overfit": 0.0}, {"gap": 30.0}, {"samples": 60}, {"gap": 0.5})[seed % 5]
        noted += doubts(table(*given(seed, **options)), "target")
    assert not noted


@pytest.mark.parametrize("copies", [0, 40])
def test_losses_that_float32_rounds_alike_are_no_copies_degenerate(copies):
    rng = np.random.default_rng(0)
    member, labels = rng.random(N) < 0.5, rng.integers(0, 3, N)
    losses = rng.exponential(np.where(member, 2e-4, 6e-4))
    losses = np.round(losses * 2**23) / 2**23 if not copies else losses * 1e3
    inside, outside = np.flatnonzero(member)[:copies], np.flatnonzero(~member)[:copies]
    losses[outside], labels[outside] = losses[inside], labels[inside]
    measured = canary.measure(losses, y=labels, member=member, outputs="losses")
    assert any("copies" in note for note in doubts(measured, "target")) is bool(copies)


def test_a_shadow_of_another_data_set_is_doubted():
    target, other, like = (table(*given(seed, gap=gap)) for seed, gap in ((4, 1), (5, 4), (6, 1)))
    (note,) = doubts_of_pair(target, other)
    assert "what is learned on so different a model may not fit" in note
    assert doubts_of_pair(target, like) == ()


def losses_of(seed, *, samples=N):
    rng = np.random.default_rng(seed)
    member = rng.random(samples) < 0.5
    return rng.exponential(np.where(member, 0.5, 1.0)), rng.integers(0, 3, samples), member


@pytest.mark.parametrize(("batch", "words"), [(64, "only 16 different"), (N, "have the same loss")])
def test_means_of_batches_are_no_losses_of_samples(batch, words):
    losses, labels, member = losses_of(0)
    at = np.arange(N) // batch
    means = (np.bincount(at, losses) / np.bincount(at))[at]
    (note,) = doubts(canary.measure(means, y=labels, member=member, outputs="losses"), "target")
    assert words in note


@pytest.mark.parametrize("seed", range(3))
def test_outputs_in_other_units_are_doubted(seed):
    logits, labels, member = given(seed)
    shadow = table(*given(seed + 10))
    other = survey(table(logits / 100, labels, member), shadow, attacks="loss,loss-one-threshold")
    assert any("in the same units" in note for note in other.notes), other.notes
    for options in ({}, {"overfit": 0.1}, {"gap": 3.0}, {"samples": 60}):
        target = table(*given(seed, **options))
        assert not any("same units" in note for note in survey(target, shadow).notes)


def permuted(member):
    return np.random.default_rng(9).permutation(member)


def rolled(member):
    return np.roll(member, 3)


ACCURATE = {"gap": 6.0, "overfit": 2.0}


@pytest.mark.parametrize(
    ("ours", "theirs", "told", "words"),
    [
        (permuted, None, None, "of the shadow and in "),
        (None, permuted, None, "of the target and in "),
        (rolled, rolled, None, "fit its losses if they are moved by 3 samples"),
        (permuted, permuted, False, "as they would be if the flags were of other samples"),
        (None, None, True, None),
    ],
)
def test_flags_of_other_samples_give_no_calm_answer(ours, theirs, told, words):
    """Of models that are right on nearly all members and nonmembers."""
    tables = []
    for seed, wrong in ((20, ours), (21, theirs)):
        logits, labels, member = given(seed, **ACCURATE)
        tables.append(table(logits, labels, member if wrong is None else wrong(member)))
    # What a shadow with flags of other samples teaches may be right by chance.
    found = survey(*tables, attacks="correctness" if theirs else "loss", fprs=[0.1])
    assert found.told_apart() is found.to_dict()["told_apart"] is told
    assert any(words in note for note in found.notes) if words else found.notes == ()
    said = answer_of(found)
    assert ("Nothing is decided" in said) is (told is None)
    assert ours is not rolled or "<strong>Undecided</strong>" in render(found)


def test_flags_in_blocks_or_in_turn_are_not_moved_coverage():
    """Losses that depend on the place in the file fit flags that do so as well, at any distance."""
    for seed in range(40):
        logits, labels, _ = given(seed, overfit=0.0)
        logits += np.sin(np.arange(N) / 50)[:, None] * np.eye(CLASSES)[labels]
        member = (
            np.arange(N) < N // 2,
            np.arange(N) // 100 % 2 == 0,
            np.arange(N) % 4 < 2,
            np.random.default_rng(seed).random(N) < 0.5,
        )[seed % 4]
        assert not any("moved by" in note for note in doubts(table(logits, labels, member), "it"))


def test_models_with_flags_of_other_samples_give_no_calm_answer():
    rng = np.random.default_rng(5)
    labels, ease = rng.integers(0, CLASSES, N), rng.normal(size=N)
    member = rng.random((4, N)) < 0.5
    losses = np.logaddexp(0, -(2 + ease + 2 * member + rng.normal(size=member.shape)))

    def of(flags):
        models = canary.measure(list(losses), y=labels, member=flags, outputs="losses")
        found = survey_models(models, attacks="S,P", fprs=[0.1])
        return found.told_apart(), answer_of(found), found.notes

    assert of(member)[0] is True
    told, sentence, notes = of(np.roll(member, 2, axis=1))
    assert told is None
    assert "Nothing is decided" in sentence
    assert any("moved by 2 samples" in note for note in notes)
    told, _, notes = of(rng.permuted(member, axis=1))
    assert told is False
    assert any("as they would be if the flags were of other samples" in note for note in notes)
    one = member.copy()
    one[2] = rng.permutation(one[2])
    assert any("of model 2, and" in note for note in of(one)[2])


def of_losses(seed, change=lambda losses: losses, *, samples=2000, gap=1.0, overfit=1.0):
    logits, labels, member = given(seed, samples=samples, gap=gap, overfit=overfit)
    losses = canary.measure(logits, y=labels, member=member, outputs="logits").signal("loss")[0]
    return canary.measure(change(losses), y=labels, member=member, outputs="losses")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda losses: losses / np.log(2), "1.4 times those of the shadow"),
        (lambda losses: losses / np.log(10), "0.423 times those of the shadow"),
        (lambda losses: losses * 32, "31.1 times those of the shadow"),
        (lambda losses: np.exp(-losses), "are probabilities and not losses"),
    ],
)
@pytest.mark.parametrize("overfit", [0.0, 1.0])
def test_losses_in_other_units_are_doubted(change, words, overfit):
    gap = 3.0 if "probabilities" in words else 1.0
    target = of_losses(30, change, gap=gap, overfit=overfit)
    found = survey(target, of_losses(31, gap=gap, overfit=overfit), attacks="loss", fprs=[0.1])
    assert any(words in note for note in found.notes), found.notes
    assert found.told_apart() is not False
    alike = survey(*(of_losses(seed, change, gap=gap) for seed in (30, 31)), attacks="loss")
    assert not any(" times those of " in note for note in alike.notes)


def test_losses_of_models_that_learned_more_or_less_are_not_doubted_coverage():
    """Of other shapes: twice the samples, two classes of a model that knows nothing."""
    for seed in range(28):
        ours, theirs = (
            ({}, {}),
            ({"gap": 1.3}, {}),
            ({"overfit": 2.0}, {"overfit": 0.5}),
            ({"samples": 200}, {"samples": 100}),
        )[seed % 4]
        pair = of_losses(seed, **ours), of_losses(seed + 100, **theirs)
        assert doubts_of_pair(*pair) == ()
    rng = np.random.default_rng(0)
    half = rng.normal(np.log(2), 0.1, 500).clip(0)
    flags = rng.random(500) < 0.5
    nothing = canary.measure(half, y=rng.integers(0, 2, 500), member=flags, outputs="losses")
    assert doubts(nothing, "target") == ()
