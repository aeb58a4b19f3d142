"""What is wrong with a format is said with its place and its cure."""

from __future__ import annotations

import re
from functools import partial

import numpy as np
import pytest

from canary.corpus.canaries import CanarySet
from canary.errors import FormatError, InputError
from canary.formats import automaton as limits
from canary.formats.format import Format, read_words, with_words

LARGE = ("column 1", "more than 500,000 edges", "shorter holes")


@pytest.mark.parametrize(
    ("text", "where", "problem", "cure"),
    [
        (
            "a {digt:9}",
            "column 3",
            "'digt' is not a kind of hole",
            "did you mean digit? Use one of {digit:9}, {letter:8}",
        ),
        ("{}", "column 1", "a hole has no kind", "use one of {digit:9}"),
        ("no {digit:9", "column 4", "never closed", "close it with }"),
        ("no } hole {digit:9}", "column 4", "a single }", "write }}"),
        ("nothing", "column 1", "no hole", "{digit:9}"),
        ("{{digit:9}}", "column 1", "no hole", "single braces"),
        ("", "column 1", "no hole", "{digit:9}"),
        ("{digit}", "column 1", "has no count", "as in {digit:9}"),
        ("{letter:0}", "column 1", "the count is 0", "at least 1"),
        ("{digit:-3}", "column 1", "'-3' is not a whole number", "at least 1"),
        ("{digit:²}", "column 1", "'²' is not a whole number", "at least 1"),
        ("{choice}", "column 1", "no alternatives", "{choice:red|green|blue}"),
        ("{choice:a||b}", "column 1", "text 2 of the list is empty", "at least one character"),
        ("x{choice:a|b|a}", "column 2", "'a' is listed twice", "once"),
        ("{choice:a|{b}}", "column 1", "'{b}' holds a brace", "outside of holes"),
        ("half \ud800 {digit:9}", "column 6", "surrogate", "whole character"),
        ("{choice:a|\udfff}", "column 11", "surrogate", "whole character"),
        (None, "", "a format is text, got NoneType", "Format("),
        ("{digit:1000000000}", *LARGE),
        ("{digit:" + "9" * 5000 + "}", *LARGE),
        ("{digit:1300}", "column 1", "more than 2^4096 fills", "shorter holes"),
        ("{letter:800}" * 2, "column 1", "more than 2^4096 fills", "shorter holes"),
        ("{digit:1}" * 1001, "column 9001", "more than 1,000 holes", "several formats"),
        ("{base64:x}", "column 1", "'x' is not a whole number", "as in {base64:20}"),
        ("{word:9999999999}", "column 1", "more than 8,000,000 edges", "fewer words"),
        ("{email}", "column 1", "no count", "as in {email:8}"),
        ("{uuid:4}", "column 1", "takes no argument", "write {uuid}"),
        ("{phone}", "column 1", "names no country", "us, uk and fr"),
        ("{phone:de}", "column 1", "'de' has no numbers", "us, uk and fr"),
        ("{iban:de}", "column 1", "'de' has no IBAN", "DE"),
        ("{credit_card:visa|maestro}", "column 1", "'maestro' is no card network", "amex"),
        ("{re}", "column 1", "no pattern", r"{re:[A-Z]{2}\d{6}}"),
        ("x {re:a*}", "column 3", "any length", "{0,20}"),
        ("{re:a{2,}}", "column 1", "any length", "{0,20}"),
        ("{re:.}", "column 1", "nearly every character", "[ -~]"),
        (r"{re:\D}", "column 1", "nearly every character", "[ -~]"),
        ("{re:^a}", "column 1", "the anchor ^", r"\x5e"),
        ("{re:a$}", "column 1", "the anchor $", r"\x24"),
        ("{re:(?P<x>a)(?P<x>a)}", "column 1", "that of another group", "no use here"),
        ("{re:(?P<1>a)}", "column 1", "has no name", "write ("),
        ("{re:(a}", "column 1", "cannot be read", "close every group"),
        ("{re:a{3,1}}", "column 1", "cannot be read", "close every group"),
        (r"{re:(a)\1}", "column 1", "cannot be read", "back-references"),
        ("{re:(?=a)a}", "column 1", "cannot be read", "look-around"),
        (r"{re:\bword}", "column 1", "cannot be read", "no place in it"),
        (r"{re:\{}", "column 1", "never closed", r"\x7b"),
        ("{re:" + "(" * 2000 + ")" * 2000 + "}", "column 1", "nested too deeply", "fewer groups"),
        ("{re:" + "a" * 10_001 + "}", "column 1", "10,001 characters", "split it"),
        ("{re:[]}", "column 1", "no fill at all", "possible text"),
        *(
            pytest.param(*(text, *LARGE), marks=pytest.mark.slow)
            for text in (
                "{re:(|){999999999}}",
                "{re:[]{999999999}}",
                "{re:((a{1000}){1000}){1000}}",
            )
        ),
        ("{re:(a?){5000}}", *LARGE),
        ("{re:[\x01-\U0010ffff]}", *LARGE),
    ],
)
def test_messages(text, where, problem, cure):
    with pytest.raises(FormatError) as caught:
        Format(text)
    assert where in caught.value.where
    assert problem in caught.value.problem
    assert cure in caught.value.cure


