"""Work done by a bounded number of threads, results as they come."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

__all__ = ["Outcome", "in_parallel"]

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Outcome(Generic[Result]):
    """What one piece of work gave: its place, and a value or what it raised."""

    place: int
    result: Result | None
    error: BaseException | None

    def value(self) -> Result:
        """The value; raises what the work raised."""
        if self.error is not None:
            raise self.error
        assert self.result is not None
        return self.result


def in_parallel(
    work: Callable[[Item], Result], items: Sequence[Item], *, at_once: int
) -> Iterator[Outcome[Result]]:
    """What `work` gives for each item, in the order in which it is done.

    After one has raised nothing else is begun; what is in hand is finished and given. `work` is
    called in at most `at_once` other threads and never returns None. The threads do not hold up
    the end of the process, so that Ctrl-C need not wait for a server that hangs.
    """
    waiting: queue.SimpleQueue[tuple[int, Item]] = queue.SimpleQueue()
    done: queue.SimpleQueue[Outcome[Result] | None] = queue.SimpleQueue()
    over = threading.Event()
    for numbered in enumerate(items):
        waiting.put(numbered)

    def serve() -> None:
        while not over.is_set() and not waiting.empty():
            try:
                place, item = waiting.get_nowait()
            except queue.Empty:
                break
            try:
                done.put(Outcome(place, work(item), None))
            except BaseException as error:  # given on to whoever waits
                over.set()
                done.put(Outcome(place, None, error))
        done.put(None)

    threads = min(at_once, len(items))
    try:
        for _ in range(threads):
            threading.Thread(target=serve, daemon=True).start()
        while threads:
            outcome = done.get()
            if outcome is None:
                threads -= 1
            else:
                yield outcome
    finally:
        over.set()
