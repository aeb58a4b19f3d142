"""Training functions of fleets, and data for them; importable, as other processes ask."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import numpy as np
import torch

SAMPLES, CLASSES = 60, 3


def made(seed=0, samples=SAMPLES):
    """Samples of three classes that overlap."""
    rng = np.random.default_rng(seed)
    y = np.arange(samples) % CLASSES
    return rng.normal(size=(samples, 4)) + y[:, None], y


def means(task):
    """Logits by the distance from the mean of each class; no torch, no randomness."""
    centres = np.stack([task.x[task.y == label].mean(axis=0) for label in range(CLASSES)])
    return lambda x: -((x[:, None, :] - centres) ** 2).sum(axis=2)


def seeded(task):
    """Logits that follow from the seed alone."""
    return np.random.default_rng(task.seed).normal(size=(len(task.samples), CLASSES))


def counted(task):
    """As `means`, and leaves a file for each training in the folder of the options."""
    Path(task.options["folder"], f"{task.number}-{time.monotonic_ns()}").touch()
    return means(task)


def deadly(task):
    """As `counted`; the process of one model ends itself, once, as by SIGKILL."""
    mark = Path(task.options["folder"], "killed")
    if task.number == task.options["kills"] and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return counted(task)


def deadly_write(shared, jobs):
    """Writes shards with canaries; two of them end their process in the middle, once."""
    from canary.corpus.many_injected import write
    from canary.corpus.placing import Placing

    def dying(placing, guests, out):
        out.write(b"half of a record")
        out.flush()
        os.kill(os.getpid(), signal.SIGKILL)

    (job,) = jobs
    target = Path(job["target"])
    mark = target.parent.with_name(f"killed-{target.stem}")
    if target.stem in ("2", "5") and not mark.exists():
        mark.touch()
        Placing.put_in = dying
    return write(shared, jobs)


def fatal(task):
    """The process of one model always ends itself."""
    if task.number == task.options["kills"]:
        os._exit(1)
    return means(task)


def faulty(task):
    """Goes wrong in a way of its own for some models."""
    if task.number == 1:
        return None
    if task.number == 2:
        raise RuntimeError("the loss went up\nand up")
    if task.number == 3:
        return np.full((len(task.samples), CLASSES), np.nan)
    if task.number == 4:
        return np.zeros((len(task.samples) - 1, CLASSES))
    return means(task)


def unusable(task):
    """Gives back what is no model, in a way of its own for each."""
    if task.number == 0:
        return "done"
    if task.number == 1:
        return {"accuracy": 1.0}
    if task.number == 2:
        return lambda x: None
    if task.number == 3:
        raise SystemExit(2)
    if task.number == 4:
        return np.zeros(len(task.samples))
    return means(task)


def hopeless(task):
    raise ValueError("no")


def small_net():
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, CLASSES))


def dropping_net():
    """One dropout in two places, and one of its own."""
    twice = torch.nn.Dropout(0.3)
    return torch.nn.Sequential(
        torch.nn.Linear(4, 8), twice, torch.nn.Linear(8, 8), twice,
        torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Dropout(0.5)), torch.nn.Linear(8, CLASSES),
    )  # fmt: skip


def norming_net():
    return torch.nn.Sequential(
        torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, CLASSES)
    )


class Images(torch.nn.Module):
    """Convolutions with batch norm and dropped channels."""

    def __init__(self):
        super().__init__()
        self.first = torch.nn.Conv1d(1, 4, 2)
        self.norm = torch.nn.BatchNorm1d(4)
        self.drop = torch.nn.Dropout1d(0.4)
        self.last = torch.nn.Linear(12, CLASSES)

    def forward(self, x):
        return self.last(self.drop(self.norm(self.first(x[:, None]))).relu().flatten(1))


class Tied(torch.nn.Module):
    """One matrix under two names, and one that is not trained."""

    def __init__(self):
        super().__init__()
        self.frozen = torch.nn.Linear(4, 4).requires_grad_(False)
        self.one = torch.nn.Linear(4, 4, bias=False)
        self.two = torch.nn.Linear(4, 4, bias=False)
        self.two.weight = self.one.weight
        self.last = torch.nn.Linear(4, CLASSES)

    def forward(self, x):
        return self.last(self.two(self.one(self.frozen(x)).tanh()))


class Centred(torch.nn.Module):
    """A norm of one's own, whose state is replaced and not changed in place."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(4))
        self.last = torch.nn.Linear(4, CLASSES)

    def forward(self, x):
        if self.training:
            self.mean = 0.9 * self.mean + 0.1 * x.mean(0).detach()
            return self.last(x - x.mean(0))
        return self.last(x - self.mean)


class Noise(torch.nn.Module):
    """Adds noise in training, drawn by whatever it is given."""

    def __init__(self, draw):
        super().__init__()
        self.draw = draw
        self.last = torch.nn.Linear(4, CLASSES)

    def forward(self, x):
        return self.last(x + float(self.draw()) if self.training else x)


def noisy_net():
    return Noise(lambda: torch.rand(()))


class Transposed(torch.nn.Module):
    """Drops where the samples are not in the first dimension."""

    def __init__(self, drop):
        super().__init__()
        self.drop = drop
        self.last = torch.nn.Linear(4, CLASSES)

    def forward(self, x):
        return self.last(self.drop(x.T).T)


def halved(step, steps):
    """A quarter of the learning rate in the last half."""
    return 1.0 if step < steps / 2 else 0.25


def warmed(step, steps):
    return (step + 1) / steps


def broken_schedule(step, steps):
    return float("nan")


def centring(task):
    """As `means`, of samples that it changes in place: the caller's, if nobody minds."""
    samples = task.samples
    samples -= samples.mean(axis=0)
    return means(task)


def relabelling(task):
    """As `means`, of labels that it changes in place."""
    task.labels[task.rows] = 0
    return means(task)


def own_things(task):
    """Changes in place whatever is the model's own, and what it is asked about."""
    task.options["rates"].append(task.number)
    np.random.default_rng(task.seed).shuffle(task.rows)
    assert len(task.options["rates"]) == 1
    model = means(task)

    def predict(x):
        x *= 2
        return model(x / 2)

    return predict


def noisy(task):
    """As `means`, with noise of its own."""
    noise = np.random.default_rng(task.seed).normal(size=(len(task.samples), CLASSES))
    return means(task)(task.samples) + noise


def partly(task):
    """As `noisy`; models 1 and 4 fail."""
    if task.number in (1, 4):
        raise ValueError("no such luck")
    return noisy(task)
