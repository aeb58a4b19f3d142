"""Fisher's p-value, with and without shared draws."""

from __future__ import annotations

import math
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from canary.errors import EstimationError
from canary.statistics.exposures import exposure_by_draws
from canary.statistics.pvalues import fisher, fisher_tails, holm

P = st.floats(1e-12, 1.0)


def shared_p(rng, *, canaries, draws):
    """p-values of unlearned canaries that share draws."""
    found = exposure_by_draws(rng.random(canaries), rng.random(draws), space_size=10**12)
    return [e.p_value for e in found]


# --- golden and oracle --------------------------------------------------------------


def test_two_p_values_golden():
    # k = 2: Pr[chi2(4) >= t] = exp(-t/2) (1 + t/2); with p = 0.1 and 0.2, exp(-t/2) = 0.02
    # and t/2 = -ln 0.02 = 3.912023, so 0.02 * 4.912023 = 0.09824046.
    found = fisher([0.1, 0.2])
    assert found.p_value == pytest.approx(0.02 * (1 - math.log(0.02)), rel=1e-12)
    assert found.p_value == pytest.approx(0.09824046, abs=1e-8)
    assert found.statistic == pytest.approx(2 * 3.912023005428146, abs=1e-12)
    assert (found.degrees_of_freedom, found.count, found.shared_draws) == (4, 2, None)


def test_correction_golden():
    # k = 3, n = 4: g = 3/4 and sqrt(1 + g) = sqrt(7)/2 = 1.3228757; three p of 1/e give
    # T = 6, the mean of chi2(6), which the correction leaves where it is.
    found = fisher([math.exp(-1)] * 3, shared_draws=4)
    assert found.statistic == pytest.approx(6.0, abs=1e-12)
    # One further down, T = 6 + 5, is drawn towards the mean: 6 + 5/1.3228757.
    found = fisher([math.exp(-1)] * 2 + [math.exp(-3.5)], shared_draws=4)
    assert found.statistic == pytest.approx(6 + 5 / (math.sqrt(7) / 2), abs=1e-12)
    assert found.shared_draws == 4


def test_exposure_in_bits_theory():
    # 2 ln 2 times the sum of exposures is the statistic.
    bits = np.array([1.0, 4.0, 19.9])
    assert fisher(2.0**-bits).statistic == pytest.approx(2 * math.log(2) * bits.sum(), rel=1e-12)


@given(st.lists(P, min_size=1, max_size=80))
def test_against_scipy_oracle(p):
    expected = stats.combine_pvalues(p, method="fisher")
    found = fisher(p)
    assert found.p_value == pytest.approx(float(expected.pvalue), rel=1e-9, abs=1e-290)
    assert found.statistic == pytest.approx(float(expected.statistic), rel=1e-12, abs=1e-12)


# --- theory: the null rate ----------------------------------------------------------


def test_null_rate_of_exact_p_values_theory():
    # Ranks uniform on 1..10^6: 20,000 runs of 16 canaries give 1 % +- 0.07 %.
    rng = np.random.default_rng(7)
    p = rng.integers(1, 10**6 + 1, size=(20_000, 16)) / 10**6
    alarms = np.mean(fisher_tails(p) <= 0.01)
    assert 0.005 <= alarms <= 0.015


def test_plain_fisher_alarms_too_often_where_the_correction_does_not_theory():
    # The reason for the correction: 256 canaries on 200 draws.
    rng = np.random.default_rng(11)
    samples = np.array([shared_p(rng, canaries=256, draws=200) for _ in range(1_000)])
    plain = np.mean(fisher_tails(samples) <= 0.01)
    corrected = np.mean(fisher_tails(samples, shared_draws=200) <= 0.01)
    assert plain > 0.02
    assert corrected <= 0.015


# --- several groups ------------------------------------------------------------------


