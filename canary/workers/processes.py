"""Jobs in processes of this machine, several at a time."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing import get_context, parent_process
from typing import Any, ClassVar

from canary.workers.jobs import Lost, Plain, Task

_GIVEN: list[Any] = []
"""In a worker: its task, and what all jobs share."""


@dataclass(frozen=True, kw_only=True)
class Processes:
    """Workers that are processes of this machine.

    The jobs of a process that dies are given to others; they are `Lost` when the processes died
    `retries` times in a row without an answer. The processes end with this one.

    Parameters
    ----------
    count : int
        How many work at a time.
    retries : int
    """

    count: int
    retries: int = 3
    at_once: ClassVar[int] = 1
    elsewhere: ClassVar[bool] = True

    def run(
        self, task: Task, shared: Plain, jobs: Sequence[Plain]
    ) -> Iterator[tuple[int, Plain | Lost]]:
        """Results as they are finished; what a task raises is raised here, after those at work."""
        waiting, tries = dict.fromkeys(range(len(jobs))), self.retries
        while waiting and tries:
            tries -= 1
            pool = ProcessPoolExecutor(
                min(self.count, len(waiting)),
                mp_context=get_context("spawn"),
                initializer=_begin,
                initargs=(task, dict(shared)),
            )
            try:
                numbers = {pool.submit(_work, jobs[number]): number for number in waiting}
                for answered in as_completed(numbers):
                    result = answered.result()
                    del waiting[numbers[answered]]
                    tries = self.retries
                    yield numbers[answered], result
            except BrokenProcessPool:
                pass
            finally:
                pool.shutdown(cancel_futures=True)
        for number in waiting:
            yield number, Lost(f"processes died at it {self.retries} times in a row")


def _begin(task: Task, shared: Plain) -> None:
    _GIVEN[:] = [task, shared]
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the first process ends the others
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)  # the pool's queue would keep it for ever


def _work(job: Plain) -> Plain:
    task, shared = _GIVEN
    (result,) = task(shared, [job])
    return result  # type: ignore[no-any-return]
