"""The file in which an output is written until it is whole.

Each output has one, hidden beside it and under a name of its own: ``.NAME.underway.part``.
It may hold secrets. Its writer holds a lock on it that ends with the process, however that
ends, so the next writer of the same output knows a file that was left behind, and removes it.
"""

from __future__ import annotations

import fcntl
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from canary.errors import OutputError

__all__ = ["alone", "begin_part"]

_SECONDS = 2.0  # that another writer may take; short files take none
_PAUSE = 0.01


def begin_part(target: Path) -> tuple[int, Path]:
    """Make the file for what is to become `target`, for the owner only.

    Returns
    -------
    int, Path
        A handle, whose closing gives up the lock; unlink or rename the file before that.

    Raises
    ------
    OutputError
        If another process goes on writing the same output.
    OSError, ValueError
        If it cannot be made.
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
                        where=str(target),
                    ) from error
                time.sleep(_PAUSE)
            continue
        # Whoever took it for left behind has the lock for a moment, and then it is gone.
        if _locked(handle) is not False and _is_at(handle, part):
            return handle, part
        os.close(handle)


@contextmanager
def alone(target: Path) -> Iterator[None]:
    """No other process writes `target`, and what goes with it, in this block.

    Raises
    ------
    OutputError
        If another process does, or the folder cannot be written to.
    """
    try:
        handle, part = begin_part(target.with_name(f"{target.name}.and-more"))
    except OutputError as error:
        error.where = str(target)
        raise
    except (OSError, ValueError) as error:
        raise OutputError(
            f"cannot be written ({getattr(error, 'strerror', None) or error})",
            cure="check that the folder exists and is yours, or name another path",
            where=str(target),
        ) from error
    try:
        yield
    finally:
        part.unlink(missing_ok=True)
        os.close(handle)


def _removed(part: Path) -> bool:
    """Remove a file that was left behind; False if it is in use, or may be, or is no file."""
    try:
        handle = os.open(part, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    try:
        ours = stat.S_ISREG(os.fstat(handle).st_mode)
        if not ours or not _locked(handle):
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
    """Whether an open file is still what stands under a name."""
    try:
        return os.path.samestat(os.fstat(handle), path.lstat())
    except OSError:
        return False
