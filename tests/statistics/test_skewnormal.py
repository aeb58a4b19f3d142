"""The skew-normal curve: its integrals against arbitrary precision."""

from __future__ import annotations

import itertools
import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

from canary.statistics.skewnormal import SkewNormal, log_integral

LN2 = math.log(2)


def owen(z, shape):
    """F = Phi(z) - 2 T(z, a) with so many digits that some are left."""
    with mp.workdps(40 + int(0.25 * z * z * (1 + shape * shape))):
        h, a = mp.mpf(z), mp.mpf(shape)
        t = mp.quad(
            lambda x: mp.exp(-h * h * (1 + x * x) / 2) / (1 + x * x),
            mp.linspace(0, a, 13),
            method="gauss-legendre",
        )
        return mp.erfc(-h / mp.sqrt(2)) / 2 - t / mp.pi


# --- golden -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "z", "bits"),
    [
        # mpmath 1.3 at 600 digits: -log2(Phi(z) - 2 T(z, 3)), T by Gauss-Legendre over
        # (0, 3) in 40 parts.
        (3.0, -2.3, 47.20059636639473239279),
        (3.0, -6.2, 289.1204778563099875729),
        (3.0, -12.8, 1195.773041471497995177),
        (5.0, -9.0, 1534.173671027443528429),
        # F(z; -3) = 2 Phi(z) - F(z; 3), and F(z; 3) is below 2^-500 here: -log2 erfc(-z/sqrt 2).
        (-3.0, -8.2, 51.88549045503680929230),
        (-3.0, -20.2, 299.0041879602802630030),
        (-3.0, -40.7, 1200.578528719617532188),
    ],
)
def test_tail_golden(shape, z, bits):
    found = -log_integral(-np.inf, z, shape) / LN2
    assert found == pytest.approx(bits, rel=1e-14, abs=1e-12)
    # Beyond 1,074 bits no float64 holds the probability itself, and its logarithm is lost.
    if bits > 1074:
        assert stats.skewnorm.cdf(z, shape) == 0.0


def test_half_normal_golden():
    # F(z; inf) = erf(z / sqrt 2) for z > 0 and 0 below; F(z; -inf) = 2 Phi(z) up to 0.
    right = SkewNormal(10.0, 2.0, math.inf)
    assert right.log_integral(-np.inf, 12.0) == pytest.approx(math.log(math.erf(math.sqrt(0.5))))
    assert right.log_integral(-np.inf, [10.0, 9.0]).tolist() == [-math.inf] * 2
    assert right.log_density([9.0, 10.0]).tolist() == [
        -math.inf, pytest.approx(math.log(2 / 2 / math.sqrt(2 * math.pi)))
    ]  # fmt: skip
    left = SkewNormal(10.0, 2.0, -math.inf)
    assert left.log_integral(-np.inf, 8.0) == pytest.approx(math.log(2 * stats.norm.cdf(-1)))
    assert left.log_integral(-np.inf, 11.0) == pytest.approx(0.0, abs=1e-13)


def test_moments_golden():
    # shape 1: delta = 1/sqrt 2, mean = delta sqrt(2/pi) = 1/sqrt pi, variance 1 - 1/pi.
    curve = SkewNormal(3.0, 2.0, 1.0)
    assert curve.mean_bits == pytest.approx(3 + 2 / math.sqrt(math.pi))
    assert curve.sd_bits == pytest.approx(2 * math.sqrt(1 - 1 / math.pi))


