"""The figures say what the results say: as numbers, on the reader's own axes, and as files."""

from __future__ import annotations

import math
import os
import statistics
import subprocess
import sys
import xml.etree.ElementTree as ET
from dataclasses import replace

import numpy as np
import pytest
from gate_audits import exact
from matplotlib.figure import Figure as Drawing

from canary import plot
from canary.errors import InputError, OutputError, UnsupportedError
from canary.gate.planning import plan
from canary.reports.attack_figures import Reach, reached_figure
from canary.reports.comparison_figures import kept_apart
from canary.reports.document import Axis, Figure, Panel, mark
from canary.reports.drawing import svg_of
from canary.reports.exposure_figures import coarser, exposure_figure, histogram_figure
from canary.reports.pages import plot_file
from canary.statistics.histogram import Histogram
from canary.statistics.roc import Estimate

HEADS = {"svg": b"<?xml", "png": b"\x89PNG", "pdf": b"%PDF"}


@pytest.fixture
def axes():
    return Drawing().subplots()


@pytest.fixture
def pair(audits):
    return [audits["enumerated"], audits["nothing learned"]]


def of_calls(panel, call):
    return [one for one in panel.marks if one.call == call]


def test_every_group_has_a_place_and_a_median_golden(audits):
    made = exposure_figure(audits["draws"], 0)
    (panel,) = made.panels
    assert [*panel.x.ticks.values()] == ["0", "1", "4", "16", "64"]
    medians = [one.data[0] for one in of_calls(panel, "annotate") if one.only == "wide"]
    assert medians[-2:] == ["≥ 12.4"] * 2
    svg = svg_of(made, wide=False)
    narrow = [node.text for node in ET.fromstring(svg).iter("text")]
    assert narrow.count("≥ 12.4") == 2
    assert {"0", "1", "4", "16", "64"} <= set(narrow)
    assert svg == svg_of(made, wide=False)


def test_on_a_phone_brackets_of_a_long_label_begin_a_line():
    axis = Axis("guesses that an attacker needs (higher up is worse)")
    svg = svg_of(Figure("f", "", [Panel([], Axis(), axis)]), wide=False)
    lines = [node.text for node in ET.fromstring(svg).iter("text")]
    assert {"guesses that an attacker needs", "(higher up is worse)"} <= {*lines}


@pytest.mark.parametrize(("upper", "last"), [(0.74, "80 %"), (0.38, "40 %"), (0.0004, "0.04 %")])
def test_the_longest_line_of_attacks_ends_before_a_number(upper, last):
    one = Reach("loss", Estimate(0.9 * upper, 0.8 * upper, upper), "")
    (panel,) = reached_figure([one], [], 0.1, "", what="samples", average="AUC").panels
    assert [*panel.x.ticks.values()][-1] == last
    assert panel.x.limits[1] >= max(panel.x.ticks) >= upper


def test_every_canary_is_a_point_golden(audits):
    for name in ("enumerated", "draws", "one canary"):
        (panel,) = exposure_figure(audits[name], 0).panels
        assert sum(len(one.data[0]) for one in of_calls(panel, "scatter")) == len(
            audits[name].canaries
        )


@pytest.mark.parametrize("draw", [exposure_figure, histogram_figure])
def test_formats_do_not_mix(audits, draw):
    both = audits["two formats"]
    first = replace(both, canaries=tuple(c for c in both.canaries if c.format == 0))
    assert repr(vars(draw(both, 0))) == repr(vars(draw(first, 0)))
    assert repr(vars(draw(both, 0))) != repr(vars(draw(both, 1)))


def test_histogram_names_its_rows_and_unit_golden(audits):
    above, below = histogram_figure(audits["enumerated"], 0).panels
    assert [*below.y.ticks.values()] == ["controls", "1 copy", "4 copies", "16 copies", "64 copies"]
    assert above.y.label == "candidates per 0.25 bits"
    # 1,000 candidates in a bin and few in the tail: powers of ten.
    assert [*above.y.ticks.values()] == ["1", "10", "100", "1,000"]


