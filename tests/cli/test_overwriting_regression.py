"""No command writes over what it was not asked to replace, and none over a canary set."""

from __future__ import annotations

import functools
import shutil
import stat
from pathlib import Path

import pytest
from every_command import COMMANDS, FORMAT, lay_all, plain, written

from canary import demo
from canary.corpus.canaries import CanarySet, generate
from canary.errors import OutputError
from canary.records.files import kind_there

WRITERS = [(name, file) for name, words in COMMANDS.items() for file in written(words)]

THEIRS = {
    "canary set": "canaries.json",
    "canary audit": "audit.json",
    "canary verify": "verification.json",
    "canary history": "history.json",
    "JSON Lines": "corpus.jsonl",
    "an HTML page": "old.html",
    "JUnit XML": "old.xml",
    "NumPy arrays": "target.npz",
    "text": "notes.txt",
}
OWN = {
    "drawn.json": "canary set",
    "found.json": "canary set",
    "new.jsonl": "JSON Lines",
    "injected.jsonl": "JSON Lines",
    "scores.jsonl": "JSON Lines",
    "c.xml": "JUnit XML",
    "canaries.json": "canary set",
    "corpus.jsonl": "JSON Lines",
    "audit.json": "canary audit",
    "report.html": "an HTML page",
    "page.html": "an HTML page",
}
VERDICTS = ("c.xml", "c.md", "new_baseline.json")
"""What `check` writes again without being asked."""


@pytest.fixture(scope="module")
def laid(tmp_path_factory):
    folder = tmp_path_factory.mktemp("all")
    lay_all(folder)
    (folder / "old.html").write_text("<!doctype html>\n<html></html>\n")
    (folder / "old.xml").write_text('<?xml version="1.0" encoding="utf-8"?>\n<testsuites />\n')
    (folder / "notes.txt").write_text("a year of notes\n")
    return folder


@pytest.fixture
def workplace(laid, tmp_path, monkeypatch):
    shutil.copytree(laid, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def some_of(kinds, file):
    """Its own kind, a canary set, and another that is the next file's turn next."""
    turn = [*THEIRS][[other for _, other in WRITERS].index(file) % len(THEIRS)]
    return [kind for kind in kinds if kind in {OWN.get(Path(file).name), "canary set", turn}]


def lay_at(place, kind):
    Path(place).parent.mkdir(parents=True, exist_ok=True)
    data = Path(THEIRS[kind]).read_bytes() if not kind.endswith("set") else another_set()
    Path(place).write_bytes(data)
    return data


def another_set():
    generate(FORMAT, repetitions=[1], per_repetition=1, controls=1, seed=9).save("theirs.json")
    return Path("theirs.json").read_bytes()


@pytest.mark.parametrize(("name", "file"), WRITERS)
def test_no_file_is_replaced_without_force(command, workplace, model, name, file):
    words = plain(COMMANDS[name], model)
    for kind in some_of(THEIRS, file):
        if file in VERDICTS and kind == OWN.get(file):
            continue
        before = lay_at(file, kind)
        outcome = command(*words)
        assert outcome.code == 2, (kind, outcome.err)
        assert file in outcome.err
        assert "name another" in outcome.err
        assert "--force" in outcome.err or kind != OWN.get(Path(file).name, "none"), outcome.err
        assert Path(file).read_bytes() == before, kind


FORCED = [(name, file) for name, file in WRITERS if file not in VERDICTS]


@pytest.mark.parametrize(("name", "file"), FORCED)
def test_force_replaces_nothing_of_another_kind(command, workplace, model, name, file):
    words = plain(COMMANDS[name], model)
    kinds = [kind for kind in THEIRS if kind not in (OWN.get(Path(file).name), "text")]
    if "model/" in file:  # told by their names, but for documents of ours
        kinds = [kind for kind in kinds if kind.startswith("canary")]
    for kind in some_of(kinds, file):
        before = lay_at(file, kind)
        outcome = command(*words, "--force")
        assert outcome.code == 2, (kind, outcome.err)
        assert (
            f"{file}: holds {'a ' if kind.startswith('canary') else ''}{kind}, which" in outcome.err
        )
        assert Path(file).read_bytes() == before, kind


QUICK = ("generate", "inject", "strip", "discover", "score", "audit", "report", "plot")


@pytest.mark.parametrize("name", [*QUICK, "membership attack", "membership risk", "forgotten"])
def test_a_second_run_asks_for_force_and_then_replaces(command, workplace, model, name):
    words = plain(COMMANDS[name], model)
    first = command(*words)
    assert first.code in (0, 3), first.err
    made = written(COMMANDS[name])
    again = command(*words)
    assert again.code == 2
    assert f"{made[0]}: exists already; name another place, or replace it with --force" in again.err
    assert command(*words, "--force").code == first.code
    for file in made:
        Path(file).write_bytes(b"")  # an empty file is no result
    assert command(*words).code == first.code


def test_a_verdict_is_written_again_without_force(command, workplace):
    words = [*plain(COMMANDS["check"], "model")]
    words = [word for word in words if word not in ("--verification", "verification.json")]
    for _ in range(2):
        assert command(*words).code in (0, 1, 3)
    assert kind_there("c.xml") == "JUnit XML"
    assert kind_there("c.md") == "the Markdown of a verdict"


PRIVATE = (*QUICK[:1], *QUICK[3:7], "compare", "history", "membership attack", "membership models")
PRIVATE += ("membership text", "membership risk", "forgotten", "update", "demo")


@pytest.mark.parametrize("name", PRIVATE)
def test_what_is_as_secret_as_the_model_is_for_its_owner(
    command, workplace, model, name, monkeypatch
):

    tiny = demo.Settings("The code is {digit:2}", (1,), 2, 4, 60, 16, 1)
    monkeypatch.setattr(demo, "run", functools.partial(demo.run, settings=tiny))
    words = plain(COMMANDS[name], model)
    outcome = command(*words)
    assert outcome.code in (0, 3), outcome.err
    for file in written(COMMANDS[name]):
        if "model/" not in file:
            assert stat.S_IMODE(Path(file).stat().st_mode) == 0o600, file


def test_only_generate_replaces_a_canary_set(command, workplace):
    drawn = Path("canaries.json").read_bytes()
    words = ["discover", "corpus.jsonl", "number {digit:2}", "--out", "canaries.json", "--force"]
    outcome = command(*words)
    assert outcome.code == 2
    assert "canaries.json: holds another canary set, and models that were trained" in outcome.err
    assert Path("canaries.json").read_bytes() == drawn
    assert command("generate", FORMAT, "--out", "canaries.json", "--force").code == 0
    assert Path("canaries.json").read_bytes() != drawn


def test_what_was_discovered_may_be_discovered_again(command, workplace):
    words = ["discover", "corpus.jsonl", "--out", "found.json", "--force"]
    assert command(*words, "number {digit:2}").code == 0
    assert command(*words, "line number {digit:2}").code == 0


def test_in_python_another_set_is_kept_too(workplace):
    kept = CanarySet.load("canaries.json")
    kept.save("canaries.json")  # itself
    other = generate(FORMAT, repetitions=[1], per_repetition=1, controls=1, seed=1)
    with pytest.raises(OutputError, match="another canary set"):
        other.save("canaries.json")
    assert CanarySet.load("canaries.json") == kept
    other.save("canaries.json", force=True)
    assert CanarySet.load("canaries.json") == other
