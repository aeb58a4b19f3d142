"""The figures of forgetting: what each model says of the query set, and how far they are."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from canary.reports.canvas import WIDE, canvas, svg_element
from canary.reports.palette import CONTROL, CURVE, FILL, GRID, INK, MUTED, SERIES

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from canary.membership.forgetting import Forgetting

__all__ = ["draw_forgetting", "forgetting_on"]

Floats = NDArray[np.float64]

_MOST_POINTS = 150
_LEAST_LOSS = 1e-6

_COLOURS = {"query": SERIES[0], "target": CURVE, "calibration": CONTROL, "retrained": SERIES[2]}
_NAMES = {
    "query": "query model",
    "target": "target",
    "calibration": "calibration models",
    "retrained": "retrained models",
}


def draw_forgetting(found: Forgetting, *, size: tuple[float, float] = WIDE) -> str:
    """Losses on the query set, and beside them the distances, as one ``svg``."""
    with canvas(size) as figure:
        upright = size[0] < WIDE[0]
        left, right = figure.subplots(2, 1) if upright else figure.subplots(1, 2)
        forgetting_on(left, found)
        _distances_on(right, found)
        return svg_element(figure, f"forgetting {size}")


def forgetting_on(axes: Axes, found: Forgetting) -> None:
    """The distribution of each model's losses on the query set."""
    for name in ("calibration", "retrained", "query", "target"):
        for number, losses in enumerate(found.losses.get(name, ())):
            x, share = _steps(losses)
            axes.plot(
                x,
                share,
                color=_COLOURS[name],
                linewidth=0.9 if name == "calibration" else 1.8,
                alpha=0.6 if name == "calibration" else 1.0,
                label=_NAMES[name] if not number else None,
                drawstyle="steps-post",
            )
    axes.set_xscale("log")
    low, high = (math.log10(end) for end in axes.get_xlim())
    powers = [10.0**k for k in range(math.ceil(low), math.floor(high) + 1)]
    axes.set_xticks(powers, [f"{power:g}" for power in powers])
    axes.set_ylim(0, 1.02)
    axes.set_xlabel("loss of a sample of the query set (nats)")
    axes.set_ylabel("share of samples at or below")
    axes.grid(color=GRID, linewidth=0.8)
    axes.minorticks_off()
    axes.legend(fontsize=9, frameon=False)


def _steps(losses: Floats) -> tuple[Floats, Floats]:
    """Points of an empirical distribution function, not too many; infinite losses have none."""
    x = np.sort(np.maximum(losses[np.isfinite(losses)], _LEAST_LOSS))
    at = np.unique(np.linspace(0, len(x) - 1, min(_MOST_POINTS, len(x))).astype(np.int64))
    return x[at], (at + 1) / len(losses)


def _distances_on(axes: Axes, found: Forgetting) -> None:
    rows = [("calibration", found.calibration), ("target", np.array([found.target]))]
    if found.retrained is not None:
        rows.insert(0, ("retrained", found.retrained))
    for height, (name, distances) in enumerate(rows):
        axes.plot(
            distances,
            np.full(len(distances), height),
            "o",
            color=_COLOURS[name],
            markersize=9 if name == "target" else 6,
            alpha=1.0 if name == "target" else 0.7,
        )
    axes.axvspan(0, found.chance, color=FILL, linewidth=0)
    axes.axvline(float(found.calibration.mean()), color=MUTED, linewidth=1.0, linestyle=(0, (5, 3)))
    axes.set_yticks(range(len(rows)), [_NAMES[name] for name, _ in rows], color=INK)
    axes.set_ylim(-0.6, len(rows) - 0.4)
    axes.set_xlim(0, 1.02)
    axes.set_xlabel("distance from the query model")
    axes.grid(axis="x", color=GRID, linewidth=0.8)
