"""Every format, mode and compression: exact copies, the rest untouched, and out again."""

from __future__ import annotations

import csv
import io
import json
import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from corpora import unpacked, write_corpus
from hypothesis import given, settings
from hypothesis import strategies as st
from listening import Listening

from canary.corpus.canaries import generate
from canary.corpus.injection import inject_file
from canary.corpus.stripping import strip_file
from canary.corpus.verification import verify
from canary.errors import CorpusError

# Awkward formats, and plain ones, of which one has texts of several lengths; the text format
# cannot hold the newline.
ODD = ['é "{digit:4}", ', "{letter:9}\n!"]
PLAIN = ["é {word:2}.", "{letter:9}."]

_TEXT = st.text(max_size=25) | st.sampled_from(
    [
        "One. Two! Three?",
        'He said “Yes.” "No." Then',
        "a\nb\n\nc. ",
        "end.",
        " ",
        "x.\r\ny",
        "😀. 😀",
    ]
)
_JSON = st.none() | st.integers() | st.floats() | st.text(max_size=5) | st.lists(st.booleans())
_ROLES = st.sampled_from(["user", "assistant", "system"])
_CHAT = st.lists(st.fixed_dictionaries({"role": _ROLES, "content": _TEXT}), min_size=1, max_size=3)


def _dumps(record, ascii_only):
    try:
        line = json.dumps(record, ensure_ascii=ascii_only)
        line.encode()
    except UnicodeEncodeError:
        line = json.dumps(record)
    return line


@st.composite
def jsonl(draw, value=_TEXT, columns=("text",)):
    newline = draw(st.sampled_from(["\n", "\r\n"]))
    lines = []
    for _ in range(draw(st.integers(1, 8))):
        others = draw(st.dictionaries(st.text(max_size=4), _JSON, max_size=2))
        wanted = {name: draw(value) for name in columns}
        record = {**others, **wanted} if draw(st.booleans()) else {**wanted, **others, **wanted}
        line = _dumps(record, draw(st.booleans()))
        if draw(st.booleans()):
            line = " " + line.replace('": ', '" :\t', 1)
        if draw(st.booleans()):  # of equal keys the last counts
            line = line.replace("{", '{"' + columns[0] + '": "earlier. one", ', 1)
        lines += [line, *[""] * draw(st.integers(0, 1))]
    return (newline.join(lines) + draw(st.sampled_from([newline, ""]))).encode()


@st.composite
def csv_file(draw, delimiter=","):
    newline = draw(st.sampled_from(["\n", "\r\n"]))
    quoting = st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
    out = io.StringIO()
    # Without quotes, which the writer may leave out, a carriage return would end a record.
    value = st.text(st.characters(exclude_characters="\0\r", codec="utf-8"), max_size=8)
    text = _TEXT.filter(lambda text: not re.search("\0|\r(?!\n)", text))
    rows = draw(st.lists(st.tuples(value, text), min_size=1))
    for row in [("id", "text"), *rows, ("7", 'a "quoted", one. Two')]:
        writer = csv.writer(out, delimiter=delimiter, lineterminator=newline, quoting=draw(quoting))
        writer.writerow(row)
    body = out.getvalue().encode()
    if draw(st.booleans()):
        body = body[: -len(newline)]
    return b"\xef\xbb\xbf" * draw(st.booleans()) + body


@st.composite
def text_file(draw):
    newline = draw(st.sampled_from(["\n", "\r\n"]))
    line = _TEXT.map(lambda text: text.replace("\n", " ").rstrip("\r"))
    lines = [*draw(st.lists(line, max_size=8)), "A last one. Or not."]
    mark = draw(st.sampled_from(["", "\ufeff"]))
    return (mark + newline.join(lines) + draw(st.sampled_from([newline, ""]))).encode()


