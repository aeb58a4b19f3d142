"""Automata that no built-in kind makes, but a kind may."""

from __future__ import annotations

import pytest

from canary.errors import FormatError
from canary.formats.building import Nfa, determinize


def test_dead_ends_are_trimmed():
    nfa = Nfa()
    end = nfa.literal(0, "ab")
    nfa.literal(nfa.step(0, "a"), "x")  # leads nowhere
    automaton = determinize(nfa, end)
    assert list(automaton) == ["ab"]
    assert automaton.chars == ("a", "b")


def test_the_empty_text_alone():
    automaton = determinize(Nfa(), 0)
    assert (list(automaton), automaton.size) == ([""], 1)
    assert automaton.index("") == 0
    assert automaton.unrank(0) == ""
    assert automaton.prefix_free


def test_optional_parts_join_without_reading():
    nfa = Nfa()
    end = nfa.join([0, nfa.literal(0, "a"), nfa.literal(0, "aa")])
    end = nfa.step(end, "a")
    assert list(determinize(nfa, end)) == ["a", "aa", "aaa"]


def test_no_text_at_all():
    nfa = Nfa()
    nfa.step(0, "a")
    nowhere = nfa.step(nfa.step(0, ""), "b")  # no character leads there
    with pytest.raises(FormatError, match="no fill at all"):
        determinize(nfa, nowhere)
