"""--ray: what is refused, with its cure; and the same result by a stand-in for Ray."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
from stand_in_ray import ray_of


def texts(count=40):
    lines = [json.dumps({"text": f"line {i} " + "abc " * (i % 5)}) + "\n" for i in range(count)]
    Path("texts.jsonl").write_text("".join(lines))
    return "texts.jsonl"


@pytest.fixture
def ray(monkeypatch):
    """A stand-in for Ray; what its workers add to the path is taken away again."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    module = ray_of(every=4)
    monkeypatch.setitem(sys.modules, "ray", module)
    return module


@pytest.fixture
def commands(model, workplace):
    """The commands that do the work of a model, as words."""
    return {
        "score": ["score", model, texts(), "--out", "scores.jsonl"],
        "exposure": ["exposure", model, "--canaries", "canaries.json"],
        "audit": ["audit", model, "--canaries", "canaries.json", "--out", "new"],
        "extract": ["extract", model, "The code is {digit:2}"],
    }


def test_ray_that_is_not_installed(commands, command, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    for words in commands.values():
        done = command(*words, "--ray", "local")
        assert (done.code, done.out) == (2, "")
        assert "Ray is not installed; pip install '.[distributed]'" in done.err
    assert not Path("scores.jsonl").exists()


WRONG = (
    (["--workers", "2"], "--workers given, and no cluster; give its address with --ray"),
    (["--worker-gpus", "1"], "--worker-gpus given, and no cluster"),
    (["--ray", "local", "--workers", "9"], "room for 2 workers of 1 processors .* 9 were asked"),
    (["--ray", "local", "--worker-cpus", "4"], "no machine of the cluster has 4 processors"),
    (["--ray", "local", "--worker-gpus", "1"], "and 1 GPUs; the most are 2 and 0; ask for fewer"),
    (["--ray", ""], "give an address"),
)


@pytest.mark.parametrize(("words", "told"), WRONG)
def test_options_that_cannot_be(words, told, commands, command, ray):
    done = command(*commands["score"], *words)
    assert done.code == 2
    assert re.search(told, done.err), done.err


def test_models_that_workers_cannot_load(command, workplace, ray):
    served = command("score", "http://localhost:1/v1", texts(), "--out", "o", "--ray", "local")
    assert served.code == 2
    assert "a served model is computed by its server, and workers were given" in served.err
    absent = command("score", "nowhere/at/all", texts(), "--out", "o", "--ray", "local")
    assert absent.code == 2
    assert not ray.actors  # found before any worker was started


def test_a_file_is_scored_to_the_last_bit_though_workers_die(commands, command, ray):
    batch = ["--batch-size", "8"]
    assert command(*commands["score"], *batch).code == 0
    here = Path("scores.jsonl").read_bytes()
    ray_words = ("--force", "--ray", "local", "--worker-cpus", "1")
    done = command(*commands["score"], *batch, *ray_words)
    assert done.code == 0, done.err
    assert "2 workers of the cluster keep it (cpu)" in done.err
    assert Path("scores.jsonl").read_bytes() == here
    assert sum(actor.restarts for actor in ray.actors) > 0


def test_candidates_are_the_same_though_workers_die(commands, command, ray):
    told = [command(*commands["extract"], "--json", *more) for more in ([], ["--ray", "auto"])]
    here, there = (one.document["candidates"] for one in told)
    assert [c["fill"] for c in there] == [c["fill"] for c in here]
    assert sum(actor.restarts for actor in ray.actors) > 0
