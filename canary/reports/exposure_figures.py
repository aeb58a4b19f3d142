"""The figures of an audit as numbers, and the axes that figures of exposure share.

They hold our own words only, and of what came with an audit its numbers: labels and formats
belong into the text around.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from canary.audits.audit_result import Audit, CanaryResult, FormatResult, median_bits
from canary.audits.history import History
from canary.errors import InputError
from canary.reports.builders import PlotOptions, figure_of
from canary.reports.document import Axis, Figure, Mark, Panel, mark
from canary.reports.palette import BAND, CONTROL, CURVE, FILL, INK, MUTED, PAPER, STEPS
from canary.reports.sentences import UNLEARNED_95_BITS
from canary.statistics.histogram import Histogram, joined
from canary.statistics.numbers import bits, count, plural

DASHED, DOTTED, SPARSE = (0, (5, 3)), (0, (1, 2)), (0, (1, 2.5))
"""Of lines: a limit, a mark, and what is open upwards."""

# Steps between two jittered points; the golden ratio spreads any number of them evenly.
_GOLDEN = (math.sqrt(5) - 1) / 2
_CATEGORIES = 10
_MOST_BINS = 120


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
    check_format(audit, options.format)
    if options.kind == "utility":
        raise InputError("utility is for comparing, and there is one audit", cure="give several")
    return _FIGURES[options.kind](audit, options.format)


def exposure_figure(audit: Audit, at: int) -> Figure:
    """Exposure against number of copies for one format, every canary a point."""
    groups = groups_of(audit, at)
    marks, y = exposure_axis(math.log2(audit.formats[at].space_size))
    places, widths = places_of(list(groups))
    few = len(groups) <= _CATEGORIES
    for (copies, group), place, width in zip(groups.items(), places, widths, strict=True):
        marks += _group_marks(group, place, width, colour_of_copies(copies, groups), few=few)
    medians = {n: _median_label(group) for n, group in groups.items()}
    label = "copies in the corpus" if audit.canaries_in_corpus else "copies planned, none put in"
    label += " (0: controls)"
    margin = 1.1 if len(places) == 1 else 0.1
    ends = _ends(places, [1.1 * width for width in widths], margin)
    x = copies_axis(groups, places, label, limits=ends)
    narrow = f"{label},\nand median exposure in bits" if few else label
    below = copies_axis(groups, places, narrow, limits=ends, below=medians if few else {})
    words = "; ".join(
        f"{group_name(n)}: {label.replace('≥', 'at least')}" for n, label in medians.items()
    )
    return Figure(
        f"exposure {at}",
        f"Exposure against number of copies. Median exposure in bits, {words}. The largest "
        f"possible is {bits(math.log2(audit.formats[at].space_size))}.",
        [Panel(marks, x, y, narrow_x=below, grid="y")],
    )


def histogram_figure(audit: Audit, at: int) -> Figure:
    """Log-perplexities of one format's candidates, its canaries as ticks below."""
    groups, priced = groups_of(audit, at), audit.formats[at]
    names = list(groups)
    rows = [
        mark(
            "vlines",
            [c.px_bits for c in group],
            row - 0.36,
            row + 0.36,
            color=colour_of_copies(copies, groups),
            linewidth=1.4,
            linestyle="-" if copies else (0, (1.6, 0.8)),
        )
        for row, (copies, group) in enumerate(groups.items())
    ]
    shown = names[:: math.ceil(len(names) / _CATEGORIES) or 1]
    planned = not audit.canaries_in_corpus
    labels = {
        names.index(n): f"{count(n)} planned" if planned and n else group_name(n) for n in shown
    }
    below = Panel(
        rows,
        Axis("log-perplexity (bits); likelier to the left"),
        Axis(limits=(max(len(rows), 1) - 0.45, -0.55), ticks=labels, ruled=False),
        grid="x",
        height=min(0.1 + 0.075 * len(rows), 0.55),
    )
    return Figure(
        f"histogram {at}",
        _histogram_words(priced, [c.px_bits for group in groups.values() for c in group]),
        [_counts_panel(priced), below],
        stack=True,
    )


def group_name(copies: int) -> str:
    """``controls``, ``1 copy``, ``16 copies``."""
    return plural(copies, "copy", "copies") if copies else "controls"


