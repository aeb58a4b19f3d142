"""Maximum likelihood for the skew-normal curve."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from canary.errors import EstimationError
from canary.statistics import skewfit
from canary.statistics.skewfit import fit_skew_normal, refit_skew_normal
from canary.statistics.skewnormal import SkewNormal


def sample(shape, n, *, seed=0, location=30.0, scale=2.0):
    rng = np.random.default_rng(seed)
    if math.isinf(shape):
        return location + scale * math.copysign(1, shape) * np.abs(rng.normal(size=n))
    return stats.skewnorm.rvs(shape, location, scale, n, random_state=rng)


def log_likelihood(px, curve):
    return float(np.sum(curve.log_density(px)))


@pytest.mark.parametrize("shape", [-8.0, -2.0, 1.5, 5.0])
def test_parameters_are_recovered_theory(shape):
    found = fit_skew_normal(sample(shape, 200_000))
    assert found.location_bits == pytest.approx(30, abs=0.05)
    assert found.scale_bits == pytest.approx(2, rel=0.02)
    assert found.shape == pytest.approx(shape, rel=0.06)


@pytest.mark.parametrize("n", [20, 300, 10_000])
@pytest.mark.parametrize("shape", [0.0, -1.0, 3.0, 300.0, math.inf])
def test_as_likely_as_scipys_fit_or_likelier_oracle(shape, n):
    px = sample(shape, n, seed=n)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        a, location, scale = stats.skewnorm.fit(px)
    theirs = stats.skewnorm.logpdf(px, a, location, scale).sum()
    assert log_likelihood(px, fit_skew_normal(px)) >= theirs - 1e-6


@pytest.mark.parametrize("shape", [0.2, -3.0, 25.0])
def test_no_neighbour_is_likelier_theory(shape):
    px = sample(shape, 30_000, seed=3)
    found = fit_skew_normal(px)
    best = log_likelihood(px, found)
    for name in ("location_bits", "scale_bits", "shape"):
        for factor in (0.999, 0.99999, 1.00001, 1.001):
            other = {**vars(found), name: vars(found)[name] * factor}
            assert log_likelihood(px, SkewNormal(**other)) <= best + 1e-6


def test_the_second_maximum_is_not_taken_for_the_first_regression():
    # The likelihood of this sample falls on the way from 28 to a thousand and rises again.
    px = stats.skewnorm.rvs(30, size=1000, random_state=np.random.default_rng(5))
    assert 20 < fit_skew_normal(px).shape < 40


def test_bins_are_corrected_on_all_the_numbers_oracle(monkeypatch):
    # Two numbers far away leave the others in a handful of bins, which blurs them.
    px = np.concatenate([sample(3.0, 20_000, seed=9), [3_000.0, 3_100.0]])
    best = log_likelihood(px, fit_skew_normal(px))
    monkeypatch.setattr(skewfit, "_BINS", 16)
    points, weights = skewfit._condense(px, ends=0)
    blurred = fit_skew_normal(np.repeat(points, weights.astype(int)))
    assert best > log_likelihood(px, blurred) + 1.0
    assert log_likelihood(px, fit_skew_normal(px)) == pytest.approx(best, abs=1e-4)


def test_rising_likelihood_ends_in_the_half_normal_golden():
    # All z > 0 is possible with Phi(shape z) -> 1: location min, scale the root mean square.
    px = np.array([1.0] * 5 + [2.0] * 8 + [3.0] * 4 + [5.0, 6.0, 8.0])
    found = fit_skew_normal(px)
    assert (found.shape, found.location_bits) == (math.inf, 1.0)
    assert found.scale_bits == pytest.approx(math.sqrt(np.mean((px - 1) ** 2)))
    mirrored = fit_skew_normal(-px)
    assert (mirrored.shape, mirrored.location_bits) == (-math.inf, -1.0)


def test_spread_within_the_noise_is_not_fitted_input():
    px = sample(2.0, 40, scale=1e-4)
    assert fit_skew_normal(px, noise_bits=1e-5).scale_bits < 1e-3
    with pytest.raises(EstimationError, match=r"no more than the noise of the model, 0\.001 bits"):
        fit_skew_normal(px, noise_bits=1e-3)


@settings(max_examples=60)
@given(hnp.arrays(np.float64, st.integers(20, 60), elements=st.floats(0, 200)))
def test_whatever_varies_has_a_curve_property(px):
    try:
        found = fit_skew_normal(px)
    except EstimationError:
        # Nearly equal, or one far away and the others the same beside it.
        x = np.unique(np.round((px - px.mean()) / max(px.std(), 1e-5), 6))
        assert len(x) < 4
        return
    assert found.scale_bits > 0
    # At least as likely as the normal curve, which is one of the family.
    normal = SkewNormal(float(px.mean()), float(px.std()), 0.0)
    assert log_likelihood(px, found) >= log_likelihood(px, normal) - 1e-6


@given(st.integers(0, 50), st.floats(-100, 100), st.floats(0.01, 100))
@settings(max_examples=20)
def test_moves_with_its_data_property(seed, shift, factor):
    px = sample(2.0, 200, seed=seed)
    a, b = fit_skew_normal(px), fit_skew_normal(shift + factor * px)
    assert b.mean_bits == pytest.approx(shift + factor * a.mean_bits, rel=1e-5, abs=1e-5)
    assert b.sd_bits == pytest.approx(factor * a.sd_bits, rel=1e-5)


# --- bootstrap ----------------------------------------------------------------------


def refit(px, replicates):
    rng = np.random.default_rng(0)
    return refit_skew_normal(px, fit_skew_normal(px), replicates=replicates, rng=rng)


def test_replicates_spread_like_new_samples_theory():
    draws = [fit_skew_normal(sample(3.0, 2000, seed=s)) for s in range(50)]
    _, scale, shape = refit(sample(3.0, 2000, seed=100), 300)
    assert np.std(shape) == pytest.approx(np.std([d.shape for d in draws]), rel=0.35)
    assert np.std(scale) == pytest.approx(np.std([d.scale_bits for d in draws]), rel=0.35)


def test_replicates_at_the_limit_degenerate():
    px = sample(math.inf, 500, seed=4)
    location, scale, shape = refit(px, 50)
    assert np.isfinite(location).all()
    assert (scale > 0).all()
    assert np.isposinf(shape).any()
    assert (location[np.isposinf(shape)] >= px.min() - 1e-9).all()


def test_a_curve_that_hangs_on_a_few_numbers_has_no_replicates_degenerate():
    with pytest.raises(EstimationError, match="it hangs on a few of them"):
        refit(np.array([30.0] * 200 + [28.0, 29.0, 31.0]), 50)
