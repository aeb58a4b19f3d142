"""Exposure off a fitted curve, and the curve's test."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from numpy.random import PCG64
from scipy import stats

from canary.errors import EstimationError
from canary.statistics.exposures import Exposure, exposure_by_draws
from canary.statistics.extrapolation import exposure_by_skew_normal
from canary.statistics.skewnormal import SkewNormal


def estimate(px, draws, *, seed=0, space_size=10**9, **options):
    rng = np.random.default_rng(seed)
    return exposure_by_skew_normal(px, draws, space_size=space_size, rng=rng, **options)


class Unmixed(np.random.Generator):
    """Leaves the draws in their order: the first half is fitted, the second tests."""

    def permutation(self, x):
        return x


def sample(shape, n, seed, location=30.0, scale=2.0):
    rng = np.random.default_rng(seed)
    return stats.skewnorm.rvs(shape, location, scale, n, random_state=rng)


def known(shape, deviations):
    """Log-perplexities so many deviations below the mean of a curve, and their exposures."""
    true = SkewNormal(30.0, 2.0, shape)
    px = true.mean_bits - true.sd_bits * np.array(deviations)
    return px, -true.log_integral(0.0, px) / math.log(2)


def covering(px, wanted, shape, n, runs, **options):
    """How often each interval held the exposure, and the p-values of the curves."""
    inside, p = np.zeros(len(px)), []
    for seed in range(runs):
        found, fit = estimate(px, sample(shape, n, seed), seed=seed, **options)
        inside += [e.lower_bits <= w <= e.upper_bits for e, w in zip(found, wanted, strict=True)]
        p.append(fit.ks_p_value)
    return inside, np.array(p)


# --- theory -------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [-2.0, 0.0, 4.0])
def test_exposure_of_a_known_curve_theory(shape):
    px, wanted = known(shape, [-1.0, 1.0, 3.0])
    found, fit = estimate(px, sample(shape, 100_000, 1))
    assert [e.bits for e in found] == pytest.approx(wanted, rel=0.05, abs=0.05)
    assert (fit.fitted, fit.tested) == (50_000, 50_000)
    assert fit.rejected is False
    assert fit.tested_tail_bits == pytest.approx(10, abs=0.05)
    assert abs(fit.tail_error_bits) < 4 * fit.tail_error_sd_bits


def test_exposure_agrees_with_draws_where_they_reach_oracle():
    draws = sample(2.0, 40_000, 2)
    found, _ = estimate(np.quantile(draws, [0.9, 0.5, 0.1, 0.01]), draws)
    for e in found:
        assert e.bits == pytest.approx(math.log2(e.draws / e.hits), abs=0.15)


def test_two_peaks_are_rejected_theory():
    rng = np.random.default_rng(3)
    draws = np.concatenate([rng.normal(25, 1, 2000), rng.normal(35, 1, 2000)])
    _, fit = estimate([20.0], draws)
    assert fit.rejected
    assert fit.ks_distance > 0.1
    assert fit.ks_p_value < 1e-9


def test_the_test_is_on_draws_that_were_not_fitted_golden():
    """The halves differ: the curve is that of one, and what is said of it that of the other."""
    fitted, rest = sample(0.0, 2000, 14), sample(0.0, 2000, 15, location=33.0)
    _, fit = exposure_by_skew_normal(
        [25.0], np.concatenate([fitted, rest]), space_size=10**9, rng=Unmixed(PCG64(1))
    )
    assert fit.curve.mean_bits == pytest.approx(fitted.mean(), abs=0.01)
    wanted = stats.kstest(rest, fit.curve.cumulative)
    assert (fit.ks_distance, fit.ks_p_value) == (wanted.statistic, wanted.pvalue)
    assert fit.ks_distance > 0.4  # means 1.5 deviations apart: 0.55
    assert fit.rejected
    said = -math.log2(fit.curve.cumulative(np.sort(rest)[1]))
    assert fit.tail_error_bits == pytest.approx(said - fit.tested_tail_bits, rel=1e-6)


def test_the_integral_from_0_is_less_than_the_tail_golden():
    # A curve around 2 bits has a part below 0: what lies there counts for the tail alone.
    drawn = np.abs(sample(0.0, 4000, 4, location=2.0, scale=1.0))
    (e,), fit = estimate([0.5], drawn)
    below, whole = fit.curve.cumulative(0.0), fit.curve.cumulative(0.5)
    assert e.bits == pytest.approx(-math.log2(whole - below), rel=1e-9)
    assert e.tail_bits == pytest.approx(-math.log2(whole), rel=1e-9)
    assert e.bits > e.tail_bits


def test_beyond_the_space_and_without_p_value_golden():
    (e,), _ = estimate([2.0], sample(2.0, 2000, 5), space_size=2000)
    assert e.bits > e.space_bits
    assert e.unbounded
    assert (e.p_value, e.method, e.rank, e.draws, e.hits) == (None, "skew-normal", None, 2000, 0)


def test_order_and_monotone_property():
    draws, px = sample(1.0, 2000, 6), np.array([25.0, 10.0, 31.0, 10.0, 3.0])
    found, _ = estimate(px, draws)
    bits = np.array([e.bits for e in found])
    assert bits[1] == bits[3]
    assert (np.diff(bits[np.argsort(px)]) <= 0).all()
    alone, _ = estimate(px[:1], draws)
    assert alone[0] == found[0]
    for e in found:
        assert 0 <= e.tail_bits <= e.bits
        assert e.lower_bits <= e.bits <= e.upper_bits


# --- coverage -----------------------------------------------------------------------


def test_intervals_cover_sampling_error_coverage():
    # Far beyond 2,000 draws, where the true curve has 18 and 55 bits. 92 % in 200 runs; 30 of 40
    # or fewer would come once in a thousand such tests.
    inside, _ = covering(*known(3.0, [3.0, 5.0]), 3.0, 2000, 40, replicates=100)
    assert (inside >= 31).all()


def test_a_right_curve_is_seldom_rejected_coverage():
    # 4 to 8 % expected; 11 of 60 would come less than once in a hundred tests at 8 %.
    _, p = covering([1.0], [1.0], 2.0, 1000, 60, replicates=20)
    assert (p <= 0.01).sum() <= 10


@pytest.mark.slow
@pytest.mark.parametrize("n", [2000, 20_000])
@pytest.mark.parametrize("shape", [-2.0, 0.0, 3.0, 8.0])
def test_right_curves_coverage(shape, n):
    runs = 200
    inside, p = covering(*known(shape, [1.0, 3.0, 5.0, 9.0]), shape, n, runs)
    rejected = [float((p <= level).mean()) for level in (0.001, 0.01)]
    print(f"shape {shape}, {n} draws: covered {inside / runs}, rejected {rejected}")  # noqa: T201
    assert (inside / runs > 0.85).all()
    assert rejected[1] < 0.12


# --- degenerate and input -----------------------------------------------------------


def test_infinite_exposure_is_a_bound_degenerate():
    # At Px = 0 the integral from 0 is empty, whatever the curve.
    (e,), _ = estimate([0.0], sample(1.0, 500, 8))
    assert e.censored
    assert (e.bits, e.upper_bits) == (None, math.inf)
    assert math.isfinite(e.lower_bits)
    assert math.isfinite(e.tail_bits)
    assert Exposure.from_dict(json.loads(json.dumps(e.to_dict(), allow_nan=False))) == e
    # Beyond any exposure that a figure could show.
    (e,), _ = estimate([1.0], 1e9 + sample(0.0, 60, 3, scale=20.0))
    assert (e.bits, e.tail_bits, e.upper_bits) == (None, None, math.inf)


def test_beyond_a_half_normal_curve_degenerate():
    draws = 30 + np.abs(np.random.default_rng(11).normal(size=400))
    (beyond, within), fit = estimate([20.0, 31.0], draws)
    assert fit.curve.shape == math.inf
    assert (beyond.bits, beyond.tail_bits) == (None, None)
    assert within.bits == pytest.approx(-math.log2(math.erf(math.sqrt(0.5))), abs=0.3)


@pytest.mark.parametrize("hits", [0, 1, 3])
def test_where_the_curve_says_infinity_the_draws_bound_oracle(hits):
    # The fitted half begins at 30 bits; draws below the canary are in the other half alone.
    fitted = 30 + np.abs(np.random.default_rng(11).normal(size=200))
    rest = np.concatenate([np.arange(27.0, 27.0 + 0.25 * hits, 0.25), fitted[hits:] + 1e-9])
    draws = np.concatenate([fitted, rest])
    (e,), fit = exposure_by_skew_normal([28.0], draws, space_size=10**9, rng=Unmixed(PCG64(1)))
    (counted,) = exposure_by_draws([28.0], draws, space_size=10**9)
    assert fit.curve.shape == math.inf
    assert (e.bits, e.hits) == (None, hits)
    assert e.lower_bits == counted.lower_bits
    # Clopper and Pearson: so large a share gives at most that many hits in 2.5 % of cases.
    assert stats.binom.cdf(hits, 400, 2.0**-e.lower_bits) == pytest.approx(0.025, rel=1e-9)


def nearly_constant(seed):
    """Draws of which most are equal, or few differ, or some lie far away."""
    rng = np.random.default_rng(seed)
    n, middle = int(rng.choice([40, 60, 100])), float(rng.choice([0.0, 5.0, 30.0, 1e6]))
    few, small = rng.integers(0, n, int(rng.integers(1, 8))), 10.0 ** rng.uniform(-14, 2)
    draws = np.full(n, middle)
    match seed % 6:
        case 0:
            draws[few] += small * rng.normal(size=len(few))
        case 1:
            draws = rng.choice([middle, middle + small], n)
        case 2:
            draws += small * rng.integers(0, rng.integers(2, 9), n)
        case 3:
            draws += small * rng.normal(size=n)
        case 4:
            draws += small * rng.normal(size=n)
            draws[few[0]] += 10.0 ** rng.uniform(0, 99)
        case _:
            draws += 10.0 ** rng.uniform(-10, 10, n)
    return draws, [middle, 1.0, 0.0, float(draws.min()), middle - small, 1e99]


def test_draws_nearly_alike_give_an_error_or_a_number_degenerate():
    fitted = 0
    for seed in range(60):
        draws, px = nearly_constant(seed)
        try:
            found, fit = estimate(px, draws, seed=seed, replicates=20)
        except EstimationError:
            continue
        fitted += 1
        assert 18 <= fit.replicates <= 20
        for e in found:
            assert e.bits is None or e.lower_bits <= e.bits <= e.upper_bits
            assert math.isfinite(e.lower_bits)
            assert Exposure.from_dict(e.to_dict()) == e
    assert 7 < fitted < 53


@pytest.mark.parametrize(
    ("draws", "message"),
    [
        ([31.0] + [30.0] * 39, "different values|are equal"),
        ([29.0] + [30.0] * 9_999, "different values|are equal"),
        ([29.999] * 2 + [30.0] * 56 + [30.001] * 2, "different values"),
        (5.0 + 1e-11 * np.random.default_rng(1).normal(size=60), "equal to within rounding"),
    ],
)
def test_draws_nearly_alike_regression(draws, message):
    with pytest.raises(EstimationError, match=message):
        estimate([30.0], draws, replicates=20)
