"""Which format a corpus file has: by the ending of its name, or as it is said."""

from __future__ import annotations

from pathlib import Path

from canary.corpus.compression import compression_of
from canary.corpus.csv_rows import CsvRows
from canary.corpus.jsonl import JsonLines
from canary.corpus.lines import Layout
from canary.corpus.plain_text import PlainText
from canary.errors import CorpusError, InputError, OutputError

__all__ = ["FILE_FORMATS", "check_target", "file_format_of", "layout_of"]

FILE_FORMATS = ("jsonl", "csv", "tsv", "text", "parquet")

_ENDINGS = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".csv": "csv",
    ".tsv": "tsv",
    ".txt": "text",
    ".text": "text",
    ".parquet": "parquet",
}


def file_format_of(path: Path, said: str | None = None) -> str:
    """One of `FILE_FORMATS`.

    Raises
    ------
    InputError
        If what is said is none of them.
    CorpusError
        If nothing is said and the name does not tell either.
    """
    if said is not None:
        if said not in FILE_FORMATS:
            raise InputError(
                f"unknown file format {said!r:.40}", cure=f"use one of {', '.join(FILE_FORMATS)}"
            )
        return said
    found = _ending(path)
    if found is None:
        raise CorpusError(
            "its name does not tell its format",
            cure=f"say it with file_format (--file-format): one of {', '.join(FILE_FORMATS)}",
            where=str(path),
        )
    return found


def check_target(source: Path, target: Path, format: str) -> None:
    """Check that `target` is not `source`, and that its name promises the same format.

    Raises
    ------
    OutputError
        If it is, or promises another format or a compressed Parquet file.
    """
    if _same_file(source, target):
        raise OutputError(
            "is the corpus itself, which is never modified",
            cure="name another file to write",
            where=str(target),
        )
    promised = _ending(target)
    if promised not in (None, format):
        raise OutputError(
            f"its name says {promised}, but the corpus is {format}",
            cure="give it the ending of the corpus, or correct file_format (--file-format)",
            where=str(target),
        )
    if format == "parquet" and compression_of(target):
        raise OutputError(
            "a Parquet file is compressed within, not as a whole",
            cure=f"leave {target.suffix} away",
            where=str(target),
        )


def layout_of(path: Path, format: str) -> Layout:
    """The layout of a file of any format but Parquet."""
    if format == "jsonl":
        return JsonLines(path)
    if format == "text":
        return PlainText(path)
    return CsvRows(path, delimiter="\t" if format == "tsv" else ",")


def _ending(path: Path) -> str | None:
    inner = path.with_suffix("") if compression_of(path) else path
    return _ENDINGS.get(inner.suffix.lower())


def _same_file(source: Path, target: Path) -> bool:
    try:
        return target.samefile(source)
    except (OSError, ValueError):
        return False
