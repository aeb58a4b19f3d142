"""Fisher's p-value of groups of canaries, with and without shared draws; and Holm's of groups."""

from __future__ import annotations

import itertools
import math
import sys
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from unlearned import unlearned_hits

from canary.statistics.pvalues import MOST, MOST_DRAWS, fisher, fisher_tails, holm, urn_tails

P = st.floats(1e-12, 1.0)
LEVEL = 0.01
SPREAD = 3.5  # standard errors: 2 in 10,000 of right tests would fail by luck, one side


# --- golden and oracle --------------------------------------------------------------


def test_two_p_values_golden():
    # k = 2: Pr[chi2(4) >= t] = exp(-t/2) (1 + t/2); with p = 0.1 and 0.2, exp(-t/2) = 0.02
    # and t/2 = -ln 0.02 = 3.912023, so 0.02 * 4.912023 = 0.09824046.
    found = fisher([0.1, 0.2])
    assert found.p_value == pytest.approx(0.02 * (1 - math.log(0.02)), rel=1e-12)
    assert found.p_value == pytest.approx(0.09824046, abs=1e-8)
    assert found.statistic == pytest.approx(2 * 3.912023005428146, abs=1e-12)
    assert (found.degrees_of_freedom, found.count, found.shared_draws) == (4, 2, None)
    # 64 canaries at 60 bits: about 2^-3840, which underflows; never 0.
    assert fisher([2.0**-60] * 64).p_value == sys.float_info.min
    assert fisher([1.0, 1.0]).p_value == 1.0
    assert math.copysign(1, fisher([1.0, 1.0]).statistic) == 1


def test_correction_golden():
    # k = 3, n = 4: g = 3/4 and sqrt(1 + g) = sqrt(7)/2 = 1.3228757; three p of 1/e give
    # T = 6, the mean of chi2(6), which the correction leaves where it is.
    found = fisher([math.exp(-1)] * 3, shared_draws=4)
    assert found.statistic == pytest.approx(6.0, abs=1e-12)
    # One further down, T = 6 + 5, is drawn towards the mean: 6 + 5/1.3228757.
    found = fisher([math.exp(-1)] * 2 + [math.exp(-3.5)], shared_draws=4)
    assert found.statistic == pytest.approx(6 + 5 / (math.sqrt(7) / 2), abs=1e-12)
    assert found.shared_draws == 4


@given(st.lists(P, min_size=1, max_size=80))
def test_against_scipy_oracle(p):
    expected = stats.combine_pvalues(p, method="fisher")
    found = fisher(p)
    assert found.p_value == pytest.approx(float(expected.pvalue), rel=1e-9, abs=1e-290)
    assert found.statistic == pytest.approx(float(expected.statistic), rel=1e-12, abs=1e-12)


@given(
    st.lists(st.lists(P, min_size=3, max_size=3), min_size=1, max_size=4),
    st.none() | st.integers(1, 1000),
)
def test_many_groups_at_once_oracle(rows, draws):
    found = fisher_tails(np.array(rows), shared_draws=draws)
    alone = [fisher(row, shared_draws=draws).p_value for row in rows]
    assert found.tolist() == pytest.approx(alone, rel=1e-9, abs=1e-300)


@given(
    p=st.lists(P, min_size=1, max_size=30),
    smaller=st.floats(0.01, 1),
    draws=st.none() | st.integers(1, 10**6),
)
def test_smaller_p_values_are_more_evidence_property(p, smaller, draws):
    less = fisher(p, shared_draws=draws)
    more = fisher([p[0] * smaller, *p[1:]], shared_draws=draws)
    assert 0 < more.p_value <= less.p_value <= 1


def test_holm_golden():
    # Ascending 0.01, 0.02, 0.03, 0.5: times 4, 3, 2, 1 gives 0.04, 0.06, 0.06, 0.5.
    assert holm([0.5, 0.02, 0.01, 0.03]).tolist() == pytest.approx([0.5, 0.06, 0.04, 0.06])
    assert holm([0.4, 0.9]).tolist() == [0.8, 0.9]


