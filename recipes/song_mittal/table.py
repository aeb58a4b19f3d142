"""The tables of a data set, from what `attacks.py` found.

    python table.py --work WORK [--out WORK]

Writes NAME.json into the folder of --out, where NAME is the data set, or `published`, and prints
tables of README.md: mean and 95 % interval over the seeds, of three seeds or fewer mean, least
and most, in percent. `of_paper.py` and `figures.py` read it.
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
import works
from scipy.stats import t as student

import canary
from canary.errors import CanaryError, InputError

HERE = Path(__file__).parent
PAPER = {
    "undefended": ("100", "60.7", "81.1", "68.7", "76.3", "61.6", "78.1"),
    "memguard": ("100", "60.7", "50.1", "68.7", "69.1", "52.1", "68.8"),
}
PAPER_TEXAS = {
    "undefended": ("99.95", "51.77", "74.0", "74.2", "79.0", "66.6", "79.4"),
    "memguard": ("99.95", "51.77", "50.3", "74.2", "74.1", "54.6", "74.0"),
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

SETS = {
    "location30": "Location30",
    "mnist": "MNIST",
    "emnist": "EMNIST letters",
    "agnews": "AG News",
    "cifar10": "CIFAR-10",
}
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


FEW = 3
"""Seeds of which no interval is given: Student's would leave the numbers that there can be."""


def summed(values: list[float]) -> list[float]:
    """Mean and half of the 95 % interval over seeds; of `FEW` or fewer mean, least and most."""
    middle = statistics.mean(values)
    if len(values) == 1:
        return [round(middle, 5)]
    if len(values) <= FEW:
        return [round(value, 5) for value in (middle, min(values), max(values))]
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


def results(dataset: str, seeds: list[dict[str, Any]]) -> dict[str, Any]:
    rows = [seed["rows"] for seed in seeds]
    curves = [seed["curves"] for seed in seeds]
    return {
        "dataset": dataset,
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
    return shown([f"{100 * part:.1f}" for part in value])


def shown(parts: list[str]) -> str:
    """What `summed` gave, written out: mean ± half, or mean (least to most)."""
    if len(parts) == 3:
        return f"{parts[0]} ({parts[1]} to {parts[2]})"
    return " ± ".join(parts)


def remark(seeds: int) -> str:
    """What stands beside the means."""
    if seeds > FEW:
        return f"Mean ± half of the 95 % interval over {seeds} seeds."
    return f"Mean (least to most) of {seeds} seeds." if seeds > 1 else "One seed."


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
    for name, paper in PAPER_TEXAS.items():
        lines.append(line((f"{NAMES[name]}, paper, Texas100", *paper)))
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


def medians(work: Path) -> dict[str, list[float]]:
    """How sure undefended models are: median entropy of members and of others; test accuracy.

    Means over seeds, in nats and in percent.
    """
    found = {}
    for role in SIZES:
        paths = sorted(work.glob(f"seed-*/undefended/{role}.npz"))
        seen = []
        for table in map(canary.measure, paths):
            member, entropy = table.member[0], table.signal("entropy")[0]
            right = table.signal("correctness")[0]
            parts = (entropy[member], entropy[~member])
            seen.append([*map(np.median, parts), 100 * right[~member].mean()])
        found[role] = [round(float(value), 5) for value in np.mean(seen, axis=0)]
    return found


def table_of_shadows(found: dict[str, Any]) -> list[str]:
    heads = ("", "median entropy of members (nats)", "of others", "test accuracy")
    lines = [line(heads), line(("---", "---:", "---:", "---:"))]
    for role, values in found["median entropy"].items():
        lines.append(line((role, *(f"{value:.2f}" for value in values))))
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--out", type=Path, help="folder of the results; WORK without it")
    parser.add_argument("--name", help="of the results; the data set without it")
    options = parser.parse_args()
    try:
        run(options)
    except CanaryError as error:
        raise SystemExit(f"table.py: {error}") from None


def attacked(work: Path) -> list[dict[str, Any]]:
    """What was found of each seed."""
    paths = sorted(work.glob("seed-*/attacks.json"))
    if len(paths) != len(list(work.glob("seed-*"))):
        raise InputError(
            f"{len(paths)} of {len(list(work.glob('seed-*')))} seeds are attacked",
            cure="run attacks.py with this --work and as many --seeds first",
            where=str(work),
        )
    found = [json.loads(path.read_text()) for path in paths]
    for path, one in zip(paths, found, strict=True):
        if one["rows"].keys() != found[0]["rows"].keys():
            raise InputError(
                "other defences were attacked than in the first seed",
                cure="train them in every seed, and run attacks.py again",
                where=str(path),
            )
    return found


def run(options: argparse.Namespace) -> None:
    name = works.name_of(options.work, options.name)
    dataset = works.check(options.work, {})["data set"]
    found = results(dataset, attacked(options.work))
    found["median entropy"] = medians(options.work)
    if found["dataset"].startswith("synthetic"):
        print(f"SYNTHETIC records ({found['dataset']}): the numbers say nothing of any data\n")
    out = options.out or options.work
    out.mkdir(parents=True, exist_ok=True)
    (out / f"{name}.json").write_text(json.dumps(found, indent=1) + "\n")
    print(remark(found["seeds"]), end="\n\n")
    tables = [table_of_defences, table_of_attacks]
    for table in [table_4, *tables] if found["dataset"] == "location30" else tables:
        print("\n".join(table(found)), end="\n\n")
    print("\n".join(table_of_shadows(found)))


if __name__ == "__main__":
    main()
