"""A real Ray cluster: what of an environment reaches the workers, on whose connection."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from canary.errors import InputError
from canary.workers.cluster import RayWorkers

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.timeout(1800),
]  # a busy machine starts a cluster in a minute


def found(workers):
    """What one worker reads in its folder, and two of its variables."""
    task = lambda shared, jobs: [  # noqa: E731 - crosses by value
        {
            "text": Path("brought.txt").read_text(),
            "variables": [os.environ["OMP_NUM_THREADS"], os.environ["GIVEN"]],
        }
        for _ in jobs
    ]
    ((_, result),) = workers.run(task, {}, [{}])
    return result


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "brought.txt").write_text("here")
    return str(tmp_path)


WANTED = {"text": "here", "variables": ["2", "yes"]}


def test_folder_and_variables_go_to_a_cluster_that_is_started(folder):
    given = {"working_dir": folder, "env_vars": {"GIVEN": "yes"}}
    assert found(RayWorkers(processors=1, threads=2, environment=given)) == WANTED


def test_variables_go_to_a_connection_of_the_caller_and_its_folder_stays(folder):
    import ray

    told = {"configure_logging": False, "log_to_driver": False, "include_dashboard": False}
    ray.init("local", num_cpus=1, runtime_env={"working_dir": folder}, **told)
    try:
        given = {"env_vars": {"GIVEN": "yes"}}
        assert found(RayWorkers(threads=2, environment=given)) == WANTED
        with pytest.raises(InputError, match="connected to Ray already, with another environment"):
            found(RayWorkers(environment={"working_dir": folder}))
        assert ray.is_initialized()
    finally:
        ray.shutdown()
