"""No command writes over what it was not asked to replace, and none over a canary set."""

from __future__ import annotations

import functools
import itertools
import shutil
import stat
from pathlib import Path

import pytest
from every_command import COMMANDS, FORMAT, lay_all, plain, written

from canary import demo
from canary.corpus.canaries import CanarySet, generate
from canary.errors import OutputError
from canary.records.files import kind_there

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
    "pool.json": "canary set",
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


def lay_at(place, kind):
    Path(place).parent.mkdir(parents=True, exist_ok=True)
    data = Path(THEIRS[kind]).read_bytes() if not kind.endswith("set") else another_set()
    Path(place).write_bytes(data)
    return data


def another_set():
    generate(FORMAT, repetitions=[1], per_repetition=1, controls=1, seed=9).save("theirs.json")
    return Path("theirs.json").read_bytes()


WRITERS = [name for name, words in COMMANDS.items() if written(words)]


@pytest.mark.parametrize("name", WRITERS)
def test_no_file_is_replaced_unasked_and_none_of_another_kind(command, workplace, model, name):
    """Each file that a command writes holds its own kind, a canary set, and one in its turn."""
    words = plain(COMMANDS[name], model)
    kinds = itertools.cycle(THEIRS)
    for _ in WRITERS[: WRITERS.index(name)]:
        next(kinds)
    for file in written(COMMANDS[name]):
        own = OWN.get(Path(file).name)
        for kind in dict.fromkeys([own, "canary set", next(kinds)]):
            if kind is None or (file in VERDICTS and kind == own):
                continue
            before = lay_at(file, kind)
            outcome = command(*words)
            assert outcome.code == 2, (kind, outcome.err)
            assert file in outcome.err
            assert "name another" in outcome.err
            assert "--force" in outcome.err or kind != own, outcome.err
            assert Path(file).read_bytes() == before, kind
            # Files of a model are told by their names, but for documents of ours.
            told = (
                kind.startswith("canary")
                if "config.json" in file or "safetensors" in file
                else kind != "text"
            )
            if file not in VERDICTS and kind != own and told:
                outcome = command(*words, "--force")
                article = "a " if kind.startswith("canary") else ""
                assert outcome.code == 2, (kind, outcome.err)
                assert f"{file}: holds {article}{kind}, which" in outcome.err
                assert Path(file).read_bytes() == before, kind
        Path(file).unlink()


QUICK = ("generate", "inject", "strip", "discover", "score", "audit", "report", "plot", "forgotten")
QUICK += ("membership attack", "membership risk")
PRIVATE = (*QUICK[:1], *QUICK[3:7], "compare", "history", *QUICK[8:], "membership models")
PRIVATE += ("membership text", "update", "demo")


@pytest.mark.parametrize("name", dict.fromkeys([*QUICK, *PRIVATE]))
def test_a_second_run_asks_for_force_and_what_is_private_is(
    command, workplace, model, name, monkeypatch
):
    tiny = demo.Settings("The code is {digit:2}", (1,), 2, 4, 60, 16, 1)
    monkeypatch.setattr(demo, "run", functools.partial(demo.run, settings=tiny))
    words, made = plain(COMMANDS[name], model), written(COMMANDS[name])
    first = command(*words)
    assert first.code in (0, 3), first.err
    for file in made:
        mode = stat.S_IMODE(Path(file).stat().st_mode)
        assert mode == 0o600 or name not in PRIVATE or "model/" in file, file
    if name not in QUICK:
        return
    again = command(*words)
    assert again.code == 2
    assert f"{made[0]}: exists already; name another place, or replace it with --force" in again.err
    assert command(*words, "--force").code == first.code
    if name == "generate":
        Path(made[0]).write_bytes(b"")  # an empty file is no result
        assert command(*words).code == first.code


def test_a_verdict_is_written_again_without_force(command, workplace):
    words = [*plain(COMMANDS["check"], "model")]
    words = [word for word in words if word not in ("--verification", "verification.json")]
    for _ in range(2):
        assert command(*words).code in (0, 1, 3)
    assert kind_there("c.xml") == "JUnit XML"
    assert kind_there("c.md") == "the Markdown of a verdict"


def test_only_generate_replaces_a_canary_set(command, workplace):
    drawn = Path("canaries.json").read_bytes()
    words = ["discover", "corpus.jsonl", "number {digit:2}", "--out", "canaries.json", "--force"]
    outcome = command(*words)
    assert outcome.code == 2
    assert "canaries.json: holds another canary set, and models that were trained" in outcome.err
    assert Path("canaries.json").read_bytes() == drawn
    words[4] = "found.json"  # what was discovered may be discovered again
    assert command(*words).code == 0
    words[2] = "line number {digit:2}"
    assert command(*words).code == 0
    assert command("generate", FORMAT, "--out", "canaries.json", "--force").code == 0
    assert Path("canaries.json").read_bytes() != drawn


def test_in_python_another_set_is_kept_too(workplace):
    kept = CanarySet.load("canaries.json")
    kept.save("canaries.json")  # itself
    other = generate(FORMAT, repetitions=[1], per_repetition=1, controls=1, seed=1)
    with pytest.raises(OutputError, match="another canary set"):
        other.save("canaries.json")
    assert CanarySet.load("canaries.json") == kept
    other.save("canaries.json", force=True)
    assert CanarySet.load("canaries.json") == other
