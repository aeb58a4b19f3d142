"""Exposure from ranks, from draws, from certain bounds, and from bounds and draws together."""

from __future__ import annotations

import functools
import itertools
import math
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from canary.errors import EstimationError
from canary.statistics.exposures import (
    Exposure,
    exposure_by_bounds,
    exposure_by_bounds_and_draws,
    exposure_by_draws,
    exposure_by_rank,
)


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
    found = by_rank(np.int64(2**5), 2**20, lower=np.int64(2**4), upper=2**7)
    assert (found.bits, found.lower_bits, found.upper_bits) == (15.0, 13.0, 16.0)
    assert found.p_value == 2.0**-13
    assert (found.rank, found.rank_lower, found.rank_upper) == (32, 16, 128)
    assert type(found.rank) is int
    assert (found.confidence, found.draws) == (None, None)
    assert found.method == "enumeration"
    assert not found.censored


@pytest.mark.parametrize("exponent", [54, 64, 1100, 4000])
def test_spaces_beyond_floats_golden(exponent):
    # 2^e has no exact neighbour in a float from 2^53 on, and no float at all from 2^1024.
    size = 2**exponent
    assert by_rank(2, size).bits == exponent - 1
    assert by_rank(size // 8, size).bits == 3.0
    assert by_rank(size, size).bits == 0.0
    assert by_rank(size, size).p_value == 1.0
    assert by_rank(3 * size // 4, size).bits == pytest.approx(2 - math.log2(3), abs=1e-15)
    # 1 / 2^1100 underflows to 0.0, which no p-value is; the smallest float bounds it.
    assert by_rank(1, size).p_value == max(2.0**-exponent, sys.float_info.min)


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
    assert (found.rank, found.method) == (None, "uniform draws")


def test_censored_golden():
    # No hit among n draws: (1 - F)^n = 0.025, the upper end of the 95 % interval, gives
    # F = 1 - 0.025^(1/n), near 3.7/n; n = 20,000 gives F = 1.8442697e-4, 12.4046 bits.
    (found,) = exposure_by_draws([1.0], np.full(20_000, 2.0), space_size=10**9)
    assert found.censored
    assert (found.bits, found.hits) == (None, 0)
    assert found.lower_bits == pytest.approx(-math.log2(1 - 0.025 ** (1 / 20_000)), abs=1e-9)
    assert found.lower_bits == pytest.approx(12.4046, abs=1e-4)
    assert found.upper_bits == found.space_bits == math.log2(10**9)
    assert found.p_value == pytest.approx(1 / 20_001, rel=1e-12)


def test_noise_widens_golden():
    # Canary at 5 with a noise of 1: strictly below 4 are 1, 2, 3; up to 6 are 1..6. The
    # estimate and the p-value stay those of the 5 hits.
    draws = np.arange(1.0, 11.0)
    (found,) = exposure_by_draws([5.0], draws, space_size=1000, noise_bits=1.0)
    assert (found.hits, found.p_value) == (5, 6 / 11)
    three, six = (stats.binomtest(hits, 10).proportion_ci(0.95, "exact") for hits in (3, 6))
    assert found.upper_bits == pytest.approx(-math.log2(three.low), abs=1e-9)
    assert found.lower_bits == pytest.approx(-math.log2(six.high), abs=1e-9)


def test_one_hit_that_is_a_tie_golden():
    # It may be the first guess (no draw below it) or not (one hit): the interval ends at
    # log2|R| and at the upper end of 1 hit of 4, 0.8058795.
    (found,) = exposure_by_draws([2.0], [2.0, 3.0, 4.0, 5.0], space_size=1000)
    assert (found.bits, found.hits) == (2.0, 1)
    assert found.upper_bits == found.space_bits
    assert found.lower_bits == pytest.approx(-math.log2(0.8058795), abs=1e-6)


def test_bounds_golden():
    # Among 1,024 candidates, 8th to 32nd: 5 to 7 bits, p = 32/1024.
    found = exposure_by_bounds(lower=8, upper=32, space_size=1024)
    assert (found.bits, found.lower_bits, found.upper_bits) == (None, 5.0, 7.0)
    assert (found.p_value, found.confidence, found.rank) == (32 / 1024, None, None)
    assert found.censored
    assert not found.exact
    counted = exposure_by_bounds(lower=8, rank=16, upper=32, space_size=1024)
    assert (counted.bits, counted.exact) == (6.0, True)
    ranked = exposure_by_rank(16, lower=8, upper=32, space_size=1024)
    assert counted.to_dict() == {**ranked.to_dict(), "method": "rank"}


def test_a_space_of_one_and_draws_that_decide_nothing_degenerate():
    assert (by_rank(1, 1).bits, by_rank(1, 1).p_value) == (0.0, 1.0)
    (only,) = exposure_by_draws([1.0], [2.0], space_size=1)
    assert (only.lower_bits, only.upper_bits) == (0.0, 0.0)
    hit, miss = exposure_by_draws([3.0, 1.0], [2.0], space_size=8)
    assert (hit.bits, hit.p_value) == (0.0, 1.0)
    assert (miss.bits, miss.p_value) == (None, 0.5)
    # F = 1 - 0.025 is all that one draw can exclude.
    assert miss.lower_bits == pytest.approx(-math.log2(0.975), abs=1e-12)
    # Every draw ties: nothing was learned, and the interval knows nothing.
    (alike,) = exposure_by_draws([30.0], np.full(100, 30.0), space_size=1000)
    assert (alike.bits, alike.p_value, alike.lower_bits) == (0.0, 1.0, 0.0)
    assert math.copysign(1, alike.bits) == 1
    assert alike.upper_bits == alike.space_bits


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
        rank = int((space <= px).sum())
        assert exposure.hits == rank
        assert exposure.bits == pytest.approx(by_rank(rank, 400).bits, abs=1e-12)


@pytest.mark.parametrize("draws", [1, 7, 60])
@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999])
def test_intervals_against_scipy_oracle(draws, confidence):
    # Canaries between the draws k and k + 1 have exactly k hits.
    found = exposure_by_draws(
        np.arange(draws + 1) + 0.5, np.arange(1, draws + 1), space_size=10**30,
        confidence=confidence,
    )  # fmt: skip
    for hits, exposure in enumerate(found):
        ends = stats.binomtest(hits, draws).proportion_ci(confidence, "exact")
        assert exposure.hits == hits
        assert exposure.lower_bits == pytest.approx(-math.log2(ends.high), abs=1e-9)
        if hits:
            assert exposure.upper_bits == pytest.approx(-math.log2(ends.low), rel=1e-9)


