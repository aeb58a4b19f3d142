"""Parquet and Arrow files, read and written as tables of bounded size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from canary.corpus.token_documents import spread

_PART = 1 << 25
"""Bytes of a part, uncompressed; smaller row groups are read as one."""
_HEADS, _HEAD = 16, 16
"""Parts that a sample is of, and rows of each."""


class ParquetTables:
    """A Parquet file that is open."""

    def __init__(self, source: Any, stack: ExitStack) -> None:
        import pyarrow.parquet as pq

        self._file = stack.enter_context(pq.ParquetFile(source))
        self.schema = self._file.schema_arrow

    def count(self) -> int:
        """How many rows there are."""
        return int(self._file.metadata.num_rows)

    def parts(self, columns: Sequence[str] | None = None) -> Iterator[Any]:
        """The rows as tables of bounded size."""
        for group in range(self._file.num_row_groups):
            about = self._file.metadata.row_group(group)
            yield from self._read(
                group, max(1, _PART * about.num_rows // max(about.total_byte_size, _PART)), columns
            )

    def sample(self) -> Any:
        """Some rows, from the first to those of the last row group."""
        import pyarrow as pa

        heads = (self._read(group, _HEAD) for group in spread(self._file.num_row_groups, _HEADS))
        return pa.concat_tables([*filter(None, (next(head, None) for head in heads))])

    def _read(self, group: int, rows: int, columns: Sequence[str] | None = None) -> Iterator[Any]:
        import pyarrow as pa

        for batch in self._file.iter_batches(
            batch_size=rows, row_groups=[group], columns=columns, use_threads=False
        ):
            if len(batch):
                yield pa.Table.from_batches([batch])

    def writer(self, out: Any) -> Any:
        """What writes such a file."""
        import pyarrow.parquet as pq

        codec = self._file.metadata.row_group(0).column(0).compression.lower()
        codec = {"uncompressed": "none", "lz4_raw": "lz4"}.get(codec, codec)
        return pq.ParquetWriter(out, self.schema, compression=codec)


class ArrowTables:
    """An Arrow file that is open, or a stream in a file."""

    def __init__(self, source: Any, stack: ExitStack) -> None:
        import pyarrow as pa

        here = isinstance(source, Path)
        self._file = stack.enter_context(
            pa.memory_map(str(source)) if here else pa.PythonFile(source, "r")
        )
        self._is_file = self._file.read(6) == b"ARROW1"
        self.schema = self._reader().schema

    def count(self) -> int:
        """How many rows there are."""
        return sum(map(len, self._batches()))

    def parts(self, columns: Sequence[str] | None = None) -> Iterator[Any]:
        """The rows as tables of bounded size."""
        import pyarrow as pa

        for batch in self._batches():
            batch.validate(full=True)  # a damaged one would end the process
            rows = max(1, _PART * len(batch) // max(batch.nbytes, _PART))
            for start in range(0, len(batch), rows):
                table = pa.Table.from_batches([batch.slice(start, rows)])
                yield table if columns is None else table.select(columns)

    def sample(self) -> Any:
        """Some rows, from the first to those of one of the last batches."""
        import pyarrow as pa

        heads: list[Any] = []
        every = 1
        for number, batch in enumerate(filter(len, self._batches())):
            if number % every == 0:
                heads.append(batch.slice(0, _HEAD))
                heads[-1].validate(full=True)
            if len(heads) > _HEADS:
                heads, every = heads[::2], 2 * every
        return pa.Table.from_batches(heads)

    def writer(self, out: Any) -> Any:
        """What writes such a file."""
        import pyarrow as pa

        make = pa.ipc.new_file if self._is_file else pa.ipc.new_stream
        return make(out, self.schema, options=pa.ipc.IpcWriteOptions(unify_dictionaries=True))

    def _reader(self) -> Any:
        import pyarrow as pa

        self._file.seek(0)
        return (pa.ipc.open_file if self._is_file else pa.ipc.open_stream)(self._file)

    def _batches(self) -> Iterator[Any]:
        reader = self._reader()
        if not self._is_file:
            yield from reader
        else:
            yield from map(reader.get_batch, range(reader.num_record_batches))
