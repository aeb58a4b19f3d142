"""Figures from numbers to pixels: on the reader's axes, in a page, or as a file for print.

Our own style, whatever the reader's is; the same figure gives the same bytes.
"""

from __future__ import annotations

import hashlib
import io
import math
import os
import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from textwrap import fill
from typing import TYPE_CHECKING, Any

from canary.reports.palette import GRID, INK, MUTED, PAPER, with_variables

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

    from canary.reports.document import Axis, Figure, Panel

PRINTED = (6.9, 4.2)
"""Inches: the width of a printed page."""

_WIDE = (9.6, 4.5)  # inches for a desk; text keeps its size in points
_NARROW = (4.4, 4.4)  # for a phone
_BAR, _BESIDE_BARS = 0.4, 1.0  # inches that a bar takes, and what is above and below all
_PRINT_DPI = 300
_SMALL, _SMALLEST = 3.3, 0.65  # inches: below, texts shrink with the axes, to this part at least
_CHARACTER = 0.07  # inches of text in 10 points
_STACK_GAP = 0.03
_MANY_NAMES = 4
_MOST_COLUMNS = 6

_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "pdf.fonttype": 42,
    "font.size": 10.0,
    "text.color": INK,
    "text.parse_math": False,
    "axes.edgecolor": MUTED,
    "axes.facecolor": PAPER,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.color": MUTED,
    "ytick.labelcolor": INK,
}
# Metadata would put a date and addresses of vocabularies into the file.
_NO_METADATA: dict[str, dict[str, Any]] = {
    "svg": dict.fromkeys(("Creator", "Date", "Format", "Type")),
    "pdf": dict.fromkeys(("Creator", "Producer", "CreationDate")),
    "png": {"Software": None},
}


def svg_of(figure: Figure, *, wide: bool) -> str:
    """A figure as one ``svg`` element for a page, whose variables give the colours.

    It has ids of its own, so that many can share the page.
    """
    name = f"{figure.name} {wide}"
    with _canvas(figure, _WIDE if wide else _NARROW) as drawing:
        if figure.stack:
            draw_on(drawing.subplots(), figure, wide=wide)
        else:
            _draw_panels(drawing, figure, wide=wide)
        if not wide:
            for axes in drawing.axes:
                for part in axes.child_axes or [axes]:
                    _wrap_labels(part)
        text = _saved(drawing, "svg", name, transparent=True).decode()
    text = with_variables(text[text.index("<svg") :].strip())
    # A page needs no namespaces, and what refers to nothing outside needs no address.
    text = re.sub(r' xmlns(:\w+)?="[^"]*"', "", text).replace("xlink:href=", "href=")
    used = set(re.findall(r'(?:href="#|url\(#)([^")]+)', text))
    prefix = "f" + hashlib.sha256(name.encode()).hexdigest()[:8]
    text = re.sub(
        r' id="([^"]*)"', lambda m: f' id="{prefix}-{m[1]}"' if m[1] in used else "", text
    )
    text = re.sub(r'(href="#|url\(#)', rf"\g<1>{prefix}-", text)
    return re.sub(r'<svg [^>]*viewBox="([^"]*)"[^>]*>', r'<svg viewBox="\1">', text, count=1)


def file_of(figure: Figure, kind: str, size: tuple[float, float] = PRINTED) -> bytes:
    """A figure of `size` inches as the bytes of a ``svg``, ``png`` or ``pdf`` file, on white."""
    with _canvas(figure, size) as drawing:
        import matplotlib as mpl

        draw_on(drawing.subplots(), figure)
        with mpl.rc_context({"svg.fonttype": "path"}):  # a printer may lack our font
            return _saved(drawing, kind, "canary", transparent=False)


def draw_on(axes: Axes, figure: Figure, *, wide: bool = True) -> None:
    """Draw a stack within the frame of `axes`, or the first panel of another figure on them."""
    if not figure.stack:
        panel = figure.panels[0]
        wide = wide and _inches(axes) >= _SMALL  # else words would be on the points
        _draw(axes, panel, wide=wide, width=_inches(axes) / _scale(_inches(axes)))
        if figure.x:
            axes.set(xlabel=f"{figure.x}, {panel.title}", ylabel=figure.y, title="")
        _shrink(axes, panel)
        return
    axes.axis("off")
    gaps = _STACK_GAP * (len(figure.panels) - 1)
    rest = 1.0 - gaps - sum(panel.height for panel in figure.panels)
    bottom, lowest = 0.0, None
    for panel in reversed(figure.panels):  # the lowest has the x axis of all
        height = panel.height or rest
        part = axes.inset_axes((0.0, bottom, 1.0, height), sharex=lowest)
        _draw(part, panel, wide=wide, width=_inches(axes) / _scale(_inches(axes)))
        _shrink(part, panel)
        if lowest is not None:
            part.tick_params(axis="x", length=0, labelbottom=False)
            part.set_xlabel("")
        lowest = lowest or part
        bottom += height + _STACK_GAP


