"""`canary pool` and `canary extend`: canaries of other kinds, from the model to the audit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from readers_things import lay

import canary

POOL = ("pool", "model", "--size", "40", "--tokens", "6", "--repetitions", "1,2", "--seed", "5",
        "--prompt", "So: ")  # fmt: skip


@pytest.fixture
def desk(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lay(tmp_path, "model", "corpus.jsonl")
    return tmp_path


def test_a_pool_becomes_canaries_that_go_all_the_way(desk, command):
    outcome = command(*POOL, "--per-repetition", "4", "--out", "pool.json", "--json")
    assert outcome.code == 0, outcome.err
    drawn = canary.CanarySet.load("pool.json")
    assert json.loads(outcome.out)["controls"] == len(drawn.controls)
    assert len([*drawn.injected, *drawn.controls]) == 40
    tossed = [one for one in drawn if one.tossed]
    assert len(tossed) == 8
    assert any(one.control for one in tossed)
    assert Path("pool.json").stat().st_mode & 0o77 == 0
    assert not any(drawn.text(one) in outcome.out + outcome.err for one in drawn)
    again = command(*POOL, "--per-repetition", "4", "--out", "again.json", "--no-coin-flips")
    assert again.code == 0
    fixed = canary.CanarySet.load("again.json")
    assert {fixed.text(c) for c in fixed} == {drawn.text(c) for c in drawn}
    assert len(fixed.injected) == 8
    for words in (
        ("inject", "corpus.jsonl", "--canaries", "again.json", "--out", "in.jsonl"),
        ("verify", "in.jsonl", "--canaries", "again.json"),
        ("audit", "model", "--canaries", "again.json", "--out", "audit"),
        ("strip", "in.jsonl", "--canaries", "again.json", "--out", "out.jsonl"),
    ):
        done = command(*words)
        assert done.code == 0, done.err
    judged = command("check", "audit/audit.json", "--max-exposure-bits", "3", "--json")
    assert judged.code == 3, judged.err  # a model that read nothing
    assert command("report", "audit/audit.json", "--out", "page.html").code == 0
    assert Path("out.jsonl").read_bytes() == Path("corpus.jsonl").read_bytes()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--band", "x"), "--band: 'x' is no band"),
        (("--band", "9,3"), "make no sense"),
        (("--temperature", "nan"), "a temperature of nan"),
        (("--per-repetition", "30"), "leave too few controls"),
        (("--band", "90,95"), "the middle half has"),
    ],
)
def test_a_pool_that_cannot_be_is_refused(desk, command, options, said):
    outcome = command(*POOL, *options, "--out", "pool.json")
    assert outcome.code == 2
    assert said in outcome.err
    assert not Path("pool.json").exists()


def test_new_tokens_go_into_model_and_tokenizer(desk, command):
    each = ("--repetitions", "1", "--per-repetition", "2", "--controls", "20", "--out", "new.json")
    assert command("generate", "The key is {new:40}", *each).code == 0
    asked = ("--canaries", "new.json")
    forgotten = command("exposure", "model", *asked)
    assert forgotten.code == 2
    assert "canary extend" in forgotten.err
    outcome = command("extend", "model", *asked, "--out", "larger", "--json")
    assert outcome.code == 0, outcome.err
    body = json.loads(outcome.out)
    assert body["tokens"] == body["last_row"] - body["first_row"] + 1 == 40
    measured = command("exposure", "larger", *asked, "--json")
    assert measured.code == 0, measured.err
    for words, said in (
        (("extend", "model", *asked, "--out", "larger"), "exists already"),
        (("extend", "larger", *asked, "--out", "twice"), "in the tokenizer already"),
        (("extend", "nowhere", *asked, "--out", "twice"), "nowhere"),
    ):
        refused = command(*words)
        assert refused.code == 2
        assert said in refused.err
        assert not Path("twice").exists()
    command("generate", "{digit:3}", "--out", "digits.json")
    refused = command("extend", "model", "--canaries", "digits.json", "--out", "twice")
    assert "no canary of the set has a new token" in refused.err
