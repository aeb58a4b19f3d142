"""Was one model given as two? By what it said of the samples, to the last bit or nearly."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

from canary.errors import InputError
from canary.signals.signal_table import SignalTable
from canary.statistics.numbers import plural

__all__ = ["Repeat", "check_references", "repeated_models"]

_GRADED = 8
"""Different losses, neither 0 nor infinite, that two models do not share at all samples."""

_SEEN = 512
"""Samples, evenly spread, at which losses are compared that are nearly equal."""

_LEAST, _MOST = 1e-2, 1e3
"""Losses beyond these say little of a model that was saved with fewer digits."""

_NEAR = 1e-2
_APART = 10.0
"""Relative difference, root mean square, as numbers of 16 bits make it; and how many times as
far other models have to be."""


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
    nearly: bool = True,
) -> list[Repeat]:
    """Models that stand twice in one place, or in two that have to differ.

    Parameters
    ----------
    losses : mapping of str to float64 arrays of shape (samples,), one for each model
        By place, all on the same samples.
    may_be_one : collection of (str, str)
        Pairs of places, the earlier first, that may hold the same model.
    nearly : bool
        Whether models that say nearly the same are looked for: not where some were made to be
        like another.

    Notes
    -----
    Losses that are equal to the last bit are one model's, if they are different enough. So
    are those as close as the same numbers in 32 or 16 bits, if half of the other models are
    `_APART` times as far or farther. Models of training sets that hardly differ are close
    too, but no pair of them is closer than the rest.

    O(models samples), and ``models**2`` for means that are near.
    """
    known: dict[bytes, list[tuple[str, int]]] = {}
    found: list[Repeat] = []
    places: list[tuple[str, int]] = []
    seen: list[NDArray[np.float64]] = []
    for name, rows in losses.items():
        for at, row in enumerate(rows):
            earlier = known.setdefault(sha256(row.tobytes()).digest(), [])
            clash = [place for place in earlier if (place[0], name) not in may_be_one]
            if clash:
                different = np.unique(row[(row > 0) & np.isfinite(row)])
                found.append(Repeat(clash[0], (name, at), len(different) >= _GRADED))
            earlier.append((name, at))
            if not nearly:
                continue
            places.append((name, at))
            spread = np.linspace(0, len(row) - 1, min(_SEEN, len(row))).astype(np.intp)
            seen.append(np.log(np.clip(row[spread], _LEAST, _MOST)))
    if len(places) < 3:  # with nobody to be farther away
        return found
    known_twice = {one.second for one in found}
    return found + [
        one for one in _nearly(places, np.stack(seen), may_be_one) if one.second not in known_twice
    ]


def _nearly(
    places: list[tuple[str, int]],
    seen: NDArray[np.float64],
    may_be_one: Collection[tuple[str, str]],
) -> list[Repeat]:
    """Models that are far closer to an earlier one than to half of the others.

    Parameters
    ----------
    places : list of (str, int)
    seen : ndarray of float64 of shape (models, samples seen)
        Logarithms of losses.
    may_be_one : collection of (str, str)
    """
    found = []
    means = seen.mean(axis=1)
    for at in range(1, len(places)):
        # A mean of differences is at most their root mean square.
        close = np.flatnonzero(np.abs(means[:at] - means[at]) <= _NEAR)
        close = close[_apart(seen[close], seen[at]) <= _NEAR]
        allowed = [row for row in close if (places[row][0], places[at][0]) not in may_be_one]
        inside = (seen[at] > np.log(_LEAST)) & (seen[at] < np.log(_MOST))
        if not allowed or len(np.unique(seen[at][inside])) < _GRADED:
            continue
        apart = _apart(seen, seen[at])
        for before in allowed:
            others = np.delete(apart, np.array([before, at]))
            if len(others) and np.median(others) > _APART * max(apart[before], _NEAR / _APART):
                found.append(Repeat(places[before], places[at], certain=True))
                break
    return found


def _apart(rows: NDArray[np.float64], row: NDArray[np.float64]) -> NDArray[np.float64]:
    """How far each of some rows is from another, root mean square."""
    return np.asarray(np.sqrt(np.mean((rows - row) ** 2, axis=1)))


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
        {"target": (loss[row] for row in targets), "reference": (theirs[row] for row in others)},
        nearly=source.origin is None or source.origin.target is None,
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
