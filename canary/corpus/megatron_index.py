"""The index of a Megatron corpus: read and checked, and written for a corpus with changes.

The format is that of ``megatron.core.datasets.indexed_dataset``: a header, the number of
sequences and of documents plus one, then for each sequence its length in tokens (int32) and its
first byte (int64), then for each document the number of its first sequence (int64) and last the
number of all, and in multimodal corpora a byte for the mode of each sequence.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from canary.errors import CorpusError

_MAGIC = b"MMIDIDX\x00\x00"
_HEADER = struct.Struct("<9sQBQQ")
_DTYPES = {1: "u1", 2: "i1", 3: "<i2", 4: "<i4", 5: "<i8", 6: "<f8", 7: "<f4", 8: "<u2"}

_PART = 1 << 22
"""Entries that are looked at, or written, at a time."""


@dataclass(frozen=True)
class Index:
    """What an ``.idx`` says.

    Parameters
    ----------
    code : int
        Of the dtype of the tokens.
    lengths : array of int32
        The tokens of each sequence.
    starts : array of int64
        The first sequence of each document, and last the number of sequences.
    modes : array of int8 or None
        Of the sequences of a multimodal corpus; 0 is text.
    offsets : array of int64
        The first byte of each sequence.
    """

    code: int
    lengths: NDArray[np.int32]
    offsets: NDArray[np.int64]
    starts: NDArray[np.int64]
    modes: NDArray[np.int8] | None

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the tokens."""
        return np.dtype(_DTYPES[self.code])

    @property
    def documents(self) -> int:
        """How many there are."""
        return len(self.starts) - 1

    def where(self, document: int) -> int:
        """The first byte of a document, or the end of the last."""
        first = int(self.starts[document])
        if first < len(self.offsets):
            return int(self.offsets[first])
        if not len(self.offsets):
            return 0
        return int(self.offsets[-1]) + int(self.lengths[-1]) * self.dtype.itemsize


def read_index(path: Path, tokens: int) -> Index:
    """The index in a file, checked; `tokens` is the size of the ``.bin`` in bytes.

    A CorpusError if it is missing, damaged, or of another ``.bin``.
    """

    def damaged(problem: str) -> CorpusError:
        return CorpusError(
            f"is not a whole index of token ids ({problem})",
            cure="name a .bin with the .idx that was written with it, both whole",
            where=str(path),
        )

    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            head = file.read(_HEADER.size)
    except OSError as error:
        raise CorpusError(
            f"cannot be read ({error.strerror or error})",
            cure="a .bin of token ids needs the .idx of the same name beside it",
            where=str(path),
        ) from error
    if len(head) < _HEADER.size or not head.startswith(_MAGIC):
        raise damaged("it does not begin as one")
    _, version, code, sequences, documents = _HEADER.unpack(head)
    if version != 1 or code not in _DTYPES:
        raise damaged(f"version {version}, number type {code}")
    if np.dtype(_DTYPES[code]).kind == "f":
        raise CorpusError(
            "holds numbers with fractions, not token ids",
            cure="name a corpus of integers",
            where=str(path),
        )
    rest = size - _HEADER.size - 12 * sequences - 8 * documents
    if documents < 1 or rest not in (0, sequences):
        raise damaged(f"{size:,} bytes for {sequences:,} sequences and {documents - 1:,} documents")
    whole = np.memmap(path, np.uint8, "r")
    at = _HEADER.size

    def part(dtype: str, number: int) -> NDArray[Any]:
        nonlocal at
        begin, at = at, at + number * np.dtype(dtype).itemsize
        return np.frombuffer(whole, dtype, number, begin)

    lengths, offsets = part("<i4", sequences), part("<i8", sequences)
    starts = part("<i8", documents)
    modes = part("i1", sequences) if rest else None
    found = Index(code, lengths, offsets, starts, modes)
    width, end = found.dtype.itemsize, 0
    for begin in range(0, sequences, _PART):
        some = lengths[begin : begin + _PART].astype(np.int64) * width
        ends = end + np.cumsum(some)
        if (some < 0).any() or (offsets[begin : begin + _PART] != ends - some).any():
            raise damaged("lengths and places of the sequences disagree")
        end = int(ends[-1])
    if starts[0] != 0 or starts[-1] != sequences:
        raise damaged("its documents are not all of its sequences")
    for begin in range(0, documents, _PART):
        if (np.diff(starts[begin : begin + _PART + 1]) < 0).any():
            raise damaged("its documents are not in order")
    if end != tokens:
        raise damaged(f"it is of {end:,} bytes of tokens, and the .bin has {tokens:,}")
    return found


