"""Runs that cannot go on say why, what was given, and what to do."""

from __future__ import annotations

import json
import os
import subprocess

import pytest

from canary.errors import OutputError, RecordError
from canary.records import files
from canary.records.shards import Pace, Shard, open_run

IDENTITY = {"task": "test", "model": "ab" * 32, "formats": ["a", "b"], "seed": 0}


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "out.parts"


def fill(folder, count=3):
    with open_run(folder, IDENTITY) as run:
        series = run.series("scores")
        for number in range(count):
            series.append({"at": number}, f"body {number}\n".encode())


def test_what_was_appended_is_there_again(folder, tmp_path):
    fill(folder)
    document = json.loads((folder / "manifest.json").read_text())
    assert document == {"kind": "canary unfinished run", "schema": 1, "identity": IDENTITY}
    with open_run(folder, dict(IDENTITY)) as run:
        series = run.series("scores")
        assert list(series) == [Shard({"at": i}, f"body {i}\n".encode()) for i in range(3)]
        assert len(run.series("other")) == 0
        series.append({"at": 3}, b"")
        run.merge(series, tmp_path / "out")
        run.discard()
    assert (tmp_path / "out").read_text() == "body 0\nbody 1\nbody 2\n"
    assert not folder.exists()


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"seed": 1}, "another seed (0 then, 1 now); start it as it was begun"),
        ({"model": "cd" * 32}, "another model (abababababab… then, cdcdcdcdcdcd… now); "),
        ({"formats": ["a"]}, "another formats; "),
        ({"more": "x"}, "another more (none then, 'x' now); "),
        ({"seed": 2, "task": "t"}, "another task ('test' then, 't' now), seed (0 then, 2 now); "),
    ],
)
def test_another_identity_is_refused_by_name(folder, changed, told):
    fill(folder)
    with pytest.raises(RecordError) as refused, open_run(folder, {**IDENTITY, **changed}):
        pass
    assert told in str(refused.value)
    assert str(refused.value).startswith(f"{folder}: an unfinished run in it was begun with")
    with open_run(folder, IDENTITY) as run:
        assert len(run.series("scores")) == 3


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:-1],
        lambda data: data.replace(b"body", b"bady"),
        lambda data: b"null\n",
        lambda data: b"\xff\xfe\n" + data,
        lambda data: data.replace(b'"state": {', b'"state": 3, "x": {'),
        lambda data: data.replace(b'"at": 1', b'"at": 2'),
        lambda data: b"[" * 100_000,
    ],
    ids=["cut", "other bytes", "null", "not UTF-8", "no state", "other state", "deep"],
)
def test_a_damaged_shard_is_refused_with_the_cure_that_works(folder, damage):
    fill(folder)
    broken = folder / "scores.00000001.shard"
    broken.write_bytes(damage(broken.read_bytes()))
    with open_run(folder, IDENTITY) as run:
        with pytest.raises(RecordError, match="is damaged; remove it and those numbered after"):
            list(run.series("scores"))
        broken.unlink()
        with pytest.raises(RecordError, match=r"00000001\.shard: is missing, while a later one"):
            run.series("scores")
        (folder / "scores.00000002.shard").unlink()
        assert [shard.state["at"] for shard in run.series("scores")] == [0]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "is not valid JSON"),
        ("{}", "is not a canary unfinished run document"),
        ('{"kind": "canary unfinished run", "schema": 99, "identity": {}}', "schema 99"),
        ('{"kind": "canary unfinished run", "schema": 1}', "does not say what the run is"),
    ],
)
def test_a_damaged_manifest_is_refused(folder, text, told):
    fill(folder)
    (folder / "manifest.json").write_text(text)
    with pytest.raises(RecordError, match=told), open_run(folder, IDENTITY):
        pass


def test_files_of_others_are_left_alone(folder):
    fill(folder)
    (folder / "mine.txt").write_text("mine")
    (folder / ".mine.part").write_text("mine")
    (folder / ".scores.00000003.shard.x_1abcde.part").write_text("half")
    with open_run(folder, IDENTITY) as run:
        assert not (folder / ".scores.00000003.shard.x_1abcde.part").exists()
        run.discard()
    assert sorted(path.name for path in folder.iterdir()) == [".mine.part", "mine.txt"]


