"""The figures of one audit, on axes and as SVG.

They hold numbers and our own words only, never text that came with an audit. The same
audit gives the same bytes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from canary.audits.audit_result import Audit, CanaryResult, FormatResult, median_bits
from canary.reports.canvas import WIDE, canvas, svg_element
from canary.reports.palette import BAND, CONTROL, CURVE, FILL, GRID, INK, MUTED, PAPER, STEPS
from canary.reports.sentences import UNLEARNED_95_BITS
from canary.statistics.histogram import joined
from canary.statistics.numbers import bits, count

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from canary.statistics.histogram import Histogram

__all__ = [
    "colour_of_copies",
    "draw_exposure",
    "draw_histogram",
    "draw_limits",
    "exposure_on",
    "histogram_on",
    "label_copies",
    "places_of",
]

# Steps between two jittered points; the golden ratio spreads any number of them evenly.
_GOLDEN = (math.sqrt(5) - 1) / 2
_CATEGORIES = 10


def draw_exposure(audit: Audit, at: int, *, size: tuple[float, float] = WIDE) -> str:
    """Exposure against number of copies for one format, every canary a point.

    Parameters
    ----------
    audit : Audit
    at : int
        Position of the format in `Audit.formats`.
    size : (float, float)
        Width and height in inches.

    Returns
    -------
    str
        One ``svg`` element, to stand in an HTML page.
    """
    with canvas(size) as figure:
        exposure_on(figure.subplots(), audit, at, wide=size[0] >= WIDE[0])
        return svg_element(figure, f"exposure {at} {size}")


def draw_histogram(audit: Audit, at: int, *, size: tuple[float, float] = WIDE) -> str:
    """Log-perplexities of one format's candidates, its canaries as ticks below.

    Parameters and the return value are those of `draw_exposure`.
    """
    with canvas(size) as figure:
        histogram_on(figure.subplots(), audit, at)
        return svg_element(figure, f"histogram {at} {size}")


def exposure_on(axes: Axes, audit: Audit, at: int, *, wide: bool = True) -> None:
    """`draw_exposure` on axes; `wide` if there is room for the medians beside the points."""
    groups = _groups(audit, at)
    space_bits = math.log2(audit.formats[at].space_size)
    draw_limits(axes, space_bits)
    places, widths = places_of(list(groups))
    few = len(groups) <= _CATEGORIES
    for (repetitions, group), place, width in zip(groups.items(), places, widths, strict=True):
        _draw_group(
            axes,
            group,
            place=place,
            width=width,
            colour=colour_of_copies(repetitions, groups),
            labelled=wide and few,
        )
    medians = {n: _median_label(group) for n, group in groups.items()}
    label_copies(axes, list(groups), places, below=medians if few and not wide else None)
    margin = 1.1 if len(places) == 1 else 0.1
    copies = "copies in the corpus" if audit.canaries_in_corpus else "copies planned, none put in"
    if places:
        axes.set_xlim(
            places[0] - max(1.1 * widths[0], margin), places[-1] + max(1.1 * widths[-1], margin)
        )
    axes.set_xlabel(
        f"{copies} (0: controls)"
        if wide or not few
        else f"{copies} (0: controls),\nand median exposure in bits"
    )


def histogram_on(axes: Axes, audit: Audit, at: int) -> None:
    """`draw_histogram` within the frame of `axes`: the counts above, the canaries below."""
    groups = _groups(audit, at)
    rows = len(groups)
    axes.axis("off")
    share = min(0.1 + 0.075 * rows, 0.55)
    bottom = axes.inset_axes((0.0, 0.0, 1.0, share))
    top = axes.inset_axes((0.0, share + 0.03, 1.0, 0.97 - share), sharex=bottom)
    unit = _draw_counts(top, audit.formats[at].histogram)
    _draw_curve(top, audit.formats[at], unit)
    for row, (repetitions, group) in enumerate(groups.items()):
        bottom.vlines(
            [c.px_bits for c in group],
            row - 0.36,
            row + 0.36,
            color=colour_of_copies(repetitions, groups),
            linewidth=1.4,
            linestyle="-" if repetitions else (0, (1.6, 0.8)),
        )
    shown = _thin(list(groups), _CATEGORIES)
    names = list(groups)
    bottom.set_yticks(
        [names.index(n) for n in shown],
        [_copies_label(n, planned=not audit.canaries_in_corpus) for n in shown],
        fontsize=9,
    )
    bottom.set_ylim(max(rows, 1) - 0.45, -0.55)
    bottom.tick_params(axis="y", length=0)
    bottom.set_xlabel("log-perplexity (bits); likelier to the left")
    top.set_ylabel(f"candidates per {'bit' if unit == 1 else f'{unit:g} bits'}")
    top.tick_params(axis="x", length=0, labelbottom=False)
    for part in (top, bottom):
        part.grid(axis="x", color=GRID, linewidth=0.8)


def draw_limits(axes: Axes, space_bits: float) -> None:
    """Exposure on the y axis: where canaries stand that were not learned, and the largest."""
    from matplotlib.ticker import MaxNLocator

    axes.axhspan(0, UNLEARNED_95_BITS, color=BAND, linewidth=0)
    axes.axhline(1.0, color=MUTED, linewidth=0.9, linestyle=(0, (1, 2)))
    axes.axhline(space_bits, color=INK, linewidth=1.0, linestyle=(0, (5, 3)))
    axes.annotate(
        f"found at the first guess: {bits(space_bits)} bits",
        (0.0, space_bits),
        xycoords=("axes fraction", "data"),
        xytext=(4, 4),
        textcoords="offset points",
        fontsize=9,
        color=INK,
    )
    axes.set_ylim(min(-0.4, -0.02 * space_bits), max(space_bits * 1.09, space_bits + 0.6))
    axes.set_ylabel("exposure (bits)")
    axes.yaxis.set_major_locator(MaxNLocator(nbins=7, steps=[1, 2, 5, 10]))
    axes.grid(axis="y", color=GRID, linewidth=0.8)


def _draw_group(
    axes: Axes,
    group: Sequence[CanaryResult],
    *,
    place: float,
    width: float,
    colour: str,
    labelled: bool,
) -> None:
    """Points with their intervals, jittered by the canary's place in its group."""
    jitter = (np.arange(1, len(group) + 1) * _GOLDEN) % 1.0 - 0.5
    x = place + 0.72 * width * (jitter if len(group) > 1 else np.zeros(1))
    exposures = [c.exposure for c in group]
    low = np.array([e.lower_bits for e in exposures])
    high = np.array([e.upper_bits for e in exposures])
    censored = np.array([e.censored for e in exposures])
    height = np.array([e.lower_bits if e.bits is None else e.bits for e in exposures])
    control = group[0].control
    crowd = max(len(group) / 24, 1.0)
    known = ~censored
    axes.vlines(x[known], low[known], high[known], color=colour, linewidth=1.1, alpha=0.4 / crowd)
    # A bound is open upwards: a dotted line to the largest exposure that there is.
    axes.vlines(
        x[censored],
        low[censored],
        high[censored],
        color=colour,
        linewidth=1.0,
        linestyle=(0, (1, 2.5)),
        alpha=0.7 / crowd,
    )
    side = 22 / min(crowd, 2.5)
    face = PAPER if control else colour
    axes.scatter(
        x[known], height[known], side, marker="o", facecolor=face, edgecolor=colour, linewidth=1.1
    )
    axes.scatter(
        x[censored],
        height[censored],
        side * 1.7,
        marker="^",
        facecolor=PAPER,
        edgecolor=colour,
        linewidth=1.3,
    )
    half = 0.46 * width
    median, _ = median_bits(exposures)
    axes.hlines(median, place - half, place + half, color=INK, linewidth=2.2, zorder=1.5)
    if labelled:
        axes.annotate(
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


def _draw_counts(axes: Axes, histogram: Histogram) -> float:
    """The histogram, in about 80 bins; returns their width in bits."""
    counts, edges, unit = _coarser(histogram)
    if not len(counts):
        axes.text(0.5, 0.5, "no candidate was priced", transform=axes.transAxes, ha="center")
        return unit
    # Counts over several powers of ten: the few likely candidates are what matters.
    logarithmic = counts.max() >= 100
    base = 0.5 if logarithmic else 0.0
    axes.stairs(
        np.maximum(counts, base), edges, baseline=base, fill=True, facecolor=FILL, linewidth=0
    )
    axes.stairs(np.maximum(counts, base), edges, baseline=base, color=MUTED, linewidth=0.9)
    if logarithmic:
        axes.set_yscale("log")
        highest = int(math.log10(counts.max()))
        powers = range(0, highest + 1, math.ceil(highest / 6))
        axes.set_yticks([10.0**k for k in powers], [count(10**k) for k in powers])
        axes.minorticks_off()
        axes.set_ylim(base, counts.max() * 2.0)
    else:
        axes.set_ylim(0, counts.max() * 1.08)
    return unit


def _draw_curve(axes: Axes, priced: FormatResult, unit: float) -> None:
    """What the skew-normal curve expects in bins of `unit` bits, as far as the axes show."""
    fit, total = priced.skew_normal, priced.histogram.total
    if fit is None or not total:
        return
    curve, floor = fit.curve, axes.get_ylim()[0]
    x = np.linspace(curve.mean_bits - 9 * curve.sd_bits, curve.mean_bits + 9 * curve.sd_bits, 1201)
    expected = total * unit * np.exp(curve.log_density(x))
    shown = expected > max(floor, 1e-3 * expected.max() if floor == 0 else 0.0)
    axes.plot(
        x[shown],
        expected[shown],
        color=CURVE,
        linewidth=1.6,
        linestyle=(0, (4, 2)),
        label="skew-normal curve" + (" (failed its test)" if fit.rejected else ""),
    )
    axes.set_ylim(top=max(axes.get_ylim()[1], expected.max() * (2.0 if floor else 1.08)))
    axes.legend(
        loc="lower left", bbox_to_anchor=(0.0, 1.0), frameon=False, fontsize=9, borderaxespad=0.0
    )


def _coarser(histogram: Histogram) -> tuple[np.ndarray, np.ndarray, float]:
    """Counts, edges and width after merging bins, by a power of two, to at most 120."""
    width, counts = histogram.width_bits, np.array(histogram.counts, np.int64)
    first = round(histogram.start_bits / width)
    while len(counts) > 120:
        first, counts = joined(first, counts)
        width *= 2
    return counts, width * (first + np.arange(len(counts) + 1)), width


def _groups(audit: Audit, at: int) -> dict[int, list[CanaryResult]]:
    mine = [c for c in audit.canaries if c.format == at]
    numbers = sorted({c.repetitions for c in mine})
    return {n: [c for c in mine if c.repetitions == n] for n in numbers}


def places_of(repetitions: Sequence[int]) -> tuple[list[float], list[float]]:
    """Where the canaries of each number of copies stand, and the width that it may take.

    A few groups stand side by side; more of them on a logarithmic scale.
    """
    if len(repetitions) <= _CATEGORIES:
        return [float(i) for i in range(len(repetitions))], [0.56] * len(repetitions)
    places = [math.log2(n) + 1 if n else 0.0 for n in repetitions]
    gaps = [math.inf, *np.diff(places).tolist(), math.inf]
    return places, [min(0.56, 0.8 * min(pair)) for pair in itertools.pairwise(gaps)]


def label_copies(
    axes: Axes,
    copies: Sequence[int],
    places: Sequence[float],
    *,
    below: Mapping[int, str] | None = None,
) -> None:
    """Numbers of copies along the x axis, as many as there is room for; words below each."""
    few = len(copies) <= _CATEGORIES
    shown, last = [], -math.inf
    for n, place in zip(copies, places, strict=True):
        # Of many, the first of every doubling or so, from the left.
        if few or place - last >= 0.8:
            shown.append((n, place))
            last = place
    labels = [f"{count(n)}\n{below[n]}" if below else count(n) for n, _ in shown]
    axes.set_xticks([place for _, place in shown], labels)
    axes.tick_params(axis="x", length=0 if few else 3)


def _median_label(group: Sequence[CanaryResult]) -> str:
    median, bound = median_bits([c.exposure for c in group])
    return f"{'≥ ' if bound else ''}{bits(median)}"


def _thin(values: list[int], most: int) -> list[int]:
    step = math.ceil(len(values) / most)
    return values[::step]


def _copies_label(repetitions: int, *, planned: bool) -> str:
    if repetitions == 0:
        return "controls"
    if planned:
        return f"{count(repetitions)} planned"
    return "1 copy" if repetitions == 1 else f"{count(repetitions)} copies"


def colour_of_copies(repetitions: int, groups: Iterable[int]) -> str:
    """Grey for controls; from dark blue to orange with the number of copies."""
    if repetitions == 0:
        return CONTROL
    injected = [n for n in groups if n]
    at = injected.index(repetitions) / max(len(injected) - 1, 1)
    return STEPS[round(at * (len(STEPS) - 1))]