Piece = str | int | tuple[int, int]
"""Of a new corpus: a text of its own, a document that was changed, or a run that was not."""


def pieces_of(
    rows: int,
    inserts: Mapping[Any, Sequence[str]],
    changed: Mapping[int, list[list[int]] | None],
) -> Iterator[Piece]:
    """A new corpus from its beginning to its end."""
    free = 0
    for at in sorted({*inserts, *changed}):
        if free < at:
            yield free, at
            free = at
        yield from inserts.get(at, ())
        if at in changed:
            if changed[at] is not None:
                yield at
            free = at + 1
    if free < rows:
        yield free, rows


def write_index(
    old: Index,
    out: IO[bytes],
    pieces: Sequence[Piece],
    own: Mapping[str, int],
    changed: Mapping[int, list[list[int]] | None],
) -> None:
    """Write the index of a new corpus, some entries at a time.

    `own` are the lengths of documents of their own by their text, `changed` the sequences of
    documents that changed.
    """
    width = old.dtype.itemsize

    def lengths() -> Iterator[NDArray[Any]]:
        for piece in pieces:
            if isinstance(piece, str):
                yield np.array([own[piece]], "<i4")
            elif isinstance(piece, tuple):
                yield from _cut(old.lengths, int(old.starts[piece[0]]), int(old.starts[piece[1]]))
            else:
                yield np.array([len(ids) for ids in changed[piece] or ()], "<i4")

    def starts() -> Iterator[NDArray[Any]]:
        there = 0
        yield np.zeros(1, "<i8")
        for piece in pieces:
            if isinstance(piece, str):
                there += 1
                yield np.array([there], "<i8")
            elif isinstance(piece, tuple):
                shift = there - int(old.starts[piece[0]])
                for some in _cut(old.starts, piece[0] + 1, piece[1] + 1):
                    yield some + shift
                    there = int(some[-1]) + shift
            else:
                there += len(changed[piece] or ())
                yield np.array([there], "<i8")

    def modes() -> Iterator[NDArray[Any]]:
        assert old.modes is not None
        for piece in pieces:
            if isinstance(piece, str):
                yield np.zeros(1, "i1")
            else:
                begin, end = piece if isinstance(piece, tuple) else (piece, piece + 1)
                yield from _cut(old.modes, int(old.starts[begin]), int(old.starts[end]))

    sequences = sum(map(len, lengths()))
    documents = sum(p[1] - p[0] if isinstance(p, tuple) else 1 for p in pieces) + 1
    out.write(_HEADER.pack(_MAGIC, 1, old.code, sequences, documents))
    for some in lengths():
        out.write(some.astype("<i4").tobytes())
    end = 0
    for some in lengths():
        ends = end + np.cumsum(some.astype(np.int64) * width)
        out.write((ends - some.astype(np.int64) * width).astype("<i8").tobytes())
        end = int(ends[-1]) if len(ends) else end
    for some in starts():
        out.write(some.astype("<i8").tobytes())
    for some in modes() if old.modes is not None else ():
        out.write(some.tobytes())


def _cut(values: NDArray[Any], begin: int, end: int) -> Iterator[NDArray[Any]]:
    for at in range(begin, end, _PART):
        yield values[at : min(at + _PART, end)]
