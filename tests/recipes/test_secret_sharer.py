"""The Penn Treebank recipe in little: it runs, resumes and keeps no secret."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from recipe_scripts import ScriptError, run_script
from safetensors.numpy import load_file

from canary import CanarySet

pytestmark = pytest.mark.timeout(1800)  # mostly for imports on a busy machine

RECIPE = Path(__file__).parents[2] / "recipes" / "secret_sharer"


def script(name: str, *options: str | Path) -> str:
    return run_script(RECIPE / name, *options)


def run(*options: str | Path) -> None:
    script("run.py", "--quick", "--threads", "1", *options)


def strings(data: object) -> Iterator[str]:
    """Every string in parsed JSON."""
    if isinstance(data, str):
        yield data
    elif isinstance(data, dict):
        yield from (text for part in data.values() for text in strings(part))
    elif isinstance(data, list):
        yield from (text for part in data for text in strings(part))


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("secret_sharer")
    run("--work", folder)
    return folder


def test_quick_run_writes_results_and_figure(work: Path) -> None:
    results = json.loads((work / "results.json").read_text())
    first, last = results["epochs"]
    assert last["test_nats"] < first["test_nats"]
    assert results["enumeration"]["candidates"] == 10_000
    assert len(results["enumeration"]["canaries"]) == 3 * 2 + 16
    assert (work / "exposure.svg").read_text().startswith("<?xml")


def test_repeated_canaries_stand_above_controls(work: Path) -> None:
    enumeration = json.loads((work / "results.json").read_text())["enumeration"]
    most = [c["bits"] for c in enumeration["canaries"] if c["repetitions"] == 100]
    controls = sorted(c["bits"] for c in enumeration["canaries"] if c["repetitions"] == 0)
    assert min(most) > controls[len(controls) // 2]
    assert enumeration["controls_p"]["p_value"] > 0.001


def test_results_hold_no_secret(work: Path) -> None:
    canaries = CanarySet.load(work / "canaries.json")
    kept = set(strings(json.loads((work / "results.json").read_text())))
    assert "canary-1" in kept
    assert not kept & {part for c in canaries for part in (c.fill, canaries.text(c))}


def test_resumed_run_gives_the_same_weights(work: Path, tmp_path: Path) -> None:
    # As a kill during the second epoch leaves it: the first epoch alone, and a part.
    again = tmp_path / "work"
    shutil.copytree(work, again)
    shutil.rmtree(again / "epoch-02")
    (again / "epoch-02.part").mkdir()
    run("--work", again)
    whole = load_file(work / "epoch-02" / "model.safetensors")
    resumed = load_file(again / "epoch-02" / "model.safetensors")
    assert all((whole[name] == resumed[name]).all() for name in whole)
    assert (work / "results.json").exists()


def test_other_settings_do_not_mix(work: Path) -> None:
    with pytest.raises(ScriptError, match="other settings"):
        run("--work", work, "--epochs", "3")


@pytest.mark.data
def test_quick_run_on_penn_treebank(data_dir: Path, tmp_path: Path) -> None:
    run("--data", data_dir, "--work", tmp_path)
    assert json.loads((tmp_path / "results.json").read_text())["characters"] > 100_000


@pytest.mark.slow
def test_canaries_that_stand_alone(tmp_path: Path) -> None:
    """Both ways of training, measured and drawn; nothing kept tells a secret."""
    for strategy in ("A", "B"):
        script("alone.py", "train", "--quick", "--work", tmp_path, "--strategy", strategy)
    little = ("--budget", "200", "--draws", "300", "--threads", "1")
    script("alone.py", "measure", "--work", tmp_path, *little)
    shown = script("alone_figures.py", tmp_path / "alone.json")
    assert "| copies | strategy A | strategy B |" in shown
    assert (tmp_path / "alone.svg").exists()
    results = json.loads((tmp_path / "alone.json").read_text())
    assert {(p["strategy"], p["epoch"]) for p in results["points"]} == {
        ("A", 1),
        ("A", 2),
        ("B", 2),
    }
    most = [p for p in results["points"] if p["copies"] == 32 and p["epoch"] == 2]
    assert len(most) == 2
    canaries = CanarySet.load(tmp_path / "canaries.json")
    texts = {part for c in canaries for part in (c.fill, canaries.text(c))}
    assert not set(strings(results)) & texts


def test_neighbours_and_estimators_of_one_canary(work: Path) -> None:
    canaries = CanarySet.load(work / "canaries.json")
    wanted = canaries.injected[-1]
    found = json.loads(
        script(
            "neighbours.py",
            work / "epoch-02",
            "--canaries",
            work / "canaries.json",
            "--id",
            wanted.id,
        )
    )
    assert found["candidates"] == 1 + 4 * 9 + 6 * 81
    assert len(found["top"]) == len(found["of_all"]) == 10
    costs = [row["px_bits"] for row in found["of_all"]]
    assert costs == sorted(costs)
    # The likeliest of all are at least as likely as the likeliest neighbours.
    assert all(a <= b["px_bits"] + 1e-3 for a, b in zip(costs, found["top"], strict=True))
    assert wanted.fill not in json.dumps(found)
    table = script(
        "estimators.py", work / "epoch-02", "--canaries", work / "canaries.json", "--id", wanted.id
    )
    rows = [line.split("|")[1].strip() for line in table.splitlines()]
    assert rows[2:4] == ["branch and bound", "importance draws, 4,000 nodes a level"]
