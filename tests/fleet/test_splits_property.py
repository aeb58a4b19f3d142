"""What each split promises of its counts, for any size; and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from canary.errors import InputError
from canary.fleet.splits import halves, leave_one_out, soft_labelled, subsets, with_and_without

SIZES = st.tuples(st.integers(2, 40), st.integers(1, 6), st.integers(0, 2**32))


@given(SIZES)
def test_halves_have_exact_counts_in_both_directions(sizes):
    samples, pairs, seed = sizes
    member = halves()(np.zeros(samples, np.int64), 2 * pairs, seed).member
    assert (member.sum(axis=0) == pairs).all()
    assert set(member.sum(axis=1)) <= {samples // 2, samples - samples // 2}


def test_halves_of_two_models_agree_as_often_as_independent_ones():
    """Of 1,000 samples two models share about 250 of the 500 that each has.

    Without trades the complementary pairs would share none. With 8 models and exact counts two
    models share 500 (4 - 1) / (8 - 1) = 214 on average, with a deviation of about 10.
    """
    member = halves()(np.zeros(1000, np.int64), 8, 0).member.astype(int)
    shared = (member @ member.T)[np.triu_indices(8, 1)]
    assert abs(shared.mean() - 1500 / 7) < 1e-9
    assert shared.min() > 150
    assert shared.max() < 280


@given(SIZES)
def test_subsets_have_their_size_and_more_models_begin_with_the_same(sizes):
    samples, models, seed = sizes
    size = 1 + seed % samples
    labels = np.zeros(samples, np.int64)
    more = subsets(size)(labels, models + 1, seed).member
    assert (more.sum(axis=1) == size).all()
    assert (more[:models] == subsets(size)(labels, models, seed).member).all()


def test_leave_one_out_leaves_each_point_out_of_its_models_only():
    base = np.array([1, 1, 0, 1, 1], bool)
    drawn = leave_one_out([4, 0], member=base, target="abc")(np.zeros(5, np.int64), 6, 0)
    gone = base[None, :] & ~drawn.member
    assert gone.sum(axis=1).tolist() == [1] * 6
    assert gone.argmax(axis=1).tolist() == [4, 4, 4, 0, 0, 0]
    assert not drawn.member[:, 2].any()
    assert drawn.target == "abc"


def test_canaries_are_in_half_of_the_models_and_the_others_in_all():
    member = with_and_without([0, 7])(np.zeros(9, np.int64), 10, 3).member
    assert member.sum(axis=0).tolist() == [5, 10, 10, 10, 10, 10, 10, 5, 10]
    assert (member[:, 0] != member[:, 7]).any()  # drawn each by itself


def test_soft_labels_of_samples_that_nobody_learns_are_not_looked_at():
    probs = np.full((6, 2), 0.5)
    probs[5] = np.nan
    split = soft_labelled(subsets(3, among=np.arange(5)), probs)
    assert split(np.zeros(6, np.int64), 2, 0).soft.shape == (6, 2)


WRONG = {
    "halves of 3 models": (halves(), 3, "an even number"),
    "subsets of 7": (subsets(7), 2, "a size from 1 to 6"),
    "subsets of none": (subsets(0), 2, "a size from 1 to 6"),
    "nobody": (halves(among=[]), 2, "at least one"),
    "flags": (halves(among=[True]), 2, "a flag for each of the 6"),
    "twice": (halves(among=[1, 1]), 2, "1 of them twice"),
    "beyond": (halves(among=[1, 6]), 2, "from 0 to 5"),
    "before": (halves(among=[-1, 2]), 2, "from 0 to 5"),
    "no member": (leave_one_out([1], member=[0, 2]), 2, "sample 1 is no member"),
    "models per point": (leave_one_out([0, 1]), 3, "a multiple of 2"),
    "odd canaries": (with_and_without([1]), 3, "an even number"),
    "logits": (soft_labelled(subsets(3), np.ones((6, 2))), 2, "apply the softmax"),
    "labels": (soft_labelled(subsets(3), np.ones(6)), 2, "of all classes for every sample"),
}


@pytest.mark.parametrize("case", WRONG)
def test_refused(case):
    split, models, told = WRONG[case]
    with pytest.raises(InputError, match=told):
        split(np.zeros(6, np.int64), models, 0)
