"""The figures of an audit as numbers, and the axes that figures of exposure share.

They hold our own words only, and of what came with an audit its numbers: labels and formats
belong into the text around.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from textwrap import fill
from typing import Any, Literal

import numpy as np

from canary.audits.audit_result import Audit, CanaryResult, FormatResult
from canary.audits.audit_setup import control_of, in_one_format
from canary.audits.group_medians import median_bits
from canary.audits.history import History
from canary.errors import InputError
from canary.reports.builders import PlotOptions, figure_of, of_format
from canary.reports.document import Axis, Figure, Mark, Panel, Table, Text, mark, said_in_one
from canary.reports.palette import (
    BAND,
    CONTROL,
    CURVE,
    DOTTED,
    FILL,
    INK,
    MUTED,
    PAPER,
    SPARSE,
    STEPS,
    across,
    dots,
    line,
    steps,
)
from canary.reports.recovery import median_guesses
from canary.reports.recovery import table as recovery_table
from canary.reports.sentences import UNLEARNED_95_BITS, curve_verdict
from canary.reports.wording import exposure_table
from canary.statistics.histogram import Histogram, joined
from canary.statistics.numbers import bits, plural, worded
from canary.statistics.numbers import short_count as count

# Steps between two jittered points; the golden ratio spreads any number of them evenly.
_GOLDEN = (math.sqrt(5) - 1) / 2
_CATEGORIES, _MOST_BINS, _MOST_BELOW = 10, 120, 6


def check_format(result: Audit | History, at: int) -> None:
    """Refuse a format that an audit or a history does not have, or has no canary of."""
    formats, what = len(result.formats), type(result).__name__.lower()
    if not 0 <= at < formats or not any(c.format == at for c in result.canaries):
        raise InputError(
            f"no canary of the {what} has format {at + 1}, counted from 1",
            cure=f"the {what} has {plural(formats, 'format')}"
            if formats
            else "audit a set with canaries",
        )


@figure_of.register
def audit_figure(audit: Audit, options: PlotOptions) -> Figure:
    """That of `canary.plot`."""
    check_format(audit, options.at)
    if options.kind == "utility":
        raise InputError("utility is for comparing, and there is one audit", cure="give several")
    draw = guesses_figure if options.axis == "guesses" else exposure_figure
    draw = histogram_figure if options.kind == "histogram" else draw
    audit = in_one_format(audit) if options.over_all else audit
    return of_format(draw(audit, options.at), options.at, len(audit.formats))


def exposure_figure(audit: Audit, at: int) -> Figure:
    """Exposure against number of copies for one format, every canary a point."""
    space_bits, groups = math.log2(audit.formats[at].space_size), audit.by_repetitions(at)
    medians = {}
    for copies, group in groups.items():
        median, bound = median_bits([c.exposure for c in group])
        medians[copies] = f"{'≥ ' if bound else ''}{bits(median)}"
    return Figure(
        f"exposure {at}",
        f"Exposure against number of copies. Median exposure in bits, {_aloud(medians)}. The "
        f"largest possible is {bits(space_bits)}.",
        [_by_copies(audit, at, exposure_axis(space_bits), medians, "median exposure in bits")],
        _caption(audit, at),
        exposure_table(audit, at),
    )


def guesses_figure(audit: Audit, at: int, limit_bits: float | None = None) -> Figure:
    """The same as guesses that an attacker needs, with blind guessing and a limit marked."""
    size, groups = audit.formats[at].space_size, audit.by_repetitions(at)
    medians = {
        copies: median_guesses([c.exposure for c in group], worded).replace("at most", "≤")
        for copies, group in groups.items()
    }
    exposures = [c.exposure for c in audit.canaries if c.format == at]
    return Figure(
        f"guesses {at}",
        f"Guesses that an attacker needs, by number of copies. Median, {_aloud(medians)}. Blind "
        f"guessing takes {count(max(size // 2, 1))} on average.",
        [_by_copies(audit, at, _guesses_axis(size, limit_bits), medians, "typical guesses")],
        said_in_one(
            "guesses.caption",
            controls=0 in groups, limited=limit_bits is not None,
            bounds=any(e.censored for e in exposures), format=audit.formats[at].masked,
            drawn=any(e.confidence is not None for e in exposures), bars="≤" in str(medians),
        ),
        recovery_table(audit, at, limit_bits),
    )  # fmt: skip


def _guesses_axis(size: int, limit_bits: float | None) -> tuple[list[Mark], Axis]:
    """Guesses on a logarithmic scale, the first on top: exposure by another name."""
    marks, axis = exposure_axis(
        space_bits := math.log2(size),
        words=("found at the first guess", f"blind guessing: {count(max(size // 2, 1))} guesses"),
    )
    if limit_bits is not None and limit_bits < space_bits:
        name = f"limit: {count(math.ceil(size * math.exp2(-limit_bits)))} guesses or more"
        marks.append(mark("axhline", limit_bits, color=INK, linewidth=1.4, label=name))
    return marks, in_guesses(axis, space_bits)


def in_guesses(axis: Axis, space_bits: float) -> Axis:
    """An axis of exposure in guesses: exposure by another name."""
    tens = int(space_bits * math.log10(2))
    powers = range(0, tens + 1, math.ceil(tens / 6) or 1)
    ticks = {space_bits - k * math.log2(10): count(10**k) for k in powers}
    label = "guesses that an attacker needs (higher up is worse)"
    return replace(axis, label=label, short="guesses needed", ticks=ticks, few=False)


def _aloud(medians: Mapping[int, str]) -> str:
    words = "; ".join(f"{group_name(n)}: {median}" for n, median in medians.items())
    return words.replace("≥", "at least").replace("≤", "at most")


def _by_copies(
    audit: Audit, at: int, axis: tuple[list[Mark], Axis], medians: Mapping[int, str], named: str
) -> Panel:
    """Every canary a point above its number of copies, with the medians in words."""
    (marks, y), groups = axis, audit.by_repetitions(at)
    few, (places, widths) = len(groups) <= _CATEGORIES, places_of(list(groups))
    for (copies, group), place, width in zip(groups.items(), places, widths, strict=True):
        half, (median, _) = 0.46 * width, median_bits([c.exposure for c in group])
        marks += group_marks(group, place, width, colour_of_copies(copies, groups))
        bar = (median, place - half, place + half)
        marks.append(mark("hlines", *bar, color=INK, linewidth=2.2, zorder=1.5))
        if few:
            box = {"facecolor": PAPER, "linewidth": 0, "pad": 1.0}
            style = {"va": "center", "fontsize": 9, "fontweight": "bold", "color": INK}
            style |= {"xytext": (4, 0), "textcoords": "offset points", "bbox": box}
            name = mark("annotate", medians[copies], (place + half, median), **style)
            marks.append(name._replace(only="wide"))
    ends: tuple[float | None, float | None] = (None, None)
    if places:
        margin = 1.1 if len(places) == 1 else 0.1
        low, high = (max(1.1 * width, margin) for width in (widths[0], widths[-1]))
        ends = places[0] - low, places[-1] + high
    wide = copies_axis(audit, groups, places, limits=ends)
    below = (medians, named) if len(groups) <= _MOST_BELOW else None
    return Panel(
        marks,
        wide,
        y,
        copies_axis(audit, groups, places, limits=ends, below=below),
        grid="y",
        legend="above",
    )


def _caption(audit: Audit, at: int) -> Text:
    there, size = audit.canaries_in_corpus, audit.formats[at].space_size
    mine = [c.exposure for c in audit.canaries if c.format == at]
    censored = any(e.censored for e in mine)
    hits = censored and any(e.draws is not None for e in mine)
    drawn = [c.exposure.draws or 1 for c in audit.canaries if c.exposure.confidence is not None]
    # Canaries of one format cannot share a place: the k-th has log2|R| - log2 k bits at most,
    # however well the model learned it. How many take half of the first places?
    injected = (c.exposure.rank for c in audit.injected if c.format == at)
    ranks = sorted(rank for rank in injected if rank is not None)
    crowded = [(k, rank) for k, rank in enumerate(ranks, 1) if k > 1 and rank <= 2 * k]
    crowd, last = crowded[-1] if there and crowded else (0, 0)
    return said_in_one(
        "audit.exposure.caption",
        alone=len(audit.formats) == 1,
        there=there,
        hits=hits,
        unfinished=censored and not hits,
        censored=censored,
        format=audit.formats[at].masked,
        most=bits(math.log2(max(drawn, default=1))),
        usual=bits(UNLEARNED_95_BITS),
        size=size,
        crowd=crowd,
        places=last,
        highest=bits(math.log2(size) - math.log2(crowd or 1)),
    )


def group_marks(
    group: Sequence[CanaryResult], place: float, width: float, colour: str
) -> Iterable[Mark]:
    """Points with their intervals, jittered by the canary's place in its group."""
    jitter = (np.arange(1, len(group) + 1) * _GOLDEN) % 1.0 - 0.5
    x = place + 0.72 * width * (jitter if len(group) > 1 else np.zeros(1))
    exposures = [c.exposure for c in group]
    low, high = np.array([(e.lower_bits, e.upper_bits) for e in exposures]).T
    height = np.array([e.lower_bits if e.bits is None else e.bits for e in exposures])
    bound = np.array([e.censored for e in exposures])
    crowd = max(len(group) / 24, 1.0)
    # A bound is open upwards: a dotted line to the largest exposure that there is.
    for some, dashes, dense in ((~bound, "-", 0.4), (bound, SPARSE, 0.7)):
        style = {"linewidth": 1.1, "linestyle": dashes, "alpha": dense / crowd}
        yield mark("vlines", x[some], low[some], high[some], color=colour, **style)
    hollow, size = group[0].control, 22 / min(crowd, 2.5)
    yield dots(x[~bound], height[~bound], size, colour, hollow=hollow, marker="o")
    yield dots(x[bound], height[bound], 1.7 * size, colour, hollow=True, marker="^")


