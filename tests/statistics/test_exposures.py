"""Exposure from ranks and from draws."""

from __future__ import annotations

import itertools
import math
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from canary.errors import EstimationError
from canary.statistics.exposures import exposure_by_draws, exposure_by_rank


def by_rank(rank, size, *, lower=None, upper=None):
    return exposure_by_rank(
        rank,
        lower=rank if lower is None else lower,
        upper=rank if upper is None else upper,
        space_size=size,
    )


# --- golden -------------------------------------------------------------------------


def test_rank_golden():
    # 2^20 candidates: rank 2^5 leaves 15 bits; ranks 2^4 and 2^7 of the noise band leave
    # 16 and 13; p = 2^7 / 2^20 = 2^-13, of the certified upper rank.
    found = by_rank(2**5, 2**20, lower=2**4, upper=2**7)
    assert (found.bits, found.lower_bits, found.upper_bits) == (15.0, 13.0, 16.0)
    assert found.p_value == 2.0**-13
    assert (found.rank, found.rank_lower, found.rank_upper) == (32, 16, 128)
    assert found.confidence is None
    assert found.draws is None
    assert found.method == "enumeration"
    assert not found.censored


@pytest.mark.parametrize("exponent", [54, 64, 1100, 4000])
def test_spaces_beyond_floats_golden(exponent):
    # 2^e has no exact neighbour in a float from 2^53 on, and no float at all from 2^1024.
    assert by_rank(2, 2**exponent).bits == exponent - 1
    assert by_rank(2 ** (exponent - 3), 2**exponent).bits == 3.0
    assert by_rank(2**exponent, 2**exponent).bits == 0.0
    assert by_rank(2**exponent, 2**exponent).p_value == 1.0
    # log2((2^e) / (3 * 2^(e-2))) = 2 - log2(3)
    assert by_rank(3 * 2 ** (exponent - 2), 2**exponent).bits == pytest.approx(
        2 - math.log2(3), abs=1e-15
    )


def test_a_p_value_is_never_zero():
    # 1 / 10^400 underflows to 0.0, which no p-value is; the smallest float bounds it.
    assert by_rank(1, 10**400).p_value == sys.float_info.min


def test_draws_golden():
    # Draws 1..10, canary at 2: hits are 1 and 2 (a tie is a hit), so log2(10/2) bits and
    # p = 3/11. Undecided for the interval, the tie counts at one end only:
    # 1 hit of 10 has the lower end 1 - 0.975^(1/10) = 0.0025285785444617,
    # 2 hits of 10 have the upper end 0.5560954623076415 (Clopper-Pearson, R's binom.test).
    (found,) = exposure_by_draws([2.0], np.arange(1.0, 11.0), space_size=1000)
    assert found.bits == pytest.approx(math.log2(5), abs=1e-12)
    assert found.p_value == pytest.approx(3 / 11, abs=1e-15)
    assert (found.hits, found.draws, found.confidence) == (2, 10, 0.95)
    assert found.upper_bits == pytest.approx(-math.log2(0.0025285785444617), abs=1e-9)
    assert found.lower_bits == pytest.approx(-math.log2(0.5560954623076415), abs=1e-9)
    assert found.rank is None
    assert found.method == "uniform draws"


def test_censored_golden():
    # No hit among n draws: (1 - F)^n = 0.025, the upper end of the 95 % interval, gives
    # F = 1 - 0.025^(1/n), near 3.7/n; n = 20,000 gives F = 1.8442697e-4, 12.4046 bits.
    (found,) = exposure_by_draws([1.0], np.full(20_000, 2.0), space_size=10**9)
    assert found.censored
    assert found.bits is None
    assert found.lower_bits == pytest.approx(-math.log2(1 - 0.025 ** (1 / 20_000)), abs=1e-9)
    assert found.lower_bits == pytest.approx(12.4046, abs=1e-4)
    assert found.upper_bits == found.space_bits == math.log2(10**9)
    assert found.hits == 0
    assert found.p_value == pytest.approx(1 / 20_001, rel=1e-12)


def test_noise_widens_golden():
    # Canary at 5 with a noise of 1: strictly below 4 are 1, 2, 3; up to 6 are 1..6. The
    # estimate and the p-value stay those of the 5 hits.
    draws = np.arange(1.0, 11.0)
    (found,) = exposure_by_draws([5.0], draws, space_size=1000, noise_bits=1.0)
    assert found.hits == 5
    assert found.p_value == 6 / 11
    three = stats.binomtest(3, 10).proportion_ci(0.95, method="exact")
    six = stats.binomtest(6, 10).proportion_ci(0.95, method="exact")
    assert found.upper_bits == pytest.approx(-math.log2(three.low), abs=1e-9)
    assert found.lower_bits == pytest.approx(-math.log2(six.high), abs=1e-9)


