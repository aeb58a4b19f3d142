"""What rho, its p-values and the membership attack say of every target, over seeds."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from classifier import answers
from scipy.stats import t as student

import canary
from canary.errors import InputError

PAPER = {
    1: {
        "query again": (0.049, 0.082),
        "50 % domain": (0.669, 1.122),
        "75 % domain": (0.652, 1.094),
        "100 % domain": (0.596, 1.000),
        "domain + 10 % query": (0.056, 0.094),
        "domain + 50 % query": (0.039, 0.065),
        "domain + 100 % query": (0.029, 0.049),
        "CIFAR-10": (0.957, 1.606),
    },
    2: {
        "query again": (0.036, 0.047),
        "50 % domain": (0.885, 1.146),
        "75 % domain": (0.793, 1.027),
        "100 % domain": (0.772, 1.000),
        "domain + 10 % query": (0.579, 0.750),
        "domain + 50 % query": (0.529, 0.685),
        "domain + 100 % query": (0.103, 0.133),
    },
}
"""Distances and rho of the paper's tables, of one training each."""

ORDER = (
    "query again",
    "domain + 100 % query",
    "domain + 50 % query",
    "domain + 10 % query",
    "domain + 10 % other digits",
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
"""Of the targets in tables and figure."""

FURTHER = {word: word for word in ("remembered", "unlike", "alike", "unproven")}
FURTHER["surpasses"] = "surer"
"""What `canary.forgotten` adds to the paper's rule, and the word of the tables: the first that
holds."""

RESAMPLES = 500


def require(targets: int, models: int, planned: int, folder: Path) -> None:
    """Refuse to judge without a finished target, or by fewer than two calibration models."""
    cure = "give the settings of the training, or leave --judge out to train the rest"
    if not targets:
        problem = "nothing finished is there with these settings"
        raise InputError(problem, cure=cure, where=str(folder))
    if models < 2:
        problem = f"{models} of {planned} calibration models, where two or more are needed"
        raise InputError(problem, cure=cure, where=str(folder))
    if models < planned:
        print(f"{models} of {planned} calibration models")


def judged(folder: Path, table: int, *, seeds: int, calibration: int) -> dict[str, Any]:
    """Every finished target of a folder of answers; means and 95 % intervals over seeds."""
    names = [f"calibration-{number}" for number in range(calibration)]
    names = [one for one in names if answers(folder, one, f"query-{seeds - 1}").exists()]
    done = {
        seed: [
            path
            for path in sorted(folder.glob(f"{seed}.*.on-tested.npz"))
            if path != answers(folder, f"{seed}.query", "tested")
        ]
        for seed in range(seeds)
    }
    require(sum(map(len, done.values())), len(names), calibration, folder)
    found: dict[str, list[dict[str, Any]]] = {}
    for seed, paths in done.items():
        of = f"query-{seed}"
        query = answers(folder, f"{seed}.query", of)
        others = [answers(folder, name, of) for name in names]
        for path in paths:
            name = path.name.removeprefix(f"{seed}.").removesuffix(".on-tested.npz")
            unseen = answers(folder, f"{seed}.{name}", "unseen")
            one = measures(query, answers(folder, f"{seed}.{name}", of), others, unseen)
            one["accuracy"] = {
                "query": accuracy(answers(folder, f"{seed}.{name}", of)),
                "unseen": accuracy(unseen),
                "domain": accuracy(path),
            }
            found.setdefault(name, []).append({"seed": seed, **one})
    return {
        "targets": {
            name: {"paper": PAPER[table].get(name), **over_seeds(found[name]), "seeds": found[name]}
            for name in sorted(found, key=_place)
        }
    }


def _place(name: str) -> int:
    """Other numbers of epochs have other names, and come last."""
    return ORDER.index(name) if name in ORDER else len(ORDER)


def measures(query: Any, target: Any, calibration: Sequence[Any], unseen: Any) -> dict[str, Any]:
    """Of one target: the answer by the paper's rule alone, and what `canary.forgotten` adds."""
    one = canary.forgotten(query, target, calibration, unseen=unseen, resamples=RESAMPLES)
    assert one.auc is not None
    below, above = one.upper < 1, one.lower >= 1
    return {
        "rho": one.rho,
        "interval": [one.lower, one.upper],
        "answer": "not forgotten" if below else "forgotten" if above else "undecided",
        "further": next((word for name, word in FURTHER.items() if getattr(one, name)), None),
        "distance": one.target,
        "calibration": float(one.calibration.mean()),
        "models": len(one.calibration),
        "p": one.p,
        "p_unlike": one.p_unlike,
        "auc": [one.auc.value, one.auc.lower, one.auc.upper],
    }


def over_seeds(some: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Means with half the width of their intervals; how often each answer was given."""
    return {
        "distance": mean([one["distance"] for one in some]),
        "rho": mean([one["rho"] for one in some]),
        "auc": mean([one["auc"][0] for one in some]),
        "p": statistics.median(one["p"] for one in some),
        "p_unlike": statistics.median(one["p_unlike"] for one in some),
        "answers": dict(Counter(one["answer"] for one in some)),
        "further": dict(Counter(one["further"] for one in some if one["further"])),
    }


def mean(values: Sequence[float]) -> list[float | None]:
    """Mean over seeds, and half the width of its 95 % interval (Student's t)."""
    if len(values) == 1:
        return [values[0], None]
    half = student.ppf(0.975, len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))
    return [statistics.mean(values), float(half)]


def accuracy(path: Path) -> float:
    with np.load(path) as held:
        return float((held["logits"].argmax(1) == held["labels"]).mean())


def shown(pair: Sequence[float | None]) -> str:
    middle, half = pair
    return f"{middle:.2f}" if half is None else f"{middle:.2f} ± {half:.2f}"


def counted(some: dict[str, int]) -> str:
    return ", ".join(f"{count} {word.replace('_', ' ')}" for word, count in some.items())


def rows(found: dict[str, Any]) -> list[str]:
    """The results as a Markdown table."""
    lines = [
        "| target trained on | paper: distance, rho | distance | rho | answer by the paper's rule "
        "| further | p | p of any difference | AUC | accuracy: unseen, domain |",
        "| --- | --- | --- | --- | --- | --- | ---: | ---: | --- | --- |",
    ]
    for name, one in found["targets"].items():
        paper = "" if one["paper"] is None else "{:.3f}, {:.3f}".format(*one["paper"])
        said = counted(one["answers"])
        further = counted(one["further"])
        right = (
            statistics.mean(seed["accuracy"][of] for seed in one["seeds"])
            for of in ("unseen", "domain")
        )
        lines.append(
            f"| {name} | {paper} | {shown(one['distance'])} | {shown(one['rho'])} | {said} | "
            f"{further} | "
            f"{one['p']:.2f} | {one['p_unlike']:.2f} | {shown(one['auc'])} | "
            + ", ".join(f"{100 * share:.0f} %" for share in right)
            + " |"
        )
    return lines
