"""Formats of corpora that are lines: JSON lines, CSV with its tabbed kind, plain text.

CSV is read strictly after RFC 4180 and not with Python's ``csv``, which gives the values of a
record but not how they were written: what is not touched must come through as it was.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

import orjson

from canary.corpus.columns import Edit, Slot, column_cure, edit_text, is_chat, slots_of
from canary.corpus.line_corpus import LineCorpus, Record
from canary.corpus.lines import decode, end_of_line
from canary.errors import CorpusError

_LONGEST = 1 << 28
"""Bytes of a CSV record beyond which a quote was surely never closed."""

# Numbers are not needed, and int() refuses thousands of digits, which JSON allows.
_DECODER = json.JSONDecoder(parse_int=float)
_BLANK = " \t\r\n"
_SPACE = re.compile(r"[ \t\r\n]*")
_NAMES = {str: "text", float: "a number", bool: "true or false", list: "a list", dict: "an object"}

_TO_RECORDS = (
    """python -c "import json, sys; [print(json.dumps({'text': x.strip()})) for x in sys.stdin]" """
    "< texts.txt > texts.jsonl"
)

# One escaped character of a string as it is written; two escapes may be one character.
_ESCAPED = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\."
)


class JsonLines(LineCorpus):
    """One JSON object on each line; blank lines pass through."""

    endings = (".jsonl", ".ndjson", ".json")

    def read(self, piece: bytes, number: int, names: tuple[str, ...]) -> Record | None:
        """The object on a line, of which numbers are not exact, and its texts or chats."""
        if len(names) == 1 and number > 1:  # a first line may have a byte order mark
            try:
                record: Any = orjson.loads(piece)
                if type(record) is dict and type(value := record.get(names[0])) is str:
                    return record, [Slot(names, value)]  # nearly always
            except orjson.JSONDecodeError:  # perhaps an infinite number, or half a surrogate pair
                pass
        text = decode(self.mark * (number == 1) + piece, self.path, number, what="JSON lines")
        record = None
        try:
            record, end = _DECODER.raw_decode(text)
            whole = not text[end:].strip(_BLANK)
        except (ValueError, RecursionError):
            whole = False
        if not whole:
            if not text.strip(_BLANK):
                return None
            # The slow way names what is wrong, and knows spaces before the object.
            record = self._decode(text, number)
        if not isinstance(record, dict):
            raise self.refusal(
                number,
                f"is {_name(record)}, not a JSON object",
                "write one JSON object on each line",
            )
        if len(names) == 1 and isinstance(value := record.get(names[0]), str):  # nearly always
            return record, [Slot(names, value)]
        for name in names:
            if name not in record:
                cure = column_cure(name, record) or "the record is empty: mend the line"
                raise self.refusal(number, f"has no column {name!r}", cure)
            value = record[name]
            if not isinstance(value, str) and not is_chat(value):
                raise self.refusal(
                    number,
                    f"column {name!r} is {_name(value)}, not text",
                    "name a column of texts, or mend the line",
                )
        return record, slots_of(record, names)

    def _decode(self, text: str, number: int) -> Any:
        if text.startswith("\ufeff"):
            problem = "begins with a byte order mark"
            raise self.refusal(number, problem, "save the corpus without one")
        try:
            return _DECODER.decode(text)
        except RecursionError as error:
            raise self.refusal(number, "is nested too deeply", "mend the line") from error
        except json.JSONDecodeError as error:
            problem = f"is not valid JSON ({error.msg} at column {error.colno})"
            cure = "mend the line; a corpus holds one JSON object on each"
            if not text.lstrip(_BLANK).startswith("{"):
                cure += f". If the file has a text on each line, make records: {_TO_RECORDS}"
            raise self.refusal(number, problem, cure) from error

    def render(self, text: str) -> bytes:
        values = {**dict.fromkeys(self.columns), **self.shape.values(text)}
        return json.dumps(values).encode("ascii") + self.newline

    def edit(self, piece: bytes, edits: Sequence[Edit]) -> bytes:
        text = piece.decode("utf-8")
        located = [(_locate(text, edit.path) + 1, edit) for edit in edits]
        # From the end, so that what is still to be edited stays where it is.
        located.sort(key=lambda item: (item[0], item[1].start), reverse=True)
        for begin, edit in located:
            start, stop = _written(text, begin, edit.start), _written(text, begin, edit.stop)
            text = text[:start] + json.dumps(edit.new)[1:-1] + text[stop:]
        return text.encode("utf-8")


def _locate(text: str, path: Sequence[str | int]) -> int:
    """Where the value at `path` begins in the text of a JSON object that was read before."""
    begin = _skip(text, 0)
    for key in path:
        at = _skip(text, begin + 1)
        index = 0
        while text[at] not in "}]":
            name: str | int = index
            if isinstance(key, str):
                name, at = _DECODER.raw_decode(text, at)
                at = _skip(text, _skip(text, at) + 1)
            if name == key:
                begin = at  # of equal keys the last counts
            at = _skip(text, _DECODER.raw_decode(text, at)[1])
            if text[at] == ",":
                at = _skip(text, at + 1)
            index += 1
    return begin


def _skip(text: str, at: int) -> int:
    """Where the next character is that is no space."""
    match = _SPACE.match(text, at)
    return match.end() if match else at


def _written(text: str, at: int, characters: int) -> int:
    """Where a string that is written from `at` on has given some characters."""
    while (escape := text.find("\\", at, at + characters)) >= 0:
        match = _ESCAPED.match(text, escape)
        assert match is not None
        characters -= escape - at + 1
        at = match.end()
    return at + characters


def _name(value: object) -> str:
    return "null" if value is None else _NAMES[type(value)]


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
            raise self.refusal(
                begun,
                "begins a record with a quote that is never closed",
                'close it, and double each quote within a quoted field ("")',
            )

    def closed(self, piece: bytes) -> bool:
        return bool(end_of_line(piece))

    def read(self, piece: bytes, number: int, names: tuple[str, ...]) -> Record | None:
        """The record on a piece; None if it is blank or the header."""
        if number == 1 or not piece.strip(b"\r\n"):
            return None
        written = self._fields(piece, number)
        if len(written) != len(self._header):
            raise self.refusal(
                number,
                f"has {len(written)} fields, the header has {len(self._header)}",
                "mend the record; a field with the delimiter in it needs quotes",
            )
        fields = dict(zip(self._header, written, strict=True))
        for name in names:
            if name not in fields:
                cure = column_cure(name, self._header)
                raise self.refusal(1, f"has no column {name!r}", cure)
        record = {name: _value(field) for name, field in fields.items()}
        bare = {name: not fields[name].startswith('"') for name in names}
        return record, [Slot((name,), record[name], bare[name]) for name in names]

    def render(self, text: str) -> bytes:
        values = self.shape.values(text)
        out = io.StringIO()
        writer = csv.writer(out, delimiter=self.delimiter, lineterminator=self.newline.decode())
        writer.writerow([values.get(name, "") for name in self.columns])
        return out.getvalue().encode("utf-8")

    def needs_quotes(self, texts: Sequence[str]) -> bool:
        special = {'"', self.delimiter, "\n", "\r"}
        return any(special & set(text) for text in texts)

    def edit(self, piece: bytes, edits: Sequence[Edit]) -> bytes:
        fields = self._fields(piece, 0)
        for column, name in enumerate(self._header):
            mine = [edit for edit in edits if edit.path == (name,)]
            if mine:
                quoted = fields[column].startswith('"')
                text = edit_text(_value(fields[column]), mine)
                fields[column] = '"' + text.replace('"', '""') + '"' if quoted else text
        return self.delimiter.join(fields).encode("utf-8") + end_of_line(piece)

    def _fields(self, piece: bytes, number: int) -> list[str]:
        """The fields of a record as they are written, quotes included."""
        text = decode(piece, self.path, number, what="CSV")
        text = text[: len(text) - len(end_of_line(piece))]
        if '"' not in text and "\r" not in text:
            return text.split(self.delimiter)
        field = re.compile(rf'("[^"]*(?:""[^"]*)*"|[^"{self.delimiter}\r\n]*)({self.delimiter}|\Z)')
        fields, at, more = [], 0, True
        while more:
            match = field.match(text, at)
            if match is None:
                raise self.refusal(
                    number,
                    "has a quote or a carriage return where none may be",
                    "put the whole field into quotes and double each quote within it",
                )
            fields.append(match[1])
            at, more = match.end(), bool(match[2])
        return fields

    def _names(self, piece: bytes, number: int) -> tuple[str, ...]:
        names = tuple(map(_value, self._fields(piece, number)))
        if len({*names}) < len(names) or not any(names):
            raise self.refusal(
                number,
                "the first line is not a header of different column names",
                "put the names of the columns into the first line",
            )
        return names


def _value(written: str) -> str:
    return written[1:-1].replace('""', '"') if written.startswith('"') else written


class TsvRows(CsvRows):
    """The same with tabs."""

    endings = (".tsv",)
    delimiter = "\t"


class PlainText(LineCorpus):
    """One document on each line, in a column called ``text``; blank lines pass through."""

    endings = (".txt", ".text")
    # No newline: it would end the document. A space on both sides is what is left.
    separators = (" ", " ")

    def read(self, piece: bytes, number: int, names: tuple[str, ...]) -> Record | None:
        text = decode(piece, self.path, number, what="text")
        text = text[: len(text) - len(end_of_line(piece))]
        if not text.strip():
            return None
        if names != ("text",):
            raise self.refusal(
                number,
                f"a text file has one column, 'text', not {', '.join(names)!r}",
                "leave the column out",
            )
        return {"text": text}, [Slot(names, text)]

    def render(self, text: str) -> bytes:
        if not text.strip():
            raise CorpusError(
                "a canary is blank, as a line of text would be no document",
                cure="put fixed text into its format",
                where=self.source,
            )
        return text.encode("utf-8") + self.newline

    def check_texts(self, texts: Sequence[str]) -> None:
        if any("\n" in text or text.endswith("\r") or text[:1] == "\ufeff" for text in texts):
            raise CorpusError(
                "a canary or a separator holds an end of line, which ends a document of text, or "
                "begins with a byte order mark",
                cure="use formats and separators without, or a corpus of JSON lines",
                where=self.source,
            )

    def edit(self, piece: bytes, edits: Sequence[Edit]) -> bytes:
        end = end_of_line(piece)
        text = piece[: len(piece) - len(end)].decode("utf-8")
        return edit_text(text, edits).encode("utf-8") + end