# --- oracle -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("z", "shape"),
    [
        *itertools.product([-4.0, -0.01, 0.7], [0.0, 1.7]),
        *((-1.0, 5.0), (0.02, 5.0), (3.0, 0.3)),
        (-9.0, 1.7),  # for 5.0 it takes 566 digits: see above
    ],
)
def test_cumulative_oracle(z, shape):
    f = owen(z, shape)
    assert log_integral(-np.inf, z, shape) == pytest.approx(float(mp.log(f)), rel=1e-13, abs=1e-13)
    with mp.workdps(60):
        # F(z; -a) = 2 Phi(z) - F(z; a)
        mirrored = float(mp.log(mp.erfc(-mp.mpf(z) / mp.sqrt(2)) - f))
    assert log_integral(-np.inf, z, -shape) == pytest.approx(mirrored, rel=1e-12, abs=1e-13)


@pytest.mark.parametrize("shape", [0.0, 2.0, -2.0, 40.0, -40.0])
@pytest.mark.parametrize(("low", "high"), [(-3, -2.5), (-0.2, 0.1), (0.4, 2.0), (-2, 2)])
def test_between_two_points_oracle(shape, low, high):
    wanted, _ = integrate.quad(
        lambda z: stats.skewnorm.pdf(z, shape), low, high, points=[0.0], epsabs=1e-300, epsrel=1e-11
    )
    if wanted > 1e-250:
        assert log_integral(low, high, shape) == pytest.approx(math.log(wanted), abs=1e-8)


@pytest.mark.parametrize("shape", [0.0, 3.0, -3.0, 100.0, math.inf, -math.inf])
def test_bulk_agrees_with_tail_oracle(shape):
    curve = SkewNormal(30.0, 2.0, shape)
    x = np.linspace(22, 40, 37)
    # The half-normal curve has nothing on one side, and there the logarithm is -inf.
    np.testing.assert_allclose(
        curve.cumulative(x), np.exp(curve.log_integral(-np.inf, x)), atol=1e-14
    )


# --- property -----------------------------------------------------------------------

SHAPES = st.one_of(st.floats(-1e4, 1e4), st.sampled_from([math.inf, -math.inf, 0.0]))
PLACES = st.floats(-60, 60)


@given(SHAPES, st.lists(PLACES, min_size=3, max_size=3))
def test_parts_add_up_property(shape, places):
    a, b, c = sorted(places)
    parts = np.logaddexp(log_integral(a, b, shape), log_integral(b, c, shape))
    whole = log_integral(a, c, shape)
    assert whole == pytest.approx(parts, rel=1e-11, abs=1e-11)
    assert whole <= 1e-13
    assert log_integral(c, a, shape) == -math.inf or a == c


@given(SHAPES, PLACES, PLACES)
def test_mirror_property(shape, a, b):
    low, high = sorted((a, b))
    there, back = log_integral(low, high, shape), log_integral(-high, -low, -shape)
    assert there == pytest.approx(back, rel=1e-12, abs=1e-12)


@given(st.floats(-200, 200), st.floats(-1000, 40))
def test_finite_wherever_the_answer_is_property(shape, z):
    assert np.isfinite(log_integral(-np.inf, z, shape))


def test_broadcasting_and_chunks_property():
    z = np.linspace(-5, 5, 7)
    shapes = np.array([[-2.0], [0.0], [3.0]])
    table = log_integral(-np.inf, z, shapes)
    assert table.shape == (3, 7)
    for i, shape in enumerate(shapes[:, 0]):
        np.testing.assert_allclose(table[i], log_integral(-np.inf, z, shape), atol=1e-15)
    many = np.linspace(-30, 5, 50_000)
    one_by_one = [log_integral(-np.inf, x, 2.0) for x in many[::5000]]
    np.testing.assert_allclose(log_integral(-np.inf, many, 2.0)[::5000], one_by_one, rtol=1e-15)


def test_empty_and_extreme_degenerate():
    assert log_integral([], 1.0, 2.0).shape == (0,)
    assert log_integral(-np.inf, np.inf, [5.0, 0.0, -1e200]) == pytest.approx([0, 0, 0], abs=1e-13)
    assert log_integral(2.0, 2.0, 1.0) == -math.inf
    assert log_integral(-np.inf, -1.0, 1e200) == -math.inf
