"""Are the canaries in a corpus, each as often as it should be?"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from canary.corpus.canaries import CanarySet
from canary.corpus.jsonl import Progress, parse_line, read_lines, regular_size, text_of
from canary.corpus.tables import check_dataset
from canary.errors import CorpusError

if TYPE_CHECKING:
    from datasets import Dataset

__all__ = ["Count", "Verification", "verify"]

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
    """

    id: str
    expected: int
    found: int


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
    """

    canaries: tuple[Count, ...]
    column: str
    records: int

    @property
    def ok(self) -> bool:
        """Whether every canary was found as often as expected, and no control at all."""
        return not self.departures

    @property
    def departures(self) -> tuple[Count, ...]:
        """The canaries that were not found as often as expected."""
        return tuple(count for count in self.canaries if count.found != count.expected)

    def summary(self) -> str:
        """A few lines for a terminal, with ids and no secrets."""
        searched = f"{len(self.canaries):,} canaries and controls in {self.records:,} records"
        if self.ok:
            return f"{searched}: each found as often as expected"
        departures = self.departures
        lines = [f"{searched}: {len(departures):,} not found as often as expected"]
        shown = departures[:_SHOWN]
        width = max(len(count.id) for count in shown)
        lines += [
            f"  {count.id:<{width}}  expected {count.expected:,}, found {count.found:,}"
            for count in shown
        ]
        if len(departures) > _SHOWN:
            lines.append(f"  and {len(departures) - _SHOWN:,} more")
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """The result as plain data, without secrets."""
        return {
            "ok": self.ok,
            "column": self.column,
            "records": self.records,
            "canaries": [asdict(count) for count in self.canaries],
        }


def verify(
    corpus: str | os.PathLike[str] | Dataset,
    canaries: CanarySet,
    *,
    column: str = "text",
    progress: Progress | None = None,
) -> Verification:
    """Count how often each canary's text occurs in a column of a corpus.

    Parameters
    ----------
    corpus : path-like or datasets.Dataset
        A file of JSON lines, read as a stream, or a dataset.
    canaries : CanarySet
        What to look for. A control that is found, a canary that is found more or less
        often than it was injected: each is a departure in the result.
    column : str
        The text column to search; occurrences within longer texts count.
    progress : callable, optional
        ``progress(done_bytes, total_bytes)`` while a file is read.

    Returns
    -------
    Verification

    Raises
    ------
    CorpusError
        If the corpus cannot be read or has no such text column, or if it is empty.
    UnsupportedError
        If `corpus` is neither a path nor a `datasets.Dataset`.
    """
    if isinstance(corpus, str | os.PathLike):
        path = Path(corpus)
        texts, where = _file_texts(path, column, progress), str(path)
    else:
        check_dataset(corpus, column)
        texts, where = _dataset_texts(corpus, column), ""
    records, found = _count(texts, {canaries.text(canary): canary.id for canary in canaries})
    if records == 0:
        raise CorpusError("holds no record", cure="name a corpus with at least one", where=where)
    return Verification(
        canaries=tuple(
            Count(canary.id, canary.repetitions, found[canary.id]) for canary in canaries
        ),
        column=column,
        records=records,
    )


def _count(texts: Iterable[str], names: dict[str, str]) -> tuple[int, Counter[str]]:
    """Number of texts, and occurrences in them of each key of `names`, by name.

    Occurrences may overlap. No key lies within another (`CanarySet` sees to that), so at
    most one begins at a place, and looking on from the next place misses none.
    """
    search = re.compile("|".join(map(re.escape, names))).search
    found: Counter[str] = Counter()
    records = 0
    for text in texts:
        records += 1
        match = search(text)
        while match:
            found[names[match[0]]] += 1
            match = search(text, match.start() + 1)
    return records, found


def _file_texts(path: Path, column: str, progress: Progress | None) -> Iterator[str]:
    size = regular_size(path)
    for number, line in read_lines(path, progress=progress, total=size):
        record = parse_line(line, path, number)
        if record is not None:
            yield text_of(record, column, path, number)


def _dataset_texts(dataset: Dataset, column: str) -> Iterator[str]:
    """The texts of a column; a row without one counts as an empty text."""
    for batch in dataset.select_columns([column]).with_format(None).iter(batch_size=1000):
        for text in batch[column]:
            yield text or ""
