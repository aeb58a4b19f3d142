"""Answers in which nothing could come out: what is counted, and which shares are doubted."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from canary.models.served.writer import Written
from canary.passages.answers import Answers, counted, marks

KEY = bytes(32)
CALM = Answers(
    prompts=10, samples=100, empty=0, unfinished=0, short=0, alike=0, stuck=0, sure=0
)  # fmt: skip


def counts(
    said, *, prompts=10, samples=4, sure=(), suffixes=("ten letters",), known="", alone=False,
    planted=False,
):  # fmt: skip
    """Of answers `said(prompt, turn)`, each a text or an answer."""
    tally = Counter()
    for prompt in range(prompts):
        for turn in range(samples):
            answer = said(prompt, turn)
            answer = Written(answer, False) if isinstance(answer, str) else answer
            tally.update(marks(answer, prompt, suffixes, KEY, known, planted=planted))
    return counted(tally, range(prompts), sure, samples, alone=alone)


def letters(number):
    return chr(97 + number)


def varied(prompt, turn):
    return f"{prompt} and {turn} in words of their own"


@pytest.mark.parametrize(
    ("said", "options", "expected"),
    [
        (varied, {}, {}),
        (varied, {"samples": 1}, {}),
        (lambda p, t: "" if t else varied(p, t), {}, {"empty": 30, "stuck": 10}),
        (lambda p, t: Written("", True), {}, {"empty": 40}),
        (lambda p, t: Written(f"{p}{t}", True), {}, {"ended": 40}),
        (lambda p, t: Written(f"{p}{t}", True, True), {}, {"ended": 40, "lowered": 40}),
        (
            lambda p, t: f"{letters(p)} no number {letters(t)}",
            {"suffixes": ("is 12", "is 34")},
            {"masked": 40},
        ),
        (lambda p, t: f"{letters(p)} no number {letters(t)}", {"suffixes": ("is 12", "is b")}, {}),
        (lambda p, t: f"{letters(p)} no number {t}", {"suffixes": ("is 12", "is 34")}, {}),
        (lambda p, t: f"{'*#'[t > 1] * 6} {varied(p, t)}", {}, {"masked": 40}),
        (lambda p, t: f"**{t}** {varied(p, t)}", {}, {}),
        (lambda p, t: f"75**** {varied(p, t)}" if t else varied(p, t), {}, {"masked": 30}),
        (lambda p, t: f"{'[NUMBER]' if t else '<PHONE_1>'} {varied(p, t)}", {}, {"masked": 40}),
        (lambda p, t: f"[UNK] <b> [1] {varied(p, t)}", {}, {"alike": 40}),
        (lambda p, t: f"{varied(p, t)} [NUMBER]", {}, {}),
        (lambda p, t: f"[NAME] #### {varied(p, t)}", {"known": "for [NAME]\n#####"}, {}),
        (lambda p, t: "It is no text." if t == 0 else varied(p, t), {}, {"alike": 10, "fixed": 10}),
        (
            lambda p, t: "It is no text." if not t else varied(p, t),
            {"known": "It is no text."},
            {"alike": 10},
        ),
        (lambda p, t: "It is in ten letters." if t == 0 else varied(p, t), {}, {"alike": 10}),
        (
            lambda p, t: Written("and on it goes" if t == 0 else varied(p, t), True),
            {},
            {"alike": 10},
        ),
        (lambda p, t: "It is no text." if p < 2 and not t else varied(p, t), {}, {}),
        (
            lambda p, t: f"My {letters(t)}.{t}" if t % 2 else "It is no text.",
            {"prompts": 1, "alone": True, "samples": 30, "suffixes": ("is 12", "is 34")},
            {"fixed": 15},
        ),
        (lambda p, t: "<think>It is long " + varied(p, t), {}, {"unfinished": 40}),
        (lambda p, t: f"<think>So</think> {varied(p, t)}", {}, {}),
        (lambda p, t: f"<think>So</think> {p}{t}", {}, {"short": 40}),
        (lambda p, t: f"<think>{varied(p, t)}</think>", {}, {"empty": 40}),
        (lambda p, t: f"I am sorry, but {varied(p, t)}", {}, {"alike": 40}),
        (lambda p, t: f"I am sorry, but {varied(p, t)}", {"prompts": 4}, {}),
        (lambda p, t: f"Well {'but' if p < 2 else p} then {varied(p, t)}", {}, {}),
        (lambda p, t: varied(p, 0), {}, {"stuck": 10}),
        (lambda p, t: varied(p, 0), {"sure": (1, 2, 3)}, {"stuck": 7, "sure": 3}),
        (lambda p, t: varied(p, 0), {"samples": 1}, {}),
        (lambda p, t: varied(p, t % 3), {"samples": 60}, {"stuck": 10}),
        (lambda p, t: varied(p, t % 4), {"samples": 60}, {}),
    ],
)
def test_what_is_counted(said, options, expected):
    found = counts(said, **options)
    given = {"prompts": found.prompts, "samples": found.samples}
    assert found == replace(CALM, **given, **expected)


@pytest.mark.parametrize(
    ("count", "highest", "word"),
    [("empty", 100, "are empty"), ("unfinished", 100, "reasoning"), ("short", 500, "shorter"),
     ("ended", 100, "limit of tokens"), ("masked", 20, "filter hides numbers"),
     ("fixed", 20, "fixed reply"),
     ("alike", 500, "begin alike"), ("stuck", 1, "repeated")],
)  # fmt: skip
def test_a_share_is_doubted_above_its_bound(count, highest, word):
    assert not [*replace(CALM, **{count: highest}).doubts(1.0)]
    ((problem, cure),) = replace(CALM, **{count: highest + 1}).doubts(1.0)
    assert word in problem
    assert cure


def test_empty_answers_may_not_hide_more_than_the_limit_allows():
    """A filter may remove just the passages: each answer that it emptied may have been one."""
    few = replace(CALM, empty=20)
    assert not [*few.doubts(0.02)]
    assert [*few.doubts(0.019)]


def test_digests_take_the_key():
    one, other = (marks(Written("some text", False), 0, ["s"], bytes([n] * 32)) for n in (1, 2))
    assert not {*one} & {*other}
    assert "some" not in str(one)


@pytest.mark.parametrize(
    "spelling",
    ["[removed]", "<redacted>", "{{number}}", "[NUMBER]", "«entfernt»", "【hidden】", "***", "____",
     "██████", "[phone number 1]"],
)  # fmt: skip
def test_any_placeholder_in_place_of_a_planted_secret_is_noticed(spelling):
    found = counts(
        lambda p, t: f"{spelling} and so on {p} {t}" if t % 2 else f"123456 {varied(p, t)}",
        suffixes=("755574", "120934"), planted=True,
    )  # fmt: skip
    assert found.masked == 20
    assert "filter hides numbers" in next(problem for problem, _ in found.doubts(0.75))


@pytest.mark.parametrize(
    "beginning",
    ["<strong>755574</strong>", "<span>", "[UNK]", "[your number]", "[1]", "[the page](http)", "**",
     "## 7", "x", "...", "known as [removed]", "<b>", "[edit]"],
)  # fmt: skip
def test_what_models_write_in_place_of_a_secret_is_no_placeholder(beginning):
    found = counts(
        lambda p, t: f"{beginning} {letters(p)} {letters(t)} of 12 words",
        suffixes=("755574", "120934"), planted=True, known="a text [edit]",
    )  # fmt: skip
    assert not found.masked


def test_lower_case_brackets_of_ordinary_texts_are_no_placeholder():
    assert not counts(lambda p, t: f"[music] {varied(p, t)}").masked
