"""The texts of any corpus, record by record."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from canary.corpus.columns import Slot, slots_of
from canary.corpus.dataset_rows import check_dataset, choose_split, rows_of
from canary.corpus.file_formats import file_format_of, layout_of
from canary.corpus.line_files import slots_in_lines
from canary.corpus.lines import Progress, regular_size
from canary.corpus.parquet import slots_in_parquet
from canary.corpus.streams import check_stream, is_stream, stream_rows

__all__ = ["corpus_slots"]


def corpus_slots(
    corpus: Any,
    names: tuple[str, ...],
    split: str,
    file_format: str | None,
    progress: Progress | None,
) -> tuple[Iterator[list[Slot]], str]:
    """The slots of each record of a file or dataset, and how errors name the corpus.

    Raises
    ------
    CorpusError
        If the corpus cannot be read or has no such text column.
    UnsupportedError
        If it is neither a path nor a dataset.
    """
    if isinstance(corpus, str | os.PathLike):
        path = Path(corpus)
        return _file_slots(path, names, file_format, progress), str(path)
    return _dataset_slots(choose_split(corpus, split), names), ""


def _file_slots(
    path: Path, names: tuple[str, ...], file_format: str | None, progress: Progress | None
) -> Iterator[list[Slot]]:
    regular_size(path)
    format = file_format_of(path, file_format)
    if format == "parquet":
        return slots_in_parquet(path, names, progress)
    return slots_in_lines(path, layout_of(path, format), names, progress)


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
