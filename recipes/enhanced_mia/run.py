"""Attacks S, P, R, D, L, LiRA and RMIA on fleets of classifiers: tables and figures.

    python run.py --data DATA --work WORK --out OUT [--only mnist-1 cifar10 ...] [--processes 2]

DATA has a folder for each data set (README.md says where the files come from). Models go
to WORK, outside the repository; killed and started again the run goes on where it was. OUT gets
results.json and the figures.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from data import READERS
from figures import draw
from table import attacks, right
from training import (
    CONFIGURATIONS,
    STANDARD,
    Configuration,
    Tables,
    drawn,
    learned,
    tables,
)

from canary.errors import CanaryError
from canary.membership.aggregate import Spread, agreement, evaluate_models, rates, sample_auc
from canary.membership.diagnostics import Growth, growth
from canary.membership.many import ManyScores, attack_models

ALEXNET = {"S": (0.870, 0.018), "P": (0.857, 0.023), "R": (0.874, 0.018), "D": (0.871, 0.007)}
# fmt: off
PAPER = {
    "mnist-1": {"S": (0.50, 0.004), "P": (0.50, 0.005), "R": (0.557, 0.009), "D": (0.549, 0.006)},
    "mnist-2": {"S": (0.496, 0.005), "P": (0.496, 0.006), "R": (0.551, 0.011), "D": (0.544, 0.004)},
    "cifar10": ALEXNET,
    "cifar10-1": ALEXNET,
    "cifar10-vgg": {
        "S": (0.706, 0.011), "P": (0.708, 0.009), "R": (0.737, 0.014), "D": (0.742, 0.003),
    },
    "purchase100-1": {
        "S": (0.809, 0.017), "P": (0.822, 0.014), "R": (0.840, 0.023), "D": (0.876, 0.009),
    },
    "purchase100-2": {
        "S": (0.752, 0.008), "P": (0.755, 0.006), "R": (0.799, 0.009), "D": (0.821, 0.004),
    },
    "purchase100-3": {
        "S": (0.687, 0.003), "P": (0.687, 0.003), "R": (0.755, 0.004), "D": (0.768, 0.002),
    },
    "purchase100-4": {
        "S": (0.647, 0.004), "P": (0.55, 0.005), "R": (0.682, 0.009), "D": (0.70, 0.005),
    },
}
# fmt: on
"""AUC and its spread in tables 6, 4 and 2. Of table 4, cifar10 and cifar10-1 are beside
configuration I, cifar10-vgg beside III; ours have fewer images or models."""

TARGETS = 10
FPR = 0.01
ALPHA = 0.3
OTHERS = ("lira-online", "lira-online-fixed", "lira-offline-fixed", "rmia", "rmia-offline")


def rounded(values: Iterable[float]) -> list[float]:
    return [round(float(value), 4) for value in values]


def spread(found: Spread) -> dict[str, float]:
    return {
        name: value if name == "count" else round(value, 6) for name, value in asdict(found).items()
    }


def measured(scores: ManyScores, rule: str) -> dict[str, Any]:
    """AUC and TPR at 1 % FPR over targets; where the attack has levels, its rates at 30 %."""
    across = evaluate_models(scores)
    found = {
        "name": scores.name,
        "rule": rule,
        "auc": spread(across.auc),
        "auc_of_targets": rounded(one.auc.value for one in across.evaluations),
        "tpr_at_1_percent": spread(across.tpr_at_fpr(FPR)),
        "models_trained": scores.models_trained,
    }
    if scores.calibrated:
        at = rates(scores, alphas=[ALPHA])
        found["fpr_tpr_at_alpha_0.3"] = rounded([at.fpr[0], at.tpr[0]])
    return found


def attacked(found: Tables) -> tuple[list[ManyScores], list[tuple[str, ManyScores]]]:
    """The attacks of the ROC figure, and all with their quantile rules."""
    table = found.main
    targets = range(min(TARGETS, table.models))
    every = [("empirical", attack_models(table, name, targets=targets)) for name in "SPR"]
    every.append(("gaussian", attack_models(table, "R", targets=targets, rule="gaussian")))
    shown = [every[0][1], every[1][1], every[2][1]]
    if found.distilled:
        mine = range(len(found.distilled))
        for rule in ("empirical", "gaussian"):
            scores = attack_models(
                table, "D", targets=mine, shadow=list(found.distilled), rule=rule
            )
            every.append((rule, scores))
        shown.append(every[-2][1])
    every += [("", attack_models(table, name, targets=targets)) for name in OTHERS]
    shown += [scores for _, scores in every if scores.name in ("lira-online-fixed", "rmia")]
    return shown, every


def beside_l(found: Tables, repeats: int) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Every attack on the first target and the samples that L judges; table 3."""
    judged = np.flatnonzero(~found.without.member.all(axis=0))
    table = found.main.select(samples=judged)
    without = found.without.select(samples=judged)
    distilled = found.distilled[0].select(samples=judged)
    one: dict[str, Any] = {"targets": [0]}
    rows: list[dict[str, Any]] = []
    compared = []
    for rule in ("empirical", "gaussian"):
        of = {
            "L": attack_models(table, "L", shadow=without, most=repeats, rule=rule, **one),
            "S": attack_models(table, "S", rule=rule, **one),
            "P": attack_models(table, "P", rule=rule, **one),
            "R": attack_models(table, "R", rule=rule, **one),
            "D": attack_models(table, "D", shadow=distilled, rule=rule, **one),
        }
        rows += [
            measured(scores, rule)
            for name, scores in of.items()
            if rule == "empirical" or name in "LRD"
        ]
        if rule == "empirical":
            compared = list(of.values())
    rows += [measured(attack_models(table, name, **one), "") for name in OTHERS]
    said = agreement(compared, alpha=ALPHA)
    member = table.member[0]
    return rows, {
        "alpha": ALPHA,
        "samples": [int(member.sum()), int((~member).sum())],
        "names": list(said.names),
        "members": [rounded(row) for row in said.members],
        "nonmembers": [rounded(row) for row in said.nonmembers],
    }


