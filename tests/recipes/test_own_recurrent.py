"""A GRU of the user's own, from the corpus to the audit, by the commands of its README."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

RECIPE = Path(__file__).parents[2] / "recipes" / "own_recurrent"
CANARY = (sys.executable, "-c", "import sys; from canary.cli.main import run; sys.exit(run())")


pytestmark = pytest.mark.timeout(1800)  # mostly for imports on a busy machine


def sh(*command: str, cwd: Path) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_px_equals_a_plain_loop_oracle(tmp_path: Path) -> None:
    def python(script: str, *options: str) -> str:
        return sh(sys.executable, str(RECIPE / script), *options, cwd=tmp_path)

    python("prepare.py", "--out", "corpus.jsonl", "--lines", "400")
    sh(
        *(*CANARY, "generate", "The random number is {digit:4}", "--repetitions", "1,30"),
        *("--per-repetition", "2", "--controls", "4", "--seed", "0", "--out", "canaries.json"),
        cwd=tmp_path,
    )
    sh(
        *(*CANARY, "inject", "corpus.jsonl", "--canaries", "canaries.json"),
        *("--out", "corpus.canaried.jsonl"),
        cwd=tmp_path,
    )
    python(
        *("train.py", "corpus.canaried.jsonl", "--out", "model"),
        *("--epochs", "2", "--units", "32"),
    )
    # From the recipe's folder, where `mygru` can be imported.
    sh(
        *(*CANARY, "audit", str(tmp_path / "model"), "--factory", "mygru:build"),
        *("--start-token", "\n", "--canaries", str(tmp_path / "canaries.json")),
        *("--out", str(tmp_path / "audit")),
        cwd=RECIPE,
    )
    said = python(
        *("check_px.py", "model", "--canaries", "canaries.json"),
        *("--audit", "audit/audit.json"),
    )
    assert said.startswith("8 canaries: largest difference")
