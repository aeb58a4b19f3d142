"""Shards of a corpus on a cluster: the same bytes, and machines that do not see them are named.

By a stand-in for Ray; ``tests/workers/test_ray_cluster.py`` has real workers that are killed.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from stand_in_ray import ray_of

from canary.corpus import shard_jobs
from canary.corpus.canaries import generate
from canary.corpus.discovery import discover
from canary.corpus.duplicates import duplicates
from canary.corpus.injection import inject_file
from canary.corpus.stripping import strip_file
from canary.corpus.verification import verify
from canary.errors import CorpusError, OutputError, ServerError
from canary.workers.cluster import RayWorkers

pytestmark = pytest.mark.filterwarnings("ignore:note. 1 of 6 files holds no record")

SET = generate("my pin {digit:6}", repetitions=[1, 4], per_repetition=3, controls=4, seed=0)


@pytest.fixture
def ray(monkeypatch):
    def put(**options):
        module = ray_of(**options)
        monkeypatch.setitem(sys.modules, "ray", module)
        return module

    return put


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Six files, one of them without a record, named from the folder above."""
    monkeypatch.chdir(tmp_path)
    Path("shards").mkdir()
    for number in range(5):
        rows = [{"text": f"One {number} {n}. Two. Call 555-01{n:02}."} for n in range(20)]
        text = "\n" * (number == 2) + "".join(json.dumps(row) + "\n" for row in rows)
        Path(f"shards/{number}.jsonl").write_text(text)
    Path("shards/none.jsonl").touch()
    return Path("shards")


def held(folder):
    return {path.name: path.read_bytes() for path in sorted(Path(folder).iterdir())}


@pytest.mark.parametrize("mode", ["record", "splice"])
@pytest.mark.parametrize("at_once", [1, 3])
def test_a_cluster_makes_and_counts_what_one_process_does(mode, at_once, folder, ray, monkeypatch):
    module, there = ray(deaths=2), RayWorkers(at_once=at_once)
    run = shard_jobs._with_same_files

    def elsewhere(*given):  # workers have a folder of their own to work in
        with monkeypatch.context() as patch:
            patch.chdir("/")
            return run(*given)

    monkeypatch.setattr(shard_jobs, "_with_same_files", elsewhere)
    wanted = inject_file(folder, "one", SET, mode=mode)
    assert inject_file(folder, "many", SET, mode=mode, workers=there) == wanted
    assert held("many") == held("one")
    assert not module.left  # two workers died
    assert verify("many", SET, workers=there) == verify("one", SET)
    one, many = (
        duplicates("many", workers=workers).to_dict() | {"files": ()} for workers in (1, there)
    )
    assert many == one
    found = discover("many", "{digit:3}-{digit:4}", workers=there)
    assert found == discover("one", "{digit:3}-{digit:4}")
    strip_file("many", "back", SET, workers=there)
    assert held("back") == held(folder)


def test_a_machine_that_does_not_see_the_files_ends_the_run(folder, ray, monkeypatch):
    ray()
    there = RayWorkers()
    run, change = shard_jobs._with_same_files, Path.unlink
    monkeypatch.setattr(shard_jobs.socket, "gethostname", lambda: "node7")

    def differently(shared, jobs):
        file = jobs[0]["files"][0][0]
        kept = file.read_bytes()
        change(file)
        try:
            return run(shared, jobs)
        finally:
            file.write_bytes(kept)

    monkeypatch.setattr(shard_jobs, "_with_same_files", differently)
    missing = r"0.jsonl: cannot be read by a worker on node7 .*; .* all machines of the cluster"
    for call in (
        lambda: verify(folder, SET, workers=there),
        lambda: discover(folder, "{digit:3}-{digit:4}", workers=there),
        lambda: duplicates(folder, workers=there),
        lambda: inject_file(folder, "out", SET, workers=there),
        lambda: strip_file(folder, "out", SET, workers=there),
    ):
        with pytest.raises(CorpusError, match=missing):
            call()
    change = lambda file: file.write_bytes(b"")  # noqa: E731 - a file of its own at the same path
    with pytest.raises(CorpusError, match=r"another file for a worker on node7 \(0 bytes in place"):
        verify(folder, SET, workers=there)


def test_a_file_that_was_written_out_of_sight_ends_the_run(folder, ray, monkeypatch):
    ray()
    run = shard_jobs._with_same_files

    def out_of_sight(shared, jobs):
        results = run(shared, jobs)
        Path("out/0.jsonl").unlink(missing_ok=True)
        return results

    with monkeypatch.context() as patch:
        patch.setattr(shard_jobs, "_with_same_files", out_of_sight)
        with pytest.raises(OutputError, match="this machine does not see it; .* all machines"):
            inject_file(folder, "out", SET, workers=RayWorkers())
    inject_file(folder, "out", SET)  # goes on
    inject_file(folder, "calm", SET)
    assert held("out") == held("calm")


def test_a_file_whose_workers_always_die_is_named(folder, ray):
    ray(deaths=100)
    with pytest.raises(ServerError, match=r"0.jsonl: 2 workers died at it"):
        verify(folder, SET, workers=RayWorkers(retries=1, in_flight=1))
