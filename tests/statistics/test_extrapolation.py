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
from canary.statistics.pvalues import fisher
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


# --- theory -------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [-2.0, 0.0, 4.0])
def test_exposure_of_a_known_curve_theory(shape):
    true = SkewNormal(30.0, 2.0, shape)
    px = true.mean_bits - true.sd_bits * np.array([-1.0, 1.0, 3.0])
    found, fit = estimate(px, sample(shape, 100_000, 1))
    wanted = -true.log_integral(0.0, px) / math.log(2)
    assert [e.bits for e in found] == pytest.approx(wanted, rel=0.05, abs=0.05)
    assert (fit.fitted, fit.tested) == (50_000, 50_000)
    assert fit.rejected is False
    assert fit.tested_tail_bits == pytest.approx(10, abs=0.05)
    assert abs(fit.tail_error_bits) < 4 * fit.tail_error_sd_bits


def test_exposure_agrees_with_draws_where_they_reach_oracle():
    draws = sample(2.0, 40_000, 2)
    px = np.quantile(draws, [0.9, 0.5, 0.1, 0.01])
    found, _ = estimate(px, draws)
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
    quantile = np.sort(rest)[1]
    said = -math.log2(fit.curve.cumulative(quantile))
    assert fit.tail_error_bits == pytest.approx(said - fit.tested_tail_bits, rel=1e-6)


def test_the_integral_from_0_is_less_than_the_tail_golden():
    # A curve around 2 bits has a part below 0: what lies there counts for the tail alone.
    draws = sample(0.0, 4000, 4, location=2.0, scale=1.0)
    (e,), fit = estimate([0.5], draws)
    assert e.bits > e.tail_bits
    below, whole = fit.curve.cumulative(0.0), fit.curve.cumulative(0.5)
    assert e.bits == pytest.approx(-math.log2(whole - below), rel=1e-9)
    assert e.tail_bits == pytest.approx(-math.log2(whole), rel=1e-9)


def test_beyond_the_space_and_without_p_value():
    (e,), _ = estimate([2.0], sample(2.0, 2000, 5), space_size=1000)
    assert e.bits > e.space_bits
    assert e.unbounded
    assert (e.p_value, e.method, e.rank, e.draws, e.hits) == (None, "skew-normal", None, 2000, 0)
    with pytest.raises(EstimationError, match="p-value"):
        fisher([0.5, e.p_value])


# --- coverage -----------------------------------------------------------------------


def test_intervals_cover_sampling_error_coverage():
    # Far beyond 2,000 draws, where the true curve has 18 and 55 bits.
    true = SkewNormal(30.0, 2.0, 3.0)
    px = true.mean_bits - true.sd_bits * np.array([3.0, 5.0])
    wanted = -true.log_integral(0.0, px) / math.log(2)
    inside = np.zeros(2)
    for seed in range(60):
        found, _ = estimate(px, sample(3.0, 2000, seed), seed=seed, replicates=100)
        inside += [e.lower_bits <= w <= e.upper_bits for e, w in zip(found, wanted, strict=True)]
    # 92 % in 200 runs; 48 of 60 or fewer would come once in a thousand such tests.
    assert (inside >= 49).all()


def test_a_right_curve_is_seldom_rejected_coverage():
    rejected = sum(
        estimate([1.0], sample(2.0, 1000, seed), seed=seed, replicates=20)[1].rejected
        for seed in range(100)
    )
    assert rejected <= 15  # 4 to 8 expected


