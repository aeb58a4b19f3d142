"""Files as bytes: compressed or not as their names say, in chunks of whole lines."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import stat
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from canary.errors import CorpusError
from canary.records.files import kind_there

_COMPRESSIONS = {".gz": "gzip", ".bz2": "bzip2", ".xz": "xz", ".zst": "zstd"}
_BLOCK = 1 << 17


def compression_of(path: Path) -> str | None:
    """``"gzip"``, ``"bzip2"``, ``"xz"``, ``"zstd"``, or None for a plain file."""
    return _COMPRESSIONS.get(path.suffix.lower())


def regular_size(path: Path) -> int:
    """Size in bytes of a regular file, one that can be read twice.

    A CorpusError if there is no such file, or it is a document of canary.
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
            cure="name the corpus, which is another file",
            where=str(path),
        )
    return status.st_size


def read_chunks(path: Path) -> Iterator[tuple[bytes, int]]:
    """The bytes of a file, decompressed, in chunks of whole lines; and how far the file is read.

    A CorpusError if it cannot be read.
    """
    try:
        with path.open("rb") as file:
            stream: Any = file
            match compression_of(path):
                case "gzip":
                    stream = gzip.GzipFile(fileobj=file)
                case "bzip2":
                    stream = io.BufferedReader(_Unpacked(file, bz2.BZ2Decompressor), _BLOCK)
                case "xz":
                    stream = io.BufferedReader(_Unpacked(file, lzma.LZMADecompressor), _BLOCK)
                case "zstd":
                    import pyarrow as pa

                    stream = io.BufferedReader(pa.CompressedInputStream(file, "zstd"), _BLOCK)
            while chunk := stream.read(_BLOCK):
                yield chunk + stream.readline(), file.tell()
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        raise unreadable(path, error) from error


@contextmanager
def open_writer(path: Path, file: IO[bytes]) -> Iterator[Any]:
    """A stream that compresses into `file` as the name of `path` says.

    The same bytes are compressed to the same bytes: no time, no name.
    """
    match compression_of(path):
        case "gzip":
            with gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as stream:
                yield stream
        case "bzip2":
            with bz2.BZ2File(file, "wb") as packed:
                yield packed
        case "xz":
            with lzma.LZMAFile(file, "wb") as packed:
                yield packed
        case "zstd":
            import pyarrow as pa  # Python 3.11 has no zstd

            # Arrow closes what it writes to.
            twin = os.fdopen(os.dup(file.fileno()), "wb")
            with twin, pa.CompressedOutputStream(twin, "zstd") as packed:
                yield packed
        case _:
            yield file


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


class _Unpacked(io.RawIOBase):
    """One or more compressed streams, end to end, and nothing after them.

    `bz2.BZ2File` and `lzma.LZMAFile` pass over what follows the last stream if it is none.
    """

    def __init__(
        self, file: IO[bytes], fresh: Callable[[], bz2.BZ2Decompressor | lzma.LZMADecompressor]
    ) -> None:
        self._file, self._fresh, self._decoder = file, fresh, fresh()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        unpacked = b""
        while not unpacked:
            data = b""
            if self._decoder.eof:
                data = self._decoder.unused_data or self._file.read(_BLOCK)
                if not data:
                    return 0
                self._decoder = self._fresh()
            elif self._decoder.needs_input:
                data = self._file.read(_BLOCK)
                if not data:
                    raise EOFError("the file ends within a compressed stream")
            unpacked = self._decoder.decompress(data, len(buffer))
        buffer[: len(unpacked)] = unpacked
        return len(unpacked)
