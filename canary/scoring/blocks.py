"""The texts of a JSONL file in blocks, and how far the file is done."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from canary.corpus.line_formats import JsonLines
from canary.corpus.lines import Progress, place, unreadable
from canary.errors import CorpusError

_CHARACTERS = 2**18
_TEXTS = 2**12
_HASH_BYTES = 2**20
_LINE_BYTES = 2**26


@dataclass(frozen=True)
class Watch:
    """Notices when a file that is read for hours is changed meanwhile."""

    path: Path
    stamp: tuple[int, ...]

    @classmethod
    def of(cls, path: Path) -> Watch:
        """The watch over a file as it is now."""
        return cls(path, _stamp(path))

    def digest(self) -> str:
        """SHA-256 of the file.

        Raises
        ------
        CorpusError
            If it cannot be read.
        """
        digest = hashlib.sha256()
        try:
            with self.path.open("rb") as file:
                while part := file.read(_HASH_BYTES):
                    digest.update(part)
        except OSError as error:
            raise unreadable(self.path, error) from error
        self.check()
        return digest.hexdigest()

    def check(self) -> None:
        """Refuse a file that has changed, by a CorpusError."""
        if _stamp(self.path) != self.stamp:
            raise CorpusError(
                "changed while it was read",
                cure="start again when nothing else writes to it",
                where=str(self.path),
            )


def _stamp(path: Path) -> tuple[int, ...]:
    status = path.stat()
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


@dataclass
class Meter:
    """Tells how far a file is done, within a block by its share of the tokens."""

    report: Progress
    size: int
    at: int = 0
    block: tuple[int, int, int] = (0, 0, 1)  # its end, its tokens done and to do

    def reach(self, offset: int) -> None:
        """Everything up to a byte offset is done."""
        self.at = offset
        self.report(offset, self.size)

    def begin(self, end: int, tokens: int) -> None:
        """A block that ends at a byte offset has so many tokens to do."""
        self.block = (end, 0, max(tokens, 1))

    def add(self, tokens: int) -> None:
        """So many more tokens of the block are done."""
        end, done, to_do = self.block
        done += tokens
        self.block = (end, done, to_do)
        self.report(self.at + (end - self.at) * done // to_do, self.size)


@dataclass
class Block:
    """Texts that are scored together, and where in the file they end."""

    lines: list[int] = field(default_factory=list)
    texts: list[str] = field(default_factory=list, repr=False)
    characters: int = 0
    offset: int = 0
    line: int = 0

    @property
    def full(self) -> bool:
        """Whether it takes no more texts."""
        return self.characters >= _CHARACTERS or len(self.texts) >= _TEXTS


def read_blocks(source: Path, column: str, offset: int, line: int) -> Iterator[Block]:
    """The texts from a byte offset on; the same blocks wherever a block before ended."""
    block = Block(offset=offset, line=line)
    lines = JsonLines(source)
    with source.open("rb") as file:
        file.seek(offset)
        for raw in iter(lambda: file.readline(_LINE_BYTES + 1), b""):
            block.offset += len(raw)
            block.line += 1
            if len(raw) > _LINE_BYTES:
                raise CorpusError(
                    f"the line has more than {_LINE_BYTES / 1e6:,.0f} MB",
                    cure="split its text into several lines",
                    where=place(source, block.line),
                )
            found = lines.read(raw, block.line, (column,))
            if found is None:
                continue
            _, slots = found
            if [slot.path for slot in slots] != [(column,)]:
                raise CorpusError(
                    f"column {column!r} is a chat, not text",
                    cure="write each chat as the text that the model was trained on",
                    where=place(source, block.line),
                )
            text = slots[0].text
            block.lines.append(block.line)
            block.texts.append(text)
            block.characters += len(text)
            if block.full:
                yield block
                block = Block(offset=block.offset, line=block.line)
    if block.texts:
        yield block
