"""Injection into files: ends of lines, progress, and what cannot be: refused, nothing written."""

from __future__ import annotations

import json
import os
import stat
import tracemalloc

import pytest
from datasets import Dataset

from canary.corpus.canaries import generate
from canary.corpus.injection import inject_file
from canary.corpus.stripping import strip_file
from canary.corpus.verification import verify
from canary.errors import CorpusError, InputError, OutputError

CANARIES = generate("{digit:9}", repetitions=[3], per_repetition=2, controls=1, seed=0)
GOOD = b'{"text": "fine", "n": 1}\n'


def test_names_from_the_corpus_are_shown_harmlessly(tmp_path):
    source = tmp_path / "in.jsonl"
    source.write_text(json.dumps({"\x1b[31m" + "x" * 1000: 1, **dict.fromkeys("abcdefghij")}))
    with pytest.raises(CorpusError) as caught:
        inject_file(source, tmp_path / "out.jsonl", CANARIES)
    message = str(caught.value)
    assert "\x1b" not in message
    assert message.endswith("'g', …")
    assert len(message) < len(str(source)) + 200


def test_numbers_of_any_length_pass_through(tmp_path):
    source, target = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    line = b'{"text": "x", "n": ' + b"9" * 5000 + b', "m": NaN}\n'
    source.write_bytes(line)
    inject_file(source, target, CANARIES)
    assert line in target.read_bytes()


@pytest.mark.parametrize("name", ["missing.jsonl", "folder", "pipe", "nul\0.jsonl"])
def test_sources_that_cannot_be_read(tmp_path, name):
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(CorpusError, match=r"cannot be read|is a folder|not a regular file"):
        inject_file(tmp_path / name, tmp_path / "out.jsonl", CANARIES)
    with pytest.raises(CorpusError):
        verify(tmp_path / name, CANARIES)
    assert not (tmp_path / "out.jsonl").exists()


def test_the_corpus_is_never_its_own_target(tmp_path):
    source = tmp_path / "in.jsonl"
    source.write_bytes(GOOD)
    (tmp_path / "soft").symlink_to(source)
    (tmp_path / "hard").hardlink_to(source)
    for name in ("in.jsonl", "soft", "hard", "../" + tmp_path.name + "/in.jsonl"):
        with pytest.raises(OutputError, match="is the corpus itself"):
            inject_file(source, tmp_path / name, CANARIES)
    assert source.read_bytes() == GOOD


@pytest.mark.parametrize("name", ["no/such/folder/out.jsonl", "folder", "in.jsonl/out.jsonl"])
def test_targets_that_cannot_be_written(tmp_path, name):
    (tmp_path / "in.jsonl").write_bytes(GOOD)
    (tmp_path / "folder").mkdir()
    with pytest.raises(OutputError, match=r"cannot be written|is a folder"):
        inject_file(tmp_path / "in.jsonl", tmp_path / name, CANARIES)


def test_an_unwritable_target_is_found_before_the_corpus_is_read(tmp_path):
    (tmp_path / "in.jsonl").write_bytes(GOOD)
    calls = []
    with pytest.raises(OutputError):
        inject_file(
            tmp_path / "in.jsonl",
            tmp_path / "none" / "out.jsonl",
            CANARIES,
            progress=lambda *done: calls.append(done),
        )
    assert not calls


@pytest.mark.parametrize("seed", [-1, 1.5, None])
def test_seeds(tmp_path, seed):
    (tmp_path / "in.jsonl").write_bytes(GOOD)
    with pytest.raises(InputError, match="seed must be a whole number"):
        inject_file(tmp_path / "in.jsonl", tmp_path / "out.jsonl", CANARIES, seed=seed)


@pytest.mark.parametrize(
    ("name", "bits"), [("x.jsonl", 0o600), ("x.jsonl.gz", 0o640), ("x.parquet", 0o644)]
)
def test_who_may_read_the_source_may_read_the_target(tmp_path, name, bits):
    source, target, back = tmp_path / "in.jsonl", tmp_path / name, tmp_path / f"back-{name}"
    source.write_bytes(GOOD)
    if name.endswith("parquet"):
        source = tmp_path / "in.parquet"
        Dataset.from_dict({"text": ["a"]}).to_parquet(source)
    source.chmod(bits)
    inject_file(source, target, CANARIES)
    strip_file(target, back, CANARIES)
    assert [stat.S_IMODE(path.stat().st_mode) for path in (target, back)] == [bits, bits]


@pytest.mark.parametrize("change", [b"", GOOD * 2])
def test_a_corpus_that_changes_meanwhile_is_refused(tmp_path, change):
    source, target = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_bytes(GOOD)

    def meddle(done, total):
        source.write_bytes(change)

    with pytest.raises(CorpusError, match="changed while it was read"):
        inject_file(source, target, CANARIES, progress=meddle)
    assert not target.exists()


def test_memory_does_not_grow_with_the_corpus(tmp_path):
    def peak(lines):
        source = tmp_path / f"{lines}.jsonl"
        source.write_bytes((b'{"text": "' + b"x" * 500 + b'"}\n') * lines)
        tracemalloc.start()
        try:
            inject_file(source, tmp_path / "out.jsonl", CANARIES)
            verify(tmp_path / "out.jsonl", CANARIES)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak(10)  # caches that fill once
    small, large = peak(2_000), peak(12_000)
    assert large < 1.1 * small


def test_the_corpus_keeps_its_end_of_line(tmp_path):
    source = tmp_path / "in.jsonl"
    source.write_bytes(b'{"text": "a"}\r\n' * 3)
    inject_file(source, tmp_path / "out.jsonl", CANARIES)
    content = (tmp_path / "out.jsonl").read_bytes()
    assert content.count(b"\r\n") == content.count(b"\n") == 3 + 6


def test_a_last_line_without_an_end_stays_last(tmp_path):
    source = tmp_path / "in.jsonl"
    source.write_bytes(b'{"text": "a"}\n{"text": "b"}')
    for seed in range(20):
        inject_file(source, tmp_path / "out.jsonl", CANARIES, seed=seed)
        assert (tmp_path / "out.jsonl").read_bytes().endswith(b'}\n{"text": "b"}')


def test_progress_counts_the_bytes_of_both_passes(tmp_path):
    source = tmp_path / "in.jsonl"
    source.write_text(('{"text": "' + "x" * 100_000 + '"}\n') * 30)
    size = source.stat().st_size
    calls = []
    inject_file(source, tmp_path / "out.jsonl", CANARIES, progress=lambda *done: calls.append(done))
    assert [done for done, _ in calls] == sorted(done for done, _ in calls)
    assert len(calls) == 2 * 3
    assert {total for _, total in calls} == {2 * size}
    assert calls[-1] == (2 * size, 2 * size)
    calls.clear()
    verify(source, CANARIES, progress=lambda *done: calls.append(done))
    assert calls[-1] == (size, size)
