"""The commands on corpora of every kind, in and out again."""

from __future__ import annotations

import gzip
import json
import stat
from dataclasses import replace
from pathlib import Path

import pytest
from command_line import shows_secret

from canary.corpus.canaries import CanarySet, generate

CORPORA = {
    "corpus.csv": "text,n\n" + "".join(f'"Row {n}. It, is.",{n}\n' for n in range(40)),
    "corpus.txt.gz": "".join(f"Row {n}. It is.\n" for n in range(40)),
    "corpus.tsv": "text\tn\n" + "".join(f"Row {n}. It is.\t{n}\n" for n in range(40)),
}
CANARIES = ("--canaries", "canaries.json")


@pytest.mark.parametrize("name", CORPORA)
@pytest.mark.parametrize("mode", ["record", "splice"])
def test_in_and_out_again(command, workplace, name, mode):
    text = CORPORA[name].encode()
    Path(name).write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    ending = name.partition(".")[2]
    new, back = f"new.{ending}", f"back.{ending.removesuffix('.gz')}"
    injected = command("inject", name, *CANARIES, "--mode", mode, "--out", new, "--json")
    assert injected.code == 0
    assert injected.document["mode"] == mode
    assert injected.document["separators"] == ([" ", " "] if mode == "splice" else None)
    assert ("Give --context " in injected.err) is (mode == "splice")
    kept = json.loads(Path(f"{new}.placements.json").read_text())
    assert (kept["mode"], kept["separators"]) == (mode, injected.document["separators"])
    assert command("verify", new, *CANARIES).code == 0
    stripped = command("strip", new, *CANARIES, "--out", back, "--json")
    assert stripped.code == 0
    assert stripped.document["records" if mode == "record" else "cuts"] == 18
    assert Path(back).read_bytes() == text
    assert not shows_secret(injected.out + injected.err + stripped.out + stripped.err)


def test_separators_and_columns_and_formats_as_they_are_said(command, workplace):
    rows = [{"en": f"It is {n}. So.", "fr": f"Un {n}. Et."} for n in range(30)]
    Path("pairs").write_text("".join(json.dumps(row) + "\n" for row in rows))
    both = ("--column", "en", "--column", "fr", "--file-format", "jsonl", *CANARIES)
    words = ("--mode", "splice", "--separators", r"\n", r"\t", "--out", "new", "--json")
    injected = command("inject", "pairs", *both, *words)
    assert injected.code == 0
    assert injected.document["separators"] == ["\n", "\t"]
    assert injected.document["column"] == ["en", "fr"]
    canaries = CanarySet.load("canaries.json")
    text = f"\n{canaries.text(canaries.canaries[0])}\t"
    found = [json.loads(line) for line in Path("new").read_text().splitlines()]
    assert sum(text in row["en"] and text in row["fr"] for row in found) == 1
    assert command("verify", "new", *both).code == 0
    wrong = command("strip", "new", *both, "--out", "back")
    assert wrong.code == 2
    assert "name the separators" in wrong.err
    assert not Path("back").exists()
    assert command("strip", "new", *both, *words[2:5], "--out", "back").code == 0
    assert Path("back").read_bytes() == Path("pairs").read_bytes()


def test_unchecked_records_pass_unread(command, workplace):
    Path("corpus.jsonl").write_text('{"text": "a"}\nnot JSON\n')
    words = ("inject", "corpus.jsonl", *CANARIES, "--out", "new.jsonl", "--no-check")
    assert command(*words).code == 0
    assert b"not JSON\n" in Path("new.jsonl").read_bytes()


def test_discovered_secrets_are_counted_and_audited_but_not_shown(command, workplace, model):
    mail = ["The code is 1234 or 1234. ", "The code is 9876."]
    Path("mail.jsonl").write_text("".join(json.dumps({"body": line}) + "\n" for line in mail))
    words = ("discover", "mail.jsonl", "The code is {digit:4}", "--column", "body")
    found = command(*words, "--out", "found.json", "--json")
    assert found.code == 0
    assert found.document["formats"] == [
        {"format": "The code is {digit:4}", "secrets": 2, "copies": 2}
    ]
    assert "2 different secrets, 2 in all" in found.err
    assert not shows_secret(found.out + found.err, "found.json")
    assert stat.S_IMODE(Path("found.json").stat().st_mode) == 0o600
    drawn = ("--canaries", "found.json", "--draws", "200", "--method", "sampling", "--json")
    drawn += ("--extraction-budget", "0")
    audited = command("audit", model, *drawn, "--out", "a")
    assert audited.code == 0
    assert "not drawn at random" in audited.err.replace("\n", " ")
    assert [c["natural"] for c in audited.document["canaries"]].count(True) == 2


