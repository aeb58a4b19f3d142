"""Corpora as plain text: one document on each line."""

from __future__ import annotations

from collections.abc import Sequence

from canary.corpus.columns import Edit, Slot, edit_text
from canary.corpus.line_corpus import LineCorpus, Record
from canary.corpus.lines import decode, end_of_line
from canary.errors import CorpusError

_COLUMN = "text"


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
        if names != (_COLUMN,):
            raise CorpusError(
                f"a text file has one column, {_COLUMN!r}, not {', '.join(names)!r}",
                cure="leave the column out",
                where=self.place(number),
            )
        return {_COLUMN: text}, [Slot((_COLUMN,), text)]

    def render(self, text: str) -> bytes:
        self.holds_special([text])
        if not text.strip():
            raise CorpusError(
                "a canary is blank, as a line of text would be no document",
                cure="put fixed text into its format",
                where=self.source,
            )
        return text.encode("utf-8") + self.newline

    def holds_special(self, texts: Sequence[str]) -> bool:
        if any("\n" in text or text.endswith("\r") for text in texts):
            raise CorpusError(
                "a canary or a separator holds an end of line, which ends a document of text",
                cure="use formats and separators without one, or a corpus of JSON lines",
                where=self.source,
            )
        return False

    def edit(self, piece: bytes, edits: Sequence[Edit]) -> bytes:
        end = end_of_line(piece)
        text = piece[: len(piece) - len(end)].decode("utf-8")
        return edit_text(text, edits).encode("utf-8") + end
