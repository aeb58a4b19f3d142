"""Files that are either whole or absent."""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from itertools import takewhile
from pathlib import Path
from typing import IO

from canary.errors import OutputError
from canary.records.overwrite_guard import check_replaceable
from canary.records.partial_files import begin_part

__all__ = [
    "atomic_write",
    "atomic_writer",
    "check_kind",
    "check_writable",
    "folder_made",
    "make_folder",
]

_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


@contextmanager
def atomic_writer(
    path: str | os.PathLike[str],
    *,
    private: bool = False,
    like: str | os.PathLike[str] | None = None,
    replaces: Collection[str] | None = None,
) -> Iterator[IO[bytes]]:
    """Open a binary file that appears under `path` only when the block ends well.

    The bytes go to a temporary file in the same folder, which is flushed to disk and
    renamed over `path`. When the block raises (Ctrl-C included) the temporary file is
    removed and whatever stood at `path` before stays as it was. After a kill it stays, and
    the next writer of `path` removes it.

    Only a file is replaced. Pipes and devices are refused, and so are symbolic links: one
    that was replaced would be lost, as ``/dev/stdout`` is to a careless root, and one that
    was followed would say where the secrets go.

    Parameters
    ----------
    path : path-like
        Where the file shall stand.
    private : bool
        Give the file owner-only permissions (it holds secrets).
    like : path-like, optional
        A file whose readers and writers may read and write this one too, whatever the
        umask says: it is made of that one's content.
    replaces : collection of str, optional
        Kinds of files whose place it may take; see `canary.records.overwrite_guard`. Unless given,
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
                _commit(file, part, target, bits)
            except BaseException:
                part.unlink(missing_ok=True)  # while it is locked
                raise
    except BaseException as error:
        if isinstance(error, OSError) and error.errno in _NO_ROOM:
            raise _unwritable(target, error) from error
        raise


def check_writable(
    path: str | os.PathLike[str], *, replaces: Collection[str] | None = None
) -> None:
    """Find out whether `atomic_writer` could begin to write `path`; nothing is left behind.

    For a result that is written behind another one, or after hours.

    Raises
    ------
    OutputError
        As `atomic_writer`.
    """
    handle, part = _begin(Path(path), replaces)
    part.unlink()
    os.close(handle)


def _begin(target: Path, replaces: Collection[str] | None) -> tuple[int, Path]:
    """A new temporary file beside `target`, which must be a file or absent."""
    check_kind(target, replaces)
    try:
        return begin_part(target)
    except OutputError:
        raise
    except (OSError, ValueError) as error:  # ValueError: a NUL, half a surrogate pair
        raise _unwritable(target, error) from error


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


def _permissions(*, private: bool, like: str | os.PathLike[str] | None) -> int:
    if private:
        return 0o600
    if like is None:
        return 0o666 & ~_umask()
    try:
        return 0o666 & Path(like).stat().st_mode
    except (OSError, ValueError):  # whoever reads it says what is wrong
        return 0o600


def _commit(file: IO[bytes], part: Path, target: Path, bits: int) -> None:
    try:
        file.flush()
        os.fsync(file.fileno())
        part.chmod(bits)
        part.replace(target)
    except OSError as error:
        raise _unwritable(target, error) from error


def atomic_write(
    path: str | os.PathLike[str],
    data: str | bytes,
    *,
    private: bool = False,
    replaces: Collection[str] | None = None,
) -> None:
    """Write `data` (text as UTF-8) to `path`, wholly or not at all.

    See `atomic_writer` for permissions, what is replaced, and errors.
    """
    with atomic_writer(path, private=private, replaces=replaces) as file:
        file.write(data.encode() if isinstance(data, str) else data)


def make_folder(path: str | os.PathLike[str]) -> Path:
    """Create the folder `path` and its parents, and check that it can be written to.

    Called before long work begins, so that a mistyped path costs seconds, not hours.
    """
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except (OSError, ValueError) as error:
        raise _unwritable(folder, error) from error
    return folder


@contextmanager
def folder_made(path: str | os.PathLike[str]) -> Iterator[Path]:
    """`make_folder` for a block of work.

    When the block raises, the folders that were made for it are removed again, as far as
    nothing is in them.
    """
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


def _unwritable(path: Path, error: OSError | ValueError) -> OutputError:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else error
    return OutputError(
        f"cannot be written ({reason})",
        cure="check that the folder exists, is yours and has room, or name another path",
        where=str(path),
    )


def _umask() -> int:
    # The umask can only be read by setting it.
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