def test_one_hit_that_is_a_tie_golden():
    # It may be the first guess (no draw below it) or not (one hit): the interval ends at
    # log2|R| and at the upper end of 1 hit of 4, 0.8058795.
    (found,) = exposure_by_draws([2.0], [2.0, 3.0, 4.0, 5.0], space_size=1000)
    assert (found.bits, found.hits) == (2.0, 1)
    assert found.upper_bits == found.space_bits
    assert found.lower_bits == pytest.approx(-math.log2(0.8058795), abs=1e-6)


# --- oracle -------------------------------------------------------------------------


@pytest.mark.parametrize("levels", [3, 50, 10**9])
def test_against_brute_force_oracle(levels):
    # A space small enough to count by hand, with many ties, some or none; the draws are
    # the space itself, so hits are ranks.
    rng = np.random.default_rng(levels)
    space = rng.integers(levels, size=400) / 8
    canaries = rng.choice(space, 60)
    found = exposure_by_draws(canaries, space, space_size=400)
    for px, exposure in zip(canaries, found, strict=True):
        rank = sum(1 for other in space if other <= px)
        assert exposure.hits == rank
        assert exposure.bits == pytest.approx(by_rank(rank, 400).bits, abs=1e-12)


@pytest.mark.parametrize("draws", [1, 7, 200])
@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999])
def test_intervals_against_scipy_oracle(draws, confidence):
    # Canaries between the draws k and k + 1 have exactly k hits.
    found = exposure_by_draws(
        np.arange(draws + 1) + 0.5,
        np.arange(1, draws + 1),
        space_size=10**30,
        confidence=confidence,
    )
    for hits, exposure in enumerate(found):
        ends = stats.binomtest(hits, draws).proportion_ci(confidence, "exact")
        assert exposure.hits == hits
        assert exposure.lower_bits == pytest.approx(-math.log2(ends.high), abs=1e-9)
        if hits:
            assert exposure.upper_bits == pytest.approx(-math.log2(ends.low), rel=1e-9)


# --- theory -------------------------------------------------------------------------


def test_an_unlearned_canary_theory():
    # Its rank is uniform on 1..N, so exposure is nearly exponential with mean 1/ln 2 =
    # 1.4427 bits and median 1. Over all N = 10^5 ranks once, no sampling error is left:
    # the mean is log2 N - log2(N!)/N.
    size = 100_000
    bits = [by_rank(rank, size).bits for rank in range(1, size + 1)]
    exact = math.log2(size) - math.lgamma(size + 1) / math.log(2) / size
    assert np.mean(bits) == pytest.approx(exact, abs=1e-9)
    assert np.mean(bits) == pytest.approx(1 / math.log(2), abs=1e-3)
    assert np.median(bits) == pytest.approx(1.0, abs=1e-4)
    assert np.mean(np.asarray(bits) >= math.log2(20)) == pytest.approx(0.05, abs=1e-9)


@pytest.mark.parametrize("draws", [5, 40])
def test_p_values_are_uniform_theory(draws):
    # The canary's place among draws and itself is uniform, so Pr[p <= j/(n+1)] = j/(n+1).
    rng = np.random.default_rng(draws)
    runs = 4_000
    p = [
        exposure_by_draws(rng.random(1), rng.random(draws), space_size=10**6)[0].p_value
        for _ in range(runs)
    ]
    counts = np.bincount(np.rint(np.asarray(p) * (draws + 1)).astype(int), minlength=draws + 2)
    assert counts[0] == 0
    assert stats.chisquare(counts[1:]).pvalue > 1e-3


# --- coverage -----------------------------------------------------------------------


@pytest.mark.parametrize("confidence", [0.8, 0.95])
@pytest.mark.parametrize("share", [0.5, 0.1, 0.02, 0.004])
def test_intervals_cover_coverage(share, confidence):
    # A space of 1,000 without ties in which the canary has rank share * 1,000; 3,000
    # sets of 500 draws. Conservative, so at least the stated share, less 3 standard errors.
    size, draws, runs = 1_000, 500, 3_000
    rng = np.random.default_rng(int(share * size))
    truth = by_rank(round(share * size), size).bits
    low = high = 0
    for sample in rng.integers(1, size + 1, size=(runs, draws)):
        (found,) = exposure_by_draws([share * size], sample, space_size=size, confidence=confidence)
        low += found.lower_bits > truth + 1e-12
        high += found.upper_bits < truth - 1e-12
    slack = 3 * math.sqrt(confidence * (1 - confidence) / runs)
    assert 1 - (low + high) / runs >= confidence - slack
    # Not by being useless: a conservative interval errs less often, not never.
    assert low + high > 0


