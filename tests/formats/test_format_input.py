"""What is wrong with a format is said with its place and its cure."""

from __future__ import annotations

import re

import numpy as np
import pytest

from canary.errors import FormatError
from canary.formats.format import Format


@pytest.mark.parametrize(
    ("text", "where", "problem", "cure"),
    [
        ("a {digt:9}", "column 3", "'digt' is no kind of hole", "known are"),
        ("a {digt:9}", "column 3", "'digt' is no kind of hole", "{digit:9}, {letter:8}"),
        ("{}", "column 1", "a hole has no kind", "known are"),
        ("{:9}", "column 1", "a hole has no kind", "known are"),
        ("{Digit:9}", "column 1", "'Digit' is no kind", "known are"),
        ("no {digit:9", "column 4", "never closed", "close it with }"),
        ("no {digit:9 {digit:2}", "column 4", "never closed", "{{ for a literal brace"),
        ("no } hole {digit:9}", "column 4", "a single }", "write }}"),
        ("nothing", "column 1", "no hole", "{digit:9}"),
        ("{{digit:9}}", "column 1", "no hole", "single braces"),
        ("", "column 1", "no hole", "{digit:9}"),
        ("{digit}", "column 1", "has no count", "as in {digit:9}"),
        ("{digit:}", "column 1", "has no count", "as in {digit:9}"),
        ("{letter:0}", "column 1", "the count is 0", "at least 1"),
        ("{letter:000}", "column 1", "the count is 0", "at least 1"),
        ("{digit:-3}", "column 1", "'-3' is not a whole number", "at least 1"),
        ("{digit: 9}", "column 1", "' 9' is not a whole number", "at least 1"),
        ("{digit:²}", "column 1", "'²' is not a whole number", "at least 1"),
        ("{digit:9.5}", "column 1", "'9.5' is not a whole number", "at least 1"),
        ("{choice}", "column 1", "no alternatives", "{choice:red|green|blue}"),
        ("{choice:}", "column 1", "no alternatives", "{choice:red|green|blue}"),
        ("{choice:a||b}", "column 1", "alternative 2 is empty", "at least one character"),
        ("{choice:a|}", "column 1", "alternative 2 is empty", "at least one character"),
        ("x{choice:a|b|a}", "column 2", "'a' stands twice", "once"),
        ("{choice:a|{b}}", "column 1", "'{b}' holds a brace", "outside of holes"),
        ("half \ud800 {digit:9}", "column 6", "surrogate", "whole character"),
        ("{choice:a|\udfff}", "column 11", "surrogate", "whole character"),
        (None, "", "a format is text, got NoneType", "Format("),
        ("{digit:1000000000}", "column 1", "more than 500,000 edges", "shorter holes"),
        ("{digit:" + "9" * 5000 + "}", "column 1", "more than 500,000 edges", "shorter holes"),
        ("{letter:20000}", "column 1", "more than 500,000 edges", "shorter holes"),
        ("{digit:1300}", "column 1", "more than 2^4096 fills", "shorter holes"),
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


def test_ambiguity_that_costs_too_much_is_refused():
    # 26,000 states before they are made deterministic, of which thousands are reached by
    # the same text, at each of its thousand lengths.
    hole = "{choice:" + "|".join("a" * n for n in range(1, 51)) + "}"
    with pytest.raises(FormatError, match="more than 500,000 edges"):
        Format(hole * 20)


def test_a_fill_outside_the_space_is_not_repeated():
    space = Format("pin {digit:4}")
    for fill in ("12345", "123", "12a4", ""):
        with pytest.raises(FormatError, match=rf"the fill \({len(fill)} characters\)") as caught:
            space.candidate(fill)
        assert not fill or fill not in str(caught.value)
    assert 1234 not in space


@pytest.mark.parametrize("index", [-1, 100, pytest.param(10**5000, id="huge")])
def test_an_index_outside_the_space(index):
    with pytest.raises(FormatError, match="no fill at index"):
        Format("{digit:2}").unrank(index)


@pytest.mark.parametrize("count", [-1, 101, pytest.param(10**5000, id="huge")])
def test_more_fills_than_there_are(count):
    with pytest.raises(FormatError, match="there are 100"):
        Format("{digit:2}").sample(count, rng=np.random.default_rng(0))
