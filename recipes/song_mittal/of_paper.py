"""Tables 1, 2, 3 and 5 and figure 8 of the paper with our data sets below its own.

    python of_paper.py

Reads NAME.json and NAME-risk.json of --out, or those beside this file. Means and 95 % intervals
over seeds, of three seeds or fewer means (least to most), in percent.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from risk import plain_number
from table import HERE, METRICS, SETS, line, percent

REGULARIZED, GUARDED = "adversarial-regularization", "memguard"

PAPER_1 = (
    ("adversarial regularization", "Purchase100", "51.6", "59.5"),
    ("adversarial regularization", "Texas100", "51.0", "58.6"),
    ("MemGuard", "Location30", "50.1", "69.1"),
    ("MemGuard", "Texas100", "50.3", "74.2"),
)
PAPER_2 = (
    ("Purchase100", "undefended", "99.8", "80.9", "67.6", "59.5", "67.1", "65.7", "67.1"),
    ("Purchase100", "regularized", "92.7", "76.6", "51.6", "58.1", "59.4", "55.8", "59.5"),
    ("Purchase100", "stopped early", "92.9", "76.4", "", "58.2", "59.2", "55.9", "59.1"),
    ("Texas100", "undefended", "81.0", "52.3", "63.0", "64.4", "67.8", "60.2", "67.7"),
    ("Texas100", "regularized", "56.6", "46.4", "51.0", "55.1", "58.6", "53.5", "58.6"),
    ("Texas100", "stopped early", "59.3", "47.9", "", "55.7", "59.4", "54.0", "59.5"),
)
PAPER_3 = (
    ("Texas100", "undefended", "64.7", "67.8", "58.3", "60.2", "64.8", "67.7"),
    ("Texas100", "regularized", "55.5", "58.6", "52.9", "53.5", "55.4", "58.6"),
    ("Texas100", "stopped early", "55.8", "59.4", "53.2", "54.0", "55.9", "59.5"),
)
PAPER_5 = (
    ("Purchase100", "99.8", "80.9", "73.4", "67.6", "59.5", "67.1", "65.7", "67.1"),
    ("Texas100", "81.0", "52.3", "68.3", "63.0", "64.4", "67.8", "60.2", "67.7"),
    ("CIFAR-100", "100", "83.0", "74.3", "67.7", "58.5", "73.7", "73.3", "73.6"),
)

ROWS = {
    "undefended": "undefended",
    REGULARIZED: "regularized",
    f"{REGULARIZED}/nearest": "stopped early",
}

Sets = dict[str, dict[str, Any]]


def reached(row: dict[str, Any], *names: str) -> list[str]:
    return [percent(row["attacks"][name]["accuracy"]) for name in names]


def table_1(sets: Sets) -> list[tuple[str, ...]]:
    """Networks alone, and the best of the four metric attacks."""
    rows = [("defence", "data", "networks", "metrics"), *PAPER_1]
    for defence, words in ((REGULARIZED, "adversarial regularization"), (GUARDED, "MemGuard")):
        for name, rows_of in sets.items():
            if defence in rows_of:
                row = rows_of[defence]
                best = max(METRICS, key=lambda one: row["attacks"][one]["accuracy"][0])
                rows.append((words, f"{SETS[name]}, ours", *reached(row, "neural", best)))
    return rows


def table_2(sets: Sets) -> list[tuple[str, ...]]:
    """Adversarial regularization, and the undefended model stopped where it is as good."""
    rows = [("data", "", "train", "test", "networks", *METRICS), *PAPER_2]
    for name, rows_of in sets.items():
        for kind, words in ROWS.items():
            row = rows_of[kind]
            share = (percent(row[part]) for part in ("train", "test"))
            rows.append((f"{SETS[name]}, ours", words, *share, *reached(row, "neural", *METRICS)))
    return rows


def table_3(sets: Sets) -> list[tuple[str, ...]]:
    """One threshold for all classes, and one for each."""
    names = [f"{metric}{how}" for metric in METRICS[1:] for how in ("-one-threshold", "")]
    heads = [f"{metric}, {how}" for metric in METRICS[1:] for how in ("one", "each")]
    rows = [("data", "", *heads), *PAPER_3]
    for name, rows_of in sets.items():
        for kind, words in ROWS.items():
            rows.append((f"{SETS[name]}, ours", words, *reached(rows_of[kind], *names)))
    return rows


def white_box(rows: dict[str, Any]) -> bool:
    """Whether attacks that hold the model were made."""
    return "white-box" in rows["undefended"]["attacks"]


def table_5(sets: Sets) -> list[tuple[str, ...]]:
    """Who holds the undefended model, and who only asks it."""
    rows = [("data", "train", "test", "white box", "networks", *METRICS), *PAPER_5]
    for name, rows_of in sets.items():
        row = rows_of["undefended"]
        share = (percent(row[part]) for part in ("train", "test"))
        cells = reached(row, "white-box", "neural", *METRICS)
        rows.append((f"{SETS[name]}, ours", *share, *cells))
    return rows


def figure_8(risks: Sets) -> list[tuple[str, ...]]:
    """How risk scores of classes go with their generalization errors."""
    rows = [("data", "classes", "linear", "of ranks"), ("Texas100", "100", "0.94", "")]
    for name, found in risks.items():
        own = found["classes"]
        both = (plain_number(own[kind]) for kind in ("linear", "rank"))
        rows.append((f"{SETS[name]}, ours", str(max(own["counted"])), *both))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=HERE, help="where NAME.json lie")
    folder = parser.parse_args().out
    paths = {name: folder / f"{name}.json" for name in SETS}
    sets = {
        name: json.loads(path.read_text())["rows"] for name, path in paths.items() if path.is_file()
    }
    if not sets:
        names = " or ".join(path.name for path in paths.values())
        raise SystemExit(f"of_paper.py: {folder}: no {names}; run table.py first")
    risks = {
        name: json.loads(path.read_text())
        for name in sets
        if (path := folder / f"{name}-risk.json").is_file()
    }
    regularized = {name: rows for name, rows in sets.items() if REGULARIZED in rows}
    print("Ours: mean ± half of the 95 % interval over seeds;")
    print("of three seeds or fewer mean (least to most).", end="\n\n")
    for made, of in (
        (table_1, sets),
        (table_2, regularized),
        (table_3, regularized),
        (table_5, {name: rows for name, rows in sets.items() if white_box(rows)}),
        (figure_8, risks),
    ):
        head, *rows = made(of)
        print(f"{made.__name__.replace('_', ' ')}\n\n{line(head)}")
        print(line(["---", *["---:"] * (len(head) - 1)]))
        print("\n".join(map(line, rows)), end="\n\n")


if __name__ == "__main__":
    main()
