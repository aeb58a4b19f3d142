"""Canaries out of corpora again."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from canary.corpus.canaries import CanarySet
from canary.corpus.columns import Column, Edit, Slot, column_names, edit_text, shape_for
from canary.corpus.corpora import Corpus, Edits, Position
from canary.corpus.dataset_rows import StreamRows
from canary.corpus.file_formats import (
    SPLIT,
    copy_file,
    files_of,
    new_file,
    open_corpus,
    replace_split,
)
from canary.corpus.lines import regular_size
from canary.corpus.many_files import is_sharded
from canary.corpus.many_written import content_of, many_written, open_unchanged
from canary.corpus.placements import check_drawn
from canary.corpus.places import Remover, check_separators
from canary.corpus.shard_jobs import note_undivided, workers_of
from canary.corpus.token_documents import identity_of
from canary.errors import CorpusError, InputError
from canary.records.addresses import Remote, place_of
from canary.records.progress import Progress, shows_progress
from canary.records.sealing import sealed
from canary.workers.jobs import Workers

D = TypeVar("D")


@dataclass(frozen=True)
class Stripped:
    """What was removed from a file.

    Parameters
    ----------
    records : int
        Records that held a canary alone.
    cuts : int
        Copies cut out of other texts; a copy in a pair counts as two.
    missing : int
        Copies of the set that were not there; negative if there were more.
    files : int
        How many files were read.
    """

    records: int
    cuts: int
    missing: int = 0
    files: int = 1


@sealed
def strip(
    corpus: D,
    canaries: CanarySet,
    *,
    out: D | None = None,
    column: Column = "text",
    split: str = SPLIT,
    file_format: str | None = None,
    separators: Sequence[str] | None = None,
    beside: Mapping[str, str] | None = None,
    tokenizer: Any = None,
) -> D:
    r"""Take canaries out of a corpus: the records that `inject` was given.

    Parameters
    ----------
    corpus : path-like, list of str, Dataset, DatasetDict, IterableDataset or IterableDatasetDict
        Not modified.
    canaries : CanarySet
        Records that hold the text of one of them and nothing else go; a canary between
        separators within a longer text is cut out.
    out, column, split, file_format, separators, beside, tokenizer
        As for `inject`.

    Returns
    -------
    the type of `corpus`, or `out`

    Raises
    ------
    CorpusError
        If the corpus lacks the column, it holds none of the canaries, or one of them is in a
        text in some other way. From a stream that comes when the row is read, and that a
        stream holds none is not said: `verify` counts them.

    Examples
    --------
    >>> from datasets import Dataset
    >>> from canary import generate, inject
    >>> corpus = Dataset.from_dict({"text": ["one", "two"]})
    >>> canaries = generate("my pin is {digit:4}", repetitions=[2], per_repetition=3, seed=0)
    >>> strip(inject(corpus, canaries), canaries)["text"][:]
    ['one', 'two']
    """
    if isinstance(corpus, str | os.PathLike) or is_sharded(corpus):
        if not isinstance(out, str | os.PathLike):
            raise InputError(
                "a file is stripped into another one", cure="name the file to write", where="out"
            )
        strip_file(
            corpus,
            out,
            canaries,
            column=column,
            file_format=file_format,
            separators=separators,
            beside=beside,
            tokenizer=tokenizer,
        )
        return out
    check_drawn(canaries)
    canaries = canaries.written
    opened = open_corpus(corpus, column, split=split, beside=beside)
    taken = _Taken(opened, canaries, separators)
    stripped = taken.out_of(opened)
    if not isinstance(opened, StreamRows):
        taken.check_any(opened.source)
    result: D = replace_split(corpus, split, stripped)
    return result


@sealed
@shows_progress
def strip_file(
    source: Any,
    target: str | os.PathLike[str],
    canaries: CanarySet,
    *,
    column: Column = "text",
    file_format: str | None = None,
    separators: Sequence[str] | None = None,
    beside: Mapping[str, str] | None = None,
    tokenizer: Any = None,
    workers: int | Workers = 1,
    progress: Progress = None,
) -> Stripped:
    """Remove canaries from a file: the result is the corpus that `inject_file` was given.

    It is equal byte for byte after decompression, or an equal table for Parquet and Arrow.

    Parameters
    ----------
    source, target, canaries, column, file_format, beside, tokenizer, workers, progress
        As for `inject_file`.
    separators : (str, str), optional
        What is before and after a spliced canary; that of the file format unless given.

    Returns
    -------
    Stripped
        How many records and copies were removed.

    Raises
    ------
    CorpusError
        If a record is damaged, if a canary is within a text but not between the separators, or
        if the file holds no canary of the set. Nothing is written then.
    InputError, OutputError
        As for `inject_file`.

    Notes
    -----
    Memory holds one record, or 32 MiB of rows of a table.

    Examples
    --------
    >>> import json, os, tempfile
    >>> import canary
    >>> from canary.corpus.injection import inject_file
    >>> from canary.corpus.stripping import strip_file
    >>> folder = tempfile.mkdtemp()
    >>> plain, mixed, back = (os.path.join(folder, f"{n}.jsonl") for n in ("a", "b", "c"))
    >>> with open(plain, "w") as file:
    ...     json.dump({"text": "It rains."}, file)
    >>> canaries = canary.generate("my pin is {digit:4}", repetitions=[2], per_repetition=3, seed=0)
    >>> _ = inject_file(plain, mixed, canaries)
    >>> strip_file(mixed, back, canaries).records
    6
    """
    check_drawn(canaries)
    canaries = canaries.written
    target = place_of(target)
    given: dict[str, Any] = {
        "column": column,
        "file_format": file_format,
        "beside": dict(beside or {}),
        "tokenizer": tokenizer,
    }
    if is_sharded(source):
        options: dict[str, Any] = {"workers": workers, "progress": progress}
        return _strip_files(source, target, canaries, given, separators, **options)
    source = place_of(source)
    regular_size(source)
    note_undivided([source], workers_of(workers), progress)
    if isinstance(target, Remote):  # before hours of work
        target.check_writable()
    with new_file(source, target, file_format) as out:
        opened = open_corpus(source, progress=progress, **given)
        taken = _Taken(opened, canaries, separators)
        taken.out_of(opened, out)
        taken.check_any(opened.source)
    return _stripped(canaries, taken.records, taken.cuts, len(opened.shape.names))


def _stripped(canaries: CanarySet, records: int, cuts: int, columns: int) -> Stripped:
    copies = sum(canary.repetitions for canary in canaries.injected)
    return Stripped(records, cuts, copies - records - cuts // columns)


def _strip_files(
    source: Any,
    target: Path,
    canaries: CanarySet,
    given: dict[str, Any],
    separators: Sequence[str] | None,
    **options: Any,
) -> Stripped:
    """`strip_file` for a folder, a pattern or a list of files."""
    between = None if separators is None else list(separators)
    about = {"command": "strip", "canaries": canaries.fingerprint, "separators": between, **given}
    about["tokenizer"] = identity_of(given["tokenizer"])
    with many_written(
        source, target, file_format=given["file_format"], identity=about, **options
    ) as many:
        shared = {"canaries": canaries, "given": given, "separators": between}
        done = many.each("stripped", strip_each, shared, many.jobs())
        records, cuts = (sum(one[what] for one in done) for what in ("records", "cuts"))
        if not records + cuts:
            for written in many.targets:
                for file in files_of(written):
                    file.unlink()
        many.note_empty([number for number, one in enumerate(done) if one["empty"]])
        if not records + cuts:
            raise _nothing(str(many.sources[0].parent))
    gone = _stripped(canaries, records, cuts, len(column_names(given["column"])))
    return replace(gone, files=len(done))


def strip_each(shared: Mapping[str, Any], jobs: Sequence[Mapping[str, Any]]) -> list[Any]:
    """Each file without canaries; how many records and copies went."""
    answers = []
    for job in jobs:
        source, target = place_of(job["source"]), place_of(job["target"])
        opened = open_unchanged(source, shared["given"], job["stamp"])
        about = {"content": content_of(source, job["stamp"]), "empty": opened is None}
        if opened is None:
            copy_file(source, target)
            answers.append({"records": 0, "cuts": 0, "bytes": target.stat().st_size, **about})
            continue
        taken = _Taken(opened, shared["canaries"], shared["separators"])
        with new_file(source, target, shared["given"]["file_format"]) as out:
            taken.out_of(opened, out)
        size = target.stat().st_size
        answers.append({"records": taken.records, "cuts": taken.cuts, "bytes": size, **about})
    return answers


def _nothing(where: str) -> CorpusError:
    return CorpusError(
        "holds none of the canaries of this set, so there is nothing to strip and other "
        "canaries would stay in it",
        cure="name the set that was injected into it, and its column; canary verify says "
        "whether its texts were changed",
        where=where,
    )


class _Taken:
    """Says what goes of each record, and counts it; in a stream nobody asks for the counts."""

    def __init__(
        self, corpus: Corpus, canaries: CanarySet, separators: Sequence[str] | None
    ) -> None:
        self.shape = shape_for(corpus.shape, canaries.role, corpus.source)
        self.own = frozenset(canaries.text(canary) for canary in canaries.injected)
        self.remover = Remover(canaries, check_separators(separators, corpus.separators))
        self.records = self.cuts = 0

    def out_of(self, corpus: Corpus, out: Any = None) -> Any:
        """A corpus without the canaries."""
        return corpus.rewrite(Edits(decide=self), out)

    def check_any(self, where: str) -> None:
        """A CorpusError if there was nothing to take out: other canaries would stay unnoticed."""
        if not self.records + self.cuts:
            raise _nothing(where)

    def __call__(
        self, position: Position, slots: list[Slot], record: Callable[[Position], Mapping[str, Any]]
    ) -> list[Edit] | None:
        if not self.remover.touches(slots):
            return []
        if self.shape.owner(record(position), slots) in self.own:
            self.records += 1
            return None
        edits = self.remover.edits(slots)
        texts = (edit_text(s.text, [e for e in edits if e.path == s.path]) for s in slots)
        self.remover.check_clean(texts)
        self.cuts += len(edits)
        return edits
