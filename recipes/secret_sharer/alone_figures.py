"""The figure and the tables of canaries that stand alone, from `alone.json`.

Usage::

    python alone_figures.py alone.json
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

import itertools

from matplotlib import pyplot as plt
from matplotlib.axes import Axes

Points = Sequence[Mapping[str, Any]]
COLORS = {"A": "#1f5fa8", "B": "#b3541e"}


def injected(points: Points) -> Points:
    """Those that stood in the text."""
    return [p for p in points if p["copies"]]


def last(points: Points, strategy: str) -> Points:
    """The injected canaries of a strategy's last epoch."""
    mine = [p for p in injected(points) if p["strategy"] == strategy]
    return [p for p in mine if p["epoch"] == max(p["epoch"] for p in mine)]


def bits(point: Mapping[str, Any]) -> float:
    """The exposure, or the middle of its interval where there is no estimate."""
    if point["bits"] is not None:
        return float(point["bits"])
    return float(point["lower_bits"] + point["upper_bits"]) / 2


def by_copies(axis: Axes, points: Points) -> None:
    """Figure 1: exposure against copies, for each strategy."""
    for shift, strategy in ((0.97, "A"), (1.03, "B")):
        mine = last(points, strategy)
        copies = sorted({p["copies"] for p in mine})
        medians = [statistics.median(bits(p) for p in mine if p["copies"] == n) for n in copies]
        axis.plot(copies, medians, color=COLORS[strategy], lw=1, label=f"strategy {strategy}")
        for p in mine:
            axis.plot(
                [p["copies"] * shift] * 2,
                [p["lower_bits"], p["upper_bits"]],
                color=COLORS[strategy],
                lw=0.8,
                alpha=0.6,
            )
            axis.plot(p["copies"] * shift, bits(p), "o", color=COLORS[strategy], ms=4)
    axis.set_xscale("log", base=2)
    axis.set_xticks([1, 2, 4, 8, 16, 32], ["1", "2", "4", "8", "16", "32"])
    axis.set_xlabel("copies in the training text")
    axis.set_ylabel("exposure (bits)")
    axis.set_title("Last epoch of each strategy", fontsize=9)
    axis.legend(fontsize=7, frameon=False)


def queries(axis: Axes, results: Mapping[str, Any]) -> None:
    """Figures 10 and 11: queries until the search gives the canary, and whether it does."""
    for p in injected(results["points"]):
        found = p["found_after"] is not None
        first = p["place"] == 1
        height = max(p["found_after"], 1) if found else results["budget"]
        mark = "o" if first else "s" if found else "x"
        axis.plot(bits(p), height, mark, color=COLORS[p["strategy"]], ms=5, mfc="none", alpha=0.8)
    for mark, name in (("o", "the likeliest of all"), ("s", "among the first 100"), ("x", "not")):
        axis.plot([], [], mark, color="0.3", mfc="none", label=name)
    axis.set_yscale("log")
    axis.axvline(results["space_bits"], color="0.5", ls="--", lw=0.8)
    axis.set_xlabel("exposure (bits)")
    axis.set_ylabel("queries until the search gave it")
    axis.set_title("Extraction: every epoch, every canary", fontsize=9)
    axis.legend(fontsize=7, frameon=False)


def draw(results: Mapping[str, Any], folder: Path) -> None:
    """Write `alone.svg`."""
    with plt.rc_context({"svg.hashsalt": "canary", "font.size": 9, "axes.spines.top": False}):
        figure, axes = plt.subplots(1, 2, figsize=(9, 3.8))
        by_copies(axes[0], results["points"])
        queries(axes[1], results)
        for axis in axes:
            axis.spines["right"].set_visible(False)
        figure.tight_layout()
        figure.savefig(folder / "alone.svg", metadata={"Date": None})
        plt.close(figure)


def tables(results: Mapping[str, Any]) -> None:
    """Print what the README shows."""
    print("| copies | strategy A | strategy B |\n| ---: | --- | --- |")
    sides = {s: last(results["points"], s) for s in ("A", "B")}
    for copies in sorted({p["copies"] for p in sides["A"]}):
        cells = [
            ", ".join(
                f"{p['bits']:.1f}"
                if p["bits"] is not None
                else f"{p['lower_bits']:.1f} to {p['upper_bits']:.1f}"
                for p in sides[s]
                if p["copies"] == copies
            )
            for s in sides
        ]
        print(f"| {copies} | " + " | ".join(cells) + " |")
    print(
        "\n| exposure | canaries | the likeliest | among 100 | queries until found, median (most) |"
    )
    print("| --- | ---: | ---: | ---: | --- |")
    edges = [0, 5, 10, 15, 20, 25, 28, 29.8, 30]
    points = injected(results["points"])
    for low, high in itertools.pairwise(edges):
        mine = [p for p in points if low <= bits(p) < high]
        if not mine:
            continue
        spent = [p["found_after"] for p in mine if p["found_after"] is not None]
        shown = f"{statistics.median(spent):,.0f} ({max(spent):,})" if spent else "-"
        firsts = sum(p["place"] == 1 for p in mine)
        print(f"| {low} to {high} | {len(mine)} | {firsts} | {len(spent)} | {shown} |")
    print("\n| exposure | canaries | digits known until greedy gives the rest | beam of ten |")
    print("| --- | ---: | --- | --- |")
    for low, high in itertools.pairwise(edges):
        mine = [p for p in points if low <= bits(p) < high]
        if mine:
            known = [
                ", ".join(
                    "never" if k is None else str(k)
                    for k in sorted((p[name] for p in mine), key=lambda k: (k is None, k))
                )
                for name in ("known_greedy", "known_beam")
            ]
            print(f"| {low} to {high} | {len(mine)} | {known[0]} | {known[1]} |")


def main() -> None:
    source = Path(sys.argv[1])
    results = json.loads(source.read_text())
    draw(results, source.parent)
    tables(results)


if __name__ == "__main__":
    main()