@pytest.mark.parametrize("expected_hits", [0.5, 3.0, 5.0, 10.0])
def test_bounds_cover_coverage(expected_hits):
    # Around 3 expected hits censored results and others mix: the interval as a whole and
    # each of its ends hold there too. (With a one-sided bound at no hit the whole covers
    # 93.8 % at 3 expected hits; that was so once.)
    draws, runs, confidence = 400, 4_000, 0.95
    rng = np.random.default_rng(round(expected_hits * 10))
    share = expected_hits / draws
    low = high = censored = 0
    for sample in rng.random((runs, draws)):
        (found,) = exposure_by_draws([share], sample, space_size=10**9, confidence=confidence)
        low += found.lower_bits > -math.log2(share)
        high += found.upper_bits < -math.log2(share)
        censored += found.censored
    slack = 3 * math.sqrt(confidence * (1 - confidence) / runs)
    assert 1 - (low + high) / runs >= confidence - slack / 3
    assert low / runs <= (1 - confidence) / 2 + slack
    assert high / runs <= (1 - confidence) / 2 + slack
    assert censored / runs == pytest.approx(math.exp(-expected_hits), abs=0.03)


def test_draws_without_replacement_coverage():
    # As a format draws: hypergeometric hits are less dispersed, the interval covers more.
    size, draws, runs = 1_000, 500, 1_500
    rng = np.random.default_rng(5)
    space = np.arange(1, size + 1)
    truth = by_rank(100, size).bits
    covered = 0
    for _ in range(runs):
        sample = rng.choice(space, draws, replace=False)
        (found,) = exposure_by_draws([100.0], sample, space_size=size)
        covered += found.lower_bits <= truth + 1e-12 and truth <= found.upper_bits + 1e-12
    assert covered / runs >= 0.97


# --- properties ---------------------------------------------------------------------

PX = st.floats(0, 200, width=16)
ARRAYS = hnp.arrays(np.float64, st.integers(1, 40), elements=PX)


@given(canaries=ARRAYS, draws=ARRAYS, noise=st.floats(0, 4), data=st.data())
def test_order_does_not_matter_property(canaries, draws, noise, data):
    shuffle = data.draw(st.permutations(range(len(canaries))))
    mix = data.draw(st.permutations(range(len(draws))))
    found = exposure_by_draws(canaries, draws, space_size=10**6, noise_bits=noise)
    again = exposure_by_draws(canaries[shuffle], draws[mix], space_size=10**6, noise_bits=noise)
    assert again == [found[i] for i in shuffle]


@given(
    canaries=ARRAYS,
    draws=ARRAYS,
    noise=st.floats(0, 4),
    size=st.integers(1, 10**40),
    confidence=st.floats(0.01, 0.999),
)
def test_bounds_property(canaries, draws, noise, size, confidence):
    found = exposure_by_draws(
        canaries, draws, space_size=size, noise_bits=noise, confidence=confidence
    )
    for e in found:
        assert 0 <= e.lower_bits <= e.upper_bits <= e.space_bits == math.log2(size)
        assert 0 < e.p_value <= 1
        assert e.censored == (e.hits == 0)
        if e.bits is not None:
            # betaincinv is accurate to about 1e-15 of the share
            assert e.lower_bits <= e.bits + 1e-9
            assert e.bits <= e.upper_bits + 1e-9


@given(canaries=ARRAYS, draws=ARRAYS)
def test_the_more_likely_the_more_exposed_property(canaries, draws):
    found = exposure_by_draws(np.sort(canaries), draws, space_size=10**60)
    for more, less in itertools.pairwise(found):
        assert more.p_value <= less.p_value
        # Where the first hit ends the one-sided bound, the two-sided one is wider.
        if more.censored == less.censored:
            assert more.lower_bits >= less.lower_bits
            assert more.upper_bits >= less.upper_bits
        if more.bits is not None and less.bits is not None:
            assert more.bits >= less.bits


