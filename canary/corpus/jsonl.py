"""Corpora as JSON lines, checked line by line and changed within them."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from canary.corpus.columns import Edit, Slot, is_chat, slots_of
from canary.corpus.line_corpus import LineCorpus, Record
from canary.corpus.lines import decode
from canary.errors import CorpusError

# Numbers are not needed, and int() refuses thousands of digits, which JSON allows.
_DECODER = json.JSONDecoder(parse_int=float)

_BLANK = " \t\r\n"
_SPACE = re.compile(r"[ \t\r\n]*")

# One escaped character of a string as it is written; two escapes may be one character.
_ESCAPED = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\."
)


class JsonLines(LineCorpus):
    """One JSON object on each line; blank lines pass through."""

    endings = (".jsonl", ".ndjson", ".json")

    def read(self, piece: bytes, number: int, names: tuple[str, ...]) -> Record | None:
        """The object on a line, of which numbers are not exact, and its texts or chats."""
        text = decode(piece, self.path, number, what="JSON lines")
        record: Any = None
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
            raise CorpusError(
                f"is {_name(record)}, not a JSON object",
                cure="write one JSON object on each line",
                where=self.place(number),
            )
        if len(names) == 1 and isinstance(value := record.get(names[0]), str):  # nearly always
            return record, [Slot(names, value)]
        for name in names:
            if name not in record:
                raise CorpusError(
                    f"has no column {name!r}", cure=_choices(list(record)), where=self.place(number)
                )
            value = record[name]
            if not isinstance(value, str) and not is_chat(value):
                raise CorpusError(
                    f"column {name!r} is {_name(value)}, not text",
                    cure="name a column of texts, or mend the line",
                    where=self.place(number),
                )
        return record, slots_of(record, names)

    def _decode(self, text: str, number: int) -> Any:
        where = self.place(number)
        if text.startswith("\ufeff"):
            raise CorpusError(
                "begins with a byte order mark", cure="save the corpus without one", where=where
            )
        try:
            return _DECODER.decode(text)
        except RecursionError as error:
            raise CorpusError("is nested too deeply", cure="mend the line", where=where) from error
        except json.JSONDecodeError as error:
            raise CorpusError(
                f"is not valid JSON ({error.msg} at column {error.colno})",
                cure="mend the line; a corpus holds one JSON object on each",
                where=where,
            ) from error

    def render(self, text: str) -> bytes:
        values = {**dict.fromkeys(self.columns), **self.shape.values(text)}
        return json.dumps(values).encode("ascii") + self.newline

    def edit(self, piece: bytes, edits: Sequence[Edit]) -> bytes:
        text = piece.decode("utf-8")
        found = [(_locate(text, edit.path) + 1, edit) for edit in edits]
        # From the end, so that what is still to be edited stays where it is.
        found.sort(key=lambda item: (item[0], item[1].start), reverse=True)
        for begin, edit in found:
            start, stop = _written(text, begin, edit.start), _written(text, begin, edit.stop)
            text = text[:start] + json.dumps(edit.new)[1:-1] + text[stop:]
        return text.encode("utf-8")


def _locate(text: str, path: Sequence[str | int]) -> int:
    """Where the value at `path` begins in the text of a JSON object that was read before."""
    at = _skip(text, 0)
    for key in path:
        wanted: int | None = None
        index = 0
        at = _skip(text, at + 1)
        while text[at] not in "}]":
            name: str | int = index
            if isinstance(key, str):
                name, at = _DECODER.raw_decode(text, at)
                at = _skip(text, _skip(text, at) + 1)
            if name == key:
                wanted = at  # of equal keys the last counts
            at = _skip(text, _DECODER.raw_decode(text, at)[1])
            if text[at] == ",":
                at = _skip(text, at + 1)
            index += 1
        assert wanted is not None
        at = wanted
    return at


def _skip(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at


def _written(text: str, at: int, characters: int) -> int:
    """Where a string that is written from `at` on has given some characters."""
    while True:
        stop = at + characters
        escape = text.find("\\", at, stop)
        if escape < 0:
            return stop
        match = _ESCAPED.match(text, escape)
        assert match is not None
        characters = stop - escape - 1
        at = match.end()


def _choices(keys: list[str]) -> str:
    """Which columns there are; their names come from the corpus and may be anything."""
    if not keys:
        return "the record is empty: mend the line"
    shown = ", ".join(repr(key if len(key) <= 30 else key[:29] + "…") for key in keys[:8])
    return f"name one of {shown}{', …' * (len(keys) > 8)}"


def _name(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true or false"
    return {str: "text", float: "a number", list: "a list", dict: "an object"}[type(value)]
