"""A model that workers of a cluster keep, behind the seam of a model in this process.

Batches of rows go to whichever worker is free, each whole, so that the numbers are those of
the same batches here. The nodes of a walk go where their states are.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from canary.errors import ServerError
from canary.models.base import (
    Children,
    Context,
    Expansion,
    FloatArray,
    IntArray,
    Memory,
    ModelFacts,
    Moments,
    Nodes,
    Rows,
)
from canary.models.dividing import divided, rows_below
from canary.models.slab import assembled
from canary.models.slots import NONE, Slots
from canary.records.versions import versions
from canary.tokens.base import Tokenizer
from canary.workers.actors import Actors, Call

if TYPE_CHECKING:
    from canary.workers.cluster import RayWorkers

__all__ = ["SpreadModel", "spread_model", "spread_over"]

Ints = NDArray[np.int64]


class SpreadModel:
    """A model behind the seam that is computed by workers.

    A context manager; leaving it ends the workers, as does the end of the process.

    Parameters
    ----------
    actors : Actors
        Each keeps a `canary.models.kept.KeptModel`.
    tokenizer : Tokenizer
        Of the same model, in this process.
    facts : ModelFacts
    sharing : sequence of int
        How many workers share the memory that each has.
    """

    def __init__(
        self, actors: Actors, tokenizer: Tokenizer, facts: ModelFacts, sharing: Sequence[int]
    ) -> None:
        self._actors, self.tokenizer, self.facts = actors, tokenizer, facts
        self._sharing = sharing
        self._walkers = itertools.count()

    @property
    def lanes(self) -> int:
        """How many workers keep it."""
        return self._actors.count

    def score(self, rows: Rows) -> FloatArray:
        """See `canary.models.base.LanguageModel.score`."""
        return self.score_each([rows])[0]

    def score_each(self, batches: Sequence[Rows]) -> list[FloatArray]:
        """See `canary.models.base.Spread.score_each`."""
        return self._actors.ask([Call("score", vars(rows)) for rows in batches])

    def moments_each(self, batches: Sequence[Rows]) -> list[Moments]:
        """See `canary.models.base.Spread.moments_each`."""
        return [
            Moments(*found)
            for found in self._actors.ask([Call("moments", vars(rows)) for rows in batches])
        ]

    def open(self, context: Context, *, memory_bytes: int) -> SpreadWalker:
        """A walker at every worker, with an equal part of `memory_bytes` each."""
        opening = {"context": vars(context), "memory_bytes": memory_bytes // self.lanes}
        return SpreadWalker(self._actors, next(self._walkers), opening)

    def memory(self) -> Memory:
        """Of all workers together, as if each had as little as the one that has least."""
        found = _of_all(self._actors, "memory")
        least = min(free // n for (free, _), n in zip(found, self._sharing, strict=True))
        return Memory(self.lanes * least, max(held for _, held in found))

    def close(self) -> None:
        """End the workers."""
        self._actors.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class _TellingModel(SpreadModel):
    """One that tells moments."""

    def moments(self, rows: Rows) -> Moments:
        """See `canary.models.base.TellsMoments`."""
        return self.moments_each([rows])[0]


def spread_model(workers: RayWorkers, tokenizer: Tokenizer, about: dict[str, Any]) -> SpreadModel:
    """The model that `about` describes, loaded by each of the workers.

    Parameters
    ----------
    workers : RayWorkers
    tokenizer : Tokenizer
    about : dict
        Plain data: the arguments of `canary.models.kept.keep`.

    Raises
    ------
    MissingExtraError
        If Ray is not installed.
    ServerError
        If the cluster cannot be reached, has too little room, or cannot hold one model.
    ModelError
        If a worker cannot load it.
    """
    from canary.models.kept import keep

    actors = Actors(workers, keep, about)
    try:
        return spread_over(actors, tokenizer)
    except BaseException:
        actors.close()
        raise


def spread_over(actors: Actors, tokenizer: Tokenizer) -> SpreadModel:
    """The model that all of some workers keep.

    Raises
    ------
    ServerError
        If the workers have different models, or other versions of the software than this
        process.
    """
    found = _of_all(actors, "about")
    _check_versions([one["versions"] for one in found])
    facts = _facts([one["facts"] for one in found])
    places = [one["place"] for one in found]
    kind = _TellingModel if found[0]["moments"] else SpreadModel
    return kind(actors, tokenizer, facts, [places.count(place) for place in places])


def _of_all(actors: Actors, method: str) -> list[Any]:
    return actors.ask([Call(method, to=lane) for lane in range(actors.count)])


class SpreadWalker:
    """A walker below one context at each worker, behind the seam of one.

    Parameters
    ----------
    actors : Actors
    number : int
        Of this walker among those of the model.
    opening : dict
        Context and memory, with which a worker opens its own.

    Notes
    -----
    Queries are those that one walker would take which holds all states: a node whose state
    is held costs one for each token below that, also where the state was lost with its
    worker, or the node given to another, and is computed again.
    """

    def __init__(self, actors: Actors, number: int, opening: dict[str, Any]) -> None:
        self._actors, self._number, self._opening = actors, number, opening
        k = actors.count
        found = actors.ask([self._call("open", lane, "", **opening) for lane in range(k)])
        self.context_log_probs: FloatArray = found[0]["context_log_probs"]
        self._tells = bool(found[0]["tells"])
        self._lives: list[str] = [one["life"] for one in found]
        self._rooms: Ints = np.array([one["room"] for one in found], np.int64)
        self._released: list[list[Ints]] = [[] for _ in range(k)]
        # Which lane has the state of each slot (NONE: none any more), and its handle there.
        self._slots = Slots(max(int(self._rooms.sum()), 1))
        self._lane, self._handle = np.full((2, self._slots.capacity), NONE, np.int64)

    @property
    def room(self) -> int:
        """How many more nodes can be held."""
        due = [lane for lane, parts in enumerate(self._released) if parts]
        calls = [
            self._call("release", lane, self._lives[lane], released=self._taken(lane))
            for lane in due
        ]
        for lane, found in zip(due, self._asked(due, calls), strict=True):
            if found is not None:
                self._rooms[lane] = found["room"]
        return int(self._rooms.sum())

    def expand(self, nodes: Nodes, tokens: Children, *, keep: bool = True) -> Expansion:
        """See `canary.models.base.Walker.expand`."""
        lengths = np.asarray(nodes.lengths, np.int64)
        slots = self._standing(nodes, lengths)
        stands = slots != NONE
        at = np.where(stands, slots, 0)
        lanes = np.where(stands, self._lane[at], NONE)
        to = divided(lanes, self._rooms)
        handles = np.where(to == lanes, self._handle[at], NONE)
        parts = [np.flatnonzero(to == lane) for lane in range(self._actors.count)]
        asked = [lane for lane, part in enumerate(parts) if len(part)]
        calls = [
            self._expanding(lane, nodes, handles, parts[lane], tokens, keep=keep) for lane in asked
        ]
        found = self._asked(asked, calls)
        lost = [one["life"] != self._lives[lane] for lane, one in zip(asked, found, strict=True)]
        for lane, one in zip(asked, found, strict=True):
            self._rooms[lane] = one["room"]
            if one["life"] != self._lives[lane]:
                self._lose(lane, one["life"])
        path, held, queries = np.zeros(len(nodes)), np.full(len(nodes), NONE, np.int64), 0
        priced = []
        for lane, one, anew in zip(asked, found, lost, strict=True):
            part = parts[lane]
            path[part] = one["path_log_probs"]
            priced.append((part, one["log_probs"]))
            held[part] = self._kept(lane, one["handles"], lengths[part])
            own = part[stands[part]]
            if anew or (lanes[own] != lane).any():
                depths = self._slots.depth[slots[own]]
                other = part[~stands[part]]
                queries += int((lengths[own] - depths).sum())
                queries += rows_below(np.asarray(nodes.paths)[other], lengths[other])
            else:
                queries += one["queries"]
        return Expansion(path, assembled(priced, len(nodes), tokens), held, queries)

    def release(self, handles: IntArray) -> None:
        """Let go of states; -1 and stale handles are ignored."""
        slots = self._slots.resolve(np.unique(np.asarray(handles, np.int64)))
        slots = slots[slots != NONE]
        for lane in np.unique(self._lane[slots]):
            if lane != NONE:
                self._released[lane].append(self._handle[slots[self._lane[slots] == lane]])
        self._slots.drop(slots)

    def most_queries(self, nodes: Nodes, held: IntArray, degrees: IntArray) -> Ints:
        """See `canary.models.base.TellsQueries`."""
        if not self._tells:
            return np.asarray(nodes.lengths, np.int64) - held
        given = {"nodes": vars(nodes), "held": held, "degrees": degrees}
        call = self._call("most_queries", 0, self._lives[0], opening=self._opening, **given)
        found: Ints = self._actors.ask([call])[0]
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:  # else the workers may be gone, and soon will be
            lanes = range(self._actors.count)
            self._actors.ask([Call("close", {"walker": self._number}, lane) for lane in lanes])

    def _asked(self, lanes: Sequence[int], calls: Sequence[Call]) -> list[Any]:
        try:
            return self._actors.ask(calls)
        except BaseException:
            for lane in lanes:  # what they hold now nobody knows
                self._lose(lane, "")
            raise

    def _call(self, method: str, lane: int, life: str, **given: Any) -> Call:
        return Call(method, {"walker": self._number, "life": life, **given}, lane)

    def _expanding(
        self,
        lane: int,
        nodes: Nodes,
        handles: Ints,
        part: Ints,
        tokens: Children,
        *,
        keep: bool,
    ) -> Call:
        given = {
            "paths": nodes.paths[part],
            "lengths": nodes.lengths[part],
            "priced": nodes.priced[part],
            "handles": handles[part],
        }
        return self._call(
            "expand",
            lane,
            self._lives[lane],
            opening=self._opening,
            released=self._taken(lane),
            nodes=given,
            tokens=vars(tokens.take(part)),
            keep=keep,
        )

    def _standing(self, nodes: Nodes, lengths: Ints) -> Ints:
        """Slot of the state that each node stands on; NONE without one that serves."""
        slots = self._slots.resolve(np.asarray(nodes.handles, np.int64))
        depths = np.where(slots == NONE, -1, self._slots.depth[slots] if len(slots) else -1)
        unusable = (depths >= nodes.priced) | (depths >= lengths)
        return np.where(unusable, NONE, slots)

    def _kept(self, lane: int, handles: Ints, lengths: Ints) -> Ints:
        """Handles of this walker for those of a lane."""
        which = np.flatnonzero(handles != NONE)
        if len(which) > self._slots.free:  # of lanes that lost states which are still named
            self._released[lane].append(handles[which[self._slots.free :]])
            which = which[: self._slots.free]
        slots = self._slots.take(0, np.full(len(which), NONE, np.int64))
        self._slots.depth[slots] = lengths[which]
        self._lane[slots], self._handle[slots] = lane, handles[which]
        own = np.full(len(handles), NONE, np.int64)
        own[which] = self._slots.handles(slots)
        return own

    def _lose(self, lane: int, life: str) -> None:
        """The states of a lane are gone."""
        self._lane[self._lane == lane] = NONE
        self._released[lane], self._lives[lane] = [], life

    def _taken(self, lane: int) -> Ints:
        """What a lane may let go of, told once."""
        parts, self._released[lane] = self._released[lane], []
        return np.concatenate([np.zeros(0, np.int64), *parts])


def _facts(found: Sequence[dict[str, Any]]) -> ModelFacts:
    """The facts of all workers, which differ in the noise of their arithmetic only."""
    for name, first in found[0].items():
        others = {str(one[name]) for one in found[1:]} - {str(first)}
        if others and name != "noise_bits_per_token":
            raise ServerError(
                f"the workers do not have the same model: {name} is {first} and {min(others)}",
                cure="bring the same files to all machines, and machines of one kind together",
                where=str(found[0]["name"]),
            )
    noise = max(one["noise_bits_per_token"] for one in found)
    same = {**found[0], "noise_bits_per_token": noise}
    return ModelFacts(**{**same, "capabilities": tuple(same["capabilities"])})


def _check_versions(found: Sequence[dict[str, str]]) -> None:
    """Refuse workers whose numbers would come of other software than is recorded."""
    here = versions()
    for one in found:
        for name in sorted(here.keys() | one.keys()):
            if here.get(name) != one.get(name):
                raise ServerError(
                    f"a worker has {name} {one.get(name, '(none)')}, and this process has "
                    f"{here.get(name, '(none)')}",
                    cure="install the same versions on all machines",
                    where="versions",
                )
