"""Corpora as files of pieces, one after the other: lines, or records of several.

The pieces, end to end, are the file, so whatever is not touched comes through byte for byte.
"""

from __future__ import annotations

import io
from abc import abstractmethod
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, ClassVar

import numpy as np

from canary.corpus.columns import Edit, Shape, Slot, empty_texts, is_chat, refuse_chat
from canary.corpus.corpora import Edits, FileCorpus, Position
from canary.corpus.lines import end_of_line, place, read_chunks
from canary.errors import CorpusError, EmptyCorpusError

Record = tuple[Mapping[str, Any], list[Slot]]
"""All columns of a record, and its texts in those that were asked for."""

_REPORT_EVERY = 1 << 20


class LineCorpus(FileCorpus):
    r"""Records as pieces of a file: lines, or longer pieces if `by_line` is false.

    A subclass has `read`, `render` and `edit`, and `pieces` for longer pieces. All that is not
    edited keeps its bytes.

    Attributes
    ----------
    columns : tuple of str
        Those of the first record, known after `look`; records of canaries have the same.
    newline : bytes
        The line end of the first record.
    mark : bytes
        The byte order mark of the file, or empty: it stays first, and no piece holds it.

    Examples
    --------
    Files with a title, and texts of several lines with blank lines between them:

    >>> from canary.corpus.columns import Slot, edit_text
    >>> from canary.corpus.line_corpus import LineCorpus
    >>> class Poems(LineCorpus):
    ...     endings = (".poems",)
    ...     by_line = False
    ...     head = 1  # the title: no canary goes before it
    ...     separators = (" ", " ")  # beside another newline, one would end a text
    ...
    ...     def pieces(self, lines):
    ...         begun, parts = 1, []
    ...         for number, line in lines:
    ...             if line != b"\n" and parts and parts[-1] == b"\n":
    ...                 yield begun, b"".join(parts)
    ...                 begun, parts = number, []
    ...             parts.append(line)
    ...         yield begun, b"".join(parts)
    ...
    ...     def closed(self, piece):
    ...         return piece.endswith(b"\n\n")
    ...
    ...     def read(self, piece, number, names):
    ...         text = piece.decode().rstrip("\n")
    ...         return ({"text": text}, [Slot(("text",), text)]) if number > 1 else None
    ...
    ...     def render(self, text):
    ...         return text.encode() + b"\n\n"
    ...
    ...     def edit(self, piece, edits):
    ...         text = piece.rstrip(b"\n")
    ...         return edit_text(text.decode(), edits).encode() + piece[len(text) :]
    >>> list(Poems.pieces(None, [(1, b"Title\n"), (2, b"\n"), (3, b"One text.\n")]))
    [(1, b'Title\n\n'), (3, b'One text.\n')]

    ``FILE_FORMATS.add("poems", Poems)`` makes it known. No record goes after the last one
    unless `closed` says that this one is complete. `check_texts` could refuse canaries with a
    blank line.
    """

    head: ClassVar[int] = 0
    """Pieces at the beginning that no record may go before, such as a header; `read` gives None."""
    by_line: ClassVar[bool] = True
    """Whether each line is a piece."""
    columns: tuple[str, ...]
    newline: bytes
    mark: bytes = b""

    @abstractmethod
    def read(self, piece: bytes, number: int, names: tuple[str, ...]) -> Record | None:
        """The record on a piece, and its texts in the columns `names`; None if it holds none.

        A canary's own record is one whose other columns are empty, or as `beside` says: `strip`
        does not know it if `render` fills another column that `read` gives.

        A CorpusError if the piece is damaged, lacks a column or holds no text there.
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

    def closed(self, piece: bytes) -> bool:
        """Whether a record may go behind the last piece, of which the end is given.

        Unless it is overridden: behind a line that has its end, never behind longer pieces.
        """
        return self.by_line and bool(end_of_line(piece))

    def look(self) -> None:
        for _, (number, piece) in self._pieces(quiet=True):
            first = self.read(piece, number, self.names)
            if first is not None:
                break
        else:
            raise EmptyCorpusError.of(self.source)
        for name, _ in self.beside:
            beside = self.read(piece, number, (name,))
            if beside and any(len(slot.path) > 1 for slot in beside[1]):
                raise refuse_chat(name, self.place(number))
        record, _ = first
        self.columns = tuple(record)
        self.newline = end_of_line(piece) or b"\n"
        self.shape = Shape(self.names, chat=is_chat(record[self.names[0]]), beside=self.beside)
        self._empty = empty_texts(record, self.shape)

    def empty(self) -> tuple[str, ...]:
        return self._empty

    def iterate(self) -> Iterator[tuple[Position, int, list[Slot]]]:
        position, piece = -1, b""
        for position, (number, piece) in self._pieces():
            record = self.read(piece, number, self.names)
            if record is not None:
                yield position, number, record[1]
        self._found(position + 1, piece)

    def count(self) -> None:
        rows, last = 0, b""
        if self.by_line:
            for last in self._chunks():
                rows += last.count(b"\n")
            rows += not end_of_line(last)
        else:
            for position, (_, piece) in self._pieces():
                rows, last = position + 1, piece
        self._found(rows, last)

    def rewrite(self, edits: Edits, out: Any = None) -> None:
        own = {text: self.render(text) for text in edits.texts}
        everywhere = edits.decide is not None and edits.at is None
        out.write(self.mark)
        wanted: list[Any] = sorted({*edits.inserts, *(edits.at or ())})
        parts = self._pieces()
        if self.by_line and not everywhere:
            parts = _cut_out(self._chunks(), wanted)
        for position, (number, piece) in parts:
            for text in edits.inserts.get(position, ()):
                out.write(own[text])
            asked = position >= 0 and edits.asks(position)
            out.write(self._changed(edits, position, number, piece) if asked else piece)
        for text in edits.inserts.get(self.rows, ()) if own else ():
            out.write(own[text])
        self.check_unchanged()

    def place(self, number: int) -> str:
        return place(self.path, number)

    def refusal(self, number: int, problem: str, cure: str) -> CorpusError:
        """What is wrong with the record that begins on a line."""
        return CorpusError(problem, cure=cure, where=self.place(number))

    def _changed(self, edits: Edits, position: Position, number: int, piece: bytes) -> bytes:
        record = self.read(piece, number, self.names)
        if record is None:
            return piece
        changes = self.decided(edits, position, number, record[1], lambda _: record[0])
        if changes is None:
            return b""
        return self.edit(piece, changes) if changes else piece

    def _found(self, rows: int, piece: bytes) -> None:
        # A last piece that is not closed stays last, so that nothing has to be added to it.
        self.rows, self.last = rows, rows - (not self.closed(piece))

    def _pieces(self, *, quiet: bool = False) -> Iterator[tuple[int, tuple[int, bytes]]]:
        """Position of each piece, and the number of its first line with its bytes."""
        lines = chain.from_iterable(map(io.BytesIO, self._chunks(quiet=quiet)))
        return enumerate(self.pieces(enumerate(lines, 1)), -self.head)

    def _chunks(self, *, quiet: bool = False) -> Iterator[bytes]:
        size = self.stamp[0]
        self._pass += not quiet
        done = reported = 0
        for number, (chunk, done) in enumerate(read_chunks(self.path)):
            if not number:
                self.mark = BOM_UTF8 if chunk.startswith(BOM_UTF8) else b""
            yield chunk if number else chunk.removeprefix(BOM_UTF8)
            if not quiet and done - reported >= _REPORT_EVERY:
                self.report(done, size)
                reported = done
        if not quiet:
            self.report(done, size)


def _cut_out(
    chunks: Iterable[bytes], wanted: Iterable[int]
) -> Iterator[tuple[int, tuple[int, bytes]]]:
    """The wanted lines (from 0, ascending), each with its number from 1, and what is between.

    Chunks end where lines do. What is between is not cut into lines; its position is -1.
    """
    waiting = iter(wanted)
    position = next(waiting, -1)
    passed = 0  # lines of the chunks before
    for chunk in chunks:
        total = chunk.count(b"\n") + (not chunk.endswith(b"\n"))
        begin = 0
        if passed <= position < passed + total:
            ends = np.flatnonzero(np.frombuffer(chunk, np.uint8) == ord("\n")) + 1
            bounds = [0, *ends[: total - 1].tolist(), len(chunk)]
            while passed <= position < passed + total:
                start, stop = bounds[position - passed], bounds[position - passed + 1]
                yield -1, (0, chunk[begin:start])
                yield position, (position + 1, chunk[start:stop])
                begin, position = stop, next(waiting, -1)
        yield -1, (0, chunk[begin:])
        passed += total
