"""Compressed files as streams of bytes, by the ending of their names."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

_ENDINGS = {".gz": "gzip", ".bz2": "bzip2", ".xz": "xz", ".zst": "zstd"}

_BLOCK = 1 << 17

READ_ERRORS = (OSError, EOFError, zlib.error, lzma.LZMAError)
"""What reading a damaged or truncated file may raise."""


def compression_of(path: Path) -> str | None:
    """``"gzip"``, ``"bzip2"``, ``"xz"``, ``"zstd"``, or None for a plain file."""
    return _ENDINGS.get(path.suffix.lower())


@contextmanager
def open_reader(path: Path) -> Iterator[tuple[Any, IO[bytes]]]:
    """The decompressed bytes of a file, and the file itself, whose position is known."""
    with path.open("rb") as file:
        match compression_of(path):
            case "gzip":
                with gzip.GzipFile(fileobj=file) as stream:
                    yield stream, file
            case "bzip2":
                yield io.BufferedReader(_Unpacked(file, bz2.BZ2Decompressor), _BLOCK), file
            case "xz":
                yield io.BufferedReader(_Unpacked(file, lzma.LZMADecompressor), _BLOCK), file
            case "zstd":
                import pyarrow as pa

                yield io.BufferedReader(pa.CompressedInputStream(file, "zstd"), _BLOCK), file
            case _:
                yield file, file


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
            with bz2.BZ2File(file, "wb") as stream:
                yield stream
        case "xz":
            with lzma.LZMAFile(file, "wb") as stream:
                yield stream
        case "zstd":
            import pyarrow as pa

            # Python 3.11 has no zstd; the Arrow that datasets stand on has.
            with pa.CompressedOutputStream(_KeptOpen(file), "zstd") as stream:
                yield stream
        case _:
            yield file


class _Unpacked(io.RawIOBase):
    """One or more compressed streams, end to end, and nothing after them.

    `bz2.BZ2File` and `lzma.LZMAFile` pass over what follows the last stream if it is none.
    """

    def __init__(
        self, file: IO[bytes], fresh: Callable[[], bz2.BZ2Decompressor | lzma.LZMADecompressor]
    ) -> None:
        self._file, self._fresh = file, fresh
        self._decoder = fresh()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        found = b""
        while not found:
            if self._decoder.eof:
                data = self._decoder.unused_data or self._file.read(_BLOCK)
                if not data:
                    return 0
                self._decoder = self._fresh()
            else:
                data = self._file.read(_BLOCK) if self._decoder.needs_input else b""
                if not data and self._decoder.needs_input:
                    raise EOFError("the file ends within a compressed stream")
            found = self._decoder.decompress(data, len(buffer))
        buffer[: len(found)] = found
        return len(found)


class _KeptOpen:
    """A file that whoever writes to it cannot close."""

    closed = False

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def write(self, data: bytes) -> int:
        return self._file.write(data)

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._file.tell()

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        """Nothing: it is closed by whoever opened it."""