def _scale(width: float) -> float:
    """Of the texts on axes of some inches: less than 1 on the small ones of a paper."""
    return min(max(width / _SMALL, _SMALLEST), 1.0)


def _shrink(axes: Axes, panel: Panel) -> None:
    """On the small axes of a paper: smaller texts, short labels, and no words on the frame."""
    box, dpi = axes.get_window_extent(), axes.figure.dpi
    width, height = box.width / dpi, box.height / dpi
    scale = _scale(width)
    if scale >= 1.0:
        return
    axes.tick_params(labelsize=9 * scale)
    legend, character = axes.get_legend(), scale * _CHARACTER
    named = legend.get_texts() if legend else []
    for text in (axes.xaxis.label, axes.yaxis.label, axes.title, *axes.texts, *named):
        text.set_fontsize(float(text.get_fontsize()) * scale)
    for text in named:
        most, name = int((width - 0.4) / character), text.get_text()
        text.set_text(name if len(name) <= most else f"{name[: most - 1]}…")
    narrow = panel.narrow_x or panel.x
    for label, axis, length in (
        (axes.xaxis.label, narrow, width),
        (axes.yaxis.label, panel.y, height),
    ):
        longest = max(map(len, label.get_text().split("\n")))
        if longest * character > 0.9 * length:
            label.set_text(axis.short or fill(label.get_text(), int(length / character)))
    low, high = axes.get_ylim()
    for one in panel.marks:
        if one.style.get("xycoords") == ("axes fraction", "data"):
            # Above its place a line of words needs this part of the height.
            place, part = one.data[1][1], min((4 + 12 * scale) / 54 / height, 0.5)
            high = max(high, (place - part * low) / (1 - part))
    axes.set_ylim(low, high)


@contextmanager
def _canvas(figure: Figure, size: tuple[float, float]) -> Iterator[Drawing]:
    """An empty drawing of `size` inches, with our style for as long as the block lasts.

    A figure of bars from left to right is as high as they need.
    """
    load_matplotlib()
    import matplotlib as mpl
    from matplotlib.figure import Figure as Drawing

    width, height = size
    marks = figure.panels[0].marks if len(figure.panels) == 1 else ()
    if bars := max((len(one.data[0]) for one in marks if one.call == "barh"), default=0):
        height = _BESIDE_BARS + _BAR * bars
    # The reader's own matplotlibrc shall not change a report; pyplot is not involved.
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(_STYLE)
        yield Drawing(figsize=(width, height), layout="constrained")


def load_matplotlib() -> None:
    """Import matplotlib, though ``MPLBACKEND`` may name a backend that it does not know.

    No backend is needed to write a figure, and matplotlib itself cannot be imported then.
    """
    if "matplotlib" in sys.modules:
        return
    asked = os.environ.pop("MPLBACKEND", None)
    import matplotlib as mpl

    if asked is not None:
        os.environ["MPLBACKEND"] = asked
        with suppress(ValueError):
            mpl.rcParams["backend"] = asked


def _draw_panels(drawing: Drawing, figure: Figure, *, wide: bool) -> None:
    number = len(figure.panels)
    columns = number if wide else min(number, figure.narrow_columns)
    grid = drawing.subplots(math.ceil(number / columns), columns, squeeze=False)
    for axes in grid.flat[number:]:
        axes.set_visible(False)
    for axes, panel in zip(grid.flat, figure.panels, strict=False):
        _draw(axes, panel, wide=wide, width=_inches(axes))
        if figure.x:
            axes.tick_params(labelleft=axes in grid[:, 0])
    if figure.x:
        drawing.supxlabel(figure.x, fontsize=10, color=INK)
        drawing.supylabel(figure.y, fontsize=10, color=INK)


def _draw(axes: Axes, panel: Panel, *, wide: bool, width: float) -> None:
    sides = (("x", (not wide and panel.narrow_x) or panel.x), ("y", panel.y))
    for name, axis in sides:
        if axis.log:
            axes.set(**{f"{name}scale": "log"})
    for one in panel.marks:
        if one.only in ("", "wide" if wide else "narrow"):
            getattr(axes, one.call)(*one.data, **one.style)
    for name, axis in sides:
        _set_axis(axes, name, axis)
    if panel.grid:
        axes.set_axisbelow(True)  # on axes of a user, too
        axes.grid(axis=panel.grid, color=GRID, linewidth=0.8)  # type: ignore[arg-type]
    if panel.title:
        axes.set_title(panel.title, fontsize=10, color=INK)
    _set_legend(axes, panel, width)


