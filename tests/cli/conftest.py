"""A workplace with a corpus, canaries and a small model, and the command in this process."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import Outcome, save_model, small_model
from drawing import figures

import canary
from canary.cli.main import run
from canary.corpus.canaries import generate


@pytest.fixture
def drawn():
    """Asked for by tests that look at figures; the pages of all others have none."""


@pytest.fixture(autouse=True)
def _undrawn(request):
    with figures(drawn="drawn" in request.fixturenames):
        yield


@pytest.fixture
def command(capsys):
    """Run one command in this process."""

    def call(*words):
        capsys.readouterr()
        code = run([str(word) for word in words])
        return Outcome(code, *capsys.readouterr())

    return call


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    """A folder with an untrained character-level GPT-2 and its tokenizer."""
    folder = tmp_path_factory.mktemp("models") / "untrained"
    save_model(small_model(), folder)
    return folder


@pytest.fixture(scope="module")
def loaded(model):
    """The model of that folder."""
    return canary.load(str(model))


@pytest.fixture
def workplace(tmp_path, monkeypatch):
    """A working folder with a corpus and canaries, and results of an earlier run."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "logs"))
    Path("logs").mkdir()
    rows = [json.dumps({"text": f"line number {i}", "n": i}) + "\n" for i in range(40)]
    Path("corpus.jsonl").write_text("".join(rows))
    nine = "The code is {digit:9}"
    generate(nine, repetitions=[1, 8], per_repetition=2, controls=4, seed=3).save("canaries.json")
    Path("old").mkdir()
    for name in ("audit.json", "report.html", "file"):
        Path("old", name).write_text("of an earlier run")
    return tmp_path