def test_few_candidates_stand_on_a_linear_scale_and_none_are_said_degenerate(audits):
    audit = audits["one canary"]

    def counts(histogram):
        formats = (replace(audit.formats[0], histogram=histogram),)
        return histogram_figure(replace(audit, formats=formats), 0).panels[0]

    few = counts(Histogram(30.0, 0.125, (1, 2, 3, 2))).y
    assert (few.label, few.log, few.ticks) == ("candidates per 0.125 bits", False, None)
    (nothing,) = counts(Histogram(0.0, 0.125, ())).marks
    assert nothing.data[0] == "no candidate was scored"


@pytest.mark.parametrize("start", [-3.125, 17.5])
@pytest.mark.parametrize("bins", [1, 120, 121, 4097])
def test_coarser_bins_hold_the_same_candidates_oracle(start, bins):
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
    priced = audits["draws"].formats[0]
    panel, below = histogram_figure(audits["draws"], 0).panels
    ((x, y),) = (one.data for one in of_calls(panel, "plot"))
    _, _, unit = coarser(priced.histogram)
    curve = priced.skew_normal.curve
    half = unit / 2
    expected = priced.histogram.total * (curve.cumulative(x + half) - curve.cumulative(x - half))
    middle = expected > 50
    ticks = [px for one in of_calls(below, "vlines") for px in one.data[0]]
    assert sorted(ticks) == sorted(c.px_bits for c in audits["draws"].canaries)
    assert np.allclose(y[middle], expected[middle], rtol=0.02)
    assert y.min() >= panel.y.limits[0]
    assert y.max() <= panel.y.limits[1]


def drawn_lines(axes):
    """Heights of the lines with markers: those of the audits."""
    return [[*line.get_ydata()] for line in axes.get_lines() if line.get_marker() != "None"]


def test_lines_go_through_the_medians_golden(pair, audits, axes):
    assert plot(pair, axes, labels=["first", "second"]) is axes
    groups = [audit.by_repetitions().values() for audit in pair]
    assert drawn_lines(axes) == [
        [statistics.median(c.exposure.bits for c in group) for group in some] for some in groups
    ]
    names = [t.get_text() for t in axes.get_legend().get_texts()]
    assert names == ["A: first", "B: second", "thin lines: smallest to largest exposure"]
    assert axes.get_ylim()[1] > math.log2(10**6)
    drawn, curve = audits["draws"], Drawing().subplots()
    plot([drawn, drawn], curve, skew_normal=True)
    groups = drawn.by_repetitions().values()
    medians = [statistics.median(c.skew_normal.bits for c in group) for group in groups]
    assert drawn_lines(curve) == [medians, medians]


def test_utility_golden(pair, axes):
    plot(pair, axes, kind="utility", test_losses=[1.25, 1.5], repetitions=16)
    found = {tuple(offset) for one in axes.collections for offset in one.get_offsets()}
    medians = [
        statistics.median(c.exposure.bits for c in audit.by_repetitions()[16]) for audit in pair
    ]
    assert found == {(medians[0], 1.25), (medians[1], 1.5)}
    # The stairs: down to B, right to A, down, and on to the right.
    stairs = next(line for line in axes.get_lines() if line.get_drawstyle() == "steps-post")
    x, y = stairs.get_data()
    assert list(x) == [medians[1], medians[1], medians[0], axes.get_xlim()[1]]
    assert list(y) == [axes.get_ylim()[1], 1.5, 1.25, 1.25]


def test_labels_are_text_only_and_short(pair, axes):
    plot(pair, axes, labels=["$\\frac$\x1b", "x" * 100])
    texts = axes.get_legend().get_texts()
    assert [t.get_text() for t in texts][:2] == ["A: $\\frac$", f"B: {'x' * 47}…"]
    axes.figure.savefig("/dev/null", format="svg")  # would fail on $…$ as mathematics


