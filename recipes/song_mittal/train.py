"""Train Song and Mittal's classifiers, undefended and defended, and keep what they say.

    python train.py --data DATA --work WORK [--dataset location30] [--seeds 10]

DATA is the folder with the data set's files (README.md says where they come from). Of every
seed and defence a target and a shadow are trained, on records drawn anew; what they say of
their members and of others goes to WORK/seed-S/DEFENCE, where a run that was broken off goes
on. A WORK is of one data set and one schedule. `attacks.py` attacks the models.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import memguard
import networks
import numpy as np
import torch
import works
from data import DATASETS, DataSet, Sizes
from safetensors.torch import load_file, save_file

from canary.errors import CanaryError, InputError
from canary.fleet.store import print_of

DELTA = 1e-4
DEFENCES: dict[str, dict[str, float]] = {
    "undefended": {},
    "dropout": {"dropout": 0.2},
    "weight-decay": {"weight_decay": 0.01},
    "label-smoothing": {"smoothing": 0.2},
    "adversarial-regularization": {"strength": 0.5},
    "dp-sgd": {"noise": 0.6, "clip": 1.0, "rate": 0.02, "epochs": 20, "delta": DELTA},
    "memguard": {},
}
"""What each is trained with; chosen once, on a seed that is not reported."""

ROWS = 2048
"""Records that a model is asked about at a time."""

ROLES = ("target", "shadow", "small-shadow")

Parts = dict[str, tuple[np.ndarray, np.ndarray, np.ndarray]]


def split(records: int, seed: int, sizes: Sizes) -> Parts:
    """Target and shadow share no record. The small shadow's lie among the large one's."""
    needed = sum(sizes["target"]) + sum(sizes["shadow"])
    if records < needed:
        raise InputError(
            f"{records:,} records, where target and shadow take {needed:,}",
            cure="give the whole data set",
            where="split",
        )
    order = np.random.default_rng(seed).permutation(records)
    parts: Parts = {}
    for name, own in sizes.items():
        start = 0 if name == "target" else sum(sizes["target"])
        at = np.cumsum([start, *own])
        inside, known, outside = (order[a:b] for a, b in pairwise(at))
        parts[name] = inside, known, outside
    return parts


def job(
    x: np.ndarray,
    y: np.ndarray,
    parts: Parts,
    *,
    home: Path,
    role: str,
    seed: int,
    epochs: int,
    every: float,
) -> None:
    """Train one model and write what it says: ROLE.npz, and last of all ROLE.json."""
    inside, known, outside = parts[role]
    both = np.concatenate([inside, outside])
    labels, member = y[both], np.arange(len(both)) < len(inside)
    home.mkdir(parents=True, exist_ok=True)
    facts: dict[str, object] = {"seed": seed, **DEFENCES[home.name]}
    asked, kept = floats(x[both]), floats(x[known])
    if home.name == "memguard":
        network = undefended(home.parent, role, x, y)
        seen = torch.from_numpy(says(network, np.concatenate([asked[: len(inside)], kept])))
        truth = torch.arange(len(seen)) < len(inside)
        defender = memguard.train_defender(seen, truth, seed=seed)
        logits = memguard.guard(torch.from_numpy(says(network, asked)), defender).numpy()
    else:
        curve: list[dict[str, float]] = []
        looks: list[np.ndarray] = []

        def look(epochs: float, model: torch.nn.Module) -> None:
            said, unseen = says(model, asked), says(model, kept)
            right = said.argmax(1) == labels
            curve.append(
                {
                    "epochs": epochs,
                    "train": float(right[member].mean()),
                    "test": float(right[~member].mean()),
                    "known": float((unseen.argmax(1) == y[known]).mean()),
                    "known_loss": loss_of(unseen, y[known]),
                }
            )
            if home.name == "undefended":
                looks.append(said)

        data = asked[: len(inside)], y[inside], kept, y[known]
        options = {"classes": int(y.max()) + 1, "seed": seed, "epochs": epochs, "each": look}
        if home.name != "dp-sgd":
            options["every"] = every if home.name == "undefended" else 1.0
        model, epsilon = trained(data, home.name, {**options, **DEFENCES[home.name]})
        logits = says(model, asked)
        facts |= {"curve": curve, "epsilon": epsilon}
        if looks:
            np.save(home / f"{role}-looks.npy", np.stack(looks))
        save_file(model.state_dict(), home / f"{role}.safetensors")
    np.savez(home / f"{role}.npz", logits=logits, labels=labels, member=member, record=both)
    (home / f"{role}.json").write_text(json.dumps(facts))


def undefended(seed: Path, role: str, x: np.ndarray, y: np.ndarray) -> torch.nn.Sequential:
    """The undefended model of a seed."""
    network = networks.network(x.shape[1:], int(y.max()) + 1)
    network.load_state_dict(load_file(seed / "undefended" / f"{role}.safetensors"))
    return network.eval()


def floats(x: np.ndarray) -> np.ndarray:
    return x.astype(np.float32, copy=False)


def trained(
    data: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray],
    defence: str,
    options: dict[str, Any],
) -> tuple[torch.nn.Module, float | None]:
    if defence == "adversarial-regularization":
        return networks.train_against_attacker(*data, **options), None
    if defence == "dp-sgd":
        return networks.train_privately(*data[:2], **options)
    return networks.train(*data[:2], **options), None


def says(model: torch.nn.Module, x: np.ndarray) -> np.ndarray:
    with torch.no_grad():
        return torch.cat([model(part) for part in torch.from_numpy(x).split(ROWS)]).numpy()


def loss_of(logits: np.ndarray, labels: np.ndarray) -> float:
    return float(
        torch.nn.functional.cross_entropy(torch.from_numpy(logits), torch.from_numpy(labels))
    )


def arguments(description: str) -> argparse.ArgumentParser:
    """Where the data and the work lie, for every script of the recipe that needs both."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--dataset", choices=list(DATASETS), default="location30")
    parser.add_argument("--seeds", type=int, default=10)
    return parser


