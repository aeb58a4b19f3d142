"""Samples through a classifier: batches as large as pay and fit, in the order of the input."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from canary.errors import InputError, ModelError, NotFiniteError
from canary.models.classifier import Classifier
from canary.models.facts import ROUNDING_NATS
from canary.records.progress import Advance
from canary.scoring.batch_loop import BatchLoop

T = TypeVar("T")

_START = 256
_BYTES = 2**28  # of samples in a batch, at most
_LIMIT = 4096  # samples, where it is not known how large they are
_TOLERANCE, _COARSE = 1e-3, 2e-2


def class_log_probs(
    model: Classifier,
    inputs: Any,
    *,
    batch_size: int | None = None,
    progress: Advance = lambda samples: None,
) -> Iterator[tuple[slice, NDArray[Any]]]:
    """Log-probabilities of the classes, by `in_batches`, with the place of each batch.

    Slices are taken of `inputs`.

    Raises
    ------
    NotFiniteError
        If a log-probability is NaN.
    ModelError
        If one is above 0, or the model gives another number of rows than it was given.
    """

    def run(part: slice) -> NDArray[Any]:
        values = model.log_probs(inputs[part])
        if values.ndim != 2 or len(values) != part.stop - part.start:
            problem = f"gave the shape {values.shape} for {part.stop - part.start} samples"
            cure = "give a row of classes for each sample"
            raise ModelError(problem, cure=cure, where=model.name)
        _check(values, part.start, model.name)
        return values

    each = getattr(inputs[:1], "nbytes", 0)
    return in_batches(
        run,
        len(inputs),
        batch_size=batch_size,
        limit=max(_BYTES // each, 1) if each else _LIMIT,
        device=model.device,
        progress=progress,
    )


def in_batches(
    run: Callable[[slice], T],
    samples: int,
    *,
    batch_size: int | None = None,
    limit: int = _LIMIT,
    device: str = "cpu",
    progress: Advance = lambda samples: None,
) -> Iterator[tuple[slice, T]]:
    """`run` on slices that follow each other, each half as large where memory runs out.

    The `batch_size` is found by trial unless given, up to `limit`. Where `run` computes, its
    `device`, says which clock serves. `progress` is told the number of samples just done. An
    OutOfMemory is raised if not even one sample fits.
    """
    if batch_size is not None and batch_size < 1:
        raise InputError(f"batch_size={batch_size}, at least 1 was expected", cure="leave it out")
    loop = BatchLoop(batch_size, start=_START, limit=limit, waited_for=device != "cpu")
    for part, done in loop.run(samples, lambda parts: [*map(run, parts)]):
        yield part, done
        progress(part.stop - part.start)


def _check(values: NDArray[Any], first: int, where: str) -> None:
    """Refuse what are no log-probabilities of all classes, and say of which sample first."""
    impossible = np.asarray(~(values <= ROUNDING_NATS).all(axis=1))  # NaN is not at most anything
    sums = np.exp(np.where(impossible[:, None], 0.0, values.astype(np.float64))).sum(axis=1)
    uneven = np.abs(sums - 1.0) > (_COARSE if values.dtype == np.float16 else _TOLERANCE)
    bad = impossible if impossible.any() else uneven
    if not bad.any():
        return
    sample = f"first for sample {first + int(bad.argmax())}"
    if np.isnan(values).any():
        cure = "check its training and the sample"
        raise NotFiniteError(f"gave NaN, {sample}", cure=cure, where=where)
    if impossible.any():
        cure = "give logarithms of probabilities"
        raise ModelError(f"gave a log-probability above 0, {sample}", cure=cure, where=where)
    raise ModelError(
        f"gave log-probabilities whose probabilities sum to {sums[bad.argmax()]:.4g}, {sample}",
        cure="give natural logarithms of probabilities: a log-softmax over the classes",
        where=where,
    )
