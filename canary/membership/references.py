"""Which models and samples an attack compares with, resolved and checked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from canary.errors import InputError
from canary.signals.table import SignalTable, check_tied, positions

__all__ = ["References", "resolve"]

Flags = NDArray[np.bool_]
Places = NDArray[np.intp]

_NUMBERS = 1 << 18
"""That are worked on at a time, so that copies of them stay in the cache."""

_SHOWN = 5


@dataclass(frozen=True, eq=False)
class References:
    """The models that are attacked, and those that they are compared with.

    Parameters
    ----------
    table : SignalTable
        Of the targets.
    targets : ndarray of int of shape (targets,)
        Rows of `table`.
    source : SignalTable
        Of the references; `table` itself, or a table of shadow models.
    rows : ndarray of int of shape (references,)
        Rows of `source`.
    own : ndarray of int of shape (targets,)
        Which of `rows` is the target itself, or -1. A target is never compared with itself.
    population : ndarray of bool of shape (samples,) or None
        Samples of `table` that are set aside as population points.
    most : int or None
        How many references a sample may have in attacks R, D and L.
    """

    table: SignalTable
    targets: Places
    source: SignalTable
    rows: Places
    own: Places
    population: Flags | None
    most: int | None = None

    @property
    def judged(self) -> Flags:
        """The samples on which attacks are evaluated: those that are not set aside."""
        if self.population is None:
            return np.ones(self.table.samples, np.bool_)
        return ~self.population

    def parts(self) -> Iterator[slice]:
        """The samples in parts that are worked on at a time."""
        step = max(_NUMBERS // max(len(self.rows), len(self.targets)), 1)
        for at in range(0, self.table.samples, step):
            yield slice(at, min(at + step, self.table.samples))

    def outside(self, part: slice) -> Flags:
        """Of which references a sample is a nonmember; shape (references, part)."""
        return ~self.source.member[:, part][self.rows]

    def limited(self, part: slice) -> Flags:
        """`outside`, of each sample the first `most` references only."""
        flags = self.outside(part)
        if self.most is None:
            return flags
        return np.asarray(flags & (np.cumsum(flags, axis=0) <= self.most))

    def dropped(self, flags: Flags) -> Places:
        """Which reference each target does without.

        A target that is among the flagged references itself; else the next one that is
        flagged, going round. So a sample is compared with equally many references whether or
        not the target was trained on it. Where members had one more, as they do if every sample
        is in half of the models, levels of ``1 / (m + 1)`` alone would tell them apart.

        Parameters
        ----------
        flags : ndarray of bool of shape (references, part)
            Where references count.

        Returns
        -------
        ndarray of int of shape (targets, part)
            -1 for none: the target is no reference, or nothing is flagged.
        """
        if (self.own < 0).all():
            return np.full((len(self.own), flags.shape[1]), -1)
        size = len(flags)
        following = np.where(flags, np.arange(size, dtype=np.int32)[:, None], np.int32(size))
        following = np.minimum.accumulate(following[::-1], axis=0)[::-1]
        found = following[self.own]
        found = np.where(found < size, found, following[0])
        return np.where((found < size) & (self.own >= 0)[:, None], found, -1).astype(np.intp)

    def check(self, name: str, *, inside: bool) -> None:
        """An InputError if a sample that is judged has no reference left of a kind.

        Parameters
        ----------
        name : str
            Of the attack.
        inside : bool
            Whether references that were trained on the sample are needed, beside those that
            were not.
        """
        for kind in (False, True) if inside else (False,):
            count = np.empty(self.table.samples, np.int64)
            for part in self.parts():
                count[part] = (self.outside(part) != kind).sum(axis=0)
            least = 2 if (self.own >= 0).any() else 1  # one is dropped
            bad = np.flatnonzero((count < least) & self.judged)
            if len(bad):
                shown = ", ".join(map(str, bad[:_SHOWN]))
                more = f" and {len(bad) - _SHOWN:,} more" if len(bad) > _SHOWN else ""
                who = "members" if not kind else "nonmembers"
                raise InputError(
                    f"attack {name}: samples {shown}{more} are {who} of every model that they "
                    "could be compared with",
                    cure=f"train more models {'on' if kind else 'without'} them, or leave them "
                    "away by table.select(samples=...)",
                    where=self.source.source,
                )


def resolve(
    table: SignalTable,
    name: str,
    *,
    targets: ArrayLike | None,
    shadow: SignalTable | None,
    references: ArrayLike | None,
    population: ArrayLike | None,
    most: int | None = None,
    aligned: bool = True,
    alone: bool = False,
) -> References:
    """Check what an attack is given.

    Parameters
    ----------
    table, targets, shadow, references, population, most
        As in `canary.membership.many.attack_models`.
    name : str
        Of the attack.
    aligned : bool
        Whether the references have to be asked for the very samples of the targets.
    alone : bool
        Whether a target needs no references.

    Raises
    ------
    InputError
        If there is no such model, none to compare with, or the two tables do not fit: other
        samples, or models that belong to another target.
    """
    chosen = _rows(targets, table, "targets")
    source = table if shadow is None else shadow
    rows = _rows(references, source, "references")
    own = np.full(len(chosen), -1)
    if shadow is None:
        position = np.full(table.models, -1)
        position[rows] = np.arange(len(rows))
        own = position[chosen]
        if len(rows) == 1 and (own >= 0).any() and not alone:
            raise InputError(
                f"attack {name}: there is no model to compare with model {chosen[0]}",
                cure="give a table of several models, or a table of shadow models by shadow=",
                where=table.source,
            )
    elif aligned and not np.array_equal(shadow.label, table.label):
        raise InputError(
            f"attack {name}: the shadow table has other samples ({shadow.samples:,} with other "
            f"labels than the {table.samples:,} of the target)",
            cure="measure the reference models on the target's samples, in the same order",
            where=shadow.source,
        )
    if shadow is not None and aligned:
        for row in chosen:
            check_tied(shadow, table, row=int(row))
    for one, used in ((table, chosen), (source, rows)):
        _check_losses(one, used)
    if most is not None and most < 1:
        raise InputError(
            f"most is {most!r}, expected 1 or more",
            cure="give the number of references that each sample may have",
            where="attack",
        )
    flags = None
    if population is not None:
        flags = np.zeros(table.samples, np.bool_)
        flags[positions(population, table.samples, "population", table.source)] = True
        if flags.all():
            raise InputError(
                "every sample is set aside as population",
                cure="leave samples that are judged",
                where=table.source,
            )
    return References(table, chosen, source, rows, own.astype(np.intp), flags, most)


def _rows(given: ArrayLike | None, table: SignalTable, what: str) -> Places:
    rows = positions(given, table.models, what, table.source)
    if len(np.unique(rows)) < len(rows):
        raise InputError(f"{what} name a model twice", cure="name it once", where=table.source)
    return rows


def _check_losses(table: SignalTable, rows: Places) -> None:
    loss = table.signal("loss")
    for row in rows:
        if np.isnan(loss[row]).any():
            raise InputError(
                f"model {row} has {int(np.isnan(loss[row]).sum()):,} losses that are NaN",
                cure="leave it away by table.select(models=...), and say why in missing",
                where=table.source,
            )
