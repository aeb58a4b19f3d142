"""Attack what `train.py` kept: every defence, by attackers who know of it and who do not.

    python attacks.py --data DATA --work WORK [--seeds 10]

What is found goes to WORK/seed-S/attacks.json, from which `table.py` makes the tables.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import memguard
import numpy as np
import torch
import train
import works
from data import DATASETS

import canary
from canary.errors import CanaryError, InputError
from canary.membership.attacks import AttackScores
from canary.membership.neural import white_box_attack
from canary.signals.gradients import gradient_features
from canary.signals.signal_table import SignalTable

METRICS = [
    "correctness",
    *(
        f"{signal}{how}"
        for signal in ("confidence", "entropy", "modified-entropy")
        for how in ("", "-one-threshold")
    ),
]
ATTACKS = (*METRICS, "neural")
CURVE = (0.5, 1, 1.5, 2, 2.5, 3, 3.5, 4, 5, 6, 8, 10, 15, 20, 30, 50, 100, 200)
"""Epochs at which undefended models are attacked."""


def attacked(
    seed: Path, x: np.ndarray, y: np.ndarray, *, outputs_alone: bool = False
) -> dict[str, Any]:
    """All that is found of the models of a seed, without gradients if `outputs_alone`."""
    kept = defences(seed)
    targets = {name: read(seed / name / "target.npz") for name in kept}
    shadows = {name: read(seed / name / "shadow.npz") for name in kept}
    plain = shadows["undefended"]
    found: dict[str, Any] = {}
    for name in kept:
        found[name] = row(targets[name], shadows[name], ATTACKS)
    if len(kept) > 1:
        for name, one in unaware(targets, plain).items():
            found[f"{name}/unaware"] = one
    curves = {name: facts(seed / name / "target.json")["curve"] for name in kept if known(name)}
    pair = targets["undefended"], plain
    # Early stopping: least loss on the records that the defender keeps apart.
    path = curves["undefended"]
    at = int(np.argmin([look["known_loss"] for look in path]))
    early = row(*stopped(seed, at, pair), ATTACKS)
    found["early-stopping"] = {**early, "epochs": path[at]["epochs"]}
    for name in curves:
        if name != "undefended":
            at = nearest(path, found[name]["test"])
            one = row(*stopped(seed, at, pair), ATTACKS)
            found[f"{name}/nearest"] = {**one, "epochs": path[at]["epochs"]}
    of_paper = read(seed / "undefended" / "small-shadow.npz")
    for name in ("undefended", "memguard"):
        if name in kept:
            small = {"small": read(seed / name / "small-shadow.npz")}
            if name == "memguard":
                small["small-unaware"] = of_paper
            for key, shadow in small.items():
                found[f"{name}/{key}"] = one = row(targets[name], shadow, ATTACKS)
                one["attacks"]["sorted"] = sorted_attack(targets[name], shadow)
    if not outputs_alone:
        found["undefended"]["attacks"] |= white_box(seed, x, y, targets["undefended"], plain)
    found["curve"] = [
        {"epochs": look["epochs"], **row(*stopped(seed, at, pair), METRICS)}
        for at, look in enumerate(path)
        if look["epochs"] in CURVE
    ]
    return {"rows": found, "curves": curves, "facts": of_training(seed, kept)}


def defences(seed: Path) -> list[str]:
    """Those whose target and shadow are trained."""
    found = [name for name in train.DEFENCES if (seed / name / "shadow.json").is_file()]
    if "undefended" not in found:
        raise InputError(
            "holds no undefended target and shadow",
            cure="run train.py with this --work and as many --seeds",
            where=str(seed),
        )
    return found


def stopped(
    seed: Path, at: int, like: tuple[SignalTable, SignalTable]
) -> tuple[SignalTable, SignalTable]:
    """Undefended target and shadow as they were at a look, where `like` is what became of them."""
    looks = (
        np.load(seed / "undefended" / f"{role}-looks.npy", mmap_mode="r")[at]
        for role in ("target", "shadow")
    )
    return tuple(said(np.array(one), table) for one, table in zip(looks, like, strict=True))


def nearest(path: list[dict[str, float]], test: float) -> int:
    """The look whose accuracy on others comes nearest to `test`."""
    return int(np.argmin([abs(look["test"] - test) for look in path]))


def read(path: Path) -> SignalTable:
    return canary.measure(path, keep_outputs=True)


def facts(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text())


def known(name: str) -> bool:
    """Whether the defence is in the training, so that accuracy was followed."""
    return name != "memguard"


def of_training(seed: Path, kept: list[str]) -> dict[str, Any]:
    if "dp-sgd" not in kept:
        return {}
    return {"epsilon": facts(seed / "dp-sgd" / "target.json")["epsilon"]}


def said(logits: np.ndarray, like: SignalTable) -> SignalTable:
    """A table of other outputs for the same samples."""
    return canary.measure(
        logits, y=like.label, member=like.member[0], outputs="logits", keep_outputs=True
    )


def row(target: SignalTable, shadow: SignalTable, names: Any) -> dict[str, Any]:
    """Accuracy of the target on both kinds of records, and what each attack reaches."""
    return {
        **accuracies(target),
        "attacks": {
            name: reached(canary.attack(target, name, shadow=shadow), target) for name in names
        },
    }


def accuracies(target: SignalTable) -> dict[str, float]:
    right, member = target.signal("correctness")[0], target.member[0]
    return {"train": float(right[member].mean()), "test": float(right[~member].mean())}


def reached(scores: AttackScores, target: SignalTable) -> dict[str, float]:
    found = canary.evaluate(scores, target.member[0])
    assert found.accuracy is not None
    return {"accuracy": found.accuracy.value, "auc": found.auc.value}


def unaware(targets: dict[str, SignalTable], shadow: SignalTable) -> dict[str, Any]:
    """Every defended target by one undefended shadow, whose network is trained once."""
    names = [name for name in targets if name != "undefended"]
    logits = np.concatenate([targets[name].outputs[0] for name in names])
    whole = canary.measure(
        logits,
        y=np.concatenate([targets[name].label for name in names]),
        member=np.concatenate([targets[name].member[0] for name in names]),
        outputs="logits",
        keep_outputs=True,
    )
    found = {name: {**accuracies(targets[name]), "attacks": {}} for name in names}
    for attack in ATTACKS:
        scores = canary.attack(whole, attack, shadow=shadow)
        at = 0
        for name in names:
            part = slice(at, at := at + targets[name].samples)
            own = replace(scores, scores=scores.scores[part], guess=scores.guess[part])
            found[name]["attacks"][attack] = reached(own, targets[name])
    return found


def sorted_attack(target: SignalTable, shadow: SignalTable) -> dict[str, float]:
    """MemGuard's authors' own attacker: a network on the sorted probabilities alone."""
    theirs, ours = (torch.from_numpy(table.outputs[0]) for table in (shadow, target))
    net = memguard.train_defender(theirs, torch.from_numpy(shadow.member[0]), seed=0)
    with torch.no_grad():
        scores = net(ours.softmax(1).sort(1).values)[:, 0].double().numpy()
    return reached(
        AttackScores("sorted", "outputs", scores, scores > 0, None, (), blind=True), target
    )


def white_box(
    seed: Path, x: np.ndarray, y: np.ndarray, target: SignalTable, shadow: SignalTable
) -> dict[str, Any]:
    """By gradients: their norm, and a network that reads more of them."""
    tables, features = [], []
    for role, table in (("target", target), ("shadow", shadow)):
        network = train.undefended(seed, role, x, y)
        with np.load(seed / "undefended" / f"{role}.npz") as held:
            record = held["record"]
        seen = gradient_features(network, train.floats(x[record]), y[record], outputs="logits")
        features.append(seen)
        values = {**table.values, "gradient-norm": seen.norm[None, :]}
        tables.append(replace(table, values=values))
    target, shadow = tables
    found = {
        name: reached(canary.attack(target, name, shadow=shadow), target)
        for name in ("gradient-norm", "gradient-norm-one-threshold", "neural-per-class")
    }
    scores = white_box_attack(target, features[0], shadow=shadow, shadow_features=features[1])
    return {**found, "white-box": reached(scores, target)}


def main() -> None:
    parser = train.arguments(__doc__.splitlines()[0])
    parser.add_argument(
        "--outputs-alone", action="store_true", help="no gradients, no network for each class"
    )
    options = parser.parse_args()
    torch.set_num_threads(1)
    try:
        run(options)
    except CanaryError as error:
        raise SystemExit(f"attacks.py: {error}") from None


def run(options: argparse.Namespace) -> None:
    x, y = DATASETS[options.dataset].read(options.data)
    works.check(options.work, train.identity(options.dataset, x, y))
    for number in range(options.seeds):
        seed = options.work / f"seed-{number}"
        how = {
            "dataset": options.dataset,
            "defences": defences(seed),
            "outputs alone": options.outputs_alone,
        }
        path = seed / "attacks.json"
        if path.is_file() and how.items() <= facts(path)["facts"].items():
            print(f"seed {number}: attacked before", flush=True)
            continue
        began = time.process_time()
        found = attacked(seed, x, y, outputs_alone=options.outputs_alone)
        found["facts"] |= how
        path.write_text(json.dumps(found))
        spent = time.process_time() - began
        print(f"seed {number}: attacked ({spent:.1f} s)", flush=True)


if __name__ == "__main__":
    main()
