"""Arrow tables with text or token ids, and Parquet and Arrow files as corpora."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from canary.corpus.arrow_tables import ArrowTables, ParquetTables
from canary.corpus.columns import (
    Beside,
    Edit,
    Shape,
    Slot,
    column_cure,
    edit_value,
    empty_texts,
    refuse_chat,
    slots_of,
)
from canary.corpus.corpora import Corpus, Edits, FileCorpus, Position, Specials
from canary.corpus.lines import unreadable
from canary.corpus.token_columns import TokenColumn, is_token_column
from canary.errors import CorpusError, EmptyCorpusError, OutputError
from canary.records.addresses import Remote


class TableRows(FileCorpus):
    """The rows of a file of tables; schema, metadata and codec are kept, parts cut smaller."""

    compressible = False
    tables: ClassVar[type[ParquetTables | ArrowTables]]
    tokens: TokenColumn | None = None

    def look(self) -> None:
        with self._opened() as file:
            self.rows = self.last = file.count()
            self.columns = tuple(file.schema.names)
            if not self.rows:
                raise EmptyCorpusError.of(self.source)
            if is_token_column(file.schema, self.names):
                if self.beside:
                    raise CorpusError(
                        "a corpus of token ids has no text beside a canary",
                        cure="leave beside out",
                        where=self.source,
                    )
                (name,) = self.names
                self.tokens = TokenColumn(
                    file.sample(), name, self.tokenizer, self.pad, self.source
                )
                self.length = self.tokens.length
                self.shape = Shape(self.names)
            else:
                self.shape = shape_in(file.schema, self.names, self.beside, self.source)

    def empty(self) -> tuple[str, ...]:
        with self._opened() as file:
            (first,) = file.sample().slice(0, 1).to_pylist()
        return empty_texts(first, self.shape)

    def specials(self) -> Specials:
        assert self.tokens is not None
        if self.tokens.has_pad:
            return {repr(self.pad): 1}
        with self._opened() as file:
            return self.tokens.specials(file.parts(self.names))

    def check_texts(self, texts: Sequence[str]) -> None:
        if self.tokens is not None:
            self.tokens.check(texts)

    def needs_quotes(self, texts: Sequence[str]) -> bool:
        if self.tokens is not None:
            self.tokens.choose()
        return self.tokens is not None

    def iterate(self) -> Iterator[tuple[Position, int, list[Slot]]]:
        with self._opened() as file:
            for start, table in self._tables(file, self.names):
                for row, slots in enumerate(self._slots(table), start):
                    yield row, row + 1, slots

    def count(self) -> None:
        self._pass += 1
        self.report(1, 1)

    def rewrite(self, edits: Edits, out: Any = None) -> None:
        values = self.shape.values if self.tokens is None else self.tokens.values
        edit = edit_rows if self.tokens is None else self.tokens.edited
        with self._opened() as file:
            own = []
            if edits.inserts:
                own = [own_rows(file.schema, [*map(values, edits.texts)], self.source)]
            places: list[Any] = sorted(edits.inserts)
            with file.writer(out) as writer:
                for start, table in self._tables(file):
                    decisions = self._decisions(table, start, edits)
                    changed = [row for row, changes in decisions.items() if changes]
                    edited = edit(_taken(changed, table), [decisions[row] for row in changed])
                    # What goes in between two tables belongs to the first of them.
                    first = bisect_right(places, start) if start else 0
                    here = places[first : bisect_right(places, start + len(table))]
                    inserts = {place - start: edits.inserts[place] for place in here}
                    order = new_order(len(table), decisions, inserts, edits.texts)
                    whole = table
                    if inserts or decisions:
                        whole = _taken(order, table, edited, *own)
                    if len(whole):
                        writer.write_table(whole, len(whole))
        self.check_unchanged()

    def _slots(self, table: Any) -> Iterator[list[Slot]]:
        if self.tokens is not None:
            return self.tokens.slots(table)
        return (slots_of(record, self.names) for record in table.to_pylist())

    def _decisions(self, table: Any, start: int, edits: Edits) -> dict[int, list[Edit] | None]:
        """What becomes of the rows of a table, but for those that stay as they are."""
        at = edits.at
        if edits.decide is None:
            return {}
        rows: Any = range(len(table))
        texts = table.select(self.names)
        if at is not None:
            rows = [row for row in rows if start + row in at]
            texts = _taken(rows, texts)
        numbered = zip((start + row for row in rows), self._slots(texts), strict=True)

        def record(position: Any) -> Mapping[str, Any]:
            row: Mapping[str, Any] = table.slice(position - start, 1).to_pylist()[0]
            return row if self.tokens is None else self.tokens.record(row)

        return {
            position - start: changes
            for position, changes in decided(self, edits, numbered, record).items()
        }

    def _tables(self, file: Any, columns: Sequence[str] | None = None) -> Iterator[tuple[int, Any]]:
        """The rows as tables of bounded size, each with the number of its first row from 0."""
        self._pass += 1
        start = 0
        for table in file.parts(columns):
            yield start, table
            start += len(table)
            self.report(start, self.rows)

    @contextmanager
    def _opened(self) -> Iterator[Any]:
        import pyarrow as pa

        _ = self.stamp
        try:
            with ExitStack() as stack:
                source: Any = self.path
                if isinstance(source, Remote):
                    source = stack.enter_context(source.open())
                yield self.tables(source, stack)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as error:
            if isinstance(error, OutputError) or getattr(error, "errno", None):
                raise
            raise unreadable(self.path, ValueError(str(error).splitlines()[0])) from error


class ParquetRows(TableRows):
    """The rows of a Parquet file."""

    endings = (".parquet",)
    tables = ParquetTables


class ArrowRows(TableRows):
    """The rows of an Arrow file, or of a stream of Arrow tables in a file, as `datasets` has."""

    endings = (".arrow",)
    tables = ArrowTables


def shape_in(schema: Any, names: tuple[str, ...], beside: Beside, where: str) -> Shape:
    """How columns of an Arrow schema hold text; a CorpusError if one does not."""
    chats = {name: _holds_chats(schema, name, where) for name in (*names, *dict(beside))}
    for name, _ in beside:
        if chats[name]:
            raise refuse_chat(name, where)
    if len({chats[name] for name in names}) > 1:
        raise CorpusError(
            "one column holds texts and the other chats",
            cure="name two columns of texts",
            where=where,
        )
    return Shape(names, chat=chats[names[0]], beside=beside)


def _holds_chats(schema: Any, name: str, where: str) -> bool:
    """Whether a column holds chats, and not texts."""
    from pyarrow import types

    if name not in schema.names:
        raise CorpusError(
            f"has no column {name!r}",
            cure=column_cure(name, schema.names) or "give a corpus with columns",
            where=where,
        )
    kind = schema.field(name).type
    if types.is_string(kind) or types.is_large_string(kind):
        return False
    item = kind.value_type if types.is_list(kind) or types.is_large_list(kind) else None
    if item is None or not (
        types.is_struct(item)
        and all(
            item.get_field_index(key) >= 0 and types.is_string(item.field(key).type)
            for key in ("role", "content")
        )
    ):
        raise CorpusError(
            f"column {name!r} is {kind}, not text",
            cure="name a column of strings or of chat messages",
            where=where,
        )
    return True


def decided(
    corpus: Corpus,
    edits: Edits,
    rows: Iterable[tuple[int, list[Slot]]],
    record: Callable[[Any], Mapping[str, Any]],
) -> dict[int, list[Edit] | None]:
    """What becomes of rows, by their numbers and texts; without those that stay as they are."""
    decisions = {}
    for number, slots in rows:
        changes = corpus.decided(edits, number, number + 1, slots, record)
        if changes is None or changes:
            decisions[number] = changes
    return decisions


def own_rows(schema: Any, values: Sequence[Mapping[str, Any]], where: str) -> Any:
    """A table with a row for each of `values`, null in the other columns."""
    import pyarrow as pa

    arrays = []
    for field in schema:
        if any(field.name in row for row in values):
            arrays.append(pa.array([row[field.name] for row in values], type=field.type))
        elif not field.nullable:
            raise CorpusError(
                f"column {field.name!r} must not be null, so that no row can be added",
                cure="splice the canaries into its rows (mode='splice')",
                where=where,
            )
        else:
            arrays.append(pa.nulls(len(values), field.type))
    return pa.Table.from_arrays(arrays, schema=schema)


def edit_rows(table: Any, changes: Sequence[Sequence[Edit] | None]) -> Any:
    """`table` with the texts of each row edited."""
    import pyarrow as pa

    for name in sorted({str(edit.path[0]) for edits in changes for edit in edits or ()}):
        values = zip(table.column(name).to_pylist(), changes, strict=True)
        new = [edit_value(name, value, edits or ()) for value, edits in values]
        index = table.schema.get_field_index(name)
        field = table.schema.field(index)
        table = table.set_column(index, field, pa.array(new, type=field.type))
    return table


def new_order(
    rows: int,
    decisions: Mapping[int, Sequence[Edit] | None],
    inserts: Mapping[Any, Sequence[str]],
    texts: Sequence[str],
) -> NDArray[np.int64]:
    """The rows of a changed table, as numbers of the old rows, the changed ones and `texts`.

    The changed rows follow the old ones in the order of `decisions`, and rows of their own for
    `texts` follow these.
    """
    order = np.arange(rows)
    changed = [row for row, changes in decisions.items() if changes]
    order[changed] = rows + np.arange(len(changed))
    order[[row for row, changes in decisions.items() if changes is None]] = -1
    if inserts:
        number = {text: rows + len(changed) + n for n, text in enumerate(texts)}
        copies = [(place, number[text]) for place, mine in inserts.items() for text in mine]
        order = np.insert(order, *np.array(copies, np.int64).T)
    return order[order >= 0]


def _taken(order: Sequence[int] | NDArray[np.int64], *tables: Any) -> Any:
    """The rows of tables, numbered from one to the next, in an order.

    They come as slices, since not every type of column can be taken from.
    """
    import pyarrow as pa

    rows = np.asarray(order, np.int64)
    firsts = np.cumsum([0, *map(len, tables[:-1])])
    breaks = (np.diff(rows, prepend=-2) != 1) | np.isin(rows, firsts)
    begins = np.flatnonzero(breaks)
    lengths = np.diff(begins, append=len(rows)).tolist()
    sources = np.searchsorted(firsts, rows[begins], side="right") - 1
    starts = rows[begins] - firsts[sources]
    runs = zip(sources.tolist(), starts.tolist(), lengths, strict=True)
    pieces = [tables[source].slice(start, length) for source, start, length in runs]
    return pa.concat_tables(pieces or [tables[0].slice(0, 0)])
