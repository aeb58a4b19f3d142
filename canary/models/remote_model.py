"""A model that workers of a cluster keep, behind the seam of a model in this process.

Batches of rows go to whichever worker is free, each whole, so that the numbers are those of
the same batches here. The nodes of a walk go where their states are.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from canary.errors import ServerError
from canary.models.language_model import (
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
from canary.models.placement import divided, rows_below
from canary.models.state_cache import NONE, Slots
from canary.records.validation import versions
from canary.tokens.tokenizer import Tokenizer
from canary.workers.cluster import Call, KeepingWorkers

Ints = NDArray[np.int64]


class SpreadModel:
    """A model behind the seam that is computed by workers.

    A context manager; leaving it ends the workers, as does the end of the process.

    Parameters
    ----------
    workers : KeepingWorkers
        Each keeps a `canary.models.remote_worker.KeptModel`.
    tokenizer : Tokenizer
        Of the same model, in this process.
    facts : ModelFacts
    sharing : sequence of int
        How many workers share the memory that each has.
    """

    def __init__(
        self,
        workers: KeepingWorkers,
        tokenizer: Tokenizer,
        facts: ModelFacts,
        sharing: Sequence[int],
    ) -> None:
        self._workers, self.tokenizer, self.facts = workers, tokenizer, facts
        self._sharing = sharing
        self._walkers = itertools.count()

    @property
    def workers(self) -> int:
        """How many workers keep it."""
        return self._workers.count

    def score(self, rows: Rows) -> FloatArray:
        """See `canary.models.language_model.LanguageModel.score`."""
        return self.score_each([rows])[0]

    def score_each(self, batches: Sequence[Rows]) -> list[FloatArray]:
        """See `canary.models.language_model.Spread.score_each`."""
        return self._workers.ask([Call("score", vars(rows)) for rows in batches])

    def moments_each(self, batches: Sequence[Rows]) -> list[Moments]:
        """See `canary.models.language_model.Spread.moments_each`."""
        return [
            Moments(*answer)
            for answer in self._workers.ask([Call("moments", vars(rows)) for rows in batches])
        ]

    def open(self, context: Context, *, memory_bytes: int) -> SpreadWalker:
        """A walker at every worker, with an equal part of `memory_bytes` each."""
        opening = {"context": vars(context), "memory_bytes": memory_bytes // self.workers}
        return SpreadWalker(self._workers, next(self._walkers), opening)

    def memory(self) -> Memory:
        """Of all workers together, as if each had as little as the one that has least."""
        answers = _of_all(self._workers, "memory")
        least = min(free // n for (free, _), n in zip(answers, self._sharing, strict=True))
        return Memory(self.workers * least, max(held for _, held in answers))

    def close(self) -> None:
        """End the workers."""
        self._workers.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class _TellingModel(SpreadModel):
    """One that tells moments."""

    def moments(self, rows: Rows) -> Moments:
        """See `canary.models.language_model.TellsMoments`."""
        return self.moments_each([rows])[0]


def spread_over(workers: KeepingWorkers, tokenizer: Tokenizer) -> SpreadModel:
    """The model that all of some workers keep.

    Raises
    ------
    ServerError
        If the workers have different models, or other versions of the software than this
        process. They are ended then.
    """
    try:
        answers = _of_all(workers, "about")
        _check_versions([answer["versions"] for answer in answers])
        facts = _facts([answer["facts"] for answer in answers])
    except BaseException:
        workers.close()
        raise
    hardware = [answer["hardware"] for answer in answers]
    kind = _TellingModel if answers[0]["moments"] else SpreadModel
    return kind(workers, tokenizer, facts, [hardware.count(machine) for machine in hardware])


def _of_all(workers: KeepingWorkers, method: str) -> list[Any]:
    return workers.ask([Call(method, to=worker) for worker in range(workers.count)])


@dataclass
class _Lane:
    """What is known of the walker at one worker."""

    incarnation: str = ""
    room: int = 0
    released: list[Ints] = field(default_factory=list)

    def at(self, walker: int, opening: dict[str, Any]) -> dict[str, Any]:
        """The walker, for its worker; what it may let go of is told once."""
        released, self.released = self.released, []
        return {
            "walker": walker,
            "incarnation": self.incarnation,
            "opening": opening,
            "released": np.concatenate([np.zeros(0, np.int64), *released]),
        }


class SpreadWalker:
    """A walker below one context at each worker, behind the seam of one.

    Queries are those that one walker would take which holds all states: a node whose state
    is held costs one for each token below that, also where the state was lost with its
    worker, or the node given to another, and is computed again.
    """

    def __init__(self, workers: KeepingWorkers, number: int, opening: dict[str, Any]) -> None:
        self._workers, self._number, self._opening = workers, number, opening
        self._lanes = [_Lane() for _ in range(workers.count)]
        self._worker: Ints = np.zeros(0, np.int64)
        answers = self._ask("open", {worker: {} for worker in range(workers.count)})
        self.context_log_probs: FloatArray = answers[0]["context_log_probs"]
        self._tells = bool(answers[0]["tells"])
        # Which worker has the state of each slot (NONE: none any more), and its handle there.
        self._slots = Slots(max(self._room(), 1))
        self._worker, self._handle = np.full((2, self._slots.capacity), NONE, np.int64)

    @property
    def room(self) -> int:
        """How many more nodes can be held."""
        due = [worker for worker, lane in enumerate(self._lanes) if lane.released]
        self._ask("open", {worker: {} for worker in due})
        return self._room()

    def expand(self, nodes: Nodes, tokens: Children, *, keep: bool = True) -> Expansion:
        """See `canary.models.language_model.Walker.expand`."""
        lengths = np.asarray(nodes.lengths, np.int64)
        slots = self._standing(nodes, lengths)
        stands = slots != NONE
        at = np.where(stands, slots, 0)
        before = np.where(stands, self._worker[at], NONE)
        to = divided(before, np.array([lane.room for lane in self._lanes]))
        handles = np.where(to == before, self._handle[at], NONE)
        parts = {worker: np.flatnonzero(to == worker) for worker in np.unique(to).tolist()}
        incarnations = [lane.incarnation for lane in self._lanes]
        given = {
            worker: {
                "nodes": {
                    "paths": nodes.paths[part],
                    "lengths": nodes.lengths[part],
                    "priced": nodes.priced[part],
                    "handles": handles[part],
                },
                "tokens": vars(tokens.take(part)),
                "keep": keep,
            }
            for worker, part in parts.items()
        }
        answers = self._ask("expand", given)
        path, held, queries = np.zeros(len(nodes)), np.full(len(nodes), NONE, np.int64), 0
        log_probs = np.empty(tokens.shape(len(nodes)), np.float32)
        for worker, part in parts.items():
            answer = answers[worker]
            path[part] = answer["path_log_probs"]
            log_probs[tokens.places(part)] = answer["log_probs"]
            held[part] = self._kept(worker, answer["handles"], lengths[part])
            own = part[stands[part]]
            if answer["incarnation"] != incarnations[worker] or (before[own] != worker).any():
                depths = self._slots.depth[slots[own]]
                other = part[~stands[part]]
                queries += int((lengths[own] - depths).sum())
                queries += rows_below(np.asarray(nodes.paths)[other], lengths[other])
            else:
                queries += answer["queries"]
        return Expansion(path, log_probs, held, queries)

    def release(self, handles: IntArray) -> None:
        """Let go of states; -1 and stale handles are ignored."""
        slots = self._slots.resolve(np.unique(np.asarray(handles, np.int64)))
        slots = slots[slots != NONE]
        for worker in np.unique(self._worker[slots]):
            if worker != NONE:
                self._lanes[worker].released.append(
                    self._handle[slots[self._worker[slots] == worker]]
                )
        self._slots.drop(slots)

    def most_queries(self, nodes: Nodes, held: IntArray, degrees: IntArray) -> Ints:
        """See `canary.models.language_model.TellsQueries`."""
        if not self._tells:
            return np.asarray(nodes.lengths, np.int64) - held
        given = {"nodes": vars(nodes), "held": held, "degrees": degrees}
        most: Ints = self._ask("most_queries", {0: given})[0]["most"]
        return most

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        if kind is None:  # else the workers may be gone, and soon will be
            about = {"walker": self._number}
            self._workers.ask([Call("close", about, k) for k in range(self._workers.count)])

    def _ask(self, method: str, given: Mapping[int, dict[str, Any]]) -> dict[int, Any]:
        """What workers answer, by their numbers; what they may let go of they are told as well."""
        calls = [
            Call(
                method,
                {"at": self._lanes[worker].at(self._number, self._opening), **about},
                worker,
            )
            for worker, about in given.items()
        ]
        try:
            answers = dict(zip(given, self._workers.ask(calls), strict=True))
        except BaseException:
            for worker in given:  # what they hold now nobody knows
                self._lose(worker, "")
            raise
        for worker, answer in answers.items():
            self._lanes[worker].room = answer["room"]
            if answer["incarnation"] != self._lanes[worker].incarnation:
                self._lose(worker, answer["incarnation"])
        return answers

    def _room(self) -> int:
        return sum(lane.room for lane in self._lanes)

    def _standing(self, nodes: Nodes, lengths: Ints) -> Ints:
        """Slot of the state that each node stands on; NONE without one that serves."""
        slots = self._slots.resolve(np.asarray(nodes.handles, np.int64))
        depths = np.where(slots == NONE, -1, self._slots.depth[slots] if len(slots) else -1)
        unusable = (depths >= nodes.priced) | (depths >= lengths)
        return np.where(unusable, NONE, slots)

    def _kept(self, worker: int, handles: Ints, lengths: Ints) -> Ints:
        """Handles of this walker for those of a worker."""
        which = np.flatnonzero(handles != NONE)
        if len(which) > self._slots.free:  # of workers that lost states which are still named
            self._lanes[worker].released.append(handles[which[self._slots.free :]])
            which = which[: self._slots.free]
        slots = self._slots.take(0, np.full(len(which), NONE, np.int64))
        self._slots.depth[slots] = lengths[which]
        self._worker[slots], self._handle[slots] = worker, handles[which]
        own = np.full(len(handles), NONE, np.int64)
        own[which] = self._slots.handles(slots)
        return own

    def _lose(self, worker: int, incarnation: str) -> None:
        """The states of a worker are gone."""
        self._worker[self._worker == worker] = NONE
        self._lanes[worker].released, self._lanes[worker].incarnation = [], incarnation


def _facts(answers: Sequence[dict[str, Any]]) -> ModelFacts:
    """The facts of all workers, which differ in the noise of their arithmetic only."""
    for name, first in answers[0].items():
        others = {str(answer[name]) for answer in answers[1:]} - {str(first)}
        if others and name != "noise_bits_per_token":
            raise ServerError(
                f"the workers do not have the same model: {name} is {first} and {min(others)}",
                cure="bring the same files to all machines, and machines of answer kind together",
                where=str(answers[0]["name"]),
            )
    noise = max(answer["noise_bits_per_token"] for answer in answers)
    same = {**answers[0], "noise_bits_per_token": noise}
    return ModelFacts(**{**same, "capabilities": tuple(same["capabilities"])})


def _check_versions(answers: Sequence[dict[str, str]]) -> None:
    """Refuse workers whose numbers would come of other software than is recorded."""
    here = versions()
    for answer in answers:
        for name in sorted(here.keys() | answer.keys()):
            if here.get(name) != answer.get(name):
                raise ServerError(
                    f"a worker has {name} {answer.get(name, '(none)')}, and this process has "
                    f"{here.get(name, '(none)')}",
                    cure="install the same versions on all machines",
                    where="versions",
                )
