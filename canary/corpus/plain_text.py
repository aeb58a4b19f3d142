"""Corpora as plain text: one document on each line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from canary.corpus.columns import Edit, Shape, Slot, edit_text
from canary.corpus.lines import decode, end_of_line, place
from canary.errors import CorpusError

__all__ = ["PlainText"]

_COLUMN = "text"


@dataclass(frozen=True)
class PlainText:
    """One document on each line, in a column called ``text``; blank lines pass through."""

    path: Path
    head: int = 0
    by_line: bool = True
    # No newline: it would end the document. A space on both sides is what is left.
    separators: tuple[str, str] = (" ", " ")

    def pieces(self, lines: Iterator[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
        """The lines."""
        return lines

    def read(self, piece: bytes, number: int) -> dict[str, Any] | None:
        """The document on a line, or None if the line is blank."""
        text = decode(piece, self.path, number, what="text")
        text = text[: len(text) - len(end_of_line(piece))]
        return {_COLUMN: text} if text.strip() else None

    def slots(self, record: Mapping[str, Any], names: tuple[str, ...], number: int) -> list[Slot]:
        """The document."""
        if names != (_COLUMN,):
            raise CorpusError(
                f"a text file has one column, {_COLUMN!r}, not {', '.join(names)!r}",
                cure="leave the column out",
                where=place(self.path, number),
            )
        return [Slot((_COLUMN,), record[_COLUMN])]

    def render(self, columns: Sequence[str], shape: Shape, text: str, newline: bytes) -> bytes:
        """A line."""
        self.needs_quotes([text])
        if not text.strip():
            raise CorpusError(
                "a canary is blank, as a line of text would be no document",
                cure="put fixed text into its format",
                where=str(self.path),
            )
        return text.encode("utf-8") + newline

    def needs_quotes(self, texts: Sequence[str]) -> bool:
        """No, but no text may end the line."""
        if any("\n" in text or text.endswith("\r") for text in texts):
            raise CorpusError(
                "a canary or a separator holds an end of line, which ends a document of text",
                cure="use formats and separators without one, or a corpus of JSON lines",
                where=str(self.path),
            )
        return False

    def quoted(self, piece: bytes, names: tuple[str, ...]) -> bool:
        """Yes."""
        return True

    def edit(self, piece: bytes, edits: Sequence[Edit]) -> bytes:
        """The line with `edits` made."""
        end = end_of_line(piece)
        text = piece[: len(piece) - len(end)].decode("utf-8")
        return edit_text(text, edits).encode("utf-8") + end
