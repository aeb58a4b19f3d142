"""The seam to whatever runs independent jobs.

A *task* is an importable function of two arguments: what all jobs share, and a list of jobs. It
gives a result for each of them. Jobs, results and what is shared are plain data: mappings, lists,
text, numbers and arrays. A second run of the same jobs must have no further effects, so that jobs
whose worker died can be given to another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

Plain = Mapping[str, Any]
"""Plain data under names."""

Task = Callable[[Plain, Sequence[Plain]], Sequence[Plain]]
"""From what is shared and some jobs to a result for each."""


@dataclass(frozen=True)
class Lost:
    """Replaces the result of a job whose workers died."""

    reason: str


class Workers(Protocol):
    """Runs jobs."""

    @property
    def at_once(self) -> int:
        """Most jobs that a task is given together."""
        ...

    @property
    def elsewhere(self) -> bool:
        """Whether jobs leave this process, so that functions must cross by name."""
        ...

    def run(
        self, task: Task, shared: Plain, jobs: Sequence[Plain]
    ) -> Iterator[tuple[int, Plain | Lost]]:
        """The number of each job and its result, as they are finished, in any order."""
        ...


def groups(count: int, at_once: int) -> list[range]:
    """Numbers from 0 in groups of at most `at_once`."""
    return [range(first, min(first + at_once, count)) for first in range(0, count, at_once)]
