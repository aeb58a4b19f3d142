"""Corpora as files of records that stand one behind the other as bytes.

A **layout** (JSON lines, CSV, plain text) cuts a file into **pieces**, one for each
record, header or blank line; the pieces, end to end, are the file. So whatever is not
touched comes through byte for byte.
"""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from canary.corpus.columns import Edit, Shape, Slot
from canary.corpus.compression import READ_ERRORS, compression_of, open_reader
from canary.errors import CorpusError
from canary.records.overwrite_guard import kind_there

__all__ = [
    "Layout",
    "Progress",
    "decode",
    "end_of_line",
    "place",
    "read_chunks",
    "read_lines",
    "regular_size",
    "unreadable",
]

Progress = Callable[[int, int], object]
"""Called now and then with the bytes done and the bytes to do in all."""

_REPORT_EVERY = 1 << 20
_CHUNK = 1 << 17


class Layout(Protocol):
    """How records stand in one file."""

    @property
    def path(self) -> Path:
        """The file."""
        ...

    @property
    def head(self) -> int:
        """Pieces at the beginning that no record may go before: a header is one."""
        ...

    @property
    def by_line(self) -> bool:
        """Whether each line is a piece."""
        ...

    @property
    def separators(self) -> tuple[str, str]:
        """What stands around a spliced canary unless it is said otherwise."""
        ...

    def pieces(self, lines: Iterator[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
        """The pieces of a file with the numbers of their first lines."""
        ...

    def read(self, piece: bytes, number: int) -> dict[str, Any] | None:
        """The record on a piece; None if it holds none.

        Raises
        ------
        CorpusError
            If the piece is damaged.
        """
        ...

    def slots(self, record: Mapping[str, Any], names: tuple[str, ...], number: int) -> list[Slot]:
        """The texts of a record in the named columns.

        Raises
        ------
        CorpusError
            If the record lacks a column or holds something else than text there.
        """
        ...

    def render(self, columns: Sequence[str], shape: Shape, text: str, newline: bytes) -> bytes:
        """A piece that is a record of its own for `text`.

        Raises
        ------
        CorpusError
            If the layout cannot hold such a text.
        """
        ...

    def needs_quotes(self, texts: Sequence[str]) -> bool:
        """Whether some of `texts` can be spliced into quoted fields only.

        Raises
        ------
        CorpusError
            If the layout cannot hold one of them at all.
        """
        ...

    def quoted(self, piece: bytes, names: tuple[str, ...]) -> bool:
        """Whether all named fields of a record stand in quotes."""
        ...

    def edit(self, piece: bytes, edits: Sequence[Edit]) -> bytes:
        """The piece with edits made in its texts, and everything else as it was."""
        ...


def regular_size(path: Path) -> int:
    """Size in bytes of a regular file, one that can be read twice.

    Raises
    ------
    CorpusError
        If there is no such file, or it is a document of canary.
    """
    try:
        status = path.stat()
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from error
    if not stat.S_ISREG(status.st_mode):
        what = "a folder" if path.is_dir() else "not a regular file"
        raise CorpusError(
            f"is {what}; a file was expected",
            cure="name a file on disk",
            where=str(path),
        )
    if (kind := kind_there(path) or "").startswith("canary "):
        raise CorpusError(
            f"is a {kind} document, and a corpus was expected",
            cure="name the corpus: JSON lines, CSV, text or Parquet",
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
    start = reported = done
    packed = compression_of(path) is not None
    for number, (line, position) in enumerate(_lines(path), 1):
        yield number, line
        # A compressed file's size says nothing of its lines; its position does.
        done = start + position() if packed else done + len(line)
        if progress is not None and done - reported >= _REPORT_EVERY:
            progress(done, total)
            reported = done
    if progress is not None:
        progress(done, total)


def _lines(path: Path) -> Iterator[tuple[bytes, Callable[[], int]]]:
    # Apart from `read_lines`, so that an error of `progress` is not taken for one of
    # the file.
    try:
        with open_reader(path) as (stream, file):
            for line in stream:
                yield line, file.tell
    except READ_ERRORS as error:
        raise unreadable(path, error) from error


def read_chunks(
    path: Path, *, progress: Progress | None = None, done: int = 0, total: int = 0
) -> Iterator[bytes]:
    """The lines of a file, many at once; parameters and errors as those of `read_lines`."""
    reported = start = done
    for chunk, position in _chunks(path):
        yield chunk
        done = start + position
        if progress is not None and done - reported >= _REPORT_EVERY:
            progress(done, total)
            reported = done
    if progress is not None:
        progress(done, total)


def _chunks(path: Path) -> Iterator[tuple[bytes, int]]:
    try:
        with open_reader(path) as (stream, file):
            while chunk := stream.read(_CHUNK):
                yield chunk + stream.readline(), file.tell()
    except READ_ERRORS as error:
        raise unreadable(path, error) from error


def decode(piece: bytes, path: Path, number: int, *, what: str) -> str:
    """The text of a piece.

    Raises
    ------
    CorpusError
        If it is not UTF-8.
    """
    try:
        return piece.decode("utf-8")
    except UnicodeDecodeError as error:
        before = piece[: error.start]
        column = error.start - before.rfind(b"\n")
        raise CorpusError(
            f"is not UTF-8 (byte {column} of the line)",
            cure=f"save the corpus as UTF-8 {what}; a compressed file needs the ending .gz, "
            ".bz2, .xz or .zst",
            where=place(path, number + before.count(b"\n")),
        ) from error


def end_of_line(piece: bytes) -> bytes:
    """The end of line of a piece; none if it has none."""
    return b"\r\n" if piece.endswith(b"\r\n") else piece[-1:] if piece.endswith(b"\n") else b""


def place(path: Path, number: int) -> str:
    """A line of a file, as errors name it."""
    return f"{path}:{number}"


def unreadable(path: Path, error: BaseException) -> CorpusError:
    """What to say of a file that cannot be read."""
    reason = error.strerror if isinstance(error, OSError) else None
    packed = compression_of(path)
    cure = f"check the path, and that it is whole {packed}" if packed else "check the path"
    return CorpusError(f"cannot be read ({reason or error})", cure=cure, where=str(path))
