"""Canaries into a corpus: exact numbers of copies at seeded, uniformly random places."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from canary.corpus.canaries import CanarySet
from canary.corpus.columns import Column, Shape, check_beside, column_names, slots_of
from canary.corpus.compression import open_writer
from canary.corpus.dataset_rows import (
    SPLIT,
    add_rows,
    check_dataset,
    choose_split,
    edit_rows,
    replace_split,
    rows_of,
)
from canary.corpus.file_formats import check_target, file_format_of, layout_of
from canary.corpus.line_files import Job, inject_lines
from canary.corpus.lines import Progress, regular_size
from canary.corpus.occurrences import find_canaries
from canary.corpus.parquet import inject_parquet
from canary.corpus.placements import (
    Placements,
    arrange,
    assign,
    by_canary,
    check_drawn,
    check_fresh,
)
from canary.corpus.splicing import SEPARATORS, Splicer, check_mode, check_separators, hostable
from canary.corpus.streams import check_stream, inject_stream, is_stream
from canary.errors import InputError
from canary.records.files import atomic_writer
from canary.records.overwrite_guard import CORPORA
from canary.records.sealing import sealed

__all__ = ["inject", "inject_file"]

D = TypeVar("D")
"""Whatever is injected into; it comes back as what it was."""


@sealed
def inject(
    dataset: D,
    canaries: CanarySet,
    *,
    column: Column = "text",
    seed: int = 0,
    split: str = SPLIT,
    mode: str = "record",
    separators: Sequence[str] | None = None,
    beside: Mapping[str, str] | None = None,
    hosts: Sequence[Any] | None = None,
) -> D:
    r"""Put canaries into a dataset, as rows of their own or within its texts.

    Parameters
    ----------
    dataset : datasets.Dataset, DatasetDict, IterableDataset or IterableDatasetDict
        Not modified.
    canaries : CanarySet
        Each canary is copied as often as it says; controls are left out.
    column : str or pair of str
        The column that receives the canaries: texts, or chats (lists of messages with
        role and content); or the two columns of a parallel pair, which both do.
    seed : int
        Decides the places. In a `Dataset` every arrangement of the copies among the rows
        is equally likely.
    split : str
        Which split of a dictionary of splits; the others stay as they are.
    mode : {"record", "splice"}
        Rows of their own, empty in all other columns; or spliced into rows, at the
        boundary of a sentence: into an answer of a chat, into both texts of a pair.
    separators : (str, str), optional
        What stands before and after a spliced canary, ``("\n", " ")`` unless given.
    beside : mapping of str to str, optional
        Other columns of rows of their own, and the text there: what a sequence-to-sequence
        model reads, say, when it is to give the canary. Without it they are empty.
    hosts : sequence, optional
        For a stream: rows, by what they hold in `column`, after or in which the canaries
        go. Each must occur exactly once. This is taken on trust, as no pass sees the
        whole of a stream that is sharded: a host that never occurs takes its copies with
        it, one that occurs twice doubles them, and `verify` tells. Without them the
        stream is read once to find such rows, and must give the same rows again.

    Returns
    -------
    the type of `dataset`
        The rows in their order with the copies among them; same features, same format.

    Raises
    ------
    CorpusError
        If the dataset is empty, has no such column or split, or holds a canary already.
    InputError
        If an option does not serve.
    UnsupportedError
        If `dataset` is something else.

    Notes
    -----
    A stream can be shuffled, split by node and read by several workers afterwards: each
    copy stands beside a row whose content occurs once, and is read exactly as often.
    Inject before it is split by node, not after.
    """
    check_mode(mode, separators)
    check_drawn(canaries)
    names = column_names(column)
    between = check_separators(separators) if mode == "splice" else None
    others = check_beside(beside, names, mode)
    rows = choose_split(dataset, split)
    if is_stream(rows):
        shape = check_stream(rows, names, others)
        mixed = inject_stream(rows, canaries, shape, separators=between, seed=seed, hosts=hosts)
    elif hosts is not None:
        raise InputError(
            "hosts were named for a dataset that is no stream",
            cure="leave hosts out: its rows can be counted",
        )
    else:
        shape = check_dataset(rows, names, others)
        mixed = _inject_rows(rows, canaries, shape, between, seed)
    result: D = replace_split(dataset, split, mixed)
    return result


def _inject_rows(
    dataset: Any,
    canaries: CanarySet,
    shape: Shape,
    separators: tuple[str, str] | None,
    seed: int,
) -> Any:
    names = shape.names
    copies = [canary.repetitions for canary in canaries.injected]
    find = find_canaries(canaries, canaries)
    homes = bytearray()
    for at, row in enumerate(rows_of(dataset, names)):
        slots = slots_of(row, names)
        check_fresh(slots, find, f"row {at + 1}")
        homes.append(hostable(slots, shape))
    if separators is None:
        places, owners = arrange(len(dataset), copies, seed)
        texts = [canaries.text(canary) for canary in canaries.injected]
        return add_rows(dataset, shape, texts, places, owners)
    guests = assign(homes, copies, seed)
    splicer = Splicer.of(canaries, separators, shape)
    edits = {}
    for at, row in zip(guests, rows_of(dataset.select(list(guests)), names), strict=True):
        edits[at] = splicer.edits(slots_of(row, names), row, guests[at])
    return edit_rows(dataset, edits)


@sealed
def inject_file(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    canaries: CanarySet,
    *,
    column: Column = "text",
    seed: int = 0,
    file_format: str | None = None,
    mode: str = "record",
    separators: Sequence[str] | None = None,
    beside: Mapping[str, str] | None = None,
    check: bool = True,
    progress: Progress | None = None,
) -> Placements:
    """Put canaries into a file, as records of their own or within its texts.

    What is not touched comes through as it was: byte for byte after decompression, or as
    equal rows under an equal schema for Parquet. Records of their own have the columns
    of the first record, null or empty except for `column`. A last line without an end of
    line stays last, so that nothing has to be added to it.

    Parameters
    ----------
    source : path-like
        JSON lines, CSV with a header, text with one document on each line, or Parquet;
        all but Parquet may be compressed (``.gz``, ``.bz2``, ``.xz``, ``.zst``).
    target : path-like
        The file to write, in the same format, compressed as its own name says; it
        appears when all is done, or not at all. Who may read `source` may read it.
    canaries : CanarySet
        Each canary is copied as often as it says; controls are left out.
    column, mode : str
        As for `inject`. A text file has one column, ``"text"``.
    separators : (str, str), optional
        What stands before and after a spliced canary: a newline and a space in JSON
        lines and Parquet, spaces in CSV and text unless given. In CSV, canaries that
        need quotes go into fields that have them already.
    beside : mapping of str to str, optional
        As for `inject`.
    seed : int
        Decides the places. Every arrangement of the copies among the records is equally
        likely. The same input and seed give the same bytes.
    file_format : {"jsonl", "csv", "tsv", "text", "parquet"}, optional
        Told by the ending of the name unless given.
    check : bool
        Whether every record is checked, and searched for canaries that are there
        already. Without it the records pass through unread, much faster; splicing needs
        it.
    progress : callable, optional
        ``progress(done_bytes, total_bytes)``, over both passes.

    Returns
    -------
    Placements
        Where each copy went.

    Raises
    ------
    CorpusError
        If a record is damaged or has no text in `column`, if a canary is there already,
        if there is no record at all, or if the file changes meanwhile; it names file and
        line.
    InputError
        If an option does not serve.
    OutputError
        If `target` is `source`, promises another format, or cannot be written.

    Notes
    -----
    Two passes: one checks every record, one writes. Memory holds one record of the
    corpus (32 MiB of rows for Parquet) and some hundred bytes for each copy, and a few
    bytes for each record where canaries are spliced, whatever else the size of the corpus.
    """
    source, target = Path(source), Path(target)
    check_mode(mode, separators)
    check_drawn(canaries)
    names = column_names(column)
    regular_size(source)
    format = file_format_of(source, file_format)
    check_target(source, target, format)
    layout = None if format == "parquet" else layout_of(source, format)
    between = None
    if mode == "splice":
        between = check_separators(separators, layout.separators if layout else SEPARATORS)
        if not check:
            raise InputError("splicing reads every record", cure="leave check on")
    others = check_beside(beside, names, mode)
    job = Job(canaries, names, seed, between, check, others)
    with atomic_writer(target, like=source, replaces=CORPORA) as out:
        if layout is None:
            placed = inject_parquet(source, out, job, progress)
        else:
            with open_writer(target, out) as stream:
                placed = inject_lines(source, stream, layout, job, progress)
    return Placements(
        lines=by_canary(canaries.injected, placed.places, placed.owners),
        column=names[0] if len(names) == 1 else names,
        seed=int(seed),
        total_lines=placed.records,
        mode=mode,
        separators=between,
        empty=placed.empty,
        fingerprint=canaries.fingerprint,
    )
