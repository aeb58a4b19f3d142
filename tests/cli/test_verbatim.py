"""`canary verbatim`: what it writes and says, and what it refuses."""

from __future__ import annotations

import json

import pytest

import canary
from canary.passages.result import Verbatim

SIZES = ("--prefix", "4", "--suffix", "3", "--start-token", "none")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    from command_line import save_model, small_model

    monkeypatch.chdir(tmp_path)
    save_model(small_model(), tmp_path / "model")
    for name, word in (("train", "code"), ("other", "number")):
        rows = [{"text": f"the {word} is {n} and {7 * n} of {n}"} for n in range(12)]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    return tmp_path


def test_it_writes_numbers_and_a_report_without_text(command, folder):
    asked = ("verbatim", "model", "--texts", "train.jsonl", "--out", "v", *SIZES)
    outcome = command(*asked, "--scheme", "t=1", "--scheme", "t=0.5,k=4", "--json")
    assert outcome.code == 0, outcome.err
    result = canary.read("v/verbatim.json")
    assert isinstance(result, Verbatim)
    assert [str(scheme) for scheme in result.schemes] == ["t=1", "t=0.5,k=4"]
    assert json.loads(outcome.out)["texts"]["document"] == list(result.texts.document)
    page = (folder / "v" / "report.html").read_text()
    assert "nothing distinguishes what the model memorized" in page
    for written in (page, outcome.out, outcome.err):
        assert "the code is" not in written
    assert not (folder / "v" / "parts").exists()
    limit = ("check", "v/verbatim.json", "--max-extractable", "0.5", "--junit", "v.xml")
    judged = command(*limit, "--trust-members", "--tries", "1")
    assert judged.code == 3, judged.err  # the model is untrained
    assert "finds the texts no more likely than random tokens" in judged.out
    assert 'classname="canary.passages"' in (folder / "v.xml").read_text()
    assert command("check", "v/verbatim.json", "--max-extractable", "1e-4").code == 3
    same = command("check", "v/verbatim.json", "--max-extractable", " 0.01%", "--chance", "50%")
    assert "limit of 0.01 % is in" in same.out
    for wrong, message in (("50", "such as 0.5 for 50 %"), ("x%", "'x%' is no fraction; write")):
        refused = command("check", "v/verbatim.json", "--max-extractable", wrong)
        assert (refused.code, message in refused.err) == (2, True), refused.err
    card = command("report", "v/verbatim.json", "--annex", "annex.html")
    assert (card.code, "is a test of passages" in card.err) == (2, True)
    again = command(*asked)
    assert again.code == 2
    assert "exists already" in again.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--texts", "train.jsonl", "--controls", "train.jsonl"), r"--controls: 7 tokens of"),
        (("--texts", "train.jsonl", "--scheme", "k=0"), "--scheme: a top-k of 0 makes no sense"),
        (("--texts", "train.jsonl", "--scheme", "hot"), "'hot' is no decoding scheme"),
        (("--texts", "train.jsonl", "--prefix", "99"), "none of 12 texts has the 102 tokens"),
        (("--texts", "train.jsonl", "--column", "body"), "train.jsonl"),
        (("--texts", "train.jsonl", "--copies", "n"), "train.jsonl:1: has no whole number of 1 or"),
        (("--texts", "train.jsonl", "--weights", "n"), "train.jsonl:1: has no number above 0 in"),
        (("--texts", "train.jsonl", "--prefix", "4,x"), "no list of whole numbers"),
        (
            ("--texts", "train.jsonl", "--near", "200%"),
            "near='200%' makes no sense for a suffix",
        ),
        (("--texts", "train.jsonl", "--id", "title"), "train.jsonl:1: has no text or whole number"),
        (("--texts", "train.jsonl", "--scheme", "t=1", "--scheme", "t=1.0"), "--scheme: a decod"),
        (("--texts", "nowhere.jsonl"), "nowhere.jsonl"),
        (("--texts", "train.jsonl", "--served-model", "m"), "No such option: --served-model"),
    ],
)
def test_what_cannot_be_measured_is_refused(command, folder, words, message):
    outcome = command("verbatim", "model", "--out", "v", *SIZES, *words)
    assert outcome.code == 2
    assert message in outcome.err
    assert not (folder / "v").exists()


def test_an_address_is_sent_to_what_samples_servers(command, folder):
    asked = ("--texts", "train.jsonl", "--out", "v")
    outcome = command("verbatim", "http://127.0.0.1:9/v1", *asked)
    assert outcome.code == 2
    assert "is an address" in outcome.err
    assert "(canary sample" in outcome.err
    assert not (folder / "v").exists()