def histogram_figure(audit: Audit, at: int) -> Figure:
    """Log-perplexities of one format's candidates, its canaries as ticks below."""
    groups, priced = audit.by_repetitions(at), audit.formats[at]
    rows, labels = [], {}
    every = math.ceil(len(groups) / _CATEGORIES) or 1
    for row, (copies, group) in enumerate(groups.items()):
        style = {"color": colour_of_copies(copies, groups), "linewidth": 1.4}
        style["linestyle"] = "-" if copies else (0, (1.6, 0.8))
        rows.append(mark("vlines", [c.px_bits for c in group], row - 0.36, row + 0.36, **style))
        if row % every == 0:
            planned = copies and not audit.canaries_in_corpus
            labels[row] = f"{count(copies)} planned" if planned else group_name(copies)
    below = Panel(
        rows,
        Axis("log-perplexity (bits); more likely to the left"),
        Axis(limits=(max(len(rows), 1) - 0.45, -0.55), ticks=labels, ruled=False),
        grid="x",
        height=min(0.1 + 0.075 * len(rows), 0.55),
    )
    histogram, px = priced.histogram, [c.px_bits for c in audit.canaries if c.format == at]
    words = f"Log-perplexities of {count(histogram.total)} candidates"
    if histogram.total:
        edges = histogram.edges()
        words += f", between {bits(edges[0])} and {bits(edges[-1])} bits"
    if px:
        words += f"; those of the canaries are between {bits(min(px))} and {bits(max(px))} bits"
    if (fit := priced.skew_normal) is not None:
        mean = bits(fit.curve.mean_bits)
        words += f"; the skew-normal curve over them has its mean at {mean} bits"
    caption = said_in_one(
        "audit.candidates.caption",
        enumerated=priced.enumerated,
        all=priced.candidates,
        drawn=histogram.total,
        size=priced.space_size,
        curve=fit,
        verdict=curve_verdict(fit),
    )
    panels = [_counts_panel(priced), below]
    table = _perplexities(histogram, groups)
    return Figure(f"histogram {at}", f"{words}.", panels, caption, table, stack=True)


