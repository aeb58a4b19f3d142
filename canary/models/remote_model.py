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

from canary.errors import ServerError
from canary.models.facts import ModelFacts
from canary.models.language_model import (
    Children,
    Context,
    Expansion,
    FloatArray,
    IntArray,
    Ints,
    Memory,
    Moments,
    Nodes,
    Rows,
)
from canary.models.state_cache import NONE, Slots
from canary.records.validation import versions
from canary.tokens.tokenizer import Tokenizer
from canary.workers.cluster import Call, KeepingWorkers

_RUN = 8  # nodes side by side that stay together: they share ancestors
_UNEVEN = 1.5  # times its share: a worker with more gives nodes away, elsewhere they cost more


class SpreadModel:
    """A model behind the seam that is computed by workers.

    A context manager; leaving it ends the workers, as does the end of the process.

    Parameters
    ----------
    workers : KeepingWorkers
        Each keeps a `canary.models.remote_worker.KeptModel`.
    tokenizer : Tokenizer
    facts : ModelFacts
    sharing : sequence of int
        How many workers share the memory that each has.
    tells_moments : bool
        Whether it has `moments`.
    """

    def __init__(
        self,
        workers: KeepingWorkers,
        tokenizer: Tokenizer,
        facts: ModelFacts,
        sharing: Sequence[int],
        *,
        tells_moments: bool,
    ) -> None:
        self._workers, self.tokenizer, self.facts = workers, tokenizer, facts
        self._sharing = sharing
        self._walkers = itertools.count()
        if tells_moments:
            self.moments = lambda rows: self.moments_each([rows])[0]

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
        answers = self._workers.ask([Call("moments", vars(rows)) for rows in batches])
        return [Moments(*answer) for answer in answers]

    def open(self, context: Context, *, memory_bytes: int) -> SpreadWalker:
        """A walker at every worker, with an equal part of `memory_bytes` each."""
        opening = {"context": vars(context), "memory_bytes": memory_bytes // self.workers}
        return SpreadWalker(self._workers, next(self._walkers), opening)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.facts}>"

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


def spread_over(workers: KeepingWorkers, tokenizer: Tokenizer) -> SpreadModel:
    """The model that all of some workers keep.

    If they have different models, or other versions of the software than this process, they are
    ended with a ServerError.
    """
    try:
        answers = _of_all(workers, "about")
        here = versions()
        for there in (answer["versions"] for answer in answers):
            for name in sorted(here.keys() | there.keys()):
                if here.get(name) != there.get(name):
                    raise ServerError(
                        f"a worker has {name} {there.get(name, '(none)')}, and this process has "
                        f"{here.get(name, '(none)')}",
                        cure="install the same versions on all machines",
                        where="versions",
                    )
        facts = _facts([answer["facts"] for answer in answers])
    except BaseException:
        workers.close()
        raise
    hardware = [answer["hardware"] for answer in answers]
    sharing = [hardware.count(machine) for machine in hardware]
    return SpreadModel(workers, tokenizer, facts, sharing, tells_moments=answers[0]["moments"])


def _of_all(workers: KeepingWorkers, method: str) -> list[Any]:
    return workers.ask([Call(method, to=worker) for worker in range(workers.count)])


def _facts(answers: Sequence[dict[str, Any]]) -> ModelFacts:
    """The facts of all workers, which differ in the noise of their arithmetic only."""
    for name, first in answers[0].items():
        others = {str(answer[name]) for answer in answers[1:]} - {str(first)}
        if others and name != "noise_bits_per_token":
            problem = f"the workers do not have the same model: {name} is {first} and {min(others)}"
            cure = "bring the same files to all machines, and machines of answer kind together"
            raise ServerError(problem, cure=cure, where=str(answers[0]["name"]))
    noise = max(answer["noise_bits_per_token"] for answer in answers)
    same = {**answers[0], "noise_bits_per_token": noise}
    return ModelFacts(**{**same, "capabilities": tuple(same["capabilities"])})


