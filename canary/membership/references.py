"""Which models and samples an attack compares with; equally many for members and non-members.

Where losses of all models are alike, the score of a sample still has a law that depends on the
number of its references; it must not depend on who is a member. Of a sample in exactly half of
the models, a member of the target is outside one more of the others than a non-member. So each
target does without references until the numbers agree (`kept`): in each table with as many members
as non-members wholly, else to half a sample at every number.

R by its empirical rule, on losses without ties, ranks a sample among its own references: on noise
members and non-members then have scores of one law on every split. Other scores have that if the
split was drawn without regard to the samples.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, TypedDict, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from canary.errors import InputError
from canary.membership.association import check_shadow
from canary.membership.sharing import check_references
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

_SEED = 20
_SHOWN = 5


class ComparedWith(TypedDict, total=False):
    """What targets are compared with: see `canary.membership.many.attack_models`."""

    references: ArrayLike | None
    population: ArrayLike | None
    most: int | None


@dataclass(frozen=True, eq=False)
class Compared:
    """The references with which each target is compared on each sample of a part.

    `flags` of shape (references, part) are those of the kind; `less` of shape (depth, targets,
    part) which of them a target does without, each once, and -1 for none.
    """

    flags: Flags
    less: Places

    @property
    def count(self) -> Ints:
        """How many are left, of shape (targets, part)."""
        return np.asarray(self.flags.sum(axis=0) - (self.less >= 0).sum(axis=0))

    def left_out(self, values: Floats, fill: float) -> Floats:
        """The values (references, part) of those that are left out, in the shape of `less`."""
        taken = [np.take_along_axis(values, rows, axis=0) for rows in self.less]
        return np.where(self.less >= 0, np.reshape(taken, self.less.shape), fill)


@dataclass(frozen=True, eq=False)
class References:
    """The models that are attacked, and those that they are compared with; made by `resolve`.

    `targets` and `rows` are rows of `table` and of `source`, which may be the same; `own` which of
    `rows` is the target itself, or -1: it is never compared with itself. `population` flags the
    samples that are set aside, `most` limits the references of a sample in R, D and L, and
    `repeats` are notes on references that may be a target, or hold its samples.
    """

    table: SignalTable
    targets: Places
    source: SignalTable
    rows: Places
    own: Places
    population: Flags | None
    most: int | None = None
    repeats: tuple[str, ...] = ()
    _matched: dict[Kind, NDArray[Any]] = field(default_factory=dict, init=False, repr=False)

    @property
    def judged(self) -> Flags:
        """The samples on which attacks are evaluated: those that are not set aside."""
        if self.population is None:
            return np.ones(self.table.samples, np.bool_)
        return ~self.population

    def points(self, row: int, name: str) -> Flags:
        """The population points of a target; an InputError if they are fewer than two."""
        points: Flags = ~self.table.member[row]
        if self.population is not None:
            points &= self.population
        if points.sum() < 2:
            raise InputError(
                f"attack {name}: model {row} has {int(points.sum())} population points",
                cure="give samples that it was not trained on, at least two",
                where=self.table.source,
            )
        return points

    def parts(self) -> Iterator[slice]:
        """The samples in parts that are worked on at a time."""
        step = max(_NUMBERS // max(len(self.rows), len(self.targets)), 1)
        for start in range(0, self.table.samples, step):
            yield slice(start, min(start + step, self.table.samples))

    def compared(self, part: slice, kind: Kind) -> Compared:
        """The references of a kind with which each target is compared.

        Without the target itself, and the next ones going round that make both kinds have equally
        many; of a shadow table all serve.
        """
        flags = self._flagged(part, kind)
        wanted = self._own_flags(flags).astype(np.int64)
        if self.source is self.table:
            wanted += self._without(kind)[:, part]
        size, depth = len(flags), int(wanted.max(initial=0))
        less = np.full((depth, *wanted.shape), -1)
        begin = np.where(self.own >= 0, self.own, self.targets % size)
        if not depth:
            return Compared(flags, less)
        if len(begin) <= _FEW:
            for target, first in enumerate(begin):
                left = np.roll(flags, -first, axis=0)
                for step in range(depth):
                    place = left.argmax(axis=0)[None]
                    there = np.take_along_axis(left, place, axis=0) & (step < wanted[target])
                    less[step, target] = np.where(there, (place + first) % size, -1)[0]
                    np.put_along_axis(left, place, values=False, axis=0)
            return Compared(flags, less)
        # Of each reference and sample, the first flagged reference from there on.
        following = np.where(flags, np.arange(size, dtype=np.int32)[:, None], np.int32(size))
        following = np.minimum.accumulate(following[::-1], axis=0)[::-1]
        chosen = following[begin]
        for step in range(depth):
            if step:
                after = np.where(chosen + 1 < size, chosen + 1, 0)
                chosen = np.take_along_axis(following, after, axis=0)
            chosen = np.where(chosen < size, chosen, following[0])
            less[step] = np.where(step < wanted, chosen, -1)
        return Compared(flags, less)

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

    def _without(self, kind: Kind) -> NDArray[Any]:
        """How many of the others each target does without; shape (targets, samples)."""
        if kind not in self._matched:
            small = np.min_scalar_type(len(self.rows))
            counts = np.empty((len(self.targets), self.table.samples), small)
            for part in self.parts():
                flags = self._flagged(part, kind)
                counts[:, part] = flags.sum(axis=0) - self._own_flags(flags)
            order = random_order(self.table.samples)
            order = order[self.judged[order]]
            for target, row in enumerate(self.targets):
                own, member = counts[target].astype(np.int64), self.table.member[row]
                counts[target] = own - kept(own, member, order, falling=kind == "inside")
            self._matched[kind] = counts
        return self._matched[kind]

    def alone(self, kind: Kind) -> Flags:
        """The samples that have no reference of a kind beside some target; shape (samples,)."""
        mine = self.own[self.own >= 0]

        def lacking(flags: Flags) -> Flags:
            # One that is a target is none to itself.
            return np.asarray(flags.sum(axis=0) <= flags[mine].any(axis=0))

        return np.concatenate([lacking(self._flagged(part, kind)) for part in self.parts()])

    def check(self, name: str, *, inside: bool, least: bool = False) -> None:
        """An InputError if a judged sample has no reference left that the attack needs.

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
            who, train = ("members", "without") if kind == "outside" else ("non-members", "on")
            away = "least=2" if least else "table.select(samples=...)"
            cure = f"train more models {train} them, or omit them by {away}"
            members = self.source.member[self.rows]
            if len(members) > 1 and (members == members[0]).all():
                raise InputError(
                    f"attack {name}: all {len(members)} models have the same members, so no "
                    "sample can be compared with models that were trained without it, and with "
                    "models that were trained on it",
                    cure="train each model on another random half of the samples; the attacks S "
                    "and P need no other split",
                    where=self.source.source,
                )
            if self.source is self.table and (2 * len(bad) > judged or len(members) < 6):
                cure = (
                    f"give more models, each sample in about half of them: {len(self.rows)} are "
                    "too few"
                )
                if 2 * len(bad) <= judged:
                    cure += f"; or omit these samples by {away}"
            raise InputError(
                f"attack {name}: {len(bad):,} of {judged:,} samples ({shown}{more}) are {who} of "
                "every model that they could be compared with",
                cure=f"{cure}; the attacks S and P need none",
                where=self.source.source,
            )


