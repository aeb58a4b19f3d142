"""The fleets of a configuration: targets and references, distilled models, leave-one-out models."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import networks
import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file

from canary.fleet.running import Fleet
from canary.fleet.splits import Split, halves, leave_one_out, soft_labelled, subsets
from canary.models.torch_training import TorchTraining
from canary.signals.table import SignalTable
from canary.workers.here import Here

SIGNALS = ("loss", "logit-confidence", "confidence", "correctness")
Data = tuple[NDArray[np.float32], NDArray[np.int64]]


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


CONFIGURATIONS = (
    Configuration(
        name="location30",
        train=TorchTraining(
            build=networks.for_location30, epochs=10, batch_size=32, learning_rate=0.1, device="cpu"
        ),
        members=1000,
        population=2500,
        models=64,
        targets=3,
        distilled=32,
        points=50,
        repeats=16,
        at_once=32,
    ),
    Configuration(
        name="mnist-1",
        train=TorchTraining(
            build=networks.for_mnist, epochs=5, batch_size=32, learning_rate=0.02, device="cpu"
        ),
        members=2500,
        population=3500,
        models=16,
        targets=3,
        distilled=12,
    ),
    Configuration(
        name="mnist-2",
        train=TorchTraining(
            build=networks.for_mnist, epochs=4, batch_size=32, learning_rate=0.02, device="cpu"
        ),
        members=5000,
        population=5500,
        models=16,
        targets=1,
        distilled=8,
    ),
)


def read_mnist(folder: Path) -> Data:
    """60,000 images of 28 x 28 from 0 to 1, and their digits."""

    def numbers(name: str, header: int) -> NDArray[np.uint8]:
        with gzip.open(folder / f"train-{name}-ubyte.gz") as held:
            return np.frombuffer(held.read(), np.uint8, offset=header)

    images = numbers("images-idx3", 16).reshape(-1, 28, 28)
    return images.astype(np.float32) / 255, numbers("labels-idx1", 8).astype(np.int64)


def read_location30(folder: Path) -> Data:
    """5,010 records of 446 zeros and ones, and their classes from 0."""
    with np.load(folder / "location30.npz") as held:
        bits = np.unpackbits(held["bits"], axis=1)[:, : int(held["n_features"])]
        return bits.astype(np.float32), held["labels"].astype(np.int64) - 1


def drawn(data: Data, configuration: Configuration) -> Data:
    """The pool and the population behind it, drawn at random."""
    size = len(configuration.pool) + configuration.population
    rows = np.random.default_rng(0).permutation(len(data[1]))[:size]
    return data[0][rows], data[1][rows]


def tables(
    data: Data, configuration: Configuration, work: Path, told: Callable[[str], None] = print
) -> Tables:
    """Train what is not yet there, and gather what all models say of the pool."""
    pool = configuration.pool

    def run(kind: str, split: Split, count: int, seed: int) -> tuple[Fleet, Path, SignalTable]:
        fleet = Fleet(
            configuration.train, data, split, count, seed,
            outputs="logits", signals=SIGNALS, checkpoints=kind == "models",
        )  # fmt: skip
        folder = work / f"{configuration.name}-{kind}"
        workers = Here(at_once=configuration.at_once)
        table = fleet.run(
            folder=folder,
            workers=workers,
            progress=lambda done, of: told(f"{folder.name}, seed {seed}: {done} of {of}"),
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
