"""Sizes, order and parts of formats, derived by hand."""

from __future__ import annotations

import math
import pickle

import pytest

from canary.formats.format import Format


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("The random number is {digit:9}", 10**9),
        ("{letter:3}", 26**3),
        ("{choice:red|green|blue}", 3),
        ("{digit:1}{letter:2} {choice:a|bc}", 10 * 26**2 * 2),
        ("{digit:30}", 10**30),
        # a|ab then b|bb spells ab, abb (in two ways) and abbb: three different fills.
        ("{choice:a|ab}{choice:b|bb}", 3),
        # Any of 1 to 3 a's, four times: 4 to 12 a's.
        ("{choice:a|aa|aaa}" * 4, 9),
        ("{choice:one}", 1),
    ],
)
def test_sizes_are_exact(text, size):
    assert Format(text).size == size
    assert Format(text).bits == pytest.approx(math.log2(size), rel=1e-15)


def test_bits_of_a_space_beyond_floats():
    # 10^400 is no float, its logarithm is.
    assert Format("{digit:400}").bits == pytest.approx(400 * math.log2(10), rel=1e-12)


def test_parts_of_a_format():
    ssn = Format("My SSN is {digit:3}-{digit:2}-{digit:4}.")
    assert (ssn.prefix, ssn.suffix) == ("My SSN is ", ".")
    assert ssn.candidate("078-05-1120") == "My SSN is 078-05-1120."
    assert ssn.masked == "My SSN is •••-••-••••."
    assert ssn.alphabet == frozenset("My SSN is -.0123456789")
    assert ssn.unrank(78_05_1120) == "078-05-1120"
    assert ssn.index("078-05-1120") == 78_05_1120


def test_braces_are_literal_when_doubled():
    code = Format('{{"code": {digit:2}}}')
    assert (code.prefix, code.suffix) == ('{"code": ', "}")
    assert code.candidate("07") == '{"code": 07}'
    assert Format("{{{digit:1}}}").candidate("5") == "{5}"
    inner = Format("{digit:1}}}{{{digit:1}")
    assert inner.unrank(42) == "4}{2"
    assert (inner.prefix, inner.suffix) == ("", "")


def test_order_is_the_order_of_strings():
    # A text stands before its extensions: "a" < "ab" < "b".
    assert list(Format("{choice:b|ab|a}")) == ["a", "ab", "b"]


def test_mask_depends_on_the_format_alone():
    assert Format("{choice:no|maybe}!").masked == "•••••!"
    assert Format("x{digit:40}").masked == "x" + "•" * 16


def test_automaton_is_minimal_and_in_order():
    # Nine digits are a chain of ten states with ten edges each but the last.
    chain = Format("{digit:9}").automaton
    assert len(chain.final) == 10
    assert chain.counts == tuple(10**k for k in range(9, -1, -1))
    # red|green|blue share their last letters where they can: r-e-d, g-r-e-e-n, b-l-u-e
    # have 1 start, inner states (re) ... and one common end: 1 + 2 + 4 + 3 + 1.
    colours = Format("{choice:red|green|blue}").automaton
    assert len(colours.final) == 11
    assert colours.final.tolist() == [False] * 10 + [True]
    for state in range(len(colours.final)):
        a, b = colours.offsets[state : state + 2]
        assert (colours.targets[a:b] > state).all()
        assert list(colours.chars[a:b]) == sorted(colours.chars[a:b])


def test_formats_are_values():
    assert Format("{digit:2}") == Format("{digit:2}") != Format("{digit:3}")
    assert len({Format("{digit:2}"), Format("{digit:2}")}) == 1
    assert pickle.loads(pickle.dumps(Format("{digit:2}"))).unrank(7) == "07"
    with pytest.raises(AttributeError):
        Format("{digit:2}").text = "other"
