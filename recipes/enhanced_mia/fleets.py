"""The fleets that attacks with many models need, on Location30.

    python fleets.py --data DATA --work WORK [--models 64] [--points 50] [--each 16]

DATA is the folder with location30.npz (README.md says where the data comes from). Three
fleets of one network go to WORK, each with a table of losses of all models and records:

    reference    models on halves of 2,000 records, each of these in half of the models
    distilled    models that learn from what the first of them says of the other records
    leave-one-out    models on the records of the first but one, for some of its records

Killed and started again it goes on where it was.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file
from scipy.special import softmax

import canary
from canary.fleet.splits import Split, halves, leave_one_out, soft_labelled, subsets
from canary.models.torch_training import TorchTraining, trained_module
from canary.signals.table import SignalTable
from canary.workers.here import Here

RECORDS = 2000
SIGNALS = ("correctness", "loss", "logit-confidence")


def network() -> torch.nn.Sequential:
    return torch.nn.Sequential(
        torch.nn.Linear(446, 128),
        torch.nn.ReLU(),
        torch.nn.Linear(128, 64),
        torch.nn.ReLU(),
        torch.nn.Linear(64, 30),
    )


def read(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """5,010 records of 446 zeros and ones, and their classes from 0."""
    with np.load(folder / "location30.npz") as held:
        bits = np.unpackbits(held["bits"], axis=1)[:, : int(held["n_features"])]
        return bits, held["labels"].astype(np.int64) - 1


def said(checkpoint: Path, x: np.ndarray) -> np.ndarray:
    """Probabilities of a trained network for all records."""
    module = network()
    module.load_state_dict(load_file(checkpoint))
    return softmax(trained_module(module).predict(x), axis=1)


def save(table: SignalTable, path: Path) -> None:
    """The arrays of a table; `target` is the fingerprint of the model that it was made for."""
    np.savez(
        path,
        losses=table.signal("loss"),
        logit_confidence=table.signal("logit-confidence"),
        member=table.member,
        labels=table.label,
        group=table.group,
        models=np.array(table.origin.models),
        target=np.array(table.origin.target or ""),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--models", type=int, default=64)
    parser.add_argument("--points", type=int, default=50)
    parser.add_argument("--each", type=int, default=16)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--at-once", type=int, default=64)
    options = parser.parse_args()
    x, y = read(options.data)
    chosen = np.zeros(len(x), np.bool_)
    rng = np.random.default_rng(options.seed)
    chosen[rng.choice(len(x), RECORDS, replace=False)] = True
    group = np.where(chosen, "judged", "population")
    train = TorchTraining(build=network, epochs=options.epochs, learning_rate=0.05)

    def fleet(name: str, split: Split, models: int) -> tuple[canary.Fleet, SignalTable]:
        found = canary.Fleet(
            train,
            (x, y, group),
            split,
            models,
            options.seed,
            outputs="logits",
            signals=SIGNALS,
            checkpoints=name == "reference",
        )
        began = time.perf_counter()
        table = found.run(folder=options.work / name, workers=Here(at_once=options.at_once))
        save(table, options.work / f"{name}.npz")
        right, loss = table.signal("correctness"), table.signal("loss")
        inside, outside = table.member, ~table.member & chosen
        print(
            f"| {name} | {table.models} | {time.perf_counter() - began:.0f} "
            f"| {100 * right[inside].mean():.1f} | {100 * right[outside].mean():.1f} "
            f"| {loss[inside].mean():.3f} | {loss[outside].mean():.3f} |",
            flush=True,
        )
        return found, table

    print("| fleet | models | seconds | right on members, % | on others, % | loss | on others |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    first, table = fleet("reference", halves(among=chosen), options.models)
    target = table.origin.models[0]
    probs = said(first.checkpoint(options.work / "reference", 0), x)
    population = subsets(RECORDS // 2, among=~chosen)
    fleet("distilled", soft_labelled(population, probs, target=target), options.models)
    inside = table.member[0]
    points = rng.permutation(np.flatnonzero(inside))[: options.points]
    split = leave_one_out(points, member=inside, target=target)
    fleet("leave-one-out", split, options.points * options.each)


if __name__ == "__main__":
    main()
