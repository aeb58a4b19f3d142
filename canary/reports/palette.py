"""The colours of reports and figures, and the marks that figures are made of.

A figure is drawn in the colours for light screens, as a file shows it. In a page each of
them becomes a variable, so that the same drawing serves both.
"""

from __future__ import annotations

import re
from typing import Any

from canary.reports.document import Mark, mark

INK, MUTED, PAPER = "#1b2530", "#56626f", "#ffffff"
GRID, FILL, BAND = "#e4e8ec", "#c9d3dd", "#eef2f5"
CONTROL, CURVE = "#6b7785", "#b3261f"

STEPS = (
    *("#2a0593", "#48039f", "#6100a7", "#7a02a8", "#910ea3"),
    *("#a62098", "#ba3388", "#ca457a", "#d8576b", "#dd6046"),
)
"""From few copies to many."""

SERIES = (
    *("#1f5fa8", "#b8420c", "#1a7a4c", "#8a3ea8"),
    *("#7a5c00", "#b3266b", "#3d6b78", "#5b4636"),
)
"""One for each audit of a comparison, then again from the first."""

_DARK_STEPS = (
    *("#c04382", "#cc4977", "#da5b69", "#e76f5a", "#f1834c"),
    *("#f9983e", "#fca636", "#fdb92d", "#fbd324", "#f7e425"),
)
_DARK_SERIES = (
    *("#7db8f5", "#ff9c6e", "#62d39c", "#d8a3f0"),
    *("#e0c050", "#ff8fc0", "#8fc7d6", "#d0b49c"),
)

# Name of a variable: its colour on light screens and on dark ones.
_PAIRS: dict[str, tuple[str, str]] = {
    "paper": (PAPER, "#12171c"),
    "soft": ("#f5f7f9", "#1c232a"),
    "ink": (INK, "#e6eaee"),
    "muted": (MUTED, "#a3afba"),
    "line": ("#dfe4e9", "#323c46"),
    "note": ("#fdf8ec", "#2a2416"),
    "note-line": ("#e3c98a", "#6b5a2a"),
    "focus": ("#2f6fde", "#7fa9f5"),
    "memorized": ("#b3261e", "#ff8a80"),
    "undecided": ("#8a5a00", "#e5b454"),
    "not-found": ("#1c6e4a", "#6cd3a0"),
    "suspect": ("#7b2d8b", "#dd9be8"),
    "grid": (GRID, "#2b343d"),
    "fill": (FILL, "#3d4a57"),
    "band": (BAND, "#1f272f"),
    "control": (CONTROL, "#a0acb8"),
    "curve": (CURVE, "#ff8b81"),
    **{f"step-{i}": pair for i, pair in enumerate(zip(STEPS, _DARK_STEPS, strict=True))},
    **{f"series-{i}": pair for i, pair in enumerate(zip(SERIES, _DARK_SERIES, strict=True))},
}

LIGHT = {name: light for name, (light, _) in _PAIRS.items()}
"""Name of each variable and its colour on light screens."""

DARK = {name: dark for name, (_, dark) in _PAIRS.items()}
"""The same on dark screens."""

_NAMES = {colour: name for name, colour in LIGHT.items()}

DASHED, DOTTED, SPARSE = (0, (5, 3)), (0, (1, 2)), (0, (1, 2.5))
"""Of lines: a limit, a mark, and what is open upwards."""


def with_variables(svg: str) -> str:
    """An SVG whose styles name variables in place of the colours for light screens.

    A colour of somebody else's stays as it is.
    """

    def named(colour: re.Match[str]) -> str:
        return f"var(--{_NAMES[colour[0]]})" if colour[0] in _NAMES else colour[0]

    return re.sub(r'style="[^"]*"', lambda style: re.sub("#[0-9a-f]{6}", named, style[0]), svg)


def line(x: Any, y: Any, colour: str, width: float = 1.5, **style: Any) -> Mark:
    """A line through points."""
    return mark("plot", x, y, color=colour, linewidth=width, **style)


def dots(x: Any, y: Any, size: float, colour: str, *, hollow: bool = False, **style: Any) -> Mark:
    """Points with a rim; hollow ones are of controls, or stand for bounds."""
    style = {"linewidth": 1.2, **style}
    face = PAPER if hollow else colour
    return mark("scatter", x, y, size, facecolor=face, edgecolor=colour, **style)


def across(call: str, place: float, colour: str = MUTED, **style: Any) -> Mark:
    """A dashed line through all of a panel, ``axhline`` or ``axvline``: a limit."""
    style = {"linewidth": 1.0, "linestyle": DASHED, **style}
    return mark(call, place, color=colour, **style)


def steps(counts: Any, edges: Any, colour: str, width: float = 1.6, **style: Any) -> Mark:
    """The outline of a histogram."""
    return mark("stairs", counts, edges, color=colour, linewidth=width, **style)
