"""The lower bound on epsilon: golden, against known mechanisms, and what it refuses."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from canary.statistics.epsilon import correct_guesses, epsilon_lower_bound, guessing_p_value


@functools.cache
def bound(correct, **options):
    return epsilon_lower_bound(correct, **options)


def by_definition(correct, guesses, coins, epsilon, delta):
    """Theorem 5.2, sum by sum."""
    share = math.exp(epsilon) / (1 + math.exp(epsilon))
    pmf = [stats.binom.pmf(i, guesses, share) for i in range(guesses + 1)]
    tail = sum(pmf[correct:])
    steps = [sum(pmf[correct - i : correct]) / i for i in range(1, correct + 1)]
    return min(tail + 2 * delta * coins * max(steps, default=0.0), 1.0)


@given(st.integers(1, 30), st.data(), st.floats(0, 4), st.sampled_from([0.0, 1e-6, 1e-3]))
def test_p_value_oracle(guesses, data, epsilon, delta):
    correct = data.draw(st.integers(0, guesses))
    coins = data.draw(st.integers(guesses, 60))
    found = guessing_p_value(correct, guesses=guesses, coins=coins, epsilon=epsilon, delta=delta)
    expected = by_definition(correct, guesses, coins, epsilon, delta)
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_bound_golden():
    # All of r right: share^r = 0.05, so epsilon = -ln(0.05^(-1/r) - 1).
    for r in (8, 100, 1000):
        expected = -math.log(0.05 ** (-1 / r) - 1)
        assert epsilon_lower_bound(r, guesses=r, coins=r) == pytest.approx(expected, abs=1e-9)
    # Four of four right are 1/16 by coin tosses: no evidence at 95 %.
    assert epsilon_lower_bound(4, guesses=4, coins=4) == 0.0


@settings(max_examples=50)
@given(st.integers(1, 200), st.data())
def test_the_bound_is_where_the_p_value_passes_property(guesses, data):
    correct = data.draw(st.integers(0, guesses))
    delta = data.draw(st.sampled_from([0.0, 1e-5]))
    found = epsilon_lower_bound(correct, guesses=guesses, coins=guesses, delta=delta)
    at = {"guesses": guesses, "coins": guesses, "delta": delta}
    if found:
        assert guessing_p_value(correct, epsilon=found * (1 - 1e-9), **at) <= 0.05
    assert guessing_p_value(correct, epsilon=found + 1e-6, **at) > 0.05 - 1e-9
    if delta:
        assert found <= epsilon_lower_bound(correct, guesses=guesses, coins=guesses)


@pytest.mark.parametrize("epsilon", [0.0, 1.0, 3.0])
@pytest.mark.parametrize("canaries", [16, 1000])
def test_randomised_response_coverage(epsilon, canaries):
    """Each coin is told rightly with probability e^eps / (1 + e^eps): the worst there is."""
    rng = np.random.default_rng([canaries, int(10 * epsilon)])
    runs = 4_000
    told = rng.binomial(canaries, 1 / (1 + math.exp(-epsilon)), runs)
    bounds = np.array([bound(int(n), guesses=canaries, coins=canaries) for n in told])
    above = np.mean(bounds > epsilon)
    assert above <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / runs)
    if canaries == 1000:
        assert above >= 0.03  # the bound is tight
        assert np.median(bounds) > epsilon - 0.3


@pytest.mark.parametrize("guesses", [20, 200])
def test_laplace_noise_with_abstention_coverage(guesses):
    """Scores coin + Laplace(1/eps) are eps-private; the surest guesses do not break the bound."""
    rng = np.random.default_rng(guesses)
    epsilon, runs, above, bounds = 1.5, 1_500, 0, []
    for _ in range(runs):
        coins = rng.integers(2, size=200)
        scores = coins + rng.laplace(0, 1 / epsilon, 200)
        right = correct_guesses(scores, coins, guesses=guesses)
        bounds.append(bound(right, guesses=guesses, coins=200))
        above += bounds[-1] > epsilon
    assert above / runs <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / runs)
    assert np.median(bounds) > 0.3


def test_with_a_delta_coverage():
    """Randomised response that tells everything with probability delta, in each coin."""
    rng = np.random.default_rng(4)
    epsilon, delta, coins, runs = 1.0, 0.002, 200, 2_000
    share = delta + (1 - delta) / (1 + math.exp(-epsilon))
    told = rng.binomial(coins, share, runs)
    bounds = [bound(int(n), guesses=coins, coins=coins, delta=delta) for n in told]
    assert np.mean(np.array(bounds) > epsilon) <= 0.05


def test_guesses_golden():
    heads = [True, True, False, False, True]
    assert correct_guesses([5, 4, 3, 2, 1], heads, guesses=5) == 3
    # 5 and 4 are guessed to be in, 1 to be out: right, right, wrong.
    assert correct_guesses([5, 4, 3, 2, 1], heads, guesses=3) == 2
    assert correct_guesses([5, 4, 3, 2, 1], heads, guesses=1) == 1
    # Ties by position, whatever the coins say.
    assert correct_guesses([0, 0], [False, True], guesses=2) == 0


@given(st.lists(st.booleans(), min_size=1, max_size=20), st.data())
def test_opposite_coins_make_opposite_guesses_property(heads, data):
    made = data.draw(st.integers(1, len(heads)))
    scores = data.draw(st.permutations(range(len(heads))))
    right = correct_guesses(scores, heads, guesses=made)
    wrong = correct_guesses(scores, [not h for h in heads], guesses=made)
    assert right + wrong == made