# --- theory -------------------------------------------------------------------------


def test_an_unlearned_canary_theory():
    # Its rank is uniform on 1..N, so exposure is nearly exponential with mean 1/ln 2 =
    # 1.4427 bits and median 1. Over all N = 20,000 ranks once, no sampling error is left:
    # the mean is log2 N - log2(N!)/N.
    size = 20_000
    bits = np.array([by_rank(rank, size).bits for rank in range(1, size + 1)])
    exact = math.log2(size) - math.lgamma(size + 1) / math.log(2) / size
    assert np.mean(bits) == pytest.approx(exact, abs=1e-9)
    assert np.mean(bits) == pytest.approx(1 / math.log(2), abs=1e-3)
    assert np.median(bits) == pytest.approx(1.0, abs=1e-4)
    assert np.mean(bits >= math.log2(20)) == pytest.approx(0.05, abs=1e-9)


def test_p_values_are_uniform_theory():
    # The canary's place among draws and itself is uniform, so Pr[p <= j/(n+1)] = j/(n+1).
    # Level 0.001 of one seed; 2,000 runs see a place that is 30 % too frequent.
    rng, draws = np.random.default_rng(5), 5
    p = [
        exposure_by_draws(rng.random(1), rng.random(draws), space_size=10**6)[0].p_value
        for _ in range(2_000)
    ]
    counts = np.bincount(np.rint(np.array(p) * (draws + 1)).astype(int), minlength=draws + 2)
    assert counts[0] == 0
    assert stats.chisquare(counts[1:]).pvalue > 1e-3


def worst_rate(p_value, *, size, draws):
    """Largest Pr[p <= u] / u over all u, exactly: ranks uniform, draws without the canary."""
    masses = {}
    hits = np.arange(draws + 1)
    for rank in range(1, size + 1):
        chance = stats.hypergeom.pmf(hits, size - 1, rank - 1, draws) / size
        for count, mass in zip(hits.tolist(), chance.tolist(), strict=True):
            p = p_value(rank, count)
            masses[p] = masses.get(p, 0.0) + mass
    levels = np.array(sorted(masses))
    return float((np.cumsum([masses[p] for p in levels]) / levels).max())


