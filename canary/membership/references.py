"""Which models and samples an attack compares with, resolved and checked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypedDict, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from canary.errors import InputError
from canary.membership.association import check_shadow
from canary.membership.matching import kept, random_order
from canary.membership.repeats import check_references
from canary.signals.signal_table import SignalTable, check_tied, positions

Flags = NDArray[np.bool_]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Places = NDArray[np.intp]

Kind = Literal["outside", "inside", "limited"]
"""References that were not trained on a sample, that were, or the first ones that were not."""

_NUMBERS = 1 << 18
"""That are worked on at a time, so that copies of them stay in the cache."""

_FEW = 4
"""Targets for which looking for each by itself is faster than a list for all."""

_SHOWN = 5


class ComparedWith(TypedDict, total=False):
    """What targets are compared with: see `canary.membership.many.attack_models`."""

    references: ArrayLike | None
    population: ArrayLike | None
    most: int | None


@dataclass(frozen=True, eq=False)
class Compared:
    """The references with which each target is compared on each sample of a part.

    Parameters
    ----------
    flags : ndarray of bool of shape (references, part)
        Those of the kind.
    less : ndarray of int of shape (depth, targets, part)
        Which of them a target does without, each once; -1 for none.
    """

    flags: Flags
    less: Places

    @property
    def count(self) -> Ints:
        """How many are left, of shape (targets, part)."""
        return np.asarray(self.flags.sum(axis=0) - (self.less >= 0).sum(axis=0))

    def left_out(self, values: Floats, fill: float) -> Floats:
        """The values (references, part) of those that are left out, in the shape of `less`."""
        found = [np.take_along_axis(values, rows, axis=0) for rows in self.less]
        return np.where(self.less >= 0, np.reshape(found, self.less.shape), fill)


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
    repeats : tuple of str
        What to say of references that may be a target, or hold its samples.
    """

    table: SignalTable
    targets: Places
    source: SignalTable
    rows: Places
    own: Places
    population: Flags | None
    most: int | None = None
    repeats: tuple[str, ...] = ()

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

    def compared(self, part: slice, kind: Kind) -> Compared:
        """The references of a kind with which each target is compared.

        Without the target itself, and without as many others as it takes for members and nonmembers
        to have equally many: see `canary.membership.matching`. The next ones that are flagged are
        left out, going round from the target. Of a shadow table all serve.
        """
        flags = self._flagged(part, kind)
        wanted = self._own_flags(flags).astype(np.int64)
        if self.source is self.table:
            wanted += self._without(kind)[:, part]
        return Compared(flags, self._next(flags, wanted))

    def counts(self, part: slice) -> Ints:
        """How many references that were not trained on them the samples of a part have."""
        return np.asarray(self._flagged(part, "limited").sum(axis=0))

    def most_compared(self) -> int:
        """The most references, not trained on it, with which a judged sample is compared."""
        return max(
            int(self.compared(part, "limited").count[:, self.judged[part]].max(initial=0))
            for part in self.parts()
        )

    def _flagged(self, part: slice, kind: Kind) -> Flags:
        outside = ~self.source.member[:, part][self.rows]
        if kind == "inside":
            return ~outside
        if kind == "limited" and self.most is not None:
            return np.asarray(outside & (np.cumsum(outside, axis=0) <= self.most))
        return outside

    def _own_flags(self, flags: Flags) -> Flags:
        """Whether the target itself is among the flagged; shape (targets, part)."""
        return np.asarray(flags[self.own] & (self.own >= 0)[:, None])

    def _next(self, flags: Flags, wanted: Ints) -> Places:
        """The first flagged references from the target on, going round, as many as wanted."""
        size, depth = len(flags), int(wanted.max(initial=0))
        found = np.full((depth, *wanted.shape), -1)
        if not depth:
            return found
        begin = np.where(self.own >= 0, self.own, self.targets % size)
        if len(begin) <= _FEW:
            for target, first in enumerate(begin):
                left = np.roll(flags, -first, axis=0)
                for step in range(depth):
                    at = left.argmax(axis=0)[None]
                    there = np.take_along_axis(left, at, axis=0) & (step < wanted[target])
                    found[step, target] = np.where(there, (at + first) % size, -1)[0]
                    np.put_along_axis(left, at, values=False, axis=0)
            return found
        following = np.where(flags, np.arange(size, dtype=np.int32)[:, None], np.int32(size))
        following = np.minimum.accumulate(following[::-1], axis=0)[::-1]
        at = following[begin]
        for step in range(depth):
            if step:
                at = np.take_along_axis(following, np.where(at + 1 < size, at + 1, 0), axis=0)
            at = np.where(at < size, at, following[0])
            found[step] = np.where(step < wanted, at, -1)
        return found

    def _without(self, kind: Kind) -> Ints:
        """How many of the others each target does without; shape (targets, samples)."""
        if kind not in self._matched:
            small = np.min_scalar_type(len(self.rows))
            found = np.empty((len(self.targets), self.table.samples), small)
            for part in self.parts():
                flags = self._flagged(part, kind)
                found[:, part] = flags.sum(axis=0) - self._own_flags(flags)
            order = random_order(self.table.samples)
            order = order[self.judged[order]]
            for target, row in enumerate(self.targets):
                counts = found[target].astype(np.int64)
                member = self.table.member[row]
                found[target] = counts - kept(counts, member, order, falling=kind == "inside")
            self._matched[kind] = found
        return self._matched[kind]

    @cached_property
    def _matched(self) -> dict[Kind, NDArray[Any]]:
        return {}

    def alone(self, kind: Kind) -> Flags:
        """The samples that have no reference of a kind beside some target; shape (samples,)."""
        mine = self.own[self.own >= 0]
        found = np.empty(self.table.samples, np.bool_)
        for part in self.parts():
            flags = self._flagged(part, kind)
            # One that is a target is none to itself.
            found[part] = flags.sum(axis=0) <= flags[mine].any(axis=0)
        return found

    def check(self, name: str, *, inside: bool, least: bool = False) -> None:
        """An InputError if a judged sample has no reference left of a kind that the attack needs.

        `least` says whether such samples can be left out by their number of models.
        """
        judged = int(self.judged.sum())
        kinds: tuple[Kind, ...] = ("outside", "inside") if inside else ("outside",)
        for kind in kinds:
            bad = np.flatnonzero(self.alone(kind) & self.judged)
            if not len(bad):
                continue
            shown = ", ".join(map(str, bad[:_SHOWN]))
            more = f" and {len(bad) - _SHOWN:,} more" if len(bad) > _SHOWN else ""
            who, train = ("members", "without") if kind == "outside" else ("nonmembers", "on")
            away = "--least 2 (least=2)" if least else "table.select(samples=...)"
            cure = f"train more models {train} them, or leave them away by {away}"
            if self.source is self.table and 2 * len(bad) > judged:
                cure = (
                    f"give more models, each sample in about half of them: {len(self.rows)} are "
                    "too few"
                )
            raise InputError(
                f"attack {name}: {len(bad):,} of {judged:,} samples ({shown}{more}) are {who} of "
                "every model that they could be compared with",
                cure=f"{cure}; the attacks S and P need none",
                where=self.source.source,
            )


def resolve(
    table: SignalTable,
    name: str,
    *,
    targets: ArrayLike | None = None,
    shadow: SignalTable | None = None,
    aligned: bool = True,
    alone: bool = False,
    **compared: Unpack[ComparedWith],
) -> References:
    """Check what an attack is given; the parameters are those of `attack_models`.

    `aligned` says whether the references have to be asked for the very samples of the targets,
    `alone` whether a target needs no references.

    Raises
    ------
    InputError
        If there is no such model, none to compare with, or the two tables do not fit: other
        samples, models that belong to another target, or a target among its own references.
    """
    population, most = compared.get("population"), compared.get("most")
    chosen = _rows(targets, table, "targets")
    source = table if shadow is None else shadow
    rows = _rows(compared.get("references"), source, "references")
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
    repeats = check_references(table, chosen, shadow, rows)
    if shadow is not None and name == "S":  # whose samples may stand in another order
        beside = shadow if compared.get("references") is None else shadow.select(models=rows)
        for row in chosen:
            repeats += check_shadow(table, beside, row=int(row))
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
    repeats = tuple(dict.fromkeys(repeats))
    return References(table, chosen, source, rows, own.astype(np.intp), flags, most, repeats)


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
