"""Building blocks against sets of texts, and checksums against their definition."""

from __future__ import annotations

import itertools
import random
import string

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from canary.errors import FormatError
from canary.formats import building
from canary.formats import kinds as checksums
from canary.formats.building import (
    Nfa,
    any_of,
    checked,
    concatenate,
    determinize,
    from_texts,
    literal,
    repeated,
)
from canary.formats.format import Format

_TEXTS = st.lists(st.text("ab\0é", min_size=1, max_size=4), min_size=1, max_size=5, unique=True)


def is_minimal(automaton, texts):
    """Whether it has the texts in their order, and no state too many (Myhill and Nerode)."""
    beginnings = {text[:length] for text in texts for length in range(len(text) + 1)}
    rests = {frozenset(t[len(b) :] for t in texts if t.startswith(b)) for b in beginnings}
    sources = np.repeat(np.arange(len(rests)), np.diff(automaton.offsets))
    last = len(automaton.counts) - 1
    return (
        [automaton.unrank(at) for at in range(automaton.size)] == sorted(texts) == list(automaton)
        and len(automaton.counts) == len(rests)
        # Edges lead onwards, and only the last state has none.
        and (automaton.targets > sources).all()
        and (np.diff(automaton.offsets) == 0).nonzero()[0].tolist() == [last]
    )


@settings(max_examples=50)
@given(st.lists(_TEXTS, min_size=1, max_size=3), st.text("ab\0é", max_size=8))
def test_lists_and_their_concatenation_are_minimal(lists, text):
    parts = [from_texts(texts) for texts in lists]
    whole = {"".join(chosen) for chosen in itertools.product(*lists)}
    for automaton, texts in ((parts[0], set(lists[0])), (concatenate(parts), whole)):
        assert is_minimal(automaton, texts)
        assert automaton.longest == max(map(len, texts))
        for start in range(len(text) + 1):
            expected = sorted(start + len(t) for t in texts if text.startswith(t, start))
            assert list(automaton.ends(text, start)) == expected


@settings(max_examples=50)
@given(st.lists(_TEXTS, min_size=1, max_size=3), st.text("ab\0é", max_size=4))
def test_unions_and_prefixes(lists, suffix):
    automaton = any_of([from_texts(texts) for texts in lists])
    texts = {*itertools.chain.from_iterable(lists)}
    assert is_minimal(automaton, texts)
    whole = sorted(text + suffix for text in texts)
    expected = not any(b.startswith(a) for a, b in itertools.pairwise(whole))
    assert automaton.prefix_free_before(suffix) is expected


def test_empty_parts():
    alone = determinize(Nfa(), 0)
    assert (list(alone), alone.index(""), alone.unrank(0), alone.prefix_free) == ([""], 0, "", True)
    assert list(concatenate([])) == [""]
    assert list(concatenate([literal(""), literal("ab"), literal("")])) == ["ab"]
    assert list(repeated("ab", 0)) == [""]
    ends = [from_texts(["a", "ab"]), any_of([literal(""), literal("c")])]
    assert list(concatenate(ends)) == ["a", "ab", "abc", "ac"]
    optional = any_of([literal(""), literal("a")])
    assert list(concatenate([optional, optional, literal("b")])) == ["aab", "ab", "b"]


@settings(max_examples=50)
@given(_TEXTS, st.integers(2, 5))
def test_checksums_select(texts, modulus):
    def weight(text):
        return sum(map(ord, text)) % modulus

    kept = [text for text in texts if weight(text) == 0]
    automaton = from_texts(texts)

    def select():
        return checked(automaton, 0, lambda s, c: (s + ord(c)) % modulus, lambda s: s == 0)

    if kept:
        assert is_minimal(select(), kept)
    else:
        with pytest.raises(FormatError, match="no fill at all"):
            select()


def test_checksums_may_give_up_early():
    digits = repeated(string.digits, 3)
    rising = checked(digits, "", lambda last, c: c if c > last else None, lambda last: True)
    assert list(rising) == ["".join(c) for c in itertools.combinations(string.digits, 3)]


