"""The one table: signals of models x samples, with member, label and group."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
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
    of_texts : bool
        Whether the samples are texts, which have no classes: one label and one class stand for
        all.
    """

    values: Mapping[str, NDArray[np.float64]]
    member: NDArray[np.bool_]
    label: NDArray[np.int64]
    classes: int
    group: NDArray[Any] | None = None
    source: str = "table"
    of_texts: bool = False

    def __post_init__(self) -> None:
        shapes = {value.shape for value in self.values.values()} | {self.member.shape}
        if len(shapes) != 1 or self.member.ndim != 2 or self.member.shape[1:] != self.label.shape:
            raise InputError(
                f"a table of shapes {sorted(shapes)} with {len(self.label)} labels",
                cure="give signals and members of shape (models, samples), and a label for each "
                "sample",
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

    def take(self, samples: NDArray[np.intp]) -> SignalTable:
        """The table of some of the samples, in that order."""
        return replace(
            self,
            values={name: value[:, samples] for name, value in self.values.items()},
            member=self.member[:, samples],
            label=self.label[samples],
            group=None if self.group is None else self.group[samples],
        )

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
                if "loss" in self.values and not self.of_texts
                else "name one of these",
                where=self.source,
            )
        return self.values[name]
