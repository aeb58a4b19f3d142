"""Bootstrap intervals and permutation tests: against closed ones, all of them, and simulation."""

from __future__ import annotations

import math
from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from canary.statistics.resampling import (
    _Model,
    larger_in_groups,
    larger_in_pairs,
    least_in_groups,
    least_in_pairs,
    resampled,
)
from canary.statistics.roc import balanced_accuracy, roc

NUMBERS = st.integers(-20, 20).map(lambda n: n / 4)  # ties, and sums without rounding


# --- bootstrap ----------------------------------------------------------------------


def drawn(rng, models, samples, shifts=None):
    member = rng.random((models, samples)) < 0.5
    shift = np.ones(models) if shifts is None else shifts
    return rng.normal(size=(models, samples)) + shift[:, None] * member, member


def test_weights_are_repeated_samples_oracle():
    rng = np.random.default_rng(0)
    for _ in range(30):
        scores = rng.integers(0, 8, 40).astype(float)
        member, guess = rng.random(40) < 0.5, rng.random(40) < 0.5
        weight = rng.integers(0, 4, 40)
        found = _Model(scores, member, guess, (0.25, 0.5)).reached(weight)
        rows = np.repeat(np.arange(40), weight)
        curve = roc(scores[rows], member[rows])
        accuracy = balanced_accuracy(guess[rows], member[rows]).value
        rates = [curve.tpr_value(fpr) for fpr in (0.25, 0.5)]
        assert found == pytest.approx([curve.auc().value, accuracy, *rates])


def test_near_the_closed_intervals_theory():
    scores, member = drawn(np.random.default_rng(1), 1, 2000)
    guess = scores > 0.5
    found = resampled(scores[0], member[0], guess=guess[0], fprs=[0.1], replicates=600)
    curve = roc(scores[0], member[0])
    closed = (curve.auc(), balanced_accuracy(guess[0], member[0]), curve.tpr_at_fpr(0.1).tpr)
    for ours, theirs in zip((found.auc, found.accuracy, *found.tpr), closed, strict=True):
        assert ours.value == pytest.approx(theirs.value)
        assert (ours.lower, ours.upper) == pytest.approx((theirs.lower, theirs.upper), abs=0.006)


@pytest.mark.parametrize("over", ["models", "both"])
def test_new_models_coverage(over):
    # Shifts of models are N(1, 0.5): a new model has an AUC of Phi(shift / sqrt 2), and the
    # mean over models is Phi(1 / sqrt(2 + 0.25)).
    rng, runs, missed = np.random.default_rng(2), 50, 0
    truth = norm.cdf(1 / math.sqrt(2.25))
    for _ in range(runs):
        scores, member = drawn(rng, 15, 60, rng.normal(1, 0.5, 15))
        found = resampled(scores, member, over=over, replicates=40, confidence=0.9).auc
        missed += not found.lower <= truth <= found.upper
    assert missed <= 0.14 * runs + 6  # percentiles of 15 models are a little narrow


def test_interval_of_samples_alone_is_blind_to_models():
    scores, member = drawn(np.random.default_rng(3), 8, 1000, np.linspace(0, 2, 8))
    width = {}
    for over in ("samples", "models", "both"):
        found = resampled(scores, member, over=over, replicates=150, confidence=0.8)
        width[over] = found.auc.upper - found.auc.lower
    assert width["samples"] < 0.3 * width["models"]
    assert width["both"] > 0.97 * width["models"]  # models that are drawn twice count twice
    assert (found.models, found.replicates, found.accuracy, found.tpr) == (8, 150, None, ())


# --- permutations -------------------------------------------------------------------


@given(st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=6))
def test_pairs_oracle(pairs):
    seen = sum(a - b for a, b in pairs)
    swaps = product((1, -1), repeat=len(pairs))
    sums = [sum(s * (a - b) for s, (a, b) in zip(w, pairs, strict=True)) for w in swaps]
    first, second = zip(*pairs, strict=True)
    assert larger_in_pairs(first, second) == pytest.approx(np.mean([s >= seen for s in sums]))


SIDES = st.tuples(
    st.lists(NUMBERS, min_size=1, max_size=3), st.lists(NUMBERS, min_size=1, max_size=2)
)


@given(st.lists(SIDES, min_size=1, max_size=2))
def test_groups_oracle(groups):
    def lead(orders):
        return sum(
            len(a) * (sum(both[: len(a)]) / len(a) - sum(both[len(a) :]) / len(b))
            for both, (a, b) in zip(orders, groups, strict=True)
        )

    seen = lead([a + b for a, b in groups])
    orders = product(*(permutations(a + b) for a, b in groups))
    expected = np.mean([lead(o) >= seen - 1e-9 for o in orders])
    found = larger_in_groups(*zip(*groups, strict=True))
    assert found == pytest.approx(expected)
    assert found >= least_in_groups([(len(a), len(b)) for a, b in groups]) - 1e-12


def test_random_permutations_are_near_all_of_them():
    rng = np.random.default_rng(0)
    a, b = rng.normal(0.5, 1, 16), rng.normal(0, 1, 16)
    exact = larger_in_pairs(a, b)
    assert exact == pytest.approx(np.round(exact * 2**16) / 2**16)
    # One more pair that says nothing: the same p-value, now by chance.
    assert larger_in_pairs([*a, 1.0], [*b, 1.0]) == pytest.approx(exact, rel=0.1)
    # Nine of 17 differences of one size are positive: half of all ways reach as far, ties included.
    assert larger_in_pairs([1] * 9 + [0] * 8, [0] * 9 + [1] * 8) == pytest.approx(0.5, abs=0.01)
    # 9 against 9 are 48,620 ways, all tried; a group of equals makes them too many.
    all_ways = larger_in_groups([a[:9]], [b[:9]])
    one, other = [a[:9], [1.0, 1.0]], [b[:9], [1.0, 1.0]]
    assert larger_in_groups(one, other) == pytest.approx(all_ways, rel=0.1)
    assert larger_in_groups(one, other) == larger_in_groups(one, other, seed=0)


def test_the_smallest_p_values_golden():
    assert larger_in_pairs([9.0] * 5, [0.0] * 5) == least_in_pairs(5) == 1 / 32
    assert larger_in_groups([[9.0] * 3], [[0.0] * 3]) == least_in_groups([(3, 3)]) == 1 / 20
    assert larger_in_pairs([9.0] * 40, [0.0] * 40) == least_in_pairs(40) == 1e-5
    many = [[9.0] * 40]
    assert larger_in_groups(many, [[0.0] * 40]) == least_in_groups([(40, 40)]) == 1e-5


@pytest.mark.parametrize("paired", [True, False])
def test_null_rate_theory(paired):
    """Skewed numbers of the same spread on both sides: 5 % of 2,000, standard error 0.5 %."""
    first, second = np.random.default_rng(7).exponential(size=(2, 2_000, 6))
    test = larger_in_pairs if paired else lambda a, b: larger_in_groups([a], [b])
    rate = np.mean([test(a, b) <= 0.05 for a, b in zip(first, second, strict=True)])
    assert 0.03 <= rate <= 0.065


def test_a_true_difference_is_seen():
    rng = np.random.default_rng(1)
    base = rng.exponential(4, 24)
    assert larger_in_pairs(base + rng.normal(1, 0.5, 24), base) < 0.001
    assert larger_in_pairs(base, base + 1) > 0.999
    # Unpaired, the spread of the canaries hides it.
    assert larger_in_groups([base + 1], [base]) > 0.05