def luhn(number):
    """The check as it is written down: from the right, every second digit doubled."""
    total = 0
    for place, digit in enumerate(map(int, reversed(number))):
        doubled = 2 * digit if place % 2 else digit
        total += doubled - 9 if doubled > 9 else doubled
    return total % 10 == 0


@pytest.fixture
def small(monkeypatch):
    """Tables of networks and countries so small that all their numbers can be listed."""
    networks = {str(n): (n, (range(4, 5), range(51, 53), range(530, 532))) for n in (4, 5)}
    monkeypatch.setattr(checksums, "NETWORKS", networks)
    monkeypatch.setattr(checksums, "COUNTRIES", {"XY": "n2", "XZ": "a1 n1"})
    caches = checksums.credit_card, checksums.iban
    for cached in caches:
        cached.cache_clear()
    yield
    for cached in caches:
        cached.cache_clear()


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("length", [4, 5])
def test_small_cards_by_brute_force(length):
    numbers = (f"{number:0{length}}" for number in range(10**length))
    starts = ("4", "51", "52", "530", "531")
    space = Format(f"{{credit_card:{length}}}")
    assert list(space) == [
        number for number in numbers if number.startswith(starts) and luhn(number)
    ]
    # One in ten of 1,000 + 2 * 100 + 2 * 10, times ten for another digit.
    assert space.size == 122 * 10 ** (length - 4)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    ("country", "first"), [("XY", string.digits), ("XZ", string.ascii_uppercase)]
)
def test_small_ibans_by_brute_force(country, first):
    accounts = ["".join(chars) for chars in itertools.product(first, string.digits)]
    expected = [
        f"{country}{check:02}{account}"
        for account in accounts
        for check in range(2, 99)
        if int("".join(str(int(c, 36)) for c in f"{account}{country}{check:02}")) % 97 == 1
    ]
    assert list(Format(f"{{iban:{country}}}")) == sorted(expected)
    assert len(expected) == len(accounts)


@settings(max_examples=30)
@given(_TEXTS, st.integers(1, 3), st.data())
def test_many_are_unranked_as_one_is(texts, holes, data):
    automaton = concatenate([from_texts(texts)] * holes)
    indices = [*range(automaton.size)] * (1 + 64 // automaton.size)
    data.draw(st.randoms(use_true_random=False)).shuffle(indices)
    assert automaton.unrank_many(indices) == [automaton.unrank(index) for index in indices]


@pytest.mark.parametrize(
    "text", ["{credit_card}", "{word:5}.", "{phone:us}", "{digit:18}", "{re:a{0,70}}", "{re:a?}"]
)
def test_many_of_a_large_space_are_unranked_as_one_is(text):
    automaton = Format(text).automaton
    rng = random.Random(0)
    indices = [rng.randrange(automaton.size) for _ in range(300)] + [0, automaton.size - 1]
    found = automaton.unrank_many(indices)
    assert found == [automaton.unrank(index) for index in indices]
    assert [automaton.index(fill) for fill in found] == indices


def test_limits(monkeypatch):
    monkeypatch.setattr(building, "MAX_ALL_EDGES", 25)
    with pytest.raises(FormatError, match="more than 25 edges"):
        from_texts(["abcdefghijklmnop", "qrstuvwxyzabcdef"])
    part = from_texts(["abcdefgh", "ijklmnop"])
    with pytest.raises(FormatError, match="more than 25 edges"):
        concatenate([part, part])


@pytest.mark.parametrize(
    ("texts", "problem"),
    [
        ("ab", "is one text"),
        ([], "is empty"),
        (["a", ""], "text 2 of the list is empty"),
        (["a", 7], "text 2 of the list is of type int"),
        (["a", "b", "a"], "'a' is listed twice"),
        (["\ud800"], "half a surrogate pair"),
    ],
)
def test_lists_that_are_none(texts, problem):
    with pytest.raises(FormatError, match=problem):
        from_texts(texts)