@pytest.mark.slow
@pytest.mark.parametrize("n", [2000, 20_000])
@pytest.mark.parametrize("shape", [-2.0, 0.0, 3.0, 8.0])
def test_right_curves_coverage(shape, n):
    true = SkewNormal(30.0, 2.0, shape)
    px = true.mean_bits - true.sd_bits * np.array([1.0, 3.0, 5.0, 9.0])
    wanted = -true.log_integral(0.0, px) / math.log(2)
    inside, rejected, runs = np.zeros(4), np.zeros(2), 200
    for seed in range(runs):
        found, fit = estimate(px, sample(shape, n, seed), seed=seed)
        inside += [e.lower_bits <= w <= e.upper_bits for e, w in zip(found, wanted, strict=True)]
        rejected += fit.ks_p_value <= np.array([0.001, 0.01])
    print(f"shape {shape}, {n} draws: covered {inside / runs}, rejected {rejected / runs}")  # noqa: T201
    assert (inside / runs > 0.85).all()
    assert rejected[1] / runs < 0.12


# --- property -----------------------------------------------------------------------


def test_order_and_monotone_property():
    draws = sample(1.0, 2000, 6)
    px = np.array([25.0, 10.0, 31.0, 10.0, 3.0])
    found, _ = estimate(px, draws)
    bits = np.array([e.bits for e in found])
    assert bits[1] == bits[3]
    assert (np.diff(bits[np.argsort(px)]) <= 0).all()
    alone, _ = estimate(px[:1], draws)
    assert alone[0] == found[0]
    for e in found:
        assert 0 <= e.tail_bits <= e.bits
        assert e.lower_bits <= e.bits <= e.upper_bits


# --- degenerate and input -----------------------------------------------------------


def test_infinite_exposure_is_a_bound_degenerate():
    # At Px = 0 the integral from 0 is empty, whatever the curve.
    (e,), _ = estimate([0.0], sample(1.0, 500, 8))
    assert e.bits is None
    assert e.censored
    assert math.isfinite(e.lower_bits)
    assert e.upper_bits == math.inf
    assert math.isfinite(e.tail_bits)
    assert Exposure.from_dict(json.loads(json.dumps(e.to_dict(), allow_nan=False))) == e


def test_beyond_a_half_normal_curve_degenerate():
    rng = np.random.default_rng(11)
    draws = 30 + np.abs(rng.normal(size=400))
    found, fit = estimate([20.0, 31.0], draws)
    assert fit.curve.shape == math.inf
    assert found[0].bits is None
    assert found[0].tail_bits is None
    assert found[1].bits == pytest.approx(-math.log2(math.erf(math.sqrt(0.5))), abs=0.3)


@pytest.mark.parametrize("hits", [0, 1, 3])
def test_where_the_curve_says_infinity_the_draws_bound_oracle(hits):
    # The fitted half begins at 30 bits; draws below the canary are in the other half alone.
    rng = np.random.default_rng(11)
    fitted = 30 + np.abs(rng.normal(size=200))
    rest = np.concatenate([np.arange(27.0, 27.0 + 0.25 * hits, 0.25), fitted[hits:]])
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


def test_exposure_beyond_any_is_a_bound_degenerate():
    (e,), _ = estimate([1.0], 1e9 + sample(0.0, 60, 3, scale=20.0))
    assert (e.bits, e.tail_bits, e.upper_bits) == (None, None, math.inf)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"draws": [1.0] * 39}, "39 draws are too few"),
        ({"draws": [1.0] * 400}, "equal to within rounding"),
        ({"draws": [1.0] * 40 + [math.nan]}, "draws_px must be finite"),
        ({"px": [math.inf]}, "1 of 1 values of canary_px are infinite"),
        ({"noise_bits": 5.0}, "no more than the noise of the model, 5 bits"),
        ({"confidence": 1.0}, "confidence must lie between 0 and 1"),
        ({"replicates": 19}, "replicates=19, at least 20"),
        ({"space_size": 0}, "space_size must be a positive integer"),
    ],
)
def test_bad_input(change, message):
    given = {"px": [1.0], "draws": sample(1.0, 100, 10), **change}
    with pytest.raises(EstimationError, match=message) as caught:
        estimate(given.pop("px"), given.pop("draws"), **given)
    assert caught.value.cure


# --- at rest ------------------------------------------------------------------------
