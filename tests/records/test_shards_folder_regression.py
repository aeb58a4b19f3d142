"""A folder that is not of a run is refused, and nothing in it is deleted or written."""

from __future__ import annotations

import json
from pathlib import Path

import fleets
import numpy as np
import pytest
from command_line import save_model, small_model

import canary
from canary.cli.main import run as command
from canary.corpus.canaries import generate
from canary.errors import OutputError, RecordError
from canary.fleet.running import Fleet
from canary.fleet.splits import halves
from canary.models.served.verified_cache import open_answers
from canary.records.shards import discard_run, open_run
from canary.scoring.score_job import score_file
from canary.signals.text_measuring import measure_texts

IDENTITY = {"task": "test"}
MINE = {
    "result": b"a year of work",
    "photos.00000000.shard": b"mine",
    "photos.00000001.shard": b"mine too",
    ".result.x.part": b"half of mine",
    "manifest.json": b'{"name": "my web app"}',
}


def tree(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "untrained"
    save_model(small_model(), folder)
    return folder


@pytest.fixture(scope="module")
def loaded(saved):
    return canary.load(saved)


@pytest.fixture(params=["result", "manifest.json", "all", "folder"])
def theirs(tmp_path, request):
    """A folder of the user with one file that bears a name of ours, or with all of them."""
    place = tmp_path / "theirs"
    place.mkdir()
    if request.param == "folder":
        (place / "sub").mkdir()
        (place / "sub" / "result").write_bytes(b"mine")
        return place
    for name, content in MINE.items():
        if request.param in (name, "all"):
            (place / name).write_bytes(content)
    return place


def audit(folder, loaded):
    drawn = generate("code {digit:2}", repetitions=[1], per_repetition=1, controls=1, seed=0)
    canary.audit(loaded, drawn, method="sampling", draws=9, parts=folder)


def measure(folder, loaded):
    texts = [f"text number {i} is here" for i in range(8)]
    flags = np.arange(8) < 4
    measure_texts(loaded, texts, flags, signals="loss", parts=folder)


def fleet(folder, loaded):
    Fleet(fleets.means, fleets.made(), halves(), 2, 0, outputs="logits").run(folder=folder)


def score(folder, loaded):
    target = folder.with_name("scores.jsonl")
    folder.rename(target.with_name("scores.jsonl.parts"))
    texts = folder.with_name("texts.jsonl")
    texts.write_text('{"text": "one"}\n')
    try:
        score_file(loaded, texts, target)
    finally:
        if target.with_name("scores.jsonl.parts").exists():
            target.with_name("scores.jsonl.parts").rename(folder)


def answers(folder, loaded):
    root = folder.with_name("answers")
    open_answers(root, "m", {"model": "m"})._release()
    (place,) = root.iterdir()
    discard_run(place)
    folder.rename(place)
    try:
        open_answers(root, "m", {"model": "m"})
    finally:
        place.rename(folder)


def plain(folder, loaded):
    with open_run(folder, IDENTITY) as run:
        run.series("scores").append({}, b"body")


def linked(folder, loaded):
    link = folder.with_name("link")
    link.symlink_to(folder, target_is_directory=True)
    plain(link, loaded)


ENTRIES = [audit, measure, fleet, score, answers]


def refused(theirs, enter, loaded):
    before = tree(theirs)
    with pytest.raises((OutputError, RecordError)) as caught:
        enter(theirs, loaded)
    assert "name" in caught.value.cure
    assert tree(theirs) == before


def test_a_folder_that_is_not_of_a_run_is_refused_whole(theirs):
    refused(theirs, plain, None)
    discard_run(theirs)
    refused(theirs, linked, None)


@pytest.mark.parametrize("theirs", ["all"], indirect=True)
@pytest.mark.parametrize("enter", ENTRIES, ids=lambda enter: enter.__name__)
def test_every_entry_refuses_it(theirs, enter, loaded):
    refused(theirs, enter, loaded)


def test_the_first_files_that_are_not_ours_are_named(tmp_path):
    for name in ("b", "a", "result", "d"):
        (tmp_path / name).touch()
    with pytest.raises(OutputError, match=r"holds a, b, d, ….* name an empty"):
        plain(tmp_path, None)


def test_a_link_is_not_followed_out_of_the_folder(tmp_path):
    """Neither a manifest nor a shard behind a link makes anything there ours."""
    run, theirs = tmp_path / "run", tmp_path / "theirs"
    plain(run, None)
    theirs.mkdir()
    (theirs / "manifest.json").symlink_to(run / "manifest.json")
    (theirs / "scores.00000000.shard").write_bytes(b"mine")
    with pytest.raises(OutputError, match="is not empty, and no run"):
        plain(theirs, None)
    discard_run(theirs)
    assert (theirs / "scores.00000000.shard").read_bytes() == b"mine"

    (theirs / "valuable").write_bytes(b"mine")
    (run / "other.00000000.shard").symlink_to(theirs / "valuable")
    discard_run(run)
    assert (theirs / "valuable").read_bytes() == b"mine"
    assert [path.name for path in run.iterdir()] == ["other.00000000.shard"]


def test_only_what_the_run_wrote_is_discarded(tmp_path):
    run = tmp_path / "run"
    plain(run, None)
    mine = {"result": b"mine", "notes.00000007.shard": b"mine", "x.part": b"mine"}
    for name, content in mine.items():
        (run / name).write_bytes(content)
    plain(run, None)  # goes on
    discard_run(run)
    assert tree(run) == dict(sorted(mine.items()))


def test_a_run_begins_behind_a_link_to_an_empty_folder(tmp_path):
    (tmp_path / "disk").mkdir()
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "disk", target_is_directory=True)
    plain(link, None)
    assert (tmp_path / "disk" / "scores.00000000.shard").exists()
    discard_run(link)
    assert not (tmp_path / "disk").exists()
    plain(link, None)  # a link that leads to nothing yet
    assert (tmp_path / "disk" / "scores.00000000.shard").exists()


