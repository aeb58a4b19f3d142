"""Jobs on a Ray cluster: one that is there, or one that is started on this machine."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from typing import Any

from canary.errors import InputError, MissingExtraError, ServerError
from canary.workers.jobs import Lost, Plain, Task, groups

_PATIENCE = 10.0
"""Seconds to wait for an address to answer."""

_LEAST = {"at_once": 1, "threads": 1, "retries": 0, "in_flight": 1, "processors": 1, "workers": 1}

_MADE: list[dict[str, Any]] = []
"""Settings of the connection that canary made; none where there is none, or the caller made it."""


@dataclass(frozen=True, kw_only=True)
class RayWorkers:
    """Workers of a Ray cluster: they train a fleet (`run`), or keep a model (`canary.load`).

    What all jobs of a fleet share is put into the cluster's store once. A group of jobs is one
    task of Ray; never more than `in_flight` of them wait or run at a time. A group whose worker
    process or machine dies is given to another, `retries` times; then each of its jobs is `Lost`.
    What a task raises is raised here, and the rest is cancelled.

    Parameters
    ----------
    address : str
        ``HOST:PORT`` of the head of a cluster, or ``ray://HOST:PORT`` of its client server;
        ``auto`` for the cluster that this machine belongs to, ``local`` for one that is
        started here and stopped at the end.
    at_once : int
        For fleets alone: jobs that a task is given together.
    cpus, gpus : float
        What each worker takes of a machine. A part of a GPU is a share of its
        memory that Ray counts and does not enforce.
    threads : int
        Threads of each worker process, for torch and numpy alike. The same number gives the
        same numbers as this process with as many.
    retries : int
        How often a group of jobs, or a call, is given to another worker.
    in_flight : int, optional
        For fleets alone: groups that wait or run; twice what the cluster's processors can run
        at once, if not given.
    processors : int, optional
        With ``local`` alone: how many the cluster has; as many as the machine has if not given.
    workers : int, optional
        For `canary.load` alone: how many keep the model; as many as the cluster has room for if
        not given.
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
    stays: it decides in the place of `address` and `processors`. `cpus`, `gpus`, `threads` and
    the ``env_vars`` of `environment` count there as well; the rest of `environment` is refused,
    since Ray takes it when it connects.
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

    @property
    def elsewhere(self) -> bool:
        """Jobs leave this process."""
        return True

    def refuse(self, *others: str, cure: str) -> None:
        """Refuse settings of another use, which this one would pass over.

        Raises
        ------
        InputError
            If one of them was given.
        """
        given = [
            f"{one.name}={value}"
            for one in fields(self)
            if one.name in others and (value := getattr(self, one.name)) != one.default
        ]
        if given:
            raise InputError(
                f"{', '.join(given)} would change nothing here", cure=cure, where="RayWorkers"
            )

    def run(
        self, task: Task, shared: Plain, jobs: Sequence[Plain]
    ) -> Iterator[tuple[int, Plain | Lost]]:
        """The number of each job and its result, as they are finished, in any order.

        Raises
        ------
        MissingExtraError
            If Ray is not installed.
        InputError
            If `workers` was given.
        ServerError
            If the cluster cannot be reached, or has no machine that a group fits on.
        """
        self.refuse(
            "workers",
            cure="leave workers out: they keep a model (canary.load); in_flight says how many "
            "groups of a fleet wait or run at a time",
        )
        with self.connected() as ray:
            self.room(ray)
            yield from self._run(ray, task, ray.put(dict(shared)), jobs)

    def _run(
        self, ray: Any, task: Task, shared: Any, jobs: Sequence[Plain]
    ) -> Iterator[tuple[int, Plain | Lost]]:
        # Without Ray's own retries: it gives a task that runs out of memory to workers for ever.
        remote = ray.remote(max_retries=0, **self.options())(task)
        waiting = [(numbers, self.retries) for numbers in groups(len(jobs), self.at_once)][::-1]
        most = self.in_flight or 2 * max(int(ray.cluster_resources()["CPU"] / self.cpus), 1)
        running: dict[Any, tuple[range, int]] = {}
        try:
            while waiting or running:
                while waiting and len(running) < most:
                    numbers, left = waiting.pop()
                    ticket = remote.remote(shared, [jobs[number] for number in numbers])
                    running[ticket] = numbers, left
                (ticket,), _ = ray.wait(list(running), num_returns=1)
                numbers, left = running.pop(ticket)
                try:
                    results = ray.get(ticket)
                except deaths(ray) as error:
                    if left:
                        waiting.append((numbers, left - 1))
                        continue
                    results = [Lost(told(error, self.retries + 1))] * len(numbers)
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
        MissingExtraError
            If Ray is not installed.
        InputError
            If there is one that would have had to be made in another way.
        ServerError
            If the cluster cannot be reached.
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
            _check_connection(settings)
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
            "runtime_env": {**self.environment, **self._variables()},
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
        return {
            "num_cpus": self.cpus,
            "num_gpus": self.gpus,
            "runtime_env": self._variables(),
        }

    def _variables(self) -> dict[str, Any]:
        variables = {
            **{f"{name}_NUM_THREADS": str(self.threads) for name in ("OMP", "MKL", "OPENBLAS")},
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
            **self.environment.get("env_vars", {}),
        }
        return {"env_vars": variables}

    def room(self, ray: Any) -> int:
        """How many workers the machines of the cluster hold at once.

        Raises
        ------
        ServerError
            If not one fits on any machine: it would wait for ever.
        """
        machines = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        wanted = {"CPU": self.cpus, "GPU": self.gpus}
        room = sum(
            int(min(node.get(kind, 0) / part for kind, part in wanted.items() if part) + 1e-9)
            for node in machines
        )
        if not room:
            most = [max((node.get(kind, 0) for node in machines), default=0) for kind in wanted]
            raise ServerError(
                f"no machine of the cluster has {self.cpus:g} processors and {self.gpus:g} GPUs; "
                f"the most are {most[0]:g} and {most[1]:g}",
                cure="ask for fewer, or start a worker node that has them",
                where=self.address,
            )
        return room


def deaths(ray: Any) -> tuple[type[BaseException], ...]:
    """What Ray raises when a worker is gone, and nothing that a task raised."""
    names = "WorkerCrashed", "NodeDied", "ObjectLost", "OutOfMemory", "RayActor"
    return tuple(getattr(ray.exceptions, f"{name}Error") for name in names)


def told(error: BaseException, workers: int) -> str:
    """How many workers died at something, and of what the last."""
    kind = type(error).__name__
    return f"{workers} worker{'s' if workers > 1 else ''} died at it, the last by {kind}"


def _check_connection(settings: dict[str, Any]) -> None:
    """Refuse what a connection that is there cannot be given any more."""
    # Of the caller's nothing is known but that it was not made with this environment.
    made = _MADE[0] if _MADE else {**settings, "environment": {}}
    changed = [name for name, value in settings.items() if value != made[name]]
    if changed:
        raise InputError(
            f"this process is connected to Ray already, with another {' and '.join(changed)}",
            cure="give the same, or close first what uses that connection; on one of your "
            "own, give working_dir and the like to ray.init(runtime_env=...)",
            where="RayWorkers",
        )
