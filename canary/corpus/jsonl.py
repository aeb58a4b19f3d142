"""Corpora as JSON lines, read as a stream and checked line by line."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from canary.errors import CorpusError

__all__ = ["Progress", "parse_line", "read_lines", "regular_size", "text_of"]

Progress = Callable[[int, int], object]
"""Called now and then with the bytes done and the bytes to do in all."""

_REPORT_EVERY = 1 << 20

# Numbers are not needed, and int() refuses thousands of digits, which JSON allows.
_DECODER = json.JSONDecoder(parse_int=float)


def regular_size(path: Path) -> int:
    """Size in bytes of a regular file, one that can be read twice.

    Raises
    ------
    CorpusError
        If there is no such file.
    """
    try:
        status = path.stat()
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from error
    if not stat.S_ISREG(status.st_mode):
        what = "a folder" if path.is_dir() else "not a regular file"
        raise CorpusError(
            f"is {what}; a file of JSON lines was expected",
            cure="name a file on disk",
            where=str(path),
        )
    return status.st_size


def read_lines(
    path: Path, *, progress: Progress | None = None, done: int = 0, total: int = 0
) -> Iterator[tuple[int, bytes]]:
    """Lines of a file with their numbers from 1, ends of line included.

    Parameters
    ----------
    path : Path
    progress : callable, optional
        Called after each mebibyte and at the end of the file.
    done, total : int
        What `progress` is told beside the bytes of this file: those done before, and
        those to do in all.

    Raises
    ------
    CorpusError
        If the file cannot be read.
    """
    reported = done
    for number, line in enumerate(_lines(path), 1):
        yield number, line
        done += len(line)
        if progress is not None and done - reported >= _REPORT_EVERY:
            progress(done, total)
            reported = done
    if progress is not None:
        progress(done, total)


def _lines(path: Path) -> Iterator[bytes]:
    # Apart from `read_lines`, so that an error of `progress` is not taken for one of
    # the file.
    try:
        with path.open("rb") as file:
            yield from file
    except OSError as error:
        raise _unreadable(path, error) from error


def parse_line(line: bytes, path: str | os.PathLike[str], number: int) -> dict[str, Any] | None:
    """The record on a line, or None if the line is blank.

    Numbers in it are not exact.

    Raises
    ------
    CorpusError
        If the line is not UTF-8, not JSON, or not an object.
    """
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise CorpusError(
            f"is not UTF-8 (byte {error.start + 1} of the line)",
            cure="save the corpus as UTF-8 JSON lines, uncompressed",
            where=_place(path, number),
        ) from error
    if text.isspace() and not text.strip(" \t\r\n"):
        return None
    if text.startswith("\ufeff"):
        raise CorpusError(
            "begins with a byte order mark",
            cure="save the corpus without one",
            where=_place(path, number),
        )
    try:
        record = _DECODER.decode(text)
    except RecursionError as error:
        raise CorpusError(
            "is nested too deeply", cure="mend the line", where=_place(path, number)
        ) from error
    except json.JSONDecodeError as error:
        raise CorpusError(
            f"is not valid JSON ({error.msg} at column {error.colno})",
            cure="mend the line; a corpus holds one JSON object on each",
            where=_place(path, number),
        ) from error
    if not isinstance(record, dict):
        raise CorpusError(
            f"is {_name(record)}, not a JSON object",
            cure="write one JSON object on each line",
            where=_place(path, number),
        )
    return record


def text_of(record: dict[str, Any], column: str, path: str | os.PathLike[str], number: int) -> str:
    """The text in a column of a record.

    Raises
    ------
    CorpusError
        If the record lacks the column or has something else than text in it.
    """
    if column not in record:
        raise CorpusError(
            f"has no column {column!r}",
            cure=f"{_choices(list(record))}",
            where=_place(path, number),
        )
    text = record[column]
    if not isinstance(text, str):
        raise CorpusError(
            f"column {column!r} is {_name(text)}, not text",
            cure="name a column of texts, or mend the line",
            where=_place(path, number),
        )
    return text


def _place(path: str | os.PathLike[str], number: int) -> str:
    return f"{os.fspath(path)}:{number}"


def _choices(keys: list[str]) -> str:
    """Which columns there are; their names come from the corpus and may be anything."""
    if not keys:
        return "the record is empty: mend the line"
    shown = ", ".join(repr(key if len(key) <= 30 else key[:29] + "…") for key in keys[:8])
    return f"name one of {shown}{', …' * (len(keys) > 8)}"


def _name(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true or false"
    return {str: "text", float: "a number", list: "a list", dict: "an object"}[type(value)]


def _unreadable(path: Path, error: OSError | ValueError) -> CorpusError:
    reason = error.strerror if isinstance(error, OSError) else None
    return CorpusError(
        f"cannot be read ({reason or error})", cure="check the path", where=str(path)
    )
