"""Are the canaries in a corpus, each as often as it should be?"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from canary.corpus.canaries import CanarySet
from canary.corpus.causes import likely_causes
from canary.corpus.columns import Column, column_names, copies_in
from canary.corpus.lines import Progress
from canary.corpus.occurrences import find_canaries
from canary.corpus.own_tokens import OwnTokens
from canary.corpus.slots import corpus_slots
from canary.corpus.tables import SPLIT
from canary.errors import CorpusError, InputError, RecordError
from canary.records.document import load_document
from canary.records.fields import from_fields
from canary.records.sealing import sealed
from canary.statistics.numbers import clean

__all__ = ["KIND", "SCHEMA", "Count", "Verification", "verify"]

KIND = "canary verify"
SCHEMA = 1

_SHOWN = 20
"""Departures that a summary lists."""


@dataclass(frozen=True)
class Count:
    """How often one canary occurs.

    Parameters
    ----------
    id : str
        Ordinal id.
    expected : int
        Copies that were to be injected; 0 for a control.
    found : int
        Occurrences of the candidate's text.
    intact : int or None
        Those that have the canary's own tokens; None if no tokenizer was given.
    """

    id: str
    expected: int
    found: int
    intact: int | None = None

    @property
    def ok(self) -> bool:
        """Whether it was found as often as expected, and every copy with its own tokens."""
        return self.found == self.expected and self.intact in (None, self.found)


@dataclass(frozen=True)
class Verification:
    """Occurrences of every canary of a set in a corpus.

    Parameters
    ----------
    canaries : tuple of Count
        In the order of the canary set.
    column : str
        The column that was searched.
    records : int
        Records that were searched.
    formats : tuple of str
        The formats of the canary set; none where an earlier version wrote it.
    causes : tuple of str
        What has probably happened to the corpus, where there are departures that point to it.
    """

    canaries: tuple[Count, ...]
    column: str
    records: int
    formats: tuple[str, ...] = ()
    causes: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether every canary was found as expected, whole, and no control at all."""
        return not self.departures

    @property
    def departures(self) -> tuple[Count, ...]:
        """The canaries that were not found as often as expected, or not with their tokens."""
        return tuple(count for count in self.canaries if not count.ok)

    def summary(self) -> str:
        """A few lines for a terminal, with ids and no secrets."""
        if self.ok:
            return f"{_number(self.records, 'record')}: {self._as_expected()}"
        searched = f"{len(self.canaries):,} canaries and controls in {self.records:,} records"
        departures = self.departures
        lines = [f"{searched}: {len(departures):,} not found as often as expected"]
        if all(count.found == count.expected for count in departures):
            lines = [f"{searched}: {len(departures):,} found with other tokens than their own"]
        shown = departures[:_SHOWN]
        names = [clean(count.id) for count in shown]
        width = max(map(len, names))
        lines += [
            f"  {name:<{width}}  expected {count.expected:,}, found {count.found:,}"
            + ("" if count.intact is None else f", {count.intact:,} with its own tokens")
            for name, count in zip(names, shown, strict=True)
        ]
        if len(departures) > _SHOWN:
            lines.append(f"  and {len(departures) - _SHOWN:,} more")
        lines += [f"likely cause: {clean(cause)}" for cause in self.causes]
        return "\n".join(lines)

    def _as_expected(self) -> str:
        """What was found where everything is as it should be."""
        found = [count for count in self.canaries if count.expected]
        absent = len(self.canaries) - len(found)
        told = []
        if found:
            copies = _number(sum(count.found for count in found), "copy", "copies")
            whole = ", each with its own tokens" if found[0].intact is not None else ""
            told.append(f"{_number(len(found), 'canary', 'canaries')} ({copies}) found{whole}")
        if absent:
            told.append(f"{_number(absent, 'control')} absent")
        return "; ".join(told)

    def to_dict(self) -> dict[str, Any]:
        """The result as plain data, without secrets."""
        return {
            "ok": self.ok,
            "column": self.column,
            "records": self.records,
            "formats": list(self.formats),
            "causes": list(self.causes),
            "canaries": [
                {key: value for key, value in asdict(count).items() if value is not None}
                for count in self.canaries
            ],
        }

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Verification:
        """Read what ``canary verify --json`` printed.

        Raises
        ------
        RecordError
            If the file is missing, damaged or of another kind.
        """
        document = load_document(path, KIND, SCHEMA)
        try:
            counts = tuple(from_fields(Count, count) for count in document["canaries"])
            formats = tuple(map(str, document.get("formats", ())))
            causes = tuple(map(str, document.get("causes", ())))
            return cls(counts, str(document["column"]), int(document["records"]), formats, causes)
        except (KeyError, TypeError, ValueError) as error:
            raise RecordError(
                f"is not a whole verification ({type(error).__name__}: {error})",
                cure="run canary verify --json again",
                where=str(Path(path)),
            ) from error


def _number(count: int, one: str, several: str = "") -> str:
    return f"{count:,} {one if count == 1 else several or one + 's'}"


@sealed
def verify(
    corpus: Any,
    canaries: CanarySet,
    *,
    column: Column = "text",
    split: str = SPLIT,
    file_format: str | None = None,
    tokenizer: Any = None,
    context: str = "",
    progress: Progress | None = None,
) -> Verification:
    """Count how often each canary's text occurs in a column of a corpus.

    Parameters
    ----------
    corpus : path-like, or what `inject` takes
        A file, read as a stream, or a dataset.
    canaries : CanarySet
        What to look for. A control that is found, a canary that is found more or less
        often than it was injected: each is a departure in the result.
    column : str or pair of str
        The column to search; occurrences within longer texts count. In a parallel pair a
        copy counts that stands in both columns.
    split : str
        Which split of a dictionary of splits.
    file_format : str, optional
        As for `inject_file`.
    tokenizer : tokenizer or path, optional
        That of the training. With it each copy is tokenized in the text around it, and
        compared with the tokens under which the canary will be scored.
    context : str
        What the audit will be given as context. For spliced canaries the separator that
        stands before them.
    progress : callable, optional
        ``progress(done_bytes, total_bytes)`` while a file is read.

    Returns
    -------
    Verification

    Raises
    ------
    CorpusError
        If the corpus cannot be read or has no such text column, or if it is empty.
    ModelError
        If a text with a canary in it cannot be tokenized.
    UnsupportedError
        If `corpus` is neither a path nor a dataset.
    """
    names = column_names(column)
    if canaries.natural:
        raise InputError(
            "these secrets were found, not injected: no number of copies is expected",
            cure="count them with discover",
        )
    records, where = corpus_slots(corpus, names, split, file_format, progress)
    find = find_canaries(canaries, canaries)
    own = None if tokenizer is None else OwnTokens(canaries, tokenizer, context)
    found: Counter[str] = Counter()
    intact: Counter[str] = Counter()
    count = 0
    for slots in records:
        count += 1
        here = copies_in(slots, names, lambda some: find.count(slot.text for slot in some))
        if here:
            found.update(here)
            if own is not None:
                intact.update(copies_in(slots, names, own.count))
    if count == 0:
        raise CorpusError("holds no record", cure="name a corpus with at least one", where=where)
    again, _ = corpus_slots(corpus, names, split, file_format, None)
    return Verification(
        canaries=tuple(
            Count(
                canary.id,
                canary.repetitions,
                found[canary.id],
                None if own is None else intact[canary.id],
            )
            for canary in canaries
        ),
        column=", ".join(names),
        records=count,
        formats=tuple(format.text for format in canaries.formats),
        causes=likely_causes(again, canaries, found),
    )
