"""Batches as large as pay and fit: one loop for rows, nodes and samples, and its batch size.

Larger batches are faster until they leave the caches, then slower: a two-layer LSTM of
200 units computes twice as many tokens per second at 1,024 rows as at 16,384.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from canary.errors import OutOfMemory
from canary.records.clocks import seconds

T = TypeVar("T")

_PAYS = 1.04
_PAIRS = 3
# One size, the other twice, the first again: kinds that alternate do not fall into step with it.
_CANDIDATES_TURNS = (1, 2)
_FIRST_REST, _LONGEST_REST = 16, 1024


class BatchTuner:
    """Proposes batch sizes and learns from how long they took.

    It climbs: it compares its size with twice or half of it, batch against batch in turn, so
    that a machine that is busy for a second slows both alike, and moves where that pays. One
    pair of batches is enough at first, so that a short walk is soon at a good size; from the
    first pair that speaks against a move, it takes three.

    Parameters
    ----------
    start, limit : int
        First and largest size tried.
    fixed : bool
        Keep `start`; only running out of memory makes it smaller.
    """

    def __init__(self, *, start: int = 64, limit: int = 2**20, fixed: bool = False) -> None:
        self._limit = max(limit, 1)
        self._center = min(start, self._limit)
        self._fixed = fixed
        self._up = True
        self._failed = 0  # directions that did not pay since the last move
        self._rest = 0  # batches until the next trial; the pauses grow while nothing moves
        self._pause = _FIRST_REST
        self._warm = False
        self._pairs = 1
        self._tried = 0  # batches of this trial
        self._rates: dict[int, tuple[list[float], list[float]]] = {}  # center, candidate

    @property
    def size(self) -> int:
        """How many items the next batch should have."""
        if self._fixed or self._rest or self._tried % 4 not in _CANDIDATES_TURNS:
            return self._center
        return self._candidate

    @property
    def _candidate(self) -> int:
        wanted = 2 * self._center if self._up else self._center // 2
        return min(max(wanted, 1), self._limit)

    def observe(self, items: int, seconds: float, *, kind: int = 0) -> None:
        """Learn that a batch of `items` took `seconds`; only full batches count.

        Only batches of one `kind` are compared: deep nodes take longer than shallow ones.
        """
        if self._fixed or items != self.size or seconds <= 0:
            return
        if not self._warm:  # the first batch pays for lazy initialisation
            self._warm = True
        elif self._rest:
            self._rest -= 1
        else:
            rates = self._rates.setdefault(kind, ([], []))
            rates[self._tried % 4 in _CANDIDATES_TURNS].append(items / seconds)
            self._tried += 1
            if min(map(len, rates)) == self._pairs:
                self._decide(pays=max(rates[1]) > _PAYS * max(rates[0]))

    def shrink(self, failed: int) -> None:
        """A batch of `failed` items did not fit: never propose more than half of it again."""
        self._limit = max(1, min(self._limit, failed // 2))
        self._center = min(self._center, self._limit)
        self._tried, self._rates = 0, {}

    def _decide(self, *, pays: bool) -> None:
        candidate, self._tried, self._rates = self._candidate, 0, {}
        if pays and candidate != self._center:
            self._center = candidate
            self._failed, self._pause = 0, _FIRST_REST
        elif self._pairs < _PAIRS:
            self._pairs = _PAIRS
        else:
            self._up = not self._up
            self._failed += 1
            if self._failed == 2:
                self._failed = 0
                self._rest, self._pause = self._pause, min(2 * self._pause, _LONGEST_REST)


class BatchLoop:
    """Items of one kind through a model: batches as large as pay, halved where memory runs out.

    Parameters
    ----------
    batch_size : int or None
        Items in a batch, whatever they weigh; found by trial if None.
    start, limit : int
        What the items of a batch weigh together at first, and at most.
    waited_for : bool
        Whether something else than this thread computes, so that time on the clock counts. On a
        processor other programs take turns with this one; their time says nothing of a size.
    at_once : int
        Batches that are asked for together.
    """

    def __init__(
        self,
        batch_size: int | None,
        *,
        start: int,
        limit: int = 2**20,
        waited_for: bool = False,
        at_once: int = 1,
    ) -> None:
        self._fixed, self._at_once = batch_size is not None, at_once
        self._clock = time.perf_counter if waited_for else time.thread_time
        self._tuner = BatchTuner(start=start, limit=limit)
        if batch_size is not None:
            self._tuner = BatchTuner(start=batch_size, fixed=True)

    @property
    def size(self) -> int:
        """What the items of the next batch should weigh together."""
        return self._tuner.size

    def run(
        self,
        count: int,
        ask: Callable[[Sequence[slice]], Sequence[T]],
        *,
        weights: NDArray[np.int64] | None = None,
        whole: bool = False,
        kind: int = 0,
    ) -> Iterator[tuple[slice, T]]:
        """What `ask` gives for each batch of the items ``0..count-1``, in their order.

        Parameters
        ----------
        weights : int64 array of shape (count,), optional
            Of the items, descending: in a batch each takes as much as the heaviest. 1 each
            unless given.
        whole : bool
            Try all at once first.
        kind : int
            Whatever else the time of a batch depends on.

        Raises
        ------
        OutOfMemory
            If not even one item fits.
        """
        done = 0
        while done < count:
            heaviest = 1 if weights is None or self._fixed else max(int(weights[done]), 1)
            parts = [slice(done, count)] if whole else self._parts(done, count, weights)
            most = max(part.stop - part.start for part in parts)
            began, answers = seconds(self._clock), None
            try:
                answers = ask(parts)
            except OutOfMemory:
                if most == 1:
                    raise
            if answers is None:  # not in the except: its error holds the tensors that did not fit
                self._tuner.shrink(most * heaviest)
                whole = False
                continue
            if all(part.stop - part.start == self._room(part.start, weights) for part in parts):
                self._tuner.observe(self._tuner.size, seconds(self._clock) - began, kind=kind)
            yield from zip(parts, answers, strict=True)
            done = parts[-1].stop

    def _room(self, first: int, weights: NDArray[np.int64] | None) -> int:
        """Items of a batch that begins with this one."""
        if weights is None or self._fixed:
            return self._tuner.size
        return max(1, self._tuner.size // max(int(weights[first]), 1))

    def _parts(self, done: int, count: int, weights: NDArray[np.int64] | None) -> list[slice]:
        # The last items, which one batch would take, are for all workers, too.
        most = count if self._fixed else -(-(count - done) // self._at_once)
        parts: list[slice] = []
        while done < count and len(parts) < self._at_once:
            parts.append(slice(done, min(done + min(self._room(done, weights), most), count)))
            done = parts[-1].stop
        return parts
