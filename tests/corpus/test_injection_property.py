"""Injection into JSON lines: ends of lines, and what progress is told."""

from __future__ import annotations

from canary.corpus.canaries import generate
from canary.corpus.injection import inject_file
from canary.corpus.verification import verify


def test_the_corpus_keeps_its_end_of_line(tmp_path):
    source = tmp_path / "in.jsonl"
    source.write_bytes(b'{"text": "a"}\r\n' * 3)
    canaries = generate("{digit:9}", repetitions=[5], seed=0)
    inject_file(source, tmp_path / "out.jsonl", canaries)
    content = (tmp_path / "out.jsonl").read_bytes()
    assert content.count(b"\r\n") == content.count(b"\n") == 3 + 40


def test_a_last_line_without_an_end_stays_last(tmp_path):
    source = tmp_path / "in.jsonl"
    source.write_bytes(b'{"text": "a"}\n{"text": "b"}')
    canaries = generate("{digit:9}", repetitions=[5], seed=0)
    for seed in range(20):
        inject_file(source, tmp_path / "out.jsonl", canaries, seed=seed)
        assert (tmp_path / "out.jsonl").read_bytes().endswith(b'}\n{"text": "b"}')


def test_progress_counts_the_bytes_of_both_passes(tmp_path):
    source = tmp_path / "in.jsonl"
    source.write_text(('{"text": "' + "x" * 100_000 + '"}\n') * 30)
    size = source.stat().st_size
    canaries = generate("{digit:9}", seed=0)
    calls = []
    inject_file(source, tmp_path / "out.jsonl", canaries, progress=lambda *done: calls.append(done))
    assert [done for done, _ in calls] == sorted(done for done, _ in calls)
    assert len(calls) == 2 * 3
    assert {total for _, total in calls} == {2 * size}
    assert calls[-1] == (2 * size, 2 * size)
    calls.clear()
    verify(source, canaries, progress=lambda *done: calls.append(done))
    assert calls[-1] == (size, size)
