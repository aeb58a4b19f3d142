"""A GRU of the user's own, from the corpus to the audit, by the commands of its README."""

from __future__ import annotations

import json
import statistics
import sys

import pytest
from recipe_scripts import RECIPES, canaries_in, canary, has_table, run_script

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


def test_the_page_has_the_numbers_of_the_audit():
    page = (RECIPE / "README.md").read_text(encoding="utf-8")
    audit = json.loads((RECIPE / "results.json").read_text())
    copied = {}
    for one in audit["canaries"]:
        copied.setdefault(one["repetitions"], []).append(one["exposure"]["bits"])
    assert sorted(copied) == [0, 1, 4, 16, 64]
    medians = [(copies, statistics.median(bits)) for copies, bits in sorted(copied.items())]
    rows = (f"| {copies or 'control'} | {median:.1f} |" for copies, median in medians)
    assert has_table(page, "\n".join(rows))
    injected, controls = audit["injected_p"]["p_value"], audit["controls_p"]["p_value"]
    fisher = f"Fisher's p-value is {injected:.1e} for the injected canaries and {controls:.2f} for"
    assert fisher in page
    (about,) = audit["formats"]
    assert (about["method"], about["space_size"]) == ("enumeration", 10**6)
    assert f"noise {about['noise_bits']:.2e} bits" in page
