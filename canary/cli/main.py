"""The entry point: runs one command, and says what becomes of errors and signals.

Exit codes: 0 done; 1 and 3 are verdicts (memorized, undecided), and 3 is no answer of
`forgotten`; 2 the input or the command line cannot be used; 70 an error that nobody foresaw;
129, 130, 143 stopped by SIGHUP, Ctrl-C, SIGTERM; 141 the reader of the output closed it. Words
that stderr cannot take, on a full disk say, are lost; the exit code is the same without them.
A result that stdout cannot take ends with 2.
"""

from __future__ import annotations

import atexit
import errno
import gc
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

# What takes time to import is imported in `run`, where Ctrl-C is understood already.
from canary.cli.standard_streams import drop, flush_stdout, tell

USAGE, UNFORESEEN, PIPE_CLOSED = 2, 70, 141

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_SIGNALS = (signal.SIGTERM, signal.SIGHUP)
_LONGEST = 1_000
_MESSAGE_END = 300


_PLAIN = {
    "Value error, ": "",
    "Input should be a valid integer, unable to parse string as an integer": "give one whole "
    "number, such as 64",
    "Input should be a valid number, unable to parse string as a number": "give one number, such "
    "as 0.5",
}
"""What typer and pydantic say of a value, in other words."""


class _Stopped(BaseException):
    """A signal asks the process to end; everything is cleaned up as after Ctrl-C."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def run(argv: Sequence[str] | None = None) -> int:
    """Run one command and give its exit code; the console entry point.

    `argv` are the arguments after the command's name; those of the process unless given.
    """
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    arguments = list(sys.argv[1:] if argv is None else argv) or ["--help"]
    if argv is None:
        atexit.register(gc.freeze)  # or Python looks through all of torch before it ends: a second
    try:
        try:
            with _signals_stop():
                return _outcome(arguments)
        except _Stopped as stop:
            return _stopped(stop.number)
        except KeyboardInterrupt:
            return _stopped(signal.SIGINT)
    except BrokenPipeError:
        pass
    except SystemExit as stop:
        # So typer and rich leave when nobody reads any more; nothing else has cause to.
        if not isinstance(stop.__context__, BrokenPipeError):
            return _unforeseen(stop)
    drop(1, 2)  # stdout and stderr
    return PIPE_CLOSED


def _outcome(arguments: list[str]) -> int:
    """Run one command; print what it raises."""
    import typer
    from typer.main import get_command

    from canary.cli.commands import app
    from canary.errors import CanaryError

    try:
        code = int(
            get_command(app).main(args=arguments, prog_name="canary", standalone_mode=False) or 0
        )
    except CanaryError as error:
        _error(str(error))
        return USAGE
    except typer.TyperException as error:
        context = getattr(error, "ctx", None)
        _error(_misused(error, context))
        for line in (getattr(context and context.command, "epilog", "") or "").splitlines()[2:3]:
            tell(f"Example: {line}\n")
        tell(f"Try: {context.command_path if context else 'canary'} --help\n")
        return USAGE
    except (SystemExit, KeyboardInterrupt, BrokenPipeError, _Stopped):
        raise
    except OSError as error:
        flush_stdout()
        if error.errno not in _NO_ROOM:
            return _unforeseen(error)
        _error(f"stdout or a file of a library cannot be written ({error.strerror}); make room")
        return USAGE
    except typer.Abort as error:  # what typer makes of an EOFError
        return _unforeseen(error.__cause__ or error)
    except BaseException as error:  # a panic in Rust is no Exception
        return _unforeseen(error)
    if code == 128 + signal.SIGINT:  # what typer makes of Ctrl-C
        raise KeyboardInterrupt
    return code


def _misused(error: Any, context: Any) -> str:
    """What is wrong with a command line; of an unknown option, those that are near."""
    if not hasattr(error, "possibilities"):
        told = str(error.format_message())
        for words, plain in _PLAIN.items():
            told = told.replace(words, plain)
        extra = " (an option takes one value: repeat it for each, or give a folder where it may be)"
        return told.removesuffix(".") + extra if "unexpected extra argument" in told else told
    from canary.registry import near_names

    flags = {flag.lstrip("-"): flag for param in context.command.params for flag in param.opts}
    if not flags.get(name := error.option_name.lstrip("-"), "-").startswith("-"):
        return f"{error.message}; {name.upper()} is given by its place, without a name"
    near = near_names(name, flags)
    meant = f"; did you mean {' or '.join(flags[name] for name in near)}?" if near else ""
    return f"{error.message}{meant}"


@contextmanager
def _signals_stop() -> Iterator[None]:
    """Let signals that would end the process at once unwind it, unless they are ignored."""
    if threading.current_thread() is not threading.main_thread():
        yield  # no other thread can hear them
        return

    def stop(number: int, _frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_IGN)  # a second one shall not disturb the cleaning up
        raise _Stopped(number)

    heard = [number for number in _SIGNALS if signal.getsignal(number) is signal.SIG_DFL]
    for number in heard:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number in heard:
            signal.signal(number, signal.SIG_DFL)


def _stopped(number: int) -> int:
    tell("stopped; no file was left half-written\n")
    return 128 + number


def _error(message: str) -> None:
    from canary.cli.console import say

    if len(message) > _LONGEST:  # what was given is somewhere in it; the cure stands last
        message = f"{message[: _LONGEST - _MESSAGE_END]} … {message[-_MESSAGE_END:]}"
    say(f"error: {message}")


def _unforeseen(error: BaseException) -> int:
    """Say that there is a log: the traceback in a temporary file, private to its owner."""
    import platform
    import tempfile
    import traceback

    from canary import __version__

    lines = [
        f"canary {__version__}, Python {platform.python_version()}, {platform.platform()}\n",
        *traceback.format_exception(error),
    ]
    try:
        handle, log = tempfile.mkstemp(prefix="canary-", suffix=".log")
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.writelines(lines)
        place = f"its log is {log}"
    except OSError:
        place = "and its log could not be written"
    # Not its message: that may hold anything, a secret included.
    _error(f"unforeseen {type(error).__name__}, {place}")
    return UNFORESEEN
