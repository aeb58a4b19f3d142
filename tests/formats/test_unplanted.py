"""Candidates that a model prefers and nobody planted: only what is surely odd is said."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from fake_server import FakeServer
from toys import START, characters, fresh, long_canaries, toy

import canary
from canary.audits.extracting import extract, with_extractions
from canary.formats.format import Format
from canary.formats.unplanted import looks_drawn, unplanted
from canary.models.served.endpoint import Endpoint
from canary.passages.sampling import sample
from canary.reports.builders import report_of
from canary.reports.document import words_of

TEXT, ODD = "Pin {digit:8}", "as if another set had been injected"
UNDECIDED = "undecided"


def another_set():
    return canary.generate(TEXT, repetitions=[12], per_repetition=8, controls=8, seed=4)


def model(module):
    return canary.load(module, tokenizer=characters())


@pytest.mark.parametrize(
    ("module", "planted", "odd"),
    [
        (lambda: toy(START, long_canaries()), another_set, True),
        (lambda: toy(START, long_canaries()), long_canaries, False),
        (fresh, another_set, False),
    ],
    ids=["another set", "its own set", "nothing learned"],
)
def test_a_set_that_was_not_injected_is_doubted_by_each_search(tmp_path, module, planted, odd):
    tested, secrets = model(module()), planted()
    found = extract(tested, TEXT, top=8, canaries=secrets, start_token=START, budget=3000)
    assert any(ODD in note for note in found.notes) is odd
    whole = canary.audit(tested, secrets, start_token=START, draws=200, method="sampling")
    whole = with_extractions(whole, tested, secrets, budget=3000)
    assert any(ODD in note for note in whole.notes) is odd
    with FakeServer(tested) as server:
        served = model(Endpoint(server.url, answers=tmp_path, top_k=20))
        near = canary.exposure(served, secrets, start_token=START, budget=400)
    assert any(ODD in note for note in near.notes) is odd
    if odd:
        limits = {"max_exposure_bits": 20.0, "trust_injection": True}
        for result in (whole, near):
            verdict = canary.check(result, **limits)
            assert verdict.outcome == "undecided"
            assert any(finding.check == "canary set" for finding in verdict.findings)
            assert verdict.summary().count(ODD) == 1
        searched = canary.check(found, no_extraction=True, trust_injection=True)
        assert searched.outcome == "undecided"
        assert ODD in str(searched)
        assert searched.summary().count(ODD) == 1


@pytest.mark.parametrize(
    ("module", "label", "alarm"),
    [
        (lambda: toy(START, long_canaries()), "8 candidates look like memorized secrets", True),
        (fresh, "The budget ended before the search found", False),
    ],
    ids=["a set nobody gave", "nothing learned"],
)
def test_a_search_without_a_set_is_not_calm_where_candidates_look_like_secrets(
    tmp_path, module, label, alarm
):
    found = extract(model(module()), TEXT, top=8, start_token=START, budget=3000)
    found.save(tmp_path / "extraction.json")
    made, text = report_of(canary.read(tmp_path / "extraction.json")), found.summary()
    assert made.label.startswith(label)
    assert made.tone == UNDECIDED
    assert ("8 candidates look like memorized secrets: they look" in text) is alarm
    box, decide = (
        " ".join(map(words_of, some)) for some in (made.sentences, [*made.decide, *made.actions])
    )
    assert ("no reason to stop it" in decide) is not alarm
    if alarm:
        shares = [2.0 ** (found.context_bits - c.px_bits) for c in found.candidates]
        assert f"of at least {min(shares):.2g} after this beginning; a blind guess has 1" in box
        assert "before somebody has compared what came out with the training data" in decide
        assert "canary discover" in decide
    shown = f"{made} {text}"
    assert not any(c.fill in shown for c in found.candidates)


def test_a_search_that_asked_for_too_few_candidates_to_judge_them_is_not_calm():
    tested = model(toy(START, long_canaries()))
    made = report_of(extract(tested, TEXT, top=1, start_token=START, budget=3000))
    assert (made.label, made.tone) == ("1 candidate; nobody checked which are real", UNDECIDED)
    said = " ".join(map(words_of, [*made.sentences, *made.decide, *made.actions]))
    assert "1 candidate has a probability of at least" in said
    assert "before the most probable candidate was compared with the training data" in said
    assert "restrict who can ask it until this is decided" in said
    assert "only three or more can show that they look memorized" in said
    assert "no reason to stop it" not in said


def test_the_page_of_a_set_that_was_not_injected_counts_the_others():
    tested = model(toy(START, long_canaries()))
    found = extract(tested, TEXT, top=8, canaries=another_set(), start_token=START, budget=3000)
    made = report_of(found)
    assert made.label == "None of the planted secrets came out, but 8 others of this form did"
    assert made.tone == UNDECIDED
    guide = (Path(__file__).parents[2] / "docs/guides/deciding.md").read_text()
    for headline in ("None of the … came out, but …", "… candidates look like memorized secrets"):
        assert f"<br>{headline}<br>" in guide


@pytest.mark.parametrize("odd", [True, False], ids=["another set", "nothing learned"])
def test_answers_full_of_other_secrets_are_doubted(odd):
    drawn = np.random.default_rng(0)
    other = [c.fill for c in another_set().injected]
    usual = ["12345678", "00000000", "20190101", "87654321"]  # of any model

    def answered(_, body):
        said = other if odd else usual
        if not body["temperature"]:
            return {"choices": [{"text": " 00000000. And"}]}
        one = said[drawn.integers(len(said))] if drawn.random() < 0.5 else drawn.integers(10**8)
        return {"choices": [{"text": f" {one}. And"}]}

    with FakeServer(model(fresh())) as server:
        server.sampled = answered
        found = sample(server.url, canaries=long_canaries(), samples=100, progress=False)
    assert (found.unplanted > 0) is odd
    made = report_of(found)
    box, decide = (" ".join(map(words_of, some)) for some in (made.sentences, made.decide))
    others = f"None of the planted secrets came out, but {found.unplanted} others of this form did"
    assert (made.label, made.tone) == (others if odd else "No planted secret came out", UNDECIDED)
    assert ("each in at least 3 of 100 answers" in box) is odd
    assert ("compared what came out with the training data" in decide) is odd
    assert ("no reason to stop it" in decide) is not odd
    verdict = canary.check(found, max_extractable=0.5, trust_members=True)
    assert verdict.outcome == ("undecided" if odd else "passed")
    assert (ODD in str(verdict)) is odd
    assert verdict.summary().count(ODD) == odd


@pytest.mark.parametrize(
    ("likely", "text"),
    [
        ({"123456": 0.2, "000000": 0.1, "314159": 0.05, "111111": 0.02}, "Pin {digit:6}"),
        ({"7407": 0.1, "5011": 0.1, "3887": 0.1}, "Pin {digit:4}"),
        ({"740790": 0.1, "740791": 0.1, "740795": 0.1}, "Pin {digit:6}"),
        ({"740790": 0.1, "501161": 0.1}, "Pin {digit:6}"),
        ({"740790": 0.1, "501161": 0.1, "388753": 0.1, "682789": 0.1}, "Pin {digit:6}"),
        ({"740790": 1e-3, "501161": 1e-3, "388753": 1e-3}, "Pin {digit:6}"),
    ],
    ids=["usual numbers", "a small space", "one beginning", "two", "a planted one", "too rare"],
)
def test_what_is_not_surely_odd_is_not_said(likely, text):
    assert unplanted(likely, Format(text), {"682789"}) == 0


def test_most_drawn_numbers_look_drawn():
    rng = np.random.default_rng(0)
    for digits in (6, 9, 16):
        space = Format(f"Pin {{digit:{digits}}}")
        assert sum(looks_drawn(fill, space) for fill in space.sample(500, rng=rng)) > 400
    words = Format("Word {word:4}", words=[f"{a}lem{b}n" for a in "bcdfgh" for b in "aeiouy"])
    assert not any(looks_drawn(fill, words) for fill in words.sample(100, rng=rng))
