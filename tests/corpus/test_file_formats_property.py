"""Every format, mode and compression: exact copies, the rest untouched, and out again."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import lzma
import re
from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from canary.corpus.canaries import generate
from canary.corpus.injection import inject_file
from canary.corpus.stripping import strip_file
from canary.corpus.verification import verify
from canary.errors import CorpusError

# One awkward format and one plain one; the text format cannot hold the newline.
ODD = ['é "{digit:4}", ', "{letter:9}\n!"]
PLAIN = ["é {digit:5}", "{letter:9}."]

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
PACK = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}


def unpack(path):
    match path.suffix:
        case ".gz":
            return gzip.decompress(path.read_bytes())
        case ".bz2":
            return bz2.decompress(path.read_bytes())
        case ".xz":
            return lzma.decompress(path.read_bytes())
        case ".zst":
            with pa.input_stream(str(path), compression="zstd") as stream:
                return stream.read()
    return path.read_bytes()


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("mode", ["record", "splice"])
@settings(max_examples=20)
@given(data=st.data(), seed=st.integers(0, 2**63 - 1))
def test_exact_copies_in_and_out_again(tmp_path_factory, case, mode, data, seed):
    corpus, formats, column = CASES[case]
    content = data.draw(corpus)
    kind = case.split(".")[-1]
    folder = tmp_path_factory.mktemp("corpus")
    source, target, back = (folder / f"{name}.{kind}" for name in ("in", "out", "back"))
    source.write_bytes(content)
    copies = data.draw(st.lists(st.integers(1, 5), max_size=2, unique=True))
    canaries = generate(formats, repetitions=copies, per_repetition=2, seed=1)
    places = inject_file(source, target, canaries, column=column, seed=seed, mode=mode)
    found = verify(target, canaries, column=column)
    assert found.ok
    assert source.read_bytes() == content
    before = verify(source, canaries, column=column).records
    total = sum(c.repetitions for c in canaries)
    assert found.records == before + total * (mode == "record")
    assert Counter({k: len(v) for k, v in places.lines.items()}) == {
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
    ("case", "mode", "packed"),
    [
        ("jsonl", "record", ".gz"),
        ("csv", "splice", ".bz2"),
        ("txt", "record", ".xz"),
        ("jsonl", "splice", ".zst"),
    ],
)
def test_compressed(tmp_path, case, mode, packed):
    rows = {
        "jsonl": "".join(f'{{"text": "Row {n}. And more."}}\n' for n in range(600)),
        "csv": "text,n\n" + "".join(f"Row {n}. And more.,{n}\n" for n in range(600)),
        "txt": "".join(f"Row {n}. And more.\n" for n in range(600)),
    }[case].encode()
    canaries = generate(PLAIN, repetitions=[1, 30], per_repetition=2, seed=1)
    plain, mixed = tmp_path / f"in.{case}", tmp_path / f"mixed.{case}"
    plain.write_bytes(rows)
    inject_file(plain, mixed, canaries, mode=mode)
    source, target = tmp_path / f"a.{case}{packed}", tmp_path / f"b.{case}{packed}"
    strip_file(mixed, source, canaries)  # what is left is compressed as the new name says
    assert unpack(source) == rows
    calls = []
    inject_file(source, target, canaries, mode=mode, progress=lambda *done: calls.append(done))
    assert unpack(target) == mixed.read_bytes()
    assert calls == sorted(calls)
    assert calls[-1][0] <= calls[-1][1] == 2 * source.stat().st_size
    assert verify(target, canaries).ok
    again = tmp_path / f"c.{case}{packed}"
    inject_file(source, again, canaries, mode=mode)
    assert again.read_bytes() == target.read_bytes()
    strip_file(
        target, plain.with_suffix(".back"), canaries, file_format=case.replace("txt", "text")
    )
    assert plain.with_suffix(".back").read_bytes() == rows


def _table(rows, kind="text", long=False):
    word = pa.large_string() if long else pa.string()
    chat = [{"role": "user", "content": "Why? So."}, {"role": "assistant", "content": "It. Is."}]
    values = {"text": "Row {}. And more.", "pair": "Row {}. And more."}
    columns = {
        "n": pa.array(range(rows), pa.int32()),
        "tags": pa.array([["a", None]] * rows, pa.list_(pa.string())),
        "kind": pa.array(["x"] * rows).dictionary_encode(),
    }
    if kind == "chat":
        columns["text"] = pa.array([chat] * rows)
    else:
        texts = [values[kind].format(n) if n % 7 else None for n in range(rows)]
        columns["text"] = pa.array(texts, word)
    if kind == "pair":
        columns["other"] = pa.array([f"Eh {n}." for n in range(rows)], word)
    table = pa.table(columns)
    return table.replace_schema_metadata({"huggingface": '{"info": {}}', "own": "x"})


@pytest.mark.parametrize("mode", ["record", "splice"])
@pytest.mark.parametrize("kind", ["text", "chat", "pair"])
@settings(max_examples=8)
@given(
    seed=st.integers(0, 2**63 - 1),
    look=st.tuples(
        st.integers(2, 60),
        st.integers(1, 40),
        st.sampled_from(["none", "zstd", "snappy", "gzip"]),
        st.booleans(),
    ),
)
def test_parquet(tmp_path_factory, mode, kind, seed, look):
    rows, group, codec, long = look
    folder = tmp_path_factory.mktemp("corpus")
    source, target, back = (folder / f"{name}.parquet" for name in ("in", "out", "back"))
    table = _table(rows, kind, long)
    pq.write_table(table, source, row_group_size=group, compression=codec)
    table = pq.read_table(source)
    column = ("text", "other") if kind == "pair" else "text"
    canaries = generate(ODD, repetitions=[1, 4], per_repetition=2, seed=1)
    places = inject_file(source, target, canaries, column=column, seed=seed, mode=mode)
    mixed = pq.read_table(target)
    assert mixed.schema.equals(table.schema, check_metadata=True)
    assert verify(target, canaries, column=column).ok
    assert places.total_lines == len(mixed) == rows + 20 * (mode == "record")
    by_id = {c.id: canaries.text(c) for c in canaries.injected}
    texts = mixed["text"].to_pylist()
    for name, numbers in places.lines.items():
        assert len(numbers) == canaries_of(canaries, name)
        for number in numbers:
            shown = json.dumps(texts[number - 1], ensure_ascii=False)
            assert json.dumps(by_id[name], ensure_ascii=False)[1:-1] in shown
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


def canaries_of(canaries, name):
    return next(c.repetitions for c in canaries if c.id == name)


def test_large_row_groups_are_read_in_parts(tmp_path, monkeypatch):
    monkeypatch.setattr("canary.corpus.arrow_rows._PART", 1000)
    source, target, back = (tmp_path / f"{name}.parquet" for name in ("in", "out", "back"))
    table = _table(500)
    pq.write_table(table, source)
    canaries = generate(PLAIN, repetitions=[1, 40], per_repetition=2, seed=1)
    for mode in ("record", "splice"):
        inject_file(source, target, canaries, mode=mode)
        assert pq.ParquetFile(target).num_row_groups > 10
        assert verify(target, canaries).ok
        strip_file(target, back, canaries)
        assert pq.read_table(back).equals(pq.read_table(source), check_metadata=True)
