"""Where figures are drawn: our own style, whatever the reader's is, and what comes out."""

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
from typing import TYPE_CHECKING, Any

from canary.reports.palette import INK, MUTED, PAPER, with_variables

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["NARROW", "WIDE", "canvas", "file_bytes", "load_matplotlib", "log_rates", "svg_element"]

WIDE = (9.6, 4.5)
"""Inches of a figure for a desk; text keeps its size in points."""

NARROW = (4.4, 4.4)
"""Inches of a figure for a phone."""

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
    "axes.axisbelow": True,
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
_PRINT_DPI = 300


@contextmanager
def canvas(size: tuple[float, float]) -> Iterator[Figure]:
    """An empty figure of `size` inches, with our style for as long as the block lasts."""
    load_matplotlib()
    import matplotlib as mpl
    from matplotlib.figure import Figure

    # The reader's own matplotlibrc shall not change a report; pyplot is not involved.
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(_STYLE)
        yield Figure(figsize=size, layout="constrained")


def load_matplotlib() -> None:
    """Import matplotlib, though ``MPLBACKEND`` may name a backend that it does not know.

    No backend is needed to write a figure, and matplotlib itself cannot be imported then.
    """
    if "matplotlib" in sys.modules:
        return
    asked = os.environ.pop("MPLBACKEND", None)
    try:
        import matplotlib as mpl
    finally:
        if asked is not None:
            os.environ["MPLBACKEND"] = asked
    if asked is not None:
        with suppress(ValueError):
            mpl.rcParams["backend"] = asked


def log_rates(axes: Axes, least: float) -> None:
    """Both axes as rates on logarithmic scales from `least` to 1, in per cent."""
    powers = [10.0**k for k in range(math.ceil(math.log10(least)), 1)]
    names = [f"{100 * power:g} %" for power in powers]
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(least, 1)
    axes.set_ylim(least, 1.15)
    axes.set_xticks(powers, names)
    axes.set_yticks(powers, names)
    axes.minorticks_off()


def svg_element(figure: Figure, name: str) -> str:
    """A figure as one ``svg`` element for a page.

    It has ids of its own, so that many can share the page, whose variables give the
    colours.
    """
    text = _saved(figure, "svg", name, transparent=True).decode()
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


def file_bytes(figure: Figure, kind: str) -> bytes:
    """A figure as the bytes of a ``svg``, ``png`` or ``pdf`` file, on white."""
    import matplotlib as mpl

    with mpl.rc_context({"svg.fonttype": "path"}):  # a printer may lack our font
        return _saved(figure, kind, "canary", transparent=False)


def _saved(figure: Figure, kind: str, name: str, *, transparent: bool) -> bytes:
    import matplotlib as mpl

    buffer = io.BytesIO()
    with mpl.rc_context({"svg.hashsalt": name}), warnings.catch_warnings():
        # A label may hold characters that our font lacks; a box stands for each.
        warnings.filterwarnings("ignore", "Glyph ", UserWarning)
        # Names of very many audits leave the axes no room: it is drawn as it is.
        warnings.filterwarnings("ignore", "constrained_layout not applied", UserWarning)
        figure.savefig(
            buffer,
            format=kind,
            metadata=_NO_METADATA[kind],
            transparent=transparent,
            dpi=_PRINT_DPI,
        )
    return buffer.getvalue()
