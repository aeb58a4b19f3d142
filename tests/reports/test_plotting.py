"""Figures on the reader's own axes, and as files."""

from __future__ import annotations

import math
import os
import statistics
import subprocess
import sys
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest
from matplotlib.figure import Figure

from canary import plot
from canary.errors import InputError, OutputError, UnsupportedError
from canary.reports.comparison_figures import kept_apart
from canary.reports.pages import plot_file

HEADS = {"svg": b"<?xml", "png": b"\x89PNG", "pdf": b"%PDF"}


@pytest.fixture
def axes():
    return Figure().subplots()


@pytest.fixture
def pair(audits):
    return [audits["enumerated"], audits["nothing learned"]]


def drawn_lines(axes):
    """Lines with markers, by colour: those of the audits."""
    return {
        line.get_color(): line.get_data()
        for line in axes.get_lines()
        if line.get_marker() != "None"
    }


def test_lines_go_through_the_medians_golden(pair, axes):
    assert plot(pair, axes, labels=["first", "second"]) is axes
    lines = [y for _, y in drawn_lines(axes).values()]
    for audit, y in zip(pair, lines, strict=True):
        medians = [
            statistics.median(c.exposure.bits for c in group)
            for group in audit.by_repetitions().values()
        ]
        assert list(y) == medians
    assert [t.get_text() for t in axes.get_legend().get_texts()] == ["A: first", "B: second"]
    assert axes.get_ylim()[1] > math.log2(10**6)


def test_utility_golden(pair, axes):
    plot(pair, axes, kind="utility", test_losses=[1.25, 1.5], copies=16)
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


def test_histogram_has_its_curve_and_canaries(audits, axes):
    audit = audits["draws"]
    plot(audit, axes, kind="histogram")
    below, above = axes.child_axes
    assert len(above.get_lines()) == 1
    ticks = [segment[0][0] for rows in below.collections for segment in rows.get_segments()]
    assert sorted(ticks) == sorted(c.px_bits for c in audit.canaries)


def test_labels_are_text_only_and_short(pair, axes):
    plot(pair, axes, labels=["$\\frac$\x1b", "x" * 100])
    texts = axes.get_legend().get_texts()
    assert [t.get_text() for t in texts] == ["A: $\\frac$", f"B: {'x' * 47}…"]
    axes.figure.savefig("/dev/null", format="svg")  # would fail on $…$ as mathematics


@pytest.mark.parametrize(
    ("kind", "ending"),
    [("exposure", "svg"), ("histogram", "png"), ("utility", "pdf")],
)
def test_files_are_whole_and_the_same_again(pair, tmp_path, kind, ending):
    given = pair[0] if kind == "histogram" else pair
    losses = {"test_losses": [1.0, 2.0]} if kind == "utility" else {}
    # The second label has characters that the font lacks.
    named = {} if kind == "histogram" else {"labels": ["a", "\u65e5\u672c"]}
    one = plot_file(given, tmp_path / f"1.{ending}", kind=kind, **losses, **named)
    other = plot_file(given, tmp_path / f"2.{ending.upper()}", kind=kind, **losses, **named)
    assert one.read_bytes() == other.read_bytes()
    assert one.read_bytes().startswith(HEADS[ending])


def test_svg_needs_no_font_and_is_no_markup(pair, tmp_path):
    path = plot_file(pair, tmp_path / "a.svg", labels=["<script>x</script>", "b"])
    tags = {node.tag.rpartition("}")[2] for node in ET.parse(path).iter()}
    assert not tags & {"text", "script", "image", "metadata"}


TWO = {"kind": "utility", "test_losses": [1, 2]}


@pytest.mark.parametrize(
    ("names", "options", "message"),
    [
        ("enumerated", {"kind": "pie"}, "there is no figure 'pie'"),
        ("enumerated", {"kind": "utility"}, "for comparing, and there is one audit"),
        ("enumerated,enumerated", {"kind": "histogram"}, "a histogram is of one audit"),
        ("draws,bare", {"skew_normal": True}, "not every audit has a skew-normal curve"),
        ("enumerated,enumerated", {"kind": "utility"}, "needs the test loss of each"),
        ("enumerated,enumerated", {**TWO, "copies": 5}, "choose from 1, 4, 16, 64"),
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
        "import os, canary.reports.drawing as d\n"
        "from canary.reports.document import Figure, Panel\n"
        "made = Figure('', '', [Panel([])])\n"
        "assert d.file_of(made, 'svg').startswith(b'<?xml')\n"
        "assert os.environ['MPLBACKEND'] == 'nonsense'\n"
    )
    environment = {**os.environ, "MPLBACKEND": "nonsense"}
    plain = subprocess.run([sys.executable, "-c", "import matplotlib"], env=environment)
    assert plain.returncode != 0
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)


def test_estimates_of_the_curve_are_drawn_golden(audits, axes):
    pair = [audits["draws"], audits["draws"]]
    plot(pair, axes, skew_normal=True)
    for _, y in drawn_lines(axes).values():
        groups = audits["draws"].by_repetitions().values()
        assert list(y) == [statistics.median(c.skew_normal.bits for c in g) for g in groups]
