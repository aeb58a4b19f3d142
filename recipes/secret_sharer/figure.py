"""The figure of an experiment, from its `results.json`.

Usage::

    python figure.py results.json
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")

from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator


def draw(results: Mapping[str, Any], folder: Path) -> None:
    """Write `exposure.svg`: exposure by copies, and by epoch beside the test loss."""
    with plt.rc_context({"svg.hashsalt": "canary", "font.size": 9, "axes.spines.top": False}):
        figure, axes = plt.subplot_mosaic(
            [["copies", "loss"], ["copies", "epochs"]],
            figsize=(9, 4.6),
            width_ratios=[3, 4],
            height_ratios=[1, 3],
        )
        by_copies(axes["copies"], results)
        test_loss(axes["loss"], results)
        by_epoch(axes["epochs"], results)
        for axis in axes.values():
            axis.spines["right"].set_visible(False)
        for name in ("loss", "epochs"):
            axes[name].xaxis.set_major_locator(MaxNLocator(integer=True))
        figure.tight_layout()
        figure.savefig(folder / "exposure.svg", metadata={"Date": None})
        plt.close(figure)


def by_copies(axis: Axes, results: Mapping[str, Any]) -> None:
    """Every canary a point, after the enumeration of the whole space."""
    groups = grouped(results["enumeration"]["canaries"])
    for place, (copies, canaries) in enumerate(groups.items()):
        bits = sorted(c["bits"] for c in canaries)
        across = [place + 0.3 * (i / max(len(bits) - 1, 1) - 0.5) for i in range(len(bits))]
        axis.plot(across, bits, "o", color=color(copies, groups), ms=4, alpha=0.8)
        median = statistics.median(bits)
        axis.hlines(median, place - 0.3, place + 0.3, color=color(copies, groups), lw=1)
    axis.axhline(results["space_bits"], color="0.5", ls="--", lw=0.8)
    axis.annotate("log2|R|", (0, results["space_bits"]), (-8, 3), textcoords="offset points")
    axis.set_xticks(range(len(groups)), ["control" if not n else str(n) for n in groups])
    axis.set_xlabel("copies in the training text")
    axis.set_ylabel("exposure (bits)")
    axis.set_title("Last epoch, whole space enumerated", fontsize=9)


def by_epoch(axis: Axes, results: Mapping[str, Any]) -> None:
    """Median exposure per number of copies from draws; a triangle is a lower bound."""
    epochs = [epoch["epoch"] for epoch in results["epochs"]]
    groups = grouped(results["epochs"][0]["canaries"])
    for copies in groups:
        medians = [median_bound(grouped(e["canaries"])[copies]) for e in results["epochs"]]
        bits, shade = [value for value, _ in medians], color(copies, groups)
        label = f"{copies} copies" if copies > 1 else "1 copy" if copies else "controls"
        axis.plot(epochs, bits, color=shade, lw=1, label=label)
        for epoch, (value, censored) in zip(epochs, medians, strict=True):
            mark = "^" if censored else "o"
            fill = "white" if censored else shade
            axis.plot([epoch], [value], mark, color=shade, mfc=fill, ms=5 if censored else 3)
    axis.set_xlabel("epoch")
    axis.set_ylabel("exposure (bits), median")
    axis.set_title("By draws; a hollow triangle is a lower bound: no draw as likely", fontsize=9)
    axis.legend(fontsize=7, frameon=False, ncols=2)


def test_loss(axis: Axes, results: Mapping[str, Any]) -> None:
    """Test loss after every epoch."""
    epochs = results["epochs"]
    axis.plot([e["epoch"] for e in epochs], [e["test_nats"] for e in epochs], "k.-", lw=1)
    axis.set_ylabel("test loss\n(nats/char)")


def grouped(canaries: Sequence[Mapping[str, Any]]) -> dict[int, list[Mapping[str, Any]]]:
    """The canaries by number of copies, ascending; 0 holds the controls."""
    copies = sorted({c["repetitions"] for c in canaries})
    return {n: [c for c in canaries if c["repetitions"] == n] for n in copies}


def median_bound(canaries: Sequence[Mapping[str, Any]]) -> tuple[float, bool]:
    """The (upper) median, and whether it is a lower bound: of a canary above every draw.

    Such a canary stands above all others, though its bound may be below their estimates.
    """
    order = sorted(
        (True, c["lower_bits"]) if c["bits"] is None else (False, c["bits"]) for c in canaries
    )
    censored, value = order[len(order) // 2]
    return value, censored


def color(copies: int, groups: Mapping[int, object]) -> Any:
    """Grey for controls, darker for more copies."""
    place = list(groups).index(copies)
    return "0.55" if copies == 0 else mpl.colormaps["viridis_r"](0.15 + 0.85 * place / len(groups))


if __name__ == "__main__":
    source = Path(sys.argv[1])
    draw(json.loads(source.read_text()), source.parent)
