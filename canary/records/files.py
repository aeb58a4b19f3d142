"""Files that are either whole or absent, whatever happens while they are written.

An output is written to a hidden file beside it, ``.NAME.underway.part``, which only its owner
may read, and is renamed to its name in the end. The writer holds a lock that ends with its
process: so the next writer of the same output knows what a kill left behind, and removes it.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import tempfile
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from itertools import takewhile
from pathlib import Path
from typing import IO

from canary.errors import OutputError
from canary.records.overwrite_guard import check_replaceable

_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_SECONDS = 2.0  # that another writer may take; short files take none
_PAUSE = 0.01


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
    that was followed would say where the secrets go.

    Parameters
    ----------
    path : path-like
    private : bool
        Give the file owner-only permissions (it holds secrets).
    like : path-like, optional
        A file whose readers and writers may read and write this one too, whatever the
        umask says: it is made of that one's content.
    replaces : collection of str, optional
        Kinds of files that it may replace; see `canary.records.overwrite_guard`. Unless given,
        all but the documents of this program.

    Raises
    ------
    OutputError
        If `path` is something else than a file, or a file that may not be replaced, its folder
        does not exist or cannot be written to, the disk is full, or another process is writing
        `path`.
    """
    target = Path(path)
    bits = _permissions(private=private, like=like)
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
    handle, part = _begin(Path(path), replaces)
    part.unlink()
    os.close(handle)


@contextmanager
def alone(target: Path) -> Iterator[None]:
    """No other process writes `target`, and what goes with it, in this block.

    Raises
    ------
    OutputError
        If another process does, or the folder cannot be written to.
    """
    with _writable(target):
        handle, part = begin_part(target.with_name(f"{target.name}.and-more"))
    try:
        yield
    finally:
        part.unlink(missing_ok=True)
        os.close(handle)


def check_kind(target: Path, replaces: Collection[str] | None = None) -> None:
    """Refuse what `atomic_writer` does not replace, by an OutputError."""
    try:
        mode = target.lstat().st_mode
    except (OSError, ValueError):  # nothing there, or nothing that could be there
        return
    if stat.S_ISREG(mode):
        check_replaceable(target, replaces)
        return
    if target.is_dir():
        problem, cure = "is a folder, a file was expected", "name a file in it"
    elif stat.S_ISLNK(mode):
        problem, cure = "is a symbolic link, a file was expected", "name the file it leads to"
    else:
        problem, cure = "is a pipe, a device or a socket", "name a file on disk"
    raise OutputError(problem, cure=cure, where=str(target))


def make_folder(path: str | os.PathLike[str]) -> Path:
    """Create the folder `path` and its parents, and check that it can be written to.

    Called before long work begins, so that a mistyped path costs seconds, not hours.
    """
    folder = Path(path)
    with _writable(folder):
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    return folder


@contextmanager
def folder_made(path: str | os.PathLike[str]) -> Iterator[Path]:
    """`make_folder` for a block of work; empty folders that it made go if the block raises."""
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


def begin_part(target: Path) -> tuple[int, Path]:
    """Make the file for what is to become `target`, once no other process writes it.

    Unlink or rename the file before its handle is closed, which gives up the lock.
    """
    part = target.with_name(f".{target.name}.underway.part")
    until = time.monotonic() + _SECONDS
    while True:
        try:
            handle = os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except FileExistsError as error:
            if not _removed(part):
                if time.monotonic() > until:
                    raise OutputError(
                        "another process is writing it",
                        cure="wait until it has ended, or name another output (if there is none, "
                        f"remove {part})",
                        where=str(target).removesuffix(".and-more"),
                    ) from error
                time.sleep(_PAUSE)
            continue
        # Another writer may have taken it for left behind: that one has the lock, and removes it.
        if _locked(handle) is not False and _is_at(handle, part):
            return handle, part
        os.close(handle)


def _begin(target: Path, replaces: Collection[str] | None) -> tuple[int, Path]:
    check_kind(target, replaces)
    with _writable(target):
        return begin_part(target)


def _removed(part: Path) -> bool:
    """Remove a file that was left behind; False if it is in use, or may be, or is no file."""
    try:
        handle = os.open(part, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode) or not _locked(handle):
            return False
        if _is_at(handle, part):
            part.unlink()
        return True
    except OSError:
        return False
    finally:
        os.close(handle)


def _locked(handle: int) -> bool | None:
    """Whether it could be locked; None where the file system knows no locks."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _is_at(handle: int, path: Path) -> bool:
    """Whether an open file is still the one under a name."""
    try:
        return os.path.samestat(os.fstat(handle), path.lstat())
    except OSError:
        return False


def _permissions(*, private: bool, like: str | os.PathLike[str] | None) -> int:
    if private:
        return 0o600
    if like is None:
        mask = os.umask(0o077)  # it can only be read by setting it
        os.umask(mask)
        return 0o666 & ~mask
    try:
        return 0o666 & Path(like).stat().st_mode
    except (OSError, ValueError):  # whoever reads it says what is wrong
        return 0o600


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
