"""Files of lines: what they are, their bytes in order, and how errors name a place in them."""

from __future__ import annotations

import io
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from canary.corpus.compression import READ_ERRORS, compression_of, open_reader
from canary.errors import CorpusError
from canary.records.overwrite_guard import kind_there

Progress = Callable[[int, int], object]
"""Called now and then with the bytes done and the bytes to do in all."""

_CHUNK = 1 << 17


@dataclass(frozen=True)
class Watch:
    """Notices when a file is changed while it is read."""

    path: Path
    stamp: tuple[int, int, int, int]

    @classmethod
    def of(cls, path: Path) -> Watch:
        """The watch over a file as it is now."""
        status = path.stat()
        return cls(path, (status.st_size, status.st_mtime_ns, status.st_ino, status.st_dev))

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return self.stamp[0]

    def check(self) -> None:
        """Refuse a file that has changed, by a CorpusError."""
        if Watch.of(self.path) != self:
            raise CorpusError(
                "changed while it was read",
                cure="start again when nothing else writes to it",
                where=str(self.path),
            )


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
            f"is {what}; a file was expected", cure="name a file on disk", where=str(path)
        )
    if (kind := kind_there(path) or "").startswith("canary "):
        raise CorpusError(
            f"is a {kind} document, and a corpus was expected",
            cure="name the corpus: JSON lines, CSV, text or Parquet",
            where=str(path),
        )
    return status.st_size


def read_chunks(path: Path) -> Iterator[tuple[bytes, int]]:
    """The bytes of a file, decompressed, in chunks of whole lines; and how far the file is read.

    Raises
    ------
    CorpusError
        If the file cannot be read.
    """
    try:
        with open_reader(path) as (stream, file):
            while chunk := stream.read(_CHUNK):
                yield chunk + stream.readline(), file.tell()
    except READ_ERRORS as error:
        raise unreadable(path, error) from error


def lines_of(chunks: Iterator[bytes]) -> Iterator[tuple[int, bytes]]:
    """The lines of chunks with their numbers from 1, ends of line included."""
    lines = (line for chunk in chunks for line in io.BytesIO(chunk))
    return enumerate(lines, 1)


def decode(piece: bytes, path: Path, number: int, *, what: str) -> str:
    """The text of some lines, of which the first has a number; a CorpusError unless UTF-8."""
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
