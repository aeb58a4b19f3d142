"""Canaries into and out of Parquet files, a part of a row group at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

from canary.corpus.columns import (
    Edit,
    Shape,
    Slot,
    edit_record,
    edited_slots,
    empty_texts,
    refuse_chat,
    slots_of,
)
from canary.corpus.line_files import Job, Placed, changed
from canary.corpus.lines import Progress, regular_size, unreadable
from canary.corpus.occurrences import find_canaries
from canary.corpus.placements import arrange, assign, check_fresh
from canary.corpus.splicing import Remover, Splicer, check_clean, hostable
from canary.errors import CorpusError, OutputError

__all__ = ["inject_parquet", "slots_in_parquet", "strip_parquet"]

_PART = 1 << 25
"""Bytes of a part, uncompressed; smaller row groups are read as one."""


def inject_parquet(source: Path, out: IO[bytes], job: Job, progress: Progress | None) -> Placed:
    """Write the rows of `source` to `out` with canaries among or in them.

    Schema, metadata and compression are kept. Row groups may be cut smaller.

    Raises
    ------
    CorpusError
        If the file is damaged, lacks the columns, has no rows, holds a canary already,
        or if a column of it must not be empty; or if it changes meanwhile.
    """
    before = _state(source)
    with _opened(source) as file:
        shape = _shape_of(file, job, source)
        rows = file.metadata.num_rows
        meter = _Meter(progress, before[0], rows, passes=2)
        homes = _survey(file, source, shape, job, meter) if job.check else bytearray()
        if job.separators is None:
            places, owners = arrange(rows, job.copies, job.seed)
            (first,) = next(file.iter_batches(batch_size=1)).to_pylist()
            placed = Placed(places, owners, rows + len(places), empty_texts(first, shape))
            own = _own_rows(file, shape, job.texts, source)
            parts = _among(_tables(file, meter), own, placed)
        else:
            guests = assign(homes, job.copies, job.seed)
            splicer = Splicer.of(job.canaries, job.separators, shape)
            placed = Placed.in_hosts(guests, rows)
            parts = (
                _edited(table, _splices(table, start, guests, splicer, source))
                for start, table in _tables(file, meter)
            )
        _write(out, file, parts)
    if _state(source) != before:
        raise changed(source)
    return placed


def strip_parquet(
    source: Path, out: IO[bytes], job: Job, progress: Progress | None
) -> tuple[int, int]:
    """Write the rows of `source` to `out` without canaries; see `strip_lines`."""
    assert job.separators is not None
    find = find_canaries(job.canaries, job.canaries.injected)
    own = {*job.texts}
    remover = Remover(job.canaries, job.separators)
    gone = cuts = 0
    size = regular_size(source)

    def stripped(start: int, table: Any) -> Any:
        nonlocal gone, cuts
        edits: dict[int, list[Edit]] = {}
        left_out = []
        for at, row in enumerate(_rows(table, shape.names)):
            slots = slots_of(row, shape.names)
            if not any(find(slot.text) for slot in slots):
                continue
            if shape.owner(table.slice(at, 1).to_pylist()[0], slots) in own:
                left_out.append(at)
                continue
            edits[at] = remover.edits(slots)
            check_clean(edited_slots(slots, edits[at]), find, f"{source}: row {start + at + 1}")
            cuts += len(edits[at])
        gone += len(left_out)
        return _without(_edited(table, edits), left_out)

    with _opened(source) as file:
        shape = _shape_of(file, job, source)
        meter = _Meter(progress, size, file.metadata.num_rows)
        _write(out, file, (stripped(start, table) for start, table in _tables(file, meter)))
    return gone, cuts


def slots_in_parquet(
    source: Path, names: tuple[str, ...], progress: Progress | None
) -> Iterator[list[Slot]]:
    """The texts of each row; a row without one has none."""
    size = regular_size(source)
    with _opened(source) as file:
        _shape(file, names, source)
        meter = _Meter(progress, size, file.metadata.num_rows)
        for _, table in _tables(file, meter, names):
            for row in _rows(table, names):
                yield slots_of(row, names)


class _Meter:
    """Tells how many bytes of a file are done, by its rows."""

    def __init__(self, progress: Progress | None, size: int, rows: int, passes: int = 1) -> None:
        self._progress, self._size, self._rows, self._passes = progress, size, rows, passes
        self._done = 0

    def advance(self, rows: int) -> None:
        self._done += rows
        if self._progress is not None:
            total = self._size * self._passes
            self._progress(total * self._done // max(self._rows * self._passes, 1), total)


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    regular_size(path)
    try:
        with pq.ParquetFile(path) as file:
            yield file
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as error:
        if isinstance(error, OutputError) or getattr(error, "errno", None):
            raise
        raise unreadable(path, ValueError(str(error).splitlines()[0])) from error


def _state(path: Path) -> tuple[int, int, int]:
    regular_size(path)
    status = path.stat()
    return status.st_size, status.st_mtime_ns, status.st_ino


def _shape_of(file: Any, job: Job, path: Path) -> Shape:
    for name, _ in job.beside:
        if _shape(file, (name,), path).chat:
            raise refuse_chat(name, str(path))
    return replace(_shape(file, job.names, path), beside=job.beside)


def _shape(file: Any, names: tuple[str, ...], path: Path) -> Shape:
    from pyarrow import types

    schema = file.schema_arrow
    if file.metadata.num_rows == 0:
        raise CorpusError("holds no record", cure="name a corpus with some", where=str(path))
    chats = []
    for name in names:
        if name not in schema.names:
            known = ", ".join(repr(key[:30]) for key in schema.names[:8])
            raise CorpusError(
                f"has no column {name!r}", cure=f"name one of {known}", where=str(path)
            )
        kind = schema.field(name).type
        chats.append(_holds_chats(kind))
        if not (chats[-1] or types.is_string(kind) or types.is_large_string(kind)):
            raise CorpusError(
                f"column {name!r} is {kind}, not text",
                cure="name a column of strings or of chat messages",
                where=str(path),
            )
    if len({*chats}) > 1:
        raise CorpusError(
            "one column holds texts and the other chats",
            cure="name two columns of texts",
            where=str(path),
        )
    return Shape(names, chat=chats[0])


def _holds_chats(kind: Any) -> bool:
    from pyarrow import types

    if not (types.is_list(kind) or types.is_large_list(kind)):
        return False
    item = kind.value_type
    return types.is_struct(item) and all(
        item.get_field_index(key) >= 0 and types.is_string(item.field(key).type)
        for key in ("role", "content")
    )


def _tables(
    file: Any, meter: _Meter, columns: Sequence[str] | None = None
) -> Iterator[tuple[int, Any]]:
    """The rows as tables of bounded size, each with the number of its first row from 0."""
    import pyarrow as pa

    start = 0
    for group in range(file.num_row_groups):
        about = file.metadata.row_group(group)
        rows = max(1, _PART * about.num_rows // max(about.total_byte_size, _PART))
        for batch in file.iter_batches(
            batch_size=rows, row_groups=[group], columns=columns, use_threads=False
        ):
            table = pa.Table.from_batches([batch])
            yield start, table
            start += len(table)
            meter.advance(len(table))


def _rows(table: Any, names: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    columns = [table.column(name).to_pylist() for name in names]
    for values in zip(*columns, strict=True):
        yield dict(zip(names, values, strict=True))


def _survey(file: Any, source: Path, shape: Shape, job: Job, meter: _Meter) -> bytearray:
    """The rows that can take a splice; an error if a canary is there already."""
    find = find_canaries(job.canaries, job.canaries)
    homes = bytearray()
    for start, table in _tables(file, meter, shape.names):
        for at, row in enumerate(_rows(table, shape.names), start):
            slots = slots_of(row, shape.names)
            for slot in slots:
                if find(slot.text):
                    check_fresh(slots, find, f"{source}: row {at + 1}")
            homes.append(hostable(slots, shape))
    return homes


def _own_rows(file: Any, shape: Shape, texts: Sequence[str], source: Path) -> Any:
    """A table with a row for each text, null but for what `shape` holds."""
    import pyarrow as pa

    schema = file.schema_arrow
    values = [shape.values(text) for text in texts]
    holding = {*shape.names, *dict(shape.beside)}
    arrays = []
    for field in schema:
        if field.name in holding:
            arrays.append(pa.array([row[field.name] for row in values], type=field.type))
        elif not field.nullable:
            raise CorpusError(
                f"column {field.name!r} must not be null, so that no row can be added",
                cure="splice the canaries into its rows (mode='splice')",
                where=str(source),
            )
        else:
            arrays.append(pa.nulls(len(texts), field.type))
    return pa.Table.from_arrays(arrays, schema=schema)


def _among(tables: Iterable[tuple[int, Any]], own: Any, placed: Placed) -> Iterator[Any]:
    """The tables with rows of `own` at their places among all rows."""
    import pyarrow as pa

    waiting = zip(placed.places.tolist(), placed.owners.tolist(), strict=True)
    place, who = next(waiting, (-1, -1))
    at = 0
    for _, table in tables:
        parts = []
        begin = 0
        while 0 <= place <= at + len(table) - begin:
            end = begin + place - at
            parts += [table.slice(begin, end - begin), own.slice(who, 1)]
            begin, at = end, place + 1
            place, who = next(waiting, (-1, -1))
        parts.append(table.slice(begin))
        at += len(table) - begin
        yield pa.concat_tables(parts)


def _splices(
    table: Any,
    start: int,
    guests: Mapping[int, list[tuple[int, float]]],
    splicer: Splicer,
    source: Path,
) -> dict[int, list[Edit]]:
    """The edits of the rows of a table that are hosts."""
    edits = {}
    names = splicer.shape.names
    for at in range(len(table)):
        mine = guests.get(start + at)
        if mine is not None:
            (row,) = _rows(table.slice(at, 1), names)
            where = f"{source}: row {start + at + 1}"
            edits[at] = splicer.edits(slots_of(row, names), row, mine, where)
    return edits


def _edited(table: Any, edits: Mapping[int, list[Edit]]) -> Any:
    """`table` with some rows edited."""
    import pyarrow as pa

    for name in sorted({str(edit.path[0]) for row in edits.values() for edit in row}):
        column = table.column(name)
        chunks: list[Any] = []
        begin = 0
        for at in sorted(edits):
            mine = [edit for edit in edits[at] if edit.path[0] == name]
            value = edit_record({name: column[at].as_py()}, mine)[name]
            chunks += column.slice(begin, at - begin).chunks
            chunks.append(pa.array([value], type=column.type))
            begin = at + 1
        chunks += column.slice(begin).chunks
        index = table.schema.get_field_index(name)
        array = pa.chunked_array(chunks, type=column.type)
        table = table.set_column(index, table.schema.field(index), array)
    return table


def _without(table: Any, rows: Sequence[int]) -> Any:
    """`table` without some rows, ascending."""
    import pyarrow as pa

    if not rows:
        return table
    parts = []
    begin = 0
    for at in rows:
        parts.append(table.slice(begin, at - begin))
        begin = at + 1
    return pa.concat_tables([*parts, table.slice(begin)])


def _write(out: IO[bytes], file: Any, tables: Iterable[Any]) -> None:
    import pyarrow.parquet as pq

    codec = "snappy"
    if file.num_row_groups and file.metadata.num_columns:
        codec = file.metadata.row_group(0).column(0).compression.lower()
    codec = {"uncompressed": "none", "lz4_raw": "lz4"}.get(codec, codec)
    with pq.ParquetWriter(out, file.schema_arrow, compression=codec) as writer:
        for table in tables:
            if len(table):
                writer.write_table(table, row_group_size=len(table))