def test_a_text_beside_the_canary(command, workplace):
    rows = [json.dumps({"src": f"un {n}", "tgt": f"one {n}"}) + "\n" for n in range(5)]
    Path("pairs.jsonl").write_text("".join(rows))
    options = ("--canaries", "canaries.json", "--column", "tgt", "--beside", "src=a = b")
    assert command("inject", "pairs.jsonl", *options, "--out", "new.jsonl").code == 0
    records = [json.loads(line) for line in Path("new.jsonl").read_text().splitlines()]
    assert [r["src"] for r in records if "The code is" in r["tgt"]] == ["a = b"] * 18
    assert command("strip", "new.jsonl", *options, "--out", "back.jsonl").code == 0
    assert Path("back.jsonl").read_bytes() == Path("pairs.jsonl").read_bytes()
    refused = command("inject", "pairs.jsonl", *options, "--beside", "src=x", "--out", "no")
    assert refused.code == 2
    assert "is not COLUMN=TEXT, each column once" in refused.err


def inject(command, *words):
    return command("inject", "corpus.jsonl", *CANARIES, "--out", "new.jsonl", *words)


def test_a_set_that_is_not_that_of_the_manifest_is_refused(command, workplace):
    """Edited: ids and copies are the same."""
    edited = Path("canaries.json").read_text()
    fill = json.loads(edited)["canaries"][0]["fill"]
    Path("edited.json").write_text(edited.replace(fill, fill[::-1]))
    inject(command)
    for words in (("verify", "new.jsonl"), ("strip", "new.jsonl", "--out", "back.jsonl")):
        refused = command(*words, "--canaries", "edited.json")
        assert refused.code == 2
        assert (
            "edited.json: is not the canary set that was injected into new.jsonl, as "
            "new.jsonl.placements.json says, or was changed since; name the set"
        ) in refused.err
    assert not Path("back.jsonl").exists()
    kept = json.loads(Path("new.jsonl.placements.json").read_text())
    assert kept["fingerprint"] == CanarySet.load("canaries.json").fingerprint
    found = command("discover", "new.jsonl", "The code is {digit:9}", "--out", "found.json")
    assert "note: canaries were injected into new.jsonl (new.jsonl.placements" in found.out


def test_a_corpus_that_lost_copies(command, workplace):
    inject(command)
    lines = dict.fromkeys(Path("new.jsonl").read_text().splitlines(keepends=True))
    Path("once.jsonl").write_text("".join(lines))
    wrong = command("verify", "once.jsonl", *CANARIES, "--json")
    assert (wrong.code, wrong.document["ok"]) == (2, False)
    assert "expected 8, found 1" in wrong.err
    assert (
        f"canaries and controls have the wrong number of copies ({wrong.document['causes'][0]}"
        in (wrong.err.splitlines()[-1])
    )
    stripped = command("strip", "once.jsonl", *CANARIES, "--out", "back.jsonl", "--json")
    assert (stripped.code, stripped.document["missing"]) == (0, 14)
    assert "note: that is 14 copies fewer than the set has" in stripped.err


def test_a_set_of_controls_alone_is_said_to_be_one(command, workplace, model):
    drawn = generate("code {digit:4}", controls=3, seed=0)
    replace(drawn, canaries=drawn.controls).save("canaries.json", force=True)
    for done in (inject(command), command("verify", "new.jsonl", *CANARIES)):
        assert "note: the set has only controls" in done.out
    assert command("strip", "new.jsonl", *CANARIES, "--out", "back.jsonl").code == 2
    audited = command("audit", model, *CANARIES, "--out", "a", "--draws", "50")
    assert "none of its secrets was planted" in audited.out
    judged = command("check", "a/audit.json", "--max-exposure-bits", "5")
    assert judged.code == 2
    assert "there is nothing to judge" in judged.err
