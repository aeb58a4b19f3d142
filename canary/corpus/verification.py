"""Are the canaries in a corpus, each as often as it should be?"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from canary.corpus.canaries import CanarySet
from canary.corpus.columns import Column, Slot, column_names, copies_in, slots_of
from canary.corpus.jsonl import Progress, parse_line, read_lines, regular_size, text_of
from canary.corpus.occurrences import find_canaries
from canary.corpus.streams import check_stream, is_stream, stream_rows
from canary.corpus.tables import SPLIT, check_dataset, choose_split, rows_of
from canary.errors import CorpusError

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
    corpus: Any,
    canaries: CanarySet,
    *,
    column: Column = "text",
    split: str = SPLIT,
    progress: Progress | None = None,
) -> Verification:
    """Count how often each canary's text occurs in a column of a corpus.

    Parameters
    ----------
    corpus : path-like, or what `inject` takes
        A file of JSON lines, read as a stream, or a dataset.
    canaries : CanarySet
        What to look for. A control that is found, a canary that is found more or less
        often than it was injected: each is a departure in the result.
    column : str or pair of str
        The column to search; occurrences within longer texts count. In a parallel pair a
        copy counts that stands in both columns.
    split : str
        Which split of a dictionary of splits.
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
        If `corpus` is neither a path nor a dataset.
    """
    names = column_names(column)
    where = ""
    if isinstance(corpus, str | os.PathLike):
        path = Path(corpus)
        records, where = _file_slots(path, names, progress), str(path)
    else:
        records = _dataset_slots(choose_split(corpus, split), names)
    find = find_canaries(canaries, canaries)
    found: Counter[str] = Counter()
    count = 0
    for slots in records:
        count += 1
        found.update(copies_in(slots, names, find))
    if count == 0:
        raise CorpusError("holds no record", cure="name a corpus with at least one", where=where)
    return Verification(
        canaries=tuple(
            Count(canary.id, canary.repetitions, found[canary.id]) for canary in canaries
        ),
        column=", ".join(names),
        records=count,
    )


def _file_slots(
    path: Path, names: tuple[str, ...], progress: Progress | None
) -> Iterator[list[Slot]]:
    size = regular_size(path)
    for number, line in read_lines(path, progress=progress, total=size):
        record = parse_line(line, path, number)
        if record is not None:
            for name in names:
                text_of(record, name, path, number)
            yield slots_of(record, names)


def _dataset_slots(dataset: Any, names: tuple[str, ...]) -> Iterator[list[Slot]]:
    """The slots of each row; a row without a text counts as empty."""
    if is_stream(dataset):
        check_stream(dataset, names)
        rows = stream_rows(dataset, names)
    else:
        check_dataset(dataset, names)
        rows = rows_of(dataset, names)
    for row in rows:
        yield slots_of(row, names)