def options() -> argparse.Namespace:
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument(
        "--published", action="store_true", help="undefended: 200 epochs without momentum"
    )
    parser.add_argument("--defences", default=",".join(DEFENCES), help="names with commas")
    return parser.parse_args()


def run(given: argparse.Namespace, dataset: DataSet) -> None:
    defences = given.defences.split(",")
    if "dp-sgd" in defences and importlib.util.find_spec("opacus") is None:
        raise InputError(
            "dp-sgd needs opacus",
            cure="pip install opacus, or leave it out of --defences",
            where="--defences",
        )
    if unknown := [name for name in defences if name not in DEFENCES]:
        raise InputError(
            f"unknown defence {unknown[0]!r}",
            cure=f"use {', '.join(DEFENCES)}",
            where="--defences",
        )
    every = dataset.every
    if given.published:
        DEFENCES["undefended"] = {"epochs": 200, "momentum": 0.0}
        every = 10.0
    x, y = dataset.read(given.data)
    about = {
        **identity(given.dataset, x, y),
        "schedule": works.PUBLISHED if given.published else works.ORDINARY,
        "sizes": dataset.sizes,
        "epochs": dataset.epochs,
        "every": every,
        **DEFENCES,
    }
    works.begin(given.work, about)
    trained_now = 0
    for seed in range(given.seeds):
        parts = split(len(x), seed, dataset.sizes)
        for defence in defences:
            small = defence in ("undefended", "memguard")  # of table 4
            for number, role in enumerate(ROLES):
                home = given.work / f"seed-{seed}" / defence
                done = (home / f"{role}.json").is_file()
                if done or (role == "small-shadow" and not small):
                    continue
                how = {"seed": 3 * seed + number, "epochs": dataset.epochs, "every": every}
                began = time.process_time()
                job(x, y, parts, home=home, role=role, **how)
                trained_now += 1
                spent = time.process_time() - began
                print(
                    f"seed {seed}: {defence}, {role} ({spent:.1f} s of processor time)", flush=True
                )
    if not trained_now:
        print(f"nothing to train: {given.work} has all of these models")


def identity(dataset: str, x: np.ndarray, y: np.ndarray) -> dict[str, str]:
    """What a WORK must have in common with a script that reads it."""
    return {"data set": dataset, "fingerprint of the data": print_of(x, y)}


def main() -> None:
    given = options()
    torch.set_num_threads(1)
    try:
        run(given, DATASETS[given.dataset])
    except CanaryError as error:
        raise SystemExit(f"train.py: {error}") from None


if __name__ == "__main__":
    main()
