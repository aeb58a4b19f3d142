"""Members and non-members that differ without any model, and non-members that are near copies."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

import canary
from canary.errors import CanaryError
from canary.membership.doubts import doubts
from canary.membership.inputs_alone import exact_copies, near_copies, other_source
from canary.membership.models_survey import survey_models
from canary.membership.shadow_survey import survey
from canary.signals.output_files import inputs_of

N = 400
MEMBER = np.random.default_rng(0).permutation(2 * N) < N
RARE = 1e-6


def points(seed=0, features=20):
    return np.random.default_rng(seed).normal(size=(2 * N, features))


def copied(x, noise):
    x = x.copy()
    x[~MEMBER] = x[MEMBER] + noise * np.random.default_rng(1).normal(size=(N, x.shape[1]))
    return x


def scaled(x):
    return np.where(MEMBER[:, None], x, 1.5 * x)


@pytest.mark.parametrize(
    ("inputs", "source", "copies"),
    [
        (points(), False, False),
        (scaled(points()), True, False),
        (points() + 0.6 * MEMBER[:, None], True, False),
        (scaled(points(features=500)).reshape(2 * N, 20, 25), True, False),
        (copied(points(), 0.05), False, True),
        (copied(points(), 0.0), False, True),
        # Clusters of near samples that flags divide at random are copies on neither side alone.
        (np.repeat(points()[: N // 2], 4, axis=0) + 0.01 * points(2), False, False),
        (np.full((2 * N, 3), np.nan), False, False),
        (np.zeros((2 * N, 3), np.int8), False, False),
    ],
)
def test_what_can_be_seen_without_a_model(inputs, source, copies):
    found = other_source(inputs, MEMBER, "target", level=RARE)
    assert (found is not None) is source
    assert not source or "of the target differ without any model: a classifier that sees" in found
    near = near_copies(inputs, MEMBER, "target", level=RARE)
    assert (near is not None) is copies
    assert not copies or near.startswith("400 of 400 non-members of the target are near copies")


def test_a_few_near_copies_among_many_are_seen_theory():
    """A twentieth are copies: by the sign test 20 of 20 has a chance of 1e-6, 19 of 19 of 2e-6."""
    for copies, noted in ((25, True), (19, False)):
        x, outside = points(), np.flatnonzero(~MEMBER)[:copies]
        x[outside] = x[np.flatnonzero(MEMBER)[:copies]] + 0.01
        assert (near_copies(x, MEMBER, "it", level=RARE) is not None) is noted


def test_copies_are_counted_by_input_and_label():
    x, y = points(), np.arange(2 * N) % 3
    inside, outside = np.flatnonzero(MEMBER)[:20], np.flatnonzero(~MEMBER)[:20]
    assert exact_copies(x, y, MEMBER, "target") is None
    x[outside] = x[inside]
    y[outside] = y[inside]
    found = exact_copies(x, y, MEMBER, "target")
    assert found.startswith("20 of 400 non-members of the target have the input and the label")
    assert exact_copies(x, y + ~MEMBER, MEMBER, "target") is None
    # Outputs that are equal by themselves, as of one leaf of a tree, are no copies.
    logits = np.random.default_rng(3).normal(size=(2 * N, 4))
    logits[outside] = logits[inside]
    tied = canary.measure(logits, y=y, member=MEMBER, outputs="logits")
    assert any("outputs and the label" in note for note in doubts(tied, "target"))
    assert not any("label of" in note for note in doubts(replace(tied, inputs=points()), "target"))


def test_samples_of_one_source_are_hardly_ever_noted_coverage():
    """A thousandth of the cases at this level would be expected, by each check."""
    noted = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        x = rng.exponential(size=(240, 1 + seed % 12)) ** (1 + seed % 3)
        member = rng.random(240) < (0.3, 0.5, 0.7)[seed % 3]
        checks = (other_source, near_copies)
        noted += sum(check(x, member, "it", level=1e-3) is not None for check in checks)
    assert noted <= 3  # more has a chance of 1e-5


def answers(x, y, seed):
    """A model that knows its members: the label's own logit is higher for them."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(len(y), 4))
    logits[np.arange(len(y)), y] += 1.0 + MEMBER
    return lambda part: logits[: len(part)] if len(part) == len(y) else logits[part[:, 0] == 0]


def measured(x, seed):
    y = np.random.default_rng(seed).integers(0, 4, 2 * N)
    return canary.measure(answers(x, y, seed), x, y, member=MEMBER, outputs="logits")


def test_an_alarm_by_another_source_is_no_alarm():
    sound, wrong = (
        survey(measured(x, 1), measured(points(5), 2), attacks="loss", fprs=[0.1])
        for x in (points(), scaled(points()))
    )
    assert (sound.told_apart(), wrong.told_apart()) == (True, None)
    assert wrong.outcome() == "undecided"
    assert [one.name for one in sound.attacked] == [one.name for one in wrong.attacked]
    verdict = canary.check(wrong, max_auc=0.9)
    assert (verdict.outcome, canary.check(sound, max_auc=0.9).outcome) == ("undecided", "passed")
    assert "differ without any model" in verdict.findings[0].sentence
    several = canary.measure(
        [answers(points(), np.zeros(2 * N, int), seed) for seed in (3, 4)],
        scaled(points()),
        np.zeros(2 * N, int),
        member=np.stack([MEMBER, np.random.default_rng(9).permutation(MEMBER)]),
        outputs="logits",
    )
    found = survey_models(several, attacks="P", fprs=[0.1])
    assert found.told_apart() is None
    assert any("of the model 0 differ without any model" in note for note in found.doubts)
    assert several.select(samples=[3, 5]).inputs.shape == (2, 20)


def save(path, **changes):
    given = {
        "logits": np.zeros((4, 2)),
        "labels": [0, 1, 0, 1],
        "member": [1, 1, 0, 0],
        "inputs": np.arange(8.0).reshape(4, 2),
    }
    np.savez(path, **(given | changes))


def test_inputs_of_files_are_read(tmp_path):
    save(tmp_path / "a.npz")
    assert canary.measure(tmp_path / "a.npz").inputs.tolist() == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert inputs_of(tmp_path / "a.csv", 4) is None


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        (np.zeros((3, 2)), "labels 4, inputs 3"),
        (np.zeros(4), "inputs has the shape (4,) and the type float64"),
        (np.array([["a"]] * 4), "and the type <U1"),
        (np.zeros((4, 0)), "inputs has the shape (4, 0)"),
        (np.array([[{}]] * 4, object), "holds pickled objects in inputs"),
    ],
)
def test_inputs_that_are_none_are_refused_input(tmp_path, inputs, words):
    save(tmp_path / "a.npz", inputs=inputs)
    with pytest.raises(CanaryError, match=words.replace("(", r"\(").replace(")", r"\)")):
        canary.measure(tmp_path / "a.npz")


@pytest.mark.parametrize(
    "x", [["a", "b"] * N, list(range(2 * N)), partial(points)], ids=["words", "numbers", "other"]
)
def test_what_is_no_array_of_numbers_is_not_looked_at_degenerate(x):
    table = canary.measure(
        np.zeros((2 * N, 2)), x, np.zeros(2 * N, int), member=MEMBER, outputs="logits"
    )
    assert table.inputs is None
