"""Workers of a Ray cluster that each keep one thing, and answer calls to it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any

from canary.errors import ServerError
from canary.workers.cluster import RayWorkers, deaths, told
from canary.workers.jobs import Plain

__all__ = ["Call", "KeepingWorkers"]

_AHEAD = 2
"""Calls that wait or run at one worker: it has the next when it is done with one."""

_LOOK = 10.0
"""Seconds without an answer after which the machines are counted.

A worker may be lost with its machine before the cluster knows that this is gone, and another
be waiting for room that will never be.
"""


@dataclass(frozen=True)
class Call:
    """A method of what a worker keeps, and what it is given.

    Parameters
    ----------
    method : str
    given : mapping
        Plain data.
    to : int or None
        The number of the worker; None for whichever is free.
    """

    method: str
    given: Plain = field(default_factory=dict)
    to: int | None = None


class KeepingWorkers:
    """Workers that each keep what `make` gave them.

    A worker that dies is replaced, and its calls are made again: what answers a call must
    not rest on earlier ones, or must notice that they are gone. A call that lost its worker
    once more than ``workers.retries`` times is an error.

    Parameters
    ----------
    workers : RayWorkers
        Where, how many, and what each takes of its machine.
    make : callable
        Importable; makes what a worker keeps, at the first call to it.
    about : mapping
        Plain data; the arguments of `make`.

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
        self._workers, self._make, self._about = workers, make, dict(about)
        self._held = ExitStack()
        self._ray = self._held.enter_context(workers.connected())
        try:
            self._actors = [self._started() for _ in range(self._wanted())]
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
        todo = deque((number, call, self._workers.retries) for number, call in enumerate(calls))
        answers: list[Any] = [None] * len(calls)
        running: dict[Any, tuple[int, Call, int, Any]] = {}
        while todo or running:
            self._send(todo, running)
            ready, _ = self._ray.wait(list(running), num_returns=1, timeout=_LOOK)
            if not ready:
                self._check_room()
                continue
            (ticket,) = ready
            number, _, left, actor = running.pop(ticket)
            try:
                answers[number] = self._ray.get(ticket)
            except deaths(self._ray) as error:
                if not left:
                    raise self._given_up(error) from error
                self._replace(actor)
                todo.appendleft((number, calls[number], left - 1))
            except self._ray.exceptions.RayTaskError as error:
                raise error.cause from error
            except self._ray.exceptions.RayError as error:
                raise self._failed(error) from error
        return answers

    def close(self) -> None:
        """End the workers; a second time does nothing."""
        for actor in self._actors:
            self._ray.kill(actor)
        self._actors = []
        self._held.close()

    def _send(self, todo: deque[Any], running: dict[Any, Any]) -> None:
        """Make as many calls as find a worker with little to do, the first ones first."""
        loads = [0] * len(self._actors)
        for _, call, _, _ in running.values():
            loads[call.to] += 1
        later = []
        while todo:
            number, call, left = todo.popleft()
            to = min(range(len(loads)), key=loads.__getitem__) if call.to is None else call.to
            if loads[to] >= _AHEAD:
                later.append((number, call, left))
                if call.to is None:
                    break  # all have enough
                continue
            loads[to] += 1
            actor = self._actors[to]
            ticket = actor.call.remote(call.method, dict(call.given))
            running[ticket] = number, replace(call, to=to), left, actor
        todo.extendleft(reversed(later))

    def _wanted(self) -> int:
        """How many workers there shall be."""
        fitting = self._workers.room(self._ray)
        wanted = self._workers.workers or fitting
        if wanted > fitting:
            raise ServerError(
                f"the cluster has room for {fitting} workers of {self._workers.cpus:g} processors "
                f"and {self._workers.gpus:g} GPUs, and {wanted} were asked for",
                cure="ask for fewer, or for less of each",
                where=self._workers.address,
            )
        return wanted

    def _started(self) -> Any:
        kind = self._ray.remote(
            num_cpus=self._workers.cpus,
            num_gpus=self._workers.gpus,
            # Without Ray's own: it would not say how many there were.
            max_restarts=0,
            max_task_retries=0,
            runtime_env=self._workers.variables(),
        )(_Actor)
        return kind.remote(self._make, self._about)

    def _replace(self, actor: Any) -> None:
        """Put another in the place of a worker that died, unless that was done already."""
        if actor not in self._actors:
            return
        self._check_room()
        self._ray.kill(actor)  # where only its machine was out of reach, it would keep its place
        self._actors[self._actors.index(actor)] = self._started()

    def _check_room(self) -> None:
        """Refuse to wait for a worker that can start nowhere."""
        if self._workers.room(self._ray) < len(self._actors):
            raise ServerError(
                "a worker died, and the machines that are left have no room for another",
                cure="start again with fewer workers; what was finished is kept where a command "
                "can go on",
                where=self._workers.address,
            )

    def _failed(self, error: BaseException) -> ServerError:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        return ServerError(
            f"the cluster failed ({lines[0]})",
            cure="look at `ray status` and Ray's logs, then start again",
            where=self._workers.address,
        )

    def _given_up(self, error: BaseException) -> ServerError:
        return ServerError(
            told(error, self._workers.retries + 1),
            cure="look for what ends them in Ray's logs: mostly a machine without enough memory "
            "(smaller batches, fewer workers on one machine)",
            where=self._workers.address,
        )


class _Actor:
    """Runs in a worker."""

    def __init__(self, make: Callable[..., Any], about: Plain) -> None:
        self._make, self._about, self._kept = make, about, None

    def call(self, method: str, given: Plain) -> Any:
        """The answer; what is kept is made first if this is the first call."""
        if self._kept is None:
            self._kept = self._make(**self._about)
        return getattr(self._kept, method)(**given)