def exposure_axis(
    space_bits: float, label: str = "exposure (bits)", highest: float = 0.0
) -> tuple[list[Mark], Axis]:
    """Exposure upwards: where canaries are that were not learned, and the largest possible."""
    limits = [
        mark("axhspan", 0, UNLEARNED_95_BITS, color=BAND, linewidth=0),
        mark("axhline", 1.0, color=MUTED, linewidth=0.9, linestyle=DOTTED),
        mark("axhline", space_bits, color=INK, linewidth=1.0, linestyle=DASHED),
        mark(
            "annotate",
            f"found at the first guess: {bits(space_bits)} bits",
            (0.0, space_bits),
            xycoords=("axes fraction", "data"),
            xytext=(4, 4),
            textcoords="offset points",
            fontsize=9,
            color=INK,
        ),
    ]
    top = max(space_bits * 1.09, space_bits + 0.6, highest)
    return limits, Axis(label, limits=(min(-0.4, -0.02 * space_bits), top), few=True)


def places_of(copies: Sequence[int]) -> tuple[list[float], list[float]]:
    """Where the canaries of each number of copies are, and the width that they may take.

    A few groups are side by side; more of them on a logarithmic scale.
    """
    if len(copies) <= _CATEGORIES:
        return [float(i) for i in range(len(copies))], [0.56] * len(copies)
    places = [math.log2(n) + 1 if n else 0.0 for n in copies]
    gaps = [math.inf, *np.diff(places).tolist(), math.inf]
    return places, [min(0.56, 0.8 * min(pair)) for pair in itertools.pairwise(gaps)]


def _ends(
    places: Sequence[float], widths: Sequence[float], margin: float
) -> tuple[float | None, float | None]:
    if not places:
        return None, None
    return places[0] - max(widths[0], margin), places[-1] + max(widths[-1], margin)


def copies_axis(
    copies: Iterable[int],
    places: Sequence[float],
    label: str,
    *,
    limits: tuple[float | None, float | None],
    below: Mapping[int, str] | None = None,
) -> Axis:
    """Numbers of copies, as many as there is room for; words below each."""
    few = len(places) <= _CATEGORIES
    ticks: dict[float, str] = {}
    for n, place in zip(copies, places, strict=True):
        # Of many, the first of every doubling or so, from the left.
        if few or not ticks or place - max(ticks) >= 0.8:
            ticks[place] = f"{count(n)}\n{below[n]}" if below else count(n)
    return Axis(label, limits=limits, ticks=ticks, ruled=not few)


def _group_marks(
    group: Sequence[CanaryResult], place: float, width: float, colour: str, *, few: bool
) -> list[Mark]:
    """Points with their intervals, jittered by the canary's place in its group."""
    jitter = (np.arange(1, len(group) + 1) * _GOLDEN) % 1.0 - 0.5
    x = place + 0.72 * width * (jitter if len(group) > 1 else np.zeros(1))
    exposures = [c.exposure for c in group]
    low = np.array([e.lower_bits for e in exposures])
    high = np.array([e.upper_bits for e in exposures])
    height = np.array([e.lower_bits if e.bits is None else e.bits for e in exposures])
    bound = np.array([e.censored for e in exposures])
    crowd = max(len(group) / 24, 1.0)
    median, _ = median_bits(exposures)
    marks = []
    # A bound is open upwards: a dotted line to the largest exposure that there is.
    for some, dots, dense in ((~bound, "-", 0.4), (bound, SPARSE, 0.7)):
        style = {"linewidth": 1.1, "linestyle": dots, "alpha": dense / crowd}
        marks.append(mark("vlines", x[some], low[some], high[some], color=colour, **style))
    face = PAPER if group[0].control else colour
    for some, marker, scale, fill in ((~bound, "o", 1.0, face), (bound, "^", 1.7, PAPER)):
        style = {"facecolor": fill, "edgecolor": colour, "linewidth": 1.2}
        size = scale * 22 / min(crowd, 2.5)
        marks.append(mark("scatter", x[some], height[some], size, marker=marker, **style))
    half = 0.46 * width
    marks.append(
        mark("hlines", median, place - half, place + half, color=INK, linewidth=2.2, zorder=1.5)
    )
    if few:
        name = mark(
            "annotate",
            _median_label(group),
            (place + half, median),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            fontsize=9,
            fontweight="bold",
            color=INK,
            bbox={"facecolor": PAPER, "linewidth": 0, "pad": 1.0},
        )
        marks.append(name._replace(only="wide"))
    return marks


