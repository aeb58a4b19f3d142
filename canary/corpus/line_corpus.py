"""Corpora as files of pieces that stand one behind the other: lines, or records of several.

The pieces, end to end, are the file, so whatever is not touched comes through byte for byte.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from canary.corpus.columns import Edit, Shape, Slot, empty_texts, is_chat, refuse_chat
from canary.corpus.corpora import Edits, FileCorpus, Position
from canary.corpus.lines import end_of_line, lines_of, place, read_chunks
from canary.errors import CorpusError

Record = tuple[Mapping[str, Any], list[Slot]]
"""All columns of a record, and its texts in those that were asked for."""

_REPORT_EVERY = 1 << 20


class LineCorpus(FileCorpus):
    """Records as pieces of a file.

    Attributes
    ----------
    columns : tuple of str
        Those of the first record, which records of canaries take over; known after `look`.
    newline : bytes
        The end of line of the first record, likewise.
    """

    head: ClassVar[int] = 0
    """Pieces at the beginning that no record may go before: a header is one."""
    by_line: ClassVar[bool] = True
    """Whether each line is a piece."""
    columns: tuple[str, ...]
    newline: bytes

    @abstractmethod
    def read(self, piece: bytes, number: int, names: tuple[str, ...]) -> Record | None:
        """The record on a piece, and its texts in the columns `names`; None if it holds none.

        Raises
        ------
        CorpusError
            If the piece is damaged, lacks a column or holds something else than text there.
        """

    @abstractmethod
    def render(self, text: str) -> bytes:
        """A piece that is a record of its own for `text`; a CorpusError if none can be."""

    @abstractmethod
    def edit(self, piece: bytes, edits: Sequence[Edit]) -> bytes:
        """The piece with edits made in its texts, and everything else as it was."""

    def pieces(self, lines: Iterator[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
        """The pieces of a file with the numbers of their first lines."""
        return lines

    def look(self) -> None:
        for number, piece in self.pieces(self._lines(quiet=True)):
            found = self.read(piece, number, self.names)
            if found is not None:
                break
        else:
            raise CorpusError(
                "holds no record", cure="name a corpus with at least one", where=self.source
            )
        for name, _ in self.beside:
            beside = self.read(piece, number, (name,))
            if beside and any(len(slot.path) > 1 for slot in beside[1]):
                raise refuse_chat(name, self.place(number))
        record = found[0]
        self.columns = tuple(record)
        self.newline = end_of_line(piece) or b"\n"
        self.shape = Shape(self.names, chat=is_chat(record[self.names[0]]), beside=self.beside)
        self._empty = empty_texts(record, self.shape)

    def empty(self) -> tuple[str, ...]:
        return self._empty

    def iterate(self) -> Iterator[tuple[Position, int, list[Slot]]]:
        position, piece = -1, b""
        for position, (number, piece) in enumerate(self.pieces(self._lines()), -self.head):
            found = self.read(piece, number, self.names)
            if found is not None:
                yield position, number, found[1]
        self._end(position + 1, piece)

    def count(self) -> None:
        rows, last = 0, b""
        parts = self._chunks() if self.by_line else (p for _, p in self.pieces(self._lines()))
        for last in parts:
            rows += last.count(b"\n") if self.by_line else 1
        unfinished = self.by_line and not end_of_line(last)
        self._end(rows + unfinished - self.head, last)

    def rewrite(self, edits: Edits, out: Any = None) -> None:
        own = {text: self.render(text) for text in edits.texts}
        everywhere = edits.decide is not None and edits.at is None
        wanted = None if everywhere else sorted({*edits.inserts, *(edits.at or ())})
        for position, number, piece in self._parts(wanted):
            if position is not None:
                for text in edits.inserts.get(position, ()):
                    out.write(own[text])
                if edits.asks(position):
                    out.write(self._changed(edits, position, number, piece))
                    continue
            out.write(piece)
        if edits.inserts:
            for text in edits.inserts.get(self.rows, ()):
                out.write(own[text])
        self.watch.check()

    def place(self, number: int) -> str:
        return place(self.path, number)

    def _changed(self, edits: Edits, position: Position, number: int, piece: bytes) -> bytes:
        found = self.read(piece, number, self.names)
        if found is None:
            return piece
        changes = edits.of(self, position, number, found[1], lambda _: found[0])
        if changes is None:
            return b""
        return self.edit(piece, changes) if changes else piece

    def _parts(self, wanted: Sequence[Any] | None) -> Iterator[tuple[int | None, int, bytes]]:
        """The pieces with positions and numbers; of those not wanted, many may come as one."""
        if wanted is not None and self.by_line:
            yield from _cut_out(self._chunks(), wanted)
        else:
            for position, (number, piece) in enumerate(self.pieces(self._lines()), -self.head):
                yield position, number, piece

    def _end(self, rows: int, piece: bytes) -> None:
        # A last line without an end stays last, so that nothing has to be added to it.
        self.rows, self.last = rows, rows - (not end_of_line(piece))

    def _lines(self, *, quiet: bool = False) -> Iterator[tuple[int, bytes]]:
        return lines_of(self._chunks(quiet=quiet))

    def _chunks(self, *, quiet: bool = False) -> Iterator[bytes]:
        size = self.watch.size
        self._pass += not quiet
        done = reported = 0
        for chunk, done in read_chunks(self.path):
            yield chunk
            if not quiet and done - reported >= _REPORT_EVERY:
                self.report(done, size)
                reported = done
        if not quiet:
            self.report(done, size)


def _cut_out(
    chunks: Iterable[bytes], wanted: Iterable[int]
) -> Iterator[tuple[int | None, int, bytes]]:
    """The wanted lines (from 0, ascending), each with its number from 1, and what is between.

    Chunks end where lines do. Lines that are not wanted are not cut apart; they have no
    place of their own, which is None.
    """
    waiting = iter(wanted)
    place = next(waiting, -1)
    at = 0  # lines that have gone out
    for chunk in chunks:
        total = chunk.count(b"\n") + (not chunk.endswith(b"\n"))
        begin = 0
        if at <= place < at + total:
            ends = np.flatnonzero(np.frombuffer(chunk, np.uint8) == ord("\n")) + 1
            ends = np.append(ends[: total - 1], len(chunk))
            while at <= place < at + total:
                start = int(ends[place - at - 1]) if place > at else 0
                stop = int(ends[place - at])
                yield None, 0, chunk[begin:start]
                yield place, place + 1, chunk[start:stop]
                begin, place = stop, next(waiting, -1)
        yield None, 0, chunk[begin:]
        at += total
