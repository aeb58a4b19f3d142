"""Numbers and untrusted text as a reader meets them."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from canary.statistics.numbers import clean, copies, count, odds, one_in, plural, probability

GOLDEN = [
    (one_in, 0.0, "1 in 1"),
    (one_in, 1.0, "1 in 2"),
    (one_in, 1.44, "1 in 2.7"),
    (one_in, 4.0, "1 in 16"),
    (one_in, 5.0, "1 in 32"),
    # Ranks 2 and 3 of a million have 18.93 and 18.35 bits, 18.64 in the mean: 408,248.
    (one_in, math.log2(1e6 / math.sqrt(6)), "1 in 400,000"),
    (one_in, 12.7049, "1 in 6,600"),  # never rounded up: 2^12.7049 = 6,677
    # ... nor loses a step to the last bit of log2: 2^log2(1e6) = 999,999.9999.
    (one_in, math.log2(1e6), "1 in 1 million"),
    (one_in, math.log2(1e9), "1 in 1 billion"),
    (one_in, math.log2(2.67e12), "1 in 2.6 trillion"),
    (one_in, math.log2(123456789), "1 in 120 million"),
    (one_in, 60.0, "1 in 10¹⁸"),
    (one_in, 59.7, "1 in 10¹⁷"),
    (one_in, 4000.0, "1 in 10¹²⁰⁴"),
    (probability, 1.0, "1"),
    (probability, 0.996, "1"),
    (probability, 0.4321, "0.43"),
    (probability, 0.001, "0.001"),
    (probability, 0.00012, "1.2 × 10⁻⁴"),
    (probability, 3.16e-42, "3.2 × 10⁻⁴²"),
    (probability, 2.2250738585072014e-308, "< 10⁻³⁰⁷"),
    (odds, 0.01, "fewer than one in a hundred"),
    (odds, 0.002, "fewer than one in a hundred"),
    (odds, 0.001, "fewer than one in a thousand"),
    (odds, 5e-7, "fewer than one in a million"),
    (odds, 1e-300, "fewer than one in a billion"),
    (copies, 1, "once"),
    (copies, 2, "twice"),
    (copies, 3, "3 times"),
    (copies, 1000, "1,000 times"),
    (count, 10**9, "1,000,000,000"),
    (count, 10**18, "about 10¹⁸"),
    (count, 10**400, "about 10⁴⁰⁰"),
    (clean, "\x1b[31mred\x1b[0m", "[31mred[0m"),
    (clean, "a\x00b\x07c\x7fd\x9be", "abcde"),
    (clean, "one\ttwo\r\nthree\u2028four", "one two  three four"),
    (clean, "invoice\u202efdp.exe", "invoicefdp.exe"),
    (clean, "lone \ud800 surrogate", r"lone \ud800 surrogate"),
    (clean, "•• é 漢字 👩\u200d💻", "•• é 漢字 👩\u200d💻"),
]


@pytest.mark.parametrize(("function", "value", "text"), GOLDEN)
def test_golden(function, value, text):
    assert function(value) == text


def test_counts_of_things_golden():
    assert plural(1, "canary", "canaries") == "1 canary"
    assert plural(1200, "token") == "1,200 tokens"
    assert one_in(4.0, about=True) == "1 in about 16"


@given(st.floats(0, 49))
def test_a_share_is_never_made_smaller_property(bits):
    words = {"million": 1e6, "billion": 1e9, "trillion": 1e12}
    number, _, word = one_in(bits).removeprefix("1 in ").partition(" ")
    claimed = float(number.replace(",", "")) * words.get(word, 1)
    assert claimed <= 2**bits * (1 + 1e-5)
    assert claimed >= 2**bits / 1.1001


@given(st.text(st.characters()))
def test_clean_property(text):
    cleaned = clean(text)
    assert clean(cleaned) == cleaned
    assert not re.search(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069]", cleaned)
    cleaned.encode()
