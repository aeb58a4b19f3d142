"""Arrow tables with text: which of their columns hold it, and rows changed, added and left out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from canary.corpus.columns import Edit, Shape, edit_record, refuse_chat, slots_of
from canary.corpus.corpora import Corpus, Edits
from canary.errors import CorpusError


def shape_in(
    schema: Any, names: tuple[str, ...], beside: tuple[tuple[str, str], ...], where: str
) -> Shape:
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
        known = ", ".join(repr(key[:30]) for key in schema.names[:8])
        raise CorpusError(
            f"has no column {name!r}",
            cure=f"name one of {known}" if known else "give a corpus with columns",
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


def plain_rows(table: Any, names: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The named columns of each row, as plain Python."""
    columns = [table.column(name).to_pylist() for name in names]
    for values in zip(*columns, strict=True):
        yield dict(zip(names, values, strict=True))


def decisions(
    corpus: Corpus,
    edits: Edits,
    rows: Iterable[tuple[int, Mapping[str, Any]]],
    record: Callable[[Any], Mapping[str, Any]],
) -> dict[int, list[Edit] | None]:
    """What becomes of rows, by their numbers; without those that stay as they are."""
    found = {}
    names = corpus.shape.names
    for at, row in rows:
        changes = edits.of(corpus, at, at + 1, slots_of(row, names), record)
        if changes is None or changes:
            found[at] = changes
    return found


def own_rows(schema: Any, shape: Shape, texts: Iterable[str], where: str) -> Any:
    """A table with a row for each text, null but for what `shape` holds."""
    import pyarrow as pa

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
                where=where,
            )
        else:
            arrays.append(pa.nulls(len(values), field.type))
    return pa.Table.from_arrays(arrays, schema=schema)


def edit_rows(table: Any, edits: Mapping[int, Sequence[Edit]]) -> Any:
    """`table` with the texts of some rows edited."""
    import pyarrow as pa

    for name in sorted({str(edit.path[0]) for row in edits.values() for edit in row}):
        column = table.column(name)
        places = sorted(edits)
        old = column.take(places).to_pylist()
        new = [
            edit_record({name: value}, [edit for edit in edits[at] if edit.path[0] == name])[name]
            for at, value in zip(places, old, strict=True)
        ]
        values = pa.array(new, type=column.type)
        chunks: list[Any] = [] if len(new) < len(table) else [values]
        begin = 0
        for number, at in enumerate(places if not chunks else ()):
            chunks += [*column.slice(begin, at - begin).chunks, values.slice(number, 1)]
            begin = at + 1
        chunks += column.slice(begin).chunks if begin else []
        index = table.schema.get_field_index(name)
        array = pa.chunked_array(chunks, type=column.type)
        table = table.set_column(index, table.schema.field(index), array)
    return table
