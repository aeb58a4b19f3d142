"""Canaries into and out of files that are pieces, one behind the other, as a stream."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from canary.corpus.canaries import CanarySet
from canary.corpus.columns import Shape, Slot, empty_texts, is_chat, refuse_chat
from canary.corpus.lines import (
    Layout,
    Progress,
    end_of_line,
    place,
    read_chunks,
    read_lines,
    regular_size,
)
from canary.corpus.occurrences import find_canaries
from canary.corpus.placements import arrange, assign, check_fresh
from canary.corpus.splicing import Remover, Splicer, check_clean, hostable
from canary.errors import CorpusError

__all__ = ["Job", "Placed", "inject_lines", "slots_in_lines", "strip_lines"]

_NOWHERE = (-1, b"")


@dataclass(frozen=True)
class Job:
    """What is to be put into a file, and how.

    Parameters
    ----------
    canaries : CanarySet
    names : tuple of str
        One column, or two.
    seed : int
    separators : (str, str) or None
        Around spliced canaries; None for records of their own.
    check : bool
        Whether every record is read and checked.
    beside : tuple of (str, str)
        Other columns of records of their own, and the texts there.
    """

    canaries: CanarySet
    names: tuple[str, ...]
    seed: int
    separators: tuple[str, str] | None = None
    check: bool = True
    beside: tuple[tuple[str, str], ...] = ()

    @property
    def copies(self) -> list[int]:
        """Copies of each injected canary."""
        return [canary.repetitions for canary in self.canaries.injected]

    @property
    def texts(self) -> list[str]:
        """Candidates of the injected canaries, as records of their own hold them."""
        return [self.canaries.text(canary) for canary in self.canaries.injected]


@dataclass(frozen=True)
class Placed:
    """Places of the copies among all records (from 0, ascending), whose, and of how many.

    `empty` names the columns that have text and are empty in records of a canary's own.
    """

    places: NDArray[np.int64]
    owners: NDArray[np.int64]
    records: int
    empty: tuple[str, ...] = ()

    @classmethod
    def in_hosts(cls, guests: Mapping[int, list[tuple[int, float]]], records: int) -> Placed:
        """Of copies that were spliced into hosts."""
        pairs = [(at, who) for at, mine in guests.items() for who, _ in mine]
        places, owners = np.array(pairs, np.int64).reshape(-1, 2).T
        return cls(places, owners, records)


@dataclass
class _Survey:
    """What the first pass has seen.

    `checksum` is the CRC-32 of all bytes: what is written must be what was checked.
    `homes` has a byte for each piece, 1 if a canary can be spliced into it.
    """

    pieces: int = 0
    checksum: int = 0
    columns: tuple[str, ...] | None = None
    shape: Shape = field(default_factory=lambda: Shape(()))
    newline: bytes = b"\n"
    open_ended: bool = False
    homes: bytearray = field(default_factory=bytearray)
    empty: tuple[str, ...] = ()

    def note(
        self, record: Mapping[str, Any], layout: Layout, job: Job, piece: bytes, number: int
    ) -> None:
        """Take the first record as the pattern of those to come."""
        for name, _ in job.beside:
            if any(len(slot.path) > 1 for slot in layout.slots(record, (name,), number)):
                raise refuse_chat(name, place(layout.path, number))
        self.columns = tuple(record)
        self.shape = Shape(job.names, chat=is_chat(record[job.names[0]]), beside=job.beside)
        self.empty = empty_texts(record, self.shape)
        self.newline = end_of_line(piece) or b"\n"


def inject_lines(
    source: Path, out: IO[bytes], layout: Layout, job: Job, progress: Progress | None
) -> Placed:
    """Write the pieces of `source` to `out` with canaries among or in them.

    Raises
    ------
    CorpusError
        If a record is damaged or lacks its text, holds a canary already, if there is
        none, or if the file changes meanwhile; it names file and line.
    """
    size = regular_size(source)
    if job.check:
        survey = _survey(source, layout, job, progress, 2 * size)
    else:
        survey = _count(source, layout, job, progress, 2 * size)
    if survey.columns is None:
        raise CorpusError(
            "holds no record", cure="name a corpus with at least one", where=str(source)
        )
    if job.separators is not None:
        return _splice(source, out, layout, job, survey=survey, progress=progress)
    places, owners = arrange(survey.pieces - layout.head - survey.open_ended, job.copies, job.seed)
    records = [
        layout.render(survey.columns, survey.shape, text, survey.newline) for text in job.texts
    ]
    placed = ((int(at) + layout.head, records[who]) for at, who in zip(places, owners, strict=True))
    if layout.by_line:
        chunks = read_chunks(source, progress=progress, done=size, total=2 * size)
        merged = _merge_chunks(_same(chunks, survey, source), placed)
    else:
        lines = read_lines(source, progress=progress, done=size, total=2 * size)
        pieces = (piece for _, piece in layout.pieces(lines))
        merged = _merge(_same(pieces, survey, source), placed)
    for piece in merged:
        out.write(piece)
    return Placed(places, owners, survey.pieces - layout.head + len(places), survey.empty)


def strip_lines(
    source: Path, out: IO[bytes], layout: Layout, job: Job, progress: Progress | None
) -> tuple[int, int]:
    """Write the pieces of `source` to `out` without canaries.

    Returns
    -------
    (int, int)
        Records that went, and copies that were cut out of others.
    """
    canaries, names = job.canaries, job.names
    assert job.separators is not None
    find = find_canaries(canaries, canaries.injected)
    own = {*job.texts}
    remover = Remover(canaries, job.separators)
    gone = cuts = records = 0
    for number, piece, record, slots in _records(source, layout, names, progress):
        if record is None:
            out.write(piece)
            continue
        records += 1
        if not any(find(slot.text) for slot in slots):
            out.write(piece)
        elif Shape(names, beside=job.beside).owner(record, slots) in own:
            gone += 1
        else:
            edits = remover.edits(slots)
            stripped = layout.edit(piece, edits)
            again = layout.read(stripped, number)
            if again is not None:
                check_clean(layout.slots(again, names, number), find, place(source, number))
            out.write(stripped)
            cuts += len(edits)
    if records == 0:
        raise CorpusError(
            "holds no record", cure="name a corpus with at least one", where=str(source)
        )
    return gone, cuts


def slots_in_lines(
    source: Path, layout: Layout, names: tuple[str, ...], progress: Progress | None
) -> Iterator[list[Slot]]:
    """The texts of each record, checked as for injection."""
    for _, _, record, slots in _records(source, layout, names, progress):
        if record is not None:
            yield slots


def _records(
    source: Path, layout: Layout, names: tuple[str, ...], progress: Progress | None
) -> Iterator[tuple[int, bytes, dict[str, Any] | None, list[Slot]]]:
    size = regular_size(source)
    for number, piece in layout.pieces(read_lines(source, progress=progress, total=size)):
        record = layout.read(piece, number)
        yield number, piece, record, [] if record is None else layout.slots(record, names, number)


def _survey(
    source: Path, layout: Layout, job: Job, progress: Progress | None, total: int
) -> _Survey:
    survey = _Survey()
    splicing = job.separators is not None
    quotes = splicing and layout.needs_quotes(_spliced(job))
    find = find_canaries(job.canaries, job.canaries)
    piece, pieces, checksum = b"", 0, 0
    for number, piece in layout.pieces(read_lines(source, progress=progress, total=total)):
        pieces += 1
        checksum = zlib.crc32(piece, checksum)
        record = layout.read(piece, number)
        if record is None:
            if splicing:
                survey.homes.append(False)
            continue
        slots = layout.slots(record, job.names, number)
        if survey.columns is None:
            survey.note(record, layout, job, piece, number)
        for slot in slots:
            if find(slot.text):
                check_fresh(slots, find, place(source, number))
        if splicing:
            fits = hostable(slots, survey.shape)
            survey.homes.append(fits and (not quotes or layout.quoted(piece, job.names)))
    survey.pieces, survey.checksum = pieces, checksum
    survey.open_ended = not end_of_line(piece)
    return survey


def _count(
    source: Path, layout: Layout, job: Job, progress: Progress | None, total: int
) -> _Survey:
    """The survey that looks at the first record only."""
    survey = _Survey()
    for number, piece in layout.pieces(read_lines(source)):
        record = layout.read(piece, number)
        if record is not None:
            layout.slots(record, job.names, number)
            survey.note(record, layout, job, piece, number)
            break
    last = b""
    if layout.by_line:
        for last in read_chunks(source, progress=progress, total=total):
            survey.pieces += last.count(b"\n")
            survey.checksum = zlib.crc32(last, survey.checksum)
        survey.pieces += not end_of_line(last)
    else:
        for _, last in layout.pieces(read_lines(source, progress=progress, total=total)):
            survey.pieces += 1
            survey.checksum = zlib.crc32(last, survey.checksum)
    survey.open_ended = not end_of_line(last)
    return survey


def _splice(
    source: Path,
    out: IO[bytes],
    layout: Layout,
    job: Job,
    *,
    survey: _Survey,
    progress: Progress | None,
) -> Placed:
    assert job.separators is not None
    guests = assign(survey.homes, job.copies, job.seed)
    splicer = Splicer.of(job.canaries, job.separators, survey.shape)
    size = regular_size(source)
    if layout.by_line:
        chunks = read_chunks(source, progress=progress, done=size, total=2 * size)
        parts = _cut_out(chunks, guests)
    else:
        lines = read_lines(source, progress=progress, done=size, total=2 * size)
        parts = ((at, *piece) for at, piece in enumerate(layout.pieces(lines)))
    checksum = 0
    for at, number, piece in parts:
        checksum = zlib.crc32(piece, checksum)
        if at not in guests:
            out.write(piece)
            continue
        record = layout.read(piece, number)
        if record is None:
            raise changed(source)
        slots = layout.slots(record, job.names, number)
        edits = splicer.edits(slots, record, guests[at], place(source, number))
        out.write(layout.edit(piece, edits))
    if checksum != survey.checksum:
        raise changed(source)
    shifted = {at - layout.head: mine for at, mine in guests.items()}
    return Placed.in_hosts(shifted, survey.pieces - layout.head)


def _spliced(job: Job) -> list[str]:
    assert job.separators is not None
    before, after = job.separators
    return [before + text + after for text in job.texts]


def _same(parts: Iterable[bytes], survey: _Survey, source: Path) -> Iterator[bytes]:
    """`parts` as they are; an error at the end if they are not what was surveyed."""
    checksum = 0
    for part in parts:
        checksum = zlib.crc32(part, checksum)
        yield part
    if checksum != survey.checksum:
        raise changed(source)


def changed(source: Path) -> CorpusError:
    """What to say of a corpus that was written to between the passes."""
    return CorpusError(
        "changed while it was read",
        cure="inject again when nothing else writes to it",
        where=str(source),
    )


def _cut_out(
    chunks: Iterable[bytes], wanted: Iterable[int]
) -> Iterator[tuple[int | None, int, bytes]]:
    """The wanted lines (from 0, ascending), each with its number from 1, and what is between.

    Chunks end where lines do. Lines that are not wanted are not cut apart; they have no
    place of their own, which is None.
    """
    waiting = iter(wanted)
    place = next(waiting, -1)
    at = 0  # ends of line that have gone out
    for chunk in chunks:
        total = chunk.count(b"\n") + (not chunk.endswith(b"\n"))
        begin = 0
        if at <= place < at + total:
            ends = np.flatnonzero(np.frombuffer(chunk, np.uint8) == ord("\n")) + 1
            ends = np.append(ends[: total - 1], len(chunk))
            while at <= place < at + total:
                start = int(ends[place - at - 1]) if place > at else 0
                stop = int(ends[place - at])
                yield None, 0, chunk[begin:start]
                yield place, place + 1, chunk[start:stop]
                begin, place = stop, next(waiting, -1)
        yield None, 0, chunk[begin:]
        at += total


def _merge(pieces: Iterable[bytes], placed: Iterator[tuple[int, bytes]]) -> Iterator[bytes]:
    """`pieces` in their order, and each of `placed` at its place among all, from 0."""
    next_at, record = next(placed, _NOWHERE)
    at = 0
    for piece in pieces:
        while next_at == at:
            yield record
            at += 1
            next_at, record = next(placed, _NOWHERE)
        yield piece
        at += 1
    while next_at == at:
        yield record
        at += 1
        next_at, record = next(placed, _NOWHERE)


def _merge_chunks(chunks: Iterable[bytes], placed: Iterator[tuple[int, bytes]]) -> Iterator[bytes]:
    """The same where each line is a piece, and the lines need not be cut apart."""
    next_at, record = next(placed, _NOWHERE)
    at = 0  # ends of line that have gone out
    while next_at == at:
        yield record
        at += 1
        next_at, record = next(placed, _NOWHERE)
    for chunk in chunks:
        total, gone, begin = chunk.count(b"\n"), 0, 0
        ends: NDArray[np.int64] | None = None
        while 0 <= next_at - at <= total - gone:
            if ends is None:
                ends = np.flatnonzero(np.frombuffer(chunk, np.uint8) == ord("\n")) + 1
            gone += next_at - at
            end = int(ends[gone - 1])
            yield chunk[begin:end]
            begin, at = end, next_at
            while next_at == at:
                yield record
                at += 1
                next_at, record = next(placed, _NOWHERE)
        yield chunk[begin:]
        at += total - gone
