"""Was one model given as two? By what it said of the samples, to the last bit."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

from canary.errors import InputError
from canary.signals.signal_table import SignalTable
from canary.statistics.numbers import plural

_GRADED = 8
"""Different losses, neither 0 nor infinite, that two models do not share at all samples."""


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


def repeated_models(
    losses: Mapping[str, Iterable[NDArray[np.float64]]],
    *,
    may_be_one: Collection[tuple[str, str]] = frozenset(),
) -> list[Repeat]:
    """Models with the losses of another to the last bit, in one place or in two.

    Parameters
    ----------
    losses : mapping of str to float64 arrays of shape (samples,), one for each model
        By place, all on the same samples.
    may_be_one : collection of (str, str)
        Pairs of places, the earlier first, that may hold the same model.
    """
    known: dict[bytes, list[tuple[str, int]]] = {}
    repeats: list[Repeat] = []
    for name, rows in losses.items():
        for number, row in enumerate(rows):
            earlier = known.setdefault(sha256(row.tobytes()).digest(), [])
            clash = [place for place in earlier if (place[0], name) not in may_be_one]
            if clash:
                different = np.unique(row[(row > 0) & np.isfinite(row)])
                repeats.append(Repeat(clash[0], (name, number), len(different) >= _GRADED))
            earlier.append((name, number))
    return repeats


def check_references(
    table: SignalTable,
    targets: NDArray[np.intp],
    shadow: SignalTable | None,
    references: NDArray[np.intp],
) -> tuple[str, ...]:
    """What a reader has to know of references of `shadow`, or of `table`, that repeat targets.

    A note where a reference has the losses of a target and those are too few different ones to tell
    whether it is the target. A model that gives all samples one loss tells nothing of members.

    Raises
    ------
    InputError
        If a target is among the references: by its fingerprint, or because they say the same
        of every sample. Its loss is then compared with itself where it is a nonmember, and not
        where it is a member, and an attack would find something in noise.
    """
    same, source = shadow is None, table if shadow is None else shadow
    others = references[~np.isin(references, targets)] if same else references
    if table.origin is not None and source.origin is not None:
        ours = {table.origin.models[row]: int(row) for row in targets}
        for row in others:
            if source.origin.models[row] in ours:
                target = ours[source.origin.models[row]]
                raise _one_model(int(row), target, source, "by its fingerprint")
    if table.samples != source.samples:
        return ()
    theirs, loss = source.signal("loss"), table.signal("loss")
    doubted = 0
    for repeat in repeated_models(
        {"target": (loss[row] for row in targets), "reference": (theirs[row] for row in others)}
    ):
        if repeat.first[0] != "target" or (repeat.second[0] == "target" and not same):
            continue
        place = targets if repeat.second[0] == "target" else others
        row, target = int(place[repeat.second[1]]), int(targets[repeat.first[1]])
        if repeat.certain:
            raise _one_model(row, target, source, "it says the same of every sample")
        doubted += bool(loss[target].min() < loss[target].max())
    if not doubted:
        return ()
    return (
        f"{plural(doubted, 'reference')} said of every sample what a target said, in too few "
        "different losses to tell whether they are that target: if they are, an attack finds "
        "something in noise. Leave them out, or give probabilities in place of labels",
    )


def _one_model(row: int, target: int, source: SignalTable, why: str) -> InputError:
    return InputError(
        f"model {row} of the references and model {target} of the targets are one model ({why}): "
        "an attack would compare the target with itself, and learn the flags it is judged by",
        cure="leave it out, by references= or table.select(models=...)",
        where=source.source,
    )
