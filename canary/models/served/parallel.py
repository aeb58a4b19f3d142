"""Work done by a bounded number of threads, results as they come."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def in_parallel(
    work: Callable[[Item], Result], items: Sequence[Item], *, at_once: int
) -> Iterator[tuple[int, Future[Result]]]:
    """The place of each item and what `work` gives for it, in the order in which it is done.

    After one has raised nothing else is begun; what is in hand is finished and given. `work` is
    called in at most `at_once` other threads. They do not hold up the end of the process, as
    those of an executor do: Ctrl-C need not wait for a server that hangs.
    """
    waiting: queue.SimpleQueue[tuple[int, Item]] = queue.SimpleQueue()
    done: queue.SimpleQueue[tuple[int, Future[Result]] | None] = queue.SimpleQueue()
    over = threading.Event()
    for numbered in enumerate(items):
        waiting.put(numbered)

    def serve() -> None:
        while not over.is_set():
            try:
                place, item = waiting.get_nowait()
            except queue.Empty:
                break
            future: Future[Result] = Future()
            try:
                future.set_result(work(item))
            except BaseException as error:  # given on to whoever waits
                over.set()
                future.set_exception(error)
            done.put((place, future))
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
