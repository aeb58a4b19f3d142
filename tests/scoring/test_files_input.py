"""Scoring a file: what it writes, long texts in windows, and what it refuses."""

from __future__ import annotations

import json
import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from listening import Listening
from small_models import build, table_model

import canary
from canary.errors import CanaryError, CorpusError, InputError, ModelError, OutputError
from canary.models.language_model import Rows
from canary.scoring import score_job
from canary.scoring import texts as scoring_texts
from canary.scoring.score_job import score_file
from canary.scoring.texts import score

TOO_LONG = r"texts\.jsonl:1: the line has more than .*split its text into several lines"


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def write(*texts):
    Path("texts.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))


def scored(model, **options):
    return score_file(model, "texts.jsonl", "scores.jsonl", **options)


def records():
    return [json.loads(line) for line in Path("scores.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("name", ["table", "lstm", "gpt2"])
def test_same_numbers_as_score_oracle(name):
    texts = ["the code is 281", "", "a", "x" * 40, "0123456789 abc", "the code is 281"]
    write(*texts)
    done = scored(build(name), start_token="\n")
    noise = build(name).facts.noise_bits(64)
    wanted = score(build(name), texts, start_token="\n")
    found = records()
    assert [record["px_bits"] for record in found] == pytest.approx(wanted.tolist(), abs=noise)
    assert [record["tokens"] for record in found] == [len(text) for text in texts]
    assert [record["line"] for record in found] == [1, 2, 3, 4, 5, 6]
    assert (done.texts, done.tokens, done.resumed) == (6, sum(map(len, texts)), 0)
    assert done.px_bits == pytest.approx(wanted.sum(), abs=6 * noise)


def test_blocks_do_not_matter_property(monkeypatch):
    write(*("ab" * (n % 13) for n in range(50)))
    scored(table_model())
    whole = records()
    for size in (1, 3, 49, 50, 51):
        monkeypatch.setattr(scoring_texts, "_TEXTS", size)
        monkeypatch.setattr(score_job, "_SHARD_SECONDS", 0.0 if size % 2 else 5.0)
        done = scored(table_model())
        assert records() == whole
        assert (done.texts, done.tokens) == (50, sum(record["tokens"] for record in whole))


@pytest.mark.parametrize(
    ("length", "overlap"), [(64, 31), (65, 1), (65, 63), (97, 31), (130, 1), (96, 63)]
)
def test_windows_price_each_token_once_oracle(length, overlap):
    """Against each token priced alone, with the context that its window gives it."""
    rng = np.random.default_rng(length)
    text = "".join(rng.choice(list("abc 0123"), length))
    write("short", text)
    model, wanted = build("gpt2"), 0.0
    scored(model, overlap=overlap)
    limit, step = 64, 64 - overlap
    for at in range(1, length):
        window = 0 if at < limit else (at - limit) // step + 1
        begin = window * step
        parts = score(model, [text[begin : at + 1], text[begin:at]])
        wanted += parts[0] - parts[1]
    assert records()[1]["px_bits"] == pytest.approx(wanted, rel=1e-4)
    assert records()[1]["tokens"] == length - 1


@pytest.mark.parametrize("overlap", [None, 0, 64, 100])
def test_what_no_window_takes_is_refused_input(overlap):
    write("a", "b", "c" * 65)
    error, told = InputError, f"overlap={overlap} does not fit windows of 64 tokens"
    if overlap is None:
        error, told = ModelError, r"texts\.jsonl:3: the text has 65 tokens, the model take"
    with pytest.raises(error, match=told):
        scored(build("gpt2"), overlap=overlap)
    assert not Path("scores.jsonl").exists()


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "texts.jsonl: holds no record"),
        (b"\n \n", "texts.jsonl: holds no record"),
        (b'{"text": "a"}\n{"tax": "a"}\n', "texts.jsonl:2: has no column 'text'"),
        (b'{"text": "a"}\n\n{"text": 3}\n', "texts.jsonl:3: column 'text' is a number"),
        (b'{"text": "a"}\n{"text": "a\n', "texts.jsonl:2: is not valid JSON"),
        (b'{"text": "a"}\n\xff\n', "texts.jsonl:2: is not UTF-8"),
        (b'{"text": "a"}\n{"text": "\\ud800"}\n', "texts.jsonl:2: holds half a surrogate pair"),
        ('{"text": "a"}\n{"text": "ä"}\n'.encode(), "texts.jsonl:2: the tokenizer does not know"),
    ],
)
def test_bad_input_is_refused_with_its_line(data, told):
    Path("texts.jsonl").write_bytes(data)
    with pytest.raises(CanaryError) as refused:
        scored(table_model())
    assert str(refused.value).startswith(told)
    assert refused.value.cure
    assert not Path("scores.jsonl").exists()
    if "tokenizer" in told:
        with pytest.raises(CanaryError, match=r"texts\[1\]: .*it lacks 'ä'; .*leave the text out"):
            canary.score(table_model(), ["a", "ä"])
        with pytest.raises(CanaryError) as refused:
            canary.score(table_model(), ["a", "ä", "b", "bö", "ä"])
        assert "texts[1]: " in str(refused.value)
        assert "it lacks 'ä', 'ö'; 2 more texts of 5" in str(refused.value)
        assert "(texts[3], texts[4])" in str(refused.value)
        assert "say so" in refused.value.cure


