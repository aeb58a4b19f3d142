"""Patterns against the standard library's regular expressions."""

from __future__ import annotations

import itertools
import re

from hypothesis import given, settings
from hypothesis import strategies as st

from canary.errors import FormatError
from canary.formats.patterns import from_pattern

_ATOMS = ["a", "b", "[ab]", "[a-c]", "[^\\W\\da-zA-Z]", "-", r"\.", r"\d?", "[0_]", r"\x61", "(?:)"]


def _grow(inner):
    return st.one_of(
        st.lists(inner, min_size=1, max_size=3).map("".join),
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: f"(?:{'|'.join(parts)})"),
        inner.map(lambda part: f"({part})?"),
        st.tuples(inner, st.integers(0, 2), st.integers(0, 2)).map(
            lambda t: f"(?:{t[0]}){{{t[1]},{t[1] + t[2]}}}"
        ),
        inner.map(lambda part: f"(?:{part}){{2}}?"),
    )


_PATTERNS = st.recursive(st.sampled_from(_ATOMS), _grow, max_leaves=6)


@settings(max_examples=100)
@given(_PATTERNS)
def test_a_pattern_matches_what_re_matches(pattern):
    automaton = from_pattern(pattern)
    compiled = re.compile(pattern, re.ASCII)
    for text in itertools.islice(automaton, 500):
        assert compiled.fullmatch(text)
    for length in range(5):
        for chars in itertools.product("abc-", repeat=length):
            text = "".join(chars)
            assert (automaton.index(text) is not None) == bool(compiled.fullmatch(text))


@settings(max_examples=150)
@given(st.text(r"ab01()[]{}|?*+.^$\-,dwsx", max_size=14))
def test_what_is_read_is_read_as_re_reads_it(pattern):
    try:
        automaton = from_pattern(pattern)
    except FormatError:
        return
    compiled = re.compile(pattern, re.ASCII)
    assert all(compiled.fullmatch(text) for text in itertools.islice(automaton, 200))