def test_the_place_shows_the_text_around_it():
    with pytest.raises(FormatError, match=re.escape("'…") + ".*" + re.escape("{oops}")):
        Format("A long beginning that nobody needs to see again: {oops}" + "x" * 100)


def test_names_of_groups_are_those_that_python_takes():
    assert set(Format(r"{re:(?P<x>a)(?P<é>b)\((?P<y>c)[(?P<x>]}")) == {
        f"ab(c{last}" for last in "(?P<x>"
    }


@pytest.mark.parametrize(
    "text",
    [
        # Whether the a stood 20 characters before the end takes 2^20 states to remember.
        "{re:[ab]{0,20}a[ab]{20}}",
        "{re:(?:aa?){700}b?(?:aaa?){700}c?}" * 3,
    ],
    ids=["states", "steps"],
)
def test_ambiguity_that_costs_too_much_is_refused(text):
    with pytest.raises(FormatError, match="more than 500,000 edges"):
        Format(text)


def test_holes_within_their_limit_may_cost_too_much_together(monkeypatch):
    hole = "{re:[ab]{0,11}a[ab]{11}}-"
    monkeypatch.setattr(limits.in_all.__wrapped__, "__defaults__", (limits.MAX_STEPS // 20,))
    assert Format(hole).size
    with pytest.raises(FormatError, match="more than 500,000 edges"):
        Format(hole * 100)


def test_a_fill_outside_the_space_is_not_repeated():
    space = Format("pin {digit:4}")
    for fill in ("12345", "123", "12a4", ""):
        with pytest.raises(FormatError, match=rf"the fill \({len(fill)} characters\)") as caught:
            space.candidate(fill)
        assert not fill or fill not in str(caught.value)
    assert 1234 not in space


@pytest.mark.parametrize("fill", [None, 123456789, b"123456789", ("1",)], ids=repr)
def test_a_fill_that_is_no_text(fill):
    space = Format("{digit:9}")
    assert fill not in space
    for use in (space.index, space.candidate, lambda some: CanarySet.from_fills(space, [some])):
        with pytest.raises(FormatError, match="a fill is text, got"):
            use(fill)


@pytest.mark.parametrize("number", [-1, 101, pytest.param(10**5000, id="huge")])
def test_more_fills_than_there_are(number):
    space = Format("{digit:2}")
    with pytest.raises(FormatError, match="no fill at index"):
        space.unrank(number)
    with pytest.raises(FormatError, match="there are 100"):
        space.sample(number, rng=np.random.default_rng(0))


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("north", "got str"),
        (7, "got int"),
        ([], "is empty"),
        (["north", "south west"], "word 2 of the list is not a word"),
        (["north", ""], "word 2 of the list is not a word"),
        (["north", " south"], "word 2 of the list is not a word"),
        (["north", None], "word 2 of the list is not a word"),
        (["north", "south", "north"], "is listed twice"),
        (["north", "\ud800"], "half a surrogate pair"),
    ],
)
def test_word_lists(words, problem):
    with pytest.raises(FormatError, match=problem) as caught:
        Format("{word:2}", words=words)
    assert caught.value.cure


def test_words_that_no_hole_uses():
    for make in (
        lambda words: Format("{digit:2}", words=words),
        partial(with_words, ["{digit:9}"]),
    ):
        with pytest.raises(FormatError, match="no hole uses them"):
            make(["north", "south"])
    one, two = with_words(["{word:2}", "{digit:9}"], ["north", "south"])
    assert (one.size, one.words, two.words) == (4, ("north", "south"), None)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("\ufeffnorth\r\nsouth  east\nnorth\n\n".encode(), None),
        (None, "cannot be read"),
        (b" \n", "is empty"),
        (b"north \xff", "not UTF-8 at byte 6"),
        (b"north\0south", "has control characters"),
        (b'["north", "south"]', "is a JSON document"),
    ],
)
def test_word_lists_in_files(tmp_path, content, problem):
    path = tmp_path / "words.txt"
    if content is not None:
        path.write_bytes(content)
    if problem is None:
        assert read_words(path) == ["north", "south", "east"]
        return
    with pytest.raises(InputError, match=problem) as caught:
        read_words(path)
    assert "words.txt" in caught.value.where
    assert caught.value.cure
