"""Files that are either whole or absent."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from canary.errors import OutputError

__all__ = ["atomic_write", "atomic_writer", "make_folder"]

_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


@contextmanager
def atomic_writer(path: str | os.PathLike[str], *, private: bool = False) -> Iterator[IO[bytes]]:
    """Open a binary file that appears under `path` only when the block ends well.

    The bytes go to a temporary file in the same folder, which is flushed to disk and
    renamed over `path`. When the block raises (Ctrl-C included) the temporary file is
    removed and whatever stood at `path` before stays as it was.

    Parameters
    ----------
    path : path-like
        Where the file shall stand.
    private : bool
        Give the file owner-only permissions (it holds secrets).

    Raises
    ------
    OutputError
        If the folder does not exist or cannot be written to, or the disk is full.
    """
    target = Path(path)
    if _is_folder(target):
        raise OutputError(
            "is a folder, a file was expected", cure="name a file in it", where=str(target)
        )
    try:
        handle, name = tempfile.mkstemp(
            prefix=f".{target.name}.", suffix=".part", dir=target.parent
        )
    except OSError as error:
        raise _unwritable(target, error) from error
    part = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            _commit(file, part, target, private=private)
    except BaseException as error:
        part.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno in _NO_ROOM:
            raise _unwritable(target, error) from error
        raise


def _commit(file: IO[bytes], part: Path, target: Path, *, private: bool) -> None:
    try:
        file.flush()
        os.fsync(file.fileno())
        part.chmod(0o600 if private else 0o666 & ~_umask())
        part.replace(target)
    except OSError as error:
        raise _unwritable(target, error) from error


def atomic_write(path: str | os.PathLike[str], data: str | bytes, *, private: bool = False) -> None:
    """Write `data` (text as UTF-8) to `path`, wholly or not at all.

    See `atomic_writer` for permissions and errors.
    """
    with atomic_writer(path, private=private) as file:
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
    except OSError as error:
        raise _unwritable(folder, error) from error
    return folder


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:  # a name too long, a parent that may not be searched
        return False


def _unwritable(path: Path, error: OSError) -> OutputError:
    return OutputError(
        f"cannot be written ({error.strerror or error})",
        cure="check that the folder exists, is yours and has room, or name another path",
        where=str(path),
    )


def _umask() -> int:
    # The umask can only be read by setting it.
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