def _counts_panel(priced: FormatResult) -> Panel:
    """The histogram in at most 120 bins, and what the skew-normal curve expects in them."""
    counts, edges, unit = _coarser(priced.histogram)
    y = Axis(f"candidates per {'bit' if unit == 1 else f'{unit:g} bits'}")
    if not len(counts):
        nothing = mark("annotate", "no candidate was priced", (0.5, 0.5), xycoords="axes fraction",
                       ha="center")  # fmt: skip
        return Panel([nothing], y=y, grid="x")
    # Counts over several powers of ten: the few likely candidates are what matters.
    log = counts.max() >= 100
    base, room = (0.5, 2.0) if log else (0.0, 1.08)
    marks = [
        mark("stairs", np.maximum(counts, base), edges, baseline=base, fill=True, facecolor=FILL,
             linewidth=0),
        mark("stairs", np.maximum(counts, base), edges, baseline=base, color=MUTED, linewidth=0.9),
    ]  # fmt: skip
    top, ticks = room * counts.max(), None
    if log:
        highest = int(math.log10(counts.max()))
        ticks = {10.0**k: count(10**k) for k in range(0, highest + 1, math.ceil(highest / 6))}
    if (fit := priced.skew_normal) is not None:
        curve = fit.curve
        ends = (curve.mean_bits - 9 * curve.sd_bits, curve.mean_bits + 9 * curve.sd_bits)
        x = np.linspace(*ends, 1201)
        expected = priced.histogram.total * unit * np.exp(curve.log_density(x))
        shown = expected > (base or 1e-3 * expected.max())
        name = "skew-normal curve" + (" (failed its test)" if fit.rejected else "")
        marks.append(mark("plot", x[shown], expected[shown], color=CURVE, linewidth=1.6,
                          linestyle=(0, (4, 2)), label=name))  # fmt: skip
        top = max(top, room * expected.max())
    y = Axis(y.label, limits=(base, top), ticks=ticks, log=bool(log))
    return Panel(marks, y=y, grid="x", legend="above")


def _coarser(histogram: Histogram) -> tuple[np.ndarray, np.ndarray, float]:
    """Counts, edges and width after merging bins, by a power of two."""
    width, counts = histogram.width_bits, np.array(histogram.counts, np.int64)
    first = round(histogram.start_bits / width)
    while len(counts) > _MOST_BINS:
        first, counts = joined(first, counts)
        width *= 2
    return counts, width * (first + np.arange(len(counts) + 1)), width


def _histogram_words(priced: FormatResult, px: Sequence[float]) -> str:
    histogram = priced.histogram
    text = f"Log-perplexities of {count(histogram.total)} candidates"
    if histogram.total:
        edges = histogram.edges()
        text += f", between {bits(edges[0])} and {bits(edges[-1])} bits"
    if px:
        text += f"; those of the canaries lie between {bits(min(px))} and {bits(max(px))} bits"
    if (fit := priced.skew_normal) is not None:
        mean = bits(fit.curve.mean_bits)
        text += f"; the skew-normal curve over them has its mean at {mean} bits"
    return f"{text}."


def groups_of(audit: Audit, at: int) -> dict[int, list[CanaryResult]]:
    """The canaries of one format by number of copies, ascending; 0 holds the controls."""
    mine = [c for c in audit.canaries if c.format == at]
    numbers = sorted({c.repetitions for c in mine})
    return {n: [c for c in mine if c.repetitions == n] for n in numbers}


def _median_label(group: Sequence[CanaryResult]) -> str:
    median, bound = median_bits([c.exposure for c in group])
    return f"{'≥ ' if bound else ''}{bits(median)}"


def colour_of_copies(copies: int, groups: Iterable[int]) -> str:
    """Grey for controls; from dark blue to orange with the number of copies."""
    if copies == 0:
        return CONTROL
    injected = [n for n in groups if n]
    at = injected.index(copies) / max(len(injected) - 1, 1)
    return STEPS[round(at * (len(STEPS) - 1))]


_FIGURES = {"exposure": exposure_figure, "histogram": histogram_figure}