def _perplexities(histogram: Histogram, groups: Mapping[int, Sequence[CanaryResult]]) -> Table:
    counts, cells = np.array(histogram.counts, np.int64), ["–"] * 3
    if histogram.total:  # to the width of a bin: the lower edges
        filled, middle = np.flatnonzero(counts), np.searchsorted(counts.cumsum(), counts.sum() / 2)
        places = (filled[0], middle, filled[-1])
        cells = [f"about {bits(histogram.edges()[place])}" for place in places]
    rows = [("candidates", count(histogram.total), *cells)]
    for copies, group in groups.items():
        px = [c.px_bits for c in group]
        values = (min(px), statistics.median(px), max(px))
        rows.append((group_name(copies), count(len(px)), *(f"{v:.2f}" for v in values)))
    columns = ("Of", "Number", "Smallest", "Median", "Largest")
    return Table("Log-perplexities, in bits", columns, rows)


def _counts_panel(priced: FormatResult) -> Panel:
    """The histogram in at most 120 bins, and what the skew-normal curve expects in them."""
    counts, edges, unit = coarser(priced.histogram)
    label = f"candidates per {'bit' if unit == 1 else f'{unit:g} bits'}"
    if not len(counts):
        place = {"xycoords": "axes fraction", "ha": "center"}
        nothing = mark("annotate", "no candidate was scored", (0.5, 0.5), **place)
        return Panel([nothing], y=Axis(label), grid="x")
    # Counts over several powers of ten: the few likely candidates are what matters.
    log = bool(counts.max() >= 100)
    base, room = (0.5, 2.0) if log else (0.0, 1.08)
    heights = np.maximum(counts, base)
    marks = [
        mark("stairs", heights, edges, baseline=base, fill=True, facecolor=FILL, linewidth=0),
        steps(heights, edges, MUTED, 0.9, baseline=base),
    ]
    top, ticks = room * counts.max(), None
    if log:
        highest = int(math.log10(counts.max()))
        ticks = {10.0**k: count(10**k) for k in range(0, highest + 1, math.ceil(highest / 6))}
    if (fit := priced.skew_normal) is not None:
        mean, sd = fit.curve.mean_bits, fit.curve.sd_bits
        x = np.linspace(mean - 9 * sd, mean + 9 * sd, 1201)
        expected = priced.histogram.total * unit * np.exp(fit.curve.log_density(x))
        shown = expected > (base or 1e-3 * expected.max())
        name = "skew-normal curve" + (" (failed its test)" if fit.rejected else "")
        style = {"linestyle": (0, (4, 2)), "label": name}
        marks.append(line(x[shown], expected[shown], CURVE, 1.6, **style))
        top = max(top, room * expected.max())
    y = Axis(label, limits=(base, top), ticks=ticks, log=log)
    return Panel(marks, y=y, grid="x", legend="above")


