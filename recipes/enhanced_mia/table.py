"""The tables of README.md out of results.json.

python table.py results.json
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from itertools import combinations
from pathlib import Path
from typing import Any

NAMES = {
    "location30": "Location30",
    "mnist-1": "MNIST I",
    "mnist-2": "MNIST II",
    "cifar10": "CIFAR-10",
    "cifar10-1": "CIFAR-10 I",
    "cifar10-vgg": "CIFAR-10, VGG",
}

AGREEMENT = {
    "truth, L": (0.968, 0.410),
    "truth, S": (0.696, 0.656),
    "truth, P": (0.662, 0.664),
    "truth, R": (0.772, 0.656),
    "truth, D": (0.992, 0.372),
    "L, S": (0.692, 0.730),
    "L, P": (0.654, 0.706),
    "L, R": (0.796, 0.722),
    "L, D": (0.968, 0.822),
    "S, P": (0.874, 0.948),
    "S, R": (0.592, 0.756),
    "S, D": (0.696, 0.716),
    "P, R": (0.586, 0.732),
    "P, D": (0.662, 0.708),
    "R, D": (0.780, 0.692),
}
"""Table 3 of the paper: of members, and of nonmembers."""


def attacks(result: dict[str, Any]) -> Iterable[str]:
    """Tables 2, 4 and 6: every attack, paper and ours side by side."""
    yield "| attack | targets | models | AUC, paper | AUC, ours | TPR at 1 % FPR |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: |"
    for one in result["attacks"]:
        gaussian = one["rule"] == "gaussian"
        paper = None if gaussian else result["paper_auc"].get(one["name"])
        shown = [_named(one), str(one["auc"]["count"]), str(one["models_trained"])]
        shown += ["{:.3f} ± {:.3f}".format(*paper) if paper else "–", told(one["auc"], 1, 3)]
        shown.append(f"{told(one['tpr_at_1_percent'], 100, 1)} %")
        yield f"| {' | '.join(shown)} |"


def first_target(result: dict[str, Any]) -> Iterable[str]:
    """The attacks on the samples that L judges."""
    yield "| attack | models | AUC | TPR at 1 % FPR |"
    yield "| --- | ---: | ---: | ---: |"
    for one in sorted(result["first_target"], key=lambda one: one["rule"] == "gaussian"):
        shown = [_named(one), str(one["models_trained"]), told(one["auc"], 1, 3)]
        shown.append(f"{told(one['tpr_at_1_percent'], 100, 0)} %")
        yield f"| {' | '.join(shown)} |"


def agreement(result: dict[str, Any]) -> Iterable[str]:
    """Table 3."""
    found = result["agreement"]
    yield "| pair | members: paper | ours | non-members: paper | ours |"
    yield "| --- | ---: | ---: | ---: | ---: |"
    for (i, one), (j, two) in combinations(enumerate(found["names"]), 2):
        pair = f"{one}, {two}"
        members, others = AGREEMENT[pair]
        ours = found["members"][i][j], found["nonmembers"][i][j]
        yield f"| {pair} | {members:.3f} | {ours[0]:.2f} | {others:.3f} | {ours[1]:.2f} |"


def growth(results: dict[str, Any]) -> Iterable[str]:
    """Figure 3 as numbers."""
    yield "| | attack | AUC against its number of models (P: population points) |"
    yield "| --- | --- | --- |"
    for name, result in results.items():
        for one in result["growth"]:
            pairs = zip(one["sizes"], one["auc"], strict=True)
            shown = ", ".join(f"{size}: {auc:.3f}" for size, auc in pairs)
            yield f"| {NAMES.get(name, name)} | {one['name']} | {shown} |"


def told(found: dict[str, float], unit: int, digits: int) -> str:
    """Mean and standard deviation; of one target the value."""
    mean, sd = (f"{unit * found[name]:.{digits}f}" for name in ("mean", "sd"))
    return f"{mean} ± {sd}" if found["count"] > 1 else mean


def right(result: dict[str, Any]) -> str:
    """Accuracies of all models, in per cent."""
    inside, outside = (result[f"accuracy_on_{kind}"] for kind in ("members", "others"))
    return f"{told(inside, 100, 1)} % on members and {told(outside, 100, 1)} % on others"


def _named(one: dict[str, Any]) -> str:
    return f"{one['name']}{', Gaussian' if one['rule'] == 'gaussian' else ''}"


def pages(results: dict[str, Any]) -> dict[str, list[str]]:
    """Each table under its heading."""
    found = {}
    for name, result in results.items():
        found[f"{name}: right on {right(result)}"] = list(attacks(result))
        if "agreement" in result:
            found[f"{name}, first target"] = list(first_target(result))
            found[f"{name}, table 3"] = list(agreement(result))
    return found | {"figure 3": list(growth(results))}


if __name__ == "__main__":
    for heading, rows in pages(json.loads(Path(sys.argv[1]).read_text())).items():
        print(f"\n{heading}\n", *rows, sep="\n")
