"""Runs go on after a kill, or say why not; a folder that is not of a run is left alone."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import fleets
import numpy as np
import pytest
from small_models import build

import canary
from canary.corpus.canaries import generate
from canary.errors import OutputError, RecordError
from canary.fleet.running import Fleet
from canary.fleet.splits import halves
from canary.models.served.verified_cache import open_answers
from canary.records import files
from canary.records.shards import Pace, Shard, discard_run, open_run
from canary.scoring.score_job import score_file
from canary.signals.text_measuring import measure_texts

IDENTITY = {"task": "test", "model": "ab" * 32, "formats": ["a", "b"], "seed": 0}


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "out.parts"


def fill(folder, count=3):
    with open_run(folder, IDENTITY) as run:
        series = run.series("scores")
        for number in range(count):
            series.append({"at": number}, f"body {number}\n".encode())


def enter(folder, identity=IDENTITY):
    with open_run(folder, identity):
        pytest.fail("it was begun")


def tree(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }


def test_what_was_appended_is_there_again(folder, tmp_path):
    fill(folder)
    document = json.loads((folder / "manifest.json").read_text())
    assert document == {"kind": "canary unfinished run", "schema": 1, "identity": IDENTITY}
    with open_run(folder, dict(IDENTITY)) as run:
        with pytest.raises(OutputError, match="another process is at work in it; wait"):
            enter(folder)
        series = run.series("scores")
        assert list(series) == [Shard({"at": i}, f"body {i}\n".encode()) for i in range(3)]
        assert len(run.series("other")) == 0
        series.append({"at": 3}, b"")
        run.merge(series, tmp_path / "out")
        run.discard()
    assert tree(tmp_path) == {"out": b"body 0\nbody 1\nbody 2\n"}


@pytest.mark.parametrize(("began", "now"), [(None, 1), (1, 2), (2, None)])
def test_shards_of_another_version_are_refused(folder, began, now):
    with open_run(folder, IDENTITY, layout=began) as run:
        run.series("scores").append({"at": 0}, b"body")
    before = tree(folder)
    told = "another version of canary began an unfinished run in it; .* remove .* to begin anew"
    with pytest.raises(RecordError, match=told), open_run(folder, IDENTITY, layout=now):
        pytest.fail("it was begun")
    assert tree(folder) == before
    with open_run(folder, IDENTITY, layout=began) as run:
        assert len(run.series("scores")) == 1


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
def test_another_identity_is_refused_by_name_input(folder, changed, told):
    fill(folder)
    with pytest.raises(RecordError) as refused:
        enter(folder, {**IDENTITY, **changed})
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
def test_a_damaged_shard_is_refused_with_the_cure_that_works_input(folder, damage):
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
def test_a_damaged_manifest_is_refused_input(folder, text, told):
    fill(folder)
    (folder / "manifest.json").write_text(text)
    with pytest.raises(RecordError, match=told):
        enter(folder)


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
    assert tree(small_disk) == {"out": body * (finished + 1)}


def fail(folder, pieces):
    with open_run(folder, IDENTITY) as run:
        for number in range(pieces):
            run.series("scores").append({"at": number}, b"body")
        raise KeyError


def test_a_run_that_fails_keeps_its_pieces_and_leaves_nothing_without(folder, tmp_path):
    for pieces in (2, 0):
        with pytest.raises(KeyError):
            fail(folder, pieces)
        with open_run(folder, IDENTITY) as run:
            assert len(run.series("scores")) == 2
    discard_run(folder)
    with pytest.raises(KeyError):
        fail(folder, 0)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kind", ["pipe", "link", "folder"])
def test_only_a_file_is_replaced_by_the_result_input(folder, tmp_path, kind):
    target = tmp_path / "target"
    {"pipe": os.mkfifo, "folder": os.mkdir, "link": lambda path: path.symlink_to("x")}[kind](target)
    before = target.lstat().st_mode
    fill(folder, 1)
    with open_run(folder, IDENTITY) as run:
        with pytest.raises(OutputError, match="pipe|link|folder"):
            run.merge(run.series("scores"), target)
        assert len(run.series("scores")) == 1
    assert target.lstat().st_mode == before


def test_a_full_disk_leaves_no_empty_folder(tmp_path, monkeypatch):
    def on_full(target):
        return os.open("/dev/full", os.O_WRONLY), tmp_path / "part"

    monkeypatch.setattr(files, "begin_part", on_full)
    with pytest.raises(OutputError, match="No space left"):
        enter(tmp_path / "a" / "parts")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["x" * 300, "file/run", "loop", "a\0b"])
def test_a_folder_that_cannot_be_is_an_error_of_ours_input(tmp_path, name):
    (tmp_path / "file").touch()
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(OutputError, match="cannot be written"):
        enter(tmp_path / name)


MINE = {
    "result": b"a year of work",
    "photos.00000000.shard": b"mine",
    "photos.00000001.shard": b"mine too",
    ".result.x.part": b"half of mine",
    "manifest.json": b'{"name": "my web app"}',
    "sub/result": b"mine",
}


def laid(folder, *names):
    """A folder of the user with files that bear names of ours."""
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(MINE[name])
    return folder


def audit(folder, model):
    drawn = generate("code {digit:2}", repetitions=[1], per_repetition=1, controls=1, seed=0)
    canary.audit(model, drawn, method="sampling", draws=9, parts=folder, start_token=None)


def measure(folder, model):
    texts, flags = [f"text number {i} is here" for i in range(8)], np.arange(8) < 4
    measure_texts(model, texts, flags, signals="loss", parts=folder, start_token=None)


def fleet(folder, _):
    Fleet(fleets.means, fleets.made(), halves(), 2, 0, outputs="logits").run(folder=folder)


def score(folder, model):
    target = folder.with_name("scores.jsonl")
    parts = folder.rename(target.with_name("scores.jsonl.parts"))
    folder.with_name("texts.jsonl").write_text('{"text": "one"}\n')
    try:
        score_file(model, folder.with_name("texts.jsonl"), target, start_token=None)
    finally:
        parts.rename(folder)


def answers(folder, _):
    root = folder.with_name("answers")
    open_answers(root, "m", {"model": "m"})._release()
    (place,) = root.iterdir()
    discard_run(place)
    folder.rename(place)
    try:
        open_answers(root, "m", {"model": "m"})
    finally:
        place.rename(folder)


def run(folder, _):
    with open_run(folder, IDENTITY) as begun:
        begun.series("scores").append({}, b"body")


def linked(folder, _):
    link = folder.with_name("link")
    link.unlink(missing_ok=True)
    link.symlink_to(folder, target_is_directory=True)
    run(link, None)


@pytest.mark.parametrize("enter", [run, linked, audit, measure, fleet, score, answers])
def test_a_folder_that_is_not_of_a_run_is_refused_whole_by_every_entry_input(tmp_path, enter):
    every = [[*MINE], ["result"], ["manifest.json"], ["sub/result"]]
    for number, names in enumerate(every if enter in (run, linked) else every[:1]):
        theirs = laid(tmp_path / f"theirs{number}", *names)
        before = tree(theirs)
        discard_run(theirs)
        with pytest.raises((OutputError, RecordError)) as caught:
            enter(theirs, build("LSTM"))
        assert "name" in caught.value.cure
        assert tree(theirs) == before


def test_the_first_files_that_are_not_ours_are_named(tmp_path):
    for name in ("b", "a", "result", "d"):
        (tmp_path / name).touch()
    with pytest.raises(OutputError, match=r"holds a, b, d, ….* name an empty"):
        enter(tmp_path)


def test_a_link_is_not_followed_out_of_the_folder(tmp_path):
    """Neither a manifest nor a shard behind a link makes anything there ours."""
    begun, theirs = tmp_path / "run", tmp_path / "theirs"
    run(begun, None)
    theirs.mkdir()
    (theirs / "manifest.json").symlink_to(begun / "manifest.json")
    (theirs / "scores.00000000.shard").write_bytes(b"mine")
    with pytest.raises(OutputError, match="is not empty, and no run"):
        enter(theirs)
    discard_run(theirs)
    assert (theirs / "scores.00000000.shard").read_bytes() == b"mine"

    (theirs / "valuable").write_bytes(b"mine")
    (begun / "other.00000000.shard").symlink_to(theirs / "valuable")
    discard_run(begun)
    assert (theirs / "valuable").read_bytes() == b"mine"
    assert [path.name for path in begun.iterdir()] == ["other.00000000.shard"]


def test_only_what_the_run_wrote_is_discarded(folder):
    fill(folder)
    mine = {".mine.part": b"mine", "notes.7.shard": b"mine", "result": b"mine"}
    left = ".scores.00000003.shard.underway.part"
    for name, content in {**mine, left: b"half"}.items():
        (folder / name).write_bytes(content)
    with open_run(folder, IDENTITY) as begun:
        assert not (folder / left).exists()
        begun.discard()
    assert tree(folder) == mine


def test_a_run_begins_behind_a_link_to_an_empty_folder(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    linked(disk, None)
    assert (disk / "scores.00000000.shard").exists()
    discard_run(tmp_path / "link")
    assert not disk.exists()
    run(tmp_path / "link", None)  # a link that leads to nothing yet
    assert (disk / "scores.00000000.shard").exists()


@pytest.mark.parametrize("kills", range(4))
def test_a_kill_while_a_run_is_discarded_leaves_a_folder_that_is_ours(folder, monkeypatch, kills):
    """Shards that are left belong to no run: a new one with other settings begins anew."""
    fill(folder, 2)
    unlink, left = Path.unlink, [kills]

    def killed(path, **options):
        if not left[0]:
            raise KeyboardInterrupt
        left[0] -= 1
        unlink(path, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", killed)
        if kills < 3:
            with pytest.raises(KeyboardInterrupt):
                discard_run(folder)
        else:
            discard_run(folder)
    with open_run(folder, {"task": "another"}) as again:
        assert len(again.series("scores")) == 0
        again.series("scores").append({}, b"body")
        manifest = json.loads((folder / "manifest.json").read_text())
        assert manifest["identity"] == {"task": "another"}
        again.discard()
    assert not folder.exists()
