"""Does the size of the sets explain rho? A row of table 1 at several sizes.

    python sizes.py --data DATA --work WORK --out WORK/sizes.json [--sizes 400:5 1600:3 6000:1]

Each size has a number of seeds behind its colon, and as many calibration models, two at least.
A row that the paper lacks is added: the domain and a tenth as many *other* digits, of which none
is in the query set. The hours are said first. Started again, it goes on where it was.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from images import Images
from judge import counted, judged, mean, shown
from run import EPOCHS, Draws, calibrations, configuration, first_table, one_seed, targets

from canary.errors import CanaryError

SIZES = ("400:5", "1600:3", "6000:1")
OTHER = "domain + 10 % other digits"
ROWS = ("domain + 10 % query", OTHER)
IMAGE = 0.9e-3
"""Seconds of one core to learn an image once, about; for what is said of the hours."""


def chosen(draws: Draws, seed: int) -> dict[str, Images]:
    """The query model, and the targets of `ROWS`."""
    found = targets(draws, seed)
    tenth = draws.other[seed][: round(0.1 * len(draws.other[seed]))]
    found[OTHER] = draws.domain[seed] + tenth
    return {name: found[name] for name in ("query", *ROWS)}


def of_size(size: str, options: argparse.Namespace) -> argparse.Namespace:
    samples, seeds = map(int, size.split(":"))
    own = {"table": 1, "svhn": None, "samples": samples, "seeds": seeds}
    return argparse.Namespace(**{**vars(options), **own, "calibration": max(2, seeds)})


def hours(options: argparse.Namespace) -> float:
    """Of one core, to train all models of a size."""
    sets = options.seeds * (1 + len(ROWS) * 1.1) + options.calibration
    return sets * options.samples * options.epochs * IMAGE / 3600


def found_at(options: argparse.Namespace) -> dict[str, Any]:
    """Train what is not there yet, and judge it."""
    draws = first_table(options)
    folder = options.work / configuration(draws, options)
    folder.mkdir(parents=True, exist_ok=True)
    calibrations(draws, folder, options)
    for seed in range(options.seeds):
        one_seed(draws, seed, folder, options, chosen)
    asked = {"seeds": options.seeds, "calibration": options.calibration}
    return {"samples": options.samples, **asked, **judged(folder, 1, **asked)}


def rows(found: list[dict[str, Any]]) -> Iterator[str]:
    """A row for each target and size."""
    yield (
        "| target trained on | paper: distance, rho | images | seeds | distance | "
        "of calibration models | rho | answer by the paper's rule | AUC |"
    )
    yield "| --- | --- | ---: | ---: | --- | --- | --- | --- | --- |"
    for name in ROWS:
        for one in found:
            row = one["targets"][name]
            paper = "" if row["paper"] is None else "{:.3f}, {:.3f}".format(*row["paper"])
            others = mean([seed["calibration"] for seed in row["seeds"]])
            cells = (
                *(name, paper, f"{one['samples']:,}", str(len(row["seeds"]))),
                *(shown(row["distance"]), shown(others), shown(row["rho"])),
                *(counted(row["answers"]), shown(row["auc"])),
            )
            yield f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--sizes", nargs="+", default=SIZES, metavar="IMAGES:SEEDS")
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    options = parser.parse_args()
    try:
        run(options)
    except CanaryError as error:
        raise SystemExit(f"sizes.py: {error}") from None


def run(options: argparse.Namespace) -> None:
    torch.set_num_threads(1)
    sizes = [of_size(size, options) for size in options.sizes]
    print(f"about {sum(map(hours, sizes)):.1f} hours of one core if nothing is there", flush=True)
    found = []
    for size in sizes:
        found.append(found_at(size))
        options.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(*rows(found), sep="\n")


if __name__ == "__main__":
    main()
