"""The one table: signals of models x samples, with member, label and group."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from canary.errors import InputError

__all__ = ["SignalTable"]


@dataclass(frozen=True, eq=False)
class SignalTable:
    """What models gave for samples.

    Parameters
    ----------
    values : mapping of str to ndarray of float64 of shape (models, samples)
        The signals, by name.
    member : ndarray of bool of shape (models, samples)
        Whether the model was trained on the sample.
    label : ndarray of int64 of shape (samples,)
        The true class of each sample, from 0.
    classes : int
        Number of classes: columns of the outputs, or of losses the largest label and one.
    group : ndarray of shape (samples,) or None
        Any further division of the samples, for evaluation by group.
    source : str
        Where it comes from, for messages and reports.
    outputs : ndarray of float32 of shape (models, samples, classes) or None
        Log-probabilities of all classes, in nats, where they were kept.
    """

    values: Mapping[str, NDArray[np.float64]]
    member: NDArray[np.bool_]
    label: NDArray[np.int64]
    classes: int
    group: NDArray[Any] | None = None
    source: str = "table"
    outputs: NDArray[np.float32] | None = None

    def __post_init__(self) -> None:
        shapes = {value.shape for value in self.values.values()} | {self.member.shape}
        if len(shapes) != 1 or self.member.ndim != 2 or self.member.shape[1:] != self.label.shape:
            raise InputError(
                f"a table of shapes {sorted(shapes)} with {len(self.label)} labels",
                cure="give signals and members of shape (models, samples), and a label for each "
                "sample",
                where=self.source,
            )
        if self.outputs is not None and self.outputs.shape[:2] != self.member.shape:
            raise InputError(
                f"outputs of shape {self.outputs.shape} for members of shape {self.member.shape}",
                cure="give outputs of shape (models, samples, classes)",
                where=self.source,
            )

    @property
    def models(self) -> int:
        """Number of models."""
        return len(self.member)

    @property
    def samples(self) -> int:
        """Number of samples."""
        return len(self.label)

    def signal(self, name: str) -> NDArray[np.float64]:
        """A signal, of shape (models, samples).

        Raises
        ------
        InputError
            If the table does not have it.
        """
        if name not in self.values:
            raise InputError(
                f"there is no signal {name!r}; there are {', '.join(self.values)}",
                cure="entropies and correctness need logits or probs, not losses"
                if "loss" in self.values
                else "name one of these",
                where=self.source,
            )
        return self.values[name]
