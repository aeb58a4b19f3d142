"""Which corpus something is: a file by its ending or as it is said, a dataset, a stream."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from canary.corpus.arrow_rows import ArrowRows, ParquetRows
from canary.corpus.columns import Column, check_beside, column_names
from canary.corpus.corpora import Corpus, FileCorpus
from canary.corpus.dataset_rows import DatasetRows, StreamRows
from canary.corpus.line_formats import CsvRows, JsonLines, PlainText, TsvRows
from canary.corpus.lines import compression_of, open_writer, regular_size
from canary.corpus.megatron import MegatronRows
from canary.errors import CorpusError, EmptyCorpusError, InputError, OutputError, UnsupportedError
from canary.records.addresses import Remote, place_of
from canary.records.files import CORPORA, atomic_writer
from canary.records.progress import Progress
from canary.records.validation import one_of
from canary.registry import Registry

FILE_FORMATS: Registry[type[FileCorpus]] = Registry("file format", group="corpora")
"""Formats of corpora in files, by name; ``FILE_FORMATS.add(name, kind)`` makes another known."""

FILE_FORMATS.add("jsonl", JsonLines)
FILE_FORMATS.add("csv", CsvRows)
FILE_FORMATS.add("tsv", TsvRows)
FILE_FORMATS.add("text", PlainText)
FILE_FORMATS.add("parquet", ParquetRows)
FILE_FORMATS.add("arrow", ArrowRows)
FILE_FORMATS.add("megatron", MegatronRows)

SPLIT = "train"
"""The split of a `DatasetDict` that is meant unless one is named."""


def open_corpus(
    corpus: Any,
    column: Column,
    *,
    split: str = SPLIT,
    file_format: str | None = None,
    beside: Mapping[str, str] | None = None,
    tokenizer: Any = None,
    pad: str | None = None,
    mode: str = "record",
    progress: Progress = None,
    passes: int = 1,
) -> Corpus:
    """A corpus of any kind, its columns checked; options are those of `canary.inject`.

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
        path = place_of(corpus)
        size = regular_size(path)
        kind = FILE_FORMATS[file_format_of(path, file_format)]
        if not size and not kind.companion:
            raise EmptyCorpusError.of(str(path))
        _check_here(path, kind)
        opened = kind(path, names, beside=others, progress=progress, passes=passes)
        opened.tokenizer, opened.pad = tokenizer, pad
        opened.look()
        if pad is not None and opened.length is None:
            raise InputError(
                "is not a corpus of blocks of token ids, so nothing is filled up",
                cure="leave pad (--pad) out",
                where=str(path),
            )
        return opened
    from datasets import Dataset, IterableDataset

    rows = corpus
    if _are_texts(corpus):
        rows = Dataset.from_dict({names[0]: [*corpus]})
    elif _has_splits(corpus):
        if split not in corpus:
            known = ", ".join(f"dataset[{name!r}]" for name in corpus)
            cure = f"name one with split=…: there is {known}" if known else "give one with splits"
            raise CorpusError(f"the dataset has no split {split!r}", cure=cure)
        rows = corpus[split]
    return (StreamRows if isinstance(rows, IterableDataset) else DatasetRows)(rows, names, others)


def file_format_of(path: Path, said: str | None = None) -> str:
    """The name of a file's format, as it is said or as the name of the file tells."""
    if said is not None:
        one_of(said, "file format", FILE_FORMATS)
    name = said or ending_of(path)
    if name is None:
        raise CorpusError(
            "its name does not show its format",
            cure=f"say it with file_format (--file-format): one of {', '.join(FILE_FORMATS)}",
            where=str(path),
        )
    return name


def known_separators() -> str:
    """The default separators as they are typed, and those of formats that have others."""
    formats: dict[tuple[str, str], list[str]] = {Corpus.separators: []}
    for name, kind in FILE_FORMATS.items():
        formats.setdefault(kind.separators, []).append(name)
    default, *others = (
        (" ".join(f'"{text}"' for text in pair).replace("\n", r"\n"), ", ".join(names))
        for pair, names in formats.items()
    )
    return "; ".join([default[0], *(f"{pair} for {names}" for pair, names in others)])


@contextmanager
def new_file(source: Path, target: Path, file_format: str | None) -> Iterator[Any]:
    """A file made of another corpus, open for writing; it appears when the block ends well.

    It is a pair of files for a format with a companion; the companion appears last.
    """
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
    format, promised = file_format_of(source, file_format), ending_of(target)
    if promised not in (None, format):
        raise OutputError(
            f"its name says {promised}, but the corpus is {format}",
            cure="give it the ending of the corpus, or correct file_format (--file-format)",
            where=str(target),
        )
    if compression_of(target) and not FILE_FORMATS[format].compressible:
        raise OutputError(
            f"a {format} file is compressed within, or not at all, never as a whole",
            cure=f"leave {target.suffix} out of its name",
            where=str(target),
        )
    companion = FILE_FORMATS[format].companion
    _check_here(target, FILE_FORMATS[format])
    if companion and promised is None:
        endings = " or ".join(FILE_FORMATS[format].endings)
        cure = f"let it end with {endings}"
        raise OutputError(f"a {format} file is known by its ending", cure=cure, where=str(target))
    with ExitStack() as stack:
        second = None
        if companion:  # is closed last: without it the first file is not read
            beside = atomic_writer(target.with_suffix(companion), like=source, replaces=CORPORA)
            second = stack.enter_context(beside)
        file = stack.enter_context(atomic_writer(target, like=source, replaces=CORPORA))
        out = stack.enter_context(open_writer(target, file))
        yield out if second is None else (out, second)


def copy_file(source: Path, target: Path) -> None:
    """A corpus as it is, under another name."""
    for old, new in zip(files_of(source), files_of(target), strict=True):
        with old.open("rb") as file, atomic_writer(new, like=old, replaces=CORPORA) as out:
            shutil.copyfileobj(file, out)


def files_of(path: Path) -> list[Path]:
    """The files that a corpus of this name is: one, or with a companion."""
    name = ending_of(path)
    companion = FILE_FORMATS[name].companion if name else ""
    return [path, path.with_suffix(companion)] if companion else [path]


def _check_here(path: Path, kind: type[FileCorpus]) -> None:
    if kind.companion and isinstance(path, Remote):
        raise UnsupportedError(
            "is not on this machine, and files that go in pairs are read and written here",
            cure="copy the corpus here, and what is made of it back",
            where=str(path),
        )


def replace_split(dataset: Any, split: str, rows: Any) -> Any:
    """`dataset` with `rows` in the place of the split, or of the texts, that they come from."""
    if _are_texts(dataset):
        (name,) = rows.column_names
        return type(dataset)(rows[name])
    return type(dataset)({**dataset, split: rows}) if _has_splits(dataset) else rows


def _are_texts(corpus: Any) -> bool:
    return type(corpus) in (list, tuple) and all(isinstance(text, str) for text in corpus or [0])


def _has_splits(dataset: object) -> bool:
    from datasets import DatasetDict, IterableDatasetDict

    return isinstance(dataset, DatasetDict | IterableDatasetDict)


def ending_of(path: Path) -> str | None:
    """The format that the name of a file tells."""
    inner = path.with_suffix("") if compression_of(path) else path
    ending = inner.suffix.lower()
    return next((name for name, kind in FILE_FORMATS.items() if ending in kind.endings), None)
