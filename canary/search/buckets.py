"""Open nodes of a best-first walk, in buckets of cost.

The nodes are in arrays; a `SortedDict` maps cost buckets to their places. Taking from the lowest
bucket and dropping from the dearest one cost no more than the nodes taken or dropped.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sortedcontainers import SortedDict

from canary.models.language_model import Walker
from canary.search.step import Frontier

Ints = NDArray[np.int64]

WIDTH_NATS = 0.5
"""Width of a bucket; a power of two, so that a bucket's floor is exact."""

_DEPTHS = 2**16
_FIRST_PLACES = 2**10
_COLUMNS = tuple(field.name for field in fields(Frontier) if field.name != "handles")


class OpenNodes:
    """Open nodes by cost, and the states of their parents that a walker holds for them.

    A bucket holds nodes of one depth, since a walker computes those together; of equal
    costs the deepest come first. A parent's state is let go with its last open child.
    """

    def __init__(self, walker: Walker) -> None:
        self._walker = walker
        self._buckets: SortedDict = SortedDict()
        self._places = _Places()
        self._columns: dict[str, NDArray[Any]] = {}
        self._parent = np.zeros(0, np.int64)
        # Parents: a handle, the depth of its state, and how many open nodes stand on it.
        # The first one is the root, whose state no handle names.
        self._parents = _Places()
        self._handles = np.full(_FIRST_PLACES, -1, np.int64)
        self._depths = np.zeros(_FIRST_PLACES, np.int64)
        self._children = np.zeros(_FIRST_PLACES, np.int64)
        self._children[self._parents.take(1)] = 1  # for good

    def __len__(self) -> int:
        return self._places.taken

    @property
    def floor(self) -> float:
        """A lower bound on the costs of all open nodes, in nats; there must be one."""
        return float((self._buckets.peekitem(0)[0] // _DEPTHS) * WIDTH_NATS)

    def cheapest(self) -> float:
        """The least cost of an open node, in nats; infinity if none is open."""
        least, lowest = np.inf, None
        for key, parts in self._buckets.items():
            if lowest is not None and key // _DEPTHS > lowest:
                break
            lowest = key // _DEPTHS
            least = min(least, *(float(self._costs[part].min()) for part in parts))
        return least

    def add(self, nodes: Frontier, parents: Ints) -> None:
        """Open nodes, each above it the parent that `hold` named."""
        places = self._places.take(len(nodes))
        for name in _COLUMNS:
            values = getattr(nodes, name)
            if name not in self._columns:
                self._columns[name] = np.zeros((0, *values.shape[1:]), values.dtype)
            column = self._columns[name]
            if name == "paths" and values.shape[1] > column.shape[1]:
                column = np.pad(column, ((0, 0), (0, values.shape[1] - column.shape[1])))
            self._columns[name] = column = _reaching(column, self._places.size)
            if name == "paths":
                column[places, : values.shape[1]] = values
            else:
                column[places] = values
        self._parent = _reaching(self._parent, self._places.size)
        self._parent[places] = parents
        np.add.at(self._children, parents, 1)
        self.put_back(places)

    def hold(self, handles: Ints, depths: Ints, places: Ints, families: Ints) -> Ints:
        """Hold the states of expanded nodes for their children; gives what `add` needs.

        Parameters
        ----------
        handles, depths, places : int64 arrays of shape (n,)
            What the walker gave for the nodes, the depths of their states, where the nodes were.
        families : int64 array of shape (m,)
            For each child that is to be opened, the position of its parent in the batch. A parent
            whose state is not held passes on its own parent's.
        """
        parents = self._parent[places]
        wanted = np.zeros(len(handles), np.bool_)
        wanted[families] = True
        held = handles >= 0
        self._walker.release(handles[held & ~wanted])
        new = np.flatnonzero(held & wanted)
        records = self._parents.take(len(new))
        self._handles = _reaching(self._handles, self._parents.size)
        self._depths = _reaching(self._depths, self._parents.size)
        self._children = _reaching(self._children, self._parents.size)
        self._handles[records], self._depths[records] = handles[new], depths[new]
        self._children[records] = 0
        parents[new] = records
        return parents[families]

    def take(self, count: int) -> Ints:
        """Places of at most `count` nodes of the lowest bucket, which stay where they are."""
        key, parts = self._buckets.peekitem(0)
        taken: list[Ints] = []
        while parts and count > 0:
            part = parts.pop()
            if len(part) > count:
                parts.append(part[:-count])
                part = part[-count:]
            taken.append(part)
            count -= len(part)
        if not parts:
            del self._buckets[key]
        return np.concatenate(taken)

    def put_back(self, places: Ints) -> None:
        """File nodes at some places by their costs and depths: it undoes a `take`."""
        if not len(places):
            return
        bucket = np.floor(self._costs[places] / WIDTH_NATS).astype(np.int64)
        keys = bucket * _DEPTHS + (_DEPTHS - 1 - self._columns["lengths"][places])
        order = np.argsort(keys, kind="stable")
        keys, places = keys[order], places[order]
        starts = np.flatnonzero(np.diff(keys, prepend=keys[0] - 1))
        for key, part in zip(keys[starts].tolist(), np.split(places, starts[1:]), strict=True):
            self._buckets.setdefault(key, []).append(part)

    def states(self, places: Ints) -> Ints:
        """States in the token tree of the nodes at some places."""
        return np.asarray(self._columns["states"][places])

    def at(self, places: Ints) -> tuple[Frontier, Ints]:
        """The nodes at some places, and for each the depth of the state held above it."""
        columns = {name: self._columns[name][places] for name in _COLUMNS}
        columns["paths"] = columns["paths"][:, : int(columns["lengths"].max(initial=0))]
        parents = self._parent[places]
        return Frontier(**columns, handles=self._handles[parents]), self._depths[parents]

    def close(self, places: Ints) -> None:
        """Forget nodes that were taken; states that no open node needs are released."""
        if not len(places):
            return
        parents = self._parent[places]
        np.subtract.at(self._children, parents, 1)
        dead = np.unique(parents[self._children[parents] == 0])
        self._walker.release(self._handles[dead])
        self._parents.give(dead)
        self._places.give(places)

    def drop_from(self, cost: float) -> float:
        """Drop all nodes of at least this cost; gives the least cost dropped, or infinity."""
        least, lowest = np.inf, int(cost // WIDTH_NATS)
        for key in [*reversed(self._buckets)]:
            if key // _DEPTHS < lowest:
                break
            places = np.concatenate(self._buckets[key])
            dear = self._costs[places] >= cost
            least = min(least, self._drop(key, places[~dear], places[dear]))
        return least

    def trim(self, most: int) -> tuple[int, float]:
        """Drop the dearest nodes until `most` are left.

        Gives how many were dropped, and the least of their costs or infinity.
        """
        least, excess = np.inf, max(0, len(self) - most)
        left = excess
        for key in [*reversed(self._buckets)]:
            if not left:
                break
            places = np.concatenate(self._buckets[key])
            kept = max(len(places) - left, 0)
            if kept:
                places = places[np.argpartition(self._costs[places], kept)]
            left -= len(places) - kept
            least = min(least, self._drop(key, places[:kept], places[kept:]))
        return excess, least

    def make_room(self, count: int) -> None:
        """Release states that the dearest nodes need, until `count` more can be held.

        Those nodes stay open; should their turn come, their states are computed anew.
        More are released than were asked, an eighth of all, so that this is seldom done.
        """
        held = self._parents.taken - 1
        if self._walker.room >= count or not held:
            return
        count = max(count, held // 8)
        for key in [*reversed(self._buckets)]:
            for part in self._buckets[key]:
                parents = np.unique(self._parent[part])
                self._walker.release(self._handles[parents])
                self._handles[parents], self._depths[parents] = -1, 0
            if self._walker.room >= count:
                return

    @property
    def _costs(self) -> NDArray[Any]:
        return self._columns["costs"]

    def _drop(self, key: int, kept: Ints, dropped: Ints) -> float:
        """Leave only some nodes in a bucket; gives the least cost of the others."""
        del self._buckets[key]
        if len(kept):
            self._buckets[key] = [kept]
        least = float(self._costs[dropped].min(initial=np.inf))
        self.close(dropped)
        return least


class _Places:
    """Which places of an array that grows are taken."""

    def __init__(self) -> None:
        self.size = _FIRST_PLACES
        self.taken = 0
        self._free = np.arange(self.size - 1, -1, -1)  # a stack, the lowest on top

    def take(self, count: int) -> Ints:
        while self.size - self.taken < count:
            left = self._free[: self.size - self.taken]
            more = np.arange(2 * self.size - 1, self.size - 1, -1)
            self._free = np.concatenate([more, left, np.zeros(self.taken, np.int64)])
            self.size *= 2
        top = self.size - self.taken
        self.taken += count
        return self._free[top - count : top][::-1].copy()

    def give(self, places: Ints) -> None:
        top = self.size - self.taken
        self._free[top : top + len(places)] = places
        self.taken -= len(places)


def _reaching(column: NDArray[Any], size: int) -> NDArray[Any]:
    """The column, with room for at least `size` entries."""
    if len(column) >= size:
        return column
    longer = np.empty((size, *column.shape[1:]), column.dtype)
    longer[: len(column)] = column
    return longer
