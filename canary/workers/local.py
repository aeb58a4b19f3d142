"""Jobs in this process, one after the other or several at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from canary.errors import InputError
from canary.workers.jobs import Lost, Plain, Task, groups


@dataclass(frozen=True, kw_only=True)
class Here:
    """Workers that are this process itself.

    Parameters
    ----------
    at_once : int
        Jobs that a task is given together: more than one for a training that takes many models
        at once.
    """

    at_once: int = 1
    elsewhere: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.at_once < 1:
            raise InputError(f"at_once={self.at_once}", cure="give at least 1", where="Here")

    def run(
        self, task: Task, shared: Plain, jobs: Sequence[Plain]
    ) -> Iterator[tuple[int, Plain | Lost]]:
        """Results in the order of the jobs; what a task raises is raised here."""
        for numbers in groups(len(jobs), self.at_once):
            yield from zip(numbers, task(shared, [jobs[number] for number in numbers]), strict=True)
