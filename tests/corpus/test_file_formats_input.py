"""What is wrong with a file of any format is said with place and cure; nothing is written."""

from __future__ import annotations

import gzip
import os
from base64 import b64encode
from random import Random

import pyarrow as pa
import pytest
from corpora import packed, parquet, write_corpus
from listening import Listening

from canary.corpus.canaries import generate
from canary.corpus.discovery import discover
from canary.corpus.injection import inject_file
from canary.corpus.stripping import strip_file
from canary.corpus.verification import verify
from canary.errors import CanaryError, CorpusError, InputError, OutputError

CANARIES = generate("{digit:9}", repetitions=[3], per_repetition=2, controls=1, seed=0)
GOOD = b'{"text": "fine", "n": 1}\n'
PACKED = gzip.compress(b'{"text": "x"}\n' * 5000)


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
        ("a.csv", b"\ntext\nx\n", ":1", "not a header"),
        ("a.csv", b"body,n\nx,1\n", ":1", "no column 'text'; name one of 'body', 'n'"),
        ("a.csv", b"texts,n\nx,1\n", ":1", "'text'; did you mean 'texts'? Name one of 'texts'"),
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
        ("a.parquet", parquet([{"body": "x"}]), "", "no column 'text'; name one of 'body'"),
        ("a.parquet", parquet([{"text": 1}]), "", "column 'text' is int64, not text"),
        ("a.parquet", parquet([{"text": ["x"]}]), "", "not text"),
        (
            "a.parquet",
            parquet(pa.table({"text": pa.array([], pa.string())})),
            "",
            "holds no record",
        ),
        ("a.jsonl.gz", b'{"text": "x"}\n', "", "cannot be read"),
        ("a.jsonl.gz", PACKED[:-20], "", "cannot be read"),
        ("a.jsonl.bz2", PACKED, "", "cannot be read"),
        ("a.jsonl.xz", PACKED, "", "whole xz"),
        ("a.jsonl.zst", PACKED, "", "whole zstd"),
        ("a.jsonl", PACKED, ":1", "a compressed file needs the ending .gz"),
        ("a.jsonl", b'{"text": [{"role": "user"}]}\n', ":1", "is a list, not text"),
        ("a.docx", b"x", "", "does not show its format; say it with file_format"),
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


