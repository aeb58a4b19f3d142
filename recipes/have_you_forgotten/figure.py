"""rho and the membership attack for every target of table 1, from results.json, as SVG.

python figure.py results.json forgetting.svg
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from matplotlib import pyplot as plt

ORDER = (
    "query again",
    "domain + 100 % query",
    "domain + 50 % query",
    "domain + 10 % query",
    "other digits",
    "domain + other digits",
    "100 % domain",
    "75 % domain",
    "50 % domain",
    "CIFAR-10",
    "letters",
    "fine-tuned 5 epochs",
    "fine-tuned 15 epochs",
    "ascent",
    "ascent too far",
)
KNEW = 4
"""So many of `ORDER` saw the query set; those after `UNTOUCHED` saw it and unlearned."""
UNTOUCHED = 11


def main() -> None:
    source, place = map(Path, sys.argv[1:])
    found = json.loads(source.read_text())["targets"]
    names = [name for name in ORDER if name in found]
    plt.rcParams.update({"svg.hashsalt": "canary", "font.size": 9})
    figure, (left, right) = plt.subplots(1, 2, figsize=(8.5, 4.6), sharey=True)
    for row, name in enumerate(names):
        at = ORDER.index(name)
        colour = "tab:red" if at < KNEW else "tab:blue" if at < UNTOUCHED else "tab:purple"
        seeds = found[name]["seeds"]
        left.scatter([one["rho"] for one in seeds], [row] * len(seeds), color=colour, s=18)
        right.scatter([one["auc"][0] for one in seeds], [row] * len(seeds), color=colour, s=18)
        if found[name]["paper"]:
            left.scatter(found[name]["paper"][1], row, marker="x", color="black", s=28)
    left.axvline(1, color="grey", lw=0.8)
    right.axvline(0.5, color="grey", lw=0.8)
    left.set_xlabel("rho (a dot for each seed; cross: the paper)")
    right.set_xlabel("AUC of the membership attack")
    left.set_yticks(range(len(names)), names)
    left.invert_yaxis()
    figure.suptitle("Red: saw the query set. Blue: never. Purple: unlearned it.", fontsize=9)
    figure.tight_layout()
    figure.savefig(place, metadata={"Date": None})


if __name__ == "__main__":
    main()
