"""Intervals of a median over canaries that have intervals themselves."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from canary.errors import EstimationError
from canary.statistics.exposures import exposure_by_draws
from canary.statistics.medians import agreeing, canaries_to_decide, median_interval, wrong_side


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
    # 5.5 %.
    assert agreeing((4,), (0.0,), confidence=0.95) == 5
    assert agreeing((4,), (0.025,), confidence=0.95) == 6
    # Nothing helps where the intervals miss more often than is allowed.
    assert agreeing((4,), (0.025,), confidence=0.98) is None


def test_wrong_side_golden():
    # Two of two: 1/4, but for 2 % in which both are anyway.
    assert wrong_side(2, (2,), (0.02,)) == pytest.approx(0.98 / 4 + 0.02)
    # One of each of two formats: both right, one gone, both gone.
    expected = 0.98**2 / 4 + 2 * 0.98 * 0.02 / 2 + 0.02**2
    assert wrong_side(2, (1, 1), (0.02, 0.02)) == pytest.approx(expected)
    assert wrong_side(0, (3,), (0.0,)) == pytest.approx(1)
    assert wrong_side(4, (3,), (0.0,)) == 0


@given(
    st.lists(st.integers(0, 6), min_size=1, max_size=3).filter(sum),
    st.integers(0, 12),
    st.sampled_from([0.0, 0.025, 0.2]),
)
def test_wrong_side_oracle(sizes, count, miss):
    """By going through all cases of which format misses."""
    total = 0.0
    for case in range(2 ** len(sizes)):
        missed = [bool(case >> i & 1) for i in range(len(sizes))]
        chance = np.prod([miss if m else 1 - miss for m in missed])
        sure = sum(s for s, m in zip(sizes, missed, strict=True) if m)
        left = sum(sizes) - sure
        total += chance * stats.binom.sf(count - sure - 1, left, 0.5)
    assert wrong_side(count, sizes, [miss] * len(sizes)) == pytest.approx(total, abs=1e-12)


@given(st.lists(st.tuples(st.floats(0, 20), st.floats(0, 9)), min_size=4, max_size=30))
def test_intervals_widen_with_those_of_the_canaries_property(pairs):
    low, wide = np.array(pairs).T
    inner = median_interval(low + wide / 3, low + wide / 2)
    outer = median_interval(low, low + wide)
    assert outer.lower_bits <= inner.lower_bits
    assert outer.upper_bits >= inner.upper_bits


def covered(low, high, median):
    """How often the lower and the upper end are wrong."""
    return np.mean(low > median), np.mean(high < median)


@pytest.mark.parametrize("canaries", [4, 8, 16, 33])
@pytest.mark.parametrize("confidence", [0.9, 0.95])
def test_exact_coverage(canaries, confidence):
    """Exposures of any spread: the median of 2**z, z normal, is 1."""
    rng = np.random.default_rng(canaries)
    needed = agreeing((canaries,), (0.0,), confidence=confidence)
    bits = np.sort(2 ** rng.normal(size=(20_000, canaries)), axis=1)
    if needed > canaries:
        return
    wrong = covered(bits[:, -needed], bits[:, needed - 1], 1.0)
    assert max(wrong) <= 1 - confidence + 0.005
    # No wider than whole numbers make it: one fewer would be wrong too often.
    if needed - 1 > canaries / 2:
        assert max(covered(bits[:, -needed + 1], bits[:, needed - 2], 1.0)) > 1 - confidence


@pytest.mark.parametrize("draws", [200, 2_000])
@pytest.mark.parametrize("median", [1.0, 4.0, 8.0])
def test_shared_draws_coverage(draws, median):
    """Canaries share the luck of their draws, and many of them miss together."""
    rng = np.random.default_rng([draws, int(median)])
    shift = -stats.norm.ppf(2.0**-median)
    wrong = np.zeros(2)
    runs = 800
    for _ in range(runs):
        px = rng.normal(-shift, 1, 12)
        found = exposure_by_draws(px, rng.normal(0, 1, draws), space_size=10**12)
        ends = median_interval(
            [e.lower_bits for e in found], [e.upper_bits for e in found], misses=[0.025]
        )
        wrong += (ends.lower_bits > median, ends.upper_bits < median)
    assert (wrong / runs <= 0.1).all()


def test_two_formats_with_draws_of_their_own_coverage():
    rng = np.random.default_rng(3)
    wrong = np.zeros(2)
    runs = 600
    for _ in range(runs):
        found = []
        for _ in range(2):
            px = rng.normal(0, 1, 5)
            found += exposure_by_draws(px, rng.normal(0, 1, 300), space_size=10**12)
        ends = median_interval(
            [e.lower_bits for e in found],
            [e.upper_bits for e in found],
            formats=[0] * 5 + [1] * 5,
            misses=[0.025, 0.025],
        )
        wrong += (ends.lower_bits > 1, ends.upper_bits < 1)
    assert (wrong / runs <= 0.1).all()


def test_how_many_would_decide():
    # All agree: four at 90 %. Three of four: 8 of 10 is 5.5 %, 7 of 10 17 %.
    assert canaries_to_decide(1.0, at_least=1, miss=0.0, confidence=0.9) == 4
    found = canaries_to_decide(0.75, at_least=4, miss=0.0, confidence=0.9)
    assert stats.binom.sf(int(0.75 * found) - 1, found, 0.5) <= 0.1
    assert stats.binom.sf(int(0.75 * (found - 1)) - 1, found - 1, 0.5) > 0.1
    assert canaries_to_decide(0.5, at_least=4, miss=0.0, confidence=0.9) is None
    assert canaries_to_decide(0.501, at_least=4, miss=0.0, confidence=0.9) is None
    assert canaries_to_decide(1.0, at_least=4, miss=0.1, confidence=0.9) is None


@pytest.mark.parametrize(
    ("low", "high", "options", "message"),
    [
        ([], [], {}, "do not fit"),
        ([1], [1, 2], {}, "do not fit"),
        ([2], [1], {}, "do not fit"),
        ([np.nan], [1], {}, "do not fit"),
        ([1], [1], {"formats": [0, 0]}, "do not fit"),
        ([1], [1], {"confidence": 1.0}, "confidence"),
    ],
)
def test_input(low, high, options, message):
    with pytest.raises(EstimationError, match=f"^median_interval: .*{message}"):
        median_interval(low, high, **options)
