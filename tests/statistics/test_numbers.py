"""Numbers as a reader meets them."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from canary.statistics.numbers import clean, copies, count, odds, one_in, plural, probability


@pytest.mark.parametrize(
    ("bits", "text"),
    [
        (0.0, "1 in 1"),
        (1.0, "1 in 2"),
        (1.44, "1 in 2.7"),
        (4.0, "1 in 16"),
        (5.0, "1 in 32"),
        # Ranks 2 and 3 of a million have 18.93 and 18.35 bits, 18.64 in the mean: 408,248.
        (math.log2(1e6 / math.sqrt(6)), "1 in 400,000"),
        # Never rounded up: 2^12.7049 = 6,677.
        (12.7049, "1 in 6,600"),
        # ... nor loses a step to the last bit of log2: 2^log2(1e6) = 999,999.9999.
        (math.log2(1e6), "1 in 1 million"),
        (math.log2(1e9), "1 in 1 billion"),
        (math.log2(2.67e12), "1 in 2.6 trillion"),
        (math.log2(123456789), "1 in 120 million"),
        (60.0, "1 in 10¹⁸"),
        (59.7, "1 in 10¹⁷"),
        (4000.0, "1 in 10¹²⁰⁴"),
    ],
)
def test_one_in_golden(bits, text):
    assert one_in(bits) == text
    assert one_in(bits, about=True) == text.replace("1 in ", "1 in about ")


@given(st.floats(0, 49))
def test_a_share_is_never_made_smaller_property(bits):
    words = {"million": 1e6, "billion": 1e9, "trillion": 1e12}
    number, _, word = one_in(bits).removeprefix("1 in ").partition(" ")
    claimed = float(number.replace(",", "")) * words.get(word, 1)
    assert claimed <= 2**bits * (1 + 1e-5)
    assert claimed >= 2**bits / 1.1001


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
        ("lone \ud800 surrogate", r"lone \ud800 surrogate"),
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