def test_prefixes_and_copies_are_read(command, folder):
    rows = [json.loads(line) for line in (folder / "train.jsonl").read_text().splitlines()]
    counted = [
        json.dumps({**row, "times": 1 + at % 3, "of": 0.5 + at}) for at, row in enumerate(rows)
    ]
    (folder / "counted.jsonl").write_text("\n\n".join(counted))
    asked = ("verbatim", "model", "--texts", "counted.jsonl", "--out", "v", *SIZES)
    outcome = command(*asked, "--prefix", "4,2", "--copies", "times", "--near", "1",
                      "--weights", "of")  # fmt: skip
    assert outcome.code == 0, outcome.err
    result = canary.read("v/verbatim.json")
    assert list(result.by_prefix()) == [2, 4]
    assert result.settings["prefix"] == 4
    assert result.texts.copies == tuple(1 + at % 3 for at in range(12))
    assert list(result.by_copies()) == [(1, 1), (2, 3)]
    assert result.texts.weights == tuple(0.5 + at for at in range(12))
    assert not (folder / "v" / "parts").exists()


def test_texts_are_called_by_a_field_or_by_their_lines(command, folder):
    rows = [json.loads(line) for line in (folder / "train.jsonl").read_text().splitlines()]
    titles = ["A\u202eB", "x" * 70, 7, "same", "same", *(f"work {at}" for at in range(7))]
    rows = [{**row, "title": title} for row, title in zip(rows, titles, strict=True)]
    rows[5]["text"] = "of it"
    (folder / "named.jsonl").write_text("\n\n".join(map(json.dumps, rows)))
    asked = ("verbatim", "model", "--texts", "named.jsonl", "--controls", "other.jsonl", *SIZES)
    refused = command(*asked, "--id", "title", "--out", "v")
    assert (refused.code, "other.jsonl:1: has no text or whole" in refused.err) == (2, True)
    asked = ("verbatim", "model", "--texts", "named.jsonl", *SIZES)
    outcome = command(*asked, "--id", "title", "--out", "v")
    assert outcome.code == 0, outcome.err
    ids = ["AB", "x" * 60, "7", "line 7: same", "line 9: same", *(f"work {n}" for n in range(7))]
    result = canary.read("v/verbatim.json")
    assert list(result.texts.ids) == ids
    assert list(dict.fromkeys(result.to_frame()["text"])) == ids[:5] + ids[6:]
    assert "1 of 12 texts are shorter than a passage and were not looked at (work 0)" in outcome.out
    assert "the code" not in outcome.out + (folder / "v" / "verbatim.json").read_text()
    outcome = command(*asked, "--out", "w")
    assert "not looked at (line 11): a smaller --prefix or --suffix" in outcome.out
    assert canary.read("w/verbatim.json").to_frame()["text"][0] == "line 1"
    plain = command(*(w.replace("named", "train") for w in asked), "--out", "u")
    assert plain.code == 0
    assert canary.read("u/verbatim.json").to_frame()["text"].tolist()[0] == 1


def test_copies_are_those_that_duplicates_counted(command, folder):
    rows = (folder / "train.jsonl").read_text().splitlines()
    (folder / "shard.jsonl").write_text("\n".join(rows[at % 4] for at in range(22)))
    (folder / "sample.jsonl").write_text("\n".join(rows[1:7]))
    counting = ("duplicates", "train.jsonl", "shard.jsonl", "--out", "copies.json")
    assert command(*counting).out.startswith("34 texts in 2 files: 12 different, 4 of them with")
    asked = ("verbatim", "model", "--texts", "sample.jsonl", "--copies", "copies.json", *SIZES)
    refused = command(*asked, "--out", "v")
    assert refused.code == 2
    assert "--copies: copies.json does not have texts[3]; count the copies" in refused.err
    outcome = command(*counting, "--texts", "sample.jsonl", "--force")
    assert outcome.code == 0, outcome.err
    outcome = command(*asked, "--out", "v")
    assert outcome.code == 0, outcome.err
    assert canary.read("v/verbatim.json").texts.copies == (7, 6, 6, 1, 1, 1)
    weighted = (*asked, "--weights", "copies.json", "--out", "w")
    assert command(*weighted).code == 0
    # Of four texts with 6 or 7 copies three are measured, and three of the eight with one.
    assert canary.read("w/verbatim.json").texts.weights == (4 / 3,) * 3 + (8 / 3,) * 3
    (folder / "sample.jsonl").write_text("\n".join(rows[4:7]))
    refused = command(*weighted, "--force")
    assert (refused.code, "4 different texts with 4 to 7 copies" in refused.err) == (2, True)
    for words, message in (
        (("--texts", "other.jsonl"), "12 different texts of 12 not in the corpus"),
        (("--texts", "sample.jsonl", "--column", "a", "--column", "b"), "--texts takes one --col"),
        (("train.jsonl",), "train.jsonl: is listed twice"),
    ):
        refused = command(*counting, *words, "--force")
        assert (refused.code, message in refused.err) == (2, True), refused.err
