"""Files are whole or absent, whatever happens while they are written."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from canary.errors import OutputError, RecordError
from canary.records import files
from canary.records.files import (
    atomic_write,
    atomic_writer,
    check_writable,
    folder_made,
    make_folder,
)
from canary.records.versioned_json import load_document


@pytest.fixture
def umask():
    before = os.umask(0o027)
    yield 0o027
    os.umask(before)


def test_what_is_written_appears_whole_at_the_end(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    atomic_write("text", "before")
    atomic_write("text", "é\n")
    atomic_write("bytes", b"\x00\xff")
    with atomic_writer(tmp_path / "out") as file:
        file.write(b"all")
        file.flush()
        assert not (tmp_path / "out").exists()
    written = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert written == {"text": "é\n".encode(), "bytes": b"\x00\xff", "out": b"all"}


def test_permissions(tmp_path, umask):
    atomic_write(tmp_path / "public", "x")
    atomic_write(tmp_path / "private", "x", private=True)
    assert stat.S_IMODE((tmp_path / "public").stat().st_mode) == 0o640
    assert stat.S_IMODE((tmp_path / "private").stat().st_mode) == 0o600
    # A secret never stands in a file that others can read, not even while it is written.
    with atomic_writer(tmp_path / "public"):
        (part,) = tmp_path.glob(".public.*.part")
        assert stat.S_IMODE(part.stat().st_mode) == 0o600


@pytest.mark.parametrize("bits", [0o400, 0o644, 0o4777])
def test_permissions_like_those_of_another_file(tmp_path, umask, bits):
    source = tmp_path / "source"
    source.write_text("x")
    source.chmod(bits)
    with atomic_writer(tmp_path / "made", like=source) as file:
        file.write(b"y")
        source.chmod(0o777)  # too late
    assert stat.S_IMODE((tmp_path / "made").stat().st_mode) == bits & 0o666
    with atomic_writer(tmp_path / "private", like=source, private=True):
        pass
    assert stat.S_IMODE((tmp_path / "private").stat().st_mode) == 0o600
    with atomic_writer(tmp_path / "orphan", like=tmp_path / "none"):
        pass
    assert stat.S_IMODE((tmp_path / "orphan").stat().st_mode) == 0o600


@pytest.mark.parametrize("raised", [KeyboardInterrupt, OSError])
def test_what_stood_there_stays_when_writing_fails(tmp_path, raised):
    target = tmp_path / "out"
    target.write_text("before")

    def write():
        with atomic_writer(target) as file:
            file.write(b"half")
            raise raised

    with pytest.raises(raised):
        write()
    assert target.read_text() == "before"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize(("number", "step"), [(errno.ENOSPC, "write"), (errno.EFBIG, "flush")])
def test_a_disk_that_fills(tmp_path, monkeypatch, number, step):
    def full(*args):
        raise OSError(number, os.strerror(number))

    target = tmp_path / "out"
    if step == "flush":
        monkeypatch.setattr(files.os, "fsync", full)

    def write():
        with atomic_writer(target) as file:
            file.write(b"half")
            if step == "write":
                full()

    with pytest.raises(OutputError, match="has room") as caught:
        write()
    assert caught.value.where == str(target)
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs the device /dev/full")  # noqa: PTH110
def test_a_device_that_is_really_full(tmp_path, monkeypatch):
    def on_full(target):
        return os.open("/dev/full", os.O_WRONLY), tmp_path / "part"

    monkeypatch.setattr(files, "begin_part", on_full)
    with pytest.raises(OutputError, match="No space left"):
        atomic_write(tmp_path / "out", "x")


def test_targets_that_cannot_be(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="is a folder, a file was expected"):
        atomic_write(tmp_path, "x")
    for name in ("missing/out", "file/out", "x" * 300):
        with pytest.raises(OutputError, match="cannot be written") as caught:
            atomic_write(tmp_path / name, "x")
        assert caught.value.where == str(tmp_path / name)
        assert caught.value.cure


@pytest.mark.parametrize("name", ["pipe", "link to pipe", "link to file", "dangling", "device"])
def test_only_files_are_replaced(tmp_path, name):
    file, pipe, target = tmp_path / "file", tmp_path / "pipe", tmp_path / "target"
    file.write_text("before")
    os.mkfifo(pipe)
    match name:
        case "pipe":
            target = pipe
        case "link to pipe":
            target.symlink_to(pipe)
        case "link to file":
            target.symlink_to(file)
        case "dangling":
            target.symlink_to(tmp_path / "nothing")
        case "device":
            target = Path(os.devnull)
    before = target.lstat()
    for write in (check_writable, lambda path: atomic_write(path, "x")):
        with pytest.raises(OutputError, match="pipe, a device|symbolic link") as caught:
            write(target)
        assert caught.value.where == str(target)
        assert caught.value.cure
    after = target.lstat()
    assert (after.st_ino, after.st_mode) == (before.st_ino, before.st_mode)
    assert file.read_text() == "before"


@pytest.mark.parametrize("name", ["a\0b", "\ud800"])
def test_names_that_no_file_can_have(tmp_path, name):
    for write in (check_writable, make_folder, lambda path: atomic_write(path, "x")):
        with pytest.raises(OutputError, match="cannot be written"):
            write(tmp_path / name)
    with pytest.raises(RecordError, match="cannot be read"):
        load_document(tmp_path / name, "some kind", 1)


def test_check_leaves_everything_as_it_was(tmp_path):
    (tmp_path / "file").write_text("before")
    for name in ("file", "other"):
        check_writable(tmp_path / name)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"file": "before"}


def test_folders_made_for_nothing_are_removed_again(tmp_path):
    def fail(path, *, leave=()):
        with folder_made(path) as folder:
            for name in leave:
                (folder / name).write_text("")
            raise KeyError

    with pytest.raises(KeyError):
        fail(tmp_path / "a" / "b")
    assert not list(tmp_path.iterdir())
    with pytest.raises(OutputError, match="cannot be written"):
        fail(tmp_path / "a" / ("x" * 300))
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
    assert folder.is_dir()


def test_folders_are_made_and_tried(tmp_path):
    assert make_folder(tmp_path / "a" / "b") == tmp_path / "a" / "b"
    assert make_folder(tmp_path / "a" / "b").is_dir()
    assert not list((tmp_path / "a" / "b").iterdir())
    (tmp_path / "file").write_text("")
    for name in ("file", "file/folder"):
        with pytest.raises(OutputError, match="cannot be written"):
            make_folder(tmp_path / name)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_folders_of_others(tmp_path):
    (tmp_path / "locked").mkdir(mode=0o500)
    with pytest.raises(OutputError, match="Permission denied"):
        atomic_write(tmp_path / "locked" / "out", "x")
    with pytest.raises(OutputError, match="Permission denied"):
        make_folder(tmp_path / "locked")
