"""Which corpus something is: a file by its ending or as it is said, a dataset, a stream."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from canary.corpus.columns import Column, check_beside, column_names
from canary.corpus.compression import compression_of, open_writer
from canary.corpus.corpora import Corpus, FileCorpus
from canary.corpus.csv_rows import CsvRows, TsvRows
from canary.corpus.dataset_rows import DatasetRows
from canary.corpus.jsonl import JsonLines
from canary.corpus.lines import Progress, regular_size
from canary.corpus.parquet import ParquetRows
from canary.corpus.plain_text import PlainText
from canary.corpus.streams import StreamRows
from canary.errors import CorpusError, InputError, OutputError
from canary.records.files import atomic_writer
from canary.records.overwrite_guard import CORPORA
from canary.registry import Registry

FILE_FORMATS: Registry[type[FileCorpus]] = Registry("file format", group="corpora")
"""Formats of corpora in files, by name."""

for _name, _format in (
    ("jsonl", JsonLines),
    ("csv", CsvRows),
    ("tsv", TsvRows),
    ("text", PlainText),
    ("parquet", ParquetRows),
):
    FILE_FORMATS.add(_name, _format)

SPLIT = "train"
"""The split of a `DatasetDict` that is meant unless one is named."""


def open_corpus(
    corpus: Any,
    column: Column,
    *,
    split: str = SPLIT,
    file_format: str | None = None,
    beside: Mapping[str, str] | None = None,
    mode: str = "record",
    progress: Progress | None = None,
    passes: int = 1,
) -> Corpus:
    """A corpus of any kind, its columns checked.

    Parameters
    ----------
    corpus : path-like, Dataset, IterableDataset, or a dictionary of splits
    column, split, file_format, beside, mode, progress
        As for `canary.inject`.
    passes : int
        How often it will be read while `progress` is told.

    Raises
    ------
    CorpusError
        If it cannot be read, or has no such text column.
    UnsupportedError
        If it is something else.
    """
    names = column_names(column)
    others = check_beside(beside, names, mode)
    if isinstance(corpus, str | os.PathLike):
        path = Path(corpus)
        regular_size(path)
        kind = FILE_FORMATS[file_format_of(path, file_format)]
        found = kind(path, names, beside=others, progress=progress, passes=passes)
        found.look()
        return found
    rows = _choose_split(corpus, split)
    from datasets import IterableDataset

    kind_of_rows = StreamRows if isinstance(rows, IterableDataset) else DatasetRows
    return kind_of_rows(rows, names, others)


def file_format_of(path: Path, said: str | None = None) -> str:
    """The name of a file's format, as it is said or as the name of the file tells."""
    if said is not None and said not in FILE_FORMATS:
        raise InputError(
            f"unknown file format {said!r:.40}", cure=f"use one of {', '.join(FILE_FORMATS)}"
        )
    found = said or _ending(path)
    if found is None:
        raise CorpusError(
            "its name does not tell its format",
            cure=f"say it with file_format (--file-format): one of {', '.join(FILE_FORMATS)}",
            where=str(path),
        )
    return found


@contextmanager
def new_file(source: Path, target: Path, file_format: str | None) -> Iterator[IO[bytes]]:
    """A file made of another corpus, open for writing; it appears when the block ends well."""
    try:
        same = target.samefile(source)
    except (OSError, ValueError):
        same = False
    if same:
        raise OutputError(
            "is the corpus itself, which is never modified",
            cure="name another file to write",
            where=str(target),
        )
    format, promised = file_format_of(source, file_format), _ending(target)
    if promised not in (None, format):
        raise OutputError(
            f"its name says {promised}, but the corpus is {format}",
            cure="give it the ending of the corpus, or correct file_format (--file-format)",
            where=str(target),
        )
    if compression_of(target) and not FILE_FORMATS[format].compressible:
        raise OutputError(
            "a Parquet file is compressed within, not as a whole",
            cure=f"leave {target.suffix} away",
            where=str(target),
        )
    with (
        atomic_writer(target, like=source, replaces=CORPORA) as file,
        open_writer(target, file) as out,
    ):
        yield out


def replace_split(dataset: Any, split: str, rows: Any) -> Any:
    """`dataset` with `rows` in the place of the split that they come from."""
    return type(dataset)({**dataset, split: rows}) if _has_splits(dataset) else rows


def _choose_split(dataset: Any, split: str) -> Any:
    if not _has_splits(dataset):
        return dataset
    if split not in dataset:
        names = ", ".join(f"dataset[{name!r}]" for name in dataset)
        raise CorpusError(
            f"the dataset has no split {split!r}",
            cure=f"name one with split=…: there is {names}" if names else "give one with splits",
        )
    return dataset[split]


def _has_splits(dataset: object) -> bool:
    from datasets import DatasetDict, IterableDatasetDict

    return isinstance(dataset, DatasetDict | IterableDatasetDict)


def _ending(path: Path) -> str | None:
    """The format that the name of a file tells."""
    inner = path.with_suffix("") if compression_of(path) else path
    ending = inner.suffix.lower()
    return next((name for name, kind in FILE_FORMATS.items() if ending in kind.endings), None)
