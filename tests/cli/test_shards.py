"""Corpora in many files through the command line, and what goes wrong with them."""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from trained import trained

from canary.corpus.canaries import generate
from canary.records import files

CANARIES = ("--canaries", "canaries.json")


def blocks(folder, texts, *, end):
    """Packed blocks of 24 token ids in two Parquet files."""
    tokenizer = trained("gpt2")
    tokenizer.save("tokenizer.json")
    ends = [tokenizer.token_to_id("<s>")] * end
    stream = [i for t in texts for i in [*tokenizer.encode(t, add_special_tokens=False).ids, *ends]]
    rows = [stream[n : n + 24] for n in range(0, len(stream) - 23, 24)]
    Path(folder).mkdir()
    for number in range(2):
        table = pa.table({"input_ids": pa.array(rows[number::2], pa.list_(pa.int32()))})
        pq.write_table(table, Path(folder, f"{number}.parquet"))


def test_a_token_that_no_block_has_fills_up_none(command, workplace):
    generate("code {digit:4}", repetitions=[2], per_repetition=2, seed=0).save("few.json")
    texts = [f"The number {n} is red. And {n} more." for n in range(90)]
    blocks("ended", texts, end=True)
    blocks("endless", texts, end=False)
    tokenizer = trained("gpt2").from_str(Path("tokenizer.json").read_text())
    tokenizer.add_special_tokens(["<pad>"])
    tokenizer.save("tokenizer.json")
    words = ("--canaries", "few.json", "--column", "input_ids", "--tokenizer", "tokenizer.json")
    for corpus, out in (("ended", "out"), ("ended/0.parquet", "out.parquet")):
        wrong = command("inject", corpus, *words, "--pad", "<pad>", "--out", out)
        assert wrong.code == 2
        assert "no block has '<pad>'" in wrong.err
        assert "there are '<s>' (" in wrong.err
        assert "with pad (--pad '<s>')" in wrong.err
        assert not Path(out).exists()
        assert not Path(f"{out}.parts").exists()
        assert command("inject", corpus, *words, "--pad", "<s>", "--out", out).code == 0
        assert command("verify", out, *words).code == 0
    noted = command("inject", "endless", *words, "--pad", "<pad>", "--out", "more")
    assert noted.code == 0
    assert noted.err.count("note: no block has '<pad>' or another special token") == 1
    assert command("strip", "more", *words, "--out", "back").code == 0
    assert pq.read_table("back").equals(pq.read_table("endless"))


