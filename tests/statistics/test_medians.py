"""Intervals of a median over canaries that have intervals themselves."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from unlearned import ends_by_hits

from canary.statistics.medians import _counts, agreeing, canaries_to_decide, median_interval


def test_order_statistics_golden():
    # Of 8 fair coins 7 or more are heads in 9/256 = 3.5 % of cases, 6 or more in 37/256.
    bits = np.arange(8.0)
    found = median_interval(bits, bits)
    assert (found.lower_bits, found.upper_bits, found.needed) == (1.0, 6.0, 7)
    # At 99 % only all 8 will do (1/256), so the ends are the smallest and the largest.
    found = median_interval(bits, bits, confidence=0.99)
    assert (found.lower_bits, found.upper_bits, found.needed) == (0.0, 7.0, 8)


def test_too_few_golden():
    # 1/8 is more than 10 %, 1/16 is less.
    assert median_interval([9, 9, 9], [9, 9, 9]).lower_bits is None
    assert median_interval([9, 9, 9], [9, 9, 9]).needed == 4
    assert median_interval([9, 9, 9, 9], [9, 9, 9, 9]).lower_bits == 9
    # At 95 % five are needed, and with intervals that miss at 2.5 % six: 0.025 + 0.975/32 is
    # 5.5 %. Nothing helps where the intervals miss more often than is allowed.
    assert agreeing((4,), (0.0,), confidence=0.95) == 5
    assert agreeing((4,), (0.025,), confidence=0.95) == 6
    assert agreeing((4,), (0.025,), confidence=0.98) is None


def test_how_many_would_decide_golden():
    # All agree: four at 90 %. Three of four: 8 of 10 is 5.5 %, 7 of 10 17 %.
    assert canaries_to_decide(1.0, at_least=1, miss=0.0, confidence=0.9) == 4
    found = canaries_to_decide(0.75, at_least=4, miss=0.0, confidence=0.9)
    assert stats.binom.sf(int(0.75 * found) - 1, found, 0.5) <= 0.1
    assert stats.binom.sf(int(0.75 * (found - 1)) - 1, found - 1, 0.5) > 0.1
    for share, miss in ((0.5, 0.0), (0.501, 0.0), (1.0, 0.1)):
        assert canaries_to_decide(share, at_least=4, miss=miss, confidence=0.9) is None


@given(
    st.lists(st.integers(0, 6), min_size=1, max_size=3).filter(sum),
    st.integers(0, 12),
    st.sampled_from([0.0, 0.025, 0.2]),
)
def test_chances_on_one_side_oracle(sizes, count, miss):
    """By going through all cases of which format misses."""
    total = 0.0
    for case in range(2 ** len(sizes)):
        missed = [bool(case >> i & 1) for i in range(len(sizes))]
        chance = np.prod([miss if m else 1 - miss for m in missed])
        sure = sum(s for s, m in zip(sizes, missed, strict=True) if m)
        left = sum(sizes) - sure
        total += chance * stats.binom.sf(count - sure - 1, left, 0.5)
    found = _counts(tuple(sizes), (miss,) * len(sizes))[count:].sum()
    assert found == pytest.approx(total, abs=1e-12)


@given(st.lists(st.tuples(st.floats(0, 20), st.floats(0, 9)), min_size=4, max_size=30))
def test_intervals_widen_with_those_of_the_canaries_property(pairs):
    low, wide = np.array(pairs).T
    inner = median_interval(low + wide / 3, low + wide / 2)
    outer = median_interval(low, low + wide)
    assert outer.lower_bits <= inner.lower_bits
    assert outer.upper_bits >= inner.upper_bits


def wrong(low, high, median):
    """How often the lower and the upper end are wrong."""
    return max(np.mean(low > median), np.mean(high < median))


@pytest.mark.parametrize("canaries", [4, 8, 16, 33])
@pytest.mark.parametrize("confidence", [0.9, 0.95])
def test_exact_coverage(canaries, confidence):
    """Exposures of any spread: the median of 2**z, z normal, is 1."""
    rng = np.random.default_rng(canaries)
    needed = agreeing((canaries,), (0.0,), confidence=confidence)
    bits = np.sort(2 ** rng.normal(size=(20_000, canaries)), axis=1)
    if needed > canaries:
        return
    assert wrong(bits[:, -needed], bits[:, needed - 1], 1.0) <= 1 - confidence + 0.005
    # No wider than whole numbers make it: one fewer would be wrong too often.
    if needed - 1 > canaries / 2:
        assert wrong(bits[:, -needed + 1], bits[:, needed - 2], 1.0) > 1 - confidence


@pytest.mark.parametrize(
    ("draws", "median", "formats"),
    [*((n, bits, 1) for n in (200, 2_000) for bits in (1.0, 4.0, 8.0)), (300, 1.0, 2)],
)
def test_shared_draws_coverage(draws, median, formats):
    """Canaries share the luck of the draws of their format, and many of them miss together.

    At most 10 % of 800 runs are wrong at an end; the intervals are so wide that 8 % are rare.
    """
    rng = np.random.default_rng([draws, int(median), formats])
    shift = -stats.norm.ppf(2.0**-median)
    low_of, high_of = ends_by_hits(draws, 10**12)
    found = []
    for _ in range(800):
        hits = [
            np.searchsorted(np.sort(rng.normal(0, 1, draws)), rng.normal(-shift, 1, 12 // formats))
            for _ in range(formats)
        ]
        every = np.concatenate(hits)
        belongs = np.repeat(np.arange(formats), 12 // formats).tolist()
        ends = median_interval(
            low_of[every], high_of[every], formats=belongs, misses=[0.025] * formats
        )
        found.append((ends.lower_bits, ends.upper_bits))
    assert wrong(*np.array(found).T, median) <= 0.1
