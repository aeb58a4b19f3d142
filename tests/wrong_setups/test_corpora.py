"""Corpora that are not what an audit takes them for: the page says what canary says."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path

import datasets
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from texts_and_models import trained_on
from toys import START, canaries
from trained import trained
from wrong_setups import Setups, lines, of_call, of_command, test_all_are_made, test_is_said  # noqa: F401

import canary

made = Setups()
TABLE = lines("Corpora and canary sets")


@made("C1")
def _never_injected(desk):
    return _verified(desk, "corpus.jsonl")


@made("C2")
def _in_the_validation_split(desk):
    split = datasets.Dataset.from_json("corpus.jsonl")
    both = datasets.DatasetDict(train=split, validation=split)
    mixed = canary.inject(both, canaries(), split="validation")
    desk.audited("untrained", "--start-token", START)
    found = canary.verify(mixed, canaries())
    return of_call(
        lambda: canary.check("audit/audit.json", max_exposure_bits=8, verification=found)
    )


@made("C3")
def _lower_case(desk):
    return _changed(desk, lambda texts: [text.lower() for text in texts])


@made("C4")
def _deduplicated(desk):
    return _changed(desk, dict.fromkeys)


@made("C5")
def _beside_an_empty_text(desk):
    rows = [{"title": f"No. {n}", "text": f"It rains {n}."} for n in range(20)]
    Path("mail.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    words = ("--canaries", "canaries.json", "--column", "title", "--out", "mixed.jsonl")
    return of_command(desk.command("inject", "mail.jsonl", *words))


@made("C6")
def _verification_of_another_corpus(desk):
    """The training read the corpus before one of its canaries was lost."""
    _changed(desk, lambda texts: [t for t in texts if t != canaries().text(canaries().injected[0])])
    return desk.judged("toy", "--start-token", START, limits=desk.verified("changed.jsonl"))


@made("C7")
def _drawn_again(desk):
    desk.inject()
    verified = desk.verified()
    canaries(seed=9).save("again.json")
    return desk.judged("toy", "--start-token", START, canaries="again.json", limits=verified)


@made("C8")
def _second_set(desk):
    desk.inject()
    canaries(seed=9).save("more.json")
    return of_command(
        desk.command("inject", "mixed.jsonl", "--canaries", "more.json", "--out", "both.jsonl")
    )


@made("C9")
def _encoding(desk):
    Path("corpus.jsonl").write_bytes(Path("corpus.jsonl").read_text().encode("utf-16"))
    return of_command(
        desk.command("inject", "corpus.jsonl", "--canaries", "canaries.json", "--out", "m.jsonl")
    )


@made("C10")
def _controls_too(desk):
    known = canaries()
    controls = [known.text(c) for c in known.controls]
    return _changed(desk, lambda texts: [*texts, *controls])


@made("C11")
def _deduplicated_and_not_verified(desk):
    """A model that read each canary once, among other codes."""
    return _audited(lambda known: [known.text(c) for c in known.injected])


@made("C12")
def _a_file_is_missing(desk):
    _two_files()
    few = canary.generate("the pin is {digit:6}", repetitions=[1], per_repetition=1, seed=0)
    few.save("few.json")
    many = ("shards", "--canaries", "few.json", "--out", "mixed")
    assert desk.command("inject", *many).code == 0
    without = [file for file in Path("mixed").iterdir() if "the pin is" not in file.read_text()]
    without[0].unlink()
    return of_command(desk.command("verify", "mixed", "--canaries", "few.json"))


@made("C13")
def _another_pad(desk):
    tokenizer = trained("gpt2").from_str(trained("gpt2").to_str())
    tokenizer.add_special_tokens(["<pad>"])
    tokenizer.save("tokenizer.json")
    ids = tokenizer.encode("<s>".join(f"It rains {n}." for n in range(200))).ids
    rows = [ids[at : at + 32] for at in range(0, len(ids) - 31, 32)]
    pq.write_table(pa.table({"input_ids": rows}), "packed.parquet")
    words = ("--column", "input_ids", "--tokenizer", "tokenizer.json", "--pad", "<pad>")
    more = ("--canaries", "canaries.json", "--out", "mixed.parquet")
    return of_command(desk.command("inject", "packed.parquet", *words, *more))


@made("C14")
def _compressed_beside(desk):
    _two_files()
    Path("shards/b.jsonl.gz").write_bytes(gzip.compress(Path("shards/b.jsonl").read_bytes()))
    Path("shards/b.jsonl").unlink()
    words = ("--canaries", "canaries.json", "--out", "mixed")
    return of_command(desk.command("inject", "shards/*.jsonl", *words))


@made("C15")
def _what_is_no_text(desk):
    _two_files()
    Path("shards/metadata.jsonl").write_text('{"license": "MIT"}\n')
    words = ("--canaries", "canaries.json", "--out", "mixed")
    return of_command(desk.command("inject", "shards", *words))


@made("C16")
def _the_folder_that_was_read(desk):
    _two_files()
    desk.inject("mixed", corpus="shards")
    return _verified(desk, "shards")


@made("C17")
def _a_file_twice(desk):
    _two_files()
    desk.inject("mixed", corpus="shards")
    shutil.copy("mixed/a.jsonl", "mixed/again.jsonl")
    return _verified(desk, "mixed")


@made("C18")
def _filtered(desk):
    _two_files()
    desk.inject("mixed", corpus="shards")
    lines = Path("mixed/a.jsonl").read_text().splitlines(keepends=True)
    Path("mixed/a.jsonl").write_text("".join(lines[::2]))
    return _verified(desk, "mixed")


def _two_files():
    Path("shards").mkdir()
    for name in ("a", "b"):
        rows = [json.dumps({"text": f"text {n} of {name}"}) + "\n" for n in range(60)]
        Path("shards", f"{name}.jsonl").write_text("".join(rows))


def test_a_corpus_that_was_injected_is_not_doubted(desk):
    found = _changed(desk, list)
    assert found.outcome == "Note"
    found.fits_none(TABLE)
    as_planned = _audited(
        lambda known: [known.text(c) for c in known.injected for _ in range(c.repetitions)]
    )
    as_planned.fits_none(TABLE)


def _audited(read):
    """What an audit says of a model that counted what follows what in these texts and others."""
    known = canary.generate(
        "the code is {digit:6}", repetitions=[1, 16], per_repetition=8, controls=8, seed=1
    )
    (space,), rng = known.formats, np.random.default_rng(3)
    model = trained_on([*read(known), *map(space.candidate, space.sample(600, rng=rng))])
    return of_call(lambda: canary.audit(model, known, start_token="\n", budget=2000, draws=1000))


def _changed(desk, change):
    """What verify says of the canaries' corpus with other texts."""
    desk.inject()
    texts = [json.loads(line)["text"] for line in Path("mixed.jsonl").read_text().splitlines()]
    rows = [json.dumps({"text": text}) + "\n" for text in change(texts)]
    Path("changed.jsonl").write_text("".join(rows))
    return _verified(desk, "changed.jsonl")


def _verified(desk, corpus="mixed.jsonl"):
    return of_command(desk.command("verify", corpus, "--canaries", "canaries.json"))
