"""Lists of files, and files that fsspec reads: the same corpus as the files themselves."""

from __future__ import annotations

import pickle
from pathlib import Path

import fsspec
import pytest
from corpora import write_corpus

from canary.corpus.addresses import Remote, address_of
from canary.corpus.canaries import generate
from canary.corpus.discovery import discover
from canary.corpus.duplicates import duplicates
from canary.corpus.injection import inject_file
from canary.corpus.stripping import strip_file
from canary.corpus.verification import verify
from canary.errors import CorpusError, InputError, MissingExtraError, UnsupportedError

SET = generate("my pin {digit:6}", repetitions=[1, 4], per_repetition=3, controls=4, seed=0)


@pytest.fixture
def folder(tmp_path):
    """A corpus in files, some with canaries."""
    texts = [f"no {n}: 555-{n:04}" for n in range(40)]
    write_corpus(tmp_path / "plain.jsonl", [{"text": text} for text in texts])
    inject_file(tmp_path / "plain.jsonl", tmp_path / "whole.jsonl", SET)
    lines = (tmp_path / "whole.jsonl").read_bytes().splitlines(keepends=True)
    (tmp_path / "in" / "b").mkdir(parents=True)
    (tmp_path / "in" / "a.jsonl").write_bytes(b"".join(lines[:20]))
    (tmp_path / "in" / "b" / "c.jsonl").write_bytes(b"".join(lines[20:]))
    return tmp_path / "in"


@pytest.fixture
def memory(folder):
    """The same files in the memory of fsspec."""
    there = fsspec.filesystem("memory")
    there.put(f"{folder}/", "/corpus/", recursive=True)
    yield "memory://corpus"
    there.rm("/corpus", recursive=True)


def write_list(folder, name="shards.txt"):
    lines = f"in/a.jsonl\n\n{folder / 'b'}\n"
    (folder.parent / name).write_text(lines)
    return f"@{folder.parent / name}"


def test_all_names_are_the_same_corpus(folder, memory):
    wanted = verify(folder, SET), discover(folder, "555-{digit:4}"), duplicates(folder)
    assert wanted[0].ok
    file = f"file://{folder}"
    ways = [memory, f"{memory}/**/*.jsonl", Path(memory), file, Path(file), f"{file}/**/*.jsonl"]
    for way in [*ways, write_list(folder), [Path(memory, "a.jsonl"), Path(memory, "b")]]:
        assert verify(way, SET) == wanted[0]
        assert discover(way, "555-{digit:4}") == wanted[1]
        assert duplicates(way) == wanted[2]


@pytest.mark.parametrize("name", ["a.jsonl.gz", "a.csv", "a.parquet"])
def test_each_format_is_read_at_an_address(tmp_path, memory, name):
    write_corpus(tmp_path / name, [{"text": f"my pin {n:06}"} for n in range(30)])
    fsspec.filesystem("memory").put(str(tmp_path / name), f"/corpus/{name}")
    assert discover(f"{memory}/{name}", "pin {digit:6}") == discover(
        tmp_path / name, "pin {digit:6}"
    )


def test_a_list_is_injected_into_and_stripped(folder, tmp_path, monkeypatch):
    strip_file(folder, tmp_path / "plain", SET)
    inject_file(tmp_path / "plain", tmp_path / "wanted", SET)
    (tmp_path / "sub").mkdir()
    absolute = tmp_path / "plain" / "b" / "c.jsonl"
    (tmp_path / "sub" / "list.txt").write_text(f"../plain/a.jsonl\n{absolute}\n")
    monkeypatch.chdir(tmp_path)
    inject_file("@sub/list.txt", tmp_path / "out", SET)
    for name in ("a.jsonl", "b/c.jsonl"):
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "wanted" / name).read_bytes()


def test_addresses_keep_what_pathlib_takes():
    for address in ("s3://bucket/a b/c.jsonl", "hf://datasets/x/y.parquet", "file:///tmp/x"):
        assert address_of(address) == address_of(Path(address)) == address
        again = pickle.loads(pickle.dumps(Remote(address)))
        assert (again.address, str(again), again.suffix) == (address, address, Path(address).suffix)
    for path in ("C:", "a/b:c/d", "/s3:/x", "x.jsonl", "é://x"):
        assert address_of(path) is None


def test_what_cannot_be_read_or_written(folder, memory, tmp_path):
    for source, target in [(memory, "out"), (folder, "memory://out"), (f"{memory}/a.jsonl", "b")]:
        for change in (inject_file, strip_file):
            with pytest.raises(UnsupportedError, match="copy the corpus here") as caught:
                change(source, target if "://" in target else tmp_path / target, SET)
            assert "memory://" in caught.value.where
    with pytest.raises(CorpusError, match="cannot be read"):
        verify("memory://corpus/no.jsonl", SET)
    with pytest.raises(CorpusError, match=r"nosuch://x\.jsonl.*cannot be read"):
        verify("nosuch://x.jsonl", SET)
    fsspec.filesystem("memory").pipe("/corpus/other/x.bak", b"x")
    with pytest.raises(CorpusError, match="without a corpus of a known format"):
        verify(f"{memory}/other", SET)
    with pytest.raises(CorpusError, match="no file has such a name"):
        verify(f"{memory}/*.csv", SET)
    with pytest.raises(InputError, match="this one files"):
        verify([f"{memory}/a.jsonl"], SET)
    with pytest.raises(CorpusError, match="name a text file with a path on each line"):
        verify("@missing.txt", SET)
    (tmp_path / "none.txt").write_text("\n")
    with pytest.raises(CorpusError, match="names no file"):
        verify(f"@{tmp_path / 'none.txt'}", SET)


def test_a_library_that_is_missing_is_named(monkeypatch):
    def missing(*_, **__):
        raise ImportError("Install s3fs to access S3")

    monkeypatch.setattr("fsspec.core.url_to_fs", missing)
    with pytest.raises(MissingExtraError, match="Install s3fs to access S3"):
        verify("s3://bucket/a.jsonl", SET)
