"""Numbers as a reader meets them."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from canary.reports.numbers import clean, copies, count, odds, plural, probability, times


@pytest.mark.parametrize(
    ("bits", "bound", "text"),
    [
        (0.0, False, "about 1 times"),
        (1.0, False, "about 2 times"),
        (1.44, False, "about 2.7 times"),
        (4.0, False, "about 16 times"),
        (5.0, False, "about 30 times"),
        (18.6, False, "about 400,000 times"),
        (math.log2(1e6), False, "about 1 million times"),
        # A bound is never rounded up: 2^12.7049 = 6,677.
        (12.7049, False, "about 7,000 times"),
        (12.7049, True, "at least 6,000 times"),
        # ... nor loses a whole step to the last bit of log2: 2^log2(1e6) = 999,999.9999.
        (math.log2(1e6), True, "at least 1 million times"),
        (math.log2(1e9), False, "about 1 billion times"),
        (math.log2(2.6e12), False, "about 3 trillion times"),
        (60.0, False, "about 10¹⁸ times"),
        (59.7, True, "at least 10¹⁷ times"),
        (4000.0, False, "about 10¹²⁰⁴ times"),
    ],
)
def test_times_golden(bits, bound, text):
    assert times(bits, bound=bound) == text


@given(st.floats(0, 45))
def test_bounds_are_rounded_down_property(bits):
    words = {"million": 1e6, "billion": 1e9, "trillion": 1e12}
    number, _, rest = times(bits, bound=True).removeprefix("at least ").partition(" ")
    claimed = float(number.replace(",", "")) * words.get(rest.split()[0], 1)
    assert claimed <= 2**bits * (1 + 1e-5)
    assert claimed >= 2**bits / 2.01


@pytest.mark.parametrize(
    ("p", "text"),
    [
        (1.0, "1"),
        (0.996, "1"),
        (0.4321, "0.43"),
        (0.001, "0.001"),
        (0.00012, "1.2 × 10⁻⁴"),
        (3.16e-42, "3.2 × 10⁻⁴²"),
        (2.2250738585072014e-308, "< 10⁻³⁰⁷"),
    ],
)
def test_probability_golden(p, text):
    assert probability(p) == text


@pytest.mark.parametrize(
    ("p", "text"),
    [
        (0.01, "fewer than one in a hundred"),
        (0.002, "fewer than one in a hundred"),
        (0.001, "fewer than one in a thousand"),
        (5e-7, "fewer than one in a million"),
        (1e-300, "fewer than one in a billion"),
    ],
)
def test_odds_golden(p, text):
    assert odds(p) == text


def test_counts_golden():
    assert [copies(n) for n in (1, 2, 3, 1000)] == ["once", "twice", "3 times", "1,000 times"]
    assert plural(1, "canary", "canaries") == "1 canary"
    assert plural(1200, "token") == "1,200 tokens"
    assert count(10**9) == "1,000,000,000"
    assert count(10**18) == "about 10¹⁸"
    assert count(10**400) == "about 10⁴⁰⁰"


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("\x1b[31mred\x1b[0m", "[31mred[0m"),
        ("a\x00b\x07c\x7fd\x9be", "abcde"),
        ("one\ttwo\r\nthree\u2028four", "one two  three four"),
        ("invoice\u202efdp.exe", "invoicefdp.exe"),
        ("lone \ud800 surrogate", "lone  surrogate"),
        ("•• é 漢字 👩\u200d💻", "•• é 漢字 👩\u200d💻"),
    ],
)
def test_clean_golden(text, left):
    assert clean(text) == left


@given(st.text(st.characters()))
def test_clean_property(text):
    cleaned = clean(text)
    assert clean(cleaned) == cleaned
    assert not re.search(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069]", cleaned)
    cleaned.encode()
