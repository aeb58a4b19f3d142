"""A real Ray cluster of two workers that keep a model: scoring, walks, an audit; and deaths."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from command_line import ENTRY, ENVIRONMENT, ROOT
from kept_models import FACTORY, calls_of_loading, saved

from canary.corpus.canaries import generate
from canary.errors import ServerError
from canary.models.language_model import Rows
from canary.models.loading import load
from canary.scoring.batcher import Batcher
from canary.workers.cluster import RayWorkers

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.timeout(1800),
]  # a busy machine starts a cluster in a minute

CODE = "T: {digit:4}."


@pytest.fixture(scope="module")
def _cluster():
    """One cluster for most: a connection that is there is used, and stays."""
    with RayWorkers(processors=2).connected():
        yield


@contextmanager
def _node(*words):
    """A machine of a cluster, for Ray."""
    ray = Path(sys.executable).with_name("ray")
    with subprocess.Popen(
        [ray, "start", "--block", "--num-cpus", "1", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "RAY_AUTH_MODE": "disabled"},
    ) as process:
        try:
            told = []
            for line in process.stdout:
                told.append(line)
                if "block forever" in line:
                    break
            else:
                pytest.fail("".join(told))
            yield process
        finally:
            process.terminate()


@pytest.fixture
def two_machines():
    """The address of a cluster of two nodes with one processor each."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
    head = ("--head", f"--port={port}", "--include-dashboard=false")
    with _node(*head), _node(f"--address=127.0.0.1:{port}"):
        yield f"127.0.0.1:{port}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return saved(tmp_path_factory.mktemp("models") / "kept")


@pytest.fixture
def kill(tmp_path, folder):
    """Variables by which one of the workers ends itself after so many calls, and the mark."""

    def after(calls):
        mark = tmp_path / "killed"
        return {"KILL_AT": f"{calls_of_loading(folder) + calls}:{mark}"}, mark

    return after


def kept(folder, variables=None, **options):
    there = RayWorkers(processors=2, environment={"env_vars": variables or {}}, **options)
    return load(folder, factory=FACTORY, workers=there)


@pytest.mark.usefixtures("_cluster")
def test_rows_are_scored_to_the_last_bit_when_a_worker_is_killed(folder, kill):
    rng = np.random.default_rng(0)
    rows = Rows.of([rng.integers(0, 45, rng.integers(2, 30)).tolist() for _ in range(400)])
    variables, mark = kill(5)
    here = load(folder, factory=FACTORY)
    with kept(folder, variables) as model:
        assert model.workers == 2
        assert model.facts == here.facts
        there = Batcher(model, batch_size=8).score(rows)
    assert mark.exists()
    assert (there == Batcher(here, batch_size=8).score(rows)).all()


@pytest.mark.usefixtures("_cluster")
def test_a_call_that_always_kills_ends_with_an_error(folder):
    with pytest.raises(ServerError, match="2 workers died at it, the last by Actor"):
        kept(folder, {"KILL_AT": "1:"}, retries=1, workers=1)


def command(*words, **variables):
    path = os.pathsep.join([str(ROOT), str(ROOT / "tests" / "support")])
    surroundings = {**ENVIRONMENT, "PYTHONPATH": path, **variables}
    surroundings.setdefault("OMP_NUM_THREADS", "1")
    return subprocess.run(
        [*ENTRY, *map(str, words)], capture_output=True, text=True, env=surroundings
    )


def test_an_audit_by_command_is_the_same_when_a_worker_is_killed(folder, kill, tmp_path):
    generate(CODE, repetitions=[1, 4], per_repetition=2, controls=2, seed=1).save(
        tmp_path / "canaries.json"
    )
    variables, mark = kill(60)
    words = ["audit", folder, "--factory", FACTORY, "--canaries", tmp_path / "canaries.json"]
    words += ["--draws", 300, "--batch-size", 32]
    here = command(*words, "--out", tmp_path / "here")
    there = command(
        *words, "--out", tmp_path / "there", "--ray", "local", "--workers", 2, "--json", **variables
    )
    assert here.returncode == there.returncode == 0, there.stderr
    assert mark.exists()
    assert "A worker died" in there.stderr  # Ray's own words stay out of stdout
    assert json.loads(there.stdout)["kind"] == "canary audit"
    assert "2 workers of the cluster keep it (cpu)" in there.stderr
    found, wanted = (
        json.loads((tmp_path / name / "audit.json").read_text()) for name in ("there", "here")
    )
    assert alike(found, wanted)


def test_scores_by_command_are_the_same_at_an_address(two_machines, folder, tmp_path):
    lines = (json.dumps({"text": f"line {i} " + "abc " * (i % 5)}) + "\n" for i in range(300))
    (tmp_path / "texts.jsonl").write_text("".join(lines))
    words = ["score", folder, tmp_path / "texts.jsonl", "--factory", FACTORY, "--batch-size", 16]
    here = command(*words, "--out", tmp_path / "here.jsonl")
    there = command(
        *(*words, "--out", tmp_path / "there.jsonl", "--ray", two_machines, "--workers", 2),
        RAY_AUTH_MODE="disabled",
    )
    assert here.returncode == there.returncode == 0, there.stderr
    assert (tmp_path / "there.jsonl").read_bytes() == (tmp_path / "here.jsonl").read_bytes()


def test_a_stop_ends_the_command_as_it_does_without_workers(folder, tmp_path):
    """Ray would have SIGTERM end the process in its own way."""
    (tmp_path / "texts.jsonl").write_text('{"text": "line"}\n' * 200_000)
    words = ["score", folder, tmp_path / "texts.jsonl", "--factory", FACTORY, "--ray", "local"]
    path = os.pathsep.join([str(ROOT), str(ROOT / "tests" / "support")])
    with subprocess.Popen(
        [*ENTRY, *map(str, [*words, "--workers", 1, "--out", tmp_path / "out.jsonl"])],
        stderr=subprocess.PIPE,
        text=True,
        env={**ENVIRONMENT, "PYTHONPATH": path},
    ) as process:
        assert any("keep" in line for line in process.stderr)
        process.terminate()
        told = process.stderr.read()
        assert process.wait() == 143, told
        assert "stopped" in told


def alike(found, wanted, noise=1e-4):
    """The same but for rounding, and for how long it took."""
    if isinstance(wanted, dict):
        names = wanted.keys() - {"seconds"}
        assert found.keys() == wanted.keys()
        return all(alike(found[name], wanted[name]) for name in names)
    if isinstance(wanted, list | tuple):
        assert len(found) == len(wanted)
        return all(map(alike, found, wanted))
    if isinstance(wanted, float):
        assert found == pytest.approx(wanted, rel=noise, abs=noise)
        return True
    assert found == wanted
    return True