def coarser(histogram: Histogram) -> tuple[np.ndarray, np.ndarray, float]:
    """Counts, edges and width after merging bins, by a power of two."""
    width, counts = histogram.width_bits, np.array(histogram.counts, np.int64)
    first = round(histogram.start_bits / width)
    while len(counts) > _MOST_BINS:
        first, counts = joined(first, counts)
        width *= 2
    return counts, width * (first + np.arange(len(counts) + 1)), width


def group_name(copies: int) -> str:
    """``controls``, ``1 copy``, ``16 copies``."""
    return plural(copies, "copy", "copies") if copies else "controls"


def exposure_axis(
    space_bits: float,
    label: str = "exposure (bits)",
    highest: float = 0.0,
    words: tuple[str, str] | Literal[""] | None = None,
) -> tuple[list[Mark], Axis]:
    """Exposure upwards: where canaries are that were not learned, and the largest possible.

    `words` are those at the largest, and in the legend for what was not learned.
    """
    first, usual = words or (f"found at the first guess: {bits(space_bits)} bits", "")
    limits = [
        mark("axhspan", 0, UNLEARNED_95_BITS, color=BAND, linewidth=0),
        across("axhline", 1.0, linewidth=0.9, linestyle=DOTTED, label=usual or None),
        across("axhline", space_bits, INK),
        _beside(first, space_bits),
    ]
    top = max(space_bits * 1.09, space_bits + 0.6, highest)
    return limits, Axis(label, limits=(min(-0.4, -0.02 * space_bits), top), few=True)


def _beside(words: str, place: float) -> Mark:
    """Words on a line through a panel, at its left end."""
    style: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points"}
    return mark("annotate", words, (0.0, place), xytext=(4, 4), **style, fontsize=9, color=INK)


def places_of(copies: Sequence[int]) -> tuple[list[float], list[float]]:
    """Where the canaries of each number of copies are, and the width that they may take.

    A few groups are side by side; more of them on a logarithmic scale.
    """
    if len(copies) <= _CATEGORIES:
        return [float(i) for i in range(len(copies))], [0.56] * len(copies)
    places = [math.log2(n) + 1 if n else 0.0 for n in copies]
    gaps = [math.inf, *np.diff(places).tolist(), math.inf]
    return places, [min(0.56, 0.8 * min(pair)) for pair in itertools.pairwise(gaps)]


def copies_axis(
    audit: Audit,
    copies: Iterable[int],
    places: Sequence[float],
    *,
    limits: tuple[float | None, float | None],
    below: tuple[Mapping[int, str], str] | None = None,
) -> Axis:
    """Numbers of copies, as many as fit; below each a median, and what that is."""
    few, ticks = len(places) <= _CATEGORIES, dict[float, str]()
    for n, place in zip(copies, places, strict=True):
        # Of many, the first of every doubling or so, from the left.
        if few or not ticks or place - max(ticks) >= 0.8:
            ticks[place] = f"{count(n)}\n{fill(below[0][n], 8)}" if below else count(n)
    planned = "in the training data" if audit.canaries_in_corpus else "planned, none put in"
    named = control_of(audit)
    kinds = "0: controls" + (f"; {count(named)}: positive control" if named else "")
    ends = f"({kinds})" + (f",\nand {below[1]}" if below else "")
    return Axis(f"copies {planned} {ends}", limits, ticks, ruled=not few, short=f"copies {ends}")


def colour_of_copies(copies: int, groups: Iterable[int]) -> str:
    """Grey for controls; from dark blue to orange with the number of copies."""
    if copies == 0:
        return CONTROL
    injected = [n for n in groups if n]
    share = injected.index(copies) / max(len(injected) - 1, 1)
    return STEPS[round(share * (len(STEPS) - 1))]