@pytest.mark.parametrize("ending", [".gz", ".bz2", ".xz", ".zst"])
def test_a_compressed_file_is_whole_and_holds_nothing_else(tmp_path, ending):
    # Long enough that a stream does not end in the block of the file that it begins in.
    rng = Random(0)
    lines = [b'{"text": "%s"}\n' % b64encode(rng.randbytes(3000)) for _ in range(60)]
    source, target = tmp_path / f"a.jsonl{ending}", tmp_path / f"b.jsonl{ending}"
    whole, more = (packed(b"".join(some), ending) for some in (lines, lines[:3]))
    assert len(whole) > 1 << 17
    for content, count in ((whole, 60), (whole + more, 63), (more + whole + more, 66)):
        source.write_bytes(content)
        assert verify(source, CANARIES).records == count
        assert inject_file(source, target, CANARIES, check=False).total_lines == count + 6
    target.unlink()
    for damaged in (
        whole[:-1],
        whole[: len(whole) // 2],
        more + more[:-1],
        more + more[:3],
        more + b"\n",
        whole + b"garbage",
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


SPLICE = {"mode": "splice"}
NEWLINES = {"mode": "splice", "separators": ("\n", " ")}


@pytest.mark.parametrize(
    ("source", "target", "options", "error", "message"),
    [
        ("a.jsonl", "b.csv", {}, OutputError, "its name says csv, but the corpus is jsonl"),
        ("a.jsonl", "b.txt.gz", {}, OutputError, "its name says text"),
        ("a.parquet", "b.parquet.gz", {}, OutputError, "compressed within"),
        ("a.jsonl", "soft", {}, OutputError, "is the corpus itself"),
        ("a.jsonl", "hard", {}, OutputError, "is the corpus itself"),
        ("a.jsonl", "folder/../a.jsonl", {}, OutputError, "is the corpus itself"),
        ("a.jsonl", "no/such/folder/b.jsonl", {}, OutputError, "cannot be written"),
        ("a.jsonl", "folder", {}, OutputError, "is a folder"),
        ("a.jsonl", "a.jsonl/b.jsonl", {}, OutputError, "cannot be written"),
        ("missing.jsonl", "b.jsonl", {}, CorpusError, "cannot be read"),
        ("nul\0.jsonl", "b.jsonl", {}, CorpusError, "cannot be read"),
        ("folder", "b.jsonl", {}, CorpusError, "is a folder"),
        ("pipe", "b.jsonl", {}, CorpusError, "not a regular file"),
        ("a.jsonl", "b", {"file_format": "xml"}, InputError, "unknown file format 'xml'"),
        ("a.jsonl", "b.jsonl", {"column": ("text", "n")}, CorpusError, "'n' is a number"),
        ("a.txt", "b.txt", {"column": "body"}, CorpusError, "one column, 'text', not 'body'"),
        ("a.jsonl", "b.jsonl", {"mode": "glue"}, InputError, "unknown mode"),
        ("a.jsonl", "b.jsonl", {**SPLICE, "check": False}, InputError, "leave check"),
        ("a.txt", "b.txt", NEWLINES, CorpusError, "an end of line, which ends a document"),
        ("a.csv", "b.csv", NEWLINES, CorpusError, "no record can take a canary"),
        *(
            ("a.jsonl", "b.jsonl", {"seed": seed}, InputError, "seed must be a whole number")
            for seed in (-1, 1.5, None)
        ),
        *(
            (f"held.{kind}", f"b.{kind}", options, CorpusError, "2: already holds the text of can")
            for kind in ("jsonl", "parquet")
            for options in ({}, SPLICE)
        ),
    ],
)
def test_options(tmp_path, source, target, *, options, error, message):
    rows = [{"text": "x", "n": 1}]
    held = [{"text": "x"}, {"text": f"No. {CANARIES.text(CANARIES.canaries[1])} is it."}]
    for name in ("a.jsonl", "a.txt", "a.csv", "a.parquet", "held.jsonl", "held.parquet"):
        write_corpus(tmp_path / name, held if "held" in name else rows)
    (tmp_path / "soft").symlink_to(tmp_path / "a.jsonl")
    (tmp_path / "hard").hardlink_to(tmp_path / "a.jsonl")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    before, read = sorted(tmp_path.iterdir()), Listening()
    with pytest.raises(error, match=message) as caught:
        inject_file(
            tmp_path / source,
            tmp_path / target,
            CANARIES,
            progress=read,
            **options,
        )
    assert caught.value.cure
    assert sorted(tmp_path.iterdir()) == before
    if "cannot be read" in message or error is not CorpusError:
        assert not read.reached  # it is found before the corpus is read
    if (error, options) == (CorpusError, {}) and "held" not in source:
        with pytest.raises(CorpusError, match=message):
            verify(tmp_path / source, CANARIES)


def test_a_format_that_is_said_counts_more_than_the_name(tmp_path):
    source, target = tmp_path / "corpus.dat", tmp_path / "out.dat"
    for format, content in (("text", "one\ntwo\n"), ("jsonl", '{"text": "x"}\n')):
        source.write_text(content)
        inject_file(source, target, CANARIES, file_format=format)
        assert verify(target, CANARIES, file_format=format).ok


@pytest.mark.parametrize("format", ["{digit:4}\nx", "\n{digit:4}", "\ufeff{digit:4}"])
def test_a_canary_that_a_line_of_text_cannot_hold(tmp_path, format):
    source = write_corpus(tmp_path / "in.txt", ["x"])
    with pytest.raises(CorpusError, match="holds an end of line"):
        inject_file(source, tmp_path / "out.txt", generate(format, repetitions=[1], seed=0))


def test_a_column_that_must_not_be_null(tmp_path):
    schema = pa.schema([pa.field("text", pa.string()), pa.field("n", pa.int64(), nullable=False)])
    source, target = tmp_path / "in.parquet", tmp_path / "out.parquet"
    source.write_bytes(parquet(pa.table({"text": ["A. B."], "n": [1]}, schema=schema)))
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
    text = f"Glued:{CANARIES.text(CANARIES.canaries[1])}."
    source, target = write_corpus(tmp_path / f"in.{kind}", ["x", text]), tmp_path / f"out.{kind}"
    with pytest.raises(CorpusError, match=r"(:|row )2: still holds canary-2"):
        strip_file(source, target, CANARIES)
    assert not target.exists()


def test_damaged_parquet_files_raise_what_is_ours(tmp_path):
    source = tmp_path / "in.parquet"
    content = parquet([{"text": f"Row {n}. So.", "n": n} for n in range(500)])
    messages = []
    for at in range(8, len(content), max(1, len(content) // 40)):
        source.write_bytes(content[:at] + bytes([content[at] ^ 0x5A]) + content[at + 1 :])
        try:
            inject_file(source, tmp_path / "out.parquet", CANARIES)
        except CanaryError as error:
            messages.append(str(error))
    assert messages
    assert all(str(source) in message for message in messages)
