"""The walker that owns one preallocated slab of model states.

What an adapter adds is one step: from the states of some parents and one token each to
next-token distributions and, where asked, states.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from canary.errors import OutOfMemory
from canary.models.language_model import Children, Expansion, FloatArray, IntArray, Ints, Nodes

NONE = -1
"""No slot, no parent, no handle."""


class Slots:
    """Which of a slab's `capacity` places are taken, by what, and for whom.

    A handle is a slot and its generation, so that a handle whose slot was given to
    another state is known to be stale. A slot lives while it is held, or while a slot
    that names it as its parent lives.
    """

    BYTES = 41
    """What the bookkeeping of one place takes: five numbers and a flag."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.depth: Ints = np.zeros(capacity, np.int64)
        self.parent: Ints = np.full(capacity, NONE, np.int64)
        self._generation: Ints = np.zeros(capacity, np.int64)
        self._references: Ints = np.zeros(capacity, np.int64)
        self._held = np.zeros(capacity, np.bool_)
        # A stack; the lowest slots are taken first.
        self._stack: Ints = np.arange(capacity - 1, -1, -1, dtype=np.int64)
        self.free = capacity

    def take(self, depth: int, parents: Ints) -> Ints:
        """Slots for states of `depth` below the slots `parents` (NONE: none), shape (n,).

        An OutOfMemory if fewer than n places are free; nothing is taken then.
        """
        count = len(parents)
        if count > self.free:
            raise OutOfMemory(
                f"{count} states do not fit beside the {self.capacity - self.free} that are held",
                cure="give the walk more memory_bytes",
            )
        slots = self._stack[self.free - count : self.free][::-1].copy()
        self.free -= count
        self.depth[slots] = depth
        self.parent[slots] = parents
        self._references[slots] = 1
        self._held[slots] = True
        np.add.at(self._references, parents[parents != NONE], 1)
        return slots

    def drop(self, slots: Ints) -> None:
        """Give up held slots; those that no living slot descends from become free."""
        self._held[slots] = False
        while len(slots):
            np.subtract.at(self._references, slots, 1)
            dead = np.unique(slots[self._references[slots] == 0])
            parents = self.parent[dead]
            self._generation[dead] += 1
            self.parent[dead] = NONE
            self._stack[self.free : self.free + len(dead)] = dead[::-1]
            self.free += len(dead)
            slots = parents[parents != NONE]

    def handles(self, slots: Ints) -> Ints:
        """Handles of held slots."""
        return (self._generation[slots] << 32) | slots

    def resolve(self, handles: Ints) -> Ints:
        """Slots of handles; NONE where a handle is -1, stale or let go."""
        slots = handles & 0xFFFFFFFF
        valid = (handles >= 0) & (slots < self.capacity)
        slots = np.where(valid, slots, 0)
        if self.capacity:
            valid &= (self._generation[slots] == handles >> 32) & self._held[slots]
        return np.where(valid, slots, NONE)

    def usable(self, nodes: Nodes) -> tuple[Ints, Ints]:
        """Slots of the states that nodes can be computed from, and depths; NONE and 0 without."""
        slots = self.resolve(np.asarray(nodes.handles, np.int64))
        depth = np.where(slots == NONE, 0, self.depth[slots])
        # A cached state whose own next token still lacks its price is of no use: the
        # distribution after it is gone. The root's is kept.
        unusable = (depth >= nodes.priced) | (depth >= nodes.lengths)
        return np.where(unusable, NONE, slots), np.where(unusable, 0, depth)

    def ancestors(self, slots: Ints, depth: int) -> Ints:
        """The last `depth` slots of the chain that ends at each slot, shape (n, depth)."""
        chain = np.empty((len(slots), depth), np.int64)
        for level in range(depth - 1, -1, -1):
            chain[:, level] = slots
            slots = self.parent[slots]
        return chain


class NextTokens(Protocol):
    """Next-token distributions, one row for each token that a step computed."""

    def gather(self, rows: Ints, tokens: Ints) -> NDArray[np.float64]:
        """Log-probability of one token in each of the named rows, in nats."""

    def children(self, rows: Ints | None, children: Children) -> FloatArray:
        """Log-probabilities of children in the named rows (None: all, in order), in nats."""