CASES = {
    "jsonl": (jsonl(), ODD, "text"),
    "chat.jsonl": (jsonl(_CHAT), ODD, "text"),
    "pair.jsonl": (jsonl(columns=("a", "b")), ODD, ("a", "b")),
    "csv": (csv_file(), ODD, "text"),
    "tsv": (csv_file("\t"), PLAIN, "text"),
    "txt": (text_file(), PLAIN, "text"),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("mode", ["record", "splice"])
@settings(max_examples=10)
@given(data=st.data(), seed=st.integers(0, 2**63 - 1))
def test_exact_copies_in_and_out_again(tmp_path_factory, case, mode, data, seed):
    corpus, formats, column = CASES[case]
    content = data.draw(corpus)
    kind = case.split(".")[-1]
    folder = tmp_path_factory.mktemp("corpus")
    source, target, back = (folder / f"{name}.{kind}" for name in ("in", "out", "back"))
    source.write_bytes(content)
    copies = data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=2, unique=True))
    canaries = generate(formats, repetitions=copies, per_repetition=2, seed=1)
    places = inject_file(source, target, canaries, column=column, seed=seed, mode=mode)
    found = verify(target, canaries, column=column)
    assert found.ok
    assert source.read_bytes() == content
    before = verify(source, canaries, column=column).records
    total = sum(c.repetitions for c in canaries)
    assert found.records == before + total * (mode == "record")
    assert {name: len(numbers) for name, numbers in places.lines.items()} == {
        c.id: c.repetitions for c in canaries.injected
    }
    if not total:
        with pytest.raises(CorpusError, match="none of the canaries"):
            strip_file(target, back, canaries, column=column)
        return
    stripped = strip_file(target, back, canaries, column=column)
    assert back.read_bytes() == content
    cuts = total * (2 if column == ("a", "b") else 1)
    assert (stripped.records, stripped.cuts) == ((total, 0) if mode == "record" else (0, cuts))
    assert stripped.missing == 0
    inject_file(source, back, canaries, column=column, seed=seed, mode=mode)
    assert back.read_bytes() == target.read_bytes()
    if mode == "record":
        inject_file(source, back, canaries, column=column, seed=seed, check=False)
        assert back.read_bytes() == target.read_bytes()


@pytest.mark.parametrize("check", [True, False])
def test_a_byte_order_mark_stays_first(tmp_path, check):
    source, target, back = (tmp_path / f"{name}.txt" for name in ("in", "out", "back"))
    source.write_bytes(b"\xef\xbb\xbfOne.\nTwo.\n")
    canaries = generate("{digit:9}", repetitions=[4], per_repetition=2, seed=0)
    first = set()
    for seed in range(8):
        places = inject_file(source, target, canaries, seed=seed, check=check)
        text = target.read_bytes().decode()
        assert (text[0], text.count("\ufeff")) == ("\ufeff", 1)
        first.update(number for numbers in places.lines.values() for number in numbers)
        assert verify(target, canaries).before == "all 8 copies begin their text"
        strip_file(target, back, canaries)
        assert back.read_bytes() == source.read_bytes()
    assert 1 in first


@pytest.mark.parametrize(
    ("case", "mode", "packing"),
    [
        ("jsonl", "record", ".gz"),
        ("csv", "splice", ".bz2"),
        ("txt", "record", ".xz"),
        ("jsonl", "splice", ".zst"),
    ],
)
def test_compressed(tmp_path, case, mode, packing):
    texts = [f"Row {n}. And more." for n in range(600)]
    canaries = generate(PLAIN, repetitions=[1, 30], per_repetition=2, seed=1)
    plain, mixed, back = (tmp_path / f"{name}.{case}" for name in ("in", "mixed", "back"))
    source, target, again = (tmp_path / f"{name}.{case}{packing}" for name in "abc")
    inject_file(write_corpus(plain, texts), mixed, canaries, mode=mode)
    strip_file(mixed, source, canaries)  # what is left is compressed as the new name says
    assert unpacked(source) == plain.read_bytes()
    told = Listening()
    inject_file(source, target, canaries, mode=mode, progress=told)
    calls = told.reached
    assert unpacked(target) == mixed.read_bytes()
    assert calls == sorted(calls)
    assert calls[-1][0] <= calls[-1][1] == 2 * source.stat().st_size
    assert verify(target, canaries).ok
    inject_file(source, again, canaries, mode=mode)
    assert again.read_bytes() == target.read_bytes()
    strip_file(target, back, canaries)
    assert back.read_bytes() == plain.read_bytes()


