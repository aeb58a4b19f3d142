"""One way through corpora of every kind: their texts in order, and a copy with changes.

A corpus is read by `Corpus.iterate` and copied by `Corpus.rewrite`, which puts in records,
changes texts and leaves records out. Injecting, stripping, verifying and discovering know no
more than that.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from canary.corpus.columns import Beside, Edit, Shape, Slot
from canary.corpus.lines import regular_size
from canary.errors import CorpusError
from canary.records.progress import Advance, Progress, stage

Position = int | bytes
"""Of a record: its number from 0, or in a stream a digest of its content."""

Specials = Mapping[str, int]
"""How often each special token of a tokenizer is in a corpus, by its name in quotes."""

Decide = Callable[
    [Position, list[Slot], Callable[[Position], Mapping[str, Any]]], list[Edit] | None
]
"""What becomes of a record: edits of its texts, none of them, or None to leave it out.

It gets the record's position, its texts, and a function from positions to whole records.
"""


@dataclass(frozen=True)
class Edits:
    """How a copy of a corpus differs from it.

    Parameters
    ----------
    inserts : mapping of position to sequence of str
        Texts of records of their own, which go before the record there (in a stream behind it).
    decide : callable, optional
        From a position, its texts and a function that reads whole records, to edits of the
        texts; None leaves the record out.
    at : collection of positions, optional
        The records that `decide` is asked about; all unless given.
    """

    inserts: Mapping[Position, Sequence[str]] = field(default_factory=dict, repr=False)
    decide: Decide | None = None
    at: Collection[Position] | None = None

    @property
    def texts(self) -> list[str]:
        """The different texts that are inserted, in their order."""
        return list({text: 0 for texts in self.inserts.values() for text in texts})

    def asks(self, position: Position) -> bool:
        """Whether there is a decision on the record at a position."""
        return self.decide is not None and (self.at is None or position in self.at)


class Corpus(ABC):
    """Records with texts: what injecting, stripping, verifying and discovering work on.

    A subclass has `iterate` and `rewrite`. Files inherit from `FileCorpus` or `LineCorpus`.

    Attributes
    ----------
    shape : Shape
        The columns with the texts, whether they hold chats, and what goes beside a canary.
    rows, last : int
        Records and blank lines, and the last position before which a record can be put in;
        known once `iterate` or `count` has seen all.
    source : str
        Its name in errors.
    """

    separators: ClassVar[tuple[str, str]] = ("\n", " ")
    """What is around a spliced canary unless it is said otherwise.

    A newline before keeps the canary's first token what it is at the start of a text; a
    space after does not join a full stop, as a newline does in some tokenizers.
    """
    shape: Shape
    rows: int
    last: int
    source: str = ""

    @abstractmethod
    def iterate(self) -> Iterator[tuple[Position, int, list[Slot]]]:
        """Position, number for `place`, and texts of each record.

        A CorpusError if a record is damaged or has no text in the columns.
        """

    def count(self) -> None:
        """Find `rows` and `last` without a look at the records."""
        for _ in self.iterate():
            pass

    def empty(self) -> tuple[str, ...]:
        """Columns that have text in the first record and none in a canary's own."""
        return ()

    @abstractmethod
    def rewrite(self, edits: Edits, out: Any = None) -> Any:
        """Copy the corpus with edits; whatever is not touched stays as it was.

        A file is written to `out`, a binary file; any other corpus gives the new dataset.
        """

    def place(self, number: int) -> str:
        """A record, as errors name it."""
        return f"{self.source}: row {number}" if self.source else f"row {number}"

    def check_texts(self, texts: Sequence[str]) -> None:  # noqa: B027
        """A CorpusError if the corpus cannot hold one of `texts`.

        They are those of the canaries' own records, or what is spliced, separators included.
        """

    def needs_quotes(self, texts: Sequence[str]) -> bool:
        """Whether some of `texts` can be spliced into quoted fields only."""
        return False

    def decided(
        self,
        edits: Edits,
        position: Position,
        number: int,
        slots: list[Slot],
        record: Callable[[Position], Mapping[str, Any]],
    ) -> list[Edit] | None:
        """What `edits` decide on a record; their errors name the record."""
        assert edits.decide is not None
        try:
            return edits.decide(position, slots, record)
        except CorpusError as error:
            error.where = error.where or self.place(number)
            raise


class FileCorpus(Corpus):
    """A corpus in one file. A subclass has `look`, `iterate` and `rewrite`.

    Parameters
    ----------
    path : Path
    names : tuple of str
        The column with the texts, or the two of a parallel pair.
    beside : tuple of (str, str)
        Other columns of a canary's own record, and their texts.
    progress : callable or bool, optional
        Called with the bytes that `passes` over the file take.
    passes : int
    """

    endings: ClassVar[tuple[str, ...]] = ()
    """Of the names of such files."""
    compressible: ClassVar[bool] = True
    """Whether such a file may be compressed as a whole."""
    companion: ClassVar[str] = ""
    """The ending of a second file that goes with it; `rewrite` gets both to write then."""

    columns: tuple[str, ...] = ()
    """Those of the first record, as far as it has names for them."""
    tokenizer: Any = None
    """The one that made a corpus of token ids."""
    pad: str | None = None
    """The token that fills up the blocks of such a corpus."""
    length: int | None = None
    """Of such blocks."""

    def __init__(
        self,
        path: Path,
        names: tuple[str, ...] = ("text",),
        *,
        beside: Beside = (),
        progress: Progress = None,
        passes: int = 1,
    ) -> None:
        self.path, self.names, self.beside = path, names, beside
        self.source = str(path)
        self._progress, self._passes, self._pass = progress, passes, 0
        self._advance: Advance | None = None
        self._reported = 0  # bytes

    @abstractmethod
    def look(self) -> None:
        """Find out `shape`; a CorpusError if there is no record or no such text."""

    def specials(self) -> Specials:
        """Of blocks of token ids: which special tokens they have, `pad` alone if it is there."""
        return {}

    @cached_property
    def stamp(self) -> tuple[int, ...]:
        """The size of the file at the first look, and what else changes when it is changed."""
        regular_size(self.path)
        return self._stamp()

    def check_unchanged(self) -> None:
        """Refuse a file that has changed since the first look, by a CorpusError."""
        if self._stamp() != self.stamp:
            raise CorpusError(
                "changed while it was read",
                cure="start again when nothing else writes to it",
                where=self.source,
            )

    def _stamp(self) -> tuple[int, ...]:
        status = self.path.stat()
        return status.st_size, status.st_mtime_ns, status.st_ino, status.st_dev

    def report(self, done: int, of: int) -> None:
        """Report how far this pass is."""
        if self._pass > self._passes:
            return
        size = self.stamp[0]
        if self._advance is None:
            self._advance = stage(self._progress, self.path.name, size * self._passes, "B")
        reached = size * (self._pass - 1) + size * done // max(of, 1)
        self._advance(reached - self._reported)
        self._reported = reached
