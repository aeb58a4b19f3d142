"""The figures of a comparison: exposure by copies, and utility against exposure.

Audits stand in them by their short names only; labels came with the audits and belong into
the text around.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from canary.reports.canvas import WIDE, canvas, svg_element
from canary.reports.comparison import Point, Strategy, exposures_of, front, median_of, points
from canary.reports.figures import draw_limits, label_copies, places_of
from canary.reports.palette import BAND, GRID, INK, MUTED, PAPER, SERIES
from canary.reports.sentences import UNLEARNED_95_BITS
from canary.statistics.numbers import plural

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "PANELS",
    "colour_of",
    "copies_of",
    "draw_exposures",
    "draw_utility",
    "exposures_on",
    "injected_of",
    "utility_on",
]

PANELS = 4
"""Most numbers of copies that one drawing of utility shows."""

_MARKERS = "osD^vPX*"


def draw_exposures(
    group: Sequence[Strategy],
    at: int,
    *,
    skew_normal: bool = False,
    size: tuple[float, float] = WIDE,
) -> str:
    """Median exposure against number of copies, a line for each audit.

    Parameters
    ----------
    group : sequence of Strategy
        Audits that can be compared.
    at : int
        Position of the format in `Audit.formats`.
    skew_normal : bool
        Draw the estimates off the skew-normal curves instead.
    size : (float, float)
        Width and height in inches.

    Returns
    -------
    str
        One ``svg`` element, to stand in an HTML page.
    """
    with canvas(size) as figure:
        exposures_on(figure.subplots(), group, at, skew_normal=skew_normal)
        return svg_element(figure, f"exposures {group[0].place} {at} {skew_normal} {size}")


def draw_utility(
    group: Sequence[Strategy],
    at: int,
    repetitions: Sequence[int],
    *,
    skew_normal: bool = False,
    size: tuple[float, float] = WIDE,
) -> str:
    """Test loss against median exposure with the Pareto front, a panel per number of copies.

    Parameters besides `repetitions`, the numbers of copies, and the return value are those
    of `draw_exposures`.
    """
    columns = len(repetitions) if size[0] >= WIDE[0] else min(len(repetitions), 2)
    rows = math.ceil(len(repetitions) / columns)
    with canvas(size) as figure:
        panels = figure.subplots(rows, columns, squeeze=False)
        found = [points(group, at, n, skew_normal=skew_normal) for n in repetitions]
        frame = _frame([p for some in found for p in some], _space_bits(group, at))
        for axes in panels.flat[len(repetitions) :]:
            axes.set_visible(False)
        for n, some, axes in zip(repetitions, found, panels.flat, strict=False):
            _draw_utility(axes, some, frame)
            axes.set_title(plural(n, "copy", "copies"), fontsize=10, color=INK)
            axes.tick_params(labelleft=axes in panels[:, 0])
        figure.supxlabel(_exposure_name(skew_normal=skew_normal), fontsize=10, color=INK)
        figure.supylabel("test loss (nats per token)", fontsize=10, color=INK)
        return svg_element(figure, f"utility {group[0].place} {at} {skew_normal} {size}")


def exposures_on(
    axes: Axes, group: Sequence[Strategy], at: int, *, skew_normal: bool = False
) -> None:
    """`draw_exposures` on axes."""
    copies = copies_of(group, at)
    draw_limits(axes, _space_bits(group, at))
    places, widths = places_of(copies)
    tops, ends = [axes.get_ylim()[1]], []
    for number, one in enumerate(group):
        shift = 0.5 * ((number + 0.5) / len(group) - 0.5)
        x = [place + shift * width for place, width in zip(places, widths, strict=True)]
        values = [
            [
                e.lower_bits if e.bits is None else e.bits
                for e in exposures_of(one, at, n, skew_normal=skew_normal)
            ]
            for n in copies
        ]
        medians = [median_of(one, at, n, skew_normal=skew_normal) for n in copies]
        _draw_line(axes, one, x, values, medians)
        tops.append(1.06 * max(map(max, values)))
        ends.append((x[-1], medians[-1][0]))
    axes.set_ylim(top=max(tops))
    label_copies(axes, copies, places)
    there = group[0].audit.canaries_in_corpus
    axes.set_xlabel(f"copies {'in the corpus' if there else 'planned, none put in'} (0: controls)")
    axes.set_ylabel(_exposure_name(skew_normal=skew_normal))
    right = places[-1] + max(0.5 * widths[-1], 0.1)
    axes.set_xlim(places[0] - max(0.6 * widths[0], 0.2), right + 0.06 * (right - places[0] + 1))
    low, high = axes.get_ylim()
    heights = _apart([y for _, y in ends], 0.05 * (high - low))
    for one, end, height in zip(group, ends, heights, strict=True):
        colour = colour_of(one)
        axes.annotate(
            one.name,
            end,
            (right, height),
            ha="left",
            va="center",
            fontsize=10,
            fontweight="bold",
            color=colour,
            arrowprops={"arrowstyle": "-", "color": colour, "linewidth": 0.6},
        )


def utility_on(
    axes: Axes,
    group: Sequence[Strategy],
    at: int,
    repetitions: int,
    *,
    skew_normal: bool = False,
) -> None:
    """One panel of `draw_utility` on axes."""
    found = points(group, at, repetitions, skew_normal=skew_normal)
    _draw_utility(axes, found, _frame(found, _space_bits(group, at)))
    name = _exposure_name(skew_normal=skew_normal)
    axes.set_xlabel(f"{name}, {plural(repetitions, 'copy', 'copies')}")
    axes.set_ylabel("test loss (nats per token)")


def _draw_line(
    axes: Axes,
    one: Strategy,
    x: Sequence[float],
    values: Sequence[Sequence[float]],
    medians: Sequence[tuple[float, bool]],
) -> None:
    """One audit: medians at `x`, and uprights from the smallest to the largest value."""
    colour, marker = colour_of(one), _MARKERS[one.place % len(_MARKERS)]
    y = [value for value, _ in medians]
    axes.vlines(x, list(map(min, values)), list(map(max, values)), color=colour, alpha=0.55)
    axes.plot(x, y, color=colour, linewidth=1.6, marker=marker, markersize=5.5)
    bounds = [i for i, (_, bound) in enumerate(medians) if bound]
    axes.scatter(
        [x[i] for i in bounds],
        [y[i] for i in bounds],
        60,
        marker="^",
        facecolor=PAPER,
        edgecolor=colour,
        linewidth=1.4,
        zorder=3,
    )


@dataclass(frozen=True)
class _Frame:
    """The ends of the axes that several panels share, and the largest exposure."""

    x: tuple[float, float]
    y: tuple[float, float]
    space_bits: float


def _frame(found: Sequence[Point], space_bits: float) -> _Frame:
    losses = [p.loss_nats for p in found]
    span = max(max(losses) - min(losses), 0.02)
    right = max(space_bits * 1.09, space_bits + 0.6, 1.06 * max(p.median_bits for p in found))
    return _Frame(
        (min(-0.4, -0.02 * space_bits), right),
        (min(losses) - 0.15 * span, max(losses) + 0.2 * span),
        space_bits,
    )


def _draw_utility(axes: Axes, found: Sequence[Point], frame: _Frame) -> None:
    axes.axvspan(0, UNLEARNED_95_BITS, color=BAND, linewidth=0)
    axes.axvline(frame.space_bits, color=INK, linewidth=1.0, linestyle=(0, (5, 3)))
    axes.set_xlim(frame.x)
    axes.set_ylim(frame.y)
    best = front(found)
    _draw_front(axes, best, frame)
    for point in found:
        colour = colour_of(point.strategy)
        place = (point.median_bits, point.loss_nats)
        if point.bound:
            axes.plot(
                [point.median_bits, frame.space_bits],
                [point.loss_nats] * 2,
                color=colour,
                linewidth=1.0,
                linestyle=(0, (1, 2.5)),
            )
        axes.scatter(
            *place,
            46,
            marker=">" if point.bound else _MARKERS[point.strategy.place % len(_MARKERS)],
            facecolor=colour if point in best else PAPER,
            edgecolor=colour,
            linewidth=1.4,
            zorder=3,
        )
        beyond = point.median_bits > 0.85 * frame.x[1]  # where the frame or the line is near
        axes.annotate(
            point.strategy.name,
            place,
            xytext=(-5 if beyond else 5, 5),
            textcoords="offset points",
            ha="right" if beyond else "left",
            fontsize=10,
            fontweight="bold",
            color=colour,
        )
    axes.grid(color=GRID, linewidth=0.8)


def _draw_front(axes: Axes, best: Sequence[Point], frame: _Frame) -> None:
    """Stairs: what lies above and to the right of them is beaten by one of the front."""
    steps = [p for p in best if not p.bound]
    if not steps:
        return
    x = [steps[0].median_bits, *(p.median_bits for p in steps), frame.x[1]]
    y = [frame.y[1], *(p.loss_nats for p in steps), steps[-1].loss_nats]
    axes.step(x, y, where="post", color=MUTED, linewidth=1.6, zorder=1.5)


def _space_bits(group: Sequence[Strategy], at: int) -> float:
    return math.log2(group[0].audit.formats[at].space_size)


def _exposure_name(*, skew_normal: bool) -> str:
    return f"median {'skew-normal ' if skew_normal else ''}exposure (bits)"


def copies_of(group: Sequence[Strategy], at: int) -> list[int]:
    """The numbers of copies of one format, ascending; 0 for controls."""
    return sorted({c.repetitions for c in group[0].audit.canaries if c.format == at})


def injected_of(group: Sequence[Strategy], at: int) -> list[int]:
    """At most `PANELS` numbers of copies, without controls, the least and the most among them."""
    copies = [n for n in copies_of(group, at) if n]
    if len(copies) <= PANELS:
        return copies
    return [copies[i] for i in np.linspace(0, len(copies) - 1, PANELS).round().astype(int)]


def colour_of(strategy: Strategy) -> str:
    """The colour that an audit has in every figure."""
    return SERIES[strategy.place % len(SERIES)]


def _apart(heights: Sequence[float], gap: float) -> list[float]:
    """Places near `heights`, in their order, at least `gap` from each other."""
    order = np.argsort(heights, kind="stable")
    wanted = np.array(heights, float)[order]
    # Least squares with minimal gaps: merge neighbours that are too near into blocks.
    blocks: list[tuple[float, int]] = []
    for value in wanted:
        blocks.append((value, 1))
        while len(blocks) > 1:
            (low, m), (top, n) = blocks[-2:]
            if top - low >= gap * (m + n) / 2:
                break
            blocks[-2:] = [((low * m + top * n) / (m + n), m + n)]
    spread = [middle + gap * (i - (size - 1) / 2) for middle, size in blocks for i in range(size)]
    placed = np.empty(len(spread))
    placed[order] = spread
    return [float(height) for height in placed]
