"""Numbered places in a slab of model states, with handles that can go stale."""

from __future__ import annotations

import numpy as np

from canary.errors import OutOfMemory
from canary.models.language_model import Ints

__all__ = ["NONE", "Slots"]

NONE = -1
"""No slot, no parent, no handle."""


class Slots:
    """Which places of a slab are taken, by what, and for whom.

    A handle is a slot and its generation, so that a handle whose slot was given to
    another state is known to be stale. A slot lives while it is held, or while a slot
    that names it as its parent lives.

    Parameters
    ----------
    capacity : int
        Number of places.
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

        Raises
        ------
        OutOfMemory
            If fewer than n places are free; nothing is taken then.
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

    def ancestors(self, slots: Ints, depth: int) -> Ints:
        """The last `depth` slots of the chain that ends at each slot, shape (n, depth)."""
        chain = np.empty((len(slots), depth), np.int64)
        for level in range(depth - 1, -1, -1):
            chain[:, level] = slots
            slots = self.parent[slots]
        return chain
