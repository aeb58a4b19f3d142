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

_TEXTS = st.lists(st.text("ab\0é", min_size=1, max_size=4), min_size=1, max_size=8, unique=True)


def same(one, other):
    """Whether two minimal automata are one but for the numbers of their states."""
    pairs, pending = {0: 0}, [0]
    while pending:
        a = pending.pop()
        b = pairs[a]
        if one.final[a] != other.final[b] or one.counts[a] != other.counts[b]:
            return False
        edges = [
            dict(
                zip(
                    x.chars[x.offsets[s] : x.offsets[s + 1]],
                    x.targets[x.offsets[s] : x.offsets[s + 1]].tolist(),
                    strict=True,
                )
            )
            for x, s in ((one, a), (other, b))
        ]
        if edges[0].keys() != edges[1].keys():
            return False
        for char, target in edges[0].items():
            if pairs.setdefault(target, edges[1][char]) != edges[1][char]:
                return False
            if target not in pairs or target > a:
                pending.append(target)
    return len(one.counts) == len(other.counts) == len(pairs)


def minimal_of(texts):
    """The minimal automaton by way of subsets, for comparison."""
    nfa = Nfa()
    return determinize(nfa, nfa.join([nfa.literal(0, text) for text in texts]))


def in_order(automaton):
    """Whether edges lead onwards and only the last state has none."""
    sources = np.repeat(np.arange(len(automaton.counts)), np.diff(automaton.offsets))
    return bool((automaton.targets > sources).all()) and (
        (np.diff(automaton.offsets) == 0).nonzero()[0].tolist() == [len(automaton.counts) - 1]
    )


@settings(max_examples=100)
@given(_TEXTS)
def test_lists_of_texts(texts):
    automaton = from_texts(texts)
    assert list(automaton) == sorted(texts)
    assert automaton.longest == max(map(len, texts))
    assert same(automaton, minimal_of(texts))
    assert in_order(automaton)


@settings(max_examples=100)
@given(st.lists(_TEXTS, min_size=1, max_size=3))
def test_concatenation_is_minimal(lists):
    automaton = concatenate([from_texts(texts) for texts in lists])
    texts = {"".join(parts) for parts in itertools.product(*lists)}
    assert list(automaton) == sorted(texts)
    assert same(automaton, minimal_of(texts))
    assert in_order(automaton)


@settings(max_examples=100)
@given(st.lists(_TEXTS, min_size=1, max_size=3), st.text("ab\0é", max_size=4))
def test_unions_and_prefixes(lists, suffix):
    automaton = any_of([from_texts(texts) for texts in lists])
    texts = sorted(set(itertools.chain.from_iterable(lists)))
    assert list(automaton) == texts
    whole = sorted(text + suffix for text in texts)
    expected = not any(b.startswith(a) for a, b in itertools.pairwise(whole))
    assert automaton.prefix_free_before(suffix) is expected


def test_empty_parts():
    assert list(concatenate([])) == [""]
    assert list(concatenate([literal(""), literal("ab"), literal("")])) == ["ab"]
    assert list(repeated("ab", 0)) == [""]
    optional = any_of([literal(""), literal("a")])
    assert list(concatenate([optional, optional, literal("b")])) == ["aab", "ab", "b"]


@settings(max_examples=100)
@given(_TEXTS, st.integers(2, 5))
def test_checksums_select(texts, modulus):
    def weight(text):
        return sum(map(ord, text)) % modulus

    kept = [text for text in texts if weight(text) == 0]
    automaton = from_texts(texts)

    def select():
        return checked(automaton, 0, lambda s, c: (s + ord(c)) % modulus, lambda s: s == 0)

    if kept:
        assert same(select(), minimal_of(kept))
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
def fresh():
    """The tables of networks and countries can be changed."""
    caches = checksums.credit_card, checksums.iban
    for cached in caches:
        cached.cache_clear()
    yield
    for cached in caches:
        cached.cache_clear()


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize("length", [4, 5])
def test_small_cards_by_brute_force(monkeypatch, length):
    monkeypatch.setattr(
        checksums, "NETWORKS", {"toy": (length, (range(4, 5), range(51, 53), range(530, 532)))}
    )
    space = Format("{credit_card}")
    expected = [
        f"{number:0{length}}"
        for number in range(10**length)
        if f"{number:0{length}}".startswith(("4", "51", "52", "530", "531"))
        and luhn(f"{number:0{length}}")
    ]
    assert list(space) == expected
    # One in ten of 1,000 + 2 * 100 + 2 * 10, times ten for another digit.
    assert space.size == 122 * 10 ** (length - 4)


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize("structure", ["n2", "a1 n1"])
def test_small_ibans_by_brute_force(monkeypatch, structure):
    monkeypatch.setattr(checksums, "COUNTRIES", {"XY": structure})
    alphabets = [
        string.digits if field[0] == "n" else string.ascii_uppercase for field in structure.split()
    ]
    if structure == "n2":
        alphabets *= 2
    accounts = ["".join(chars) for chars in itertools.product(*alphabets)]
    expected = [
        f"XY{check:02}{account}"
        for account in accounts
        for check in range(2, 99)
        if int("".join(str(int(c, 36)) for c in f"{account}XY{check:02}")) % 97 == 1
    ]
    assert list(Format("{iban:XY}")) == sorted(expected)
    assert len(expected) == len(accounts)


@settings(max_examples=60)
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
        (["a", "b", "a"], "'a' stands twice"),
        (["\ud800"], "half a surrogate pair"),
    ],
)
def test_lists_that_are_none(texts, problem):
    with pytest.raises(FormatError, match=problem):
        from_texts(texts)


@settings(max_examples=100)
@given(_TEXTS, st.text("ab\0é", max_size=8))
def test_ends_of_texts_within_a_text(texts, text):
    automaton = from_texts(texts)
    for start in range(len(text) + 1):
        expected = sorted(start + len(t) for t in texts if text.startswith(t, start))
        assert list(automaton.ends(text, start)) == expected


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
