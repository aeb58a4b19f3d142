"""canary plan with a model: a table of what an audit takes, and the same as JSON."""

from __future__ import annotations

import json
import re


def test_plan_with_a_model_says_what_an_audit_takes(command, model, workplace, monkeypatch):
    monkeypatch.setattr("canary.audits.forecast.LOOK", 0.05)
    monkeypatch.setenv("COLUMNS", "200")  # no row of a table is broken
    words = ("plan", "The code is {digit:3}", "--model", model, "--draws", "30", "--start-token")
    outcome = command(*words, "none")
    assert outcome.code == 0, outcome.err
    assert "An audit of 48 canaries and controls of 1 format, 30 draws" in outcome.out
    (line,) = (line for line in outcome.out.splitlines() if "enumeration (auto)" in line)
    assert re.search(r" [\d.]+ [MG]B", line)
    assert re.search(r"extraction +up to 10,000 ", outcome.out)
    assert "The extraction comes after any of them." in outcome.out
    outcome = command(*words, "none", "--canaries", "canaries.json", "--budget", "40", "--json")
    found = json.loads(outcome.out)["forecast"]
    assert (found["canaries"], found["budget"], found["draws"]) == (8, 40, 30)
    assert any("the budget is 40" in method["reason"] for method in found["methods"])
