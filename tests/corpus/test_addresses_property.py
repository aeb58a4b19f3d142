"""Lists of files, and files that fsspec reads and writes: as the same files on this machine."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import ClassVar

import fsspec
import pytest
from corpora import write_corpus
from fsspec.implementations.memory import MemoryFileSystem
from fsspec.registry import _registry

from canary.cli.main import run
from canary.corpus.canaries import generate
from canary.corpus.discovery import discover
from canary.corpus.duplicates import duplicates
from canary.corpus.injection import inject_file
from canary.corpus.stripping import strip_file
from canary.corpus.verification import verify
from canary.errors import (
    CorpusError,
    InputError,
    MissingExtraError,
    OutputError,
    RecordError,
    UnsupportedError,
)
from canary.records.addresses import Remote, address_of
from canary.records.files import kind_there

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
    lines = f"# two of them\nin/a.jsonl\n\n  # no/such.jsonl\n{folder / 'b'}\n"
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


def test_what_cannot_be_read(folder, memory, tmp_path):
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
    (tmp_path / "none.txt").write_text("\n# a.jsonl\n")
    with pytest.raises(CorpusError, match="names no file"):
        verify(f"@{tmp_path / 'none.txt'}", SET)


def test_a_library_that_is_missing_is_named(monkeypatch):
    def missing(*_, **__):
        raise ImportError("Install s3fs to access S3")

    monkeypatch.setattr("fsspec.core.url_to_fs", missing)
    with pytest.raises(MissingExtraError, match="Install s3fs to access S3"):
        verify("s3://bucket/a.jsonl", SET)


class Bucket(MemoryFileSystem):
    """Files in memory as a storage of objects: its one bucket is there already."""

    protocol = "s3"
    store: ClassVar = {}
    pseudo_dirs: ClassVar = [""]

    @classmethod
    def _strip_protocol(cls, path):
        return super()._strip_protocol(f"memory://{path.removeprefix('s3://')}")

    def put_file(self, lpath, rpath, **options):
        if not rpath.startswith("/bucket/"):
            raise FileNotFoundError("The specified bucket does not exist")
        if "/private/" in rpath:
            raise PermissionError("Access Denied")
        self.pipe_file(rpath, Path(lpath).read_bytes())

    def makedirs(self, path, exist_ok=False):
        raise AssertionError("a bucket is nothing that canary makes")


@pytest.fixture
def bucket(memory, monkeypatch):
    """A storage under the name of S3, and nothing beside the corpus in memory."""
    monkeypatch.setitem(_registry, "s3", Bucket)
    yield "s3://bucket"
    for there in (fsspec.filesystem("memory"), Bucket()):
        for name in [name for name in there.store if not name.startswith("/corpus/")]:
            del there.store[name]


def bytes_in(place):
    """The bytes of each file by name."""
    there, root = fsspec.core.url_to_fs(str(place))
    return {name.removeprefix(root): there.cat_file(name) for name in there.find(root)}


@pytest.mark.parametrize("mode", ["record", "splice"])
def test_what_is_written_at_an_address_is_what_is_written_here(
    folder, tmp_path, bucket, mode, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    strip_file(folder, "plain", SET)
    fsspec.filesystem("memory").put("plain/", "/plain/", recursive=True)
    wanted = inject_file("plain", "wanted", SET, mode=mode)
    file = inject_file("plain/b/c.jsonl", "wanted.jsonl", SET, mode=mode)
    memory = "memory://made"
    for source, target in [
        ("plain", memory),
        ("memory://plain", f"{bucket}/made"),
        ("memory://plain/**/*.jsonl", "here"),
        (f"file://{tmp_path}/plain", f"file://{tmp_path}/made"),
    ]:
        assert inject_file(source, target, SET, mode=mode) == wanted
        assert bytes_in(target) == bytes_in("wanted")
        strip_file(target, f"{target}-plain", SET)
        assert bytes_in(f"{target}-plain") == bytes_in("plain")
        one = f"{target}.jsonl"
        single = "/a.jsonl" if "*" in source else "/b/c.jsonl"
        if "*" not in source:
            assert inject_file(source + single, one, SET, mode=mode) == file
            assert bytes_in(one).popitem()[1] == Path("wanted.jsonl").read_bytes()
    assert verify(f"{bucket}/made", SET).ok
    assert not [*tmp_path.glob("*.parts")]


@pytest.mark.parametrize("name", ["a.jsonl.gz", "a.jsonl.zst", "a.csv", "a.parquet"])
def test_each_format_is_written_at_an_address(tmp_path, bucket, name):
    write_corpus(tmp_path / name, [{"text": f"no canary, {n:06}"} for n in range(30)])
    inject_file(tmp_path / name, tmp_path / f"wanted-{name}", SET)
    inject_file(tmp_path / name, f"{bucket}/{name}", SET)
    assert [*bytes_in(f"{bucket}/{name}").values()] == [(tmp_path / f"wanted-{name}").read_bytes()]


def test_a_run_that_stopped_goes_on(folder, tmp_path, bucket, monkeypatch):
    monkeypatch.chdir(tmp_path)
    strip_file(folder, "plain", SET)
    inject_file("plain", "wanted", SET)
    put, done = Bucket.put_file, []

    def stop(self, lpath, rpath, **options):
        if rpath.endswith("c.jsonl"):
            raise KeyboardInterrupt
        put(self, lpath, rpath, **options)
        done.append(rpath)

    monkeypatch.setattr(Bucket, "put_file", stop)
    with pytest.raises(KeyboardInterrupt):
        inject_file("plain", f"{bucket}/out", SET)
    assert [*bytes_in(f"{bucket}/out")] == ["/a.jsonl"]
    with pytest.raises(RecordError, match="other options: --out "):
        inject_file("plain", f"{bucket}/other/out", SET)
    monkeypatch.setattr(Bucket, "put_file", lambda *a, **o: (put(*a, **o), done.append(a[2])))
    inject_file("plain", f"{bucket}/out", SET)
    assert sorted(one[-7:] for one in done if "jsonl" in one) == ["a.jsonl", "c.jsonl"]
    assert bytes_in(f"{bucket}/out") == bytes_in("wanted")
    with pytest.raises(OutputError, match="has a file that this run does not write"):
        inject_file("plain/b", f"{bucket}/out", SET)


def test_a_file_in_a_folder_appears_whole_or_not_at_all(folder, bucket, monkeypatch):
    there = fsspec.filesystem("memory")

    def fail(self, lpath, rpath, **options):
        self.pipe_file(rpath, b"a part of it")
        assert not self.exists("/out.jsonl")
        raise OSError("the line is cut")

    strip_file(folder / "a.jsonl", "memory://plain.jsonl", SET)
    monkeypatch.setattr(MemoryFileSystem, "put_file", fail)
    with pytest.raises(OutputError, match=r"memory://out\.jsonl.*written.*cut.*a folder here"):
        inject_file("memory://plain.jsonl", "memory://out.jsonl", SET)
    assert not [name for name in there.store if "out.jsonl" in name]


def test_what_cannot_be_written(folder, memory, bucket, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    strip_file(folder, f"{bucket}/plain", SET)
    denied = [("s3://no/out", "make the bucket"), (f"{bucket}/private/out", "the right to list")]
    for target, cure in denied:
        with pytest.raises(OutputError, match=cure) as caught:
            inject_file(f"{bucket}/plain", target, SET)
        assert caught.value.where == target
        with pytest.raises(OutputError, match=cure):
            inject_file(f"{bucket}/plain/a.jsonl", f"{target}.jsonl", SET)
    for target in (f"{bucket}/plain", f"{bucket}/plain/in"):
        with pytest.raises(OutputError, match="in the folder that is read"):
            inject_file(f"{bucket}/plain", target, SET)
    with pytest.raises(OutputError, match="is the corpus itself"):
        inject_file(f"{bucket}/plain/a.jsonl", f"{bucket}/plain/a.jsonl", SET)
    SET.save(tmp_path / "set.json")
    Bucket().pipe_file("/bucket/set.jsonl", (tmp_path / "set.json").read_bytes())
    with pytest.raises(OutputError, match="holds a canary set"):
        inject_file(f"{bucket}/plain/a.jsonl", f"{bucket}/set.jsonl", SET)
    with pytest.raises(CorpusError, match="is a canary set document"):
        verify(f"{bucket}/set.jsonl", SET)
    mixed = [Path(f"{bucket}/plain/a.jsonl"), folder / "b" / "c.jsonl"]
    with pytest.raises(InputError, match="elsewhere than the other files"):
        inject_file(mixed, f"{bucket}/out", SET)
    Bucket().pipe_file("/bucket/x.bin", b"1234")
    with pytest.raises(UnsupportedError, match="go in pairs"):
        verify(f"{bucket}/x.bin", SET, tokenizer="any")


def test_the_commands_write_at_an_address(folder, bucket, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    strip_file(folder, f"{bucket}/plain", SET)
    SET.save(tmp_path / "set.json")
    given = ["--canaries", "set.json", "--out"]
    assert run(["inject", f"{bucket}/plain", *given, f"{bucket}/made"]) == 0
    assert "went into s3://bucket/made" in capsys.readouterr().out
    assert kind_there(tmp_path / "made.placements.json") == "canary placements"
    assert run(["inject", f"{bucket}/plain", *given, f"{bucket}/made"]) == 2
    assert "s3://bucket/made: exists already" in capsys.readouterr().err
    assert run(["verify", f"{bucket}/made", *given[:2]]) == 0
    assert run(["strip", f"{bucket}/made", *given, f"{bucket}/back"]) == 0
    assert bytes_in(f"{bucket}/back") == bytes_in(f"{bucket}/plain")
    assert run(["strip", f"{bucket}/made/a.jsonl", *given, f"{bucket}/a.jsonl"]) == 0
    assert Bucket().cat_file("/bucket/a.jsonl") == Bucket().cat_file("/bucket/plain/a.jsonl")
