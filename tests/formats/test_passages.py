"""Prose with slots: which words become slots, and what the open ones may be in copies."""

from __future__ import annotations

import math
from itertools import product

import pytest
from prose_with_synonyms import PROSE

from canary.errors import FormatError
from canary.formats.format import Format
from canary.formats.passages import LEAST, passage, synonyms


def test_synonyms_are_in_one_group_only():
    words = [word for group in synonyms() for word in group]
    assert len(words) == len(set(words))
    assert all(len(group) > 1 for group in synonyms())


def test_a_passage_reads_as_before_with_a_word_of_its_group_in_each_slot():
    space = passage(PROSE)
    assert space.size >= LEAST
    assert space.prefix_free
    assert PROSE.removeprefix(space.prefix).removesuffix(space.suffix) in space
    assert space.prefix.startswith("People ")  # the first word is what a model can begin with


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("It is a big car.", "It is a {choice:big|large} {choice:car|automobile}."),
        # "an automobile" would not fit "a", and "a frequently" not "an".
        ("It is a car, an often a.", "It is a car, an often a."),
        ("So Often {it} begins.", "So {choice:Often|Frequently} {{it}} {choice:begins|starts|"),
        (
            "See begin_x, x.begin, 'begin' and begin().",
            "See begin_x, x.begin, 'begin' and begin().",
        ),
    ],
)
def test_slots_golden(text, written):
    if "{" not in written:
        with pytest.raises(FormatError, match="has 1 variants in 0 slots"):
            passage(text, least=2)
        return
    assert passage(text, least=2).text.startswith(written)


def test_a_fuzzy_passage_keeps_the_fewest_slots_secret():
    whole, fuzzy = passage(PROSE, least=2**10), passage(PROSE, least=2**10, fuzzy=True)
    assert 2**10 <= fuzzy.size < 2**12
    assert fuzzy.opened.size == whole.size
    assert fuzzy.opened.text == whole.text
    assert whole.opened is None


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"least": 2**60}, "and 1,152,921,504,606,846,976 are needed"),
        ({"groups": [["often", "seldom"], ["seldom", "rarely"]]}, "'seldom' is in two groups"),
        ({"groups": ["often"]}, "no lists of words"),
        ({"fuzzy": True, "groups": [["often", "seldom"]], "least": 2}, "no slot to leave open"),
    ],
)
def test_what_cannot_be_a_passage_is_refused(options, told):
    with pytest.raises(FormatError, match=told):
        passage(PROSE, **options)


@pytest.mark.parametrize("bad", ["a {open:}", "a {open:one}", "a {open:one|one}", "a {open}"])
def test_an_open_slot_needs_different_words(bad):
    with pytest.raises(FormatError, match="alternative|one word|twice"):
        Format(bad + " {digit:1}")


def test_copies_differ_at_open_slots_and_nowhere_else_oracle():
    """All fills of the opened format that keep the secret, counted by trying each."""
    space = Format("I {open:a|ab} {choice:b|bb}{open:c|d|cc}{digit:1}{choice:x|xx} {open:e|f}.")
    opened = set(space.opened)
    for fill in space:
        slots = space.slots(fill)
        fills = {"".join(words) for words in product(*slots)}
        assert math.prod(map(len, slots)) == 2 * 3 * 2
        assert fill in fills
        assert fills <= opened
    assert {"".join(w) for fill in space for w in product(*space.slots(fill))} == opened
