"""Ray absent or unreachable, workers that cannot be; by a stand-in for Ray, so without it."""

from __future__ import annotations

import socket
import sys

import fleets
import numpy as np
import pytest
from stand_in_ray import ray_of

from canary.errors import InputError, MissingExtraError, ServerError
from canary.fleet.running import Fleet
from canary.fleet.splits import subsets
from canary.workers.cluster import KeepingWorkers, RayWorkers
from canary.workers.jobs import Lost


def fleet(train=fleets.means, models=3):
    return Fleet(train, fleets.made(), subsets(30), models, 0, outputs="logits")


@pytest.fixture
def ray(monkeypatch):
    def put(**options):
        module = ray_of(**options)
        monkeypatch.setitem(sys.modules, "ray", module)
        return module

    return put


def test_ray_that_is_not_installed_is_named_with_its_cure(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match=r"pip install '\.\[distributed\]'"):
        fleet().run(workers=RayWorkers())


def test_an_address_where_nobody_listens_is_refused_at_once(ray):
    module = ray()
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{held.getsockname()[1]}"
        for given in (address, f"ray://{address}"):
            with pytest.raises(ServerError, match="no Ray cluster can be reached .*refused"):
                fleet().run(workers=RayWorkers(address=given))
    assert not module.told  # Ray itself was not asked


@pytest.mark.parametrize(
    ("address", "error"),
    [
        ("auto", ConnectionError("no head\nhere")),
        ("auto", ValueError("address")),
        ("host:port", None),
        ("127.0.0.1:99999", None),
    ],
)
def test_where_there_is_no_cluster_is_told(address, error, ray):
    ray(init=error)
    with pytest.raises(ServerError, match=f"{address}: no Ray cluster can be .* `ray status`"):
        fleet().run(workers=RayWorkers(address=address))


def test_the_same_table_and_never_more_in_flight_than_said(ray):
    module = ray()
    table = fleet(models=7).run(workers=RayWorkers(in_flight=2))
    assert module.most == 2
    assert (table.signal("loss") == fleet(models=7).run().signal("loss")).all()
    assert module.told["runtime_env"]["env_vars"]["OMP_NUM_THREADS"] == "1"


def test_deaths_are_retried_and_no_oftener_than_said(ray):
    ray(deaths=3)
    assert not fleet().run(workers=RayWorkers(retries=3)).missing
    ray(deaths=3)
    with pytest.warns(UserWarning, match="0: 3 workers died at it, the last by DiedError"):
        table = fleet().run(workers=RayWorkers(retries=2, in_flight=1))
    assert list(table.missing) == [0]


def test_a_group_is_lost_as_a_whole(ray):
    ray(deaths=1)
    task = lambda shared, jobs: [{"is": job["n"]} for job in jobs]  # noqa: E731
    jobs = [{"n": n} for n in range(3)]
    found = dict(RayWorkers(retries=0, at_once=2, in_flight=1).run(task, {}, jobs))
    lost = Lost("1 worker died at it, the last by DiedError")
    assert found == {0: lost, 1: lost, 2: {"is": 2}}


def test_what_fits_on_no_machine_is_refused(ray):
    ray()
    with pytest.raises(ServerError, match="has 4 processors and 0 GPUs; the most are 2 and 0"):
        fleet().run(workers=RayWorkers(cpus=4))
    with pytest.raises(ServerError, match="and 1 GPUs"):
        fleet().run(workers=RayWorkers(gpus=1))


def inside():
    def train(task):
        return np.zeros((len(task.samples), 3))

    return train


@pytest.mark.parametrize("train", [lambda task: None, inside()])
def test_functions_that_cannot_be_imported_do_not_cross(train):
    with pytest.raises(InputError, match="put it at the top of a module"):
        fleet(train).run(workers=RayWorkers())


def connected(module, monkeypatch, made=()):
    """Ray, connected already: by canary for these workers, or by the caller."""
    module.is_initialized = lambda: True
    monkeypatch.setattr("canary.workers.cluster._MADE", [*made])


@pytest.mark.parametrize("run", ["fleet", "keeping"])
def test_what_only_a_new_connection_can_be_given_is_refused_on_another(run, ray, monkeypatch):
    connected(ray(), monkeypatch)
    bringing = RayWorkers(environment={"working_dir": ".", "env_vars": {"A": "1"}})
    with pytest.raises(InputError, match=r"with another environment; .* ray\.init\(runtime_env"):
        use(run, bringing)


def use(run, workers):
    if run == "fleet":
        return fleet().run(workers=workers)
    return KeepingWorkers(workers, dict, {})


@pytest.mark.parametrize("run", ["fleet", "keeping"])
def test_variables_and_threads_count_on_a_connection_of_the_caller(run, ray, monkeypatch):
    module = ray()
    connected(module, monkeypatch)
    use(run, RayWorkers(address="other:6379", threads=3, environment={"env_vars": {"A": "1"}}))
    assert not module.told  # nothing was connected
    given = module.options["runtime_env"]["env_vars"]
    assert (given["A"], given["OMP_NUM_THREADS"]) == ("1", "3")


def test_all_of_the_environment_goes_to_a_connection_that_is_made(ray):
    module = ray()
    fleet().run(workers=RayWorkers(environment={"working_dir": ".", "env_vars": {"A": "1"}}))
    given = module.told["runtime_env"]
    assert (given["working_dir"], given["env_vars"]["A"]) == (".", "1")


def test_a_second_use_joins_the_connection_of_the_first_or_is_refused(ray, monkeypatch):
    first = RayWorkers(address="local", processors=2, environment={"working_dir": "."})
    settings = {"address": "local", "processors": 2, "environment": {"working_dir": "."}}
    connected(ray(), monkeypatch, made=[settings])
    assert not fleet().run(workers=first).missing
    with pytest.raises(
        InputError, match="already, with another address and processors; give the same"
    ):
        fleet().run(workers=RayWorkers(address="auto", environment={"working_dir": "."}))
    with pytest.raises(InputError, match="already, with another environment; give the same"):
        fleet().run(workers=RayWorkers(processors=2))


UNUSED = (
    ("fleet", {"workers": 2}, "workers=2 would change nothing here; leave workers out"),
    ("keeping", {"at_once": 2}, "at_once=2 would change nothing here; leave them out"),
    ("keeping", {"in_flight": 2, "at_once": 3}, "at_once=3, in_flight=2 would change nothing"),
)


@pytest.mark.parametrize(("run", "options", "told"), UNUSED)
def test_settings_of_the_other_use_are_refused(run, options, told, ray):
    module = ray()
    with pytest.raises(InputError, match=told):
        use(run, RayWorkers(**options))
    assert not module.told


WRONG = (
    {"at_once": 0},
    {"retries": -1},
    {"in_flight": 0},
    {"cpus": 0},
    {"gpus": -1},
    {"workers": 0},
    {"address": ""},
    {"processors": 2, "address": "auto"},
)


@pytest.mark.parametrize("options", WRONG)
def test_settings_refused(options):
    with pytest.raises(InputError, match=next(iter(options))):
        RayWorkers(**options)
