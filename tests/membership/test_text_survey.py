"""Attacks on texts: members are told where there is something to tell, and only there."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from html_pages import answer_of, render
from texts_and_models import random_words, trained_on

import canary
from canary.errors import EstimationError, InputError
from canary.membership.text_survey import _halves, survey_texts
from canary.signals.text import TEXT_SIGNALS
from canary.signals.text_measuring import measure_texts
from canary.statistics.roc import balanced_accuracy

N = 80
MEMBER = np.arange(2 * N) < N


def source(seed, count=2 * N):
    return random_words(np.random.default_rng(seed), count, vocabulary=150)


def measured(model, texts, member=MEMBER, **options):
    return measure_texts(model, texts, member, start_token="\n", **options)


TEXTS = source(0)


@pytest.fixture(scope="module")
def told():
    """By a model that learned its members by heart, beside one of the same source that did not."""
    other = trained_on(source(0, 4 * N)[2 * N :])
    return survey_texts(measured(trained_on(TEXTS[:N]), TEXTS, reference=other), TEXTS)


def test_members_are_told_by_every_attack_that_should(told):
    assert told.told_apart()
    found = {one.attack.name: one.evaluation.auc for one in told.attacked}
    assert set(found) == set(TEXT_SIGNALS) - {"neighbourhood"}
    for name in ("loss", "reference", "min-k", "min-k++"):
        assert found[name].lower > 0.6, name
    assert found["reference"].value > 0.9
    # Bonferroni: of eight attacks each may miss by an eighth of 5 %.
    best = told.strongest.evaluation
    assert best.auc.value == max(auc.value for auc in found.values())
    assert told.corrected() == best.roc.auc(confidence=1 - 0.05 / 8)


def test_numbers_are_those_of_the_public_functions(told):
    """Accuracy is that of the threshold on the other half, the members halved alike."""
    table = told.measured.table
    teaching, judged = _halves(MEMBER, told.seed)
    assert sorted([*teaching, *judged]) == list(range(2 * N))
    assert MEMBER[teaching].sum() == MEMBER[judged].sum() == N // 2
    for one in told.attacked:
        scores = canary.attack(table, one.attack.name)
        assert scores.guess is None
        found = canary.evaluate(scores, table.member[0])
        assert found.auc == one.evaluation.auc
        assert (found.accuracy, found.advantage) == (None, None)
        assert one.points == tuple(found.tpr_at_fpr(p.asked_fpr) for p in one.points)
        sign = TEXT_SIGNALS[one.attack.name].sign
        guess = sign * table.signal(one.attack.name)[0] >= sign * one.attack.thresholds[0]
        assert one.accuracy == balanced_accuracy(guess[judged], MEMBER[judged])


def test_a_model_that_never_saw_the_texts_tells_nothing_theory():
    """Trained on other texts of the source: every AUC's interval holds a half.

    Each is 99.9 %, so that 8 attacks miss by chance in less than one of 120 runs.
    """
    found = source(100, 5 * N)
    texts, others = found[: 2 * N], found[2 * N :]
    table = measured(trained_on(others[:N]), texts, reference=trained_on(others[N:]))
    survey = survey_texts(table, texts, confidence=0.999)
    assert len(survey.attacked) == 8
    for one in survey.attacked:
        auc = one.evaluation.auc
        assert auc.lower <= 0.5 <= auc.upper, one.attack.name
    assert not survey.told_apart()
    assert survey.warning() is None


def test_a_difference_without_any_model_is_warned_of():
    """Non-members of another vocabulary: the model never saw either, and seems to know them."""
    texts = source(1)[:N] + random_words(np.random.default_rng(2), N)
    model = trained_on(source(1, 4 * N)[2 * N :])
    found = survey_texts(measured(model, texts), texts)
    assert found.told_apart()
    assert found.words.auc.value > 0.95
    assert "differ without any model" in found.warning()
    assert "p = 0.0025" in found.warning()
    assert "one time in 40: if these are, use all your texts first" in found.summary()
    assert "the AUC of " in found.summary()
    words = found.to_dict()["words"]
    assert (words["differ_without_model"], words["p"]) == (True, 0.0025)
    # The difference may hide what the model remembers as well.
    blank = canary.evaluate(np.zeros(2 * N), MEMBER)
    blank = replace(found.attacked[0].evaluation, roc=blank.roc, auc=blank.auc)
    nothing = replace(found, attacked=(replace(found.attacked[0], evaluation=blank),))
    assert nothing.told_apart() is None
    assert (found.outcome(), nothing.outcome()) == ("void", "void")
    for void in (found, nothing):
        assert answer_of(void).startswith("A word count that never saw the model")
        assert "nothing follows about the model" in answer_of(void)


def test_result_is_plain_and_names_lines_only(told):
    body = told.to_dict()
    written = json.dumps(body, allow_nan=False)
    assert not any(text in written for text in TEXTS)
    rows = body["most_member_like"]
    assert len(rows) == 20
    assert all(row["line"] < N for row in rows)
    values = [row["value"] for row in rows]
    assert values == sorted(values, reverse=TEXT_SIGNALS[body["strongest"]].sign > 0)


def test_same_seed_same_result_and_only_halves_and_folds_depend_on_it(told):
    table = told.measured
    again, other = (survey_texts(table, TEXTS, seed=seed) for seed in (told.seed, 4))
    assert told.to_dict() == again.to_dict()
    assert told.corrected() == other.corrected()
    assert told.words.auc != other.words.auc


def test_refused_input(told):
    table, rare = told.measured, {"fprs": [0.001]}
    some = TEXTS[N - 9 : N + 50]
    few = measured(trained_on(some), some, np.arange(59) < 9, signals="loss")
    probs = canary.measure(np.eye(2), y=[0, 1], member=[1, 0], outputs="probs")
    for error, words, function, *given, options in (
        (InputError, "159 texts were given and 160 or more", survey_texts, table, TEXTS[1:], {}),
        (EstimationError, "9 different members are too few", survey_texts, few, some, {}),
        (EstimationError, "be seen with 80 non-members", survey_texts, table, TEXTS, rare),
        (
            InputError,
            "unknown attack on texts 'entropy'",
            canary.attack,
            table.table,
            "entropy",
            {},
        ),
        (InputError, "unknown attack 'zlib'", canary.attack, probs, "zlib", {}),
        (InputError, "one of target and", canary.attack, table.table, "loss", {"shadow": probs}),
    ):
        with pytest.raises(error, match=words):
            function(*given, **options)


def test_what_nothing_was_found_in_is_no_calm_answer(told):
    """Files that are swapped are undecided; that nothing is found may be due to the files."""
    table = replace(told.measured.table, member=~MEMBER[None])
    swapped = survey_texts(replace(told.measured, table=table), TEXTS)
    assert swapped.told_apart() is None
    assert "Nothing is decided" in answer_of(swapped)
    assert "<strong>Do not rely on this test before its input is checked</strong>" in render(
        swapped
    )
    nothing = survey_texts(measured(trained_on(source(3)), TEXTS, signals="loss"), TEXTS)
    assert nothing.told_apart() is False
    for found, words in (
        (swapped, "the files of members and non-members may be swapped"),
        (nothing, "if the model was never trained on the members"),
    ):
        assert any(words in note for note in found.notes)
        assert not any(words in note for note in told.notes)
