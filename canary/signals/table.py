"""The one table: signals of models x samples, with member, label and group."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from canary.errors import InputError
from canary.records.fields import brief

__all__ = ["SignalTable", "positions"]


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
    missing : mapping of str to str
        Models that were meant to be here and have no row, by name, and why: their training
        failed, or their numbers were NaN. A table has no holes: a model is there for all
        samples or for none.
    """

    values: Mapping[str, NDArray[np.float64]]
    member: NDArray[np.bool_]
    label: NDArray[np.int64]
    classes: int
    group: NDArray[Any] | None = None
    source: str = "table"
    missing: Mapping[str, str] = field(default_factory=dict)

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

    def select(
        self, *, models: ArrayLike | None = None, samples: ArrayLike | None = None
    ) -> SignalTable:
        """The table of some models and some samples, copied.

        Parameters
        ----------
        models, samples : array_like of int or of bool, optional
            Positions, or a flag for each; all unless given.

        Raises
        ------
        InputError
            If there is no such model or sample, or none is left.

        Examples
        --------
        >>> import numpy as np
        >>> values = {"loss": np.array([[0.1, 0.2], [0.3, 0.4]])}
        >>> table = SignalTable(values, np.eye(2) == 1, np.array([0, 1]), 2)
        >>> table.select(models=[1], samples=[True, False]).signal("loss")
        array([[0.3]])
        """
        rows = positions(models, self.models, "models", self.source)
        columns = positions(samples, self.samples, "samples", self.source)
        at = np.ix_(rows, columns)
        return replace(
            self,
            values={name: value[at] for name, value in self.values.items()},
            member=self.member[at],
            label=self.label[columns],
            group=None if self.group is None else self.group[columns],
        )


def positions(given: ArrayLike | None, size: int, what: str, where: str) -> NDArray[np.intp]:
    """Positions that exist, of the integers or flags that were given."""
    if given is None:
        return np.arange(size)
    chosen = np.asarray(given)
    if chosen.dtype == np.bool_ and chosen.shape == (size,):
        chosen = np.flatnonzero(chosen)
    whole = chosen.ndim == 1 and chosen.dtype.kind in "iu" and len(chosen) > 0
    if not whole or chosen.min() < 0 or chosen.max() >= size:
        raise InputError(
            f"{what} {brief(given)} of a table that has {size}",
            cure=f"give positions from 0 to {size - 1}, or {size} flags of which one is true",
            where=where,
        )
    return chosen.astype(np.intp)
