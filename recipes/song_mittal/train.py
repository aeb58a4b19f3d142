"""Train Song and Mittal's Location30 classifiers, undefended and defended, and keep what they say.

    python train.py --data DATA --work WORK [--seeds 10]

DATA is the folder with location30.npz (README.md says where the data comes from). Of every
seed and defence a target and a shadow are trained, on records drawn anew; what they say of
their members and of others goes to WORK/seed-S/DEFENCE, where a run that was broken off goes
on. `attacks.py` attacks them.
"""

from __future__ import annotations

import argparse
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import memguard
import networks
import numpy as np
import torch
from data import READERS
from safetensors.torch import load_file, save_file

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

SIZES = {
    "target": (1000, 1000, 1000),
    "shadow": (1000, 500, 510),
    "small-shadow": (500, 500, 500),
}
"""Records that a model is trained on, that its defence may see, and that it never sees."""

Parts = dict[str, tuple[np.ndarray, np.ndarray, np.ndarray]]


def split(records: int, seed: int) -> Parts:
    """Target and shadow share no record. The small shadow is part of the large one's."""
    order = np.random.default_rng(seed).permutation(records)
    parts: Parts = {}
    for name, sizes in SIZES.items():
        start = 0 if name == "target" else sum(SIZES["target"])
        at = np.cumsum([start, *sizes])
        inside, known, outside = (order[a:b] for a, b in pairwise(at))
        parts[name] = inside, known, outside
    return parts


def job(x: np.ndarray, y: np.ndarray, parts: Parts, *, home: Path, role: str, seed: int) -> None:
    """Train one model and write what it says: ROLE.npz, and last of all ROLE.json."""
    inside, known, outside = parts[role]
    both = np.concatenate([inside, outside])
    labels, member = y[both], np.arange(len(both)) < len(inside)
    home.mkdir(parents=True, exist_ok=True)
    facts: dict[str, object] = {"seed": seed, **DEFENCES[home.name]}
    if home.name == "memguard":
        network = networks.network(x.shape[1], int(y.max()) + 1)
        network.load_state_dict(load_file(home.parent / "undefended" / f"{role}.safetensors"))
        seen = torch.from_numpy(says(network, x[np.concatenate([inside, known])]))
        truth = torch.arange(len(seen)) < len(inside)
        defender = memguard.train_defender(seen, truth, seed=seed)
        logits = memguard.guard(torch.from_numpy(says(network, x[both])), defender).numpy()
    else:
        curve: list[dict[str, float]] = []
        looks: list[np.ndarray] = []

        def look(epochs: float, model: torch.nn.Module) -> None:
            said, unseen = says(model, x[both]), says(model, x[known])
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
            looks.append(said)

        data = x[inside], y[inside], x[known], y[known]
        options = {"classes": int(y.max()) + 1, "seed": seed, "each": look}
        model, epsilon = trained(data, home.name, {**options, **DEFENCES[home.name]})
        logits = says(model, x[both])
        facts |= {"curve": curve, "epsilon": epsilon}
        if home.name == "undefended":
            np.save(home / f"{role}-looks.npy", np.stack(looks))
        save_file(model.state_dict(), home / f"{role}.safetensors")
    np.savez(home / f"{role}.npz", logits=logits, labels=labels, member=member, record=both)
    (home / f"{role}.json").write_text(json.dumps(facts))


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
        return model(torch.from_numpy(x)).numpy()


def loss_of(logits: np.ndarray, labels: np.ndarray) -> float:
    return float(
        torch.nn.functional.cross_entropy(torch.from_numpy(logits), torch.from_numpy(labels))
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--dataset", choices=list(READERS), default="location30")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument(
        "--published", action="store_true", help="undefended: 200 epochs without momentum"
    )
    parser.add_argument("--defences", default=",".join(DEFENCES), help="names with commas")
    options = parser.parse_args()
    if options.published:
        DEFENCES["undefended"] = {"epochs": 200, "momentum": 0.0}
    torch.set_num_threads(1)
    x, y = READERS[options.dataset](options.data)
    for seed in range(options.seeds):
        parts = split(len(x), seed)
        for defence in options.defences.split(","):
            small = defence in ("undefended", "memguard")  # of table 4
            for number, role in enumerate(SIZES):
                home = options.work / f"seed-{seed}" / defence
                done = (home / f"{role}.json").is_file()
                if done or (role == "small-shadow" and not small):
                    continue
                job(x, y, parts, home=home, role=role, seed=3 * seed + number)
                print(f"seed {seed}: {defence}, {role}", flush=True)


if __name__ == "__main__":
    main()