class SlabWalker(ABC):
    """A `Walker` over states that are kept in slabs of fixed size, `_slabs`.

    Parameters
    ----------
    capacity : int
        Number of states that the slab holds.
    chained : bool
        Whether the state at a slot is only its own token's part, so that the states of
        its ancestors must stay alive with it (attention), or the whole (recurrence).
    context_log_probs : array of shape (p - 1,), nats
    root : NextTokens
        After the context, one row.
    """

    _slabs: list[Any]

    def __init__(
        self, capacity: int, *, chained: bool, context_log_probs: FloatArray, root: NextTokens
    ) -> None:
        self._slots = Slots(capacity)
        # Recomputing a path needs places for a moment; the held ones leave it a quarter.
        self._reserve = -(-capacity // 4)
        self._chained = chained
        self._root = root
        self.context_log_probs = context_log_probs

    @abstractmethod
    def _step(self, parents: Ints, depth: int, tokens: Ints, into: Ints) -> NextTokens:
        """One token below each parent, and what may follow it.

        Parameters
        ----------
        parents : int64 array of shape (n,)
            Slots of states of `depth` tokens below the context; NONE at depth 0.
        depth : int
        tokens : int64 array of shape (n,)
        into : int64 array of shape (m,), m <= n
            Slots for the states of the first m rows; the others are not kept.
        """

    @property
    def room(self) -> int:
        """How many more nodes can be held."""
        return max(0, self._slots.free - self._reserve)

    def release(self, handles: IntArray) -> None:
        """Let go of states; -1 and stale handles are ignored."""
        slots = self._slots.resolve(np.unique(np.asarray(handles, np.int64)))
        self._slots.drop(slots[slots != NONE])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._slabs.clear()

    def expand(self, nodes: Nodes, tokens: Children, *, keep: bool = True) -> Expansion:
        """See `canary.models.language_model.Walker.expand`."""
        lengths = np.asarray(nodes.lengths, np.int64)
        slots, depth = self._slots.usable(nodes)
        if len(nodes) and (lengths == lengths[0]).all() and (depth == lengths - 1).all():
            return self._expand_one_level(nodes, slots, tokens, keep=keep)
        return self._expand_levels(nodes, slots, depth, tokens, keep=keep)

    def _take(self, count: int, depth: int, parents: Ints) -> Ints:
        held = parents[:count] if self._chained else np.full(count, NONE, np.int64)
        return self._slots.take(depth, held)

    def _expand_one_level(
        self, nodes: Nodes, slots: Ints, tokens: Children, *, keep: bool
    ) -> Expansion:
        """The usual case: every node is one token below a cached state (or the root)."""
        n, length = len(nodes), int(nodes.lengths[0])
        last = np.asarray(nodes.paths[:, length - 1], np.int64)
        into = self._take(min(n, self.room) if keep else 0, length, slots)
        try:
            path = np.zeros(n)
            unpriced = np.flatnonzero(nodes.priced < length)
            if len(unpriced):  # only below the root
                path[unpriced] = self._root.gather(np.zeros_like(unpriced), last[unpriced])
            log_probs = self._step(slots, length - 1, last, into).children(None, tokens)
        except BaseException:
            self._slots.drop(into)
            raise
        handles = np.full(n, NONE, np.int64)
        handles[: len(into)] = self._slots.handles(into)
        return Expansion(path, log_probs, handles, n)

    def _expand_levels(
        self, nodes: Nodes, slots: Ints, depth: Ints, tokens: Children, *, keep: bool
    ) -> Expansion:
        """Nodes of any length over any held ancestor, one level of tokens after another.

        At each level nodes that pass through the same state by the same token share a row;
        the row of a node that ends there is its own, since it may be held. The states in
        between are let go as soon as the next level is computed from them.
        """
        n = len(nodes)
        paths = np.asarray(nodes.paths, np.int64)
        lengths: Ints = np.asarray(nodes.lengths, np.int64)
        priced: Ints = np.asarray(nodes.priced, np.int64)
        current, path, handles = slots.copy(), np.zeros(n), np.full(n, NONE, np.int64)
        log_probs = np.empty(tokens.shape(n), np.float32)
        kept: list[Ints] = []
        between = np.zeros(0, np.int64)  # slots of the level before, held for a moment
        above, row = self._root, np.zeros(n, np.int64)  # distributions before this token
        queries, room = 0, self.room

        def answer(distributions: NextTokens, rows: Ints, ends: Ints) -> None:
            if len(ends):
                children = tokens.take(ends)
                log_probs[tokens.places(ends)] = distributions.children(rows, children)

        roots = np.flatnonzero(lengths == 0)
        answer(self._root, row[roots], roots)
        try:
            for level in range(int(depth.min(initial=0)), int(lengths.max(initial=0))):
                here = np.flatnonzero((depth <= level) & (level < lengths))
                if not len(here):
                    continue
                asked = here[priced[here] <= level]
                path[asked] += above.gather(row[asked], paths[asked, level])
                ending = lengths[here] == level + 1
                through, ends = here[~ending], here[ending]
                # First the rows that nodes pass through, then those of nodes that end here.
                pairs = np.stack([current[through], paths[through, level]], axis=1)
                distinct, number = np.unique(pairs, axis=0, return_inverse=True)
                shared, number = len(distinct), number.reshape(-1)
                parents = np.concatenate([distinct[:, 0], current[ends]])
                last = np.concatenate([distinct[:, 1], paths[ends, level]])
                # States in between may take from the reserve, kept ones may not.
                spare = max(0, min(room, self._slots.free - shared))
                final = min(len(ends), spare) if keep else 0
                room -= final
                into = self._take(shared + final, level + 1, parents)
                kept.append(into[shared:])
                before, between = between, into[:shared]
                try:
                    above = self._step(parents, level, last, into)
                finally:
                    self._slots.drop(before)
                queries += len(last)
                current[through], row[through] = between[number], number
                answer(above, np.arange(shared, len(last)), ends)
                handles[ends[:final]] = self._slots.handles(kept[-1])
        except BaseException:
            self._slots.drop(np.concatenate([between, *kept]))
            raise
        self._slots.drop(between)
        return Expansion(path, log_probs, handles, queries)
