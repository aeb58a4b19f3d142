"""Workers of a Ray cluster: one that is there, or one that is started on this machine."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

from canary.errors import InputError, MissingExtraError, ServerError
from canary.workers.jobs import Lost, Plain, Task, groups

_PATIENCE = 10.0  # seconds to wait for an address to answer
_AHEAD = 2  # calls that wait or run at one worker: it has the next when it is done with one
_LOOK = 10.0
"""Seconds without an answer after which the machines are counted: one may be lost, and a worker
wait for room that will never be."""

_LEAST = {"at_once": 1, "threads": 1, "retries": 0, "in_flight": 1, "processors": 1, "workers": 1}

_MADE: list[dict[str, Any]] = []
"""Settings of the connection that canary made; none where there is none, or the caller made it."""


@dataclass(frozen=True, kw_only=True)
class RayWorkers:
    """Workers of a Ray cluster: they train a fleet, work on a corpus, or keep a model.

    A group of jobs is one task of Ray. A group whose worker process or machine dies is given to
    another, `retries` times; then each of its jobs is `Lost`. What a task raises is raised here,
    and the rest is cancelled.

    Parameters
    ----------
    address : str
        ``HOST:PORT`` of the head of a cluster, or ``ray://HOST:PORT`` of its client server;
        ``auto`` for the cluster that this machine belongs to, ``local`` for one that is
        started here and stopped at the end.
    at_once : int
        For fleets and corpora: jobs that a task is given together.
    cpus, gpus : float
        What each worker takes of a machine. Ray counts a part of a GPU and does not enforce it.
    threads : int
        Of each worker process, for torch and numpy alike; they decide rounding.
    retries : int
        How often a group of jobs, or a call, is given to another worker.
    in_flight : int, optional
        For fleets and corpora: groups that wait or run; unless given, twice what the cluster's
        processors can run at once.
    processors : int, optional
        With ``local`` alone: how many the cluster has; unless given, those of the machine.
    workers : int, optional
        For `canary.load` alone: how many keep the model; unless given, as many as there is
        room for.
    environment : mapping
        Ray's ``runtime_env``: ``working_dir`` or ``py_modules`` bring the modules of your
        training functions to other machines, ``pip`` what they need there.

    Raises
    ------
    InputError
        If a setting is out of its range, or `processors` are given for another cluster than
        ``local``; when the workers are used, if a setting of the other use was given.

    Notes
    -----
    A process has one connection to Ray. One that the caller made (``ray.init``) is used, and
    stays, whatever `address` and `processors` say. `cpus`, `gpus`, `threads` and the ``env_vars``
    of `environment` count there as well; the rest of `environment` is refused.
    """

    address: str = "local"
    at_once: int = 1
    cpus: float = 1.0
    gpus: float = 0.0
    threads: int = 1
    retries: int = 3
    in_flight: int | None = None
    processors: int | None = None
    workers: int | None = None
    environment: Mapping[str, Any] = field(default_factory=dict)
    elsewhere: ClassVar[bool] = True

    def __post_init__(self) -> None:
        low = [
            f"{name}={value}"
            for name, limit in _LEAST.items()
            if (value := getattr(self, name)) is not None and value < limit
        ]
        if low or self.cpus <= 0 or self.gpus < 0 or not self.address:
            raise InputError(
                ", ".join(low) or f"address={self.address!r}, cpus={self.cpus}, gpus={self.gpus}",
                cure="give an address, at least 1 of jobs, threads and processors, more than 0 "
                "cpus, and 0 or more of gpus and retries",
                where="RayWorkers",
            )
        if self.processors is not None and self.address != "local":
            raise InputError(
                f"processors={self.processors}, and the cluster is there already",
                cure="leave processors out: they are of a cluster that is started here (local); "
                "cpus says what each worker takes",
                where="RayWorkers",
            )

    def refuse(self, *others: str, cure: str) -> None:
        """Refuse settings of the other use, which would change nothing, by an InputError."""
        useless = [
            f"{setting.name}={value}"
            for setting in fields(self)
            if setting.name in others and (value := getattr(self, setting.name)) != setting.default
        ]
        if useless:
            raise InputError(
                f"{', '.join(useless)} would change nothing here", cure=cure, where="RayWorkers"
            )

    def run(
        self, task: Task, shared: Plain, jobs: Sequence[Plain]
    ) -> Iterator[tuple[int, Plain | Lost]]:
        """The number of each job and its result, as they are finished, in any order.

        Raises as `connected` and `room` do, and an InputError if `workers` was given.
        """
        self.refuse(
            "workers",
            cure="leave workers out: they keep a model (canary.load); in_flight says how many "
            "groups of a fleet wait or run at a time",
        )
        with self.connected() as ray:
            self.room(ray)
            at_hand = ray.put(dict(shared))
            # Ray itself would give a task that runs out of memory to workers for ever.
            remote = ray.remote(max_retries=0, **self.options())(task)
            waiting = [(numbers, self.retries) for numbers in groups(len(jobs), self.at_once)][::-1]
            most = self.in_flight or 2 * max(int(ray.cluster_resources()["CPU"] / self.cpus), 1)
            running: dict[Any, tuple[range, int]] = {}
            try:
                while waiting or running:
                    while waiting and len(running) < most:
                        numbers, left = waiting.pop()
                        ticket = remote.remote(at_hand, [jobs[number] for number in numbers])
                        running[ticket] = numbers, left
                    (ticket,), _ = ray.wait(list(running), num_returns=1)
                    numbers, left = running.pop(ticket)
                    try:
                        results = ray.get(ticket)
                    except _deaths(ray) as error:
                        if left:
                            waiting.append((numbers, left - 1))
                            continue
                        results = [Lost(self.died(error))] * len(numbers)
                    except ray.exceptions.RayTaskError as error:
                        raise error.cause from error
                    yield from zip(numbers, results, strict=True)
            finally:
                for ticket in running:
                    ray.cancel(ticket, force=True)

    @contextmanager
    def connected(self) -> Iterator[Any]:
        """Ray, connected to the cluster; a connection that the caller has is used, and stays.

        Raises
        ------
        MissingExtraError, ServerError
            If Ray is not installed, or the cluster cannot be reached.
        InputError
            If there is a connection that would have had to be made in another way.
        """
        try:
            import ray
        except ImportError as error:
            raise MissingExtraError(
                "Ray is not installed",
                cure="pip install '.[distributed]' in a checkout of canary (or pip install ray)",
                where="RayWorkers",
            ) from error
        settings = {
            "address": self.address,
            "processors": self.processors,
            "environment": {k: v for k, v in self.environment.items() if k != "env_vars"},
        }
        if ray.is_initialized():
            # Of the caller's nothing is known but that it was not made with this environment.
            made = _MADE[0] if _MADE else {**settings, "environment": {}}
            if changed := [name for name, value in settings.items() if value != made[name]]:
                raise InputError(
                    "this process is connected to Ray already, with another "
                    f"{' and '.join(changed)}",
                    cure="give the same, or close first what uses that connection; on one of your "
                    "own, give working_dir and the like to ray.init(runtime_env=...)",
                    where="RayWorkers",
                )
            yield ray
            return
        self._connect(ray)
        _MADE[:] = [settings]
        try:
            yield ray
        finally:
            _MADE.clear()
            ray.shutdown()

    def _connect(self, ray: Any) -> None:
        about: dict[str, Any] = {
            "address": self.address,
            "runtime_env": {**self.environment, **self.options()["runtime_env"]},
        }
        if self.address == "local":
            about |= {"include_dashboard": False, "num_cpus": self.processors}
        # Ray would take SIGTERM for itself.
        held = signal.getsignal(signal.SIGTERM)
        try:
            host, _, port = self.address.removeprefix("ray://").rpartition(":")
            if host:  # whether anybody listens shows in seconds; Ray itself asks for minutes
                socket.create_connection((host, int(port)), _PATIENCE).close()
            ray.init(configure_logging=False, log_to_driver=False, **about)
        except (OSError, OverflowError, RuntimeError, ValueError) as error:
            raise ServerError(
                f"no Ray cluster can be reached ({str(error).partition(chr(10))[0]})",
                cure="check the address, and that `ray status` answers there; the same versions of "
                "Python and Ray run on both sides, and where the cluster asks for a token it is in "
                "RAY_AUTH_TOKEN; the address local starts a cluster here",
                where=self.address,
            ) from error
        finally:
            if threading.current_thread() is threading.main_thread():
                signal.signal(signal.SIGTERM, held)

    def options(self) -> dict[str, Any]:
        """What each worker takes of a machine, and is given; on any connection."""
        variables = {
            **{f"{name}_NUM_THREADS": str(self.threads) for name in ("OMP", "MKL", "OPENBLAS")},
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
            **self.environment.get("env_vars", {}),
        }
        surroundings = {"env_vars": variables}
        return {"num_cpus": self.cpus, "num_gpus": self.gpus, "runtime_env": surroundings}

    def room(self, ray: Any) -> int:
        """How many workers the machines of the cluster hold at once; a ServerError if none."""
        machines = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        wanted = {"CPU": self.cpus, "GPU": self.gpus}
        room = sum(
            int(min(node.get(kind, 0) / part for kind, part in wanted.items() if part) + 1e-9)
            for node in machines
        )
        if not room:
            most = [max((node.get(kind, 0) for node in machines), default=0) for kind in wanted]
            raise self.failed(
                f"no machine of the cluster has {self.cpus:g} processors and {self.gpus:g} GPUs; "
                f"the most are {most[0]:g} and {most[1]:g}",
                "ask for fewer, or start a worker node that has them",
            )
        return room

    def failed(self, problem: str, cure: str) -> ServerError:
        """What is wrong with the cluster."""
        return ServerError(problem, cure=cure, where=self.address)

    def died(self, error: BaseException) -> str:
        """How many workers died at something, and of what the last."""
        workers = f"{self.retries + 1} worker{'s' if self.retries else ''}"
        return f"{workers} died at it, the last by {type(error).__name__}"


@dataclass(frozen=True)
class Call:
    """A method of what worker number `to` (None: whichever is free) keeps, and its arguments."""

    method: str
    given: Plain = field(default_factory=dict)
    to: int | None = None


class KeepingWorkers:
    """Workers that each keep what the importable `make` gives of plain data, at their first call.

    Ray starts a worker that dies again, and makes its calls again: what answers a call must not
    rest on earlier ones, or must notice that they are gone. A call that lost its worker more than
    ``workers.retries`` times is an error. `close`, or the end of the process, ends the workers,
    and a cluster that was started for them.

    Raises as `RayWorkers.connected` does, and a ServerError if the cluster cannot hold as many.
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
            room = workers.room(self._ray)
            self.count = workers.workers or room
            if self.count > room:
                raise workers.failed(
                    f"the cluster has room for {room} workers of {workers.cpus:g} processors "
                    f"and {workers.gpus:g} GPUs, and {self.count} were asked for",
                    "ask for fewer, or for less of each",
                )
            again = {"max_restarts": -1, "max_task_retries": workers.retries}
            kind = self._ray.remote(**again, **workers.options())(_Actor)
            self._actors = [kind.remote(make, dict(about)) for _ in range(self.count)]
        except BaseException:
            self._held.close()
            raise

    def ask(self, calls: Sequence[Call]) -> list[Any]:
        """What is answered to each call, in their order; what a call raises is raised here.

        A ServerError if a call ends its workers again and again, one cannot be replaced, or the
        cluster fails.
        """
        todo = deque(enumerate(calls))
        answers: list[Any] = [None] * len(calls)
        running: dict[Any, tuple[int, int]] = {}
        failed = self._workers.failed
        while todo or running:
            self._send(todo, running)
            ready, _ = self._ray.wait(list(running), num_returns=1, timeout=_LOOK)
            if not ready:
                if self._workers.room(self._ray) < self.count:  # one that died can start nowhere
                    raise failed(
                        "a worker died, and the machines that are left have no room for another",
                        "start again with fewer workers; what was finished is kept where a command "
                        "can go on",
                    )
                continue
            number, _ = running.pop(ready[0])
            try:
                answers[number] = self._ray.get(ready[0])
            except _deaths(self._ray) as error:
                raise failed(
                    self._workers.died(error),
                    "look for what ends them in Ray's logs: mostly a machine without enough "
                    "memory (smaller batches, fewer workers on one machine)",
                ) from error
            except self._ray.exceptions.RayTaskError as error:
                raise error.cause from error
            except self._ray.exceptions.RayError as error:
                first = (str(error).strip() or type(error).__name__).splitlines()[0]
                raise failed(
                    f"the cluster failed ({first})",
                    "look at `ray status` and Ray's logs, then start again",
                ) from error
        return answers

    def close(self) -> None:
        """End the workers; a second time does nothing."""
        for actor in self._actors:
            self._ray.kill(actor)
        self._actors, self.count = [], 0
        self._held.close()

    def _send(self, todo: deque[tuple[int, Call]], running: dict[Any, tuple[int, int]]) -> None:
        """Make calls, the first ones first, as far as their workers have little to do."""
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


class _Actor:
    """Runs in a worker; what it keeps is made at the first call."""

    def __init__(self, make: Callable[..., Any], about: Plain) -> None:
        self._make, self._about, self._kept = make, about, None

    def call(self, method: str, given: Plain) -> Any:
        if self._kept is None:
            self._kept = self._make(**self._about)
        return getattr(self._kept, method)(**given)


def _deaths(ray: Any) -> tuple[type[BaseException], ...]:
    """What Ray raises when a worker is gone, and nothing that a task raised."""
    names = "WorkerCrashed", "NodeDied", "ObjectLost", "OutOfMemory", "RayActor"
    return tuple(getattr(ray.exceptions, f"{name}Error") for name in names)
