"""The exact distribution of Fisher's statistic of canaries that share draws."""

from __future__ import annotations

import itertools
import math
import tracemalloc

import numpy as np
import pytest

from canary.statistics.pvalues import MOST, MOST_DRAWS, fisher, fisher_tails, urn_tails


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
    """Over all tilts, from no hits to as many as there are draws."""
    hits = np.unique(np.geomspace(1, 2001, 200).astype(int))
    found = urn_tails(np.repeat(hits[:, None], 8, axis=1) / 2001, 2000)
    assert (np.diff(found) >= -1e-12).all()
    assert found[-1] == pytest.approx(1.0)


def test_one_canary_has_its_own_p_value():
    assert fisher([3 / 201], shared_draws=200).p_value == 3 / 201


@pytest.mark.parametrize("draws", [20, 200])
def test_few_draws_lose_no_canary_that_many_would_find_property(draws):
    """8 canaries below all draws but one: what was 3e-6 and more is what it is."""
    asymptotic = fisher(np.full(8, 2.000_1 / (1 + draws)), shared_draws=draws).p_value
    exact = fisher(np.full(8, 2 / (1 + draws)), shared_draws=draws).p_value
    assert exact < asymptotic / 10


def test_other_p_values_and_more_canaries_are_compared_with_chi_square():
    rng = np.random.default_rng(0)
    ranked = rng.random((3, 8))
    assert fisher_tails(ranked, shared_draws=10**9) == pytest.approx(fisher_tails(ranked), rel=1e-6)
    many = np.full(MOST + 1, 0.5)
    assert fisher(many, shared_draws=10**9 + 1).p_value == pytest.approx(fisher(many).p_value)


def test_memory_does_not_grow_with_the_draws_regression():
    """Ten million took 80 MB a copy; a thousand million killed the process."""
    tracemalloc.start()
    found = fisher([0.5, 0.5], shared_draws=10**7 - 1).p_value
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found == pytest.approx(fisher([0.5, 0.5]).p_value, rel=0.02)
    assert peak < 10**7


@pytest.mark.parametrize("draws", [MOST_DRAWS, 2**33, 2**60, 2**200, 10**4000])
def test_any_number_of_draws_input(draws):
    """Of more than are counted out, chi-square: no float tells the number of hits."""
    assert fisher([1.0, 1.0], shared_draws=draws).p_value == pytest.approx(1.0, rel=1e-5)
