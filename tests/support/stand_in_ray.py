"""A module that answers as Ray does, with its workers in this process."""

from __future__ import annotations

import pickle
from types import ModuleType, SimpleNamespace

import numpy as np

_DEATHS = (
    "WorkerCrashedError",
    "NodeDiedError",
    "ObjectLostError",
    "OutOfMemoryError",
    "RayActorError",
)


class OtherError(Exception):
    """Whatever else Ray raises."""


class DiedError(OtherError):
    pass


class RaisedError(OtherError):
    def __init__(self, cause):
        super().__init__()
        self.cause = cause


class _Actor:
    def __init__(self, make, options, submit):
        self.make, self.options, self.killed, self.asked = make, options, False, []
        self.held, self.restarts = make(), 0
        self.call = SimpleNamespace(remote=lambda *given: submit(self, given))


def ray_of(*, init=None, deaths=0, every=0, cpus=2.0):
    """The module.

    The first jobs that it is given lose their worker, as many as `deaths`; and of the calls
    to actors each one whose number `every` divides, with its actor, which is started again.
    What crosses to an actor and back is copied, and arrays come out of it read-only.
    """
    ray = ModuleType("ray")
    ray.told, ray.options, ray.left, ray.most, ray.calls, ray.actors = {}, {}, deaths, 0, 0, []
    running = {}

    def start(**about):
        ray.told = about
        if init is not None:
            raise init

    def submit(worker, arguments):
        ticket = object()
        kept = isinstance(worker, _Actor)
        running[ticket] = worker, pickle.dumps(arguments) if kept else arguments
        of_it = sum(other is worker for other, _ in running.values())
        ray.most = max(ray.most, of_it if kept else len(running))
        return ticket

    def remote(**options):
        ray.options = options

        def of(task):
            if not isinstance(task, type):
                return SimpleNamespace(remote=lambda *given: submit(task, given))

            def begin(*given):
                ray.actors.append(_Actor(lambda: task(*given), options, submit))
                return ray.actors[-1]

            return SimpleNamespace(remote=begin)

        return of

    def get(ticket):
        worker, given = running.pop(ticket)
        if isinstance(worker, _Actor):
            return called(worker, given)
        if ray.left:
            ray.left -= 1
            raise DiedError
        try:
            return worker(*given)
        except Exception as error:
            raise RaisedError(error) from error

    def called(actor, given):
        for _ in range(1 + actor.options["max_task_retries"]):
            ray.calls += 1
            if not (ray.left or (every and ray.calls % every == 0)):
                break
            ray.left = max(ray.left - 1, 0)
            actor.held, actor.restarts = actor.make(), actor.restarts + 1
        else:
            raise DiedError
        try:
            arguments = _fixed(pickle.loads(given))
            actor.asked.append(arguments[0])
            found = pickle.dumps(actor.held.call(*arguments))
        except Exception as error:
            raise RaisedError(error) from error
        return _fixed(pickle.loads(found))

    ray.init, ray.shutdown, ray.is_initialized = start, lambda: None, lambda: False
    ray.put, ray.get, ray.remote = dict, get, remote
    ray.wait = lambda tickets, num_returns, timeout=None: (tickets[:1], tickets[1:])
    ray.cancel = lambda ticket, force: running.pop(ticket, None)
    ray.kill = lambda actor: vars(actor).update(held=None, killed=True)
    ray.cluster_resources = lambda: {"CPU": cpus}
    ray.nodes = lambda: [{"Alive": True, "Resources": {"CPU": cpus}}]
    ray.exceptions = SimpleNamespace(
        RayError=OtherError, RayTaskError=RaisedError, **dict.fromkeys(_DEATHS, DiedError)
    )
    return ray


def _fixed(value):
    """The same with its arrays read-only."""
    if isinstance(value, np.ndarray):
        value.flags.writeable = False
    elif isinstance(value, dict):
        for one in value.values():
            _fixed(one)
    elif isinstance(value, list | tuple):
        for one in value:
            _fixed(one)
    return value
