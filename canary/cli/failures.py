"""Errors as the command line tells them, and what is kept of one that nobody foresaw."""

from __future__ import annotations

import os
import platform
import re
import tempfile
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from canary import __version__
from canary.errors import CanaryError

__all__ = ["by_flags", "write_log"]

_OPTIONS = (
    "baseline",
    "canaries",
    "exposure_bits",
    "guesses",
    "max_epsilon",
    "max_exposure_bits",
    "max_p",
    "no_extraction",
    "repetitions",
    "verification",
)
"""Arguments in Python that errors name, and that are options of a command."""

_ARGUMENT = re.compile(rf"(?<![-\w.])({'|'.join(_OPTIONS)})(?![-\w])")


@contextmanager
def by_flags() -> Iterator[None]:
    """Have errors of the block name options of the command line, not arguments in Python."""
    try:
        yield
    except CanaryError as error:
        if error.where in _OPTIONS:
            error.where = _flag(error.where)
        # Of words that are English as well only their place is an option.
        error.cure = _ARGUMENT.sub(lambda m: _flag(m[1]) if "_" in m[1] else m[1], error.cure)
        raise


def _flag(argument: str) -> str:
    return f"--{argument.replace('_', '-')}"


def write_log(error: BaseException) -> Path | None:
    """Write the traceback to a file in the system's temporary folder, private to its owner.

    Returns
    -------
    Path or None
        The file; None if it could not be written.
    """
    lines = [
        f"canary {__version__}, Python {platform.python_version()}, {platform.platform()}\n",
        *traceback.format_exception(error),
    ]
    try:
        handle, name = tempfile.mkstemp(prefix="canary-", suffix=".log")
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.writelines(lines)
    except OSError:
        return None
    return Path(name)
