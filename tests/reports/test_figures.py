"""The figures say what the audit says."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import replace

import numpy as np
import pytest

from canary.reports.drawing import svg_of
from canary.reports.exposure_figures import coarser, exposure_figure, histogram_figure
from canary.statistics.histogram import Histogram


def draw_exposure(audit, at, *, wide=True):
    return svg_of(exposure_figure(audit, at), wide=wide)


def draw_histogram(audit, at, *, wide=True):
    return svg_of(histogram_figure(audit, at), wide=wide)


def words(svg):
    return [node.text for node in ET.fromstring(svg).iter("text")]


def test_every_group_has_a_place_and_a_median_golden(audits):
    found = words(draw_exposure(audits["draws"], 0))
    assert {"0", "1", "4", "16", "64", "≥ 12.4"} <= set(found)
    assert found.count("≥ 12.4") == 2
    narrow = words(draw_exposure(audits["draws"], 0, wide=False))
    assert narrow.count("≥ 12.4") == 2


def test_every_canary_is_a_point_golden(audits):
    # Markers of one group are one collection; 8 canaries in each of 4 groups, 16 controls.
    audit = audits["enumerated"]
    svg = draw_exposure(audit, 0)
    assert svg.count("<use ") >= len(audit.canaries)
    fewer = draw_exposure(replace(audit, canaries=audit.canaries[:-3]), 0)
    assert svg.count("<use ") - fewer.count("<use ") == 3


@pytest.mark.parametrize("draw", [draw_exposure, draw_histogram])
def test_formats_do_not_mix(audits, draw):
    both = audits["two formats"]
    first = replace(both, canaries=tuple(c for c in both.canaries if c.format == 0))
    assert draw(both, 0) == draw(first, 0)
    assert draw(both, 0) != draw(both, 1)


def test_histogram_names_its_rows_and_unit_golden(audits):
    found = words(draw_histogram(audits["enumerated"], 0))
    rows = [w for w in found if w and ("cop" in w or w == "controls")]
    assert rows == ["controls", "1 copy", "4 copies", "16 copies", "64 copies"]
    assert "candidates per 0.25 bits" in found
    # 1,000 candidates in a bin and few in the tail: powers of ten.
    assert {"1", "10", "100", "1,000"} <= set(found)


def test_few_candidates_stand_on_a_linear_scale(audits):
    audit = audits["one canary"]
    few = Histogram(30.0, 0.125, (1, 2, 3, 2))
    formats = (replace(audit.formats[0], histogram=few),)
    found = words(draw_histogram(replace(audit, formats=formats), 0))
    assert "candidates per 0.125 bits" in found
    assert "10" not in found


def test_no_candidates_degenerate(audits):
    audit = audits["one canary"]
    formats = (replace(audit.formats[0], histogram=Histogram(0.0, 0.125, ())),)
    assert "no candidate was priced" in words(draw_histogram(replace(audit, formats=formats), 0))


@pytest.mark.parametrize("start", [-3.125, 17.5])
@pytest.mark.parametrize("bins", [1, 120, 121, 4097])
def testcoarser_bins_hold_the_same_candidates_oracle(start, bins):
    rng = np.random.default_rng(bins)
    fine = Histogram(start, 0.125, tuple(rng.integers(0, 50, bins).tolist()))
    counts, edges, width = coarser(fine)
    assert len(counts) <= 121
    assert len(edges) == len(counts) + 1
    assert counts.sum() == fine.total
    # Every coarse edge is a multiple of the width, and the sums between them agree.
    assert np.array_equal(edges / width, np.round(edges / width))
    left = fine.edges()[:-1]
    for low, high, number in zip(edges[:-1], edges[1:], counts, strict=True):
        inside = (left >= low) & (left < high)
        assert np.asarray(fine.counts)[inside].sum() == number


def test_the_curve_lies_over_the_histogram_oracle(audits):
    """The points of the dashed line are the density in candidates."""
    audit = audits["draws"]
    priced = audit.formats[0]
    panel = histogram_figure(audit, 0).panels[0]
    x, y = next(mark.data for mark in panel.marks if mark.call == "plot")
    _, _, unit = coarser(priced.histogram)
    curve = priced.skew_normal.curve
    half = unit / 2
    expected = priced.histogram.total * (curve.cumulative(x + half) - curve.cumulative(x - half))
    middle = expected > 50
    assert np.allclose(y[middle], expected[middle], rtol=0.02)
    assert y.min() >= panel.y.limits[0]
    assert y.max() <= panel.y.limits[1]
