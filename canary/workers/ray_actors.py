"""Workers of a Ray cluster that each keep one thing, and answer calls to it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from canary.errors import ServerError
from canary.workers.cluster import RayWorkers, deaths, told
from canary.workers.jobs import Plain

_AHEAD = 2
"""Calls that wait or run at one worker: it has the next when it is done with one."""

_LOOK = 10.0
"""Seconds without an answer after which the machines are counted: one may be lost, and a worker
wait for room that will never be."""


@dataclass(frozen=True)
class Call:
    """A method of what a worker keeps, and the plain data that it is given.

    `to` is the number of the worker; None for whichever is free.
    """

    method: str
    given: Plain = field(default_factory=dict)
    to: int | None = None


class KeepingWorkers:
    """Workers that each keep what the importable `make` gives of plain data, at their first call.

    Ray starts a worker that dies again, and makes its calls again: what answers a call must
    not rest on earlier ones, or must notice that they are gone. A call that lost its worker
    more than ``workers.retries`` times is an error.

    Raises
    ------
    InputError
        If `at_once` or `in_flight` was given, which are for fleets.
    MissingExtraError
        If Ray is not installed.
    ServerError
        If the cluster cannot be reached, or has no room for so many.

    Notes
    -----
    `close` ends the workers, and a cluster that was started for them; so does the end of the
    process.
    """

    def __init__(self, workers: RayWorkers, make: Callable[..., Any], about: Plain) -> None:
        workers.refuse(
            "at_once",
            "in_flight",
            cure="leave them out: they are for fleets; workers says how many keep the model, each "
            "with two batches at most",
        )
        self._workers = workers
        self._held = ExitStack()
        self._ray = self._held.enter_context(workers.connected())
        try:
            kind = self._ray.remote(
                max_restarts=-1, max_task_retries=workers.retries, **workers.options()
            )(_Actor)
            self._actors = [kind.remote(make, dict(about)) for _ in range(self._wanted())]
        except BaseException:
            self._held.close()
            raise

    @property
    def count(self) -> int:
        """How many workers there are."""
        return len(self._actors)

    def ask(self, calls: Sequence[Call]) -> list[Any]:
        """What is answered to each call, in their order.

        No more than two at a time wait or run at one worker. What a call raises is raised
        here.

        Raises
        ------
        ServerError
            If a call ends its workers again and again, a worker cannot be replaced, or the
            cluster fails.
        """
        todo = deque(enumerate(calls))
        answers: list[Any] = [None] * len(calls)
        running: dict[Any, tuple[int, int]] = {}
        while todo or running:
            self._send(todo, running)
            ready, _ = self._ray.wait(list(running), num_returns=1, timeout=_LOOK)
            if not ready:
                self._check_room()
                continue
            (ticket,) = ready
            number, _ = running.pop(ticket)
            try:
                answers[number] = self._ray.get(ticket)
            except deaths(self._ray) as error:
                raise self._failed(
                    told(error, self._workers.retries + 1),
                    "look for what ends them in Ray's logs: mostly a machine without enough "
                    "memory (smaller batches, fewer workers on one machine)",
                ) from error
            except self._ray.exceptions.RayTaskError as error:
                raise error.cause from error
            except self._ray.exceptions.RayError as error:
                first = (str(error).strip() or type(error).__name__).splitlines()[0]
                raise self._failed(
                    f"the cluster failed ({first})",
                    "look at `ray status` and Ray's logs, then start again",
                ) from error
        return answers

    def close(self) -> None:
        """End the workers; a second time does nothing."""
        for actor in self._actors:
            self._ray.kill(actor)
        self._actors = []
        self._held.close()

    def _send(self, todo: deque[tuple[int, Call]], running: dict[Any, tuple[int, int]]) -> None:
        """Make as many calls as find a worker with little to do, the first ones first."""
        loads = [0] * self.count
        for _, worker in running.values():
            loads[worker] += 1
        later = []
        while todo and min(loads) < _AHEAD:
            number, call = todo.popleft()
            to = loads.index(min(loads)) if call.to is None else call.to
            if loads[to] >= _AHEAD:
                later.append((number, call))
                continue
            loads[to] += 1
            running[self._actors[to].call.remote(call.method, dict(call.given))] = number, to
        todo.extendleft(reversed(later))

    def _wanted(self) -> int:
        """How many workers there shall be."""
        room = self._workers.room(self._ray)
        wanted = self._workers.workers or room
        if wanted > room:
            raise self._failed(
                f"the cluster has room for {room} workers of {self._workers.cpus:g} processors "
                f"and {self._workers.gpus:g} GPUs, and {wanted} were asked for",
                "ask for fewer, or for less of each",
            )
        return wanted

    def _check_room(self) -> None:
        """Refuse to wait for a worker that can start nowhere."""
        if self._workers.room(self._ray) < self.count:
            raise self._failed(
                "a worker died, and the machines that are left have no room for another",
                "start again with fewer workers; what was finished is kept where a command "
                "can go on",
            )

    def _failed(self, problem: str, cure: str) -> ServerError:
        return ServerError(problem, cure=cure, where=self._workers.address)


class _Actor:
    """Runs in a worker."""

    def __init__(self, make: Callable[..., Any], about: Plain) -> None:
        self._make, self._about, self._kept = make, about, None

    def call(self, method: str, given: Plain) -> Any:
        """The answer; what is kept is made first if this is the first call."""
        if self._kept is None:
            self._kept = self._make(**self._about)
        return getattr(self._kept, method)(**given)
