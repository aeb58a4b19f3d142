"""The figures of the paper, by `canary.plot` on small panels: 1 to 5 for one configuration."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from training import Tables

import canary
from canary.membership.aggregate import evaluate_models
from canary.membership.diagnostics import Growth, null_losses, scatter
from canary.membership.many import ManyScores
from canary.signals.signal_table import SignalTable


def draw(
    found: Tables, shown: Sequence[ManyScores], growths: Sequence[Growth], out: Path, name: str
) -> None:
    """ROC (figures 2 and 5), growth (3), and, where there are distilled models, losses behind
    thresholds (1) and losses less thresholds (4)."""
    with mpl.rc_context({"font.size": 8, "svg.hashsalt": "canary", "svg.fonttype": "none"}):
        figure, axes = panels(1, 1, (6.0, 4.2))
        canary.plot([evaluate_models(scores) for scores in shown], axes[0])
        keep(figure, out / f"{name}-roc.svg")
        figure, axes = panels(1, 1, (5.0, 3.2))
        canary.plot(list(growths), axes[0])
        keep(figure, out / f"{name}-growth.svg")
        if found.distilled:
            keep(margins(found), out / f"{name}-scatter.svg")
        if len(found.distilled) > 1:
            keep(losses(found), out / f"{name}-losses.svg")


def losses(found: Tables) -> Figure:
    """Figure 1: two members of two targets, of one class, down; the targets across."""
    table = found.main
    both = np.flatnonzero(table.member[:2].all(axis=0))
    label = table.label[both[0]]
    samples = both[table.label[both] == label][:2]
    figure, axes = panels(2, 2, (8.0, 5.0))
    for place, (sample, target) in enumerate((s, t) for s in samples for t in (0, 1)):
        nulls = [
            null_losses(
                table, attack, target=target, sample=int(sample), alpha=0.2,
                shadow=found.distilled[target] if attack == "D" else None,
            )
            for attack in "SPRD"
        ]  # fmt: skip
        canary.plot(nulls, axes[place]).legend(fontsize=6.5, loc="upper left", frameon=False)
    return figure


def margins(found: Tables) -> Figure:
    """Figure 4: S against P, R against D, on the first target."""
    shadows: tuple[SignalTable | None, ...] = (None, found.distilled[0])
    figure, axes = panels(1, 2, (8.0, 3.8))
    for one, ax in (
        (scatter(found.main, ("S", "P"), alpha=0.1), axes[0]),
        (scatter(found.main, ("R", "D"), alpha=0.2, shadows=shadows), axes[1]),
    ):
        canary.plot(one, ax)
        for dots in ax.get_lines():
            dots.set_rasterized(True)  # thousands of them
        some = np.abs(one.margins[np.isfinite(one.margins) & (one.margins != 0)])
        middle = 10.0 ** np.floor(np.log10(np.median(some)))
        ax.set_xscale("symlog", linthresh=middle)
        ax.set_yscale("symlog", linthresh=middle)
        ax.tick_params(labelsize=6.5)
        ax.autoscale()
    return figure


def panels(rows: int, columns: int, size: tuple[float, float]) -> tuple[Figure, Sequence]:
    figure = Figure(figsize=size, layout="constrained")
    return figure, np.ravel(figure.subplots(rows, columns))


def keep(figure: Figure, path: Path) -> None:
    """As SVG, the same bytes again; coordinates to a tenth of a point, what is written as it is."""
    held = io.StringIO()
    figure.savefig(held, format="svg", dpi=80, metadata={"Date": None})
    drawn = re.sub("<[^>]*>", lambda tag: re.sub(r"(\.\d)\d+", r"\1", tag[0]), held.getvalue())
    path.write_text(drawn, encoding="utf-8")
