"""Each benchmark runs by one command, prints one JSON line, and has its row in the docs."""

from __future__ import annotations

import json
import re
import runpy
import sys

import pytest
from pages import ROOT

FOLDER = ROOT / "tests" / "benchmarks"
SMALL = {
    "draws": ["--draws", "50", "--rounds", "1", "--rows-up-to", "0", "--contexts", "0", "20"],
    "enumeration": ["--digits", "1", "--rounds", "1", "--threads", "1", "--bare", "0.01"],
    "extraction": ["--digits", "2", "--queries", "200", "--rounds", "1"],
    "fleet": ["--samples", "150", "--epochs", "1", "--rounds", "1", "--models", "2", "2"],
    "formats": ["--fills", "200", "--words", "500", "--rounds", "1"],
    "generation": ["--canaries", "20", "--rounds", "1"],
    "growth": ["--digits", "2", "3"],
    "forecast": ["--format", "the code is {digit:2}", "--budget", "100", "--draws", "50"],
    "harnesses": [
        *("--rounds", "1", "--all-digits", "2", "--random", "50", "--groups", "5"),
        *("--texts", "10", "--against"),
    ],
    "importance": ["--width", "400", "--runs", "1", "--digits", "3", "--rounds", "1"],
    "importance_intervals": ["--trees", "1", "--runs", "1", "--width", "100"],
    "injection": ["--megabytes", "1", "--rounds", "1"],
    "many_models": ["--models", "8", "--samples", "300", "--classes", "2", "--slow", "20"],
    "membership": ["--samples", "2000", "--classes", "3", "--each", "200", "--rounds", "1"],
    "membership_files": ["--samples", "500", "--classes", "3"],
    "near": ["--cases", "5"],
    "no_signal": ["--models", "8", "--seeds", "2", "--samples", "60", "--splits", "halves"],
    "rank": ["--digits", "2", "--queries", "50", "--rounds", "1", "--bare", "0.01"],
    "risk_scores": ["--each", "20", "--runs", "1"],
    "scoring": ["--texts", "10", "--width", "32", "--layers", "1", "--rounds", "1"],
    "shards": [*("--gigabytes", "0.002", "--shards", "3"), *("--kills", "1", "--workers", "1")],
    "shared_context": ["--nodes", "16", "--rounds", "1"],
    "skewnormal": ["--draws", "500", "--rounds", "1"],
    "startup": ["--runs", "1"],
    "toolbox": ["--samples", "500", "--classes", "3", "--fpr", "0.1", "--against"],
    "tpr_intervals": ["--runs", "2", "--samples", "20", "--bootstrap", "1"],
    "workers": ["--alone", "--digits", "1", "1", "--texts", "3", "--rounds", "1"],
    "verbatim": [
        *("--windows", "40", "--samples", "500", "--texts", "1", "--rounds", "1", "--width", "16"),
        *("--kills", "0", "--tokens", "0"),
    ],
    "tree": ["--rounds", "1", "--vocabulary", "2000", "--formats", "ssn"],
}
"""Options with which a benchmark takes a moment; the figures then mean nothing."""


def test_these_are_all_benchmarks():
    assert {path.stem for path in FOLDER.glob("*.py")} - {"character_lstm", "figures"} == set(SMALL)


SLOW = ("harnesses", "growth", "shards")
"""Seconds even so: for a tokenizer that is trained, and for processes of their own."""


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow if n in SLOW else ()) for n in SMALL]
)
def test_one_command_prints_one_line(name, monkeypatch, capfd):
    script = FOLDER / f"{name}.py"
    monkeypatch.setattr(sys, "path", [str(FOLDER), *sys.path])
    monkeypatch.setattr(sys, "argv", [str(script), *SMALL[name]])
    runpy.run_path(str(script), run_name="__main__")
    (line,) = capfd.readouterr().out.splitlines()
    assert json.loads(line)["benchmark"] == name


@pytest.mark.parametrize("missing", ["lm_eval", "minicons"])
def test_harnesses_that_are_missing_are_named(missing, monkeypatch):
    """They are no dependencies of the project."""
    monkeypatch.setattr(sys, "path", [str(FOLDER), *sys.path])
    monkeypatch.setitem(sys.modules, missing, None)
    name = missing.replace("_", "-")
    monkeypatch.setattr(sys, "argv", ["harnesses.py", "--against", name])
    with pytest.raises(SystemExit, match=f"pip install {name}"):
        runpy.run_path(str(FOLDER / "harnesses.py"), run_name="__main__")


def test_a_toolbox_that_is_missing_is_named(monkeypatch):
    """It is no dependency of the project."""
    monkeypatch.setattr(sys, "path", [str(FOLDER), *sys.path])
    monkeypatch.setitem(sys.modules, "art", None)
    monkeypatch.setattr(sys, "argv", ["toolbox.py"])
    with pytest.raises(SystemExit, match="pip install adversarial-robustness-toolbox"):
        runpy.run_path(str(FOLDER / "toolbox.py"), run_name="__main__")


def test_the_page_has_a_row_for_each():
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `(\w+)\.py", text, re.MULTILINE)) == set(SMALL)