def random_order(samples: int) -> Ints:
    """A random order of the samples; always the same."""
    return np.random.default_rng(_SEED).permutation(samples)


def kept(counts: Ints, member: Flags, order: Ints, *, falling: bool = False) -> Ints:
    """How many references each sample keeps, of the `counts` that it has. O(n log n).

    Samples of either kind are put in the order of their numbers, equal numbers in a random order. A
    sample has a partner of the other kind, the one at the same share of its order, and keeps as
    many as the fewer of the two have: no rule that only takes references away keeps more. `order`
    has the samples that are compared, in a random order; the others keep all. `falling` puts
    samples with the most first: for references whose numbers are what the other kind leaves.
    """
    left = counts.copy()
    key = -counts if falling else counts
    ranked = []
    for flag in (False, True):
        mine = order[member[order] == flag]
        ranked.append(mine[np.argsort(key[mine], kind="stable")])
    for own, other in (ranked, ranked[::-1]):
        if len(own) and len(other):
            partner = (2 * np.arange(len(own)) + 1) * len(other) // (2 * len(own))
            left[own] = np.minimum(counts[own], counts[other[partner]])
    return left


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
    """Check what an attack is given; parameters and errors are those of `attack_models`.

    `aligned` says whether the references have to be asked for the very samples of the targets,
    `alone` whether a target needs no references.
    """
    population, most = compared.get("population"), compared.get("most")
    source = table if shadow is None else shadow
    chosen = _rows(targets, table, "targets")
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
    elif aligned:
        if not np.array_equal(shadow.label, table.label):
            raise InputError(
                f"attack {name}: the shadow table has other samples ({shadow.samples:,} with other "
                f"labels than the {table.samples:,} of the target)",
                cure="measure the reference models on the target's samples, in the same order",
                where=shadow.source,
            )
        for row in chosen:
            check_tied(shadow, table, row=int(row))
    for some, used in ((table, chosen), (source, rows)):
        loss = some.signal("loss")
        for row in used:
            if np.isnan(loss[row]).any():
                raise InputError(
                    f"model {row} has {int(np.isnan(loss[row]).sum()):,} losses that are NaN",
                    cure="omit it by table.select(models=...), and say why in missing",
                    where=some.source,
                )
    repeats = check_references(table, chosen, shadow, rows)
    if shadow is not None and name == "S":  # whose samples may be in another order
        beside = shadow if compared.get("references") is None else shadow.select(models=rows)
        for row in chosen:
            repeats += check_shadow(table, beside, row=int(row))
    if most is not None and most < 1:
        raise InputError(
            f"most is {most!r}, expected 1 or more",
            cure="give the number of references that each sample may have",
            where="attack",
        )
    aside = None if population is None else _aside(table, population)
    repeats = tuple(dict.fromkeys(repeats))
    return References(table, chosen, source, rows, own.astype(np.intp), aside, most, repeats)


def _rows(given: ArrayLike | None, table: SignalTable, what: str) -> Places:
    rows = positions(given, table.models, what, table.source)
    if len(np.unique(rows)) < len(rows):
        raise InputError(f"{what} name a model twice", cure="name it once", where=table.source)
    return rows


def _aside(table: SignalTable, population: ArrayLike) -> Flags:
    aside = np.zeros(table.samples, np.bool_)
    aside[positions(population, table.samples, "population", table.source)] = True
    if aside.all():
        raise InputError(
            "every sample is set aside as population",
            cure="leave samples that are judged",
            where=table.source,
        )
    return aside
