"""Everything can be read on light screens, on dark ones and in print (WCAG 2 AA)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import canary.reports.pages
from canary.reports.palette import DARK, LIGHT, SERIES, STEPS, with_variables

TEMPLATE = Path(canary.reports.pages.__file__).with_name("templates") / "page.html.j2"
SCREEN, PRINT = TEMPLATE.read_text().split("@media print")
TONES = ("memorized", "undecided", "not-found", "suspect")
SERIES_NAMES = [f"series-{i}" for i in range(len(SERIES))]
STEP_NAMES = [f"step-{i}" for i in range(len(STEPS))]

# Text on what lies below it: 4.5. Letters stand for audits in figures, so they are text.
TEXT = [
    *((name, below) for name in ("ink", "muted", *TONES) for below in ("paper", "soft")),
    ("ink", "note"),
    ("ink", "band"),
    *((name, "paper") for name in SERIES_NAMES),
]
# Graphics that carry meaning, and the ring of what has the focus: 3.
GRAPHICS = [
    *((name, "paper") for name in (*STEP_NAMES, "control", "curve", "focus")),
    *((name, "band") for name in (*STEP_NAMES, *SERIES_NAMES, "control", "muted")),
]


def luminance(colour):
    """Relative luminance as WCAG 2 defines it."""
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (
        c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one, other):
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def printed():
    """The colours of the light scheme with what the print style puts in their place."""
    changed = re.search(r"\s*:root \{([^}]*)\}", PRINT)
    short = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{3});", changed[1]))
    assert {"ink", "muted", "control"} <= short.keys()
    assert short["ink"] == "#000"
    return LIGHT | {name: "#" + "".join(2 * c for c in value[1:]) for name, value in short.items()}


def test_contrast_golden():
    # The examples of the definition: black on white has 21, and #767676 just passes.
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#767676", "#ffffff") == pytest.approx(4.54, abs=0.005)


@pytest.mark.parametrize("colours", [LIGHT, DARK, printed()], ids=["light", "dark", "print"])
@pytest.mark.parametrize(("least", "pairs"), [(4.5, TEXT), (3.0, GRAPHICS)])
def test_contrast_of_every_pair(colours, least, pairs):
    found = {(a, b): round(contrast(colours[a], colours[b]), 2) for a, b in pairs}
    assert {pair: value for pair, value in found.items() if value < least} == {}


def test_every_colour_that_carries_meaning_is_in_a_pair_and_a_variable():
    below = {"paper", "soft", "note", "band", "line", "note-line", "grid", "fill"}
    assert {name for name, _ in TEXT + GRAPHICS} | below == LIGHT.keys() == DARK.keys()
    assert len(set(LIGHT.values())) == len(LIGHT)
    assert re.findall(r"#[0-9a-f]{3}(?:[0-9a-f]{3})?\b", SCREEN) == []
    ink, step = LIGHT["ink"], LIGHT["step-3"]
    drawn = f'<path style="fill: {ink}; stroke: {step}" id="a{ink}"/><g style="fill: #123456"/>'
    assert with_variables(drawn) == (
        f'<path style="fill: var(--ink); stroke: var(--step-3)" id="a{ink}"/>'
        '<g style="fill: #123456"/>'
    )
