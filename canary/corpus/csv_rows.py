"""Corpora as CSV: a header, then records whose quoted fields may run over several lines.

Read strictly after RFC 4180 and not with Python's ``csv``, which gives the values of a
record but not how they were written: what is not touched must come through as it was.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence

from canary.corpus.columns import Edit, Slot, edit_text
from canary.corpus.line_corpus import LineCorpus, Record
from canary.corpus.lines import decode, end_of_line
from canary.errors import CorpusError

_LONGEST = 1 << 28
"""Bytes of one record beyond which a quote was surely never closed."""

_BOM = "\ufeff"


class CsvRows(LineCorpus):
    """Records under a header, fields apart by a delimiter; blank lines pass through."""

    endings = (".csv",)
    head = 1
    by_line = False
    # No newline: a field without quotes could not hold it.
    separators = (" ", " ")
    delimiter = ","
    _header: tuple[str, ...] = ()

    def pieces(self, lines: Iterator[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
        """The header, and each record, on however many lines."""
        self._header = ()
        parts: list[bytes] = []
        begun = quotes = size = 0
        for number, line in lines:
            begun = begun if parts else number
            parts.append(line)
            size += len(line)
            quotes += line.count(b'"')
            if quotes % 2:
                if size > _LONGEST:
                    break
                continue
            piece = b"".join(parts)
            parts, quotes, size = [], 0, 0
            if not self._header:
                self._header = self._names(piece, begun)
            yield begun, piece
        if parts:
            raise CorpusError(
                "begins a record with a quote that is never closed",
                cure='close it, and double each quote within a quoted field ("")',
                where=self.place(begun),
            )

    def read(self, piece: bytes, number: int, names: tuple[str, ...]) -> Record | None:
        """The record on a piece; None if it is blank or the header."""
        if number == 1 or not piece.strip(b"\r\n"):
            return None
        written = self._fields(piece, number)
        if len(written) != len(self._header):
            raise CorpusError(
                f"has {len(written)} fields, the header has {len(self._header)}",
                cure="mend the record; a field with the delimiter in it needs quotes",
                where=self.place(number),
            )
        record = dict(zip(self._header, written, strict=True))
        slots = []
        for name in names:
            if name not in record:
                known = ", ".join(repr(key[:30]) for key in self._header[:8])
                raise CorpusError(
                    f"has no column {name!r}", cure=f"name one of {known}", where=self.place(1)
                )
            bare = not record[name].startswith('"')
            slots.append(Slot((name,), _value(record[name]), bare))
        return {name: _value(field) for name, field in record.items()}, slots

    def render(self, text: str) -> bytes:
        values = self.shape.values(text)
        out = io.StringIO()
        writer = csv.writer(
            out, delimiter=self.delimiter, lineterminator=self.newline.decode(), quotechar='"'
        )
        writer.writerow([values.get(name, "") for name in self.columns])
        return out.getvalue().encode("utf-8")

    def holds_special(self, texts: Sequence[str]) -> bool:
        special = {'"', self.delimiter, "\n", "\r"}
        return any(special & set(text) for text in texts)

    def edit(self, piece: bytes, edits: Sequence[Edit]) -> bytes:
        end = end_of_line(piece)
        fields = self._fields(piece, 0)
        for at, name in enumerate(self._header):
            mine = [edit for edit in edits if edit.path == (name,)]
            if mine:
                quoted = fields[at].startswith('"')
                text = edit_text(_value(fields[at]), mine)
                fields[at] = '"' + text.replace('"', '""') + '"' if quoted else text
        return self.delimiter.join(fields).encode("utf-8") + end

    def _fields(self, piece: bytes, number: int) -> list[str]:
        """The fields of a record as they are written, quotes included."""
        text = decode(piece, self.path, number, what="CSV")
        text = text[: len(text) - len(end_of_line(piece))]
        if number == 1:
            text = text.removeprefix(_BOM)
        if '"' not in text:
            if "\r" in text:
                raise self._malformed(number)
            return text.split(self.delimiter)
        found = []
        field = re.compile(rf'"[^"]*(?:""[^"]*)*"|[^"{self.delimiter}\r\n]*')
        at = 0
        while True:
            match = field.match(text, at)
            assert match is not None  # the empty field always matches
            found.append(match[0])
            at = match.end()
            if at == len(text):
                return found
            if text[at] != self.delimiter:
                raise self._malformed(number)
            at += 1

    def _names(self, piece: bytes, number: int) -> tuple[str, ...]:
        names = tuple(_value(span) for span in self._fields(piece, number))
        if len({*names}) < len(names) or not any(names):
            raise CorpusError(
                "the first line is no header of different column names",
                cure="put the names of the columns into the first line",
                where=self.place(number),
            )
        return names

    def _malformed(self, number: int) -> CorpusError:
        return CorpusError(
            "has a quote or a carriage return where none may be",
            cure="put the whole field into quotes and double each quote within it",
            where=self.place(number),
        )


def _value(written: str) -> str:
    return written[1:-1].replace('""', '"') if written.startswith('"') else written


class TsvRows(CsvRows):
    """The same with tabs."""

    endings = (".tsv",)
    delimiter = "\t"
