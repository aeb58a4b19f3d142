"""The histogram that fills chunk by chunk."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from canary.statistics.histogram import Histogram, HistogramBuilder

VALUES = hnp.arrays(
    np.float64, st.integers(0, 50), elements=st.floats(-100, 3_000, allow_nan=False)
)


def build(*chunks, width=0.125):
    builder = HistogramBuilder(width)
    for chunk in chunks:
        builder.add(np.asarray(chunk, np.float64))
    return builder.build()


def test_golden():
    # Width 1/2 from 1.0: [1, 1.5) holds 1 and 1.25, [1.5, 2) holds 1.5, [2, 2.5) nothing,
    # [2.5, 3) holds 2.999; a value on an edge belongs to the bin on its right.
    found = build([2.999, 1.0], [1.5, 1.25], width=0.5)
    assert found == Histogram(1.0, 0.5, (2, 1, 0, 1))
    assert found.total == 4
    assert found.edges().tolist() == [1.0, 1.5, 2.0, 2.5, 3.0]


@pytest.mark.parametrize(
    ("values", "total"),
    [
        ([-np.inf, 1.0, 2.0, np.inf, np.nan], 2),
        ([-np.inf, 1e30, np.nan], 1),  # bins are exact far from zero
        ([-5e-324, 2.0**48], 2),  # by the width of the bins it is -0.0, not below 0
    ],
)
def test_what_is_counted_degenerate(values, total):
    given = np.array(values)
    assert build(given).total == total
    np.testing.assert_array_equal(given, values)  # which are not changed
    ordered = HistogramBuilder()
    ordered.add(np.sort(given), ordered=True)
    assert ordered.build().total == total


@given(values=VALUES, width=st.sampled_from([0.125, 1.0, 8.0]))
def test_every_value_is_in_its_bin_oracle(values, width):
    found = build(values, width=width)
    assert found.total == len(values)
    edges = found.edges()
    inside = (values[:, None] >= edges[:-1]) & (values[:, None] < edges[1:])
    assert inside.sum(axis=0).tolist() == list(found.counts)


@given(values=VALUES, cut=st.integers(0, 50), data=st.data())
def test_chunks_and_order_do_not_matter_property(values, cut, data):
    shuffled = values[data.draw(st.permutations(range(len(values))))]
    assert build(shuffled[:cut], shuffled[cut:]) == build(values)
    ordered = HistogramBuilder()
    ordered.add(np.sort(values), ordered=True)
    assert ordered.build() == build(values)


@given(chunks=st.lists(VALUES, max_size=5))
def test_merged_parts_are_the_whole_property(chunks):
    builder = HistogramBuilder()
    for chunk in chunks:
        builder.merge(build(chunk))
    assert builder.build() == build(*chunks)


def test_merged_parts_may_have_doubled_their_bins_regression():
    """Parts of one audit span different ranges; a part that was coarse could not be added."""
    near, far = np.array([0.0, 129.0, 130.0]), np.array([-70.0, 5_000.0])
    for chunks in ([near, far], [far, near], [near, far + 9_000.0, near - 9_000.0]):
        builder = HistogramBuilder()
        for chunk in chunks:
            builder.merge(build(chunk))
        assert builder.build() == build(*chunks) == build(*reversed(chunks))
    assert build(near).width_bits == 0.125
    assert build(far).width_bits == 2.0


def test_a_wide_range_gets_wide_bins_regression():
    """10^8 bits once took a gigabyte of bins; now the bins double until 4,096 are enough."""
    builder = HistogramBuilder()
    builder.add(np.array([1.0, 1.0, 5.0]))
    builder.add(np.array([1e8]))
    found = builder.build()
    assert found.total == 4
    assert len(found.counts) <= 4096
    assert found.counts[0] == 3
    assert found.edges()[-1] > 1e8
    again = HistogramBuilder()
    again.add(np.array([2.0]))
    again.merge(found)
    assert again.build().total == 5
    assert again.width_bits == found.width_bits


@given(
    st.lists(st.integers(-(2**20), 2**20), min_size=1, max_size=40),
    st.lists(st.integers(-40, 40), max_size=10),
)
def test_coarse_bins_count_like_fine_ones_property(wide, narrow):
    """In any order, whatever was joined on the way: each value lies in its own bin."""
    values = np.array([*wide, *narrow]) / 8
    builder = HistogramBuilder()
    for value in values:
        builder.add(np.array([value]))
    found = builder.build()
    wanted, _ = np.histogram(values, np.append(found.edges()[:-1], np.inf))
    assert found.counts == tuple(wanted.tolist())
