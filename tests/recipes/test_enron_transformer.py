"""The plain Trainer script in little, audited by the command line from another folder."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from pydoc_data.topics import topics

import pytest

RECIPE = Path(__file__).parents[2] / "recipes" / "enron_transformer"
CANARY = (sys.executable, "-c", "import sys; from canary.cli.main import run; sys.exit(run())")
TINY = (
    *("--epochs", "1", "--block", "64", "--vocabulary", "400"),
    *("--width", "32", "--layers", "1", "--heads", "2"),
)


def sh(*command: str, cwd: Path) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr
    return done.stdout


def audit_of_trained(folder: Path) -> str:
    """The README's commands on ``corpus.jsonl`` in `folder`; what check_px.py says."""
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    sh(
        *(*CANARY, "generate", "My card number is {digit:9}", "--repetitions", "1,16"),
        *("--per-repetition", "2", "--controls", "4", "--seed", "0", "--out", "canaries.json"),
        cwd=folder,
    )
    sh(
        *(*CANARY, "inject", "corpus.jsonl", "--canaries", "canaries.json"),
        *("--out", "corpus.canaried.jsonl"),
        cwd=folder,
    )
    sh(
        *(sys.executable, str(RECIPE / "train.py"), "corpus.canaried.jsonl"),
        *("--out", "model", *TINY),
        cwd=folder,
    )
    sh(
        *(*CANARY, "audit", str(folder / "model"), "--canaries", str(folder / "canaries.json")),
        *("--draws", "200", "--seed", "0", "--out", "audit"),
        cwd=elsewhere,
    )
    return sh(
        *(sys.executable, str(RECIPE / "check_px.py"), "model", "--canaries", "canaries.json"),
        *("--audit", "elsewhere/audit/audit.json"),
        cwd=folder,
    )


def test_training_script_never_imports_canary() -> None:
    assert not re.search(r"^\s*(import|from) canary", (RECIPE / "train.py").read_text(), re.M)


def test_px_equals_a_plain_loop_oracle(tmp_path: Path) -> None:
    texts = [topics[name] for name in sorted(topics)[:30]]
    rows = "".join(json.dumps({"text": text}) + "\n" for text in texts)
    (tmp_path / "corpus.jsonl").write_text(rows)
    assert audit_of_trained(tmp_path).startswith("8 canaries: largest difference")


@pytest.mark.data
def test_px_equals_a_plain_loop_on_enron_oracle(data_dir: Path, tmp_path: Path) -> None:
    prepare = (sys.executable, str(RECIPE / "prepare.py"), "--data", str(data_dir))
    sh(*prepare, "--out", "corpus.jsonl", "--emails", "100", cwd=tmp_path)
    assert audit_of_trained(tmp_path).startswith("8 canaries: largest difference")
