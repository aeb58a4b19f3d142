"""Scoring a file: what it writes, long texts in windows, and what it refuses."""

from __future__ import annotations

import json
import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from small_models import build, table_model

from canary.errors import CanaryError, CorpusError, InputError, ModelError, OutputError
from canary.models.language_model import Rows
from canary.scoring import score_job
from canary.scoring import texts as scoring_texts
from canary.scoring.score_job import score_file
from canary.scoring.texts import score


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def write(*texts):
    Path("texts.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))


def records():
    return [json.loads(line) for line in Path("scores.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("name", ["table", "lstm", "gpt2"])
def test_same_numbers_as_score_oracle(name):
    texts = ["the code is 281", "", "a", "x" * 40, "0123456789 abc", "the code is 281"]
    write(*texts)
    done = score_file(build(name), "texts.jsonl", "scores.jsonl", start_token="\n")
    noise = build(name).facts.noise_bits(64)
    bits = [record["px_bits"] for record in records()]
    wanted = score(build(name), texts, start_token="\n")
    assert bits == pytest.approx(wanted.tolist(), abs=noise)
    assert [record["tokens"] for record in records()] == [len(text) for text in texts]
    assert [record["line"] for record in records()] == [1, 2, 3, 4, 5, 6]
    assert done.texts == 6
    assert done.tokens == sum(map(len, texts))
    assert done.px_bits == pytest.approx(wanted.sum(), abs=6 * noise)
    assert done.resumed == 0


def test_blocks_do_not_matter_property(monkeypatch):
    texts = ["ab" * (n % 13) for n in range(50)]
    write(*texts)
    score_file(table_model(), "texts.jsonl", "scores.jsonl")
    whole = records()
    for size in (1, 3, 49, 50, 51):
        monkeypatch.setattr(scoring_texts, "_TEXTS", size)
        monkeypatch.setattr(score_job, "_SHARD_SECONDS", 0.0 if size % 2 else 5.0)
        score_file(table_model(), "texts.jsonl", "scores.jsonl")
        assert records() == whole


@pytest.mark.parametrize("overlap", [1, 31, 63])
@pytest.mark.parametrize("length", [64, 65, 96, 97, 130])
def test_windows_price_each_token_once_oracle(length, overlap):
    """Against each token priced alone, with the context that its window gives it."""
    rng = np.random.default_rng(length)
    text = "".join(rng.choice(list("abc 0123"), length))
    write("short", text)
    model = build("gpt2")
    score_file(model, "texts.jsonl", "scores.jsonl", overlap=overlap)
    wanted = 0.0
    limit, step = 64, 64 - overlap
    for at in range(1, length):
        window = 0 if at < limit else (at - limit) // step + 1
        begin = window * step
        parts = score(model, [text[begin : at + 1], text[begin:at]])
        wanted += parts[0] - parts[1]
    assert records()[1]["px_bits"] == pytest.approx(wanted, rel=1e-4)
    assert records()[1]["tokens"] == length - 1


def test_a_text_too_long_is_refused_with_its_line():
    write("a", "b", "c" * 65)
    with pytest.raises(ModelError, match=r"texts\.jsonl:3: the text has 65 tokens, the model take"):
        score_file(build("gpt2"), "texts.jsonl", "scores.jsonl")
    assert not Path("scores.jsonl").exists()


@pytest.mark.parametrize("overlap", [0, 64, 100])
def test_an_overlap_that_does_not_fit_is_refused(overlap):
    write("a")
    with pytest.raises(InputError, match=f"overlap={overlap} does not fit windows of 64 tokens"):
        score_file(build("gpt2"), "texts.jsonl", "scores.jsonl", overlap=overlap)


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
        score_file(table_model(), "texts.jsonl", "scores.jsonl")
    assert str(refused.value).startswith(told)
    assert refused.value.cure
    assert not Path("scores.jsonl").exists()


def test_bad_places_are_refused_before_the_model_is_touched():
    write("a")
    Path("folder").mkdir()
    for source, target, error, told in (
        ("none.jsonl", "out", CorpusError, "none.jsonl: cannot be read"),
        ("folder", "out", CorpusError, "is a folder"),
        ("texts.jsonl", "folder", OutputError, "is a folder"),
        ("texts.jsonl", "none/out", OutputError, "cannot be written .* check that the folder"),
        ("texts.jsonl", "texts.jsonl", OutputError, "is the file of the texts itself"),
    ):
        with pytest.raises(error, match=told):
            score_file(None, source, target)
    assert sorted(path.name for path in Path().iterdir()) == ["folder", "texts.jsonl"]


def test_input_that_changes_meanwhile_is_refused(monkeypatch):
    write(*["abc"] * 40)
    monkeypatch.setattr(scoring_texts, "_TEXTS", 8)
    monkeypatch.setattr(score_job, "_SHARD_SECONDS", 0.0)

    def grow(done, total):
        if done > total / 2:
            with Path("texts.jsonl").open("a") as file:
                file.write('{"text": "x"}\n')

    with pytest.raises(CorpusError, match="changed while it was read; start again when nothing"):
        score_file(table_model(), "texts.jsonl", "scores.jsonl", progress=grow)
    assert not Path("scores.jsonl").exists()


def test_probability_zero_is_null_degenerate():
    model = table_model()
    model._log_probs[:, 3] = -np.inf
    model.facts = replace(model.facts, fingerprint="other")
    write("ab", "a3b", "b")
    done = score_file(model, "texts.jsonl", "scores.jsonl")
    assert [record["px_bits"] is None for record in records()] == [False, True, False]
    assert done.px_bits is None


def test_progress_moves_within_a_block_and_reaches_the_size():
    write(*["abc"] * 40)
    told = []
    path, out = "texts.jsonl", "scores.jsonl"
    score_file(table_model(), path, out, batch_size=4, progress=lambda *both: told.append(both))
    size = Path("texts.jsonl").stat().st_size
    assert told[0] == (0, size)
    assert told[-1] == (size, size)
    assert len(told) >= 10  # forty texts are one block
    assert told == sorted(told)


def test_memory_does_not_grow_with_the_file(monkeypatch):
    monkeypatch.setattr(scoring_texts, "_TEXTS", 32)
    monkeypatch.setattr(score_job, "_SHARD_BYTES", 2**12)
    model = table_model()
    peaks = []
    for count in (100, 400, 1600):
        write(*["the code is 281"] * count)
        tracemalloc.start()
        score_file(model, "texts.jsonl", "scores.jsonl", batch_size=32)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[2] < 1.2 * peaks[1] + 50_000


def test_a_text_that_is_too_long_to_be_held_as_tokens_is_refused(monkeypatch):
    """One line of 105 MB took 20.8 GB."""
    write("short", "x" * 101)
    monkeypatch.setattr(scoring_texts, "_MOST_CHARACTERS", 100)
    with pytest.raises(CorpusError, match=r"texts.jsonl:2: the text has 101 .* split it into sev"):
        score_file(table_model(), "texts.jsonl", "scores.jsonl", overlap=3)
    monkeypatch.setattr(scoring_texts, "_LINE_BYTES", 50)
    with pytest.raises(CorpusError, match=r"texts.jsonl:2: the line has more than .* split its"):
        score_file(table_model(), "texts.jsonl", "scores.jsonl", overlap=3)


def test_a_line_that_is_too_long_is_not_read_to_its_end(monkeypatch):
    Path("texts.jsonl").write_bytes(b'{"text": "' + b"x" * 50_000_000)
    monkeypatch.setattr(scoring_texts, "_LINE_BYTES", 1000)
    tracemalloc.start()
    try:
        with pytest.raises(CorpusError, match=r"texts.jsonl:1: the line has more than"):
            score_file(table_model(), "texts.jsonl", "scores.jsonl")
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()


def test_windows_are_held_a_few_at_a_time_oracle(monkeypatch):
    """With all but one token of each shared they are far longer than the text together."""
    write("", "ab" * 60, "a", "0123456789" * 20, "b")
    model = table_model()
    model.facts = replace(model.facts, length_limit=16)
    score_file(model, "texts.jsonl", "scores.jsonl", start_token="\n", overlap=15)
    whole, seen, rows_of = records(), [], Rows.of.__func__

    def spied(cls, parts, starts=1):
        seen.append(sum(map(len, parts)))
        return rows_of(cls, parts, starts)

    monkeypatch.setattr(score_job, "_TOKENS", 100)
    monkeypatch.setattr(Rows, "of", classmethod(spied))
    score_file(model, "texts.jsonl", "scores.jsonl", start_token="\n", overlap=15)
    assert max(seen) < 100 + 16
    assert sum(seen) > 10 * 120
    assert [r["tokens"] for r in records()] == [r["tokens"] for r in whole]
    assert [r["px_bits"] for r in records()] == pytest.approx([r["px_bits"] for r in whole])


def test_a_file_that_cannot_be_read_to_its_end_is_a_corpus_error(tmp_path):
    """As /proc/self/mem: it is a regular file by its mode, and reading it fails."""
    with pytest.raises(CorpusError, match="cannot be read"):
        scoring_texts.file_digest(tmp_path)
