"""The fleets of a configuration: targets and references, distilled models, leave-one-out models."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import networks
import numpy as np
import torch
from data import Data
from numpy.typing import NDArray
from safetensors.torch import load_file

from canary.errors import InputError
from canary.fleet.running import Fleet
from canary.fleet.splits import Split, halves, leave_one_out, soft_labelled, subsets
from canary.fleet.torch_training import TorchTraining
from canary.signals.signal_table import SignalTable
from canary.workers.local import Here
from canary.workers.processes import Processes

SIGNALS = ("loss", "logit-confidence", "confidence", "correctness")


@dataclass(frozen=True, kw_only=True)
class Configuration:
    """What is trained: sizes, counts of models, and how.

    Parameters
    ----------
    members : int
        Samples of a model. Targets are trained on halves of a pool of twice as many.
    population : int
        Samples beside the pool, which distilled models learn.
    models, targets, distilled : int
        Models on halves; how many of them attack D is tried on; distilled models for each.
    points, repeats : int
        Members left out of the first target, and models without each of them.
    at_once : int
        Models that are trained in one.
    """

    name: str
    train: TorchTraining
    members: int
    population: int
    models: int
    targets: int
    distilled: int
    points: int = 0
    repeats: int = 0
    at_once: int = 1

    @property
    def pool(self) -> NDArray[np.int64]:
        """The samples that may be members, and are attacked."""
        return np.arange(2 * self.members)


@dataclass(frozen=True)
class Tables:
    """What the models say of the pool.

    Parameters
    ----------
    main : SignalTable
        Targets and references; every sample is in half of them.
    distilled : tuple of SignalTable
        Of the first targets, for attack D.
    without : SignalTable or None
        Models trained on all members of the first target but one, for attack L.
    """

    main: SignalTable
    distilled: tuple[SignalTable, ...]
    without: SignalTable | None


RECORDS = TorchTraining(
    build=networks.for_location30, epochs=10, batch_size=32, learning_rate=0.1, device="cpu"
)
ALEXNET = TorchTraining(
    build=networks.for_cifar10,
    epochs=28,
    batch_size=50,
    optimizer="adam",
    learning_rate=5e-4,
    weight_decay=1e-3,
    device="cpu",
)
VGG = replace(ALEXNET, build=networks.vgg_for_cifar10, epochs=30, learning_rate=1e-3)
PURCHASES = TorchTraining(
    build=networks.for_purchase100, epochs=30, batch_size=32, learning_rate=0.02, device="cpu"
)


def digits(epochs: int) -> TorchTraining:
    return TorchTraining(
        build=networks.for_mnist, epochs=epochs, batch_size=32, learning_rate=0.02, device="cpu"
    )


# fmt: off
CONFIGURATIONS = (
    Configuration(
        name="location30", train=RECORDS, members=1000, population=2500,
        models=64, targets=3, distilled=32, points=50, repeats=16, at_once=32,
    ),
    Configuration(
        name="mnist-1", train=digits(5), members=2500, population=3500,
        models=64, targets=3, distilled=32,
    ),
    Configuration(
        name="mnist-2", train=digits(4), members=5000, population=5500,
        models=64, targets=3, distilled=8,
    ),
    Configuration(
        name="cifar10", train=ALEXNET, members=1000, population=2000,
        models=16, targets=2, distilled=8,
    ),
    Configuration(
        name="cifar10-1", train=ALEXNET, members=2500, population=5000,
        models=64, targets=1, distilled=32,
    ),
    Configuration(
        name="cifar10-vgg", train=VGG, members=2500, population=5000,
        models=32, targets=1, distilled=30,
    ),
    Configuration(
        name="purchase100-1", train=PURCHASES, members=2500, population=5000,
        models=64, targets=3, distilled=32, at_once=16,
    ),
    Configuration(
        name="purchase100-2", train=PURCHASES, members=5000, population=10000,
        models=64, targets=3, distilled=32, points=50, repeats=16, at_once=16,
    ),
    Configuration(
        name="purchase100-3", train=PURCHASES, members=10000, population=20000,
        models=64, targets=3, distilled=32, at_once=16,
    ),
    Configuration(
        name="purchase100-4", train=replace(PURCHASES, clip=2.0), members=10000,
        population=20000, models=32, targets=3, distilled=30, at_once=16,
    ),
)
# fmt: on
STANDARD = ("location30", "mnist-1", "mnist-2")
"""That need minutes and data sets that are small; the others take hours or files to name."""

LEAST = 24
"""Samples of each class in the pool, and in the population: some model would lack a rarer one."""


def drawn(data: Data, configuration: Configuration) -> Data:
    """The pool and the population behind it, drawn at random."""
    x, labels = data
    if labels.shape != (len(x),) or (labels < 0).any():
        raise InputError(
            f"{len(x):,} samples, and labels of shape {labels.shape} from {labels.min(initial=0)}",
            cure="give both files of one data set, as they were published",
            where=configuration.name,
        )
    sizes = len(configuration.pool), configuration.population
    if len(labels) < sum(sizes):
        raise InputError(
            f"{len(labels):,} samples, and {configuration.name} draws {sum(sizes):,}",
            cure="give the whole data set, or change the sizes in training.py",
        )
    order = np.random.default_rng(0).permutation(len(labels))
    pool, population, rest = np.split(order, np.cumsum(sizes))
    pool, rest = topped_up(pool, rest, labels)
    population, _ = topped_up(population, rest, labels)
    rows = np.concatenate([pool, population])
    return x[rows].astype(np.float32), labels[rows]


def topped_up(
    part: NDArray[np.int64], rest: NDArray[np.int64], labels: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The same samples, some of the commonest class traded for those of rare ones."""
    for label in np.unique(labels):
        lacking = max(LEAST - int((labels[part] == label).sum()), 0)
        new = rest[labels[rest] == label][:lacking]
        common = np.flatnonzero(labels[part] == np.bincount(labels[part]).argmax())
        part = np.concatenate([np.delete(part, common[: len(new)]), new])
        rest = np.setdiff1d(rest, new, assume_unique=True)
    return part, rest


