"""What a killed writer leaves is removed by the next one; what a living one writes is not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import pytest

from canary.errors import OutputError
from canary.records import files as parts
from canary.records.files import alone, atomic_write, atomic_writer, check_writable

WRITE_AND_WAIT = """
import os, sys, time
from canary.records.files import atomic_writer
with atomic_writer(sys.argv[1], private=True) as file:
    file.write(b"my pin is 1234")
    file.flush()
    print("written", flush=True)
    time.sleep(600)
"""


def writing(target):
    """A process that has written half of an output."""
    process = subprocess.Popen(
        [sys.executable, "-c", WRITE_AND_WAIT, str(target)], stdout=subprocess.PIPE
    )
    assert process.stdout.readline() == b"written\n"
    return process


def ended(process):
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()


@pytest.mark.parametrize("again", [lambda path: atomic_write(path, "whole"), check_writable])
def test_what_a_kill_leaves_is_removed_by_the_next_writer(tmp_path, again):
    target = tmp_path / "corpus.jsonl"
    ended(writing(target))
    (left,) = tmp_path.iterdir()
    assert left.read_bytes() == b"my pin is 1234"
    assert left.stat().st_mode & 0o777 == 0o600
    again(target)
    assert not left.exists()
    assert all(b"1234" not in path.read_bytes() for path in tmp_path.iterdir())


def test_what_a_living_process_writes_is_left_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(parts, "_SECONDS", 0.1)
    target = tmp_path / "corpus.jsonl"
    process = writing(target)
    try:
        (part,) = tmp_path.iterdir()
        with pytest.raises(OutputError, match=r"corpus.jsonl: another process is writing it; wait"):
            atomic_write(target, "whole")
        assert part.read_bytes() == b"my pin is 1234"
        atomic_write(tmp_path / "other.jsonl", "whole")
    finally:
        ended(process)
    atomic_write(target, "whole")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["corpus.jsonl", "other.jsonl"]


@pytest.mark.parametrize("kind", ["link", "folder", "pipe"])
def test_what_is_no_file_of_ours_is_left_alone(tmp_path, monkeypatch, kind):
    monkeypatch.setattr(parts, "_SECONDS", 0.1)
    part, theirs = tmp_path / ".out.underway.part", tmp_path / "theirs"
    theirs.write_text("theirs")
    {
        "link": lambda: part.symlink_to(theirs),
        "folder": part.mkdir,
        "pipe": lambda: os.mkfifo(part),
    }[kind]()
    with pytest.raises(OutputError, match=r"\.out\.underway\.part|cannot be written"):
        atomic_write(tmp_path / "out", "x")
    assert theirs.read_text() == "theirs"
    assert os.path.lexists(part)


def test_files_of_like_names_are_left_alone(tmp_path):
    names = [".out.abcdefgh.part", ".out.part", "out.underway.part", ".out2.underway.part"]
    for name in names:
        (tmp_path / name).write_text("theirs")
    atomic_write(tmp_path / "out", "x")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["out", *names])


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


def test_one_at_a_time(tmp_path, monkeypatch):
    monkeypatch.setattr(parts, "_SECONDS", 0.05)
    target = tmp_path / "out"
    with alone(target):
        atomic_write(target, "mine")
        with (
            pytest.raises(OutputError, match=r"/out: another process is writing it"),
            alone(target),
        ):
            pytest.fail("it was entered")
    with alone(target):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    with pytest.raises(OutputError, match="cannot be written"), alone(tmp_path / "none" / "out"):
        pytest.fail("it was entered")


def test_a_file_system_without_locks_is_written_to(tmp_path, monkeypatch):
    """What was left behind cannot be told from what is in use there, so it is named."""

    def no_locks(handle, how):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(parts.fcntl, "flock", no_locks)
    monkeypatch.setattr(parts, "_SECONDS", 0.05)
    atomic_write(tmp_path / "out", "x")
    with (
        atomic_writer(tmp_path / "out"),
        pytest.raises(OutputError, match="if there is none, remove"),
    ):
        atomic_write(tmp_path / "out", "y")