@pytest.mark.parametrize(
    ("kind", "ending", "options"),
    [
        # The second label has characters that the font lacks.
        ("exposure", "svg", {"labels": ["<script>x</script>", "\u65e5\u672c"]}),
        ("histogram", "png", {}),
        ("utility", "pdf", {"test_losses": [1.0, 2.0]}),
    ],
)
def test_files_are_whole_and_the_same_again(pair, tmp_path, kind, ending, options):
    given = pair[0] if kind == "histogram" else pair
    if kind == "histogram":  # a stack on the reader's own axes
        assert len(plot(given, Drawing().subplots(), kind=kind).child_axes) == 2
    one = plot_file(given, tmp_path / f"1.{ending}", kind=kind, **options)
    other = plot_file(given, tmp_path / f"2.{ending.upper()}", kind=kind, **options)
    drawn = tmp_path / f"3.{ending}"
    assert plot(given, Drawing().subplots(), kind=kind, path=drawn, **options)
    assert one.read_bytes() == other.read_bytes() == drawn.read_bytes()
    assert one.read_bytes().startswith(HEADS[ending])
    if ending == "svg":  # needs no font, and is no markup
        tags = {node.tag.rpartition("}")[2] for node in ET.parse(one).iter()}
        assert not tags & {"text", "script", "image", "metadata"}


@pytest.mark.parametrize(("bars", "height"), [(2, 1.8), (20, 9.0)])
def test_bars_from_left_to_right_make_a_figure_as_high_as_they_need_golden(bars, height):
    names = [f"bar {number}" for number in range(bars)]
    panel = Panel([mark("barh", names, range(bars))], Axis("bits"))
    for wide, width in ((True, 9.6), (False, 4.4)):
        svg = svg_of(Figure("bars", "Bars", [panel]), wide=wide)
        box = ET.fromstring(svg).get("viewBox")
        assert [float(end) / 72 for end in box.split()] == pytest.approx([0, 0, width, height])


TWO = {"kind": "utility", "test_losses": [1, 2]}


@pytest.mark.parametrize(
    ("names", "options", "message"),
    [
        ("enumerated", {"kind": "pie"}, "unknown figure 'pie'"),
        ("enumerated", {"kind": "utility"}, "for comparing, and there is one audit"),
        ("enumerated,enumerated", {"kind": "histogram"}, "a histogram is of one audit"),
        ("draws,bare", {"skew_normal": True}, "not every audit has a skew-normal curve"),
        ("enumerated,enumerated", {"kind": "utility"}, "needs the test loss of each"),
        ("enumerated,enumerated", {**TWO, "repetitions": 5}, "choose from 1, 4, 16, 64"),
        ("only controls,only controls", TWO, "have no injected canary"),
        ("enumerated,draws", {}, "B cannot be compared with A: the format is"),
        ("enumerated", {"format": 1}, "has format 2, counted from 1"),
        ("no canaries", {}, "no canary of the audit has format 1"),
        ("", {}, "expected a result, or several audits"),
    ],
)
def test_what_cannot_be_drawn_input(audits, axes, names, options, message):
    drawn = audits["draws"]
    bare = replace(drawn, formats=(replace(drawn.formats[0], skew_normal=None),))
    given = [bare if name == "bare" else audits[name] for name in names.split(",") if name]
    with pytest.raises(InputError, match=message):
        plot(given, axes, **options)
    assert axes.get_lines() == []


def test_old_figure_stays_when_the_new_one_fails(pair, tmp_path):
    path = tmp_path / "a.svg"
    path.write_text("old")
    with pytest.raises(InputError):
        plot_file(pair, path, kind="histogram")
    assert path.read_text() == "old"
    with pytest.raises(OutputError):
        plot_file(pair, tmp_path / "no" / "a.svg")
    for name in ("figure", "figure.jpg", "figure.svg.gz"):
        with pytest.raises(UnsupportedError, match=r"end with \.svg, \.png or \.pdf"):
            plot_file(pair, tmp_path / name)
    assert [*tmp_path.iterdir()] == [path]


@pytest.mark.parametrize(
    ("heights", "expected"),
    [
        ([0.0, 10.0], [0.0, 10.0]),
        ([5.0, 5.0], [4.5, 5.5]),
        ([5.0, 0.0, 5.4, 5.0], [4.133, 0.0, 6.133, 5.133]),
        ([], []),
    ],
)
def test_names_keep_apart_golden(heights, expected):
    assert kept_apart(heights, 1.0) == pytest.approx(expected, abs=0.001)