@dataclass
class _Lane:
    """What is known of the walker at one worker."""

    incarnation: str = ""
    room: int = 0
    released: list[Ints] = field(default_factory=list)


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
        self._slots = Slots(max(sum(lane.room for lane in self._lanes), 1))
        self._worker, self._handle = np.full((2, self._slots.capacity), NONE, np.int64)

    @property
    def room(self) -> int:
        """How many more nodes can be held."""
        due = [worker for worker, lane in enumerate(self._lanes) if lane.released]
        self._ask("open", {worker: {} for worker in due})
        return sum(lane.room for lane in self._lanes)

    def expand(self, nodes: Nodes, tokens: Children, *, keep: bool = True) -> Expansion:
        """See `canary.models.language_model.Walker.expand`."""
        lengths = np.asarray(nodes.lengths, np.int64)
        slots, depths = self._slots.usable(nodes)
        held_here = slots != NONE
        before = np.where(held_here, self._worker[slots], NONE)
        to = divided(before, np.array([lane.room for lane in self._lanes]))
        handles = np.where(to == before, self._handle[slots], NONE)
        parts = {worker: np.flatnonzero(to == worker) for worker in np.unique(to).tolist()}
        incarnations = [lane.incarnation for lane in self._lanes]
        known = {**vars(nodes), "handles": handles}
        given = {
            worker: {
                "nodes": {name: array[part] for name, array in known.items()},
                "tokens": vars(tokens.take(part)),
                "keep": keep,
            }
            for worker, part in parts.items()
        }
        answers = self._ask("expand", given)
        path, kept, queries = np.zeros(len(nodes)), np.full(len(nodes), NONE, np.int64), 0
        log_probs = np.empty(tokens.shape(len(nodes)), np.float32)
        for worker, part in parts.items():
            answer = answers[worker]
            path[part] = answer["path_log_probs"]
            log_probs[tokens.places(part)] = answer["log_probs"]
            kept[part] = self._kept(worker, answer["handles"], lengths[part])
            own, other = part[held_here[part]], part[~held_here[part]]
            if answer["incarnation"] != incarnations[worker] or (before[own] != worker).any():
                queries += int((lengths[own] - depths[own]).sum())
                queries += rows_below(np.asarray(nodes.paths)[other], lengths[other])
            else:
                queries += answer["queries"]
        return Expansion(path, log_probs, kept, queries)

    def release(self, handles: IntArray) -> None:
        """Let go of states; -1 and stale handles are ignored."""
        slots = self._slots.resolve(np.unique(np.asarray(handles, np.int64)))
        slots = slots[slots != NONE]
        for worker, lane in enumerate(self._lanes):
            if len(own := slots[self._worker[slots] == worker]):
                lane.released.append(self._handle[own])
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
        """What workers answer, by their numbers; what they may let go of they are told once."""
        calls = []
        for worker, about in given.items():
            lane = self._lanes[worker]
            at = {
                "walker": self._number,
                "incarnation": lane.incarnation,
                "opening": self._opening,
                "released": np.concatenate([np.zeros(0, np.int64), *lane.released]),
            }
            lane.released = []
            calls.append(Call(method, {"at": at, **about}, worker))
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


def divided(workers: Ints, room: Ints) -> Ints:
    """The worker of each node of a batch, shape (n,), from 0 to k - 1.

    Nodes stay where their states are, unless that worker has far more than its share: then it
    gives the excess away, in runs spread over all that it has, so that the children of any
    part of the batch are spread as well. Those without a state fill the others up. A batch of
    a few nodes goes to one worker as far as its states let it. `workers` says where the state
    below each node is, -1 for nowhere, and `room` how many more states each worker can hold.
    """
    n, k = len(workers), len(room)
    to = workers.copy()
    held = np.bincount(workers[workers >= 0], minlength=k)
    if n < 2 * _RUN:
        to[workers < 0] = np.lexsort((room, held))[-1]
        return to
    share = max(-(-n // k), _RUN)
    for worker in np.flatnonzero(held > _UNEVEN * share):
        own = np.flatnonzero(workers == worker)
        part = (len(own) - share) / len(own)
        run = np.arange(len(own)) // _RUN
        given = np.floor((run + 1) * part) > np.floor(run * part)
        to[own[given]] = -1
        held[worker] -= np.count_nonzero(given)
    free = np.flatnonzero(to < 0)
    wanted = np.maximum(share - held, 0)
    # Workers in turn, each as often as it has room for below its share.
    turn = np.repeat(np.arange(k), wanted)
    number = np.arange(len(turn)) - np.repeat(np.cumsum(wanted) - wanted, wanted)
    order = turn[np.argsort((number + 0.5) / wanted[turn], kind="stable")]
    runs = np.arange(len(free)) // _RUN * _RUN
    to[free] = order[np.minimum(runs, len(order) - 1)]
    return to


def rows_below(paths: IntArray, lengths: Ints) -> int:
    """Tokens that one walker computes for nodes without states: shared ancestors once."""
    rows = int(np.count_nonzero(lengths))
    for depth in range(1, int(lengths.max(initial=0))):
        rows += len(np.unique(paths[lengths > depth, :depth], axis=0))
    return rows