@given(canaries=ARRAYS, draws=ARRAYS, noise=st.floats(0, 4))
def test_noise_only_widens_property(canaries, draws, noise):
    plain = exposure_by_draws(canaries, draws, space_size=10**6)
    noisy = exposure_by_draws(canaries, draws, space_size=10**6, noise_bits=noise)
    for a, b in zip(plain, noisy, strict=True):
        assert (b.bits, b.p_value) == (a.bits, a.p_value)
        assert b.lower_bits <= a.lower_bits
        assert b.upper_bits >= a.upper_bits


@given(st.integers(1, 10**30), st.data())
def test_ranks_property(size, data):
    low, rank, high = sorted(data.draw(st.tuples(*[st.integers(1, size)] * 3)))
    found = by_rank(rank, size, lower=low, upper=high)
    assert 0 <= found.lower_bits <= found.bits <= found.upper_bits <= found.space_bits
    assert found.bits == pytest.approx(math.log2(size) - math.log2(rank), abs=1e-12)
    assert found.p_value == high / size


# --- degenerate ---------------------------------------------------------------------


def test_a_model_that_prices_all_alike_degenerate():
    # Every draw ties: nothing was learned, and the interval knows nothing.
    (found,) = exposure_by_draws([30.0], np.full(100, 30.0), space_size=1000)
    assert found.bits == 0.0
    assert math.copysign(1, found.bits) == 1
    assert found.p_value == 1.0
    assert (found.lower_bits, found.upper_bits) == (0.0, found.space_bits)


def test_a_space_of_one_degenerate():
    assert by_rank(1, 1).bits == 0.0
    assert by_rank(1, 1).p_value == 1.0
    (found,) = exposure_by_draws([1.0], [2.0], space_size=1)
    assert (found.lower_bits, found.upper_bits) == (0.0, 0.0)


def test_one_draw_degenerate():
    hit, miss = exposure_by_draws([3.0, 1.0], [2.0], space_size=8)
    assert (hit.bits, hit.p_value) == (0.0, 1.0)
    assert (miss.bits, miss.p_value) == (None, 0.5)
    # F = 1 - 0.025 is all that one draw can exclude.
    assert miss.lower_bits == pytest.approx(-math.log2(0.975), abs=1e-12)


# --- input --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given_", "message"),
    [
        ({"draws_px": []}, r"draws_px is empty; draw at least one"),
        ({"draws_px": [1.0, math.nan]}, r"draws_px must be finite, got nan at position 1 \(1 of 2"),
        ({"draws_px": [math.inf, 1.0]}, "1 of 2 values of draws_px are infinite"),
        ({"canary_px": [-math.inf]}, r"canary_px must be finite, got -inf"),
        ({"canary_px": [[1.0]]}, r"canary_px must have one dimension, got shape \(1, 1\)"),
        ({"canary_px": ["one"]}, r"canary_px must hold numbers"),
        ({"space_size": 0}, r"space_size must be a positive integer, got 0"),
        ({"space_size": 1e9}, r"space_size must be a positive integer, got 1000000000.0"),
        ({"confidence": 1.0}, r"confidence must lie between 0 and 1, got 1.0"),
        ({"confidence": 95}, r"confidence must lie between 0 and 1, got 95"),
        ({"noise_bits": -1.0}, r"noise_bits must be finite and not negative, got -1.0"),
        ({"noise_bits": math.nan}, r"noise_bits must be finite and not negative, got nan"),
    ],
)
def test_draws_input(given_, message):
    call = {"canary_px": [1.0], "draws_px": [1.0, 2.0], "space_size": 10, **given_}
    canary_px, draws_px = call.pop("canary_px"), call.pop("draws_px")
    with pytest.raises(EstimationError, match="^exposure_by_draws: " + message):
        exposure_by_draws(canary_px, draws_px, **call)


@pytest.mark.parametrize(
    ("ranks", "size"),
    [((0, 0, 0), 10), ((1, 11, 11), 10), ((3, 2, 4), 10), ((1, 3, 2), 10), ((1, 1, 1), 0)],
)
def test_rank_input(ranks, size):
    lower, rank, upper = ranks
    with pytest.raises(EstimationError, match="^exposure_by_rank: "):
        exposure_by_rank(rank, lower=lower, upper=upper, space_size=size)


def test_rank_must_be_an_integer_input():
    with pytest.raises(EstimationError, match="ranks must be integers"):
        exposure_by_rank(1.5, lower=1, upper=2, space_size=10)
    found = exposure_by_rank(np.int64(2), lower=np.int64(1), upper=2, space_size=10)
    assert type(found.rank) is int
