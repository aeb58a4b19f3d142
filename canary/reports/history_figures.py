"""Exposure against training steps, with the loss below where it was logged.

They hold numbers and our own words only, never text that came with a history. The same
history gives the same bytes.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from canary.audits.audit_result import largest_bits, median_bits, smallest_bits
from canary.audits.history import History, Moment
from canary.reports.canvas import WIDE, canvas, svg_element
from canary.reports.figures import colour_of_copies, draw_limits
from canary.reports.palette import CURVE, GRID, INK, MUTED, PAPER
from canary.statistics.numbers import plural

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["GroupLine", "draw_history", "group_lines", "group_name", "history_on"]

_MOST_MARKERS = 60
_LOSS_SHARE = 0.24
_LEGEND_INCHES = 1.13  # of a name such as "256 copies", with its line


@dataclass(frozen=True)
class GroupLine:
    """Exposure of the canaries with one number of copies, at each moment in bits.

    `bounds` tells of each median whether it is only a lower bound.
    """

    copies: int
    steps: tuple[int, ...]
    medians: tuple[float, ...]
    bounds: tuple[bool, ...]
    least: tuple[float, ...]
    most: tuple[float, ...]


def group_lines(history: History, at: int, *, skew_normal: bool = False) -> list[GroupLine]:
    """The lines of one format, controls first.

    With `skew_normal` they are off the curves; a moment at which a group has no such
    estimates has no point then.
    """
    lines = []
    for copies, places in history.groups(at).items():
        rows = []
        for moment in history.measured:
            row = _by_curve(moment, places) if skew_normal else _by_draws(moment, places)
            if row is not None:
                rows.append((moment.step, *row))
        columns = tuple(zip(*rows, strict=True)) if rows else ((),) * 5
        lines.append(GroupLine(copies, *columns))
    return lines


def _by_draws(moment: Moment, places: Sequence[int]) -> tuple[float, bool, float, float]:
    group = [moment.exposures[at] for at in places]
    return *median_bits(group), smallest_bits(group)[0], largest_bits(group)[0]


def _by_curve(moment: Moment, places: Sequence[int]) -> tuple[float, bool, float, float] | None:
    found = [bits for at in places if (bits := moment.curve_bits[at]) is not None]
    if len(found) < len(places):
        return None
    return statistics.median(found), False, min(found), max(found)


def draw_history(
    history: History, at: int, *, skew_normal: bool = False, size: tuple[float, float] = WIDE
) -> str:
    """Exposure against training steps for one format: a line for each number of copies.

    Parameters
    ----------
    history : History
    at : int
        Position of the format in `History.formats`.
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
        history_on(figure.subplots(), history, at, skew_normal=skew_normal)
        return svg_element(figure, f"history {at} {skew_normal} {size}")


def history_on(axes: Axes, history: History, at: int, *, skew_normal: bool = False) -> None:
    """`draw_history` within the frame of `axes`; the loss stands on axes of its own below."""
    main = bottom = axes
    if history.losses:
        axes.axis("off")
        bottom = axes.inset_axes((0.0, 0.0, 1.0, _LOSS_SHARE))
        main = axes.inset_axes((0.0, _LOSS_SHARE + 0.04, 1.0, 0.96 - _LOSS_SHARE), sharex=bottom)
        main.tick_params(axis="x", length=0, labelbottom=False)
        _draw_losses(bottom, history)
    space_bits = math.log2(history.formats[at].space_size)
    lines = group_lines(history, at, skew_normal=skew_normal)
    draw_limits(main, space_bits)
    copies = [line.copies for line in lines]
    for line in lines:
        _draw_line(main, line, colour_of_copies(line.copies, copies))
    highest = max((value for line in lines for value in line.most), default=0.0)
    main.set_ylim(top=max(main.get_ylim()[1], 1.05 * highest))
    for part in {id(main): main, id(bottom): bottom}.values():
        for step in history.settings.get("marks") or ():
            part.axvline(step, color=MUTED, linewidth=0.7, linestyle=(0, (1, 2)), zorder=0.5)
    for moment in history.moments:
        if moment.reason is not None:
            main.plot(moment.step, 0.0, marker="x", color=CURVE, clip_on=False)
    if history.stopped_at is not None:
        main.axvline(history.stopped_at, color=CURVE, linewidth=1.2)
    if any(line.steps for line in lines):
        main.legend(
            loc="lower left",
            bbox_to_anchor=(0.0, 1.01),
            ncols=max(1, min(len(lines), 6, int(_width(axes) / _LEGEND_INCHES))),
            columnspacing=1.2,
            handlelength=1.6,
            frameon=False,
            fontsize=9,
            borderaxespad=0.0,
        )
    bottom.set_xlabel(_steps_label(history))


def _width(axes: Axes) -> float:
    """Inches."""
    return float(axes.get_window_extent().width / axes.figure.dpi)


def group_name(copies: int) -> str:
    """``controls``, ``1 copy``, ``16 copies``."""
    return plural(copies, "copy", "copies") if copies else "controls"


def _draw_line(axes: Axes, line: GroupLine, colour: str) -> None:
    axes.fill_between(line.steps, line.least, line.most, color=colour, alpha=0.16, linewidth=0)
    axes.plot(
        line.steps,
        line.medians,
        color=colour,
        linewidth=1.8,
        linestyle="-" if line.copies else (0, (4, 2)),
        label=group_name(line.copies),
    )
    if len(line.steps) > _MOST_MARKERS:
        return
    for bound, marker in ((False, "o"), (True, "^")):
        some = [i for i, is_bound in enumerate(line.bounds) if is_bound == bound]
        axes.scatter(
            [line.steps[i] for i in some],
            [line.medians[i] for i in some],
            16 if marker == "o" else 26,
            marker=marker,
            facecolor=PAPER if bound or not line.copies else colour,
            edgecolor=colour,
            linewidth=1.1,
            zorder=2.5,
        )


def _draw_losses(axes: Axes, history: History) -> None:
    axes.plot(
        [loss.step for loss in history.losses],
        [loss.value for loss in history.losses],
        color=INK,
        linewidth=1.2,
    )
    axes.set_ylabel("loss")
    axes.grid(axis="y", color=GRID, linewidth=0.8)
    axes.margins(y=0.15)


def _steps_label(history: History) -> str:
    known = [m.step / m.epoch for m in history.moments if m.epoch]
    if not known:
        return "training steps"
    return f"training steps ({known[-1]:.4g} are an epoch)"