def tables(
    data: Data,
    configuration: Configuration,
    work: Path,
    told: Callable[[str], None] = print,
    *,
    processes: int = 1,
) -> Tables:
    """Train what is not yet there, and gather what all models say of the pool.

    One process trains `configuration.at_once` models together. Of several `processes`, each
    trains one model at a time.
    """
    pool = configuration.pool
    workers = Here(at_once=configuration.at_once) if processes == 1 else Processes(count=processes)

    def run(kind: str, split: Split, count: int, seed: int) -> tuple[Fleet, Path, SignalTable]:
        fleet = Fleet(
            configuration.train, data, split, count, seed,
            outputs="logits", signals=SIGNALS, checkpoints=kind == "models",
        )  # fmt: skip
        folder = work / f"{configuration.name}-{kind}"
        table = fleet.run(
            folder=folder,
            workers=workers,
            progress=lambda name, models, unit: (
                lambda done: told(f"{folder.name}, seed {seed}: {done} more of {models} {unit}")
            ),
        )
        return fleet, folder, table.select(samples=pool)

    fleet, folder, main = run("models", halves(among=pool), configuration.models, 0)
    assert main.origin is not None
    prints = main.origin.models
    population = np.arange(len(pool), len(data[1]))
    distilled = []
    for target in range(configuration.targets):
        network = configuration.train.build()
        network.load_state_dict(load_file(fleet.checkpoint(folder, target)))
        said = networks.probabilities(network, torch.from_numpy(data[0])).numpy()
        split = soft_labelled(
            subsets(configuration.members, among=population), said, target=prints[target]
        )
        distilled.append(run("distilled", split, configuration.distilled, 1 + target)[2])
    without = None
    if configuration.points:
        member = np.zeros(len(data[1]), np.bool_)
        member[pool] = main.member[0]
        points = np.random.default_rng(1).choice(
            np.flatnonzero(member), configuration.points, replace=False
        )
        split = leave_one_out(points, member=member, target=prints[0])
        without = run("without", split, configuration.points * configuration.repeats, 99)[2]
    return Tables(main, tuple(distilled), without)


def learned(found: Tables) -> tuple[Tables, int]:
    """Without the models whose training failed, and how many they are.

    Such a model is right on hardly more of the pool than who always names the commonest class. As
    a target it shows nothing, and as a reference it has nearly one loss for all. A target none of
    whose distilled models learned is left out, too, and is no reference either.
    """

    def alive(table: SignalTable) -> NDArray[np.bool_]:
        chance = np.bincount(table.label).max() / table.samples
        return np.asarray(table.signal("correctness").mean(axis=1) > chance + 0.05)

    main = alive(found.main)
    distilled = [
        (one, alive(one)) for one, kept in zip(found.distilled, main, strict=False) if kept
    ]
    failed = int((~main).sum()) + sum(int((~kept).sum()) for _, kept in distilled)
    targets = main[: len(found.distilled)]
    targets[targets] = [kept.any() for _, kept in distilled]
    if not main.any():
        raise InputError(
            "no model learned", cure="look at the labels, and at rate and epochs in training.py"
        )
    return replace(
        found,
        main=found.main.select(models=main),
        distilled=tuple(one.select(models=kept) for one, kept in distilled if kept.any()),
        without=found.without if main[0] else None,
    ), failed
