"""Canaries into a corpus: exact numbers of copies at seeded, uniformly random places."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from canary.corpus.canaries import CanarySet, whole_number
from canary.corpus.columns import Column, Slot, column_names, copies_in, slots_of
from canary.corpus.jsonl import Progress, parse_line, read_lines, regular_size, text_of
from canary.corpus.occurrences import Finder, find_canaries
from canary.corpus.splicing import Splicer, allot, check_mode, check_separators, hostable
from canary.corpus.streams import check_stream, inject_stream, is_stream
from canary.corpus.tables import (
    SPLIT,
    add_rows,
    check_dataset,
    choose_split,
    edit_rows,
    replace_split,
    rows_of,
)
from canary.errors import CorpusError, InputError, OutputError
from canary.records.document import dump_document
from canary.records.files import atomic_writer

__all__ = ["Placements", "arrange", "assign", "check_fresh", "inject", "inject_file"]

D = TypeVar("D")
"""Whatever is injected into; it comes back as what it was."""

KIND = "canary placements"
SCHEMA = 1

# Not the stream from which the fills of the same seed were drawn.
_STREAM = int.from_bytes(b"places", "big")

_NOWHERE = (-1, b"")


@dataclass(frozen=True)
class Placements:
    """Where the copies went.

    Parameters
    ----------
    lines : mapping of str to tuple of int
        For each injected canary's id the numbers of its lines in the new file, from 1,
        ascending.
    column : str
        The column that holds the canaries' texts.
    seed : int
        The seed of the places.
    total_lines : int
        Lines of the new file.
    """

    lines: Mapping[str, tuple[int, ...]]
    column: str
    seed: int
    total_lines: int

    def to_dict(self) -> dict[str, Any]:
        """The places as plain data."""
        return {
            "column": self.column,
            "seed": self.seed,
            "total_lines": self.total_lines,
            "lines": {name: list(numbers) for name, numbers in self.lines.items()},
        }

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the places as versioned JSON, atomically, readable by its owner only."""
        dump_document(path, KIND, SCHEMA, self.to_dict(), private=True)