def shards(folder, count=4):
    """Files of JSON lines."""
    Path(folder).mkdir()
    for number in range(count):
        rows = [{"text": f"text {n} of {number}. And more.", "id": n} for n in range(60)]
        Path(folder, f"{number}.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))


def test_files_are_counted_and_those_left_out_are_named(command, workplace):
    shards("s")
    for number in (1, 3):
        file = Path("s", f"{number}.jsonl")
        Path(f"{file}.gz").write_bytes(gzip.compress(file.read_bytes()))
        file.unlink()
    Path("s/README.md").write_text("about\n")
    left = "note: 2 files of the same format beside those that are read are left out, such as "
    half = command("inject", "s/*.jsonl", *CANARIES, "--out", "half")
    assert half.err.count(left + "s/1.jsonl.gz; ") == 1
    assert "now 138 records in 2 files" in half.out
    assert "README" not in half.err
    whole = command("inject", "s", *CANARIES, "--out", "out", "--json")
    assert whole.document["files"] == 4
    assert "left out, such as s/README.md; " in whole.err
    assert "of the same format" not in whole.err
    for names in (("out/*.jsonl",), ("out/0.jsonl", "out/2.jsonl")):
        verified = command("verify", *names, *CANARIES)
        assert left + "out/1.jsonl.gz; " in verified.err
        assert "in 2 files: " in verified.out
    assert "258 records in 4 files: " in command("verify", "out", *CANARIES).out
    found = command("discover", "s/*.gz", "text {digit:2}", "--out", "found.json")
    assert "searching in 2 files" in found.err
    assert left + "s/0.jsonl; " in found.err
    counted = command("duplicates", "s/*.gz", "--out", "copies.json")
    assert "in 2 files" in counted.out
    assert left in counted.err
    assert " from 4 files; " in command("strip", "out", *CANARIES, "--out", "back").out
    assert "left out" not in command("inject", "s/0.jsonl", *CANARIES, "--out", "o.jsonl").err
    Path("s/0.jsonl.gz").write_bytes(gzip.compress(Path("s/0.jsonl").read_bytes()))
    twins = command("discover", "s", "text {digit:2}", "--out", "more.json").err
    assert "note: s/0.jsonl and s/0.jsonl.gz are one file by their names" in twins
    for name in ("valid-0.jsonl", "audit.json"):
        Path("out", name).write_text(Path("out", "0.jsonl").read_text())
    assert left in command("verify", "out/[0-9].jsonl", *CANARIES).err


def stopped(command, monkeypatch, *words, at="2.jsonl"):
    """A run that ends when it begins to write a file."""

    def stop(path, *_):
        if path.name == at and path.parent.name == words[-1]:
            raise KeyboardInterrupt
        return begin(path)

    begin = files.begin_part
    with monkeypatch.context() as patch:
        patch.setattr(files, "begin_part", stop)
        assert command(*words).code == 130


def bytes_in(folder):
    return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


def times_in(folder):
    return {path.name: path.stat().st_mtime_ns for path in Path(folder).iterdir()}


def test_a_file_that_was_touched_costs_nothing_and_one_that_changed_is_read_again(
    command, workplace, monkeypatch
):
    shards("s")
    words = ("inject", "s", *CANARIES, "--out")
    stopped(command, monkeypatch, *words, "out")
    old = times_in("out")
    assert sorted(old) == ["0.jsonl", "1.jsonl"]
    os.utime("s/0.jsonl", (1, 1))
    again = command(*words, "out")
    assert again.code == 0
    assert "note: s/0.jsonl has another time than when the run began, and the same" in again.err
    assert command(*words, "calm").code == 0
    assert bytes_in("out") == bytes_in("calm")
    assert {name: times_in("out")[name] for name in old} == old

    stopped(command, monkeypatch, *words, "other")
    text = Path("s/1.jsonl").read_text()
    Path("s/1.jsonl").write_text(text.replace("text 5 of", "text V of"))  # of the same size
    again = command(*words, "other")
    assert again.code == 0
    assert "note: s/1.jsonl changed since the run began, in content" in again.err
    assert command(*words, "anew").code == 0
    assert bytes_in("other") == bytes_in("anew")
    assert b"text V of" in bytes_in("other")["1.jsonl"]

    stopped(command, monkeypatch, *words, "third")
    status = Path("s/1.jsonl").stat()
    copied = Path("s/1.jsonl").read_text().replace("text V of", "text W of")
    Path("s/1.jsonl").write_text(copied)
    os.utime("s/1.jsonl", ns=(status.st_atime_ns, status.st_mtime_ns))  # as cp -p does
    assert "s/1.jsonl changed since the run began" in command(*words, "third").err
    assert b"text W of" in bytes_in("third")["1.jsonl"]
    Path("s/1.jsonl").write_text(copied.replace("text W of", "text V of"))

    for source, out in (("other", "back"), ("anew", "plain")):
        stopped(command, monkeypatch, "strip", source, *CANARIES, "--out", out)
        os.utime(Path(source, "1.jsonl"), (1, 1))
        assert "the same content" in command("strip", source, *CANARIES, "--out", out).err
        assert bytes_in(out) == bytes_in("s")


def test_a_file_that_came_or_went_between_two_runs(command, workplace, monkeypatch):
    shards("s")
    words = ("inject", "s", *CANARIES, "--out")
    stopped(command, monkeypatch, *words, "out")
    Path("s/4.jsonl").write_text(Path("s/0.jsonl").read_text())
    again = command(*words, "out")
    assert again.code == 0
    assert "note: 4.jsonl came since the run began, and is read too" in again.err
    assert command(*words, "calm").code == 0
    assert bytes_in("out") == bytes_in("calm")
    assert command("verify", "out", *CANARIES).code == 0
    stopped(command, monkeypatch, *words, "less")
    Path("s/3.jsonl").rename("kept")  # it was not written yet
    gone = command(*words, "less")
    assert gone.code == 2
    assert "3.jsonl is gone since the run began" in gone.err
    Path("kept").rename("s/3.jsonl")
    Path("s/0.jsonl").unlink()
    gone = command(*words, "less")
    assert gone.code == 2
    assert "has a file that this run does not write (0.jsonl)" in gone.err


def test_folders_that_are_links_are_read_and_a_loop_ends(command, workplace):
    shards("s")
    shards("elsewhere")
    Path("s/linked").symlink_to(Path("elsewhere").resolve())
    Path("elsewhere/loop").symlink_to(Path("elsewhere").resolve())
    Path("s/above").symlink_to(Path("s").resolve())
    assert command("inject", "s", *CANARIES, "--out", "out").code == 0
    assert len([*Path("out/linked").iterdir()]) == 4
    assert "in 8 files" in command("verify", "out", *CANARIES).out
    Path("s/again").symlink_to(Path("elsewhere").resolve())
    assert "is listed twice" in command("inject", "s", *CANARIES, "--out", "twice").err


def test_a_run_that_failed_does_not_block_the_right_command(command, workplace, monkeypatch):
    shards("s")
    Path("s/metadata.jsonl").write_text('{"file": "0.jsonl", "license": "MIT"}\n')
    for line in ('{"file": "0.jsonl"}\n', '{\n "files": 4\n}\n'):
        Path("s/metadata.jsonl").write_text(line)
        failed = command("inject", "s", *CANARIES, "--out", "out")
        assert failed.code == 2
        assert "s/metadata.jsonl:1: " in failed.err
        assert "if this file does not belong to the corpus, leave it out by a pattern" in failed.err
        assert "leave it out by a pattern" in command("verify", "s", *CANARIES).err
    Path("s/metadata.jsonl").write_text('{"text": "about", "license": "MIT"}\n')
    for words in (("inject", "--out", "stray"), ("verify",)):
        noted = command(*words, "s", *CANARIES).err
        assert noted.count("note: s/metadata.jsonl has other columns ('text', 'license') than") == 1
    right = command("inject", "s/[0-9].jsonl", *CANARIES, "--seed", "1", "--out", "out")
    assert right.code == 0
    assert "has other options (--seed (0 then, 1 now)) and wrote no file" in right.err
    stopped(command, monkeypatch, "inject", "s/[0-9].jsonl", *CANARIES, "--out", "half")
    other = ("--mode", "splice", "--separators", "x", "y")
    refused = command("inject", "s/[0-9].jsonl", *CANARIES, "--out", "half", *other)
    assert refused.code == 2
    assert "has other options: --separators, --mode ('record' then, 'splice' now)" in refused.err
    assert "or remove half.parts and half to begin anew" in refused.err
    unfinished = command("verify", "half", *CANARIES)
    assert unfinished.code == 2
    assert "start the same command again, and it goes on" in unfinished.err


def test_canaries_for_files_of_two_formats_go_into_those_of_one(command, workplace):
    shards("s", 3)
    rows = {"text": [f"row {n}" for n in range(50)], "id": [*range(50)]}
    pq.write_table(pa.table(rows), "s/3.parquet")
    both = command("inject", "s", *CANARIES, "--out", "out")
    assert both.code == 2
    assert "s: its files are of different formats (3 jsonl, 1 parquet)" in both.err
    assert "by a pattern such as 's/*.jsonl', and copy the others into the new folder" in both.err
    assert not Path("out.parts").exists()
    assert command("inject", "s/*.jsonl", *CANARIES, "--out", "out").code == 0
    shutil.copy("s/3.parquet", "out")
    verified = command("verify", "out", *CANARIES)
    assert verified.code == 0
    assert (
        "248 records in 4 files (3 jsonl, 1 parquet): 4 canaries (18 copies) found" in verified.out
    )
    mixed = command("strip", "out", *CANARIES, "--out", "back")
    assert "such as 'out/*.jsonl'" in mixed.err
    assert command("strip", "out/*.jsonl", *CANARIES, "--out", "back").code == 0
    assert bytes_in("back") == {n: b for n, b in bytes_in("s").items() if n.endswith(".jsonl")}


def cause_of(command, *words):
    """What verify says of a corpus that lost or gained copies."""
    wrong = command("verify", *words, *CANARIES)
    assert wrong.code == 2
    (line,) = [line for line in wrong.out.splitlines() if line.startswith("likely cause: ")]
    return line.removeprefix("likely cause: ")


def changed(folder, change, source="out"):
    """The corpus with other lines in each file."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(source, folder)
    for path in Path(folder).iterdir():
        lines = path.read_text().splitlines(keepends=True)
        path.write_text("".join(line for n, line in enumerate(lines) if change(n, line)))


def test_the_cause_that_is_named_is_the_real_one(command, workplace):
    shards("s")
    assert command("inject", "s", *CANARIES, "--out", "out").code == 0
    assert "this is probably the corpus from before inject, so verify that one" in cause_of(
        command, "s"
    )
    Path("far").mkdir()
    shutil.copytree("s", "far/s")
    assert cause_of(command, "far/s").startswith("no copy of any canary is there")
    assert "the canaries are in out, as" in cause_of(command, "s/0.jsonl")

    shutil.copytree("out", "twice")
    shutil.copy("twice/1.jsonl", "twice/copy.jsonl")
    Path("twice/copy.jsonl").write_text(Path("twice/copy.jsonl").read_text().replace("And", "But"))
    said = cause_of(command, "twice")
    assert said.startswith("twice/1.jsonl and twice/copy.jsonl have the same ")
    assert said.endswith("in the same records, so a file is probably there twice")

    changed("filtered", lambda n, _: n % 3)
    assert "records were dropped after inject, by a filter" in cause_of(command, "filtered")
    changed("picked", lambda n, line: "The code is" not in line or n % 2)
    assert "and no more: something removed canaries" in cause_of(command, "picked")
    changed("far/filtered", lambda n, _: n % 3)
    assert "probably cut, filtered or split" in cause_of(command, "far/filtered")
    seen = set()
    changed("once", lambda _, line: not (line in seen or seen.add(line)))
    assert "each canary is there once, so the corpus was probably de" in cause_of(command, "once")
    said = cause_of(command, "out/[01].jsonl")
    assert said == (
        "2 of the 4 files that canary inject wrote into out were not read, such as 2.jsonl: name "
        "the folder"
    )
    shutil.copytree("out", "whole")
    changed("out", lambda n, _: n % 2, "whole")  # in its place
    assert "records that out.placements.json names are gone" in cause_of(command, "out")


def test_the_cause_in_texts_with_canaries_in_them(command, workplace):
    shards("s")
    assert command("inject", "s", *CANARIES, "--mode", "splice", "--out", "out").code == 0
    assert "this is probably the corpus from before inject, so verify that one" in cause_of(
        command, "s"
    )
    shutil.copytree("out", "cut")
    text = Path("cut/0.jsonl").read_text()
    Path("cut/0.jsonl").write_text(re.sub(r"The code is \d+", "", text))
    assert "there, and so are all 240 records that out.placements.json" in cause_of(command, "cut")
