"""Files that are either whole or absent, and that replace nothing else.

An output is written to a hidden file beside it, ``.NAME.underway.part``, which only its owner
may read, and is renamed to its name in the end. The writer holds a lock that ends with its
process: so the next writer of the same output knows what a kill left behind, and removes it.

What a file holds is seen by its first bytes. A writer says which kinds of files it may replace
(`replaces`). A file of another kind is refused, and a document of this program always is: an
audit never replaces a canary set.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat
import tempfile
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from itertools import takewhile
from pathlib import Path
from typing import IO

from canary.errors import OutputError
from canary.records.addresses import Remote, beside

JSON_LINES, PARQUET, COMPRESSED = "JSON Lines", "Parquet", "compressed text"
WEIGHTS, MODEL_PART = "weights of a model", "part of a model"
JUNIT, MARKDOWN, ANNEX = "JUnit XML", "the Markdown of a verdict", "an annex in Markdown"

CORPORA = (JSON_LINES, PARQUET, COMPRESSED)
"""What a corpus may replace."""
PAGES = ("an HTML page",)
"""What an HTML page may replace."""
FIGURES = ("a figure",)
"""What a figure may replace."""

_HEAD = 4096
_DOCUMENT = re.compile(rb'\s*\{\s*"kind"\s*:\s*"(canary [a-z ]{1,40})"')
_BEGINS = (
    (rb"PAR1", PARQUET),
    (rb"PK\x03\x04|\x93NUMPY", "NumPy arrays"),
    (rb"\x1f\x8b|\x28\xb5\x2f\xfd|BZh|\xfd7zXZ", COMPRESSED),
    (rb"\x89PNG|%PDF|(?s:<\?xml.{0,300}<(!DOCTYPE )?svg)", *FIGURES),
    (rb"(?s:(<\?xml.{0,100})?<testsuites?\b)", JUNIT),
    (rb"## canary: ", MARKDOWN),
    (rb"<!-- canary: annex -->", ANNEX),
    (rb"\s*<!(?i:doctype html)", *PAGES),
    (rb'(?s:.{6}\0\0\{")', WEIGHTS),  # the length of a header, which is JSON
    (rb"\s*\{[^\n]*\}\s*\n\s*\{", JSON_LINES),
)
_OF_A_MODEL = ("config.json", "tokenizer.json", "tokenizer_config.json", "merges.txt", "vocab.json")

_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_SECONDS = 2.0  # that another writer may take; short files take none
_PAUSE = 0.01


def kind_there(path: str | os.PathLike[str]) -> str | None:
    """What a file holds: of a document of this program its kind, such as "canary set".

    None if it is empty or not there, or holds nothing that is known.
    """
    place = path if isinstance(path, Path) else Path(path)
    try:
        if not stat.S_ISREG(place.stat().st_mode):
            return None
        with place.open("rb") as file:
            head = file.read(_HEAD)
    except (OSError, ValueError):
        return None
    if document := _DOCUMENT.match(head):
        return document[1].decode()
    if head and place.name in _OF_A_MODEL:
        return MODEL_PART
    if head.startswith(b"{") and place.suffix in (".jsonl", ".ndjson"):
        return JSON_LINES
    return next((kind for begins, kind in _BEGINS if re.match(begins, head)), None)


def check_replaceable(path: str | os.PathLike[str], replaces: Collection[str] | None) -> None:
    """Refuse by an OutputError to write over what is no file, or of none of the kinds `replaces`.

    Without kinds, all but the documents of this program may be replaced.
    """
    target = path if isinstance(path, Path) else Path(path)
    try:
        mode = target.lstat().st_mode
    except (OSError, ValueError):  # nothing there, or nothing that could be there
        return
    problem = cure = ""
    if stat.S_ISREG(mode):
        kind = kind_there(target)
        if kind is not None and kind not in (replaces or ()):
            ours = kind.startswith("canary ")
            if ours or replaces is not None:
                what = f"a {kind}" if ours else kind
                problem = f"holds {what}, which nothing else is written over"
                cure = "name another file, or remove this one yourself if you need it no more"
    elif target.is_dir():
        problem, cure = "is a folder, a file was expected", "name a file in it"
    elif stat.S_ISLNK(mode):
        problem, cure = "is a symbolic link, a file was expected", "name the file it leads to"
    else:
        problem, cure = "is a pipe, a device or a socket", "name a file on disk"
    if problem:
        raise OutputError(problem, cure=cure, where=str(target))


@contextmanager
def atomic_writer(
    path: str | os.PathLike[str],
    *,
    private: bool = False,
    like: str | os.PathLike[str] | None = None,
    replaces: Collection[str] | None = None,
) -> Iterator[IO[bytes]]:
    """Open a binary file that appears under `path` only when the block ends well.

    When the block raises (Ctrl-C included), what was at `path` before stays as it was. Pipes,
    devices and symbolic links are refused: a link that was replaced would be lost, and one
    that was followed would say where the secrets go. A `Remote` is written here, and copied to
    its address in the end.

    Parameters
    ----------
    private : bool
        Give the file owner-only permissions (it holds secrets).
    like : path-like, optional
        A file whose readers and writers may read and write this one too.
    replaces : collection of str, optional
        Kinds of files that it may replace; all but the documents of this program unless given.

    Raises
    ------
    OutputError
        If `path` is something else than a file, or a file that may not be replaced, its folder
        does not exist or cannot be written to, the disk is full, or another process is writing
        `path`.
    """
    if isinstance(path, Remote):
        check_replaceable(path, replaces)
        with path.writer() as out:
            yield out
        return
    target = Path(path)
    bits = 0o600
    if not private and like is not None and not isinstance(like, Remote):
        with suppress(OSError, ValueError):  # whoever reads the other file says what is wrong
            bits = 0o666 & Path(like).stat().st_mode
    elif not private:
        mask = os.umask(0o077)  # it can only be read by setting it
        os.umask(mask)
        bits = 0o666 & ~mask
    handle, part = _begin(target, replaces)
    try:
        with os.fdopen(handle, "wb") as file:
            try:
                yield file
                with _writable(target):
                    file.flush()
                    os.fsync(file.fileno())
                    part.chmod(bits)
                    part.replace(target)
            except BaseException:
                part.unlink(missing_ok=True)  # while it is locked
                raise
    except OSError as error:
        if error.errno not in _NO_ROOM:
            raise
        with _writable(target):
            raise


def atomic_write(
    path: str | os.PathLike[str],
    data: str | bytes,
    *,
    private: bool = False,
    replaces: Collection[str] | None = None,
) -> None:
    """Write `data` (text as UTF-8) to `path`, wholly or not at all; see `atomic_writer`."""
    with atomic_writer(path, private=private, replaces=replaces) as file:
        file.write(data.encode() if isinstance(data, str) else data)


def check_writable(
    path: str | os.PathLike[str], *, replaces: Collection[str] | None = None
) -> None:
    """Find out before long work whether `atomic_writer` could begin, by an OutputError if not."""
    if isinstance(path, Remote):
        check_replaceable(path, replaces)
        path.check_writable()
        return
    handle, part = _begin(Path(path), replaces)
    part.unlink()
    os.close(handle)


@contextmanager
def alone(target: Path) -> Iterator[None]:
    """No other process writes `target`, and what goes with it, in this block.

    An OutputError if another process does, or the folder cannot be written to.
    """
    with _writable(target):
        handle, part = begin_part(beside(target, ".and-more"))
    try:
        yield
    finally:
        part.unlink(missing_ok=True)
        os.close(handle)


def make_folder(path: str | os.PathLike[str]) -> Path:
    """Create the folder `path` and its parents, and check that it can be written to.

    Called before long work begins, so that a mistyped path costs seconds, not hours.
    """
    if isinstance(path, Remote):
        path.check_writable(folder=True)
        return path
    folder = Path(path)
    with _writable(folder):
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    return folder


@contextmanager
def folder_made(path: str | os.PathLike[str]) -> Iterator[Path]:
    """`make_folder` for a block of work; empty folders that it made go if the block raises."""
    if isinstance(path, Remote):
        yield make_folder(path)
        return
    folder = Path(path)
    chain = (folder, *folder.parents)  # the innermost first
    missing = list(takewhile(lambda place: not os.path.exists(place), chain))  # noqa: PTH110
    try:
        yield make_folder(folder)
    except BaseException:
        for place in missing:
            with suppress(OSError, ValueError):
                place.rmdir()
        raise


def _begin(target: Path, replaces: Collection[str] | None) -> tuple[int, Path]:
    check_replaceable(target, replaces)
    with _writable(target):
        return begin_part(target)


def begin_part(target: Path) -> tuple[int, Path]:
    """Make the file for what is to become `target`, once no other process writes it.

    Unlink or rename the file before its handle is closed, which gives up the lock.
    """
    part = target.with_name(f".{target.name}.underway.part")
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    until = time.monotonic() + _SECONDS
    while True:
        try:
            handle, fresh = os.open(part, flags | os.O_CREAT | os.O_EXCL, 0o600), True
        except FileExistsError:
            try:
                handle, fresh = os.open(part, flags), False
            except FileNotFoundError:
                continue
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            ours = stat.S_ISREG(os.fstat(handle).st_mode)
        except BlockingIOError:
            ours = False
        except OSError:  # the file system knows no locks
            ours = fresh
        with suppress(FileNotFoundError):
            # Another writer may have taken it for left behind, and removed it.
            if ours and os.path.samestat(os.fstat(handle), part.lstat()):
                if fresh:
                    return handle, part
                part.unlink()  # left behind by a kill
        os.close(handle)
        if not ours and time.monotonic() > until:
            raise OutputError(
                "another process is writing it",
                cure="wait until it has ended, or name another output (if there is none, "
                f"remove {part})",
                where=str(target).removesuffix(".and-more"),
            )
        time.sleep(0 if ours else _PAUSE)


@contextmanager
def _writable(path: Path) -> Iterator[None]:
    """Errors of the system become one that names the path and a cure."""
    try:
        yield
    except OutputError:
        raise
    except (OSError, ValueError) as error:  # ValueError: a NUL, half a surrogate pair
        reason = getattr(error, "strerror", None) or error
        raise OutputError(
            f"cannot be written ({reason})",
            cure="check that the folder exists, is yours and has room, or name another path",
            where=str(path),
        ) from error
