"""The figures, from what `table.py` and `risk.py` wrote into the folder of --out.

    python figures.py --data DATA --work WORK [--out WORK]

DATA and WORK are those of Location30: the features of figure 9 are those of its first seed's
network. Writes defences.svg, risk.svg and why.svg there, with what lies there of other data sets.
Figure 9 needs scikit-learn, which canary does not.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import torch
import train
import works

mpl.use("Agg")

from data import DATASETS
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from risk import GRID, KINDS, WORDS
from table import NAMES, SETS

from canary.errors import CanaryError, InputError

SHOWN = 5
"""Classes of least, and of most, risk in figure 9."""


def draw_defences(sets: dict[str, Any]) -> Figure:
    """Figure 2, and the strongest attack against test accuracy; a row for each data set."""
    colors = dict(zip(NAMES, plt.get_cmap("tab10").colors, strict=False))
    figure, axes = plt.subplots(len(sets), 2, figsize=(9, 3.2 * len(sets)), squeeze=False)
    for (left, right), (name, found) in zip(axes, sets.items(), strict=True):
        for defence, looks in found["test_by_epoch"].items():
            epochs, test = zip(*looks, strict=True)
            left.plot(epochs, [100 * v for v in test], color=colors[defence], lw=1)
        left.set_title(SETS[name], loc="left", fontsize=9)
        left.set_xlabel("epochs (figure 2)")
        left.set_ylabel("test accuracy (%)")
        points(right, found, colors)
    return figure


def points(axis: Axes, found: dict[str, Any], colors: dict[str, Any]) -> None:
    path = found["curve"]
    axis.plot(
        [100 * look["test"][0] for look in path],
        [100 * look["best"][0] for look in path],
        color=colors["undefended"],
        lw=1,
        label="undefended, stopped early",
    )
    for name, words in NAMES.items():
        if name in found["rows"] and name != "early-stopping":
            row = found["rows"][name]
            at = 100 * row["test"][0], 100 * row["best"][0]
            axis.plot(*at, "o", color=colors[name], label=words)
    axis.axhline(50, color="0.6", lw=0.8, ls="--")
    axis.set_xlabel("test accuracy (%)")
    axis.set_ylabel("strongest attack, defence known (%)")
    axis.legend(frameon=False, fontsize=6)


def cumulative(axis: Axes, lines: Iterable[tuple[str, list[float]]], below: str) -> None:
    for name, shares in lines:
        axis.plot(GRID, shares, lw=1, label=name)
    axis.set_xlabel(below)
    axis.set_ylabel("share of members up to it")
    axis.legend(frameon=False, fontsize=6)


def reliabilities(axis: Axes, lines: Iterable[tuple[str, list[list[float]]]], of: str) -> None:
    """Scores against shares of members; bins of fewer than 20 samples are left out."""
    axis.plot([0, 1], [0, 1], color="0.7", lw=0.8, ls="--")
    for name, curve in lines:
        kept = np.array([point for point in curve if point[2] >= 20])
        axis.plot(kept[:, 0], kept[:, 1], ".-", lw=1, ms=4, label=name)
    axis.set_xlabel(of)
    axis.set_ylabel("share that are members")
    axis.legend(frameon=False, fontsize=6)


def draw_risk(sets: dict[str, Any]) -> Figure:
    """Figures 1 of all data sets; 5 and 6, 3 and 11, 4 and 12, and 10 of Location30."""
    figure, axes = plt.subplots(2, 3, figsize=(9, 5.6))
    found = sets["location30"]
    rows = found["rows"]
    cumulative(
        axes[0, 0],
        ((SETS[name], one["rows"]["undefended"]["below"]) for name, one in sets.items()),
        "risk score (figure 1)",
    )
    cumulative(
        axes[0, 1],
        ((WORDS[name], row["below"]) for name, row in rows.items()),
        "risk score (figures 5, 6)",
    )
    for axis, kind, words in (
        (axes[0, 2], "risk", "risk score (figures 3a, 11)"),
        (axes[1, 0], "network", "network's output (figures 3b, 11)"),
    ):
        curves = ((WORDS[name], row["trust"][kind]["curve"]) for name, row in rows.items())
        reliabilities(axis, curves, words)
    reliabilities(
        axes[1, 1],
        (
            (name, row["curve"])
            for name, row in found["architectures"].items()
            if not name.endswith(tuple(KINDS)[1:])
        ),
        "risk score (figure 4)",
    )
    cumulative(
        axes[1, 2],
        ((f"prior {one['prior']:g}", one["below"]) for one in found["priors"]),
        "risk score (figure 10)",
    )
    return figure


def draw_why(found: dict[str, Any], seed: Path, data: Path) -> Figure:
    """Figures 7, 8 and 9."""
    figure, axes = plt.subplots(2, 2, figsize=(9, 7))
    sensitive, classes = axes[0]
    if found["sensitivity"]:
        bands = found["sensitivity"]["bands"]
        at = [band["from"] + 0.05 for band in bands]
        low, high = zip(*(band["quartiles"] for band in bands), strict=True)
        sensitive.fill_between(at, low, high, alpha=0.3, lw=0, label="middle half")
        sensitive.plot(at, [band["mean"] for band in bands], ".-", lw=1, label="mean")
        sensitive.legend(frameon=False, fontsize=7)
    sensitive.set_xlabel("risk score (figure 7)")
    sensitive.set_ylabel("sensitivity (nats)")
    _, error, risk = zip(*found["classes"]["first"], strict=True)
    classes.plot([100 * one for one in error], risk, "o", ms=3)
    classes.set_xlabel("generalization error of the class (points, figure 8)")
    classes.set_ylabel("mean risk score of its members")
    embedding(axes[1], found, seed, data)
    return figure


def embedding(axes: Iterable[Axes], found: dict[str, Any], seed: Path, data: Path) -> None:
    """Last hidden layer by t-SNE: members left, others right; the riskiest classes are crosses."""
    from sklearn.manifold import TSNE

    x, y = DATASETS["location30"].read(data)
    with np.load(seed / "undefended" / "target.npz") as held:
        record, member = held["record"], held["member"]
    by_risk = sorted(found["classes"]["first"], key=lambda one: one[2])
    shown = [one[0] for one in (*by_risk[:SHOWN], *by_risk[-SHOWN:])]
    there = np.isin(y[record], shown)
    network = train.undefended(seed, "target", x, y)
    with torch.no_grad():
        features = network[:-1](torch.from_numpy(train.floats(x[record[there]]))).numpy()
    places = TSNE(random_state=0, init="pca", perplexity=30).fit_transform(features)
    colors = plt.get_cmap("tab10").colors
    for axis, kind, words in zip(axes, (True, False), ("members", "others"), strict=True):
        for number, one in enumerate(shown):
            at = (y[record[there]] == one) & (member[there] == kind)
            mark = "o" if number < SHOWN else "x"
            axis.plot(*places[at].T, mark, ms=3, mew=0.8, color=colors[number], label=str(one))
        axis.set_xlabel(f"{words} (figure 9)")
        axis.set_xticks([])
        axis.set_yticks([])
        axis.set_xlim(places[:, 0].min() - 3, places[:, 0].max() + 3)
        axis.set_ylim(places[:, 1].min() - 3, places[:, 1].max() + 3)
    axis.legend(frameon=False, fontsize=6, title="class", title_fontsize=6, ncols=2)


def main() -> None:
    parser = train.arguments(__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, help="folder of results and figures; WORK without it")
    options = parser.parse_args()
    torch.set_num_threads(1)
    try:
        run(options)
    except CanaryError as error:
        raise SystemExit(f"figures.py: {error}") from None


def check(work: Path, out: Path) -> None:
    """Refuse to begin where something is missing, and say what makes it."""
    works.check(work, {"data set": "location30", "schedule": works.ORDINARY})
    for script, name in (("table.py", "location30.json"), ("risk.py", "location30-risk.json")):
        if not (out / name).is_file():
            raise InputError(
                "no such file",
                cure=f"run {script} with this --work and --out first",
                where=str(out / name),
            )
    if importlib.util.find_spec("sklearn") is None:
        raise InputError(
            "figure 9 needs scikit-learn", cure="pip install scikit-learn", where="figures.py"
        )


def run(options: argparse.Namespace) -> None:
    out = options.out or options.work
    check(options.work, out)
    attacked, risks = (
        {
            name: json.loads((out / f"{name}{suffix}.json").read_text())
            for name in SETS
            if (out / f"{name}{suffix}.json").is_file()
        }
        for suffix in ("", "-risk")
    )
    with plt.rc_context({"svg.hashsalt": "canary", "font.size": 8, "svg.fonttype": "none"}):
        for name, figure in (
            ("defences", draw_defences(attacked)),
            ("risk", draw_risk(risks)),
            ("why", draw_why(risks["location30"], options.work / "seed-0", options.data)),
        ):
            for axis in figure.axes:
                axis.spines[["top", "right"]].set_visible(False)
            figure.tight_layout()
            figure.savefig(out / f"{name}.svg", metadata={"Date": None})
            plt.close(figure)


if __name__ == "__main__":
    main()
