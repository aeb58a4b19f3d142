"""Files that were put together wrongly get a note, and files that are as they should be none."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from html_pages import answer_of, render

import canary
from canary.membership.doubts import doubts, doubts_of_models, doubts_of_pair, upside_down
from canary.membership.models_survey import survey_models
from canary.membership.shadow_survey import survey
from canary.reports.builders import report_of
from canary.signals.signal_table import SignalTable
from canary.statistics.roc import roc

N, CLASSES = 1000, 10


def given(seed, *, gap=2.0, overfit=1.0, samples=N):
    """Logits, labels and members of a model that learned."""
    rng = np.random.default_rng(seed)
    labels, member = rng.integers(0, CLASSES, samples), rng.random(samples) < 0.5
    logits = rng.normal(size=(samples, CLASSES))
    logits[np.arange(samples), labels] += gap + overfit * member
    return logits, labels, member


def table(given, labels, member, outputs="logits"):
    return canary.measure(given, y=labels, member=member, outputs=outputs)


def of_losses(seed, change=lambda losses: losses, **options):
    made = table(*given(seed, **{"samples": 2000, "gap": 1.0, **options}))
    return table(change(made.signal("loss")[0]), made.label, made.member[0], "losses")


def sorted_file(logits, labels, member):
    """Members are the first half of a file that was sorted by class."""
    order = np.argsort(labels, kind="stable")
    return logits[order], labels[order], np.arange(len(labels)) < len(labels) // 2


@pytest.mark.parametrize(("right", "noted"), [(718, False), (690, True), (671, True), (450, True)])
def test_a_model_that_hardly_beats_the_commonest_class_learned_something(right, noted):
    """Of 1,000 members 671 are of one class; 718 would be right by chance once in 1,400 models."""
    label = np.repeat((np.arange(1000) >= 671).astype(int), 2)
    member, wrong = np.tile([True, False], 1000), np.arange(2000) // 2 >= right
    logits = np.random.default_rng(0).normal(size=(2000, 2)) * 0.1
    logits[np.arange(2000), np.where(wrong, 1 - label, label)] += 2.0
    found = doubts(table(logits, label, member), "model 2")
    assert any("it learned nothing" in note for note in found) is noted


def with_copies(logits, labels, member, copies=20):
    """Some members are among the non-members once more."""
    at = np.flatnonzero(member)[:copies]
    copied = np.concatenate([member, np.zeros(len(at), bool)])
    return np.concatenate([logits, logits[at]]), np.concatenate([labels, labels[at]]), copied


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda x, y, m: (x, np.roll(y, 1), m), "labels are of other samples, in another order"),
        (lambda x, y, m: (x, (x.argmax(1) == y).astype(int), m), "name 2 of 10 classes"),
        (sorted_file, "not of the same classes"),
        (partial(with_copies, copies=400), "800 samples of the target have the outputs"),
        (lambda x, y, m: (np.eye(CLASSES)[x.argmax(1)] * 9, y, m), "same loss, as hard labels"),
        (with_copies, "40 samples of the target have the outputs and the label of a sample of the"),
        (lambda x, y, m: (x, y, ~m), "better on non-members than on members (right on "),
    ],
)
def test_wrong_files_are_doubted(wrong, words):
    made = table(*wrong(*given(0)))
    notes = doubts(made, "target")
    assert any(words in note for note in notes), notes
    assert {*notes} & {*survey(made, table(*given(1)), attacks="loss").notes}


@pytest.mark.parametrize("share", [0.7, 1.0])
def test_a_short_training_is_named_before_exchanged_labels(share):
    rng, label = np.random.default_rng(0), np.tile(np.arange(CLASSES), 200)
    right = (rng.random(len(label)) < share) & (label > 1)
    says = np.where(right, label, np.where(label == 2, 3, 2))
    member = np.repeat([True, False], len(label) // 2)
    (note,) = (n for n in doubts(table(np.eye(CLASSES)[says] * 3.0, label, member), "shadow")
               if "the labels of these classes may be exchanged" in n)  # fmt: skip
    assert ("its training was probably too short. If it was not, the" in note) is (share < 0.9)


def test_a_model_that_always_names_one_class_learned_nothing():
    """And its labels are not called exchanged: nine of ten classes would be."""
    label = np.tile(np.arange(CLASSES), 200)
    member = np.repeat([True, False], len(label) // 2)
    logits = np.tile(np.eye(CLASSES)[2], (len(label), 1)) * 3.0
    notes = doubts(table(logits, label, member), "target")
    assert any("Leave out a model that learned nothing" in note for note in notes), notes
    assert not any("exchanged" in note for note in notes), notes


def test_two_of_three_classes_exchanged_are_doubted():
    rng = np.random.default_rng(0)
    label, member = rng.integers(0, 3, 4000), rng.random(4000) < 0.5
    logits = np.eye(3)[label] * 4.0 + rng.normal(size=(4000, 3))
    exchanged = np.array([1, 0, 2])[label]
    notes = doubts(table(logits, exchanged, member), "target")
    assert any("numbered differently from the outputs" in note for note in notes), notes


def test_files_as_they_should_be_are_not_doubted_coverage():
    """Also of models that remember nothing, have seldom classes, or are always right.

    Nor where losses depend on the place in the file, and flags do as well: at no distance.
    """
    noted, place = [], np.arange(N)
    for seed in range(60):
        options = ({}, {"overfit": 0.0}, {"gap": 30.0}, {"samples": 60}, {"gap": 0.5})[seed % 5]
        noted += doubts(table(*given(seed, **options)), "target")
    for seed in range(40):
        logits, labels, _ = given(seed, overfit=0.0)
        logits += np.sin(place / 50)[:, None] * np.eye(CLASSES)[labels]
        coins = np.random.default_rng(seed).random(N) < 0.5
        member = (place < N // 2, place // 100 % 2 == 0, place % 4 < 2, coins)[seed % 4]
        noted += [n for n in doubts(table(logits, labels, member), "it") if "moved by" in n]
    assert not noted
    # Two copies of a thousand samples, and two classes of ten among sixty.
    assert doubts(table(*with_copies(*given(0), copies=2)), "target") == ()
    logits, labels, member = given(0, samples=60)
    assert not any("classes" in n for n in doubts(table(logits, labels % 2, member), "it"))


@pytest.mark.parametrize("copies", [0, 40])
def test_losses_that_float32_rounds_alike_are_no_copies_degenerate(copies):
    rng = np.random.default_rng(0)
    member, labels = rng.random(N) < 0.5, rng.integers(0, 3, N)
    losses = rng.exponential(np.where(member, 2e-4, 6e-4))
    losses = np.round(losses * 2**23) / 2**23 if not copies else losses * 1e3
    inside, outside = np.flatnonzero(member)[:copies], np.flatnonzero(~member)[:copies]
    losses[outside], labels[outside] = losses[inside], labels[inside]
    found = doubts(table(losses, labels, member, "losses"), "target")
    assert any("copies" in note for note in found) is bool(copies)


def test_a_shadow_of_another_data_set_is_doubted():
    target, other, like = (table(*given(seed, gap=gap)) for seed, gap in ((4, 1), (5, 4), (6, 1)))
    (note,) = doubts_of_pair(target, other)
    assert "what is learned on so different a model may not fit" in note
    assert doubts_of_pair(target, like) == ()


def test_a_shadow_that_remembers_nothing_is_doubted():
    target, other = (table(*given(seed, overfit=overfit)) for seed, overfit in ((4, 3), (5, 0)))
    (note,) = doubts_of_pair(target, other)
    assert "% of its members and the shadow on" in note
    assert "what is learned on so different a model may not fit" in note


@pytest.mark.parametrize(("batch", "words"), [(64, "only 16 different"), (N, "have the same loss")])
def test_means_of_batches_are_no_losses_of_samples(batch, words):
    rng = np.random.default_rng(0)
    member, at = rng.random(N) < 0.5, np.arange(N) // batch
    losses = rng.exponential(np.where(member, 0.5, 1.0))
    means = (np.bincount(at, losses) / np.bincount(at))[at]
    (note,) = doubts(table(means, rng.integers(0, 3, N), member, "losses"), "target")
    assert words in note


def test_outputs_in_other_units_are_doubted():
    logits, labels, member = given(0)
    shadow = table(*given(10))
    for target, noted in (
        (table(logits / 100, labels, member), True),
        *((table(*given(0, **one)), False) for one in ({}, {"overfit": 0.1}, {"samples": 60})),
    ):
        notes = survey(target, shadow, attacks="loss,loss-one-threshold").notes
        assert any("in the same units" in note for note in notes) is noted, notes


@pytest.mark.parametrize("samples", [100, 300, 1000])
def test_thresholds_that_do_not_fit_the_target_are_doubted_and_hide_no_failure(samples):
    """As after a calibration of the target alone; models of more and fewer samples stay silent."""
    options = {"gap": 6.0, "overfit": 4.0, "samples": samples}
    shadow, noted = table(*given(10, **options)), []
    for seed in range(8):
        logits, labels, member = given(seed, **options)
        for factor in (0.5, 1.0):
            found = survey(table(factor * logits, labels, member), shadow)
            noted.append(any("(temperature)" in doubt for doubt in found.doubts))
            assert noted[-1] is (factor < 1.0), found.doubts
        assert not any("(temperature)" in doubt for doubt in survey(
            table(*given(seed, gap=1.0, overfit=(seed % 4) / 4, samples=samples)),
            table(*given(50 + seed, gap=1.0, overfit=(seed % 4) / 4, samples=samples)),
        ).doubts)  # fmt: skip
    wrong = survey(table(0.5 * logits, labels, member), shadow, attacks="modified-entropy")
    assert wrong.told_apart() is not False
    for limit, outcome in ((0.6, "failed"), (0.999, "undecided")):
        assert canary.check(wrong, max_auc=limit, trust_members=True).outcome == outcome


@pytest.mark.parametrize("overfit", [0.0, 1.0])
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda losses: losses / np.log(2), "1.4 times those of the shadow"),
        (lambda losses: losses / np.log(10), "0.423 times those of the shadow"),
        (lambda losses: losses * 32, "31.1 times those of the shadow"),
        (lambda losses: np.exp(-losses), "are probabilities and not losses"),
    ],
)
def test_losses_in_other_units_are_doubted(change, words, overfit):
    options = {"gap": 3.0 if "probabilities" in words else 1.0, "overfit": overfit}
    found = survey(of_losses(30, change, **options), of_losses(31, **options), attacks="loss")
    assert any(words in note for note in found.notes), found.notes
    assert found.told_apart() is not False
    alike = doubts_of_pair(*(of_losses(seed, change, gap=options["gap"]) for seed in (30, 31)))
    assert not any(" times those of " in note for note in alike)


def test_losses_of_models_that_learned_more_or_less_are_not_doubted_coverage():
    """Of other shapes: twice the samples, two classes of a model that knows nothing."""
    kinds = (
        ({}, {}),
        ({"gap": 1.3}, {}),
        ({"overfit": 2.0}, {"overfit": 0.5}),
        ({"samples": 200}, {"samples": 100}),
    )
    for seed in range(28):
        ours, theirs = kinds[seed % 4]
        assert doubts_of_pair(of_losses(seed, **ours), of_losses(seed + 100, **theirs)) == ()
    few = of_losses(30, samples=8), of_losses(30, lambda losses: losses * 1.5, samples=8)
    assert not any(" times those of " in note for note in doubts_of_pair(*few))
    rng = np.random.default_rng(0)
    half, flags = rng.normal(np.log(2), 0.1, 500).clip(0), rng.random(500) < 0.5
    assert doubts(table(half, rng.integers(0, 2, 500), flags, "losses"), "target") == ()


def permuted(member):
    return np.random.default_rng(9).permutation(member)


def rolled(member):
    return np.roll(member, 3)


@pytest.mark.parametrize(
    ("ours", "theirs", "told", "words"),
    [
        (permuted, None, None, "of the shadow and in "),
        (None, permuted, None, "of the target and in "),
        (rolled, rolled, None, "fit its losses if they are moved by 3 samples"),
        (permuted, permuted, False, "It would be so, too, if the flags were of other samples"),
        (None, None, True, None),
    ],
)
def test_flags_of_other_samples_give_no_calm_answer(ours, theirs, told, words):
    """Of models that are right on nearly all members and non-members."""
    tables = []
    for seed, wrong in ((20, ours), (21, theirs)):
        logits, labels, member = given(seed, gap=6.0, overfit=2.0)
        tables.append(table(logits, labels, member if wrong is None else wrong(member)))
    # What a shadow with flags of other samples teaches may be right by chance.
    found = survey(*tables, attacks="correctness" if theirs else "loss", fprs=[0.1])
    assert found.told_apart() is found.to_dict()["told_apart"] is told
    notes = [note for note in found.notes if "neither id nor inputs in common" not in note]
    assert len(notes) == len(found.notes) - 1
    assert any(words in note for note in notes) if words else not notes
    assert ("Nothing is decided" in answer_of(found)) is (told is None)
    assert (
        ours is not rolled
        or "<strong>Do not rely on this test before its input is checked</strong>" in render(found)
    )


def test_models_with_flags_of_other_samples_give_no_calm_answer():
    rng = np.random.default_rng(5)
    labels, ease = rng.integers(0, CLASSES, N), rng.normal(size=N)
    member = rng.random((4, N)) < 0.5
    losses = np.logaddexp(0, -(2 + ease + 2 * member + rng.normal(size=member.shape)))
    one = member.copy()
    one[2] = rng.permutation(one[2])
    # Three find nothing, and one is surely worse than a coin: beside them nothing odd.
    worse = rng.permuted(member, axis=1)
    worse[3] = ~member[3]
    for flags, told, words in (
        (member, True, None),
        (np.roll(member, 2, axis=1), None, "moved by 2 samples"),
        (rng.permuted(member, axis=1), False, "It would be so, too, if the flags were of other"),
        (one, None, "of model 2, and"),
        (worse, None, None),
    ):
        models = table(list(losses), labels, flags, "losses")
        found = survey_models(models, attacks="S,P", fprs=[0.1])
        assert found.told_apart() is told
        assert ("Nothing is decided" in answer_of(found)) is (told is None)
        assert words is None or any(words in note for note in found.notes)
        assert ("of the middle model's" in " ".join(found.notes)) is (flags is one)


def of_signal(values, member, name="correctness"):
    member, values = np.atleast_2d(member), np.atleast_2d(np.asarray(values, float))
    return SignalTable({name: values}, member, np.zeros(member.shape[1], np.int64), 2)


def swapped(notes):
    return [note for note in notes if "may be swapped" in note]


def rights(rng, inside, outside, samples=400):
    member = np.arange(samples) < samples // 2
    return (rng.random(samples) < np.where(member, inside, outside)).astype(float), member


def test_only_flags_the_wrong_way_round_are_noted_of_each_model_by_itself():
    right, member = rights(np.random.default_rng(0), 0.99, 0.7)
    losses = np.random.default_rng(1).exponential(2.1 - 2 * right)
    assert swapped(doubts(of_signal(losses, member, "loss"), "target")) == []
    (note,) = swapped(doubts(of_signal(losses, ~member, "loss"), "target"))
    assert note.startswith("The target is surer on")
    rng = np.random.default_rng(2)
    rows, flags = zip(*(rights(rng, 0.99, 0.7) for _ in range(3)), strict=True)
    member = np.array(flags)
    member[1] = ~member[1]
    (note,) = swapped(doubts_of_models(of_signal(rows, member), "abc", [0]))
    assert note.startswith("The model b is better on non-members")
    assert "That holds" not in note


def test_a_model_that_is_right_on_neither_kind_shows_no_swapped_flags():
    """Labels that are numbered differently: the few that are right may be of either kind."""
    right, member = rights(np.random.default_rng(0), 0.0, 0.1)
    both = of_signal(right, member)
    both = replace(both, label=np.arange(member.size) % 5, classes=5)
    (note,) = doubts(both, "target")
    assert "numbered differently from the outputs" in note
    known = replace(
        both, values={"correctness": np.maximum(both.values["correctness"], ~both.member)}
    )
    (note,) = swapped(doubts(known, "target"))
    assert note.startswith("The target is better on non-members")


def test_models_that_do_alike_on_both_are_hardly_ever_noted_coverage():
    rng = np.random.default_rng(3)
    noted = [doubts(of_signal(*rights(rng, 0.9, 0.9)), "target") for _ in range(2000)]
    assert sum(map(bool, map(swapped, noted))) <= 5  # 1 expected; 6 have a chance of 0.06 %


def test_attacks_upside_down_are_hardly_ever_noted_of_noise_coverage():
    rng, member = np.random.default_rng(5), np.arange(200) < 100

    def noted(shift):
        curves = [roc(rng.normal(size=200) - shift * member, member) for _ in range(4)]
        aucs = {
            str(at): lambda confidence, curve=curve: curve.auc(confidence=confidence)
            for at, curve in enumerate(curves)
        }
        return upside_down(aucs, "files")

    assert sum(bool(noted(0.0)) for _ in range(1000)) <= 4  # at most 0.5 expected
    assert "the files of members and non-members may be swapped" in noted(1.0)[0]


@pytest.mark.parametrize("outputs", ["logits", "losses"])
def test_references_that_are_unlike_the_target_are_doubted(outputs):
    """Some epochs less: nothing is decided; models that were trained alike are not doubted."""

    def models(*overfits):
        each = [given(3, overfit=one) for one in overfits]
        rng, labels = np.random.default_rng(7), each[0][1]
        member = rng.random((len(each), N)) < 0.5
        logits = rng.normal(size=(len(each), N, CLASSES))
        logits[:, np.arange(N), labels] += 1 + np.array(overfits)[:, None] * member
        logits[:, np.arange(N), labels] += rng.normal(size=N)  # what is hard is so for all
        if outputs == "losses":
            logits = np.log(np.exp(logits).sum(-1)) - logits[:, np.arange(N), labels]
        return table(list(logits), labels, member, outputs)

    few, alike = models(4.0, 0.5, 0.5, 0.5, 0.5, 0.5), models(*6 * [2.0])
    wrong = survey_models(few, attacks="P,S", targets=[0])
    assert any("so different a model may not fit" in doubt for doubt in wrong.doubts)
    assert canary.check(wrong, max_auc=0.9).outcome == "undecided"
    assert survey_models(alike, attacks="P,S").doubts == ()


def test_a_target_on_another_scale_than_its_references_is_doubted():
    """As after a calibration of the target alone; models of other accuracies stay silent."""
    rng, labels = np.random.default_rng(7), np.arange(N) % CLASSES
    member, logits = rng.random((8, N)) < 0.5, 3.0 * rng.normal(size=(8, N, CLASSES))
    logits[:, np.arange(N), labels] += 8.0 + 3.0 * member + 2.0 * rng.normal(size=N)
    logits += rng.normal(size=(8, 1, CLASSES))  # of each training
    for factor in (1.0, 0.5, 2.0):
        scaled = list(np.concatenate([factor * logits[:1], logits[1:]]))
        found = survey_models(table(scaled, labels, member), attacks="P,S", targets=[0])
        assert any("calibrated (temperature)" in one for one in found.doubts) is (factor != 1.0)
        outcomes = ("failed", "passed" if factor == 1.0 else "undecided")
        for limit, outcome in zip((0.51, 0.99), outcomes, strict=True):
            assert canary.check(found, max_auc=limit, trust_members=True).outcome == outcome
    assert survey_models(table(list(logits), labels, member), attacks="P,S").doubts == ()


def test_models_of_one_split_are_said_to_be_and_a_pass_rests_on_the_flags():
    rng = np.random.default_rng(0)
    labels, member = rng.integers(0, CLASSES, N), rng.random(N) < 0.5
    logits = rng.normal(size=(8, N, CLASSES))
    logits[:, np.arange(N), labels] += 2 + member + rng.normal(size=N)
    found = survey_models(table(list(logits), labels, member), attacks="P,S")
    assert any("All 8 models have the same members" in note for note in found.notes)
    passed = canary.check(found, max_auc=0.95)
    assert passed.outcome == "passed"
    assert any("rests on the flags" in note for note in passed.notes)


def test_a_table_from_arrays_is_no_model_called_measure():
    found = survey(table(*given(1)), table(*given(2)), attacks="loss")
    assert "the model “target”" in report_of(found).title


def test_right_flags_beside_an_unlike_shadow_are_one_note_with_both_causes():
    """The target learned little of its members, and the shadow all of its own by heart."""
    (note,) = doubts_of_pair(*(table(*given(n, overfit=by)) for n, by in ((1, 0.1), (2, 6.0))))
    assert "either the flags are not those of this model's samples, or it was trained diff" in note
    assert "In that case, what is learned on so different a model may not fit" in note
