"""The tables of a data set, from what `attacks.py` found.

    python table.py --work WORK [--name location30]

Writes NAME.json beside this file and prints tables of README.md: mean and 95 % interval over the
seeds, in percent. `of_paper.py` and `figures.py` read it.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import t as student

import canary

HERE = Path(__file__).parent
PAPER = {
    "undefended": ("100", "60.7", "81.1", "68.7", "76.3", "61.6", "78.1"),
    "memguard": ("100", "60.7", "50.1", "68.7", "69.1", "52.1", "68.8"),
}
"""Table 4: accuracy on members and others, then attacks: best network, and the four metrics."""

COMPARED = (
    "correctness",
    *(
        f"{signal}{how}"
        for signal in ("confidence", "entropy", "modified-entropy")
        for how in ("", "-one-threshold")
    ),
    "neural",
)
"""Attacks that were made on every model; the strongest of a row is one of these."""

SETS = {"location30": "Location30", "mnist": "MNIST", "agnews": "AG News", "cifar10": "CIFAR-10"}
SIZES = ("target", "shadow", "small-shadow")
METRICS = ("correctness", "confidence", "entropy", "modified-entropy")
NAMES = {
    "undefended": "undefended",
    "memguard": "MemGuard",
    "early-stopping": "early stopping",
    "dropout": "dropout 0.2",
    "weight-decay": "weight decay 0.01",
    "label-smoothing": "label smoothing 0.2",
    "adversarial-regularization": "adversarial regularization, λ = 0.5",
    "dp-sgd": "DP-SGD",
}


def summed(values: list[float]) -> list[float]:
    """Mean and half of the 95 % interval over seeds; of one seed the value alone."""
    middle = statistics.mean(values)
    if len(values) == 1:
        return [round(middle, 5)]
    half = student.ppf(0.975, len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))
    return [round(middle, 5), round(float(half), 5)]


def together(found: list[dict[str, Any]]) -> dict[str, Any]:
    """Rows of several seeds as one row."""
    row = {key: summed([one[key] for one in found]) for key in ("train", "test")}
    if "epochs" in found[0]:
        row["epochs"] = summed([one["epochs"] for one in found])
    names = found[0]["attacks"]
    row["attacks"] = {
        name: {
            key: summed([one["attacks"][name][key] for one in found]) for key in ("accuracy", "auc")
        }
        for name in names
    }
    return {**row, "best": summed([strongest(one) for one in found])}


def strongest(row: dict[str, Any]) -> float:
    return max(one["accuracy"] for name, one in row["attacks"].items() if name in COMPARED)


def gain(rows: list[dict[str, Any]], name: str) -> list[float] | None:
    """How much less a defended model tells than the undefended one of nearest accuracy.

    Seed by seed, so that what a seed does to both does not count. MemGuard leaves accuracy as
    it is: there the other is the undefended model itself.
    """
    other = "undefended" if name == "memguard" else f"{name}/nearest"
    if name not in NAMES or name == "undefended" or other not in rows[0]:
        return None
    return summed([strongest(one[other]) - strongest(one[name]) for one in rows])


def results(seeds: list[dict[str, Any]]) -> dict[str, Any]:
    rows = [seed["rows"] for seed in seeds]
    curves = [seed["curves"] for seed in seeds]
    return {
        "dataset": seeds[0]["facts"]["dataset"],
        "seeds": len(seeds),
        "epsilon": summed([s["facts"]["epsilon"] for s in seeds]) if "dp-sgd" in rows[0] else None,
        "rows": {
            name: {**together([one[name] for one in rows]), "gain": gain(rows, name)}
            for name in rows[0]
            if name != "curve"
        },
        "curve": [
            {"epochs": looks[0]["epochs"], **together(list(looks))}
            for looks in zip(*(one["curve"] for one in rows), strict=True)
        ],
        "test_by_epoch": {
            name: [
                [looks[0]["epochs"], round(statistics.mean(look["test"] for look in looks), 4)]
                for looks in zip(*(one[name] for one in curves), strict=True)
            ]
            for name in curves[0]
        },
    }


def percent(value: list[float]) -> str:
    return " ± ".join(f"{100 * part:.1f}" for part in value)


def line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def table_4(found: dict[str, Any]) -> list[str]:
    """The paper's rows beside ours, by the paper's shadow and by ours."""
    heads = ("", "train", "test", "networks", *METRICS)
    lines = [line(heads), line(["---", *["---:"] * (len(heads) - 1)])]
    for name, paper in PAPER.items():
        if name not in found["rows"]:
            continue
        lines.append(line((f"{NAMES[name]}, paper", *paper)))
        for suffix, words in (("/small", "ours, shadow of 500"), ("", "ours, shadow of 1,000")):
            row = found["rows"][name + suffix]
            attacks = ("neural", *METRICS)
            cells = (row["attacks"][attack]["accuracy"] for attack in attacks)
            numbers = map(percent, (row["train"], row["test"], *cells))
            lines.append(line((f"{NAMES[name]}, {words}", *numbers)))
    return lines


def table_of_defences(found: dict[str, Any]) -> list[str]:
    """Each defence by attackers who know of it and who do not, beside early stopping."""
    heads = ("", "train", "test", "strongest attack", "unaware", "stopped early instead", "gain")
    lines = [line(heads), line(["---", *["---:"] * (len(heads) - 1)])]
    for name, words in NAMES.items():
        if name not in found["rows"]:
            continue
        row = found["rows"][name]
        unaware, nearest = (found["rows"].get(f"{name}/{k}") for k in ("unaware", "nearest"))
        last = "" if nearest is None else percent(nearest["best"])
        if nearest is not None:
            last += f" (epoch {nearest['epochs'][0]:.0f})"
        cells = (row["train"], row["test"], row["best"])
        other = "" if unaware is None else percent(unaware["best"])
        less = "" if row["gain"] is None else percent(row["gain"])
        lines.append(line((words, *map(percent, cells), other, last, less)))
    return lines


def table_of_attacks(found: dict[str, Any]) -> list[str]:
    """Every attack on undefended models: accuracy and AUC, and accuracy by a small shadow."""
    heads = ("attack", "balanced accuracy", "AUC", "by the small shadow")
    lines = [line(heads), line(("---", "---:", "---:", "---:"))]
    small = found["rows"]["undefended/small"]["attacks"]
    for name, one in found["rows"]["undefended"]["attacks"].items():
        less = percent(small[name]["accuracy"]) if name in small else ""
        lines.append(line((name, percent(one["accuracy"]), percent(one["auc"]), less)))
    return lines


def table_of_shadows(work: Path) -> list[str]:
    """How sure undefended models are of their members: median entropy, mean over seeds."""
    lines = [line(("", "members", "others", "test")), line(("---", "---:", "---:", "---:"))]
    for role in SIZES:
        paths = sorted(work.glob(f"seed-*/undefended/{role}.npz"))
        seen = []
        for table in map(canary.measure, paths):
            member, entropy = table.member[0], table.signal("entropy")[0]
            right = table.signal("correctness")[0]
            parts = (entropy[member], entropy[~member])
            seen.append([*map(np.median, parts), 100 * right[~member].mean()])
        lines.append(line((role, *(f"{value:.2f}" for value in np.mean(seen, axis=0)))))
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=HERE)
    parser.add_argument("--name", default="location30")
    options = parser.parse_args()
    paths = sorted(options.work.glob("seed-*/attacks.json"))
    found = results([json.loads(path.read_text()) for path in paths])
    if found["dataset"].startswith("synthetic"):
        print(f"SYNTHETIC records ({found['dataset']}): the numbers say nothing of any data\n")
    (options.out / f"{options.name}.json").write_text(json.dumps(found, indent=1) + "\n")
    tables = [table_of_defences, table_of_attacks]
    for table in [table_4, *tables] if found["dataset"] == "location30" else tables:
        print("\n".join(table(found)), end="\n\n")
    print("\n".join(table_of_shadows(options.work)))


if __name__ == "__main__":
    main()
