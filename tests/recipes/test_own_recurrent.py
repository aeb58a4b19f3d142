"""A GRU of the user's own, from the corpus to the audit, by the commands of its README."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from recipe_scripts import run_script

from canary.cli.main import run

RECIPE = Path(__file__).parents[2] / "recipes" / "own_recurrent"


pytestmark = pytest.mark.timeout(1800)  # mostly for imports on a busy machine


def test_px_equals_a_plain_loop_oracle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def python(script: str, *options: str) -> str:
        return run_script(RECIPE / script, *options)

    def canary(*words: str) -> None:
        assert run(words) == 0, capsys.readouterr().err

    monkeypatch.chdir(tmp_path)
    python("prepare.py", "--out", "corpus.jsonl", "--lines", "400")
    canary(
        *("generate", "The random number is {digit:4}", "--repetitions", "1,30"),
        *("--per-repetition", "2", "--controls", "4", "--seed", "0", "--out", "canaries.json"),
    )
    canary(
        *("inject", "corpus.jsonl", "--canaries", "canaries.json"),
        *("--out", "corpus.canaried.jsonl"),
    )
    python(
        *("train.py", "corpus.canaried.jsonl", "--out", "model"),
        *("--epochs", "2", "--units", "32"),
    )
    # From the recipe's folder, where `mygru` can be imported.
    monkeypatch.chdir(RECIPE)
    canary(
        *("audit", str(tmp_path / "model"), "--factory", "mygru:build"),
        *("--start-token", "\n", "--canaries", str(tmp_path / "canaries.json")),
        *("--out", str(tmp_path / "audit")),
    )
    del sys.modules["mygru"]  # pages of the docs have one of their own
    monkeypatch.chdir(tmp_path)
    said = python(
        *("check_px.py", "model", "--canaries", "canaries.json"),
        *("--audit", "audit/audit.json"),
    )
    assert said.startswith("8 canaries: largest difference")
