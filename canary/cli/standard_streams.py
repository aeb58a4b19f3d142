"""The two streams: results on stdout; progress and errors on stderr."""

from __future__ import annotations

import ctypes
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from typing import TextIO

from canary.errors import OutputError

STDOUT, STDERR = 1, 2


@dataclass(frozen=True)
class _Stdout:
    """What stdout was: the stream, and a copy of its descriptor if that now is stderr's."""

    stream: TextIO | None
    copy: int | None = None
    as_json: bool = False

    @classmethod
    def diverted(cls, as_json: bool) -> _Stdout:
        stream = sys.stdout
        if _descriptor(stream) != STDOUT or _descriptor(sys.stderr) != STDERR:
            return cls(stream, as_json=as_json)
        stream.flush()
        copy = os.dup(STDOUT)
        os.dup2(STDERR, STDOUT)
        return cls(stream, copy, as_json)

    @property
    def closed(self) -> bool:
        return self.copy is None and (self.stream is None or self.stream.closed)

    def write(self, text: str) -> None:
        if self.stream is None or self.closed:
            raise OSError("it is closed")
        encoding = self.stream.encoding or "utf-8"
        rest = text.encode(encoding, "backslashreplace")
        if self.copy is None:
            self.stream.write(rest.decode(encoding))
            self.stream.flush()
            return
        while rest:
            rest = rest[os.write(self.copy, rest) :]

    def restore(self) -> None:
        if self.copy is None:
            return
        # What was printed, but is still in a buffer, would come after the result.
        with suppress(OSError):
            sys.__stdout__.flush()  # type: ignore[union-attr]
        ctypes.CDLL(None).fflush(None)
        os.dup2(self.copy, STDOUT)
        os.close(self.copy)


_diverted: list[_Stdout] = []


@contextmanager
def results_alone(*, as_json: bool) -> Iterator[None]:
    """Let only results reach stdout; all else that is printed goes to stderr.

    It holds for user code, for libraries that are no Python, and for child processes. With
    `as_json`, what `write_words` is given goes to stderr as well.
    """
    stdout = _Stdout.diverted(as_json)
    _diverted.append(stdout)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        _diverted.pop()
        stdout.restore()


@contextmanager
def nothing_said() -> Iterator[None]:
    """Let nothing of the block reach either stream; errors do, when they are raised."""
    words = io.StringIO()
    _diverted.append(_Stdout(words))
    try:
        with redirect_stdout(words), redirect_stderr(words):
            yield
    finally:
        _diverted.pop()


def check_stdout() -> None:
    """Refuse a closed stdout before the work whose result would go there, by an OutputError.

    Whether the disk behind it is full shows only when it is written to.
    """
    if _stdout().closed:
        raise OutputError(
            "is closed, and the result goes there", cure="send it to a file", where="stdout"
        )


def write_words(text: str) -> None:
    """Write a result in words: to stdout, or to stderr where the result is a JSON document."""
    (tell if _stdout().as_json else write_result)(text)


def write_result(text: str) -> None:
    """Write text to stdout at once; an OutputError if it cannot take it.

    Characters that its encoding has not are written as Python escapes.
    """
    try:
        _stdout().write(text)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputError(
            f"cannot be written ({error.strerror or error})",
            cure="send it to a disk that is not full",
            where="stdout",
        ) from error


def tell(text: str) -> None:
    """Write words to stderr.

    Where they cannot be written, on a full disk say, they are lost, and so is all that
    follows: what was done does not change for it. If nobody reads them any more, that is
    a BrokenPipeError.
    """
    if sys.stderr is None:
        return
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except BrokenPipeError:
        raise
    except OSError:
        if _descriptor(sys.stderr) == STDERR:
            drop(STDERR)


def flush_stdout() -> None:
    """Empty the buffer of stdout, one way or the other."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        drop(STDOUT)


def drop(*descriptors: int) -> None:
    """Throw away what is written to these from now on, and what their buffers still hold.

    That would raise once more when the interpreter ends, and change the exit code.
    """
    null = os.open(os.devnull, os.O_WRONLY)
    for descriptor in descriptors:
        os.dup2(null, descriptor)
    os.close(null)


def _stdout() -> _Stdout:
    return _diverted[-1] if _diverted else _Stdout(sys.stdout)


def _descriptor(stream: TextIO | None) -> int | None:
    try:
        return None if stream is None else stream.fileno()
    except (OSError, ValueError):  # none, as for an io.StringIO, or closed
        return None