def test_holm_golden():
    # Ascending 0.01, 0.02, 0.03, 0.5: times 4, 3, 2, 1 gives 0.04, 0.06, 0.06, 0.5.
    assert holm([0.5, 0.02, 0.01, 0.03]).tolist() == pytest.approx([0.5, 0.06, 0.04, 0.06])
    assert holm([0.4, 0.9]).tolist() == [0.8, 0.9]
    assert holm([0.3]).tolist() == [0.3]
    with pytest.raises(EstimationError, match="^holm: "):
        holm([0.0])


def holm_by_steps(p, level):
    """The smallest first, each against the level over those left; the first failure ends it."""
    rejected = set()
    for done, at in enumerate(sorted(range(len(p)), key=p.__getitem__)):
        if p[at] > level / (len(p) - done):
            break
        rejected.add(at)
    return rejected


@given(st.lists(P, min_size=1, max_size=8), st.floats(0.001, 0.5))
def test_holm_oracle(p, level):
    adjusted = holm(p)
    assert {i for i, a in enumerate(adjusted) if a <= level * (1 - 1e-12)} <= holm_by_steps(
        p, level
    )
    assert holm_by_steps(p, level) <= {
        i for i, a in enumerate(adjusted) if a <= level * (1 + 1e-12)
    }
    assert (adjusted >= np.array(p)).all()


@given(
    st.lists(st.lists(P, min_size=3, max_size=3), min_size=1, max_size=4),
    st.none() | st.integers(1, 1000),
)
def test_many_groups_at_once_oracle(rows, draws):
    found = fisher_tails(np.array(rows), shared_draws=draws)
    alone = [fisher(row, shared_draws=draws).p_value for row in rows]
    assert found.tolist() == pytest.approx(alone, rel=1e-9, abs=1e-300)


# --- properties ---------------------------------------------------------------------


@given(
    p=st.lists(P, min_size=1, max_size=30),
    smaller=st.floats(0.01, 1),
    draws=st.none() | st.integers(1, 10**6),
)
def test_smaller_p_values_are_more_evidence_property(p, smaller, draws):
    less = fisher(p, shared_draws=draws)
    more = fisher([p[0] * smaller, *p[1:]], shared_draws=draws)
    assert 0 < more.p_value <= less.p_value <= 1


# --- degenerate ---------------------------------------------------------------------


def test_no_evidence_at_all_degenerate():
    found = fisher([1.0, 1.0])
    assert found.p_value == 1.0
    assert math.copysign(1, found.statistic) == 1


def test_beyond_floats_degenerate():
    # 64 canaries at 60 bits: about 2^-3840, which underflows; never 0.
    assert fisher([2.0**-60] * 64).p_value == sys.float_info.min


# --- input --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("p", "draws", "message"),
    [
        ([], None, r"at least one number in one dimension, got shape \(0,\)"),
        ([[0.1]], None, r"got shape \(1, 1\)"),
        (0.1, None, r"got shape \(\)"),
        ([0.5, 0.0], None, r"got 0.0 at position 1; count the canary itself"),
        ([1.1], None, r"got 1.1 at position 0"),
        ([math.nan], None, r"got nan at position 0"),
        (["a"], None, r"p_values must hold numbers"),
        ([0.1], 0, r"shared_draws must be a positive integer, got 0"),
        ([0.1], 2.5, r"shared_draws must be a positive integer, got 2.5"),
    ],
)
def test_input(p, draws, message):
    with pytest.raises(EstimationError, match="^fisher: .*" + message):
        fisher(p, shared_draws=draws)


@pytest.mark.parametrize("draws", [200, 20_000])
def test_the_correction_changes_no_verdict_where_all_come_from_bounds_theory(draws):
    """Each p-value is at most 1 / (1 + draws) there; the corrected statistic grows as they fall."""
    for canaries in (1, 2, 3, 10, 100, 1000, 10_000):
        largest = [1 / (1 + draws)] * canaries
        assert fisher(largest, shared_draws=draws).p_value <= 0.01