@given(st.lists(P, min_size=1, max_size=8), st.floats(0.001, 0.5))
def test_holm_oracle(p, level):
    """The smallest first, each against the level over those left; the first failure ends it."""
    rejected = set()
    for done, at in enumerate(sorted(range(len(p)), key=p.__getitem__)):
        if p[at] > level / (len(p) - done):
            break
        rejected.add(at)
    adjusted = holm(p)
    below, up_to = (
        {i for i, a in enumerate(adjusted) if a <= level * (1 + slack)} for slack in (-1e-12, 1e-12)
    )
    assert below <= rejected <= up_to
    assert (adjusted >= np.array(p)).all()


# --- theory: how often what was not learned alarms at a level of 1 % ------------------


def alarms(p, groups, draws):
    """Whether any of some groups alarms, after Holm; per audit."""
    parts = np.split(p, groups, axis=1)
    tails = np.stack([fisher_tails(part, shared_draws=draws) for part in parts], axis=1)
    return tails.min(axis=1) * groups <= LEVEL  # Holm begins with the smallest


def test_the_hits_are_those_of_sorted_draws_oracle():
    rng = np.random.default_rng(1)
    fast = unlearned_hits(rng, audits=20_000, canaries=3, draws=12)
    slow = np.array([[(d <= c).sum() for c in rng.random(3)] for d in rng.random((20_000, 12))])
    for moment in (np.mean, np.var):
        assert moment(fast) == pytest.approx(moment(slow), rel=0.02)
    assert np.cov(fast.T)[0, 1] == pytest.approx(np.cov(slow.T)[0, 1], rel=0.15)


@pytest.mark.parametrize("groups", [1, 4])
@pytest.mark.parametrize("canaries", [8, 64])
@pytest.mark.parametrize("space", [10**6, 10**9, 2**80])
def test_exact_ranks_theory(canaries, groups, space):
    """Between 0.5 and 1.5 % of 5,000 audits; the standard error is 0.14 %."""
    rng = np.random.default_rng([canaries, groups, space.bit_length()])
    p = np.ceil(rng.random((5_000, canaries)) * float(space)) / space
    assert 0.005 <= alarms(p, groups, None).mean() <= 0.015


def check_shared_draws(canaries, groups, draws, audits):
    rng = np.random.default_rng([canaries, groups, draws])
    hits = unlearned_hits(rng, audits=audits, canaries=canaries, draws=draws)
    rate = alarms((1 + hits) / (1 + draws), groups, draws).mean()
    assert rate <= 0.015
    # So few that the level of 1 % itself is kept, but for the luck of the simulation.
    luck = SPREAD * np.sqrt(LEVEL / audits)
    assert rate <= LEVEL + luck
    if groups == 1:  # several share their draws, so that Holm keeps more than the level
        assert rate >= 0.95 * LEVEL - luck


@pytest.mark.parametrize("groups", [1, 4])
@pytest.mark.parametrize("draws", [20, 50, 200, 2_000, 20_000])
@pytest.mark.parametrize("canaries", [8, 64])
def test_shared_draws_theory(canaries, draws, groups):
    check_shared_draws(canaries, groups, draws, 5_000)


@pytest.mark.slow
@pytest.mark.parametrize("groups", [1, 2, 4, 8])
@pytest.mark.parametrize("draws", [20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000])
@pytest.mark.parametrize("canaries", [8, 16, 32, 64])
def test_shared_draws_grid_theory(canaries, draws, groups):
    check_shared_draws(canaries, groups, draws, 50_000)


@pytest.mark.parametrize("draws", [20, 200])
def test_some_that_were_ranked_for_certain_beside_shared_draws_theory(draws):
    """Those below all draws may be: which of the two ways is taken depends on luck, too."""
    rng, canaries = np.random.default_rng(draws), 8
    shares = np.sort(rng.random((5_000, canaries)), axis=1)
    hits = (rng.random((5_000, 1, draws)) <= shares[:, :, None]).sum(axis=-1)
    p = np.where(shares < 1 / (1 + draws), shares, np.minimum((2 + hits) / (1 + draws), 1.0))
    found = np.array([fisher(row, shared_draws=draws).p_value for row in p])
    assert (found <= LEVEL).mean() <= LEVEL + SPREAD * np.sqrt(LEVEL / 5_000)


