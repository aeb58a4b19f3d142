"""Wrong corpora and wrong sets at the command line: each is an error or a note."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from canary.corpus.canaries import generate

CANARIES = ("--canaries", "canaries.json")


def _others():
    nine = "The code is {digit:9}"
    generate(nine, repetitions=[1, 8], per_repetition=2, controls=4, seed=4).save("others.json")


def test_a_set_that_was_never_injected_is_not_stripped(command, workplace):
    for corpus in ("corpus.jsonl", "new.jsonl"):
        _others() if not Path("others.json").exists() else None
        stripped = command("strip", corpus, "--canaries", "others.json", "--out", "back.jsonl")
        assert stripped.code == 2
        assert "holds none of the canaries of this set" in stripped.err
        assert not Path("back.jsonl").exists()
        command("inject", "corpus.jsonl", *CANARIES, "--out", "new.jsonl")


def test_a_corpus_that_lost_copies_is_stripped_with_a_note(command, workplace):
    command("inject", "corpus.jsonl", *CANARIES, "--out", "new.jsonl")
    lines = dict.fromkeys(Path("new.jsonl").read_text().splitlines(keepends=True))
    Path("once.jsonl").write_text("".join(lines))
    stripped = command("strip", "once.jsonl", *CANARIES, "--out", "back.jsonl", "--json")
    assert (stripped.code, stripped.document["missing"]) == (0, 14)
    assert "note: that is 14 copies fewer than the set has" in stripped.err


def test_verify_says_why_in_its_error(command, workplace):
    _others()
    command("inject", "corpus.jsonl", *CANARIES, "--out", "new.jsonl")
    wrong = command("verify", "new.jsonl", "--canaries", "others.json", "--json")
    assert wrong.code == 2
    assert "probably the canary set of another run" in wrong.err.splitlines()[-1]
    assert "another run" in wrong.document["causes"][0]


@pytest.mark.parametrize("ending", ["jsonl", "csv", "parquet"])
def test_canaries_beside_an_empty_text_are_said_to_be(command, workplace, ending):
    rows = [{"title": f"No. {n}", "text": f"It rains {n}.", "n": str(n)} for n in range(20)]
    table, name = pa.Table.from_pylist(rows), f"mail.{ending}"
    if ending == "jsonl":
        Path(name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif ending == "csv":
        pyarrow.csv.write_csv(table, name)
    else:
        pyarrow.parquet.write_table(table, name)
    note = "note: the canaries are in 'title' alone, and their records are empty in 'text': "
    wrong = command(
        "inject", name, *CANARIES, "--column", "title", "--out", f"x.{ending}", "--json"
    )
    assert note in wrong.err
    assert wrong.document["empty_columns"] == ["text"]
    beside = ("--beside", "text=What is it?")
    right = command("inject", name, *CANARIES, "--column", "title", *beside, "--out", f"y.{ending}")
    assert (right.code, "note:" in right.err) == (0, False)


def test_a_set_of_controls_alone_is_said_to_be_one(command, workplace, model):
    generate("code {digit:4}", repetitions=[], controls=3, seed=0).save("controls.json")
    only = ("--canaries", "controls.json")
    injected = command("inject", "corpus.jsonl", *only, "--out", "new.jsonl")
    verified = command("verify", "new.jsonl", *only)
    for done in (injected, verified):
        assert "note: the set has controls alone" in done.err
    assert command("strip", "new.jsonl", *only, "--out", "back.jsonl").code == 2
    audited = command("audit", model, *only, "--out", "a", "--draws", "50")
    assert "none of the set's canaries was injected" in audited.err
    judged = command("check", "a/audit.json", "--max-exposure-bits", "5")
    assert judged.code == 2
    assert "there is nothing to judge" in judged.err
