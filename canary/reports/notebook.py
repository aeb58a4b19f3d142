"""The figure of a result in a notebook."""

from __future__ import annotations

from typing import Any

from canary.errors import CanaryError
from canary.reports.builders import PlotOptions, figure_of
from canary.reports.drawing import svg_of
from canary.reports.palette import LIGHT, PAPER


def inline_figure(result: Any) -> str:
    """An ``svg`` element on white; nothing where a result has no figure."""
    try:
        drawn = svg_of(figure_of(result, PlotOptions()), wide=True)
    except CanaryError:
        return ""
    used = (f"--{name}: {colour};" for name, colour in LIGHT.items() if f"--{name})" in drawn)
    return f'<div style="max-width: 45em; background: {PAPER}; {" ".join(used)}">{drawn}</div>\n'
