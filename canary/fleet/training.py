"""What a training function of a fleet is given, and what it may give back.

numpy crosses this seam; torch, where it is used, stays below it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True, eq=False)
class TrainingTask:
    """One model that shall be trained.

    Parameters
    ----------
    samples : ndarray of shape (samples, ...)
        All samples, those that this model shall not see included: it will be asked about
        all of them. They belong to all models and cannot be written to; `x` and
        ``samples.copy()`` can.
    labels : ndarray of int64 of shape (samples,), or of float of shape (samples, classes)
        Their classes; or what a target said of them (soft labels). Not to be written to
        either.
    rows : ndarray of int64
        The samples that this model shall be trained on, ascending.
    seed : int
        For whatever is random in training; another one for each model.
    number : int
        Of the model in its fleet, from 0.
    classes : int
    options : mapping
        What the fleet was given as options: plain data, a copy for each model.
    """

    samples: NDArray[Any]
    labels: NDArray[Any]
    rows: NDArray[np.int64]
    seed: int
    number: int
    classes: int
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def x(self) -> NDArray[Any]:
        """The samples to train on (a copy)."""
        return self.samples[self.rows]

    @property
    def y(self) -> NDArray[Any]:
        """Their labels (a copy)."""
        return self.labels[self.rows]


@dataclass(frozen=True, eq=False)
class Trained:
    """A model, as a training function may give it back.

    `predict` goes from samples to outputs, of the kind that the fleet was told; `weights` are what
    a checkpoint keeps.
    """

    predict: Callable[[NDArray[Any]], ArrayLike]
    weights: Mapping[str, NDArray[Any]] | None = None


Training = Callable[[TrainingTask], Any]
"""A training function. It gives back one of

- a `Trained`;
- a function from samples to outputs;
- a `torch.nn.Module`, which is called on tensors of samples, in evaluation mode;
- an array of outputs, one row for each of ``task.samples``.

It may have a method ``together``, from a list of tasks that share their samples to a list of
such results: models that are trained at once.
"""
