"""What is kept of an error that nobody foresaw."""

from __future__ import annotations

import os
import platform
import tempfile
import traceback
from pathlib import Path

from canary import __version__

__all__ = ["write_log"]


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