def _wrap_labels(axes: Any) -> None:
    """On a phone, labels that are longer than their axes take several lines, brackets their own."""
    box, dpi = axes.get_window_extent(), axes.figure.dpi
    for label, length in ((axes.xaxis.label, box.width), (axes.yaxis.label, box.height)):
        most, lines = int(length / dpi / _CHARACTER), label.get_text().split("\n")
        if max(map(len, lines)) > most > 0:
            lines = label.get_text().replace(" (", "\n(").split("\n")
            label.set_text("\n".join(fill(one, most) for one in lines))


def _set_axis(axes: Axes, name: str, axis: Axis) -> None:
    from matplotlib.ticker import MaxNLocator, NullLocator

    ticks = axis.ticks
    side: Any = axes.xaxis if name == "x" else axes.yaxis
    axes.set(**{f"{name}label": axis.label})
    if axis.few:
        side.set_major_locator(MaxNLocator(nbins=7, steps=[1, 2, 5, 10]))
    if axis.limits != (None, None):
        axes.set(**{f"{name}lim": axis.limits})
    if axis.log and ticks is None:
        low, high = (math.log10(end) for end in side.get_view_interval())
        powers = [10.0**k for k in range(math.ceil(low), math.floor(high) + 1)]
        ticks = {power: f"{power:g}" for power in powers[:: math.ceil(len(powers) / 4) or 1]}
    if ticks is not None:
        limits = side.get_view_interval()
        side.set_ticks(list(ticks), list(ticks.values()))
        if axis.limits != (None, None):
            axes.set(**{f"{name}lim": tuple(limits)})  # which ticks shall not widen
    if axis.log:
        side.set_minor_locator(NullLocator())
    if not axis.ruled:
        axes.tick_params(axis=name, length=0)  # type: ignore[arg-type]
        if name == "y":
            axes.tick_params(axis="y", labelsize=9)  # names, which take width


def _set_legend(axes: Axes, panel: Panel, width: float) -> None:
    from matplotlib.lines import Line2D

    handles, names = axes.get_legend_handles_labels()
    if panel.key:
        handles = [Line2D([], [], color=colour, **_swatch(name)) for colour, name in panel.key]
        names = [name for _, name in panel.key]
    if not panel.legend or not names:
        return
    place: dict[str, Any] = {"loc": panel.legend}
    if panel.legend == "above" or (width <= _NARROW[0] and len(names) > _MANY_NAMES):
        each = 0.43 + _CHARACTER * max(map(len, names))  # inches, with the line before a name
        place = {
            "loc": "lower left",
            "bbox_to_anchor": (0.0, 1.01),
            "ncols": max(1, min(len(names), _MOST_COLUMNS, int(width / each))),
            "columnspacing": 1.2,
            "handlelength": 1.6,
            "borderaxespad": 0.0,
        }
    legend = axes.legend(handles, names, frameon=False, fontsize=9, **place)
    for text in legend.get_texts():
        text.set_parse_math(False)  # a label is text, whatever dollar signs are in it


def _swatch(name: str) -> dict[str, Any]:
    """How a name of a key looks: as a line, or as the points that it is about."""
    if name.startswith("faint"):
        return {"linestyle": "none", "marker": "o", "markersize": 4.0, "alpha": 0.45}
    if name.startswith("hollow"):
        return {"linestyle": "none", "marker": "^", "markersize": 6.0, "fillstyle": "none"}
    if name.startswith("other canaries"):
        return {"linestyle": "none", "marker": "$!$", "markersize": 8.0}
    return {"linewidth": 2.0}


def _inches(axes: Axes) -> float:
    return float(axes.get_window_extent().width / axes.figure.dpi)


def _saved(drawing: Drawing, kind: str, name: str, *, transparent: bool) -> bytes:
    import matplotlib as mpl

    buffer = io.BytesIO()
    metadata = _NO_METADATA[kind]
    with mpl.rc_context({"svg.hashsalt": name}), warnings.catch_warnings():
        # A label may hold characters that our font lacks; a box stands for each.
        warnings.filterwarnings("ignore", "Glyph ", UserWarning)
        # Names of very many audits leave the axes no room: it is drawn as it is.
        warnings.filterwarnings("ignore", "constrained_layout not applied", UserWarning)
        drawing.savefig(
            buffer, format=kind, metadata=metadata, transparent=transparent, dpi=_PRINT_DPI
        )
    return buffer.getvalue()
