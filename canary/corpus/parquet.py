"""Corpora as Parquet files, read and written a part of a row group at a time."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from canary.corpus.arrow_rows import decisions, edit_rows, own_rows, plain_rows, shape_in
from canary.corpus.columns import Edit, Slot, empty_texts, slots_of
from canary.corpus.corpora import Edits, FileCorpus, Position
from canary.corpus.lines import unreadable
from canary.errors import CorpusError, OutputError

_PART = 1 << 25
"""Bytes of a part, uncompressed; smaller row groups are read as one."""


class ParquetRows(FileCorpus):
    """The rows of a Parquet file; schema, metadata and codec are kept, row groups cut smaller."""

    endings = (".parquet",)
    compressible = False

    def look(self) -> None:
        with self._opened() as file:
            if file.metadata.num_rows == 0:
                raise CorpusError(
                    "holds no record", cure="name a corpus with some", where=self.source
                )
            self.shape = shape_in(file.schema_arrow, self.names, self.beside, self.source)
            self.rows = self.last = file.metadata.num_rows

    def empty(self) -> tuple[str, ...]:
        with self._opened() as file:
            (first,) = next(file.iter_batches(batch_size=1)).to_pylist()
        return empty_texts(first, self.shape)

    def iterate(self) -> Iterator[tuple[Position, int, list[Slot]]]:
        with self._opened() as file:
            for start, table in self._tables(file, self.names):
                for at, row in enumerate(plain_rows(table, self.names), start):
                    yield at, at + 1, slots_of(row, self.names)

    def count(self) -> None:
        self._pass += 1
        self.report(1, 1)

    def rewrite(self, edits: Edits, out: Any = None) -> None:
        with self._opened() as file:
            texts = {text: number for number, text in enumerate(edits.texts)}
            own: Any = texts and own_rows(file.schema_arrow, self.shape, texts, self.source)
            places: list[Any] = sorted(edits.inserts)
            with _writer(out, file) as write:
                for start, table in self._tables(file):
                    end = start + len(table)
                    found = self._decisions(table, start, edits)
                    changed = edit_rows(table, {n: mine for n, mine in found.items() if mine})
                    # What goes in between two tables belongs to the first of them.
                    first = bisect_right(places, start) if start else 0
                    cuts = {
                        place - start: [own.slice(texts[t], 1) for t in edits.inserts[place]]
                        for place in places[first : bisect_right(places, end)]
                    }
                    gone = [number for number, mine in found.items() if mine is None]
                    write(_assembled(changed, cuts, gone))
        self.watch.check()

    def _decisions(self, table: Any, start: int, edits: Edits) -> dict[int, list[Edit] | None]:
        """What becomes of the rows of a table."""
        at = edits.at
        numbers = [n for n in range(len(table)) if at is None or start + n in at]
        if edits.decide is None or not numbers:
            return {}
        texts = table.select(self.names)
        rows = plain_rows(texts if edits.at is None else texts.take(numbers), self.names)
        found = decisions(
            self,
            edits,
            zip((start + n for n in numbers), rows, strict=True),
            lambda position: table.slice(position - start, 1).to_pylist()[0],
        )
        return {number - start: mine for number, mine in found.items()}

    def _tables(self, file: Any, columns: Sequence[str] | None = None) -> Iterator[tuple[int, Any]]:
        """The rows as tables of bounded size, each with the number of its first row from 0."""
        import pyarrow as pa

        self._pass += 1
        start = 0
        for group in range(file.num_row_groups):
            about = file.metadata.row_group(group)
            rows = max(1, _PART * about.num_rows // max(about.total_byte_size, _PART))
            for batch in file.iter_batches(
                batch_size=rows, row_groups=[group], columns=columns, use_threads=False
            ):
                if not len(batch):
                    continue
                table = pa.Table.from_batches([batch])
                yield start, table
                start += len(table)
                self.report(start, self.rows)

    @contextmanager
    def _opened(self) -> Iterator[Any]:
        import pyarrow as pa
        import pyarrow.parquet as pq

        _ = self.watch
        try:
            with pq.ParquetFile(self.path) as file:
                yield file
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as error:
            if isinstance(error, OutputError) or getattr(error, "errno", None):
                raise
            raise unreadable(self.path, ValueError(str(error).splitlines()[0])) from error


def _assembled(table: Any, cuts: Mapping[int, Sequence[Any]], gone: Sequence[int]) -> Any:
    """`table` with rows put in before some of its own, and without some."""
    import pyarrow as pa

    if not cuts and not gone:
        return table
    left_out = {*gone}
    parts = []
    begin = 0
    for number in sorted({*cuts, *left_out}):
        parts += [table.slice(begin, number - begin), *cuts.get(number, ())]
        begin = number + (number in left_out)
    return pa.concat_tables([*parts, table.slice(begin)])


@contextmanager
def _writer(out: Any, file: Any) -> Iterator[Any]:
    """A function that writes tables to `out` as `file` is written, each as a row group."""
    import pyarrow.parquet as pq

    codec = "snappy"
    if file.num_row_groups and file.metadata.num_columns:
        codec = file.metadata.row_group(0).column(0).compression.lower()
    codec = {"uncompressed": "none", "lz4_raw": "lz4"}.get(codec, codec)
    with pq.ParquetWriter(out, file.schema_arrow, compression=codec) as writer:

        def write(table: Any) -> None:
            if len(table):
                writer.write_table(table, row_group_size=len(table))

        yield write
