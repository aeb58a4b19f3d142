"""rho and the membership attack for every target of table 1, from results.json, as SVG.

python figure.py WORK/results.json WORK/forgetting.svg
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from matplotlib import pyplot as plt

KNEW = {"query again", *(f"domain + {percent} % query" for percent in (10, 50, 100))}
UNLEARNED = ("fine-tuned", "ascent")


def main() -> None:
    source, place = map(Path, sys.argv[1:])
    found = json.loads(source.read_text())["targets"]
    plt.rcParams.update({"svg.hashsalt": "canary", "font.size": 9})
    figure, (left, right) = plt.subplots(1, 2, figsize=(8.5, 4.6), sharey=True)
    for row, name in enumerate(found):
        colour = "tab:purple" if name.startswith(UNLEARNED) else "tab:blue"
        colour = "tab:red" if name in KNEW else colour
        seeds = found[name]["seeds"]
        left.scatter([one["rho"] for one in seeds], [row] * len(seeds), color=colour, s=18)
        right.scatter([one["auc"][0] for one in seeds], [row] * len(seeds), color=colour, s=18)
        if found[name]["paper"]:
            left.scatter(found[name]["paper"][1], row, marker="x", color="black", s=28)
    left.axvline(1, color="grey", lw=0.8)
    right.axvline(0.5, color="grey", lw=0.8)
    left.set_xlabel("rho (a dot for each seed; cross: the paper)")
    right.set_xlabel("AUC of the membership attack")
    left.set_yticks(range(len(found)), list(found))
    left.invert_yaxis()
    figure.suptitle("Red: saw the query set. Blue: never. Purple: unlearned it.", fontsize=9)
    figure.tight_layout()
    figure.savefig(place, metadata={"Date": None})


if __name__ == "__main__":
    main()
