"""Samples through a classifier: batches as large as pay and fit, in the order of the input."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from canary.errors import InputError, ModelError, NotFiniteError, OutOfMemory
from canary.models.classifier import Classifier
from canary.models.language_model import ROUNDING_NATS
from canary.scoring.tuner import BatchTuner

__all__ = ["class_log_probs", "in_batches"]

Progress = Callable[[int], object]
"""Called with the number of samples that were just done."""

T = TypeVar("T")

_START = 256
_LIMIT = 4096
_TOLERANCE, _COARSE = 1e-3, 2e-2


def class_log_probs(
    model: Classifier,
    inputs: Any,
    *,
    batch_size: int | None = None,
    progress: Progress = lambda samples: None,
) -> Iterator[tuple[slice, NDArray[Any]]]:
    """Log-probabilities of the classes, batch by batch, with the place of each batch.

    Parameters
    ----------
    model : Classifier
    inputs : sequence of samples
        Slices are taken of it.
    batch_size : int, optional
        Found by trial unless given; smaller where memory runs out.
    progress : callable

    Raises
    ------
    NotFiniteError
        If a log-probability is NaN.
    ModelError
        If one is above 0, or the model gives another number of rows than it was given.
    OutOfMemory
        If not even one sample fits.
    """

    def run(part: slice) -> NDArray[Any]:
        values = model.log_probs(inputs[part])
        if values.ndim != 2 or len(values) != part.stop - part.start:
            raise ModelError(
                f"gave the shape {values.shape} for {part.stop - part.start} samples",
                cure="give a row of classes for each sample",
                where=model.name,
            )
        _check(values, part.start, model.name)
        _check_sums(values, part.start, model.name)
        return values

    return in_batches(
        run, len(inputs), batch_size=batch_size, device=model.device, progress=progress
    )


def in_batches(
    run: Callable[[slice], T],
    samples: int,
    *,
    batch_size: int | None = None,
    device: str = "cpu",
    progress: Progress = lambda samples: None,
) -> Iterator[tuple[slice, T]]:
    """`run` on slices that follow each other, each half as large where memory runs out.

    Parameters
    ----------
    run : callable
    samples : int
    batch_size : int, optional
        Found by trial unless given.
    device : str
        Where `run` computes; says which clock serves.
    progress : callable

    Raises
    ------
    OutOfMemory
        If not even one sample fits.
    """
    if batch_size is not None and batch_size < 1:
        raise InputError(f"batch_size={batch_size}, at least 1 was expected", cure="leave it out")
    clock = time.thread_time if device == "cpu" else time.perf_counter
    tuner = (
        BatchTuner(start=_START, limit=_LIMIT)
        if batch_size is None
        else BatchTuner(start=batch_size, fixed=True)
    )
    at = 0
    while at < samples:
        part = slice(at, min(at + tuner.size, samples))
        began, count = clock(), part.stop - at
        try:
            done = run(part)
        except OutOfMemory:
            if count == 1:
                raise
            tuner.shrink(count)
            continue
        tuner.observe(count, clock() - began)
        yield part, done
        at = part.stop
        progress(count)


def _check(values: NDArray[Any], first: int, where: str) -> None:
    if (values <= ROUNDING_NATS).all():
        return
    bad = ~(values <= ROUNDING_NATS).all(axis=1)
    sample = first + int(np.flatnonzero(bad)[0])
    if np.isnan(values).any():
        raise NotFiniteError(
            f"gave NaN, first for sample {sample}",
            cure="check its training and the sample",
            where=where,
        )
    raise ModelError(
        f"gave a log-probability above 0, first for sample {sample}",
        cure="give logarithms of probabilities",
        where=where,
    )


def _check_sums(values: NDArray[Any], first: int, where: str) -> None:
    sums = np.exp(values.astype(np.float64)).sum(axis=1)
    bad = np.abs(sums - 1.0) > (_COARSE if values.dtype == np.float16 else _TOLERANCE)
    if bad.any():
        at = int(bad.argmax())
        raise ModelError(
            f"gave log-probabilities whose probabilities sum to {sums[at]:.4g}, first for sample "
            f"{first + at}",
            cure="give natural logarithms of probabilities: a log-softmax over the classes",
            where=where,
        )
