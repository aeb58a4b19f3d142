"""Canaries out of corpora again."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from canary.corpus.canaries import CanarySet
from canary.corpus.columns import (
    Column,
    Edit,
    Shape,
    check_beside,
    column_names,
    edited_slots,
    slots_of,
)
from canary.corpus.compression import open_writer
from canary.corpus.dataset_rows import (
    SPLIT,
    check_dataset,
    choose_split,
    edit_rows,
    replace_split,
    rows_of,
)
from canary.corpus.file_formats import check_target, file_format_of, layout_of
from canary.corpus.line_files import Job, strip_lines
from canary.corpus.lines import Progress, regular_size
from canary.corpus.occurrences import find_canaries
from canary.corpus.parquet import strip_parquet
from canary.corpus.placements import check_drawn
from canary.corpus.splicing import SEPARATORS, Remover, check_clean, check_separators
from canary.corpus.streams import check_stream, is_stream, strip_stream
from canary.errors import CorpusError
from canary.records.files import atomic_writer
from canary.records.overwrite_guard import CORPORA
from canary.records.sealing import sealed

__all__ = ["Stripped", "strip", "strip_file"]

D = TypeVar("D")


@dataclass(frozen=True)
class Stripped:
    """What was taken out of a file.

    Parameters
    ----------
    records : int
        Records of canaries alone.
    cuts : int
        Copies that were cut out of other records; one in a pair counts twice.
    missing : int
        Copies of the set that were not there; negative if there were more than the set has.
    """

    records: int
    cuts: int
    missing: int = 0


@sealed
def strip(
    dataset: D,
    canaries: CanarySet,
    *,
    column: Column = "text",
    split: str = SPLIT,
    separators: Sequence[str] | None = None,
    beside: Mapping[str, str] | None = None,
) -> D:
    r"""Take canaries out of a dataset: the rows that `inject` was given.

    Parameters
    ----------
    dataset : datasets.Dataset, DatasetDict, IterableDataset or IterableDatasetDict
        Not modified.
    canaries : CanarySet
        Rows that hold the text of one of them and nothing else go; a canary between
        separators within a longer text is cut out.
    column, split : str
        As they were given to `inject`.
    separators : (str, str), optional
        As they were given to `inject`, ``("\\n", " ")`` unless given.
    beside : mapping of str to str, optional
        As it was given to `inject`.

    Returns
    -------
    the type of `dataset`

    Raises
    ------
    CorpusError
        If the dataset lacks the column, it holds none of the canaries, or one of them is in a
        text in some other way. From a stream that comes when the row is read, and that a
        stream holds none is not said: `verify` counts them.
    """
    check_drawn(canaries)
    names = column_names(column)
    between = check_separators(separators)
    others = check_beside(beside, names)
    rows: Any = choose_split(dataset, split)
    if is_stream(rows):
        stripped = strip_stream(rows, canaries, check_stream(rows, names, others), between)
    else:
        stripped = _strip_rows(rows, canaries, check_dataset(rows, names, others), between)
    result: D = replace_split(dataset, split, stripped)
    return result


@sealed
def strip_file(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    canaries: CanarySet,
    *,
    column: Column = "text",
    file_format: str | None = None,
    separators: Sequence[str] | None = None,
    beside: Mapping[str, str] | None = None,
    progress: Progress | None = None,
) -> Stripped:
    """Take canaries out of a file: the corpus that `inject_file` was given.

    Byte for byte after decompression; an equal table for Parquet. Parameters and errors
    are those of `inject_file`. A canary that stands in a text, but not alone and not
    between the separators, is an error, and so is a file that holds none of them: it is not
    the corpus of this set, or its texts were changed. Nothing is written then.
    """
    source, target = Path(source), Path(target)
    check_drawn(canaries)
    names = column_names(column)
    regular_size(source)
    format = file_format_of(source, file_format)
    check_target(source, target, format)
    layout = None if format == "parquet" else layout_of(source, format)
    between = check_separators(separators, layout.separators if layout else SEPARATORS)
    others = check_beside(beside, names)
    job = Job(canaries, names, seed=0, separators=between, beside=others)
    with atomic_writer(target, like=source, replaces=CORPORA) as out:
        if layout is None:
            found = strip_parquet(source, out, job, progress)
        else:
            with open_writer(target, out) as stream:
                found = strip_lines(source, stream, layout, job, progress)
        _check_any(sum(found), str(source))
    records, cuts = found
    copies = sum(canary.repetitions for canary in canaries.injected)
    return Stripped(records, cuts, copies - records - cuts // len(names))


def _check_any(found: int, where: str) -> None:
    """Refuse a corpus with nothing to take out: its own canaries would stay in it unnoticed.

    Raises
    ------
    CorpusError
        If nothing was found.
    """
    if not found:
        raise CorpusError(
            "holds none of the canaries of this set, so there is nothing to strip and other "
            "canaries would stay in it",
            cure="name the set that was injected into it, and its column; canary verify says "
            "whether its texts were changed",
            where=where,
        )


def _strip_rows(
    dataset: Any, canaries: CanarySet, shape: Shape, separators: tuple[str, str]
) -> Any:
    names = shape.names
    find = find_canaries(canaries, canaries.injected)
    own = {canaries.text(canary) for canary in canaries.injected}
    remover = Remover(canaries, separators)
    hits = [
        at
        for at, row in enumerate(rows_of(dataset, names))
        if find.count(slot.text for slot in slots_of(row, names))
    ]
    _check_any(len(hits), "")
    edits: dict[int, list[Edit]] = {}
    gone = []
    # Other columns are looked at in these rows only; pictures stay undecoded.
    look = dataset.select(hits).with_format("arrow")
    for at, row in zip(hits, (look[i].to_pylist()[0] for i in range(len(hits))), strict=True):
        slots = slots_of(row, names)
        if shape.owner(row, slots) in own:
            gone.append(at)
            continue
        edits[at] = remover.edits(slots)
        check_clean(edited_slots(slots, edits[at]), find, f"row {at + 1}")
    return edit_rows(dataset, edits, gone)
