"""Injection into files: ends of lines, progress, rights, memory, interruptions and full disks."""

from __future__ import annotations

import json
import random
import resource
import stat
import tracemalloc
from contextlib import contextmanager

import pytest
from corpora import write_corpus
from listening import Listening

from canary.corpus.canaries import generate
from canary.corpus.injection import inject_file
from canary.corpus.stripping import strip_file
from canary.corpus.verification import verify
from canary.errors import CorpusError, OutputError

CANARIES = generate("{digit:9}", repetitions=[3], per_repetition=2, controls=1, seed=0)


def test_names_from_the_corpus_are_shown_harmlessly(tmp_path):
    source = tmp_path / "in.jsonl"
    source.write_text(json.dumps({"\x1b[31m" + "x" * 1000: 1, **dict.fromkeys("abcdefghij")}))
    with pytest.raises(CorpusError) as caught:
        inject_file(source, tmp_path / "out.jsonl", CANARIES)
    message = str(caught.value)
    assert "\x1b" not in message
    assert message.endswith("'g', …")
    assert len(message) < len(str(source)) + 200


@pytest.mark.parametrize(
    ("lines", "ends"),
    [
        (b'{"text": "x", "n": ' + b"9" * 5000 + b', "m": NaN}\n', b"\n"),
        (b'{"text": "a"}\r\n' * 3, b"\r\n"),
        (b'{"text": "a"}\n{"text": "b"}', b"\n"),  # a last line without an end stays last
    ],
)
def test_lines_pass_as_they_are(tmp_path, lines, ends):
    source, target = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_bytes(lines)
    own = [canary.fill.encode() for canary in CANARIES.injected]
    for seed in range(8):
        inject_file(source, target, CANARIES, seed=seed)
        found = target.read_bytes()
        assert found.count(ends) == found.count(b"\n") == lines.count(b"\n") + 6
        rest = [
            line for line in found.splitlines(keepends=True) if not any(map(line.__contains__, own))
        ]
        assert b"".join(rest) == lines
        assert found.endswith(b"\n") == lines.endswith(b"\n")


@pytest.mark.parametrize(
    ("name", "bits"), [("x.jsonl", 0o600), ("x.jsonl.gz", 0o640), ("x.parquet", 0o644)]
)
def test_who_may_read_the_source_may_read_the_target(tmp_path, name, bits):
    source = write_corpus(tmp_path / name, ["a"])
    target, back = tmp_path / f"out-{name}", tmp_path / f"back-{name}"
    source.chmod(bits)
    inject_file(source, target, CANARIES)
    strip_file(target, back, CANARIES)
    assert [stat.S_IMODE(path.stat().st_mode) for path in (target, back)] == [bits, bits]


@pytest.mark.parametrize("name", ["in.jsonl", "in.parquet"])
@pytest.mark.parametrize("change", ["touched", "empty", "longer"])
def test_a_corpus_that_changes_meanwhile_is_refused(tmp_path, name, change):
    source, target = write_corpus(tmp_path / name, ["x"] * 10), tmp_path / f"out-{name}"

    def meddle(done, total):
        if change == "touched":
            source.touch()
        elif name == "in.jsonl":
            source.write_text('{"text": "x"}\n' * (20 if change == "longer" else 0))
        else:
            source.write_bytes(source.read_bytes() + b" ")

    with pytest.raises(CorpusError, match="changed while it was read|cannot be read"):
        inject_file(source, target, CANARIES, progress=Listening(meddle))
    assert not target.exists()


@pytest.mark.parametrize("name", ["in.parquet", "in.csv", "in.jsonl.gz"])
def test_an_interrupted_run_leaves_nothing(tmp_path, name):
    source = write_corpus(
        tmp_path / name, [random.Random(n).randbytes(500).hex() for n in range(3000)]
    )

    def interrupt(done, total):
        if done > 0.6 * total:
            raise KeyboardInterrupt

    for call in (inject_file, strip_file):
        with pytest.raises(KeyboardInterrupt):
            call(source, tmp_path / f"out-{name}", CANARIES, progress=Listening(interrupt))
        assert [path.name for path in tmp_path.iterdir()] == [name]


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
    small, large = peak(1_000), peak(5_000)
    assert large < 1.1 * small


def test_progress_counts_the_bytes_of_both_passes(tmp_path):
    source = tmp_path / "in.jsonl"
    source.write_text(('{"text": "' + "x" * 100_000 + '"}\n') * 30)
    size = source.stat().st_size
    told = Listening()
    inject_file(source, tmp_path / "out.jsonl", CANARIES, progress=told)
    calls = told.reached
    assert told.stages == [("in.jsonl", 2 * size, "B")]
    assert [done for done, _ in calls] == sorted(done for done, _ in calls)
    assert len(calls) == 2 * 3
    assert {total for _, total in calls} == {2 * size}
    assert calls[-1] == (2 * size, 2 * size)
    told = Listening()
    verify(source, CANARIES, progress=told)
    assert told.reached[-1] == (size, size)


@contextmanager
def files_of_at_most(size):
    """Writing behind `size` fails as on a full disk (EFBIG), whatever the file."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize(
    ("source", "target", "mode", "size"),
    [
        ("a.jsonl", "b.jsonl", "splice", 0),
        ("a.csv", "b.csv", "record", 100_000),
        ("a.parquet", "b.parquet", "splice", 100_000),
        ("a.jsonl", "b.jsonl.gz", "record", 100_000),
        ("a.txt", "b.txt.bz2", "record", 0),
        ("a.jsonl", "b.jsonl.xz", "record", 0),
        ("a.jsonl", "b.jsonl.zst", "record", 100_000),
    ],
)
def test_a_disk_that_fills(tmp_path, source, target, mode, size):
    """An error that names the file, and no half of it."""
    texts = [f"{i} " + random.Random(i).randbytes(300).hex() for i in range(400)]
    corpus, full = write_corpus(tmp_path / source, texts), tmp_path / "full" / target
    full.parent.mkdir()
    with files_of_at_most(size), pytest.raises(OutputError, match="has room") as caught:
        inject_file(corpus, full, CANARIES, mode=mode)
    assert caught.value.where == str(full)
    assert not list(full.parent.iterdir())
    canaried = tmp_path / target
    inject_file(corpus, canaried, CANARIES, mode=mode)
    with files_of_at_most(size), pytest.raises(OutputError, match="has room"):
        strip_file(canaried, full, CANARIES)
    assert not list(full.parent.iterdir())