def _table(rows, kind="text", *, long=False):
    word = pa.large_string() if long else pa.string()
    chat = [{"role": "user", "content": "Why? So."}, {"role": "assistant", "content": "It. Is."}]
    texts = [f"Row {n}. And more." if n % 7 else None for n in range(rows)]
    columns = {
        "n": pa.array(range(rows), pa.int32()),
        "tags": pa.array([["a", None]] * rows, pa.list_(pa.string())),
        "kind": pa.array(["x"] * rows).dictionary_encode(),
        "text": pa.array([chat] * rows) if kind == "chat" else pa.array(texts, word),
        "other": pa.array([f"Eh {n}." for n in range(rows)], word),
    }
    if kind != "pair":
        del columns["other"]
    return pa.table(columns).replace_schema_metadata({"huggingface": '{"info": {}}', "own": "x"})


@pytest.mark.parametrize("mode", ["record", "splice"])
@pytest.mark.parametrize("kind", ["text", "chat", "pair"])
@settings(max_examples=5)
@given(
    seed=st.integers(0, 2**63 - 1),
    rows=st.integers(2, 60),
    group=st.integers(1, 40),
    codec=st.sampled_from(["none", "zstd", "snappy", "gzip"]),
    long=st.booleans(),
)
def test_parquet(tmp_path_factory, mode, kind, *, seed, rows, group, codec, long):
    folder = tmp_path_factory.mktemp("corpus")
    source, target, back = (folder / f"{name}.parquet" for name in ("in", "out", "back"))
    pq.write_table(_table(rows, kind, long=long), source, row_group_size=group, compression=codec)
    table = pq.read_table(source)
    column = ("text", "other") if kind == "pair" else "text"
    canaries = generate(ODD, repetitions=[1, 4], per_repetition=2, seed=1)
    places = inject_file(source, target, canaries, column=column, seed=seed, mode=mode)
    mixed = pq.read_table(target)
    assert mixed.schema.equals(table.schema, check_metadata=True)
    assert verify(target, canaries, column=column).ok
    assert places.total_lines == len(mixed) == rows + 20 * (mode == "record")
    texts = [json.dumps(text, ensure_ascii=False) for text in mixed["text"].to_pylist()]
    for canary in canaries.injected:
        numbers = places.lines[canary.id]
        assert len(numbers) == canary.repetitions
        shown = json.dumps(canaries.text(canary), ensure_ascii=False)[1:-1]
        assert all(shown in texts[number - 1] for number in numbers)
    codecs = {"none": "UNCOMPRESSED"}.get(codec, codec.upper())
    assert pq.ParquetFile(target).metadata.row_group(0).column(0).compression == codecs
    strip_file(target, back, canaries, column=column)
    assert pq.read_table(back).equals(table, check_metadata=True)
    if mode == "record":
        own = [n - 1 for numbers in places.lines.values() for n in numbers]
        rest = mixed.take([i for i in range(len(mixed)) if i not in own])
        assert rest.equals(table)
        inject_file(source, back, canaries, column=column, seed=seed, check=False)
        assert pq.read_table(back).equals(mixed)


def test_large_row_groups_are_read_in_parts(tmp_path, monkeypatch):
    monkeypatch.setattr("canary.corpus.arrow_tables._PART", 1000)
    source, target, back = (tmp_path / f"{name}.parquet" for name in ("in", "out", "back"))
    pq.write_table(_table(500), source)
    canaries = generate(PLAIN, repetitions=[1, 40], per_repetition=2, seed=1)
    for mode in ("record", "splice"):
        inject_file(source, target, canaries, mode=mode)
        assert pq.ParquetFile(target).num_row_groups > 10
        assert verify(target, canaries).ok
        strip_file(target, back, canaries)
        assert pq.read_table(back).equals(pq.read_table(source), check_metadata=True)
