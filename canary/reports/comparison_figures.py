"""The figures of several audits as numbers: exposure by copies, and utility against exposure.

Audits are in them by their short names only; labels came with the audits and belong into the
text around.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from canary.audits.audit_setup import in_one_format
from canary.audits.group_medians import MEDIAN_CONFIDENCE, interval_of_median, median_bits
from canary.errors import InputError
from canary.reports.builders import PlotOptions, figure_of, of_format
from canary.reports.comparison import Comparison, Point, Strategy, View, front, names_of
from canary.reports.document import Axis, Figure, Mark, Panel, Table, mark, said_in_one
from canary.reports.exposure_figures import (
    check_format,
    copies_axis,
    exposure_axis,
    in_guesses,
    places_of,
)
from canary.reports.palette import BAND, INK, MUTED, SERIES, SPARSE, across, dots, line
from canary.reports.sentences import UNLEARNED_95_BITS, guesses_of
from canary.reports.wording import EXPOSURE_COLUMNS, bound_or_bits, exposure_cells
from canary.statistics.numbers import bits, clean, count, plural

MOST_PANELS = 4
"""How many numbers of copies a figure of utility shows."""

_MARKERS = "osD^vPX*"
_LABEL_CHARACTERS = 48
_RIM = {"linewidth": 1.4, "zorder": 3}
_SMALL_PANEL = (170.0, 110.0)  # points: the axes of one column of a paper
_CLEAR = 14.0  # points between a letter and what it must not touch
_BESIDE = tuple((x, y) for y in (9.0, -9.0, 0.0) for x in (9.0, -9.0, 0.0, 15.0, -15.0) if x or y)


@figure_of.register
def comparison_figure(comparison: Comparison, options: PlotOptions) -> Figure:
    """That of `canary.plot`, with the labels behind the short names."""
    group = comparison.strategies
    check_format(group[0].audit, options.at)
    joined = [replace(one, audit=in_one_format(one.audit)) for one in group]
    group = tuple(joined) if options.over_all else group
    view = View(group, options.at, options.skew_normal)
    utility, injected = options.kind == "utility", [n for n in view.copies if n]
    problem = cure = ""
    if options.kind == "histogram":
        problem, cure = (
            f"a histogram is of one audit, {len(group)} were given",
            "give one at a time",
        )
    elif comparison.reasons:
        problem = comparison.reasons[0].rstrip(".")
        cure = "draw those together that can be compared"
    elif view.skew_normal and not view.has_curves:
        problem = "not every audit has a skew-normal curve"
        cure = "leave the skew-normal estimate away"
    elif utility and any(one.test_loss_nats is None for one in group):
        problem = "utility needs the test loss of each audit"
        cure = "give one for each, in nats per token"
    elif utility and not injected:
        problem, cure = "the audits have no injected canary", "audit a set with canaries"
    elif utility and options.repetitions not in (None, *injected):
        problem = f"no canary has {options.repetitions} copies"
        cure = f"choose from {', '.join(map(count, injected))}"
    if problem:
        raise InputError(problem, cure=cure)
    if utility:
        free = [n for n in injected if not view.at_ceiling(n)] or injected
        figure = utility_figure(view, [options.repetitions or free[-1]])
    else:
        figure = exposures_figure(view, in_bits=options.axis == "bits")
    key = []
    for one in group:
        label = clean(one.label)
        if len(label) > _LABEL_CHARACTERS:
            label = f"{label[: _LABEL_CHARACTERS - 1]}…"
        key.append((_colour(one), label if label == one.name else f"{one.name}: {label}"))
    if not utility:  # a figure for print has no caption
        key.append((MUTED, "thin lines: smallest to largest exposure"))
    figure = replace(figure, panels=[replace(figure.panels[0], legend="above", key=key)])
    return of_format(figure, options.at, len(group[0].audit.formats))


def exposures_figure(view: View, *, in_bits: bool = False) -> Figure:
    """Median exposure against number of copies, a line for each of some alike audits.

    Uprights go from the smallest to the largest exposure, and a triangle is a lower bound.
    """
    group, copies = view.group, view.copies
    places, widths = places_of(copies)
    marks: list[Mark] = []
    highest, ends, words = 0.0, [], []
    for number, one in enumerate(group):
        shift, colour = 0.5 * ((number + 0.5) / len(group) - 0.5), _colour(one)
        x = [place + shift * width for place, width in zip(places, widths, strict=True)]
        measured = [view.exposures(one, n) for n in copies]
        values = [[e.lower_bits if e.bits is None else e.bits for e in some] for some in measured]
        medians = [view.median(one, n) for n in copies]
        y = [value for value, _ in medians]
        bounds = [i for i, (_, bound) in enumerate(medians) if bound]
        spread = x, list(map(min, values)), list(map(max, values))
        marks += [
            mark("vlines", *spread, color=colour, alpha=0.55),
            line(x, y, colour, 1.6, marker=_MARKERS[one.place % len(_MARKERS)], markersize=5.5),
            dots([x[i] for i in bounds], [y[i] for i in bounds], 60, colour, hollow=True,
                 marker="^", **_RIM),
        ]  # fmt: skip
        highest = max(highest, 1.06 * max(map(max, values)))
        ends.append((x[-1], y[-1]))
        told = [
            f"{count(n) if n else '0 (controls)'}: {'at least ' if bound else ''}{bits(value)}"
            for n, (value, bound) in zip(copies, medians, strict=True)
        ]
        words.append(f"{one.name} {', '.join(dict.fromkeys((told[0], told[-1])))}")
    name = f"median {'skew-normal estimate of ' if view.skew_normal else ''}exposure"
    limits, y_axis = exposure_axis(
        view.space_bits,
        f"{name} (bits)",
        highest,
        words=None if view.skew_normal or in_bits else ("found at the first guess", ""),
    )
    if view.skew_normal:  # no exposure can be up there
        above = view.space_bits, y_axis.limits[1]
        limits.append(mark("axhspan", *above, color=BAND, linewidth=0))
    elif not in_bits:
        y_axis = in_guesses(y_axis, view.space_bits)
    right = places[-1] + max(0.5 * widths[-1], 0.1)
    left, beyond = places[0] - max(0.6 * widths[0], 0.2), right + 0.06 * (right - places[0] + 1)
    low, high = y_axis.limits
    heights = kept_apart([height for _, height in ends], 0.08 * ((high or 0.0) - (low or 0.0)))
    for one, end, height in zip(group, ends, heights, strict=True):
        arrow = {"arrowstyle": "-", "color": _colour(one), "linewidth": 0.6}
        marks.append(_letter(one, end, (right, height), "left", va="center", arrowprops=arrow))
    x_axis = copies_axis(group[0].audit, copies, places, limits=(left, beyond))
    caption = said_in_one(
        "comparison.exposures.caption",
        curve=view.bounds and view.skew_normal,
        draws=view.bounds and not view.skew_normal and view.priced.draws,
        search=view.bounds and not view.skew_normal and not view.priced.draws,
        several=len(group[0].audit.formats) > 1,
        format=view.priced.masked,
    )
    return Figure(
        f"exposures {group[0].place} {view.at} {view.skew_normal}",
        f"{name.capitalize()} in bits against number of copies, a line for each audit. With the "
        f"fewest and the most copies: {'; '.join(words)}.",
        [Panel(limits + marks, x_axis, y_axis, grid="y")],
        caption,
        bits_of(view) if view.skew_normal or in_bits else _guesses_table(view),
    )


def bits_of(view: View) -> Table:
    """The exposures of each audit by number of copies, in bits."""
    each = ((one.name, n, view.exposures(one, n)) for one in view.group for n in view.copies)
    rows = [(name, *exposure_cells(n, some)) for name, n, some in each]
    return Table("Exposure by number of copies, in bits", ("Audit", *EXPOSURE_COLUMNS), rows)


def _guesses_table(view: View) -> Table:
    """The same in guesses."""

    def guesses(bits: float, bound: bool = False) -> str:  # noqa: FBT001, FBT002 - of median_bits
        return f"{'≤ ' * bound}{count(guesses_of(view.space_bits - bits))}"

    rows = []
    for one in view.group:
        for n in view.copies:
            some = view.exposures(one, n)
            ends = interval_of_median(some, (1.0 + MEDIAN_CONFIDENCE) / 2.0)
            known = ends.lower_bits is not None and ends.upper_bits is not None
            between = f"{guesses(ends.upper_bits or 0.0)} to {guesses(ends.lower_bits or 0.0)}"
            ways = (guesses(*median_bits(some, of)) for of in (statistics.median, min, max))
            median, most, fewest = ways
            copies = count(n) if n else "0 (controls)"
            between = between if known else "–"
            rows.append((one.name, copies, count(len(some)), median, between, most, fewest))
    columns = (
        *("Audit", "Copies", "Secrets", "Typical secret"),
        f"{100 * MEDIAN_CONFIDENCE:g} % interval\nof the typical secret",
        *("Hardest", "Easiest"),
    )
    return Table("Guesses that an attacker needs, by number of copies", columns, rows)


def utility_figure(view: View, copies: Sequence[int]) -> Figure:
    """Test loss against median exposure with the Pareto front, a panel per number of copies."""
    shown = {n: view.points(n) for n in copies}
    everything = [point for some in shown.values() for point in some]
    space_bits, losses = view.space_bits, [point.loss_nats for point in everything]
    span = max(max(losses) - min(losses), 0.02)
    most = 1.06 * max(point.median_bits for point in everything)
    right = max(space_bits * 1.09, space_bits + 0.6, most)
    x = Axis(limits=(min(-0.4, -0.02 * space_bits), right))
    top = max(losses) + 0.2 * span
    y = Axis(limits=(min(losses) - 0.15 * span, top))
    panels, on_front, rows = [], [], []
    for n, some in shown.items():
        best, title = front(some), plural(n, "copy", "copies")
        on_front.append(f"{title}: {names_of(in_order(best))}")
        marks = [
            mark("axvspan", 0, UNLEARNED_95_BITS, color=BAND, linewidth=0),
            across("axvline", view.most_bits(n), INK),
        ]
        # Stairs: what is above and to the right of them is beaten by one of the front.
        if steps := [point for point in best if not point.bound]:
            along = [steps[0].median_bits, *(point.median_bits for point in steps), right]
            up = [top, *(point.loss_nats for point in steps), steps[-1].loss_nats]
            style = {"where": "post", "color": MUTED, "linewidth": 1.6, "zorder": 1.5}
            marks.append(mark("step", along, up, **style))
        letters = _letter_places(some, x, y)
        for point, offset in zip(some, letters, strict=True):
            marks += _point_marks(point, space_bits, on_front=point in best, offset=offset)
            known = bound_or_bits(point.median_bits, point.bound), "yes" if point in best else "no"
            rows.append((point.strategy.name, count(n), f"{point.loss_nats:.4f}", *known))
        panels.append(Panel(marks, x, y, title=title))
    caption = said_in_one(
        "comparison.utility.caption",
        fewer=len(shown) < sum(n > 0 for n in view.copies),
        panels=MOST_PANELS,
        bounds=any(point.bound for point in everything),
    )
    columns = ("Audit", "Copies", "Test loss (nats per token)", "Exposure (bits)", "On front")
    return Figure(
        f"utility {view.group[0].place} {view.at} {view.skew_normal}",
        f"Test loss against median exposure. On the Pareto front: {'; '.join(on_front)}.",
        panels,
        caption,
        Table("Test loss and median exposure", columns, rows),
        narrow_columns=2,
        x=f"median {'skew-normal estimate of ' if view.skew_normal else ''}exposure (bits)",
        y="test loss (nats per token)",
    )


def _point_marks(
    point: Point, space_bits: float, *, on_front: bool, offset: tuple[float, float]
) -> Iterator[Mark]:
    one, colour = point.strategy, _colour(point.strategy)
    place = (point.median_bits, point.loss_nats)
    if point.bound:
        open_end = [point.median_bits, space_bits], [point.loss_nats] * 2
        yield line(*open_end, colour, 1.0, linestyle=SPARSE)
    marker = ">" if point.bound else _MARKERS[one.place % len(_MARKERS)]
    yield dots(*place, 46, colour, hollow=not on_front, marker=marker, **_RIM)
    style = {"textcoords": "offset points", "va": "center", "zorder": 4}
    yield _letter(one, place, offset, "center", **style)


def _letter_places(some: Sequence[Point], x: Axis, y: Axis) -> list[tuple[float, float]]:
    """Where the letter of each point is, in points from it: clear of all else and of the frame."""
    low, high = np.array([x.limits, y.limits], float).T
    places = [(p.median_bits, p.loss_nats) for p in some]
    taken = [*((np.array(places) - low) / (high - low) * _SMALL_PANEL)]
    offsets = []
    for at in range(len(some)):
        others = [place for i, place in enumerate(taken) if i != at]

        def free(offset: tuple[float, float], at: int = at, others: Any = others) -> float:
            letter = taken[at] + offset
            near = [np.hypot(*(letter - place)) for place in others]
            frame = [*(2 * letter), *(2 * (np.array(_SMALL_PANEL) - letter))]
            return float(min([*near, *frame, _CLEAR]))

        offsets.append(max(_BESIDE, key=free))
        taken.append(taken[at] + offsets[-1])
    return offsets


def _letter(one: Strategy, at: Any, text_at: Any, side: str, **more: Any) -> Mark:
    """The short name of an audit, in its colour."""
    style = {"fontsize": 10, "fontweight": "bold", "color": _colour(one), "ha": side}
    return mark("annotate", one.name, at, text_at, **style, **more)


def kept_apart(heights: Sequence[float], gap: float) -> list[float]:
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


def in_order(some: Sequence[Point]) -> list[Strategy]:
    """The audits of some points, as they were given."""
    return sorted((point.strategy for point in some), key=lambda one: one.place)


def _colour(one: Strategy) -> str:
    return SERIES[one.place % len(SERIES)]
