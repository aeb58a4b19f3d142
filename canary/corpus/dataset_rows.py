"""Corpora of `datasets`: datasets, and streams in which canaries go beside chosen rows.

A stream is read in shards, by several workers or nodes, shuffled or not, so a row has no
number that means anything. It has its content, whose keyed digest is its position here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from canary.corpus.arrow_rows import decided, edit_rows, new_order, own_rows, shape_in
from canary.corpus.columns import Beside, Edit, Shape, Slot, edit_value, slots_of
from canary.corpus.corpora import Corpus, Edits, Position
from canary.errors import CorpusError, UnsupportedError
from canary.records.sealing import sealed

if TYPE_CHECKING:
    from datasets import IterableDataset

_BATCH = 1000


class DatasetRows(Corpus):
    """The rows of a dataset. A row without a text has none; other columns are not decoded."""

    def __init__(self, dataset: Any, names: tuple[str, ...], beside: Beside = ()) -> None:
        from datasets import Dataset

        if not isinstance(dataset, Dataset):
            raise UnsupportedError(
                f"a {type(dataset).__name__} is not a datasets.Dataset, nor a stream or splits of "
                "it",
                cure="give a list of texts, load it with datasets, or use a file",
            )
        self.shape = shape_in(dataset.features.arrow_schema, names, beside, "")
        if len(dataset) == 0:
            raise _no_rows()
        self.dataset, self.names = dataset, names
        self.rows = self.last = len(dataset)

    def iterate(self) -> Iterator[tuple[Position, int, list[Slot]]]:
        for row, record in enumerate(self._texts(self.dataset)):
            yield row, row + 1, slots_of(record, self.names)

    def count(self) -> None:
        """Nothing: a dataset knows how many rows it has."""

    def rewrite(self, edits: Edits, out: Any = None) -> Any:
        import pyarrow as pa
        from datasets import Dataset, DatasetInfo, concatenate_datasets

        arrow = self.dataset.with_format("arrow")
        decisions: dict[int, list[Edit] | None] = {}
        if edits.decide is not None:
            numbers: Any = range(self.rows) if edits.at is None else sorted(edits.at)
            chosen = self.dataset if edits.at is None else self.dataset.select(numbers)
            slots = (slots_of(row, self.names) for row in self._texts(chosen))
            rows = zip(numbers, slots, strict=True)
            decisions = decided(self, edits, rows, lambda number: arrow[number].to_pylist()[0])
        tables = []
        if changed := [number for number, changes in decisions.items() if changes]:
            table = self.dataset.select(changed).with_format("arrow")[:]
            tables.append(edit_rows(table, [decisions[number] for number in changed]))
        if edits.inserts:
            tables.append(
                own_rows(arrow.features.arrow_schema, [*map(self.shape.values, edits.texts)], "")
            )
        order = new_order(self.rows, decisions, edits.inserts, edits.texts)
        if not tables:
            return self.dataset.select(order)
        new = Dataset(pa.concat_tables(tables), info=DatasetInfo(features=self.dataset.features))
        look = dict(self.dataset.format)
        new.set_format(**look.pop("format_kwargs"), **look)
        joined = concatenate_datasets(
            [self.dataset, new], info=self.dataset.info, split=self.dataset.split
        )
        return joined.select(order)

    def _texts(self, dataset: Any) -> Iterator[dict[str, Any]]:
        """The text columns of each row, as plain Python."""
        plain = dataset.select_columns(list(self.names)).with_format(None)
        for batch in plain.iter(batch_size=_BATCH):
            for values in zip(*(batch[name] for name in self.names), strict=True):
                yield dict(zip(self.names, values, strict=True))


class StreamRows(Corpus):
    """The rows of a `datasets.IterableDataset`, which is rewritten as it is read."""

    key = b""
    """Of the digests. Rows have none until it is set."""

    def __init__(
        self, stream: IterableDataset, names: tuple[str, ...], beside: Beside = ()
    ) -> None:
        self.stream, self.names = stream, names
        features = stream.features
        if features is None:
            from datasets import Dataset

            first = list(stream.with_format(None).take(1))
            if not first:
                raise _no_rows()
            features = Dataset.from_list(first).features
        self.shape = shape_in(features.arrow_schema, names, beside, "")

    def iterate(self) -> Iterator[tuple[Position, int, list[Slot]]]:
        number = 0
        for number, row in enumerate(self.stream.with_format(None), 1):
            yield digest_of(row, self.names, self.key), number, slots_of(row, self.names)
        if number == 0:
            raise _no_rows()

    def rewrite(self, edits: Edits, out: Any = None) -> Any:
        change = RowChange(self.shape, self.key, edits)
        changed = self.stream.with_format(None).map(
            change, batched=True, features=self.stream.features
        )
        look = self.stream._formatting  # there is no public way to ask
        return changed if look is None else changed.with_format(look.format_type)


def digest_of(row: Mapping[str, Any], names: tuple[str, ...], key: bytes) -> bytes:
    """The digest of what a row holds in the columns; nothing without a key."""
    if not key:
        return b""
    content = json.dumps([row[name] for name in names], sort_keys=True)
    return blake2b(content.encode(), digest_size=16, key=key).digest()


@dataclass(frozen=True)
class RowChange:
    """What `IterableDataset.map` applies to batches; picklable, for workers."""

    shape: Shape
    key: bytes = field(repr=False)
    edits: Edits

    @sealed
    def __call__(self, batch: Mapping[str, list[Any]]) -> dict[str, list[Any]]:
        rows: list[dict[str, Any]] = []
        names = self.shape.names
        for values in zip(*batch.values(), strict=True):
            row = dict(zip(batch, values, strict=True))
            digest = digest_of(row, names, self.key)
            changes = self._changes(digest, row)
            if changes is not None:
                rows.append({name: edit_value(name, row[name], changes) for name in row})
            rows += map(self.shape.values, self.edits.inserts.get(digest, ()))
        return {name: [row.get(name) for row in rows] for name in batch}

    def _changes(self, digest: bytes, row: Mapping[str, Any]) -> list[Edit] | None:
        if self.edits.decide is None or not self.edits.asks(digest):
            return []
        return self.edits.decide(digest, slots_of(row, self.shape.names), lambda _: row)


def _no_rows() -> CorpusError:
    return CorpusError("the dataset is empty", cure="give one with rows")
