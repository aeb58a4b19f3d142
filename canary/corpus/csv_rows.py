"""Corpora as CSV: a header, then records whose quoted fields may run over several lines.

Read strictly after RFC 4180 and not with Python's ``csv``, which gives the values of a
record but not how they were written: what is not touched must come through as it was.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from canary.corpus.columns import Edit, Shape, Slot, edit_text
from canary.corpus.lines import decode, end_of_line, place
from canary.errors import CorpusError

__all__ = ["CsvRows"]

_LONGEST = 1 << 28
"""Bytes of one record beyond which a quote was surely never closed."""

_BOM = "\ufeff"


@dataclass(frozen=True)
class CsvRows:
    """Records under a header, fields apart by `delimiter`; blank lines pass through."""

    path: Path
    delimiter: str = ","
    head: int = 1
    by_line: bool = False
    # No newline: a field without quotes could not hold it.
    separators: tuple[str, str] = (" ", " ")
    _columns: list[str] = field(default_factory=list, init=False, repr=False)

    def pieces(self, lines: Iterator[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
        """The header, and each record, on however many lines."""
        self._columns.clear()
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
            if not self._columns:
                self._columns.extend(self._header(piece, begun))
            yield begun, piece
        if parts:
            raise CorpusError(
                "begins a record with a quote that is never closed",
                cure='close it, and double each quote within a quoted field ("")',
                where=place(self.path, begun),
            )

    def read(self, piece: bytes, number: int) -> dict[str, Any] | None:
        """The record on a piece; None if it is blank or the header."""
        if number == 1 or not piece.strip(b"\r\n"):
            return None
        spans = self._fields(piece, number)
        if len(spans) != len(self._columns):
            raise CorpusError(
                f"has {len(spans)} fields, the header has {len(self._columns)}",
                cure="mend the record; a field with the delimiter in it needs quotes",
                where=place(self.path, number),
            )
        return dict(zip(self._columns, map(_value, spans), strict=True))

    def slots(self, record: Mapping[str, Any], names: tuple[str, ...], number: int) -> list[Slot]:
        """The texts in the named columns."""
        for name in names:
            if name not in record:
                known = ", ".join(repr(key[:30]) for key in list(record)[:8])
                raise CorpusError(
                    f"has no column {name!r}",
                    cure=f"name one of {known}",
                    where=place(self.path, 1),
                )
        return [Slot((name,), record[name]) for name in names]

    def render(self, columns: Sequence[str], shape: Shape, text: str, newline: bytes) -> bytes:
        """A record with all columns, empty but for those of `shape`."""
        values = shape.values(text)
        out = io.StringIO()
        writer = csv.writer(
            out, delimiter=self.delimiter, lineterminator=newline.decode("ascii"), quotechar='"'
        )
        writer.writerow([values.get(name, "") for name in columns])
        return out.getvalue().encode("utf-8")

    def needs_quotes(self, texts: Sequence[str]) -> bool:
        """Whether any holds a quote, a delimiter or an end of line."""
        special = {'"', self.delimiter, "\n", "\r"}
        return any(special & set(text) for text in texts)

    def quoted(self, piece: bytes, names: tuple[str, ...]) -> bool:
        """Whether all named fields are quoted."""
        spans = dict(zip(self._columns, self._fields(piece, 0), strict=True))
        return all(spans[name].startswith('"') for name in names)

    def edit(self, piece: bytes, edits: Sequence[Edit]) -> bytes:
        """The record with `edits` made within its fields, quotes kept as they are."""
        end = end_of_line(piece)
        fields = self._fields(piece, 0)
        for at, name in enumerate(self._columns):
            mine = [edit for edit in edits if edit.path == (name,)]
            if mine:
                quoted = fields[at].startswith('"')
                text = edit_text(_value(fields[at]), mine)
                fields[at] = '"' + text.replace('"', '""') + '"' if quoted else text
        return self.delimiter.join(fields).encode("utf-8") + end

    def _header(self, piece: bytes, number: int) -> list[str]:
        names = [_value(span) for span in self._fields(piece, number)]
        if len({*names}) < len(names) or not any(names):
            raise CorpusError(
                "the first line is no header of different column names",
                cure="put the names of the columns into the first line",
                where=place(self.path, number),
            )
        return names

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

    def _malformed(self, number: int) -> CorpusError:
        return CorpusError(
            "has a quote or a carriage return where none may be",
            cure="put the whole field into quotes and double each quote within it",
            where=place(self.path, number),
        )


def _value(written: str) -> str:
    return written[1:-1].replace('""', '"') if written.startswith('"') else written
