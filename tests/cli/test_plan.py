"""canary plan with a model: a table of what an audit takes, and the same as JSON."""

from __future__ import annotations

import json
import re
from collections import Counter

from canary.corpus.canaries import CanarySet


def test_each_format_has_its_own_numbers_of_copies_and_a_group_its_size(command, tmp_path):
    formats = ("code {digit:6}", "pin {digit:4}")
    asked = (*formats, "--repetitions", "1,4:3", "--repetitions", "64:2")
    out = tmp_path / "canaries.json"
    assert command("generate", *asked, "--seed", 0, "--out", out).code == 0
    drawn = Counter((c.format, c.repetitions) for c in CanarySet.load(out).injected)
    assert drawn == {(0, 1): 8, (0, 4): 3, (1, 64): 2}
    planned = json.loads(command("plan", *asked, "--json").out)
    told = [planned[n] for n in ("formats", "repetitions", "per_repetition", "per_format")]
    assert told == [2, [1, 4, 64], 2, 11]
    for wrong, message in (
        (("1", "2", "3"), "given 3 times, and there are 2 formats; give it once, or once for each"),
        (("1,1:4",), "is listed twice"),
        (("1:",), "'' is no list of whole numbers"),
    ):
        words = [word for each in wrong for word in ("--repetitions", each)]
        refused = command("generate", *formats, *words, "--out", tmp_path / "none.json")
        assert refused.code == 2
        assert message in " ".join(refused.err.split())


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
    words = ("plan", "--model", model, "--draws", "30", "--start-token", "none")
    outcome = command(*words, "--canaries", "canaries.json", "--budget", "40", "--json")
    found = json.loads(outcome.out)["forecast"]
    assert (found["canaries"], found["budget"], found["draws"]) == (8, 40, 30)
    assert any("the budget is 40" in method["reason"] for method in found["methods"])


def test_plan_of_a_set_counts_its_canaries_and_nothing_else(command, model, workplace, monkeypatch):
    monkeypatch.setattr("canary.audits.forecast.LOOK", 0.01)
    words = ("plan", "--canaries", "canaries.json")
    planned = json.loads(command(*words, "--json").out)
    told = [planned[n] for n in ("formats", "repetitions", "per_repetition", "per_format")]
    assert told == [1, [1, 8], 2, 4]
    same = ("--repetitions", "1,8", "--per-repetition", "2")
    assert planned == json.loads(command("plan", "The code is {digit:9}", *same, "--json").out)
    assert command(*words, "The code is {digit:9}").code == 0
    for wrong, told in (
        (("code {digit:9}",), "canaries.json: the set has other formats"),
        (same, "canaries.json: --repetitions and --per-repetition given"),
    ):
        refused = command(*words, *wrong)
        assert refused.code == 2
        assert told in " ".join(refused.err.split())
    refused = command("plan")
    assert (refused.code, "with --canaries" in refused.err) == (2, True)
    CanarySet.from_fills("The code is {digit:9}", ["123456789"]).save("found.json")
    words = ("plan", "--canaries", "found.json", "--draws", "30")
    refused = command(*words)
    assert refused.code == 2
    assert "found and not drawn" in " ".join(refused.err.split())
    outcome = command(*words, "--model", model, "--start-token", "none", "--budget", "40", "--json")
    found = json.loads(outcome.out)
    assert sorted(found) == ["forecast", "kind", "schema"]
    assert found["forecast"]["canaries"] == 17  # and 16 controls
    said = " ".join(command("plan", "--help").out.split())
    assert "16 controls of each format are assumed" in said
    assert "Secrets of each format" in " ".join(command("generate", "--help").out.split())


def test_plan_with_passages_says_what_a_run_on_them_takes(command, model, tmp_path, monkeypatch):
    monkeypatch.setattr("canary.audits.forecast.LOOK", 0.01)
    texts = tmp_path / "texts.jsonl"
    texts.write_text(json.dumps({"body": "The code is 123. " * 20}) + "\n")
    words = ("plan", "The code is {digit:3}", "--draws", "30", "--passages", texts)
    words += ("--column", "body")
    refused = command(*words)
    assert refused.code == 2
    assert "give the model with --model" in " ".join(refused.err.split())
    words += ("--model", model, "--start-token", "none")
    outcome = command(*words)
    assert "a window of 100 tokens" in " ".join(outcome.err.split())
    whole = texts.read_text()
    texts.write_text('{"body": "short"}\n\n{"body": "no more"}\n')
    refused = command(*words)
    assert refused.code == 2
    told = f"{texts}: none of 2 texts has the 100 tokens of a window (the longest, line 3, has 7)"
    assert "".join(told.split()) in "".join(refused.err.split())
    assert "An audit of" not in refused.out  # nothing was timed before
    texts.write_text(whole)
    outcome = command(*words, "--prefix", "20", "--suffix", "30", "--json")
    assert outcome.code == 0, outcome.err
    found = json.loads(outcome.out)["passages"]
    assert found["texts"] == 1
    assert found["tokens"] == 30 * found["windows"] > 0
    assert found["seconds"] > 0


def test_plan_refuses_the_address_of_a_server_at_once(command):
    done = command("plan", "pin {digit:4}", "--model", "http://127.0.0.1:9/v1")
    assert (done.code, "this is the address of a server" in done.err) == (2, True)
    assert "canary audit --dry-run" in done.err
