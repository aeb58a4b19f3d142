"""Where wrong set-ups are made: a folder with a canary set, a corpus and trained models."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path

import pytest
from command_line import Outcome
from drawing import figures
from toys import CHAT, START, canaries, fresh, long_canaries, padded, save, toy
from wrong_setups import Said, of_command

from canary.cli.main import run
from canary.models.english import SENTENCES

TRAINED = {
    "untrained": fresh,
    "toy": lambda: toy(START),
    "of more tokens": padded,
    "after a chat": lambda: toy(CHAT),
    "of whole secrets": lambda: toy(START, long_canaries()),
    "of cut secrets": lambda: toy(START, long_canaries(), limit=len("Pin 12")),
}
"""How each model was made."""


class Desk:
    """Runs commands in a folder with ``canaries.json`` and ``corpus.jsonl``."""

    def __init__(self, capsys, models: Path) -> None:
        self._capsys, self._models = capsys, models
        canaries().save("canaries.json")
        rows = [json.dumps({"text": text}) + "\n" for text in SENTENCES * 4]
        Path("corpus.jsonl").write_text("".join(rows))

    def command(self, *words) -> Outcome:
        self._capsys.readouterr()
        code = run([str(word) for word in words])
        return Outcome(code, *self._capsys.readouterr())

    def model(self, name: str) -> Path:
        folder = self._models / name
        if not folder.exists():  # or another process has saved it meanwhile
            part = save(TRAINED[name](), folder.with_name(f"{name}.{os.getpid()}"))
            with contextlib.suppress(OSError):
                part.rename(folder)
        return folder

    def inject(self, out="mixed.jsonl", canaries="canaries.json", corpus="corpus.jsonl") -> None:
        done = self.command("inject", corpus, "--canaries", canaries, "--out", out, "--force")
        assert done.code == 0, done.err

    def verified(self, corpus="mixed.jsonl", canaries="canaries.json") -> tuple[str, str]:
        """The option that names a verification of a corpus."""
        found = self.command("verify", corpus, "--canaries", canaries, "--json")
        Path("verify.json").write_text(found.out)
        return ("--verification", "verify.json")

    def audited(self, model: str, *options, canaries="canaries.json") -> Outcome:
        return self.command(
            *("audit", self.model(model), "--factory", "canary.demo:build"),
            *("--canaries", canaries, "--draws", 300, "--extraction-budget", 0),
            *("--out", "audit", "--force", *options),
        )

    def judged(self, model: str, *options, canaries="canaries.json", limits=()) -> Said:
        """What is said of an audit by its check; by itself, where it fails."""
        audited = self.audited(model, *options, canaries=canaries)
        if audited.code:
            return of_command(audited)
        limits = ("--max-exposure-bits", 8, *limits)
        return of_command(self.command("check", "audit/audit.json", *limits))


def pytest_generate_tests(metafunc):
    if "line" in metafunc.fixturenames:
        metafunc.parametrize("line", metafunc.module.TABLE, ids=lambda line: line.name)


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    """Of all processes of a run: what one has trained, the others need not."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "toys"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture
def desk(capsys, models, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with figures(drawn=False):
        yield Desk(capsys, models)
