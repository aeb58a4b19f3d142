"""Errors as the command line tells them, and what is kept of one that nobody foresaw."""

from __future__ import annotations

import os
import platform
import re
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import get_type_hints

from canary import __version__
from canary.errors import CanaryError

_LED = re.compile(r"(?:[a-z ]+: )?((?:each of )?)(\w+)(?= must be )")
"""How `canary.records.validation` begins a message: with an argument in Python."""

_CALLED_OTHERWISE = {
    "alphas": "--alphas",
    "attack_epsilon": "--coin-flips",
    "correct_guesses": "--guesses",
    "epsilon_lower_bound": "--delta",
    "labels": "--label",
    "survey": "--coin-flips",
    "test_losses": "--test-loss",
    "tpr_at_fpr": "--fpr",
}
"""Options by places of errors that are called by no argument of their command."""


@contextmanager
def by_flags(command: Callable[..., None]) -> Iterator[None]:
    """Have errors of the block name options of a command, not arguments in Python."""
    try:
        yield
    except CanaryError as error:
        options = _options(command)
        flags = {name: flag for name, flag in options.items() if flag == _flag(name)}
        place = error.where.rpartition(": ")[2]  # "plan: repetitions"
        option = _CALLED_OTHERWISE.get(place, "")
        error.where = flags.get(place, option if option in options.values() else error.where)
        # Of words that are English as well only their place is an option.
        named = [name for name in flags if "_" in name]
        led = _LED.match(error.problem)
        if led and (flag := flags.get(led[2])):
            error.problem = f"{led[1]}{flag}{error.problem[led.end() :]}"
        if named:
            # "file_format (--file-format)" names the option already.
            argument = re.compile(rf"(?<![-\w.])({'|'.join(named)})(?![-\w])(?: \(--[-a-z]+\))?")
            error.problem = argument.sub(lambda m: flags[m[1]], error.problem)
            error.cure = argument.sub(lambda m: flags[m[1]], error.cure)
        error.args = (error.problem,)
        raise


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _options(command: Callable[..., None]) -> dict[str, str]:
    """The options of a command by its arguments."""
    found = {}
    for name, kind in get_type_hints(command, include_extras=True).items():
        for option in getattr(kind, "__metadata__", ()):
            # Within Annotated, typer takes the first name of an option for its default.
            names = (
                getattr(option, "default", None),
                *(getattr(option, "param_decls", None) or ()),
            )
            flag = next((name for name in names if isinstance(name, str)), "").partition("/")[0]
            if flag.startswith("--"):
                found[name] = flag
    return found


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
