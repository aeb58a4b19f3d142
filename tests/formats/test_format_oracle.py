"""Formats against brute force: the set of all fills, spelled out."""

from __future__ import annotations

import itertools
import pickle
import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from canary.formats.format import Format

_WORDS = st.text("ab1{}", min_size=1, max_size=3)


@st.composite
def _hole(draw):
    """A hole, and the list of its texts."""
    kind = draw(st.sampled_from(["digit", "letter", "choice"]))
    if kind == "digit":
        return "{digit:1}", list(string.digits)
    if kind == "letter":
        return "{letter:1}", list(string.ascii_lowercase)
    words = st.text("ab1", min_size=1, max_size=3)
    alternatives = draw(st.lists(words, min_size=1, max_size=4, unique=True))
    return "{choice:" + "|".join(alternatives) + "}", alternatives


@st.composite
def _format(draw):
    """A format of up to three holes: its text, prefix, suffix and the set of its fills."""
    prefix, suffix = (
        draw(st.sampled_from(["", "a", "}{"])),
        draw(st.sampled_from(["", "b", "1a", "{"])),
    )
    pieces = [draw(_hole())]
    for _ in range(draw(st.integers(0, 2))):
        between = draw(st.one_of(st.just(""), _WORDS))
        pieces += [(_escape(between), [between]), draw(_hole())]
    text = _escape(prefix) + "".join(text for text, _ in pieces) + _escape(suffix)
    fills = {"".join(parts) for parts in itertools.product(*(texts for _, texts in pieces))}
    return text, prefix, suffix, fills


def _escape(text):
    return text.replace("{", "{{").replace("}", "}}")


@settings(max_examples=50)
@given(_format(), st.lists(st.text("ab1{}09z", max_size=6), max_size=20))
def test_the_whole_space_is_enumerated_in_order(case, others):
    text, prefix, suffix, fills = case
    space = Format(text)
    assert space.size == len(fills)
    assert list(space) == sorted(fills)
    assert [space.index(fill) for fill in space] == list(range(space.size))
    assert [space.unrank(index) for index in range(space.size)] == sorted(fills)
    assert (space.prefix, space.suffix) == (prefix, suffix)
    assert space.candidate(min(fills)) == prefix + min(fills) + suffix
    assert space.alphabet == set("".join(fills) + prefix + suffix)
    assert [other in space for other in others] == [other in fills for other in others]
    # Neighbours suffice: a prefix stands right before the first of its extensions.
    texts = sorted(fill + suffix for fill in fills)
    free = not any(b.startswith(a) for a, b in itertools.pairwise(texts))
    assert space.prefix_free is free


_HUGE = [
    Format(text)
    for text in (
        "{digit:60}",
        "{letter:40}",
        "x{letter:9}-{choice:a|ab|b}{letter:12}{digit:20}!",
        "{word:8}.",
        "{iban:GB}",
        "{uuid}",
        "{base64:40}",
        "{re:[a-z]{5,40}@[a-z]{3,30}}",
        "{credit_card} {credit_card}",
    )
]


@settings(max_examples=50)
@given(st.data())
def test_index_and_unrank_are_inverse_in_huge_spaces(data):
    space = data.draw(st.sampled_from(_HUGE))
    assert space.size > 2**64
    index = data.draw(st.integers(0, space.size - 1))
    fill = space.unrank(index)
    assert fill in space
    assert space.index(fill) == index


def test_parts_of_a_format():
    ssn = Format("My SSN is {digit:3}-{digit:2}-{digit:4}.")
    assert (ssn.prefix, ssn.suffix) == ("My SSN is ", ".")
    assert ssn.candidate("078-05-1120") == "My SSN is 078-05-1120."
    assert (ssn.unrank(78_05_1120), ssn.index("078-05-1120")) == ("078-05-1120", 78_05_1120)
    known = ssn.given("078-")
    assert (known.size, known.candidate("05-1120")) == (10**6, "My SSN is 078-05-1120.")
    assert known.masked == ssn.masked
    code = Format('{{"code": {digit:2}}}')
    assert (code.prefix, code.suffix, code.candidate("07")) == ('{"code": ', "}", '{"code": 07}')
    inner = Format("{digit:1}}}{{{digit:1}")
    assert (inner.prefix, inner.unrank(42), inner.suffix) == ("", "4}{2", "")


def test_an_automaton_is_minimal():
    # Nine digits are a chain of ten states with ten edges each but the last.
    assert Format("{digit:9}").automaton.counts == tuple(10**k for k in range(9, -1, -1))
    # red|green|blue share their last letters where they can: r-e-d, g-r-e-e-n, b-l-u-e
    # have 1 start, inner states (re) ... and one common end: 1 + 2 + 4 + 3 + 1.
    assert len(Format("{choice:red|green|blue}").automaton.final) == 11


def test_formats_are_values():
    assert Format("{digit:2}") == Format("{digit:2}") != Format("{digit:3}")
    assert len({Format("{digit:2}"), Format("{digit:2}")}) == 1
    assert pickle.loads(pickle.dumps(Format("{digit:2}"))).unrank(7) == "07"
    with pytest.raises(AttributeError):
        Format("{digit:2}").text = "other"
