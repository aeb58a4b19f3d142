"""Wrong corpora and wrong sets at the command line: each is an error or a note."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from canary.corpus.canaries import CanarySet, generate

CANARIES = ("--canaries", "canaries.json")


def _others():
    nine = "The code is {digit:9}"
    generate(nine, repetitions=[1, 8], per_repetition=2, controls=4, seed=4).save("others.json")


def test_a_set_that_is_not_that_of_the_manifest_is_refused(command, workplace):
    """Drawn with another seed, or edited: ids and copies are the same."""
    _others()
    edited = Path("canaries.json").read_text()
    fill = json.loads(edited)["canaries"][0]["fill"]
    Path("edited.json").write_text(edited.replace(fill, fill[::-1]))
    command("inject", "corpus.jsonl", *CANARIES, "--out", "new.jsonl")
    for name in ("others.json", "edited.json"):
        for words in (("verify", "new.jsonl"), ("strip", "new.jsonl", "--out", "back.jsonl")):
            refused = command(*words, "--canaries", name)
            assert refused.code == 2
            assert (
                f"{name}: is not the canary set that was injected into new.jsonl, as "
                "new.jsonl.placements.json says, or was changed since; name the set"
            ) in refused.err
    assert not Path("back.jsonl").exists()
    assert command("verify", "new.jsonl", *CANARIES).code == 0
    kept = json.loads(Path("new.jsonl.placements.json").read_text())
    assert kept["fingerprint"] == CanarySet.load("canaries.json").fingerprint


def test_a_corpus_that_holds_canaries_takes_no_others(command, workplace):
    _others()
    command("inject", "corpus.jsonl", *CANARIES, "--out", "new.jsonl")
    words = ("--canaries", "others.json", "--out", "both.jsonl")
    refused = command("inject", "new.jsonl", *words)
    assert refused.code == 2
    assert "new.jsonl: canaries were injected into it already (new.jsonl.pla" in refused.err
    assert not Path("both.jsonl").exists()
    found = command("discover", "new.jsonl", "The code is {digit:9}", "--out", "found.json")
    assert "note: canaries were injected into new.jsonl (new.jsonl.placements" in found.err
    Path("new.jsonl.placements.json").unlink()
    assert command("inject", "new.jsonl", *words).code == 0
    Path("both.jsonl.placements.json").unlink()
    both = command("verify", "both.jsonl", *CANARIES, "--json")
    assert (both.code, both.document["others"]) == (0, 4)
    assert "note: 4 other texts of these formats are in it, perhaps of another" in both.err


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
    Path("new.jsonl.placements.json").unlink()
    wrong = command("verify", "new.jsonl", "--canaries", "others.json", "--json")
    assert wrong.code == 2
    assert "probably the canary set of another run" in wrong.err.splitlines()[-1]
    assert "another run" in wrong.document["causes"][0]


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_canaries_beside_an_empty_text_are_said_to_be(command, workplace, ending):
    rows = [{"title": f"No. {n}", "text": f"It rains {n}.", "n": str(n)} for n in range(20)]
    table, name = pa.Table.from_pylist(rows), f"mail.{ending}"
    if ending == "csv":
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
