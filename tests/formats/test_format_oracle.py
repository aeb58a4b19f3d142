"""Formats against brute force: the set of all fills, spelled out."""

from __future__ import annotations

import itertools
import string

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


@settings(max_examples=100, deadline=None)
@given(_format())
def test_the_whole_space_is_enumerated_in_order(case):
    text, prefix, suffix, fills = case
    space = Format(text)
    assert space.size == len(fills)
    assert list(space) == sorted(fills)
    assert [space.index(fill) for fill in space] == list(range(space.size))
    assert [space.unrank(index) for index in range(space.size)] == sorted(fills)
    assert (space.prefix, space.suffix) == (prefix, suffix)
    assert space.candidate(min(fills)) == prefix + min(fills) + suffix
    assert space.alphabet == set("".join(fills) + prefix + suffix)


@settings(max_examples=150, deadline=None)
@given(_format())
def test_prefix_freeness_is_exact(case):
    text, _, suffix, fills = case
    # Neighbours suffice: a prefix stands right before the first of its extensions.
    texts = sorted(fill + suffix for fill in fills)
    expected = not any(b.startswith(a) for a, b in itertools.pairwise(texts))
    assert Format(text).prefix_free is expected


@settings(max_examples=100, deadline=None)
@given(_format(), st.lists(st.text("ab1{}09z", max_size=6), max_size=20))
def test_membership_is_exact(case, texts):
    text, _, _, fills = case
    space = Format(text)
    for other in texts:
        assert (other in space) is (other in fills)


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


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_index_and_unrank_are_inverse_in_huge_spaces(data):
    space = data.draw(st.sampled_from(_HUGE))
    assert space.size > 2**64
    index = data.draw(st.integers(0, space.size - 1))
    fill = space.unrank(index)
    assert fill in space
    assert space.index(fill) == index