def test_plain_fisher_alarms_too_often_where_the_correction_does_not_theory():
    """The reason for the correction: 256 canaries on 200 draws, too many for the exact one."""
    hits = unlearned_hits(np.random.default_rng(11), audits=2_000, canaries=256, draws=200)
    p = (1 + hits) / 201
    assert alarms(p, 1, None).mean() > 0.02
    assert alarms(p, 1, 200).mean() <= 0.015


@pytest.mark.parametrize("draws", [200, 20_000])
def test_the_correction_changes_no_verdict_where_all_come_from_bounds_theory(draws):
    """Each p-value is at most 1 / (1 + draws) there; the corrected statistic grows as they fall."""
    for canaries in (1, 2, 3, 10, 100, 1000, 10_000):
        largest = [1 / (1 + draws)] * canaries
        assert fisher(largest, shared_draws=draws).p_value <= 0.01


# --- the exact distribution of canaries that share draws ------------------------------


@pytest.mark.parametrize(("draws", "canaries"), [(6, 3), (9, 4), (3, 6), (30, 2), (1, 5)])
def test_all_multisets_of_hits_oracle(draws, canaries):
    """Each is as likely; a p-value is the share of those that are as far out."""
    hits = np.array(list(itertools.combinations_with_replacement(range(draws + 1), canaries)))
    p = (1 + hits) / (1 + draws)
    found = urn_tails(p, draws)
    step = math.sqrt(canaries) / 64
    sums = np.rint(-np.log(p) / step).sum(axis=1)
    wanted = (sums[None, :] >= sums[:, None]).mean(axis=1)
    assert found == pytest.approx(wanted, rel=1e-9)


@pytest.mark.parametrize(
    ("draws", "canaries"), [(50, 8), (200, 64), (20_000, 2), (20_000, 8), (20_000, 64), (500, MOST)]
)
def test_no_hits_at_all_golden(draws, canaries):
    """One multiset of all, down to 1e-270: the tails that only a tilt keeps."""
    sets = math.lgamma(draws + canaries + 1) - math.lgamma(draws + 1) - math.lgamma(canaries + 1)
    found = fisher(np.full(canaries, 1 / (1 + draws)), shared_draws=draws).p_value
    assert found == pytest.approx(math.exp(-sets), rel=1e-6)


def test_more_hits_never_make_it_smaller_property():
    """Over all tilts, from no hits to as many as there are draws; one canary has its own."""
    hits = np.unique(np.geomspace(1, 2001, 200).astype(int))
    found = urn_tails(np.repeat(hits[:, None], 8, axis=1) / 2001, 2000)
    assert (np.diff(found) >= -1e-12).all()
    assert found[-1] == pytest.approx(1.0)
    assert fisher([3 / 201], shared_draws=200).p_value == 3 / 201


@pytest.mark.parametrize("draws", [20, 200])
def test_few_draws_lose_no_canary_that_many_would_find_property(draws):
    """8 canaries below all draws but one: what was 3e-6 and more is what it is."""
    asymptotic = fisher(np.full(8, 2.000_1 / (1 + draws)), shared_draws=draws).p_value
    exact = fisher(np.full(8, 2 / (1 + draws)), shared_draws=draws).p_value
    assert exact < asymptotic / 10


def test_other_p_values_and_more_canaries_are_compared_with_chi_square():
    ranked = np.random.default_rng(0).random((3, 8))
    assert fisher_tails(ranked, shared_draws=10**9) == pytest.approx(fisher_tails(ranked), rel=1e-6)
    many = np.full(MOST + 1, 0.5)
    assert fisher(many, shared_draws=10**9 + 1).p_value == pytest.approx(fisher(many).p_value)
    # Of more draws than are counted out no float tells the number of hits.
    for draws in (MOST_DRAWS, 2**33, 2**60, 2**200, 10**4000):
        assert fisher([1.0, 1.0], shared_draws=draws).p_value == pytest.approx(1.0, rel=1e-5)


def test_memory_does_not_grow_with_the_draws_regression():
    """Ten million took 80 MB a copy; a thousand million killed the process."""
    tracemalloc.start()
    found = fisher([0.5, 0.5], shared_draws=10**7 - 1).p_value
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found == pytest.approx(fisher([0.5, 0.5]).p_value, rel=0.02)
    assert peak < 10**7
