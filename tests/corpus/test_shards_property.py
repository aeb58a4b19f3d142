"""A corpus in many files is the corpus of these files end to end."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from datasets import Dataset

from canary.corpus.canaries import generate
from canary.corpus.discovery import discover
from canary.corpus.duplicates import duplicates
from canary.corpus.injection import inject_file
from canary.corpus.many_files import shards_of
from canary.corpus.stripping import strip_file
from canary.corpus.verification import verify
from canary.errors import CorpusError, EmptyCorpusError, InputError

SET = generate("my pin {digit:6}", repetitions=[1, 4], per_repetition=3, controls=4, seed=0)


def lines(texts):
    return "".join(json.dumps({"text": each}) + "\n" for each in texts).encode()


@pytest.fixture
def parts(tmp_path):
    """A corpus with canaries as one file, and cut into files of a folder."""
    rng = np.random.default_rng(3)
    (tmp_path / "plain.jsonl").write_bytes(lines(f"no {n}: 555-{n:04}" for n in range(90)))
    inject_file(tmp_path / "plain.jsonl", tmp_path / "whole.jsonl", SET)
    rows = (tmp_path / "whole.jsonl").read_bytes().splitlines(keepends=True)
    folder = tmp_path / "shards"
    (folder / "b").mkdir(parents=True)
    first, second = sorted(rng.choice(len(rows), 2, replace=False))
    (folder / "a.jsonl").write_bytes(b"".join(rows[:first]))
    (folder / "b" / "0.jsonl.gz").write_bytes(gzip.compress(b"".join(rows[first:second])))
    (folder / "c.jsonl").write_bytes(b"".join(rows[second:]))
    for other in ("README.md", "_SUCCESS", ".a.jsonl.crc"):
        (folder / other).write_text("no corpus")
    return tmp_path / "whole.jsonl", folder


def named(folder):
    files = [folder / name for name in ("a.jsonl", "b/0.jsonl.gz", "c.jsonl")]
    return [folder, files, str(folder / "**" / "*.jsonl*")]


def test_all_ways_to_name_shards_give_the_same_files(parts):
    _, folder = parts
    for way in named(folder):
        names = [Path(path).relative_to(folder).as_posix() for path in shards_of(way)]
        assert sorted(names) == ["a.jsonl", "b/0.jsonl.gz", "c.jsonl"]


def test_verify_discover_and_duplicates_read_shards_as_one_corpus(parts):
    whole, folder = parts
    for way in named(folder):
        assert verify(way, SET) == verify(whole, SET)
        found, wanted = (discover(each, "555-{digit:4}") for each in (way, whole))
        assert {(c.id, c.repetitions) for c in found} == {(c.id, c.repetitions) for c in wanted}
        assert duplicates(way).by_copies == duplicates(whole).by_copies
    (folder / "c.jsonl").unlink()
    assert not verify(folder, SET).ok


def test_discover_and_duplicates_find_the_same_with_more_processes(parts):
    whole, folder = parts
    formats = ["555-{digit:4}", "no {digit:2}"]
    asked = ["no 7: 555-0007", SET.text(SET.injected[-1])]
    for path in (folder / "a.jsonl", whole):  # so that copies are in several files
        path.write_bytes(lines(["no 7: 555-0007", "no 7: 555-0008"]) + path.read_bytes())
    assert discover(folder, formats, workers=2) == discover(whole, formats)
    wanted = duplicates(whole, texts=asked)
    found = duplicates(folder, texts=asked, workers=2)
    assert found == duplicates(folder, texts=asked)
    assert (found.by_copies, found.digest) == (wanted.by_copies, wanted.digest)
    assert found.copies == wanted.copies == (2, 4)
    assert found.row[0] == wanted.row[0] == 1


class Cluster:
    """Workers that nobody may ask."""

    def run(self, task, shared, jobs):
        raise AssertionError("a worker was asked")


@pytest.mark.parametrize("workers", [2, Cluster()])
def test_workers_that_have_nothing_to_divide_are_said(parts, tmp_path, workers):
    whole, _ = parts
    given = {"workers": workers}
    jobs = [
        lambda: verify(whole, SET, **given),
        lambda: discover(whole, "555-{digit:4}", **given),
        lambda: duplicates(whole, **given),
        lambda: strip_file(whole, tmp_path / "plain.jsonl", SET, **given),
        lambda: inject_file(tmp_path / "plain.jsonl", tmp_path / "again.jsonl", SET, **given),
    ]
    for job in jobs:
        with pytest.warns(UserWarning, match="the corpus is one file, so this process works on it"):
            job()
    texts = Dataset.from_dict({"text": ["a", "b", "a"]})
    with pytest.warns(UserWarning, match="the corpus is not in files"):
        assert duplicates(texts, **given).by_copies == ((1, 1), (2, 1))
    lost = whole.read_text().splitlines()[:-40]
    (tmp_path / "lost.jsonl").write_text("\n".join(lost) + "\n")
    with pytest.warns(UserWarning, match="the corpus is one file") as said:
        assert not verify(tmp_path / "lost.jsonl", SET, **given).ok
    assert len(said) == 1


def test_what_is_no_corpus_is_refused(parts, tmp_path):
    _, folder = parts
    with pytest.raises(CorpusError, match="no file has such a name"):
        verify(str(folder / "*.csv"), SET)
    (tmp_path / "empty").mkdir()
    with pytest.raises(CorpusError, match="is a folder without a corpus"):
        verify(tmp_path / "empty", SET)
    with pytest.raises(InputError, match="is listed twice"):
        verify([folder, folder / "a.jsonl"], SET)


EMPTY = {"0.jsonl": b"", "b/00.jsonl": b"\n \n", "z.jsonl": b""}


@pytest.mark.parametrize("mode", ["record", "splice"])
def test_shards_without_a_record_are_copied_and_named(parts, tmp_path, mode):
    _, folder = parts
    (folder / "b" / "0.jsonl.gz").unlink()
    strip_file(folder, tmp_path / "plain", SET)
    wanted = inject_file(tmp_path / "plain", tmp_path / "wanted", SET, mode=mode)
    for name, content in EMPTY.items():
        (tmp_path / "plain" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "plain" / name).write_bytes(content)
    note = pytest.warns(UserWarning, match=r"note: 3 of 5 files hold no record: .*0\.jsonl, ")
    with note:
        found = inject_file(tmp_path / "plain", tmp_path / "out", SET, mode=mode)
    assert found.lines == wanted.lines
    assert [found.files[name] for name in EMPTY] == [0, 0, 0]
    for name in ("a.jsonl", "c.jsonl"):
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "wanted" / name).read_bytes()
    with note:
        assert verify(tmp_path / "out", SET) == verify(tmp_path / "wanted", SET)
    with note:
        assert discover(tmp_path / "out", "555-{digit:4}").canaries
    with note:
        assert len(duplicates(tmp_path / "out").files) == 5
    with note:
        strip_file(tmp_path / "out", tmp_path / "back", SET)
    for path in (tmp_path / "plain").rglob("*.jsonl"):
        back = tmp_path / "back" / path.relative_to(tmp_path / "plain")
        assert back.read_bytes() == path.read_bytes()


def test_a_corpus_of_empty_shards_is_an_error(tmp_path):
    source, target = tmp_path / "in", tmp_path / "out"
    (source / "b").mkdir(parents=True)
    for name, content in EMPTY.items():
        (source / name).write_bytes(content)
    (source / "d.csv").write_bytes(b"")
    for call in (
        lambda: verify(source, SET),
        lambda: discover(source, "{digit:4}"),
        lambda: duplicates(source),
        lambda: inject_file(source / "*.jsonl", target, SET),
        lambda: strip_file(source / "*.jsonl", target, SET),
    ):
        with pytest.raises(EmptyCorpusError, match="holds no record"):
            call()
    assert not [*target.rglob("*.jsonl"), *tmp_path.glob("*.parts")]
