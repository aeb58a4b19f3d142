"""Files are whole or absent, whatever happens while they are written, and whoever writes."""

from __future__ import annotations

import errno
import json
import os
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from canary.errors import InputError, ModelError, OutputError, RecordError
from canary.formats.format import read_words
from canary.records import files
from canary.records.files import (
    alone,
    atomic_write,
    atomic_writer,
    check_writable,
    folder_made,
    make_folder,
)
from canary.records.versioned_json import load_document
from canary.statistics.numbers import clean
from canary.tokens.fast import read_tokenizer


@pytest.fixture
def umask():
    before = os.umask(0o027)
    yield 0o027
    os.umask(before)


@pytest.fixture
def short_wait(monkeypatch):
    monkeypatch.setattr(files, "_SECONDS", 0.05)


def held_by(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def mode_of(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_what_is_written_appears_whole_at_the_end(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    atomic_write("text", "before")
    atomic_write("text", "é\n")
    atomic_write("bytes", b"\x00\xff")
    with atomic_writer(tmp_path / "out") as file:
        file.write(b"all")
        file.flush()
        assert not (tmp_path / "out").exists()
    check_writable("text")
    check_writable("another")
    assert held_by(tmp_path) == {"text": "é\n".encode(), "bytes": b"\x00\xff", "out": b"all"}


def test_permissions(tmp_path, umask):
    atomic_write(tmp_path / "public", "x")
    atomic_write(tmp_path / "private", "x", private=True)
    assert [mode_of(tmp_path / name) for name in ("public", "private")] == [0o640, 0o600]
    # A secret never stands in a file that others can read, not even while it is written.
    with atomic_writer(tmp_path / "public"):
        (part,) = tmp_path.glob(".public.*.part")
        assert mode_of(part) == 0o600


@pytest.mark.parametrize("bits", [0o400, 0o644, 0o4777])
def test_permissions_like_those_of_another_file(tmp_path, umask, bits):
    source = tmp_path / "source"
    source.write_text("x")
    source.chmod(bits)
    with atomic_writer(tmp_path / "made", like=source) as file:
        file.write(b"y")
        source.chmod(0o777)  # too late
    assert mode_of(tmp_path / "made") == bits & 0o666
    for options in ({"like": source, "private": True}, {"like": tmp_path / "none"}):
        with atomic_writer(tmp_path / "other", **options):
            pass
        assert mode_of(tmp_path / "other") == 0o600


FULL = [OSError(number, os.strerror(number)) for number in (errno.ENOSPC, errno.EFBIG)]


@pytest.mark.parametrize(
    ("raised", "step", "seen"),
    [
        (KeyboardInterrupt(), "write", KeyboardInterrupt),
        (OSError(), "write", OSError),
        (FULL[0], "write", OutputError),
        (FULL[1], "flush", OutputError),
    ],
)
def test_what_stood_there_stays_when_writing_fails(tmp_path, monkeypatch, raised, step, seen):
    def fail(*_):
        raise raised

    target = tmp_path / "out"
    target.write_text("before")
    if step == "flush":
        monkeypatch.setattr(files.os, "fsync", fail)

    def write():
        with atomic_writer(target) as file:
            file.write(b"half")
            if step == "write":
                fail()

    with pytest.raises(seen) as caught:
        write()
    assert held_by(tmp_path) == {"out": b"before"}
    if seen is OutputError:
        assert caught.value.where == str(target)
        assert "has room" in caught.value.cure


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs the device /dev/full")  # noqa: PTH110
def test_a_device_that_is_really_full(tmp_path, monkeypatch):
    def on_full(target):
        return os.open("/dev/full", os.O_WRONLY), tmp_path / "part"

    monkeypatch.setattr(files, "begin_part", on_full)
    with pytest.raises(OutputError, match="No space left"):
        atomic_write(tmp_path / "out", "x")


@pytest.mark.parametrize(
    "name", ["missing/out", "file/out", "x" * 300, "a\0b", "\ud800", "locked/out", "."]
)
def test_targets_that_cannot_be_input(tmp_path, name):
    if name.startswith("locked") and os.geteuid() == 0:
        pytest.skip("root may write everywhere")
    (tmp_path / "file").write_text("")
    (tmp_path / "locked").mkdir(mode=0o500)
    target = tmp_path / name
    for write in (check_writable, lambda path: atomic_write(path, "x")):
        with pytest.raises(
            OutputError, match="cannot be written|is a folder, a file was"
        ) as caught:
            write(target)
        assert caught.value.where == str(target)
        assert caught.value.cure
    if name not in ("missing/out", "."):
        with pytest.raises(OutputError, match="cannot be written"):
            make_folder(target)
    with pytest.raises(RecordError, match="cannot be read|is a folder"):
        load_document(target, "some kind", 1)


@pytest.mark.parametrize("name", ["pipe", "link to pipe", "link to file", "dangling", "device"])
def test_only_files_are_replaced_input(tmp_path, name):
    file, pipe, target = tmp_path / "file", tmp_path / "pipe", tmp_path / "target"
    file.write_text("before")
    os.mkfifo(pipe)
    if name in ("pipe", "device"):
        target = pipe if name == "pipe" else Path(os.devnull)
    else:
        leads = {"link to pipe": pipe, "link to file": file, "dangling": tmp_path / "nothing"}
        target.symlink_to(leads[name])
    before = target.lstat()
    for write in (check_writable, lambda path: atomic_write(path, "x")):
        with pytest.raises(OutputError, match="pipe, a device|symbolic link") as caught:
            write(target)
        assert caught.value.where == str(target)
        assert caught.value.cure
    after = target.lstat()
    assert (after.st_ino, after.st_mode) == (before.st_ino, before.st_mode)
    assert file.read_text() == "before"


def test_folders_made_for_nothing_are_removed_again(tmp_path):
    def fail(path, *, leave=()):
        with folder_made(path) as folder:
            for name in leave:
                (folder / name).write_text("")
            raise KeyError

    for path, error in ((tmp_path / "a" / "b", KeyError), (tmp_path / ("x" * 300), OutputError)):
        with pytest.raises(error):
            fail(path)
        assert not list(tmp_path.iterdir())
    (tmp_path / "a").mkdir()
    with pytest.raises(KeyError):
        fail(tmp_path / "a")
    assert (tmp_path / "a").is_dir()
    with pytest.raises(KeyError):
        fail(tmp_path / "a" / "b" / "c", leave=["kept"])
    assert (tmp_path / "a" / "b" / "c" / "kept").exists()
    with folder_made(tmp_path / "d") as folder:
        assert folder.is_dir()
    assert make_folder(folder) == folder
    assert not list(folder.iterdir())


WRITE_AND_WAIT = """
import os, sys, time
from canary.records.files import atomic_writer
with atomic_writer(sys.argv[1], private=True) as file:
    file.write(b"my pin is 1234")
    file.flush()
    print("written", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def writing(tmp_path):
    """A process that has written half of an output."""
    words = [sys.executable, "-c", WRITE_AND_WAIT, str(tmp_path / "out")]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"written\n"
        yield process
        process.kill()


def test_what_a_kill_leaves_is_removed_by_the_next_writer(tmp_path, short_wait, writing):
    target = tmp_path / "out"
    (part,) = tmp_path.iterdir()
    with pytest.raises(OutputError, match=r"/out: another process is writing it; wait"):
        atomic_write(target, "whole")
    atomic_write(tmp_path / "other", "whole")
    assert (part.read_bytes(), mode_of(part)) == (b"my pin is 1234", 0o600)
    writing.send_signal(signal.SIGKILL)
    writing.wait()
    assert part.exists()
    check_writable(target)
    assert held_by(tmp_path) == {"other": b"whole"}


@pytest.mark.parametrize("kind", ["link", "folder", "pipe"])
def test_what_is_no_file_of_ours_is_left_alone(tmp_path, short_wait, kind):
    part, theirs = tmp_path / ".out.underway.part", tmp_path / "theirs"
    theirs.write_text("theirs")
    make = {"link": lambda path: path.symlink_to(theirs), "folder": os.mkdir, "pipe": os.mkfifo}
    make[kind](part)
    names = [".out.abcdefgh.part", ".out.part", "out.underway.part", ".out2.underway.part"]
    for name in names:  # like ours
        (tmp_path / name).write_text("theirs")
    with pytest.raises(OutputError, match=r"\.out\.underway\.part|cannot be written"):
        atomic_write(tmp_path / "out", "x")
    assert os.path.lexists(part)
    atomic_write(tmp_path / "other", "x")
    assert {(tmp_path / name).read_text() for name in (*names, "theirs")} == {"theirs"}


def test_writers_of_one_short_file_wait_for_each_other_property(tmp_path):
    """Whole at every moment, and nobody is refused: each takes no time."""
    failed = []

    def write(letter):
        try:
            for _ in range(20):
                atomic_write(tmp_path / "out", letter * 10_000)
                assert len(set((tmp_path / "out").read_text())) == 1
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=write, args=(letter,)) for letter in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def enter(target):
    with alone(target):
        pytest.fail("it was entered")


def test_one_at_a_time(tmp_path, short_wait):
    target = tmp_path / "out"
    with alone(target):
        atomic_write(target, "mine")
        with pytest.raises(OutputError, match=r"/out: another process is writing it"):
            enter(target)
    with alone(target):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    with pytest.raises(OutputError, match="cannot be written"):
        enter(tmp_path / "none" / "out")


def test_a_file_system_without_locks_is_written_to(tmp_path, monkeypatch, short_wait):
    """What was left behind cannot be told from what is in use there, so it is named."""

    def no_locks(handle, how):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(files.fcntl, "flock", no_locks)
    atomic_write(tmp_path / "out", "x")
    with (
        atomic_writer(tmp_path / "out"),
        pytest.raises(OutputError, match="if there is none, remove"),
    ):
        atomic_write(tmp_path / "out", "y")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\0" * 40, "control characters"),
        (b"one two\0 three", "control characters"),
        (json.dumps({"kind": "canary set", "canaries": []}).encode(), "is a JSON document"),
        (b'["one", "two"]', "is a JSON document"),
    ],
)
def test_what_is_no_list_of_words_is_refused_input(tmp_path, content, message):
    file = tmp_path / "words.txt"
    file.write_bytes(content)
    with pytest.raises(InputError, match=message) as caught:
        read_words(file)
    assert caught.value.where == str(file)
    file.write_text("[one] {two} three\n")
    assert read_words(file) == ["[one]", "{two}", "three"]


def test_odd_names_are_shown_as_they_were_given_input(tmp_path, monkeypatch):
    assert clean(os.fsdecode(b"caf\xe9.json")) == r"caf\xe9.json"
    assert clean("half \ud83d") == r"half \ud83d"
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelError, match="^missing: there is no such file"):
        read_tokenizer("missing")
    with pytest.raises(ModelError, match="there is no tokenizer.json in it"):
        read_tokenizer(tmp_path)