@pytest.mark.parametrize(("size", "draws"), [(200, 9), (90, 30), (40, 19)])
def test_the_p_value_of_bounds_and_draws_is_one_theory(size, draws):
    """However tight the bounds are and whatever their tightness depends on."""
    (base,) = exposure_by_draws([1.0], np.full(draws, 9.0), space_size=size)

    @functools.cache
    def joined(upper, hits):
        certain = exposure_by_bounds(lower=1, upper=upper, space_size=size)
        drawn = Exposure(**{**vars(base), "hits": hits})
        return exposure_by_bounds_and_draws(certain, drawn).p_value

    for slack in (
        lambda rank, hits: 0,
        lambda rank, hits: rank % 3,
        lambda rank, hits: 0 if hits else size,  # the draws decide what is searched
        lambda rank, hits: size if hits else 0,
    ):
        worst = worst_rate(
            lambda rank, hits, slack=slack: joined(min(size, rank + slack(rank, hits)), hits),
            size=size,
            draws=draws,
        )
        assert worst <= 1 + 1e-9
    # The smaller of both would be no p-value.
    smaller = worst_rate(
        lambda rank, hits: min(rank / size, (1 + hits) / (1 + draws)), size=size, draws=draws
    )
    assert smaller > 1.03


# --- coverage -----------------------------------------------------------------------


@functools.cache
def interval(below, ties, draws, confidence, size):
    """What draws give of which so many are below the canary, and so many its equals."""
    px = np.repeat([0.0, 1.0, 2.0], [below, ties, draws - below - ties])
    (found,) = exposure_by_draws([1.0], px, space_size=size, confidence=confidence)
    return found


def wrong_ends(samples, own, truth, *, confidence, size):
    """How many intervals begin above the truth, and end below it; and how many have no hit."""
    below, up_to = (samples < own).sum(axis=1), (samples <= own).sum(axis=1)
    found = [
        interval(a, b - a, samples.shape[1], confidence, size)
        for a, b in zip(below.tolist(), up_to.tolist(), strict=True)
    ]
    low = sum(e.lower_bits > truth + 1e-12 for e in found)
    high = sum(e.upper_bits < truth - 1e-12 for e in found)
    return low, high, sum(e.censored for e in found)


@pytest.mark.parametrize("confidence", [0.8, 0.95])
@pytest.mark.parametrize("share", [0.5, 0.1, 0.02, 0.004])
def test_intervals_cover_coverage(share, confidence):
    # A space of 1,000 without ties in which the canary has rank share * 1,000; 3,000
    # sets of 500 draws. Conservative, so at least the stated share, less 3 standard errors.
    size, runs = 1_000, 3_000
    samples = np.random.default_rng(int(share * size)).integers(1, size + 1, size=(runs, 500))
    truth = by_rank(round(share * size), size).bits
    low, high, _ = wrong_ends(samples, share * size, truth, confidence=confidence, size=size)
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
    share = expected_hits / draws
    samples = np.random.default_rng(round(expected_hits * 10)).random((runs, draws))
    low, high, censored = wrong_ends(
        samples, share, -math.log2(share), confidence=confidence, size=10**9
    )
    slack = 3 * math.sqrt(confidence * (1 - confidence) / runs)
    assert 1 - (low + high) / runs >= confidence - slack / 3
    assert max(low, high) / runs <= (1 - confidence) / 2 + slack
    assert censored / runs == pytest.approx(math.exp(-expected_hits), abs=0.03)


def test_draws_without_replacement_coverage():
    # As a format draws: hypergeometric hits are less dispersed, the interval covers more.
    size, draws, runs = 1_000, 500, 1_500
    rng, space = np.random.default_rng(5), np.arange(1, 1_001)
    samples = np.stack([rng.permutation(space)[:draws] for _ in range(runs)])
    low, high, _ = wrong_ends(samples, 100, by_rank(100, size).bits, confidence=0.95, size=size)
    assert 1 - (low + high) / runs >= 0.97


# --- properties ---------------------------------------------------------------------

ARRAYS = hnp.arrays(np.float64, st.integers(1, 40), elements=st.floats(0, 200, width=16))


