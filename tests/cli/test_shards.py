"""Corpora in many files through the command line, and what goes wrong with them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from trained import trained

from canary.corpus.canaries import generate

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
    for name in ("valid-0.jsonl", "audit.json"):
        Path("out", name).write_text(Path("out", "0.jsonl").read_text())
    assert left in command("verify", "out/[0-9].jsonl", *CANARIES).err
