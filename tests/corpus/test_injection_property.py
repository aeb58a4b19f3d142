"""Injection into JSON lines: exact copies, the rest untouched, seeded."""

from __future__ import annotations

import json
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from canary.corpus.canaries import generate
from canary.corpus.injection import inject_file
from canary.corpus.verification import verify

_VALUES = st.none() | st.integers() | st.floats() | st.text(max_size=5) | st.lists(st.booleans())


@st.composite
def _corpus(draw):
    """Bytes of a JSONL corpus as various programs write it."""
    newline = draw(st.sampled_from(["\n", "\r\n"]))
    lines = []
    for _ in range(draw(st.integers(1, 12))):
        record = draw(st.dictionaries(st.text(max_size=4), _VALUES, max_size=3))
        record["text"] = draw(st.text(max_size=12))
        ascii_only = draw(st.booleans())
        try:
            line = json.dumps(record, ensure_ascii=ascii_only)
            line.encode()
        except UnicodeEncodeError:
            line = json.dumps(record)
        lines.append(draw(st.sampled_from(["", " "])) + line)
        lines += [""] * draw(st.integers(0, 1))
    ending = draw(st.sampled_from([newline, ""]))
    return (newline.join(lines) + ending).encode()


@settings(max_examples=80, deadline=None)
@given(
    corpus=_corpus(),
    repetitions=st.lists(st.integers(1, 7), max_size=3, unique=True),
    seed=st.integers(0, 2**63 - 1),
)
def test_exact_copies_and_nothing_else(tmp_path_factory, corpus, repetitions, seed):
    folder = tmp_path_factory.mktemp("corpus")
    source, target = folder / "in.jsonl", folder / "out.jsonl"
    source.write_bytes(corpus)
    canaries = generate(
        ["é {digit:4}\n", "{letter:9}"], repetitions=repetitions, per_repetition=2, seed=seed
    )
    places = inject_file(source, target, canaries, seed=seed)

    lines = target.read_bytes().split(b"\n")
    lines = [line + b"\n" for line in lines[:-1]] + [line for line in lines[-1:] if line]
    assert places.total_lines == len(lines)
    injected = {number: name for name, numbers in places.lines.items() for number in numbers}
    rest = [line for number, line in enumerate(lines, 1) if number not in injected]
    assert b"".join(rest) == corpus
    assert source.read_bytes() == corpus

    by_id = {canary.id: canary for canary in canaries}
    assert Counter(injected.values()) == {c.id: c.repetitions for c in canaries.injected}
    first = json.loads(next(line for line in corpus.decode().split("\n") if line.strip()))
    for number, name in injected.items():
        expected = dict.fromkeys(first, None) | {"text": canaries.text(by_id[name])}
        assert json.loads(lines[number - 1]) == expected
    for numbers in places.lines.values():
        assert list(numbers) == sorted(numbers)

    assert verify(target, canaries).records == sum(bool(line.strip()) for line in lines)
    again = folder / "again.jsonl"
    assert inject_file(source, again, canaries, seed=seed) == places
    assert again.read_bytes() == target.read_bytes()


def test_another_seed_chooses_other_places(tmp_path):
    source = tmp_path / "in.jsonl"
    source.write_text('{"text": "a"}\n' * 1000)
    canaries = generate("{digit:9}", repetitions=[5], per_repetition=4, seed=0)
    one = inject_file(source, tmp_path / "one.jsonl", canaries, seed=1)
    two = inject_file(source, tmp_path / "two.jsonl", canaries, seed=2)
    assert one.lines != two.lines


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
