"""What is wrong with a file of any format is said with place and cure; nothing is written."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
from base64 import b64encode
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from canary.corpus.canaries import generate
from canary.corpus.discovery import discover
from canary.corpus.injection import inject_file
from canary.corpus.stripping import strip_file
from canary.corpus.verification import verify
from canary.errors import CanaryError, CorpusError, InputError, OutputError

CANARIES = generate("{digit:9}", repetitions=[3], per_repetition=2, controls=1, seed=0)
GOOD = b'{"text": "fine", "n": 1}\n'
PACKED = gzip.compress(b'{"text": "x"}\n' * 5000)


def _parquet(**columns):
    out = io.BytesIO()
    pq.write_table(pa.table(columns), out)
    return out.getvalue()


@pytest.mark.parametrize(
    ("name", "content", "place", "message"),
    [
        ("a.jsonl", GOOD + b'{"text": "cut of', ":2", "is not valid JSON"),
        ("a.jsonl", GOOD + b'{"text": "x"} {"text": "y"}\n', ":2", "is not valid JSON"),
        ("a.jsonl", GOOD + b'{"text": "\xff\xfe"}\n', ":2", "is not UTF-8 (byte 11 of the line)"),
        ("a.jsonl", GOOD * 3 + b'{"body": "x"}\n', ":4", "no column 'text'; name one of 'body'"),
        ("a.jsonl", GOOD + b"{}\n", ":2", "has no column 'text'"),
        ("a.jsonl", GOOD + b'{"text": null}\n', ":2", "column 'text' is null, not text"),
        ("a.jsonl", GOOD + b'{"text": true}\n', ":2", "is true or false, not text"),
        ("a.jsonl", GOOD + b'{"text": {}}\n', ":2", "is an object, not text"),
        ("a.jsonl", GOOD + b"12\n", ":2", "is a number, not a JSON object"),
        ("a.jsonl", b"\xef\xbb\xbf" + GOOD, ":1", "byte order mark"),
        ("a.jsonl", b"text,label\nx,1\n", ":1", "is not valid JSON"),
        ("a.jsonl", GOOD + b"[" * 100_000 + b"\n", ":2", "nested too deeply"),
        ("a.jsonl", b"\n \r\n\n", "", "holds no record"),
        ("a.csv", b"text,n\n", "", "holds no record"),
        ("a.csv", b"text,n\n\n\r\n", "", "holds no record"),
        ("a.csv", b"\ntext\nx\n", ":1", "no header"),
        ("a.csv", b"body,n\nx,1\n", ":1", "no column 'text'; name one of 'body', 'n'"),
        ("a.csv", b"text,n\nx,1\nx,1,2\n", ":3", "has 3 fields, the header has 2"),
        ("a.csv", b'text,n\n"x\ny",1\nx\n', ":4", "has 1 fields, the header has 2"),
        ("a.csv", b'text,n\nx,1\n"x,1\ny\n', ":3", "a quote that is never closed"),
        ("a.csv", b'text,n\nx "y" z,1\n', ":2", "a quote or a carriage return"),
        ("a.csv", b"text,n\nx\ry,1\n", ":2", "a quote or a carriage return"),
        ("a.csv", b'text,n\n"x\n\xff",1\n', ":3", "is not UTF-8 (byte 1 of the line)"),
        ("a.tsv", b"text,n\nx,1\n", ":1", "no column 'text'"),
        ("a.txt", b"fine\nno\xff\n", ":2", "is not UTF-8 (byte 3 of the line)"),
        ("a.txt", b"\n  \n", "", "holds no record"),
        ("a.parquet", b"PAR1 and nothing", "", "cannot be read"),
        ("a.parquet", _parquet(body=["x"]), "", "no column 'text'; name one of 'body'"),
        ("a.parquet", _parquet(text=[1]), "", "column 'text' is int64, not text"),
        ("a.parquet", _parquet(text=[["x"]]), "", "not text"),
        ("a.parquet", _parquet(text=pa.array([], pa.string())), "", "holds no record"),
        ("a.jsonl.gz", b'{"text": "x"}\n', "", "cannot be read"),
        ("a.jsonl.gz", PACKED[:-20], "", "cannot be read"),
        ("a.jsonl.bz2", PACKED, "", "cannot be read"),
        ("a.jsonl.xz", PACKED, "", "whole xz"),
        ("a.jsonl.zst", PACKED, "", "whole zstd"),
        ("a.jsonl", PACKED, ":1", "a compressed file needs the ending .gz"),
        ("a.jsonl", b'{"text": [{"role": "user"}]}\n', ":1", "is a list, not text"),
        ("a.docx", b"x", "", "does not tell its format; say it with file_format"),
        ("plain", b"x", "", "one of jsonl, csv, tsv, text, parquet"),
    ],
)
def test_corpora(tmp_path, name, content, place, message):
    source, target = tmp_path / name, tmp_path / f"out-{name}"
    source.write_bytes(content)
    for call in (
        lambda: inject_file(source, target, CANARIES),
        lambda: strip_file(source, target, CANARIES),
        lambda: verify(source, CANARIES),
        lambda: discover(source, "{digit:4}"),
    ):
        with pytest.raises(CorpusError) as caught:
            call()
        assert caught.value.where == f"{source}{place}"
        assert message in str(caught.value)
        assert caught.value.cure
    assert [path.name for path in tmp_path.iterdir()] == [name]


PACK = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": lambda data: pa.Codec("zstd").compress(data).to_pybytes(),
}


@pytest.mark.parametrize("ending", PACK)
def test_a_compressed_file_is_whole_and_holds_nothing_else(tmp_path, ending):
    # Long enough that a stream does not end in the block of the file that it begins in.
    rng = Random(0)
    lines = [b'{"text": "%s"}\n' % b64encode(rng.randbytes(3000)) for _ in range(60)]
    source, target = tmp_path / f"a.jsonl.{ending}", tmp_path / f"b.jsonl.{ending}"
    packed, more = (PACK[ending](b"".join(some)) for some in (lines, lines[:3]))
    assert len(packed) > 1 << 17
    for content, count in ((packed, 60), (packed + more, 63), (more + packed + more, 66)):
        source.write_bytes(content)
        assert verify(source, CANARIES).records == count
        assert inject_file(source, target, CANARIES, check=False).total_lines == count + 6
    target.unlink()
    for damaged in (
        packed[:-1],
        packed[: len(packed) // 2],
        more + more[:-1],
        more + more[:3],
        more + b"\n",
        packed + b"garbage",
        more + b"garbage" * 50_000,
        more + b"garbage" + more,
    ):
        source.write_bytes(damaged)
        for call in (
            lambda: verify(source, CANARIES),
            lambda: inject_file(source, target, CANARIES, check=False),
        ):
            with pytest.raises(CorpusError, match="cannot be read") as caught:
                call()
            assert caught.value.where == str(source)
            assert "that it is whole" in caught.value.cure
    assert [path.name for path in tmp_path.iterdir()] == [source.name]


@pytest.mark.parametrize(
    ("source", "target", "options", "expected"),
    [
        ("a.jsonl", "b.csv", {}, (OutputError, "its name says csv, but the corpus is jsonl")),
        ("a.jsonl", "b.txt.gz", {}, (OutputError, "its name says text")),
        ("a.parquet", "b.parquet.gz", {}, (OutputError, "compressed within")),
        ("a.jsonl", "a.jsonl", {}, (OutputError, "is the corpus itself")),
        ("a.jsonl", "b", {"file_format": "xml"}, (InputError, "unknown file format 'xml'")),
        ("a.jsonl", "b.jsonl", {"column": ("text", "n")}, (CorpusError, "'n' is a number")),
        ("a.txt", "b.txt", {"column": "body"}, (CorpusError, "one column, 'text', not 'body'")),
        ("a.jsonl", "b.jsonl", {"mode": "glue"}, (InputError, "unknown mode")),
        ("a.jsonl", "b.jsonl", {"mode": "splice", "check": False}, (InputError, "leave check")),
        (
            "a.txt",
            "b.txt",
            {"mode": "splice", "separators": ("\n", " ")},
            (CorpusError, "an end of line, which ends a document"),
        ),
        (
            "a.csv",
            "b.csv",
            {"mode": "splice", "separators": ("\n", " ")},
            (CorpusError, "no record can take a canary"),
        ),
    ],
)
def test_options(tmp_path, source, target, options, expected):
    error, message = expected
    (tmp_path / "a.jsonl").write_text('{"text": "x", "n": 1}\n')
    (tmp_path / "a.txt").write_text("x\n")
    (tmp_path / "a.csv").write_text("text,n\nx,1\n")
    (tmp_path / "a.parquet").write_bytes(_parquet(text=["x"]))
    before = sorted(tmp_path.iterdir())
    with pytest.raises(error, match=message) as caught:
        inject_file(tmp_path / source, tmp_path / target, CANARIES, **options)
    assert caught.value.cure
    assert sorted(tmp_path.iterdir()) == before


def test_a_format_that_is_said_counts_more_than_the_name(tmp_path):
    source, target = tmp_path / "corpus.dat", tmp_path / "out.dat"
    source.write_text("one\ntwo\n")
    inject_file(source, target, CANARIES, file_format="text")
    assert verify(target, CANARIES, file_format="text").ok
    source.write_text('{"text": "x"}\n')
    inject_file(source, target, CANARIES, file_format="jsonl")
    assert verify(target, CANARIES, file_format="jsonl").ok


@pytest.mark.parametrize("mode", ["record", "splice"])
def test_a_corpus_with_a_canary_in_it_is_refused(tmp_path, mode):
    source = tmp_path / "in.jsonl"
    control = CANARIES.text(CANARIES.controls[0])
    source.write_text('{"text": "x"}\n' + json.dumps({"text": f"No. {control} is it."}) + "\n")
    with pytest.raises(CorpusError, match=r"jsonl:2: already holds the text of control-1"):
        inject_file(source, tmp_path / "out.jsonl", CANARIES, mode=mode)
    pq.write_table(pa.table({"text": ["x", None, f"no {control}."]}), tmp_path / "in.parquet")
    with pytest.raises(CorpusError, match=r"row 3: already holds the text of control-1"):
        inject_file(tmp_path / "in.parquet", tmp_path / "out.parquet", CANARIES, mode=mode)


def test_a_canary_that_a_line_of_text_cannot_hold(tmp_path):
    source = tmp_path / "in.txt"
    source.write_text("x\n")
    for format in ("{digit:4}\nx", "\n{digit:4}", "\ufeff{digit:4}"):
        canaries = generate(format, repetitions=[1], seed=0)
        with pytest.raises(CorpusError, match="holds an end of line"):
            inject_file(source, tmp_path / "out.txt", canaries)


def test_a_column_that_must_not_be_null(tmp_path):
    schema = pa.schema([pa.field("text", pa.string()), pa.field("n", pa.int64(), nullable=False)])
    source, target = tmp_path / "in.parquet", tmp_path / "out.parquet"
    pq.write_table(pa.table({"text": ["A. B."], "n": [1]}, schema=schema), source)
    with pytest.raises(CorpusError, match="'n' must not be null"):
        inject_file(source, target, CANARIES)
    inject_file(source, target, CANARIES, mode="splice")
    assert verify(target, CANARIES).ok


def test_canaries_that_need_quotes_go_into_quoted_fields(tmp_path):
    source, target = tmp_path / "in.csv", tmp_path / "out.csv"
    rows = ["bare. One,1", '"quoted. One",2', '"both, of. Them",3', "bare,4"]
    source.write_text("text,n\n" + "".join(f"{row}\n" for row in rows))
    places = inject_file(source, target, CANARIES, mode="splice", separators=("\n", "\n"))
    assert {n for numbers in places.lines.values() for n in numbers} == {2, 3}
    assert verify(target, CANARIES).ok
    inject_file(source, target, CANARIES, mode="splice")
    assert "," not in {line[-2:] for line in target.read_text().splitlines()}


@pytest.mark.parametrize("kind", ["jsonl", "parquet", "txt"])
def test_a_copy_that_cannot_be_cut_out_is_named(tmp_path, kind):
    source, target = tmp_path / f"in.{kind}", tmp_path / f"out.{kind}"
    text = f"Glued:{CANARIES.text(CANARIES.canaries[1])}."
    match kind:
        case "jsonl":
            source.write_text('{"text": "x"}\n' + json.dumps({"text": text}))
        case "parquet":
            pq.write_table(pa.table({"text": ["x", text]}), source)
        case "txt":
            source.write_text(f"x\n{text}\n")
    with pytest.raises(CorpusError, match=r"(:|row )2: still holds canary-2"):
        strip_file(source, target, CANARIES)
    assert not target.exists()


@pytest.mark.parametrize("name", ["in.parquet", "in.csv", "in.jsonl.gz"])
def test_an_interrupted_run_leaves_nothing(tmp_path, name):
    source = tmp_path / name
    match name:
        case "in.parquet":
            pq.write_table(pa.table({"text": ["x"] * 5000}), source, row_group_size=500)
        case "in.csv":
            source.write_text("text\n" + "x" * 1000 + ("\n" + "x" * 1000) * 5000)
        case _:
            source.write_bytes(gzip.compress(('{"text": "' + "x" * 999 + '"}\n').encode() * 9000))

    def interrupt(done, total):
        if done > 0.6 * total:
            raise KeyboardInterrupt

    for call in (inject_file, strip_file):
        with pytest.raises(KeyboardInterrupt):
            call(source, tmp_path / f"out-{name}", CANARIES, progress=interrupt)
        assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_parquet_file_that_changes_meanwhile_is_refused(tmp_path):
    source = tmp_path / "in.parquet"
    pq.write_table(pa.table({"text": ["x"] * 10}), source)

    def meddle(done, total):
        source.touch()

    with pytest.raises(CorpusError, match="changed while it was read"):
        inject_file(source, tmp_path / "out.parquet", CANARIES, progress=meddle)
    assert not (tmp_path / "out.parquet").exists()


def test_damaged_parquet_files_raise_what_is_ours(tmp_path):
    source = tmp_path / "in.parquet"
    content = _parquet(text=[f"Row {n}. So." for n in range(2000)], n=list(range(2000)))
    messages = []
    for at in range(8, len(content), max(1, len(content) // 60)):
        source.write_bytes(content[:at] + bytes([content[at] ^ 0x5A]) + content[at + 1 :])
        try:
            inject_file(source, tmp_path / "out.parquet", CANARIES)
        except CanaryError as error:
            messages.append(str(error))
    assert messages
    assert all(str(source) in message for message in messages)
