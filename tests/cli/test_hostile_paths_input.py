"""Whatever a path leads to, a command ends soon, with exit code 2 and no traceback."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from every_command import COMMANDS, lay_all, places, plain

WAYS = [
    (name, at) for name, words in COMMANDS.items() for mark in "<>" for at, _ in places(words, mark)
]
SPECIAL = ("pipe", "/dev/null", "/dev/full", "loop", "x" * 5000)
"""What can be neither read nor written."""


@pytest.fixture(scope="module")
def laid(tmp_path_factory):
    folder = tmp_path_factory.mktemp("all")
    lay_all(folder)
    os.mkfifo(folder / "pipe")
    (folder / "loop").symlink_to("loop")
    return folder


@pytest.fixture
def here(laid, monkeypatch):
    monkeypatch.chdir(laid)
    return laid


@pytest.mark.parametrize(("name", "at"), WAYS)
def test_what_is_no_file_is_refused(command, here, name, at):
    before = sorted(here.iterdir())
    words = plain(COMMANDS[name], "model")
    words[at] = SPECIAL[WAYS.index((name, at)) % len(SPECIAL)]
    outcome = command(*words)
    assert outcome.code == 2, outcome.err
    assert "is no path" in outcome.err or "is a pipe, a device or a socket" in outcome.err
    new = {*here.iterdir()} - {*before}  # the files of a check say why there is none
    assert all(b"Could not be checked" in file.read_bytes() for file in new if file.is_file())
    assert {*before} <= {*here.iterdir()}
    assert all(map(Path.is_file, new))


OUT = [(n, at) for n, at in WAYS if COMMANDS[n][at][0] == ">" and COMMANDS[n][at][-1] != "/"]


@pytest.mark.parametrize(("name", "at"), OUT)
def test_a_folder_is_no_file_to_write(command, here, model, name, at):
    words = plain(COMMANDS[name], model)
    words[at] = (".", "/", "")[OUT.index((name, at)) % 3]
    outcome = command(*words)
    assert outcome.code == 2, outcome.err
    assert "Traceback" not in outcome.err
    assert Path("canaries.json").is_file()
