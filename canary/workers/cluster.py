"""Jobs on a Ray cluster: one that is there, or one that is started on this machine."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from canary.errors import InputError, MissingExtraError, ServerError
from canary.workers.base import Lost, Plain, Task, groups

__all__ = ["RayWorkers", "deaths", "told"]

_PATIENCE = 10.0
"""Seconds to wait for an address to answer."""

_KINDS = ("CPU", "GPU")


@dataclass(frozen=True, kw_only=True)
class RayWorkers:
    """Workers of a Ray cluster.

    What all jobs share is put into the cluster's store once. A group of jobs is one task of
    Ray; never more than `in_flight` of them wait or run at a time. A group whose worker
    process or machine dies is given to another; so many times that it lost its worker and
    one, each of its jobs is `Lost`. What a task raises is raised here, and the rest is
    cancelled.

    Parameters
    ----------
    address : str
        ``HOST:PORT`` of the head of a cluster, or ``ray://HOST:PORT`` of its client server;
        ``auto`` for the cluster that this machine belongs to, ``local`` for one that is
        started here and stopped at the end.
    at_once : int
        Jobs that a task is given together.
    cpus, gpus : float
        What each group, or each actor, takes of a machine. A part of a GPU is a share of its
        memory that Ray counts and does not enforce.
    threads : int
        Threads of each worker process, for torch and numpy alike. The same number gives the
        same numbers as this process with as many.
    retries : int
        How often a group, or the call of an actor, is given to another worker.
    in_flight : int, optional
        Twice what the cluster's processors can run at once, if not given.
    processors : int, optional
        With ``local``, how many the cluster has; as many as the machine has if not given.
    actors : int, optional
        Workers that each keep a model (`canary.load`); as many as the cluster has room for if
        not given.
    environment : mapping
        Ray's ``runtime_env``: ``working_dir`` or ``py_modules`` bring the modules of your
        training functions to other machines, ``pip`` what they need there.
    """

    address: str = "local"
    at_once: int = 1
    cpus: float = 1.0
    gpus: float = 0.0
    threads: int = 1
    retries: int = 3
    in_flight: int | None = None
    processors: int | None = None
    actors: int | None = None
    environment: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        least = {
            "at_once": 1,
            "threads": 1,
            "retries": 0,
            "in_flight": 1,
            "processors": 1,
            "actors": 1,
        }
        low = [
            f"{name}={value}"
            for name, limit in least.items()
            if (value := getattr(self, name)) is not None and value < limit
        ]
        if low or self.cpus <= 0 or self.gpus < 0 or not self.address:
            raise InputError(
                ", ".join(low) or f"address={self.address!r}, cpus={self.cpus}, gpus={self.gpus}",
                cure="give an address, at least 1 of jobs, threads and processors, more than 0 "
                "cpus, and 0 or more of gpus and retries",
                where="RayWorkers",
            )

    @property
    def elsewhere(self) -> bool:
        """Jobs leave this process."""
        return True

    def run(
        self, task: Task, shared: Plain, jobs: Sequence[Plain]
    ) -> Iterator[tuple[int, Plain | Lost]]:
        """The number of each job and its result, as they are finished, in any order.

        Raises
        ------
        MissingExtraError
            If Ray is not installed.
        ServerError
            If the cluster cannot be reached, or has no machine that a group fits on.
        """
        with self.connected() as ray:
            self.room(ray)
            yield from self._run(ray, task, shared, jobs)

    def _run(
        self, ray: Any, task: Task, shared: Plain, jobs: Sequence[Plain]
    ) -> Iterator[tuple[int, Plain | Lost]]:
        held = ray.put(dict(shared))
        # Without Ray's own retries: it would not say how many there were.
        remote = ray.remote(num_cpus=self.cpus, num_gpus=self.gpus, max_retries=0)(task)
        waiting = [(numbers, self.retries) for numbers in groups(len(jobs), self.at_once)][::-1]
        most = self.in_flight or 2 * max(int(ray.cluster_resources()["CPU"] / self.cpus), 1)
        running: dict[Any, tuple[range, int]] = {}
        try:
            while waiting or running:
                while waiting and len(running) < most:
                    numbers, left = waiting.pop()
                    ticket = remote.remote(held, [jobs[number] for number in numbers])
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
        ServerError
            If the cluster cannot be reached.
        """
        ray = _ray()
        if ray.is_initialized():
            yield ray
            return
        about: dict[str, Any] = {"runtime_env": self.surroundings()}
        if self.address == "local":
            about |= {"address": "local", "include_dashboard": False, "num_cpus": self.processors}
        else:
            about["address"] = self.address
        self._check_answers()
        try:
            with _handler_kept():
                ray.init(configure_logging=False, log_to_driver=False, **about)
        except (ConnectionError, OSError, RuntimeError, ValueError) as error:
            raise self._unreachable(error) from error
        try:
            yield ray
        finally:
            ray.shutdown()

    def surroundings(self) -> dict[str, Any]:
        """What worker processes begin with: Ray's ``runtime_env``."""
        variables = {
            **{f"{name}_NUM_THREADS": str(self.threads) for name in ("OMP", "MKL", "OPENBLAS")},
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
            **self.environment.get("env_vars", {}),
        }
        return {**self.environment, "env_vars": variables}

    def _check_answers(self) -> None:
        """Find out in seconds whether anybody listens; Ray itself asks for minutes."""
        host, _, port = self.address.removeprefix("ray://").rpartition(":")
        if not host:
            return
        try:
            socket.create_connection((host, int(port)), _PATIENCE).close()
        except (OSError, ValueError, OverflowError) as error:
            raise self._unreachable(error) from error

    def _unreachable(self, error: Exception) -> ServerError:
        return ServerError(
            f"no Ray cluster can be reached ({str(error).partition(chr(10))[0]})",
            cure="check the address, and that `ray status` answers there; the same versions of "
            "Python and Ray run on both sides, and where the cluster asks for a token it is in "
            "RAY_AUTH_TOKEN; the address local starts a cluster here",
            where=self.address,
        )

    def room(self, ray: Any) -> int:
        """How many groups or actors the machines of the cluster hold at once.

        Raises
        ------
        ServerError
            If not one fits on any machine: it would wait for ever.
        """
        machines = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        places = sum(self._places(machine) for machine in machines)
        if not places:
            most = [max((node.get(kind, 0) for node in machines), default=0) for kind in _KINDS]
            raise ServerError(
                f"no machine of the cluster has {self.cpus:g} processors and {self.gpus:g} GPUs; "
                f"the most are {most[0]:g} and {most[1]:g}",
                cure="ask for fewer, or start a worker node that has them",
                where=self.address,
            )
        return places

    def _places(self, machine: Mapping[str, float]) -> int:
        """How many fit on one machine."""
        fitting = machine.get("CPU", 0) / self.cpus
        if self.gpus:
            fitting = min(fitting, machine.get("GPU", 0) / self.gpus)
        return int(fitting + 1e-9)


def _ray() -> Any:
    try:
        import ray
    except ImportError as error:
        raise MissingExtraError(
            "Ray is not installed",
            cure="pip install '.[distributed]' in a checkout of canary (or pip install ray)",
            where="RayWorkers",
        ) from error
    return ray


def deaths(ray: Any) -> tuple[type[BaseException], ...]:
    """What Ray raises when a worker is gone, and nothing that a task raised."""
    names = (
        "WorkerCrashedError",
        "NodeDiedError",
        "ObjectLostError",
        "OutOfMemoryError",
        "RayActorError",
    )
    return tuple(getattr(ray.exceptions, name) for name in names)


def told(error: BaseException, workers: int) -> str:
    """How many workers died at something, and of what the last."""
    kind = type(error).__name__
    return f"{workers} worker{'s' if workers > 1 else ''} died at it, the last by {kind}"


@contextmanager
def _handler_kept() -> Iterator[None]:
    """What this process does on SIGTERM stays its own; Ray would put its handler there."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    held = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, held)
