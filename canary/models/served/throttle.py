"""How many requests are on their way at once: fewer where the server says that they are many."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from multiprocessing.pool import ThreadPool
from typing import TypeVar

from canary.statistics.numbers import plural

Item = TypeVar("Item")
Answered = TypeVar("Answered")

_STEADY = 8
"""So often as many requests as go at once are answered before one more goes at once."""


class Throttle:
    """Lets at most `most` requests go at once, and none while the server wants to be left alone.

    It halves their number where the server throttles, and adds one after `_STEADY` rounds without.

    Parameters
    ----------
    most : int
    say : callable, optional
        Called with a line when the server throttles for the first time.
    """

    def __init__(self, most: int, say: Callable[[str], None] | None) -> None:
        self._most, self._top, self._say, self._steady = most, most, say, 0
        self._active, self._until, self._halved = 0, 0.0, 0
        self._turn, self._said = threading.Condition(), 0
        self.retries = 0
        """Requests so far that the server refused because they were too many."""

    @contextmanager
    def slot(self) -> Iterator[int]:
        """Wait for a turn and hold it; what is given belongs to `slower`."""
        with self._turn:
            while (wait := self._until - time.monotonic()) > 0 or self._active >= self._most:
                self._turn.wait(wait if wait > 0 else None)
            self._active += 1
            begun = self._halved
        try:
            yield begun
        finally:
            with self._turn:
                self._active -= 1
                self._steady += 1
                if self._steady > _STEADY * self._most and self._most < self._top:
                    self._most, self._steady = self._most + 1, 0
                self._turn.notify_all()

    def say_all(self) -> None:
        """Say how many retries there were, if there were any that were not said."""
        if self.retries > self._said and self._say is not None:
            self._say(f"Throttled by the server: {plural(self.retries, 'retry', 'retries')}")
        self._said = self.retries

    def pause(self, seconds: float) -> None:
        """Nothing is sent for some seconds."""
        with self._turn:
            self._until = max(self._until, time.monotonic() + seconds)

    def slower(self, begun: int) -> None:
        """Half as many at once, if that was not done since the request of `slot` was sent."""
        with self._turn:
            self.retries, self._steady = self.retries + 1, 0
            if begun != self._halved:
                return
            self._halved += 1
            self._most = max(self._most // 2, 1)
        if begun == 0 and self._say is not None:
            self._say("Throttled by the server (429): fewer requests at once from now on")


def in_parallel(
    work: Callable[[Item], Answered], items: Sequence[Item], *, at_once: int
) -> Iterator[tuple[int, Future[Answered]]]:
    """The place of each item and what `work` gives for it, in the order in which it is done.

    After one has raised nothing else is begun; what is in hand is finished and given. `work` is
    called in at most `at_once` other threads. They do not hold up the end of the process, as
    those of an executor do: Ctrl-C need not wait for a server that hangs.
    """
    over = threading.Event()

    def serve(numbered: tuple[int, Item]) -> tuple[int, Future[Answered]] | None:
        if over.is_set():
            return None
        future: Future[Answered] = Future()
        try:
            future.set_result(work(numbered[1]))
        except BaseException as error:  # given on to whoever waits
            over.set()
            future.set_exception(error)
        return numbered[0], future

    with ThreadPool(min(at_once, max(len(items), 1))) as pool:
        try:
            yield from filter(None, pool.imap_unordered(serve, enumerate(items)))
        finally:
            over.set()
