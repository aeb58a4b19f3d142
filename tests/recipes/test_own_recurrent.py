"""A GRU of the user's own, from the corpus to the audit, by the commands of its README."""

from __future__ import annotations

import sys

import pytest
from recipe_scripts import RECIPES, canaries_in, canary, run_script

RECIPE = RECIPES / "own_recurrent"


@pytest.mark.timeout(1800)  # mostly for imports on a busy machine
def test_px_equals_a_plain_loop_oracle(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_script(RECIPE / "prepare.py", "--out", "corpus.jsonl", "--lines", 400)
    canaries_in("corpus.jsonl", "The random number is {digit:4}", "1,30")
    options = ("--out", "model", "--epochs", 2, "--units", 32)
    run_script(RECIPE / "train.py", "corpus.canaried.jsonl", *options)
    # From the recipe's folder, where `mygru` can be imported.
    monkeypatch.chdir(RECIPE)
    canary(
        *("audit", tmp_path / "model", "--factory", "mygru:build", "--start-token", "\n"),
        *("--canaries", tmp_path / "canaries.json", "--out", tmp_path / "audit"),
    )
    del sys.modules["mygru"]  # pages of the docs have one of their own
    monkeypatch.chdir(tmp_path)
    options = ("--canaries", "canaries.json", "--audit", "audit/audit.json")
    said = run_script(RECIPE / "check_px.py", "model", *options)
    assert said.startswith("8 canaries: largest difference")
