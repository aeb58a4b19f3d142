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


@settings(max_examples=100)
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


@pytest.mark.parametrize(
    ("px", "number", "noise", "costs", "wanted"),
    [
        (2.0, 1, 0.0, [1.0, 2.0, 2.0, 3.0], (3, 3, 3)),  # the other 2 is a tie, and counts
        (5.0, 0, 0.5, [5.0, np.inf, 4.0], (2, 2, 2)),  # what is impossible comes last
    ],
)
def test_census_golden(px, number, noise, costs, wanted) -> None:
    census = Census(np.array([px]), np.array([number]), noise_bits=noise)
    census.add(np.array(costs), (0, len(costs)), lambda: np.arange(len(costs)))
    found = census.result()
    assert (found.rank[0], found.lower[0], found.upper[0]) == wanted
    assert found.candidates == len(costs)
    assert found.histogram.total == np.isfinite(costs).sum()
    elsewhere = (100, 101)  # where no canary can be, no indices are asked for
    census.add(np.array([1.0]), elsewhere, lambda: pytest.fail("indices were not needed"))
