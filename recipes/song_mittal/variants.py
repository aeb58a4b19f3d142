"""More models of the first seed: other architectures, and models that lack some of its members.

    python variants.py --data DATA --work WORK [--dataset location30]

For figures 4, 7 and 12 of the paper: undefended targets and shadows by six other
architectures, each guarded by MemGuard as well, and the same by adversarial regularization; and
ROUNDS times PARTS models that are trained like the target without one part in PARTS of its
members, so that every member is lacked by ROUNDS of them. What they say goes to
WORK/seed-0/architectures and WORK/seed-0/lacking; a run that was broken off goes on. `risk.py`
reads it.
"""

from __future__ import annotations

from pathlib import Path

import memguard
import networks
import numpy as np
import torch
import train
import works
from data import DATASETS, DataSet
from networks import Architecture

from canary.errors import CanaryError

ARCHITECTURES = {
    "depth 3": Architecture(depth=3),
    "depth 5": Architecture(depth=5),
    "width 0.5": Architecture(width=0.5),
    "width 2": Architecture(width=2.0),
    "tanh": Architecture("tanh"),
    "sigmoid": Architecture("sigmoid"),
}
ROUNDS, PARTS = 2, 20


def of_architectures(seed: Path, x: np.ndarray, y: np.ndarray, dataset: DataSet) -> None:
    parts = train.split(len(x), 0, dataset.sizes)
    for name, architecture in ARCHITECTURES.items():
        home = seed / "architectures" / name
        home.mkdir(parents=True, exist_ok=True)
        for number, role in enumerate(("target", "shadow")):
            inside, known, outside = (train.floats(x[rows]) for rows in parts[role])
            own, others, unseen = (y[rows] for rows in parts[role])
            asked, labels = np.concatenate([inside, outside]), np.concatenate([own, unseen])
            facts = {"labels": labels, "member": np.arange(len(labels)) < len(own)}
            options = {
                "classes": int(y.max()) + 1,
                "seed": number,
                "epochs": dataset.epochs,
                "architecture": architecture,
            }
            path = home / f"{role}.npz"
            if not path.is_file():
                model = networks.train(inside, own, **options)
                logits, kept = (train.says(model, rows) for rows in (asked, known))
                seen = torch.from_numpy(np.concatenate([logits[: len(inside)], kept]))
                truth = torch.arange(len(seen)) < len(inside)
                defender = memguard.train_defender(seen, truth, seed=number)
                guarded = memguard.guard(torch.from_numpy(logits), defender).numpy()
                np.savez(home / f"{role}-memguard.npz", logits=guarded, **facts)
                np.savez(path, logits=logits, **facts)
                print(f"{name}, {role}", flush=True)
            path = home / f"{role}-regularized.npz"
            if not path.is_file():
                how = {**train.DEFENCES["adversarial-regularization"], **options}
                model = networks.train_against_attacker(inside, own, known, others, **how)
                np.savez(path, logits=train.says(model, asked), **facts)
                print(f"{name}, {role}, regularized", flush=True)


def lacking(seed: Path, x: np.ndarray, y: np.ndarray, dataset: DataSet) -> None:
    with np.load(seed / "undefended" / "target.npz") as held:
        record, member = held["record"], held["member"]
    inside = np.flatnonzero(member)
    home = seed / "lacking"
    home.mkdir(parents=True, exist_ok=True)
    for turn in range(ROUNDS):
        order = np.random.default_rng(turn).permutation(inside)
        for number, part in enumerate(np.array_split(order, PARTS), turn * PARTS):
            path = home / f"{number}.npz"
            if path.is_file():
                continue
            has = member.copy()
            has[part] = False
            model = networks.train(
                train.floats(x[record[has]]),
                y[record[has]],
                classes=int(y.max()) + 1,
                seed=1000 + number,
                epochs=dataset.epochs,
            )
            logits = train.says(model, train.floats(x[record]))
            np.savez(path, logits=logits, member=has)
            print(f"without part {number + 1} of {ROUNDS * PARTS}", flush=True)


def main() -> None:
    given = train.arguments(__doc__.splitlines()[0]).parse_args()
    torch.set_num_threads(1)
    dataset, seed = DATASETS[given.dataset], given.work / "seed-0"
    try:
        x, y = dataset.read(given.data)
        same = {**train.identity(given.dataset, x, y), "schedule": works.ORDINARY}
        works.check(given.work, same)
        lacking(seed, x, y, dataset)
        if x.ndim == 2:
            of_architectures(seed, x, y, dataset)
    except CanaryError as error:
        raise SystemExit(f"variants.py: {error}") from None


if __name__ == "__main__":
    main()
