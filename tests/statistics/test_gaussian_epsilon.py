"""The bound on epsilon of a Gaussian mechanism: the printed algorithm, published numbers, runs."""

from __future__ import annotations

import functools
import math
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq

from canary.errors import EstimationError
from canary.statistics.epsilon import (
    epsilon_lower_bound,
    gaussian_epsilon,
    too_many_for_gaussian,
)

NORMAL = NormalDist()
DELTA = 1e-5


def as_printed(c, *, guesses, coins, mu, level):
    """Algorithm 3 of arXiv:2410.22235, array by array, for the curve of normal noise."""
    r, h = [0.0] * (c + 1), [0.0] * (c + 1)
    r[c], h[c] = level * c / coins, level * (guesses - c) / coins
    for i in reversed(range(c)):
        blown = NORMAL.cdf(NORMAL.inv_cdf(min(r[i + 1], 1 - 1e-12)) - mu)
        h[i] = max(h[i + 1], blown)
        r[i] = r[i + 1] + i / (guesses - i) * (h[i] - h[i + 1])
    return r[0] + h[0] - guesses / coins


def delta_of(epsilon, mu):
    """Of a mu-Gaussian mechanism."""
    near, far = epsilon / mu - mu / 2, epsilon / mu + mu / 2
    return (math.erfc(near / 2**0.5) - math.exp(epsilon) * math.erfc(far / 2**0.5)) / 2


@functools.cache
def bounds(correct, *, guesses=200, coins=1000, delta=DELTA):
    """The bound that presumes normal noise, and the one that does not."""
    seen = {"guesses": guesses, "coins": coins, "delta": delta}
    return (
        epsilon_lower_bound(correct, **seen, mechanism="gaussian"),
        epsilon_lower_bound(correct, **seen),
    )


@given(st.integers(1, 60), st.data(), st.floats(0, 4), st.sampled_from([0.01, 0.05, 0.4]))
def test_rejection_oracle(guesses, data, mu, level):
    correct = data.draw(st.integers(0, guesses))
    coins = data.draw(st.integers(guesses, 100))
    expected = as_printed(correct, guesses=guesses, coins=coins, mu=mu, level=level)
    if abs(expected) > 1e-9:  # not on the border
        found = too_many_for_gaussian(correct, guesses=guesses, coins=coins, mu=mu, level=level)
        assert found == (expected > 0)


@given(st.floats(0.05, 5), st.sampled_from([1e-9, 1e-5, 0.01]))
def test_epsilon_of_noise_oracle(mu, delta):
    found = gaussian_epsilon(mu, delta)
    if delta_of(0.0, mu) <= delta:
        assert found == 0.0
    else:
        assert found == pytest.approx(brentq(lambda e: delta_of(e, mu) - delta, 0, 60), abs=1e-5)


def test_epsilon_of_noise_golden():
    # At epsilon 0 delta is the distance of two normals mu apart, 2 Phi(mu/2) - 1.
    apart = 2 * NORMAL.cdf(0.5) - 1
    assert gaussian_epsilon(1.0, apart - 1e-12) == pytest.approx(0.0, abs=1e-6)
    assert gaussian_epsilon(1.0, apart + 1e-12) == gaussian_epsilon(0.0, 1e-5) == 0.0


@pytest.mark.parametrize(
    ("correct", "guesses", "thresholds", "expected"),
    [(379, 406, 386, 2.164749), (934, 938, 374, 4.7218075), (5436, 5436, 140, 9.133752)],
)
def test_jax_privacy_golden(correct, guesses, thresholds, expected):
    """The examples of ``test_epsilon_one_run_close``: 20,000 coins, scores one normal apart.

    It takes the best of all thresholds at a level divided by their number; these are the best.
    """
    found = epsilon_lower_bound(
        correct, guesses=guesses, coins=20_000, delta=1e-6, confidence=1 - 0.05 / thresholds,
        mechanism="gaussian",
    )  # fmt: skip
    assert found == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize(
    ("correct", "guesses", "coins", "grid"),
    [
        (70, 80, 100, (3.290558, 3.316498)),
        (500, 800, 1000, (0.837708, 0.839996)),
        (1000, 1500, 2000, (1.199341, 1.203155)),
    ],
)
def test_privacy_guard_golden(correct, guesses, coins, grid):
    """The authors' implementation tries noises 0.01 apart: its answer, and the one before it."""
    found, _ = bounds(correct, guesses=guesses, coins=coins, delta=1e-6)
    assert grid[0] < found < grid[1]


@pytest.mark.parametrize(("epsilon", "expected"), [(4.0, (2.24, 1.40)), (8.0, (4.59, 2.78))])
def test_gaussian_training_coverage(epsilon, expected):
    """2,000 runs: each coin seen through normal noise, the surest 200 of 1,000 guessed."""
    mu = brentq(lambda mu: delta_of(epsilon, mu) - DELTA, 0.01, 20)
    rng = np.random.default_rng(int(epsilon))
    found = []
    for _ in range(2_000):
        coins = rng.random(1000) < 0.5
        order = np.argpartition(coins * mu + rng.normal(size=1000), (100, 899))
        right = coins[order[-100:]].sum() + (~coins[order[:100]]).sum()
        found.append(bounds(int(right)))
    gaussian, any_ = np.transpose(found)
    assert np.mean(gaussian > epsilon) <= 0.05
    middle = np.median(gaussian), np.median(any_)
    assert middle == pytest.approx(expected, abs=0.05)
    assert middle[0] >= 1.5 * middle[1]


def test_it_is_void_for_another_mechanism():
    """Randomised response of epsilon 1 is above what the bound for normal noise allows."""
    right = round(1000 / (1 + math.exp(-1.0)))
    gaussian, any_ = bounds(right, guesses=1000)
    assert any_ < 1.0 < gaussian


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"mechanism": "laplace"},
            "there is no bound for the mechanism 'laplace'; give \"gaussian",
        ),
        ({"delta": 0.0}, "no finite epsilon at delta 0; give the delta of the guarantee"),
        ({"delta": -1e-5}, "delta must be"),
        ({"guesses": 1001}, "expected 0 <= correct <= guesses <= coins"),
        ({"confidence": 1.0}, "confidence must be"),
    ],
)
def test_input(changed, message):
    options = {"guesses": 200, "coins": 1000, "delta": DELTA, "mechanism": "gaussian", **changed}
    with pytest.raises(EstimationError, match=message):
        epsilon_lower_bound(150, **options)
