"""The history of a watched training, on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from histories import make_history


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make_history().save("canary_history.json")
    return "canary_history.json"


def test_it_is_shown_alone(file, command):
    found = command("report", file, file, "--out", "page.html")
    assert found.code == 2
    assert "canary_history.json: is the history of a training, which is shown alone" in found.err
    found = command("plot", file, "--kind", "histogram", "--out", "figure.svg")
    assert (found.code, "a history has one figure" in found.err) == (2, True)
    assert not Path("page.html").exists()


def test_a_damaged_one_is_told(file, command):
    damaged = json.loads(Path(file).read_text())
    del damaged["moments"]
    Path(file).write_text(json.dumps(damaged))
    found = command("report", file, "--out", "page.html")
    assert (found.code, "is not a whole history" in found.err) == (2, True)
    Path(file).write_text("[1, 2")
    assert command("report", file, "--out", "page.html").code == 2