@pytest.mark.parametrize("kills", range(4))
def test_a_kill_while_a_run_is_discarded_leaves_a_folder_that_is_ours(tmp_path, monkeypatch, kills):
    """Shards that are left belong to no run: a new one with other settings begins anew."""
    run = tmp_path / "run"
    with open_run(run, IDENTITY) as begun:
        for _ in range(2):
            begun.series("scores").append({}, b"body")
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
                discard_run(run)
        else:
            discard_run(run)
    with open_run(run, {"task": "another"}) as again:
        assert len(again.series("scores")) == 0
        again.series("scores").append({}, b"body")
        assert json.loads((run / "manifest.json").read_text())["identity"] == {"task": "another"}
        again.discard()
    assert not run.exists()


def test_the_command_refuses_parts_that_are_not_of_a_run(tmp_path, capsys, saved):
    drawn = generate("code {digit:2}", repetitions=[1], per_repetition=1, controls=1, seed=0)
    drawn.save(tmp_path / "canaries.json")
    parts = tmp_path / "audit" / "parts"
    parts.mkdir(parents=True)
    (parts / "result").write_bytes(b"mine")
    words = ["audit", saved, "--canaries", tmp_path / "canaries.json", "--out", tmp_path / "audit"]
    assert command([*map(str, words), "--draws", "9"]) == 2
    assert f"{parts}: is not empty, and no run of canary began in it" in capsys.readouterr().err
    assert tree(tmp_path / "audit") == {"parts": None, "parts/result": b"mine"}


@pytest.mark.parametrize("name", ["x" * 300, "file/run", "loop", "a\0b"])
def test_a_folder_that_cannot_be_is_an_error_of_ours(tmp_path, name):
    (tmp_path / "file").touch()
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(OutputError, match="cannot be written"), open_run(tmp_path / name, IDENTITY):
        pass
