"""Corpora in many files through the command line, and what goes wrong with them."""

from __future__ import annotations

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
