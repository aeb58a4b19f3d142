"""The search of thresholds against trying every one."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from canary.membership.attacking import learn_thresholds

NUMBER = st.sampled_from([-math.inf, -1.0, 0.0, 0.5, 1.0, 2.0, math.inf])
SAMPLES = st.lists(
    st.tuples(NUMBER, st.booleans(), st.integers(0, 3)), min_size=2, max_size=24
).filter(lambda rows: len({m for _, m, _ in rows}) == 2)


def best_by_trying(values, member):
    """Nobody, or the highest threshold of the best balanced accuracy."""
    members, nonmembers = member.sum(), (~member).sum()
    best, most = math.nan, 0
    for threshold in sorted(set(values), reverse=True):
        called = values >= threshold
        gain = (called & member).sum() * nonmembers - (called & ~member).sum() * members
        if gain > most:
            best, most = threshold, gain
    return best


@given(SAMPLES)
def test_every_threshold_was_tried(rows):
    values, member, label = (np.array(column) for column in zip(*rows, strict=True))
    found = learn_thresholds(values, member, label, classes=5)
    for one in range(5):
        mine = label == one
        both = mine.any() and len(set(member[mine])) == 2
        assert found.pooled[one] == (not both)
        chosen = mine if both else np.ones_like(mine)
        np.testing.assert_equal(found.values[one], best_by_trying(values[chosen], member[chosen]))


def test_ties_are_called_together():
    # 3 members and 1 nonmember share the value 1: all four, or nobody.
    values = np.array([1.0, 1.0, 1.0, 1.0, 0.0])
    member = np.array([True, True, True, False, False])
    found = learn_thresholds(values, member, np.zeros(5, int), classes=1)
    assert found.values.tolist() == [1.0]