def test_two_processes_cannot_work_in_one_folder(folder):
    with (
        open_run(folder, IDENTITY),
        pytest.raises(OutputError, match="another process is at work in it; wait"),
        open_run(folder, IDENTITY),
    ):
        pass
    with open_run(folder, IDENTITY):  # the lock ends with its holder
        pass


def test_pace_finds_how_much_takes_so_long():
    pace = Pace(first=100, seconds=10.0)
    for _ in range(20):
        pace.observe(pace.items, pace.items / 5000)
    assert pace.items == pytest.approx(50_000, rel=0.01)
    pace.observe(pace.items, 1000.0)  # a bad moment does not make it tiny
    assert pace.items == 12_500


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 256 KiB."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small disk takes root")
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(place)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("a small disk cannot be mounted here")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def fill_up(series, body):
    for number in range(10):
        series.append({"at": number}, body)


def test_full_disk_keeps_what_is_finished(small_disk):
    folder = small_disk / "out.parts"
    body = b"x" * 60_000
    with open_run(folder, IDENTITY) as run:
        series = run.series("scores")
        with pytest.raises(OutputError, match="No space left on device.*what is finished is kept"):
            fill_up(series, body)
        finished = len(series)
    assert 1 <= finished <= 4
    with open_run(folder, IDENTITY) as run:
        series = run.series("scores")
        assert [shard.body for shard in series] == [body] * finished
        with pytest.raises(OutputError, match=r"out: cannot be written .No space left"):
            run.merge(series, small_disk / "out")
    assert not (small_disk / "out").exists()
    subprocess.run(["mount", "-o", "remount,size=2m", str(small_disk)], check=True)
    with open_run(folder, IDENTITY) as run:
        series = run.series("scores")
        series.append({"at": finished}, body)
        run.merge(series, small_disk / "out")
        run.discard()
    assert (small_disk / "out").read_bytes() == body * (finished + 1)
    assert [path.name for path in small_disk.iterdir()] == ["out"]


def begin(folder, *, pieces):
    with open_run(folder, {"task": "test"}) as run:
        series = run.series("pieces")
        for number in range(pieces):
            series.append({"number": number}, b"body")
        raise KeyError


def test_run_that_fails_before_its_first_piece_leaves_nothing(tmp_path):
    with pytest.raises(KeyError):
        begin(tmp_path / "parts", pieces=0)
    assert not list(tmp_path.iterdir())


def test_run_that_fails_later_keeps_its_pieces(tmp_path):
    for before in (0, 2):
        with pytest.raises(KeyError):
            begin(tmp_path / "parts", pieces=2 - before)
        with open_run(tmp_path / "parts", {"task": "test"}) as run:
            assert len(run.series("pieces")) == 2


@pytest.mark.parametrize("kind", ["pipe", "link", "folder"])
def test_only_a_file_is_replaced_by_the_result(tmp_path, kind):
    target = tmp_path / "target"
    {"pipe": os.mkfifo, "folder": os.mkdir, "link": lambda path: path.symlink_to("x")}[kind](target)
    with open_run(tmp_path / "parts", {}) as run:
        series = run.series("pieces")
        series.append({}, b"body")
        with pytest.raises(OutputError, match="pipe|link|folder"):
            run.merge(series, target)
    assert target.lstat().st_mode & 0o170000 != 0o100000
    assert len(series) == 1


def test_a_full_disk_leaves_no_empty_folder(tmp_path, monkeypatch):
    def on_full(target):
        return os.open("/dev/full", os.O_WRONLY), tmp_path / "part"

    monkeypatch.setattr(files, "begin_part", on_full)
    with pytest.raises(OutputError, match="No space left"), open_run(tmp_path / "a" / "parts", {}):
        pytest.fail("it was begun")
    assert not list(tmp_path.iterdir())