@given(canaries=ARRAYS, draws=ARRAYS, noise=st.floats(0, 4), data=st.data())
def test_draws_property(canaries, draws, noise, data):
    size = data.draw(st.integers(len({*draws.tolist()}), 10**40))
    options = {"space_size": size, "confidence": data.draw(st.floats(0.5, 0.999))}
    plain = exposure_by_draws(canaries, draws, **options)
    noisy = exposure_by_draws(canaries, draws, noise_bits=noise, **options)
    for e, wider in zip(plain, noisy, strict=True):
        assert 0 <= e.lower_bits <= e.upper_bits <= e.space_bits == math.log2(size)
        assert 0 < e.p_value <= 1
        assert e.censored == (e.hits == 0)
        if e.bits is not None:  # betaincinv is accurate to about 1e-15 of the share
            assert e.lower_bits - 1e-9 <= e.bits <= e.upper_bits + 1e-9
        assert (wider.bits, wider.p_value) == (e.bits, e.p_value)
        assert 0 <= wider.lower_bits <= e.lower_bits
        assert e.upper_bits <= wider.upper_bits <= e.space_bits
    shuffle = data.draw(st.permutations(range(len(canaries))))
    mix = data.draw(st.permutations(range(len(draws))))
    again = exposure_by_draws(canaries[shuffle], draws[mix], noise_bits=noise, **options)
    assert again == [noisy[i] for i in shuffle]


@given(canaries=ARRAYS, draws=ARRAYS)
def test_the_more_likely_the_more_exposed_property(canaries, draws):
    found = exposure_by_draws(np.sort(canaries), draws, space_size=10**60)
    for more, less in itertools.pairwise(found):
        assert more.p_value <= less.p_value
        assert more.lower_bits >= less.lower_bits
        assert more.upper_bits >= less.upper_bits
        if more.bits is not None:
            assert more.bits >= less.bits


@given(st.integers(1, 10**30), st.data())
def test_ranks_property(size, data):
    low, rank, high = sorted(data.draw(st.tuples(*[st.integers(1, size)] * 3)))
    found = by_rank(rank, size, lower=low, upper=high)
    assert 0 <= found.lower_bits <= found.bits <= found.upper_bits <= found.space_bits
    assert found.bits == pytest.approx(math.log2(size) - math.log2(rank), abs=1e-12)
    assert found.p_value == high / size


@settings(max_examples=200)
@given(st.data())
def test_the_common_interval_property(data):
    """It misses the truth only where the draws' interval does, and is never wider."""
    size = data.draw(st.integers(300, 10**6))
    rank = data.draw(st.integers(1, size))
    lower, upper = data.draw(st.integers(1, rank)), data.draw(st.integers(rank, size))
    draws = data.draw(st.integers(1, 300))
    hits = data.draw(st.integers(0, draws))
    drawn = interval(hits, 0, draws, 0.95, size)
    certain = exposure_by_bounds(lower=lower, upper=upper, space_size=size)
    found = exposure_by_bounds_and_draws(certain, drawn)
    truth = np.log2(size / rank)
    assert certain.lower_bits <= found.lower_bits <= found.upper_bits <= certain.upper_bits
    if drawn.lower_bits <= truth <= drawn.upper_bits:
        assert drawn.lower_bits <= found.lower_bits <= truth
        assert truth <= found.upper_bits <= drawn.upper_bits
    if found.bits is not None:
        assert found.lower_bits <= found.bits <= found.upper_bits
    assert found.p_value >= min(upper / size, (1 + hits) / (1 + draws))
    # With the rank, nothing of the draws is left but the p-value.
    counted = exposure_by_bounds(lower=lower, rank=rank, upper=upper, space_size=size)
    both = exposure_by_bounds_and_draws(counted, drawn)
    assert (both.bits, both.lower_bits) == (counted.bits, counted.lower_bits)
    assert both.p_value == found.p_value
    assert (both.draws is None) == (upper / size <= 1 / (1 + draws))


def test_draws_that_are_given_several_times_are_no_draws():
    rng = np.random.default_rng(0)
    few = rng.normal(40.0, 3.0, 100)
    for copied in (np.repeat(few, 200), np.tile(few, 2)):
        with pytest.raises(EstimationError, match="is there (200|2) times.*give each draw once"):
            exposure_by_draws([17.0], copied, space_size=10**9)
    # A model that knows 100 prices only, one that knows ten, and a space that was drawn whole.
    coarse = rng.choice(few, 20_000), np.repeat(few[:10], 200)
    for draws, size in ((coarse[0], 10**9), (coarse[1], 10**9), (np.repeat(few, 10), 1000)):
        assert exposure_by_draws([17.0], draws, space_size=size)


def test_draws_and_canaries_in_the_wrong_order_are_refused():
    with pytest.raises(EstimationError, match="length 3, and canary_px 1,000"):
        exposure_by_draws(np.arange(1000.0), [1.0, 2.0, 3.0], space_size=10**5)
    assert len(exposure_by_draws(np.zeros(5), [1.0, 2.0], space_size=10**5)) == 5