def test_a_backend_that_matplotlib_does_not_know_ends_no_figure():
    """``import matplotlib`` itself raises then."""
    code = (
        "import canary.reports.drawing as d\n"
        "from canary.reports.document import Figure, Panel\n"
        "assert d.file_of(Figure('', '', [Panel([])]), 'svg').startswith(b'<?xml')\n"
    )
    environment = {**os.environ, "MPLBACKEND": "nonsense"}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)


@pytest.mark.parametrize(("width", "panels"), [(3.3, 1), (7, 2)])
def test_no_text_leaves_a_small_figure(audits, width, panels):
    one = audits["enumerated"]
    tied = [one, replace(one, model={**one.model, "fingerprint": "f" * 64})]
    labels = ["dropout 0.0", "a name that is much too long for a column of a paper"]
    losses = {"kind": "utility", "test_losses": [1.0, 1.0]}
    for options in ({}, losses):
        figure = Drawing(figsize=(width, 2.6), layout="constrained")
        every = [*np.atleast_1d(figure.subplots(1, panels))]
        for axes in every:
            plot(tied, axes, labels=labels, **options)
        if panels > 1 and not options:
            every[0].clear()
            plot(one, every[0])
        figure.draw_without_rendering()
        drawn = figure.get_tightbbox()  # inches
        assert min(drawn.x0, drawn.y0, width - drawn.x1, 2.6 - drawn.y1) >= -0.01, options
        for axes in every:
            inside = [t for t in axes.texts if t.get_text().startswith("found at the first")]
            for text in inside:
                assert text.get_window_extent().y1 <= axes.bbox.y1
            letters = [t.get_window_extent() for t in axes.texts if t.get_text() in ("A", "B")]
            assert not (len(letters) == 2 and letters[0].overlaps(letters[1])), options


def test_a_path_in_the_place_of_axes_is_a_file(tmp_path):
    plot(plan("my pin is {digit:4}"), tmp_path / "plan.svg")
    assert (tmp_path / "plan.svg").read_text().startswith("<?xml")


@pytest.mark.parametrize("losses", [(3.1, 3.1, 3.101), (3.3, 3.1, 3.101), (1.0, 1.0, 1.0)])
def test_letters_of_models_are_clear_of_points_and_of_each_other(losses):
    rng = np.random.default_rng(0)
    audits = {
        name: exact({16: rng.normal(mean, 3, 24).clip(0.1, 29)}, fingerprint=name.lower() * 64)
        for name, mean in (("A", 14.0), ("B", 17.0), ("C", 17.2))
    }
    figure = Drawing(figsize=(3.3, 2.6), layout="constrained")
    axes = figure.subplots()
    plot(audits, axes, kind="utility", test_losses=losses)
    figure.draw_without_rendering()
    letters = [t.get_window_extent() for t in axes.texts if t.get_text() in audits]
    assert len(letters) == 3
    for at, box in enumerate(letters):
        assert not any(box.overlaps(other) for other in letters[at + 1 :])
        for points in axes.collections:
            if len(offsets := points.get_offsets()) == 1:
                assert not box.contains(*axes.transData.transform(offsets)[0])
    assert [t.get_text() for t in axes.get_legend().get_texts()] == ["A", "B", "C"]


def test_in_a_column_medians_are_below_the_axis_and_labels_break():
    audit = exact({4: [6.0] * 4, 16: [14.0] * 4, 0: [1.0] * 4})
    figure = Drawing(figsize=(3.3, 2.6), layout="constrained")
    axes = figure.subplots()
    plot(audit, axes, axis="bits")
    assert [t.get_text() for t in axes.texts] == ["found at the first guess: 29.9 bits"]
    assert "16\n14.0" in [t.get_text() for t in axes.get_xticklabels()]
    figure = Drawing(figsize=(3.3, 2.6), layout="constrained")
    plot(audit, axes := figure.subplots(), kind="histogram")
    assert "\n" in axes.child_axes[-1].get_ylabel()