def inject(
    dataset: D,
    canaries: CanarySet,
    *,
    column: Column = "text",
    seed: int = 0,
    split: str = SPLIT,
    mode: str = "record",
    separators: Sequence[str] | None = None,
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
    hosts : sequence, optional
        For a stream: rows, by what they hold in `column`, after or in which the canaries
        go. Each must occur exactly once. Without them the stream is read once to find
        such rows, and must give the same rows again.

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
    check_mode(mode)
    names = column_names(column)
    between = check_separators(separators) if mode == "splice" else None
    rows = choose_split(dataset, split)
    if is_stream(rows):
        shape = check_stream(rows, names)
        mixed = inject_stream(rows, canaries, shape, separators=between, seed=seed, hosts=hosts)
    elif hosts is not None:
        raise InputError(
            "hosts were named for a dataset that is no stream",
            cure="leave hosts out: its rows can be counted",
        )
    else:
        mixed = _inject_rows(rows, canaries, names, between, seed)
    result: D = replace_split(dataset, split, mixed)
    return result


def _inject_rows(
    dataset: Any,
    canaries: CanarySet,
    names: tuple[str, ...],
    separators: tuple[str, str] | None,
    seed: int,
) -> Any:
    shape = check_dataset(dataset, names)
    copies = [canary.repetitions for canary in canaries.injected]
    find = find_canaries(canaries, canaries)
    homes = []
    for at, row in enumerate(rows_of(dataset, names)):
        slots = slots_of(row, names)
        check_fresh(slots, names, find, f"row {at + 1}")
        if separators is not None and hostable(slots, shape):
            homes.append(at)
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


def check_fresh(slots: Sequence[Slot], names: tuple[str, ...], find: Finder, where: str) -> None:
    """Check that no canary or control is in a record already: copies could not be counted.

    Raises
    ------
    CorpusError
        If there is one.
    """
    for name in copies_in(slots, names, find):
        raise CorpusError(
            f"already holds the text of {name}",
            cure="strip the corpus first, or draw canaries with another seed",
            where=where,
        )


def assign(
    homes: Sequence[int], copies: Sequence[int], seed: int
) -> dict[int, list[tuple[int, float]]]:
    """For each host that gets any, in ascending order: which canaries, and their draws.

    Parameters
    ----------
    homes : sequence of int
        The records that can take a canary, ascending.
    copies : sequence of int
        Copies of each canary.
    seed : int
    """
    if not homes:
        raise CorpusError(
            "no record can take a canary: none has text in the named columns",
            cure="name other columns, or inject records (mode='record')",
        )
    guests: dict[int, list[tuple[int, float]]] = {}
    for home, who, draw in zip(*allot(len(homes), copies, seed), strict=True):
        guests.setdefault(int(homes[home]), []).append((int(who), float(draw)))
    return guests


def inject_file(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    canaries: CanarySet,
    *,
    column: str = "text",
    seed: int = 0,
    progress: Progress | None = None,
) -> Placements:
    """Put canaries into a file of JSON lines as records of their own.

    The lines of `source` come through byte for byte and in their order. Canary records
    have the columns of the first record, null except for `column`. A last line without
    an end of line stays last, so that nothing has to be added to it.

    Parameters
    ----------
    source : path-like
        A corpus with one JSON object on each line; blank lines are passed through.
    target : path-like
        The file to write; it appears when all is done, or not at all.
    canaries : CanarySet
        Each canary is copied as often as it says; controls are left out.
    column : str
        The text column that receives the canaries.
    seed : int
        Decides the places. Every arrangement of the copies among the lines is equally
        likely. The same input and seed give the same bytes.
    progress : callable, optional
        ``progress(done_bytes, total_bytes)``, over both passes.

    Returns
    -------
    Placements
        Where each copy went.

    Raises
    ------
    CorpusError
        If a line is not a JSON object in UTF-8 with text in `column`, if there is no
        record at all, or if the file changes meanwhile; it names file and line.
    OutputError
        If `target` is `source` or cannot be written.

    Notes
    -----
    Two passes: one checks every line, one writes. Memory holds one line of the corpus
    and some hundred bytes for each copy, whatever the size of the corpus.
    """
    source, target = Path(source), Path(target)
    size = regular_size(source)
    if _same_file(source, target):
        raise OutputError(
            "is the corpus itself, which is never modified",
            cure="name another file to write",
            where=str(target),
        )
    injected = canaries.injected
    copies = [canary.repetitions for canary in injected]
    with atomic_writer(target) as out:
        corpus = _survey(source, column, progress, 2 * size)
        places, owners = arrange(corpus.lines - corpus.open_ended, copies, seed)
        records = [corpus.record(column, canaries.text(canary)) for canary in injected]
        placed = ((int(at), records[who]) for at, who in zip(places, owners, strict=True))
        for line in _merge(_checked(source, corpus, progress, size), placed):
            out.write(line)
    # A stable sort by owner keeps each canary's places ascending.
    grouped = np.split(places[np.argsort(owners, kind="stable")] + 1, np.cumsum(copies)[:-1])
    return Placements(
        lines={
            canary.id: tuple(numbers.tolist())
            for canary, numbers in zip(injected, grouped, strict=False)
        },
        column=column,
        seed=int(seed),
        total_lines=corpus.lines + len(places),
    )


def _same_file(source: Path, target: Path) -> bool:
    try:
        return target.samefile(source)
    except OSError:
        return False


@dataclass(frozen=True)
class _Survey:
    """What the first pass over a corpus has seen.

    `open_ended` says that the last line has no end of line, and `checksum` is the
    CRC-32 of all bytes: what is written must be what was checked.
    """

    lines: int
    checksum: int
    keys: tuple[str, ...]
    newline: bytes
    open_ended: bool

    def record(self, column: str, text: str) -> bytes:
        """A line like the corpus's own, with `text` in `column`."""
        values = {key: text if key == column else None for key in self.keys}
        return json.dumps(values).encode("ascii") + self.newline


def _survey(source: Path, column: str, progress: Progress | None, total: int) -> _Survey:
    number = checksum = 0
    keys: tuple[str, ...] | None = None
    newline, line = b"\n", b""
    for number, line in read_lines(source, progress=progress, total=total):
        checksum = zlib.crc32(line, checksum)
        record = parse_line(line, source, number)
        if record is None:
            continue
        text_of(record, column, source, number)
        if keys is None:
            keys = tuple(record)
            newline = b"\r\n" if line.endswith(b"\r\n") else b"\n"
    if keys is None:
        raise CorpusError(
            "holds no record", cure="name a corpus with at least one", where=str(source)
        )
    return _Survey(number, checksum, keys, newline, open_ended=not line.endswith(b"\n"))


def _checked(
    source: Path, corpus: _Survey, progress: Progress | None, size: int
) -> Iterator[bytes]:
    """The lines of `source` a second time; an error if they are not what was surveyed."""
    checksum = 0
    for _, line in read_lines(source, progress=progress, done=size, total=2 * size):
        checksum = zlib.crc32(line, checksum)
        yield line
    if checksum != corpus.checksum:
        raise CorpusError(
            "changed while it was read",
            cure="inject again when nothing else writes to it",
            where=str(source),
        )


def _merge(lines: Iterable[bytes], placed: Iterator[tuple[int, bytes]]) -> Iterator[bytes]:
    """`lines` in their order, and each of `placed` at its place among all, from 0."""
    place, record = next(placed, _NOWHERE)
    at = 0
    for line in lines:
        while place == at:
            yield record
            at += 1
            place, record = next(placed, _NOWHERE)
        yield line
        at += 1
    while place == at:
        yield record
        at += 1
        place, record = next(placed, _NOWHERE)


def arrange(
    others: int, copies: list[int], seed: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Places of the copies among all lines (ascending, from 0), and whose copy each is.

    Every set of places and every order of the copies in them is equally likely: the
    result is that of shuffling the copies into the other lines.

    Parameters
    ----------
    others : int
        Lines among which the copies go.
    copies : list of int
        Copies of each canary.
    seed : int
        Non-negative.
    """
    seed = whole_number(seed, "inject: seed", at_least=0)
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(_STREAM,)))
    owners = rng.permutation(np.repeat(np.arange(len(copies)), np.array(copies, np.int64)))
    count = len(owners)
    places = rng.choice(others + count, size=count, replace=False, shuffle=False)
    return np.sort(places), owners
