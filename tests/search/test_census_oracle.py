"""Ranks counted in a stream against ranks counted on the whole array."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from canary.search.rank_counter import Census


def brute(costs, index, px, noise):
    """Rank, lower and upper of each canary, the canary counted by identity."""
    rows = []
    for i, own in zip(index, px, strict=True):
        others = np.delete(costs, i)
        rank = 1 + int((others <= own).sum())
        lower, upper = 1 + int((others < own - noise).sum()), 1 + int((others <= own + noise).sum())
        rows.append((rank, lower, upper) if noise else (rank, rank, rank))
    return np.array(rows).reshape(-1, 3)


@settings(deadline=None, max_examples=200)
@given(st.data())
def test_census_oracle(data) -> None:
    """Any costs with many ties, any chunks, any noise, and costs that moved a little."""
    size = data.draw(st.integers(1, 60))
    costs = np.array(data.draw(st.lists(st.integers(0, 12), min_size=size, max_size=size))) / 4
    index = np.array(data.draw(st.lists(st.integers(0, size - 1), min_size=0, max_size=6)), int)
    noise = data.draw(st.sampled_from([0.0, 0.1, 0.25, 1.0]))
    shift = data.draw(st.sampled_from([0.0, 0.05, 0.3, -0.3])) if noise else 0.0
    px = costs[index] + shift  # what the walk said along the canary's own path
    keep = np.array(data.draw(st.lists(st.integers(0, size - 1), unique=True)), int)
    census = Census(px, index, noise_bits=noise, keep=keep)
    cuts = sorted(data.draw(st.lists(st.integers(0, size), max_size=4)))
    edges = [0, *cuts, size]
    for a, b in itertools.pairwise(edges):
        order = np.random.default_rng(a).permutation(np.arange(a, b))
        if data.draw(st.booleans()):  # counted apart, kept, and added
            part = census.part()
            part.add(costs[order], (a, b), order.copy)
            census.merge(json.loads(json.dumps(part.to_dict(), allow_nan=False)))
        else:
            census.add(costs[order], (a, b), order.copy)
    found = census.result()
    np.testing.assert_array_equal(found.kept_bits, np.sort(costs[keep]))
    wanted = brute(costs, index, px, noise)
    np.testing.assert_array_equal(found.rank, wanted[:, 0])
    np.testing.assert_array_equal(found.lower, wanted[:, 1])
    np.testing.assert_array_equal(found.upper, wanted[:, 2])
    assert found.candidates == size
    assert found.histogram.total == size


def test_census_golden() -> None:
    """Costs 1, 2, 2, 3 with the canary on the first 2: the other 2 is a tie and counts."""
    census = Census(np.array([2.0]), np.array([1]), noise_bits=0.0)
    census.add(np.array([1.0, 2.0, 2.0, 3.0]), (0, 4), lambda: np.arange(4))
    found = census.result()
    assert (found.rank[0], found.lower[0], found.upper[0]) == (3, 3, 3)


def test_census_degenerate_impossible_candidates_are_counted_last() -> None:
    """A candidate of probability 0 costs infinity: above everybody, but a candidate."""
    census = Census(np.array([5.0]), np.array([0]), noise_bits=0.5)
    census.add(np.array([5.0, np.inf, 4.0]), (0, 3), lambda: np.arange(3))
    found = census.result()
    assert (found.lower[0], found.rank[0], found.upper[0]) == (2, 2, 2)
    assert found.candidates == 3
    assert found.histogram.total == 2


def test_census_asks_for_indices_only_where_a_canary_may_be() -> None:
    census = Census(np.array([2.0]), np.array([7]), noise_bits=0.0)
    census.add(np.array([1.0]), (0, 1), lambda: pytest.fail("indices were not needed"))
