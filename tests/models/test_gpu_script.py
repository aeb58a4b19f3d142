"""The script for a GPU works on a CPU too: every part, its JSON, and going on after an error."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import pytest

PLACE = Path(__file__).parents[1] / "gpu" / "run.py"
QUICK = ["--device", "cpu", "--quick", "--here"]


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("gpu_run", PLACE)
    module = importlib.util.module_from_spec(spec)
    sys.modules["gpu_run"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["gpu_run"]


@pytest.mark.parametrize(
    "part", ["memory", "enumeration", "search", "large", "fleet", "monitor", "environment"]
)
def test_part_runs_on_a_cpu(script, part, tmp_path):
    out = tmp_path / "cpu.json"
    assert script.main([*QUICK, "--out", str(out), "--parts", part]) == 0
    found = json.loads(out.read_text())["parts"][part]
    assert found["figures"], found
    assert found["figures"].get("peak bytes", 1) > 0


@pytest.mark.slow
def test_checks_of_the_seam_run_in_a_process_of_their_own(script, tmp_path):
    out = tmp_path / "cpu.json"
    words = ["--device", "cpu", "--quick", "--out", str(out), "--parts", "conformance"]
    assert script.main(words) == 0
    found = json.loads(out.read_text())["parts"]["conformance"]["figures"]
    assert all(not one["failed"] for one in found.values())


def test_what_failed_is_tried_again_and_what_is_done_is_not(script, tmp_path, monkeypatch):
    out, runs = tmp_path / "cpu.json", []

    def part(given):
        runs.append(given.device)
        if len(runs) == 1:
            raise RuntimeError("no card")
        return {"seconds": 1.0}

    monkeypatch.setitem(script.PARTS, "memory", (part, 1))
    words = [*QUICK, "--out", str(out), "--parts", "memory"]
    assert script.main(words) == 1
    assert "no card" in json.loads(out.read_text())["parts"]["memory"]["error"]
    assert script.main(words) == 0
    assert script.main(words) == 0
    assert len(runs) == 2
    assert script.main([*words, "--again"]) == 0
    assert len(runs) == 3


def test_checks_that_failed_are_an_error_and_keep_their_figures(script, tmp_path, monkeypatch):
    out, runs = tmp_path / "cpu.json", []

    def part(given):
        runs.append(given.device)
        return {"gpt2": {"failed": {"asked_twice": "it differs"} if len(runs) == 1 else {}}}

    monkeypatch.setitem(script.PARTS, "conformance", (part, 1))
    words = [*QUICK, "--out", str(out), "--parts", "conformance"]
    assert script.main(words) == 1
    found = json.loads(out.read_text())["parts"]["conformance"]
    assert found["error"] == "checks failed of gpt2"
    assert found["figures"]["gpt2"]["failed"] == {"asked_twice": "it differs"}
    assert script.main(words) == 0


def test_a_part_that_takes_too_long_is_ended(script, monkeypatch):
    monkeypatch.setitem(script.PARTS, "environment", (script.environment, 0.01))
    found = script.in_process_of_its_own("environment", script.Given("cpu", quick=True))
    assert "took more than" in found["error"]
