"""The one table: signals of models x samples, with member, label and group."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import count, islice
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from canary.errors import InputError
from canary.records.validation import brief
from canary.registry import name_cure
from canary.statistics.numbers import Shown, plural


@dataclass(frozen=True)
class Origin:
    """From which data and which training runs a table comes, by fingerprints.

    Parameters
    ----------
    data : str
        Of the samples and their labels.
    models : tuple of str
        Of each model of the table: configuration, split and seed of its training.
    target : str or None
        Of the model that these imitate, or leave a member of out.
    """

    data: str
    models: tuple[str, ...]
    target: str | None = None


@dataclass(frozen=True, eq=False, repr=False)
class SignalTable(Shown):
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
    ids : ndarray of shape (samples,) or None
        Your names of the samples.
    source : str
        Where it comes from, for messages and reports.
    missing : mapping of int to str
        Models without a row, by their number in the fleet, and why they gave no numbers.
    origin : Origin or None
        Fingerprints of data and models, where they are known.
    of_texts : bool
        Whether the samples are texts, which all have one label and one class.
    outputs : ndarray of float32 of shape (models, samples, classes) or None
        Log-probabilities of all classes, in nats, where they were kept.
    inputs : ndarray of shape (samples, ...) or None
        What the models were asked, where it is numbers: attacks check by it whether members and
        non-members differ without any model.
    numbers : tuple of int
        Of each row's model in its fleet; those that are not missing, in order, unless given.
    """

    values: Mapping[str, NDArray[np.float64]]
    member: NDArray[np.bool_]
    label: NDArray[np.int64]
    classes: int
    group: NDArray[Any] | None = None
    source: str = "table"
    missing: Mapping[int, str] = field(default_factory=dict)
    origin: Origin | None = None
    of_texts: bool = False
    outputs: NDArray[np.float32] | None = None
    inputs: NDArray[Any] | None = None
    numbers: tuple[int, ...] = ()
    ids: NDArray[Any] | None = None

    def summary(self) -> str:
        """How many samples and models, and which signals."""
        models = f" of {plural(self.models, 'model')}" if self.models > 1 else ""
        return (
            f"{plural(self.samples, 'sample')}{models}, {int(self.member.sum()):,} members; "
            f"signals: {', '.join(self.values)}"
        )

    def _table(self) -> dict[str, Any]:
        columns = {
            "model": np.repeat(self.numbers, self.samples),
            "sample": np.tile(np.arange(self.samples), self.models),
            "label": np.tile(self.label, self.models),
            "member": self.member.ravel(),
        }
        return columns | {name: value.ravel() for name, value in self.values.items()}

    def __post_init__(self) -> None:
        if not self.numbers:
            object.__setattr__(self, "numbers", numbers_there(self.models, self.missing))
        shapes = {value.shape for value in self.values.values()} | {self.member.shape}
        both = sorted({*self.numbers} & self.missing.keys())
        if len(shapes) != 1 or self.member.ndim != 2 or self.member.shape[1:] != self.label.shape:
            problem = f"a table of shapes {sorted(shapes)} with {len(self.label)} labels"
            cure = (
                "give signals and members of shape (models, samples), and a label for each sample"
            )
        elif len(self.numbers) != self.models:
            problem = f"{len(self.numbers)} numbers of {self.models} models"
            cure = "give the number of each row's model in its fleet"
        elif both:
            problem = f"model {both[0]} has a row, and is missing"
            cure = "omit it by select(models=...), or give the numbers of the rows"
        elif self.outputs is not None and self.outputs.shape[:2] != self.member.shape:
            problem = (
                f"outputs of shape {self.outputs.shape} for members of shape {self.member.shape}"
            )
            cure = "give outputs of shape (models, samples, classes)"
        else:
            return
        raise InputError(problem, cure=cure, where=self.source)

    @property
    def models(self) -> int:
        """Number of models."""
        return len(self.member)

    @property
    def samples(self) -> int:
        """Number of samples."""
        return len(self.label)

    def signal(self, name: str) -> NDArray[np.float64]:
        """A signal, of shape (models, samples); an `InputError` if the table does not have it."""
        if name not in self.values:
            why = "; entropies and correctness need logits or probs, not losses"
            cure = name_cure(name, self.values)
            losses_alone = "loss" in self.values and not self.of_texts
            raise InputError(
                f"the table has no signal {brief(name)}",
                cure=f"{cure}{why if losses_alone else ''}",
                where=self.source,
            )
        return self.values[name]

    def select(
        self, *, models: ArrayLike | None = None, samples: ArrayLike | None = None
    ) -> SignalTable:
        """The table of some models and some samples, copied; what is missing stays so.

        `models` and `samples` are positions, or a flag for each; all unless given. An `InputError`
        if there is no such model or sample, or none is left.

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
        both, origin = np.ix_(rows, columns), self.origin
        if origin is not None:
            data = origin.data  # other data, unless all samples are there
            if not np.array_equal(columns, np.arange(self.samples)):
                data = sha256(data.encode() + columns.astype(np.int64).tobytes()).hexdigest()
            origin = Origin(data, tuple(origin.models[row] for row in rows), origin.target)
        return replace(
            self,
            origin=origin,
            values={name: value[both] for name, value in self.values.items()},
            member=self.member[both],
            numbers=tuple(self.numbers[row] for row in rows),
            label=self.label[columns],
            group=None if self.group is None else self.group[columns],
            ids=None if self.ids is None else self.ids[columns],
            outputs=None if self.outputs is None else self.outputs[both],
            inputs=None if self.inputs is None else self.inputs[columns],
        )


def numbers_there(models: int, missing: Mapping[int, str]) -> tuple[int, ...]:
    """The numbers in a fleet of so many models that are not missing, the first ones."""
    return tuple(islice((number for number in count() if number not in missing), models))


def check_tied(references: SignalTable, target: SignalTable, *, row: int = 0) -> None:
    """Refuse reference models that belong to other data than the target's, or to another target.

    Parameters
    ----------
    references, target : SignalTable
        Tables without a known origin pass.
    row : int
        The model of `target` in question.

    Raises
    ------
    InputError
        If both origins are known and differ.
    """
    ours, theirs = references.origin, target.origin
    if ours is None or theirs is None:
        return
    if ours.data != theirs.data:
        raise InputError(
            f"the reference models are of other data (fingerprint {ours.data[:12]}) than the "
            f"target ({theirs.data[:12]})",
            cure="train them on the samples of the target, in the same order",
            where=references.source,
        )
    if ours.target is not None and ours.target != theirs.models[row]:
        raise InputError(
            f"the reference models were made for the target {ours.target[:12]}, not for "
            f"{theirs.models[row][:12]}",
            cure="make them anew for this target, or attack the one that they were made for",
            where=references.source,
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
        problem = f"{what} {brief(given)} of a table that has {size}"
        cure = f"give positions from 0 to {size - 1}, or {size} flags of which one is true"
        raise InputError(problem, cure=cure, where=where)
    return chosen.astype(np.intp)


def table_facts(table: SignalTable) -> dict[str, Any]:
    """What a table holds, as plain data."""
    right = table.values.get("correctness")
    kinds = {"members": table.member, "nonmembers": ~table.member}
    accuracies = {
        f"accuracy_on_{name}": None
        if right is None or not flags.any()
        else float(right[flags].mean())
        for name, flags in kinds.items()
    }
    return {
        "source": table.source,
        "models": table.models,
        "samples": table.samples,
        **{name: int(flags.sum()) for name, flags in kinds.items()},
        "classes": table.classes,
        **accuracies,
    }
