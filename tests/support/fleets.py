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


def fatal(task):
    """The process of one model always ends itself."""
    if task.number == task.options["kills"]:
        os._exit(1)
    return means(task)


def slow(task):
    """As `counted`, and takes a moment."""
    time.sleep(task.options["seconds"])
    return counted(task)


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


def hopeless(task):
    raise ValueError("no")


def small_net():
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, CLASSES))


def dropping_net():
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.5))


def norming_net():
    return torch.nn.Sequential(torch.nn.Linear(4, CLASSES), torch.nn.BatchNorm1d(CLASSES))


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