@pytest.mark.parametrize(
    ("source", "target", "error", "told"),
    [
        ("none.jsonl", "out", CorpusError, "none.jsonl: cannot be read"),
        ("folder", "out", CorpusError, "is a folder"),
        ("texts.jsonl", "folder", OutputError, "is a folder"),
        ("texts.jsonl", "none/out", OutputError, "cannot be written .* check that the folder"),
        ("texts.jsonl", "texts.jsonl", OutputError, "is the file of the texts itself"),
    ],
)
def test_bad_places_are_refused_before_the_model_is_touched(source, target, error, told):
    write("a")
    Path("folder").mkdir()
    with pytest.raises(error, match=told):
        score_file(None, source, target)
    assert sorted(path.name for path in Path().iterdir()) == ["folder", "texts.jsonl"]
    with pytest.raises(CorpusError, match="cannot be read"):  # though it is a file by its mode
        scoring_texts.file_digest(Path("folder"))


def test_input_that_changes_meanwhile_is_refused(monkeypatch):
    write(*["abc"] * 40)
    monkeypatch.setattr(scoring_texts, "_TEXTS", 8)
    monkeypatch.setattr(score_job, "_SHARD_SECONDS", 0.0)

    def grow(done, total):
        if done > total / 2:
            with Path("texts.jsonl").open("a") as file:
                file.write('{"text": "x"}\n')

    with pytest.raises(CorpusError, match="changed while it was read; start again when nothing"):
        scored(table_model(), progress=Listening(grow))
    assert not Path("scores.jsonl").exists()


def test_probability_zero_is_null_degenerate():
    model = table_model()
    model._log_probs[:, 3] = -np.inf
    model.facts = replace(model.facts, fingerprint="other")
    write("ab", "a3b", "b")
    done = scored(model)
    assert [record["px_bits"] is None for record in records()] == [False, True, False]
    assert done.px_bits is None


def test_progress_moves_within_a_block_and_reaches_the_size():
    write(*["abc"] * 40)
    told = Listening()
    scored(table_model(), batch_size=4, progress=told)
    size = Path("texts.jsonl").stat().st_size
    assert told.stages == [("texts.jsonl", size, "B")]
    assert told.reached[-1] == (size, size)
    assert len(told.reached) >= 10  # forty texts are one block
    assert told.reached == sorted(told.reached)


def test_memory_does_not_grow_with_the_file_theory(monkeypatch):
    monkeypatch.setattr(scoring_texts, "_TEXTS", 32)
    monkeypatch.setattr(score_job, "_SHARD_BYTES", 2**12)
    model, peaks = table_model(), []
    for count in (100, 300, 900):
        write(*["the code is 281"] * count)
        tracemalloc.start()
        scored(model, batch_size=32)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[2] < 1.2 * peaks[1] + 50_000


def test_what_is_too_long_is_refused_and_not_read_to_its_end(monkeypatch):
    """One line of 105 MB took 20.8 GB."""
    write("short", "x" * 101)
    monkeypatch.setattr(scoring_texts, "_MOST_CHARACTERS", 100)
    with pytest.raises(CorpusError, match=r"texts.jsonl:2: the text has 101 .* split it into sev"):
        scored(table_model(), overlap=3)
    Path("texts.jsonl").write_bytes(b'{"text": "' + b"x" * 20_000_000)
    monkeypatch.setattr(scoring_texts, "_LINE_BYTES", 1000)
    tracemalloc.start()
    try:
        with pytest.raises(CorpusError, match=TOO_LONG):
            scored(table_model())
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()


def test_windows_are_held_a_few_at_a_time_oracle(monkeypatch):
    """With all but one token of each shared they are far longer than the text together."""
    write("", "ab" * 60, "a", "0123456789" * 20, "b")
    model = table_model()
    model.facts = replace(model.facts, length_limit=16)
    scored(model, start_token="\n", overlap=15)
    whole, seen, rows_of = records(), [], Rows.of.__func__

    def spied(cls, parts, starts=1):
        seen.append(sum(map(len, parts)))
        return rows_of(cls, parts, starts)

    monkeypatch.setattr(score_job, "_TOKENS", 100)
    monkeypatch.setattr(Rows, "of", classmethod(spied))
    scored(model, start_token="\n", overlap=15)
    assert max(seen) < 100 + 16
    assert sum(seen) > 10 * 120
    assert [r["tokens"] for r in records()] == [r["tokens"] for r in whole]
    assert [r["px_bits"] for r in records()] == pytest.approx([r["px_bits"] for r in whole])
