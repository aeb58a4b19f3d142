"""Was one model given as two? By what it said of the samples, to the last bit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from canary.errors import InputError
from canary.signals.table import SignalTable
from canary.statistics.numbers import plural

__all__ = [
    "Repeat",
    "SharedRows",
    "check_references",
    "check_two_models",
    "repeated_models",
    "shared_rows",
]

_GRADED = 8
"""Different losses, neither 0 nor infinite, that two models do not share at all samples."""

_SURE = 1e-3
"""Chance of so many rows in both files, if they repeat as those within the files do."""

_MAY_BE_ONE = {("query", "target"), ("target", "retrained"), ("calibration", "retrained")}


@dataclass(frozen=True)
class Repeat:
    """Two models with the same losses.

    Parameters
    ----------
    first, second : (str, int)
        The place of each, and its number there.
    certain : bool
        Whether there are so many different losses that they are one model. Hard labels, or
        probabilities that all round to 1, may be equal for two.
    """

    first: tuple[str, int]
    second: tuple[str, int]
    certain: bool


def repeated_models(losses: Mapping[str, Iterable[NDArray[np.float64]]]) -> list[Repeat]:
    """Models that stand twice in one place, or in two that have to differ.

    Parameters
    ----------
    losses : mapping of str to float64 arrays of shape (samples,), one for each model
        Of query, target, calibration and retrained models, on the same samples. A target
        may be one of the query models or of the retrained ones: a control.

    Notes
    -----
    O(models samples).
    """
    known: dict[bytes, list[tuple[str, int]]] = {}
    found = []
    for name, rows in losses.items():
        for at, row in enumerate(rows):
            earlier = known.setdefault(sha256(row.tobytes()).digest(), [])
            clash = [place for place in earlier if (place[0], name) not in _MAY_BE_ONE]
            if clash:
                different = np.unique(row[(row > 0) & np.isfinite(row)])
                found.append(Repeat(clash[0], (name, at), len(different) >= _GRADED))
            earlier.append((name, at))
    return found


def check_references(
    table: SignalTable,
    targets: NDArray[np.intp],
    shadow: SignalTable | None,
    references: NDArray[np.intp],
) -> tuple[str, ...]:
    """What a reader has to know of references that say what a target says.

    Parameters
    ----------
    table, targets
        The models that are attacked: rows of a table.
    shadow, references
        The models that they are compared with: rows of a table of shadow models or, if that is
        None, of `table`, where a target leaves itself out.

    Returns
    -------
    tuple of str
        A note where a reference has the losses of a target and those are too few different
        ones to tell whether it is the target. A model that gives all samples one loss tells
        nothing of members, whoever it is.

    Raises
    ------
    InputError
        If a target is among the references: by its fingerprint, or because they say the same
        of every sample. Its loss is then compared with itself where it is a nonmember, and not
        where it is a member, and an attack would find something in noise.

    Notes
    -----
    O(models samples).
    """
    same, source = shadow is None, table if shadow is None else shadow
    if table.origin is not None and source.origin is not None:
        ours = [table.origin.models[row] for row in targets]
        rows = [row for row in references if not (same and row in targets)]
        for row in rows:
            if source.origin.models[row] in ours:
                target = targets[ours.index(source.origin.models[row])]
                _refuse(int(row), int(target), source, "by its fingerprint")
    if table.samples != source.samples:
        return ()
    theirs, loss = source.signal("loss"), table.signal("loss")
    others = references[~np.isin(references, targets)] if same else references
    found = repeated_models(
        {"target": (loss[row] for row in targets), "reference": (theirs[row] for row in others)}
    )
    doubted = 0
    for one in found:
        if one.first[0] != "target" or (one.second[0] == "target" and not same):
            continue
        place = targets if one.second[0] == "target" else others
        row, target = int(place[one.second[1]]), int(targets[one.first[1]])
        if one.certain:
            _refuse(row, target, source, "it says the same of every sample")
        doubted += bool(loss[target].min() < loss[target].max())
    if not doubted:
        return ()
    return (
        f"{plural(doubted, 'reference')} said of every sample what a target said, in too few "
        "different losses to tell whether they are that target: if they are, an attack finds "
        "something in noise. Leave them out, or give probabilities in place of labels",
    )


def _refuse(row: int, target: int, source: SignalTable, why: str) -> None:
    raise InputError(
        f"model {row} of the references and model {target} of the targets are one model ({why}): "
        "an attack would compare the target with itself, and learn the flags it is judged by",
        cure="leave it out, by references= or table.select(models=...)",
        where=source.source,
    )


@dataclass(frozen=True)
class SharedRows:
    """Samples of target and shadow with the same outputs and label.

    Parameters
    ----------
    shared : int
        Rows that stand once in the target and once in the shadow.
    target, shadow : int
        Rows that stand once in the one, and in the other.
    sure : bool
        Whether so many are not by chance: as rows repeat within either, fewer would stand
        in both.
    """

    shared: int
    target: int
    shadow: int
    sure: bool

    @property
    def one_model(self) -> bool:
        """Whether most rows of one of the two are in the other."""
        return self.sure and 2 * self.shared > min(self.target, self.shadow)


_KNOWN: WeakKeyDictionary[SignalTable, WeakKeyDictionary[SignalTable, dict[int, SharedRows]]] = (
    WeakKeyDictionary()
)


def check_two_models(target: SignalTable, shadow: SignalTable, *, row: int = 0) -> tuple[str, ...]:
    """What a reader has to know of samples that target and shadow share.

    Parameters
    ----------
    target, shadow : SignalTable
    row : int
        The model of `target` that is attacked.

    Raises
    ------
    InputError
        If most samples of one are in the other, as the same model said of them: an attack
        would learn the flags that it is judged by.
    """
    found = shared_rows(target, shadow, row=row)
    if found.one_model:
        raise InputError(
            f"{plural(found.shared, 'sample')} of the shadow have the outputs and the label of "
            f"samples of the target, of {found.target:,} and {found.shadow:,} that could: they "
            "are of one model, and an attack would learn the answers that it is asked for",
            cure="give outputs of another model, trained on other data, as the shadow",
            where=shadow.source,
        )
    if not found.sure:
        return ()
    return (
        f"{plural(found.shared, 'sample')} of the shadow have the outputs and the label of samples "
        "of the target, as if one model had said them: of these the attacks know the answer. "
        "Leave them out of one of the two",
    )


def shared_rows(target: SignalTable, shadow: SignalTable, *, row: int = 0) -> SharedRows:
    """How many samples of a shadow have the outputs of samples of the target.

    Rows are compared by all signals that both tables have, and the label. Two models seldom
    say the same to the last bit, but they do where probabilities are 0 and 1, constant, or
    rounded, and samples of equal features repeat in a file. So only rows count that stand
    once in their own file. And of rows that stand just twice in both files together, those
    that stand once in each should be no more than the two files' sizes make of them by
    chance: ``2 n m / ((n + m)(n + m - 1))``, a binomial test.

    Parameters
    ----------
    target, shadow : SignalTable
    row : int

    Notes
    -----
    O(n log n) for n samples of both; remembered for the pair of tables while they live.
    """
    known = _KNOWN.setdefault(target, WeakKeyDictionary()).setdefault(shadow, {})
    if row not in known:
        known[row] = _compared(target, shadow, row)
    return known[row]


def _compared(target: SignalTable, shadow: SignalTable, row: int) -> SharedRows:
    from scipy.special import bdtrc

    names = sorted(set(target.values) & set(shadow.values))
    ours = _marks([target.values[name][row] for name in names], target.label)
    theirs = np.concatenate(
        [
            _marks([shadow.values[name][model] for name in names], shadow.label)
            for model in range(shadow.models)
        ]
    )
    (a, in_a), (b, in_b) = (np.unique(marks, return_counts=True) for marks in (ours, theirs))
    shared = len(np.intersect1d(a[in_a == 1], b[in_b == 1], assume_unique=True))
    within = len(np.setdiff1d(a[in_a == 2], b, assume_unique=True)) + len(
        np.setdiff1d(b[in_b == 2], a, assume_unique=True)
    )
    n, m = len(ours), len(theirs)
    chance = 2.0 * n * m / ((n + m) * (n + m - 1.0))
    sure = shared > 0 and float(bdtrc(shared - 1, shared + within, chance)) < _SURE
    return SharedRows(shared, int((in_a == 1).sum()), int((in_b == 1).sum()), sure)


def _marks(columns: list[NDArray[np.float64]], label: NDArray[np.int64]) -> NDArray[np.uint64]:
    """A number of 64 bits for each sample: equal for equal rows, and hardly for others."""
    found = label.astype(np.uint64)
    for column in columns:
        # Multiplying and shifting as in splitmix64; + 0.0 makes one zero of two.
        found = (found ^ (np.ascontiguousarray(column) + 0.0).view(np.uint64)) * np.uint64(
            0x9E3779B97F4A7C15
        )
        found ^= found >> np.uint64(29)
        found *= np.uint64(0xBF58476D1CE4E5B9)
        found ^= found >> np.uint64(32)
    return found
