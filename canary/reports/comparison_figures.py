"""The figures of several audits as numbers: exposure by copies, and utility against exposure.

Audits are in them by their short names only; labels came with the audits and belong into the
text around.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from canary.errors import InputError
from canary.reports.builders import PlotOptions, figure_of
from canary.reports.comparison import (
    Comparison,
    Point,
    Strategy,
    exposures_of,
    front,
    has_curves,
    median_of,
    names_of,
    points,
)
from canary.reports.document import Axis, Figure, Mark, Panel, mark
from canary.reports.exposure_figures import (
    DASHED,
    SPARSE,
    check_format,
    copies_axis,
    exposure_axis,
    places_of,
)
from canary.reports.palette import BAND, INK, MUTED, PAPER, SERIES
from canary.reports.sentences import UNLEARNED_95_BITS
from canary.reports.wording import copies_cell
from canary.statistics.numbers import bits, clean, count, plural

_MARKERS = "osD^vPX*"
_LABEL_CHARACTERS = 48


@figure_of.register
def comparison_figure(comparison: Comparison, options: PlotOptions) -> Figure:
    """That of `canary.plot`, with what the short names stand for."""
    group, at, skew_normal = comparison.strategies, options.format, options.skew_normal
    check_format(group[0].audit, at)
    if options.kind == "histogram":
        raise InputError(
            f"a histogram is of one audit, {len(group)} were given", cure="give one at a time"
        )
    if comparison.reasons:
        raise InputError(
            comparison.reasons[0].rstrip("."), cure="draw those together that can be compared"
        )
    if skew_normal and not has_curves(group, at):
        raise InputError(
            "not every audit has a skew-normal curve", cure="leave the skew-normal estimate away"
        )
    if options.kind == "utility":
        copies = _copies_asked(group, at, options.copies)
        figure = utility_figure(group, at, [copies], skew_normal=skew_normal)
    else:
        figure = exposures_figure(group, at, skew_normal=skew_normal)
    key = [(colour_of(one), f"{one.name}: {_short(clean(one.label))}") for one in group]
    return replace(figure, panels=[replace(figure.panels[0], legend="above", key=key)])


def _copies_asked(group: Sequence[Strategy], at: int, asked: int | None) -> int:
    if any(one.test_loss_nats is None for one in group):
        raise InputError(
            "utility needs the test loss of each audit", cure="give one for each, in nats per token"
        )
    injected = [n for n in copies_of(group, at) if n]
    if not injected:
        raise InputError("the audits have no injected canary")
    if asked is not None and asked not in injected:
        raise InputError(
            f"no canary has {asked} copies", cure=f"choose from {', '.join(map(count, injected))}"
        )
    return injected[-1] if asked is None else asked


def _short(label: str) -> str:
    return label if len(label) <= _LABEL_CHARACTERS else f"{label[: _LABEL_CHARACTERS - 1]}…"


def exposures_figure(group: Sequence[Strategy], at: int, *, skew_normal: bool = False) -> Figure:
    """Median exposure against number of copies, a line for each of some alike audits."""
    copies = copies_of(group, at)
    places, widths = places_of(copies)
    lines: list[Mark] = []
    highest, ends, said = 0.0, [], []
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
        lines += _strategy_marks(one, x, values, medians)
        highest = max(highest, 1.06 * max(map(max, values)))
        ends.append((x[-1], medians[-1][0]))
        told = [
            f"{copies_cell(n)}: {'at least ' if bound else ''}{bits(value)}"
            for n, (value, bound) in zip(copies, medians, strict=True)
        ]
        said.append(f"{one.name} {', '.join(dict.fromkeys((told[0], told[-1])))}")
    name = f"median {'skew-normal ' if skew_normal else ''}exposure"
    limits, y = exposure_axis(_space_bits(group, at), f"{name} (bits)", highest)
    right = places[-1] + max(0.5 * widths[-1], 0.1)
    left = places[0] - max(0.6 * widths[0], 0.2)
    low, high = y.limits
    assert low is not None
    assert high is not None
    heights = _kept_apart([height for _, height in ends], 0.05 * (high - low))
    for one, end, height in zip(group, ends, heights, strict=True):
        line = {"arrowstyle": "-", "color": colour_of(one), "linewidth": 0.6}
        lines.append(_letter(one, end, (right, height), "left", va="center", arrowprops=line))
    there = group[0].audit.canaries_in_corpus
    label = f"copies {'in the corpus' if there else 'planned, none put in'} (0: controls)"
    beyond = right + 0.06 * (right - places[0] + 1)
    return Figure(
        f"exposures {group[0].place} {at} {skew_normal}",
        f"{name.capitalize()} in bits against number of copies, a line for each audit. With the "
        f"fewest and the most copies: {'; '.join(said)}.",
        [
            Panel(
                limits + lines,
                copies_axis(copies, places, label, limits=(left, beyond)),
                y,
                grid="y",
            )
        ],
    )


def utility_figure(
    group: Sequence[Strategy], at: int, copies: Sequence[int], *, skew_normal: bool = False
) -> Figure:
    """Test loss against median exposure with the Pareto front, a panel per number of copies."""
    shown = {n: points(group, at, n, skew_normal=skew_normal) for n in copies}
    everything = [p for some in shown.values() for p in some]
    space_bits = _space_bits(group, at)
    losses = [p.loss_nats for p in everything]
    span = max(max(losses) - min(losses), 0.02)
    right = max(space_bits * 1.09, space_bits + 0.6, 1.06 * max(p.median_bits for p in everything))
    x = Axis(limits=(min(-0.4, -0.02 * space_bits), right))
    y = Axis(limits=(min(losses) - 0.15 * span, max(losses) + 0.2 * span))
    best = {n: front(some) for n, some in shown.items()}
    on_front = "; ".join(
        f"{plural(n, 'copy', 'copies')}: {names_of(in_order(some))}" for n, some in best.items()
    )
    return Figure(
        f"utility {group[0].place} {at} {skew_normal}",
        f"Test loss against median exposure. On the Pareto front: {on_front}.",
        [
            Panel(
                _utility_marks(some, best[n], x, y, space_bits),
                x,
                y,
                title=plural(n, "copy", "copies"),
            )
            for n, some in shown.items()
        ],
        narrow_columns=2,
        x=f"median {'skew-normal ' if skew_normal else ''}exposure (bits)",
        y="test loss (nats per token)",
    )


def _strategy_marks(
    one: Strategy,
    x: Sequence[float],
    values: Sequence[Sequence[float]],
    medians: Sequence[tuple[float, bool]],
) -> list[Mark]:
    """One audit: medians at `x`, and uprights from the smallest to the largest value."""
    colour, y = colour_of(one), [value for value, _ in medians]
    bounds = [i for i, (_, bound) in enumerate(medians) if bound]
    line = {"color": colour, "linewidth": 1.6, "marker": _marker(one), "markersize": 5.5}
    hollow = {"facecolor": PAPER, "edgecolor": colour, "linewidth": 1.4, "zorder": 3}
    return [
        mark("vlines", x, list(map(min, values)), list(map(max, values)), color=colour, alpha=0.55),
        mark("plot", x, y, **line),
        mark("scatter", [x[i] for i in bounds], [y[i] for i in bounds], 60, marker="^", **hollow),
    ]


def _utility_marks(
    shown: Sequence[Point], best: Sequence[Point], x: Axis, y: Axis, space_bits: float
) -> list[Mark]:
    right, top = x.limits[1], y.limits[1]
    assert right is not None
    marks = [
        mark("axvspan", 0, UNLEARNED_95_BITS, color=BAND, linewidth=0),
        mark("axvline", space_bits, color=INK, linewidth=1.0, linestyle=DASHED),
    ]
    # Stairs: what is above and to the right of them is beaten by one of the front.
    if steps := [p for p in best if not p.bound]:
        across = [steps[0].median_bits, *(p.median_bits for p in steps), right]
        up = [top, *(p.loss_nats for p in steps), steps[-1].loss_nats]
        marks.append(mark("step", across, up, where="post", color=MUTED, linewidth=1.6, zorder=1.5))
    for point in shown:
        one, colour = point.strategy, colour_of(point.strategy)
        place = (point.median_bits, point.loss_nats)
        if point.bound:
            ends = [point.median_bits, space_bits]
            marks.append(mark("plot", ends, [point.loss_nats] * 2, color=colour, linewidth=1.0,
                              linestyle=SPARSE))  # fmt: skip
        face = colour if point in best else PAPER
        marker = ">" if point.bound else _marker(one)
        marks.append(mark("scatter", *place, 46, marker=marker, facecolor=face, edgecolor=colour,
                          linewidth=1.4, zorder=3))  # fmt: skip
        beyond = point.median_bits > 0.85 * right  # where the frame or the line is near
        offset = (-5 if beyond else 5, 5)
        marks.append(
            _letter(one, place, offset, "right" if beyond else "left", textcoords="offset points")
        )
    return marks


def _letter(one: Strategy, at: Any, text_at: Any, side: str, **more: Any) -> Mark:
    """The short name of an audit, in its colour."""
    style = {"fontsize": 10, "fontweight": "bold", "color": colour_of(one), "ha": side}
    return mark("annotate", one.name, at, text_at, **style, **more)


def in_order(some: Sequence[Point]) -> list[Strategy]:
    """The audits of some points, as they were given."""
    return sorted((point.strategy for point in some), key=lambda one: one.place)


def copies_of(group: Sequence[Strategy], at: int) -> list[int]:
    """The numbers of copies of one format, ascending; 0 for controls."""
    return sorted({c.repetitions for c in group[0].audit.canaries if c.format == at})


def colour_of(one: Strategy) -> str:
    """The colour that an audit has in every figure."""
    return SERIES[one.place % len(SERIES)]


def _marker(one: Strategy) -> str:
    return _MARKERS[one.place % len(_MARKERS)]


def _space_bits(group: Sequence[Strategy], at: int) -> float:
    return math.log2(group[0].audit.formats[at].space_size)


def _kept_apart(heights: Sequence[float], gap: float) -> list[float]:
    """Places near `heights`, in their order, at least `gap` from each other."""
    order = np.argsort(heights, kind="stable")
    # Least squares with minimal gaps: merge neighbours that are too near into blocks.
    blocks: list[tuple[float, int]] = []
    for value in np.array(heights, float)[order]:
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
