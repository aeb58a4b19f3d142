"""Tests by permutation: against all permutations, and how often they alarm."""

from __future__ import annotations

from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from canary.errors import EstimationError
from canary.statistics.resampling import (
    larger_in_groups,
    larger_in_pairs,
    least_in_groups,
    least_in_pairs,
)

NUMBERS = st.integers(-20, 20).map(lambda n: n / 4)  # ties, and sums without rounding


@given(st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=6))
def test_pairs_oracle(pairs):
    seen = sum(a - b for a, b in pairs)
    swaps = product((1, -1), repeat=len(pairs))
    sums = [sum(s * (a - b) for s, (a, b) in zip(w, pairs, strict=True)) for w in swaps]
    first, second = zip(*pairs, strict=True)
    assert larger_in_pairs(first, second) == pytest.approx(np.mean([s >= seen for s in sums]))


@given(
    st.lists(
        st.tuples(
            st.lists(NUMBERS, min_size=1, max_size=3), st.lists(NUMBERS, min_size=1, max_size=2)
        ),
        min_size=1,
        max_size=2,
    )
)
def test_groups_oracle(groups):
    def lead(orders):
        return sum(
            len(a) * (np.mean(both[: len(a)]) - np.mean(both[len(a) :]))
            for both, (a, _) in zip(orders, groups, strict=True)
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
    groups = ([a[:8], a[8:]], [b[:8], b[8:]])
    assert larger_in_groups(*groups) == larger_in_groups(*groups, seed=0)
    # 9 against 9 are 48,620 ways, all tried; a group of equals makes them too many.
    all_ways = larger_in_groups([a[:9]], [b[:9]])
    drawn = larger_in_groups([a[:9], [1.0, 1.0]], [b[:9], [1.0, 1.0]])
    assert drawn == pytest.approx(all_ways, rel=0.1)


def test_the_smallest_p_values():
    assert larger_in_pairs([9.0] * 5, [0.0] * 5) == least_in_pairs(5) == 1 / 32
    assert larger_in_groups([[9.0] * 3], [[0.0] * 3]) == least_in_groups([(3, 3)]) == 1 / 20
    assert larger_in_pairs([9.0] * 40, [0.0] * 40) == least_in_pairs(40) == 1e-5
    many = [[9.0] * 40]
    assert larger_in_groups(many, [[0.0] * 40]) == least_in_groups([(40, 40)]) == 1e-5


@pytest.mark.parametrize("paired", [True, False])
def test_null_rate_theory(paired):
    """Skewed numbers of the same spread on both sides: 5 % of 2,000, standard error 0.5 %."""
    rng = np.random.default_rng(7)
    first, second = rng.exponential(size=(2, 2_000, 6))
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


@pytest.mark.parametrize(
    ("function", "first", "second"),
    [
        (larger_in_pairs, [1.0], [1.0, 2.0]),
        (larger_in_pairs, [], []),
        (larger_in_pairs, [np.nan], [1.0]),
        (larger_in_groups, [], []),
        (larger_in_groups, [[1.0]], [[]]),
        (larger_in_groups, [[np.inf]], [[1.0]]),
    ],
)
def test_input(function, first, second):
    with pytest.raises(EstimationError, match=f"^{function.__name__}: "):
        function(first, second)