def sizes(most: int) -> list[int]:
    """4, 8, 16 ... and the largest."""
    return sorted({*(2**k for k in range(2, most.bit_length())), most} if most > 4 else {most})


def grown(found: Tables, targets: Sequence[int]) -> list[Growth]:
    """Figure 3; R and D by the Gaussian rule, whose levels do not end at 1 / (m + 1)."""
    table = found.main
    models = sizes(table.models - len(targets))
    results = [
        growth(table, "S", models, targets=targets, seed=0),
        growth(table, "R", models, targets=targets, seed=0, rule="gaussian"),
    ]
    if found.distilled:
        shadows = found.distilled
        few = sizes(shadows[0].models)
        mine = range(len(shadows))
        results.append(
            growth(table, "D", few, targets=mine, shadow=shadows, seed=0, rule="gaussian")
        )
    free = int((~table.member[list(targets)].any(axis=0)).sum())
    points = [max(int(free * share), 2) for share in (0.05, 0.1, 0.2, 0.4, 0.8)]
    results.append(growth(table, "P", points, targets=targets, seed=0))
    return results


def studied(found: Tables, configuration: Configuration, out: Path) -> dict[str, Any]:
    """Everything of one configuration, as numbers; its figures are written."""
    found, failed = learned(found)
    table = found.main
    right = table.signal("correctness")
    inside = [right[row][table.member[row]].mean() for row in range(table.models)]
    outside = [right[row][~table.member[row]].mean() for row in range(table.models)]
    shown, every = attacked(found)
    growths = grown(found, range(max(len(found.distilled), 2)))
    draw(found, shown, growths, out, configuration.name)
    exposed = sample_auc(attack_models(table, "R", rule="gaussian"))
    result: dict[str, Any] = {
        "members": configuration.members,
        "epochs": configuration.train.epochs,
        "models": table.models,
        "failed_trainings": failed,
        "distilled": [one.models for one in found.distilled],
        "accuracy_on_members": spread(Spread.of(inside)),
        "accuracy_on_others": spread(Spread.of(outside)),
        "accuracy_on_members_of_targets": rounded(inside[:TARGETS]),
        "paper_auc": PAPER.get(configuration.name, {}),
        "attacks": [measured(scores, rule) for rule, scores in every],
        "growth": [
            {"name": one.name, "what": one.what, "sizes": list(one.sizes),
             "auc": rounded(auc.mean for auc in one.auc)}
            for one in growths
        ],
        "auc_of_samples_percentiles_5_50_95": rounded(np.percentile(exposed.auc, [5, 50, 95])),
    }  # fmt: skip
    if found.without is not None and found.distilled:
        result["leave_one_out_models"] = found.without.models
        result["first_target"], result["agreement"] = beside_l(found, configuration.repeats)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    names = [one.name for one in CONFIGURATIONS]
    parser.add_argument("--only", nargs="+", choices=names, default=STANDARD)
    parser.add_argument("--processes", type=int, default=1, help="models trained at a time")
    options = parser.parse_args()
    if options.processes < 1:
        parser.error(f"--processes {options.processes}: give 1 or more")
    try:
        run(options)
    except CanaryError as error:
        raise SystemExit(f"run.py: {error}") from None


def run(options: argparse.Namespace) -> None:
    torch.set_num_threads(1)
    os.environ["OMP_NUM_THREADS"] = "1"  # of further processes
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / "results.json"
    results = json.loads(path.read_text()) if path.exists() else {}
    for configuration in CONFIGURATIONS:
        if configuration.name not in options.only:
            continue
        source = configuration.name.split("-")[0]
        data = drawn(READERS[source](options.data / source), configuration)
        found = tables(data, configuration, options.work, processes=options.processes)
        result = results[configuration.name] = studied(found, configuration, options.out)
        path.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
        print(f"\n{configuration.name}: right on {right(result)}\n", *attacks(result), sep="\n")


if __name__ == "__main__":
    main()
