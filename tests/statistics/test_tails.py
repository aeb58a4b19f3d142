"""Lower quantiles of a null sample, and evidence in bits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import t as student

from canary.statistics.tails import (
    bits_needed,
    gaussian_evidence,
    gaussian_quantile,
    quantile_place,
    rank_evidence,
    rank_quantile,
)


def around(null, place):
    """The order statistic at a place, counted from 1, and the next."""
    null = np.sort(np.asarray(null, np.float64))
    return null[max(place - 1, 0)], np.asarray(null[place] if place < len(null) else np.nan)


def evidence_of(null, value, rule):
    below = int(np.sum(np.asarray(null) <= value))
    given = map(np.asarray, (float(value), below, len(null), *around(null, below)))
    return float(rank_evidence(*given, rule=rule))


def level_of(null, value, rule):
    return 2.0 ** -evidence_of(null, value, rule)


def quantile(null, alpha, rule):
    place, beyond = quantile_place(alpha, np.asarray(len(null)))
    return float(rank_quantile(place, beyond, *around(null, int(place)), rule))


@pytest.mark.parametrize(
    ("value", "empirical", "linear"),
    [
        # Of 1, 2, 2, 4: none, one, three, all are at most the value, and it counts itself.
        (0.5, 1 / 5, 1 / 5),
        (1.0, 2 / 5, 1 / 5),
        (1.5, 2 / 5, 1.5 / 5),
        (2.0, 4 / 5, 3 / 5),
        (3.0, 4 / 5, 3.5 / 5),
        (4.0, 1.0, 1.0),
        (9.0, 1.0, 1.0),
    ],
)
def test_levels_by_hand_golden(value, empirical, linear):
    null = [2, 4, 1, 2]
    assert level_of(null, value, "empirical") == pytest.approx(empirical)
    assert level_of(null, value, "linear") == pytest.approx(linear)


def test_below_all_of_the_null_no_neighbour_is_read_golden():
    given = map(np.asarray, (0.0, 0, 3, -1.0, 1.0))
    assert float(rank_evidence(*given, rule="linear")) == 2.0  # 1 of 4


def test_quantiles_by_hand_golden():
    null = [2, 4, 1, 2]
    for alpha in (0.01, 0.19):  # beyond the last order statistic
        assert quantile(null, alpha, "empirical") == quantile(null, alpha, "linear") == -np.inf
    assert quantile(null, 0.2, "empirical") == np.nextafter(1, 0)
    assert quantile(null, 0.2, "linear") == pytest.approx(1.0)
    assert quantile(null, 0.3, "linear") == pytest.approx(1.5)
    assert quantile(null, 0.5, "linear") == np.nextafter(2, 0)  # within the tie
    assert quantile(null, 0.7, "linear") == pytest.approx(3.0)
    assert quantile(null, 0.8, "empirical") == np.nextafter(4, 0)
    assert quantile(null, 0.95, "linear") == np.nextafter(4, 0)  # equal losses are no evidence
    assert quantile(null, 1 - 1e-14, "empirical") == np.nextafter(4, 0)


def test_whole_numbers_of_levels_are_reached():
    # 0.29 * 100 is 28.999999999999996 in floating point.
    place, beyond = quantile_place(0.29, np.array([99]))
    assert place.tolist() == [29]
    assert beyond[0] == pytest.approx(0, abs=1e-9)


@given(
    st.lists(st.integers(0, 6), min_size=1, max_size=12),
    st.integers(-1, 7),
    st.floats(0.001, 0.999),
    st.sampled_from(["empirical", "linear"]),
)
def test_evidence_and_quantile_are_one_decision_property(null, value, alpha, rule):
    rejected = value <= quantile(null, alpha, rule)
    assert rejected == (evidence_of(null, value, rule) >= bits_needed(alpha))


@given(st.lists(st.integers(0, 5), min_size=2, max_size=12), st.floats(0.01, 0.99))
def test_exchangeable_numbers_are_rejected_at_most_alpha_property(values, alpha):
    """Of any numbers, equal or not, at most a share alpha is rejected by all the others."""
    rejected = [
        value <= quantile(values[:at] + values[at + 1 :], alpha, "empirical")
        for at, value in enumerate(values)
    ]
    assert np.mean(rejected) <= alpha + 1e-9


def test_infinities_degenerate():
    assert level_of([1.0, np.inf], 1.0, "linear") == pytest.approx(1 / 3)
    assert level_of([1.0, np.inf], 5.0, "linear") == pytest.approx(1 / 3)
    assert level_of([1.0, np.inf], np.inf, "linear") == 1.0
    assert quantile([1.0, np.inf], 0.5, "linear") == np.finfo(np.float64).max
    assert quantile([np.inf, np.inf], 0.5, "empirical") == np.finfo(np.float64).max


def test_gaussian_evidence_golden():
    z, freedom = np.array([1.0, 1.0, 40.0]), np.array([4.0, np.inf, np.inf])
    found = gaussian_evidence(z, freedom)
    # -log2 of t.sf(1, 4) = 0.186950, of Phi(-1) = 0.158655; far out it does not round to 0.
    np.testing.assert_allclose(found[:2], [2.41927, 2.65603], rtol=1e-5)
    assert 1150 < found[2] < 1170
    np.testing.assert_allclose(gaussian_evidence(z[1:], freedom[1:]), found[1:])


@given(st.floats(0.001, 0.999), st.integers(1, 50))
def test_gaussian_quantile_property(alpha, freedom):
    one = np.array([2.0]), np.array([3.0]), np.array([float(freedom)])
    at = gaussian_quantile(alpha, *one)
    assert at[0] == pytest.approx(2 + 3 * student.isf(alpha, freedom), rel=1e-6, abs=1e-6)
    assert gaussian_evidence((at + 1e-6 - 2) / 3, one[2])[0] >= bits_needed(alpha)
