"""Corpora as `datasets.Dataset`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from canary.corpus.arrow_rows import decisions, edit_rows, own_rows, shape_in
from canary.corpus.columns import Edit, Slot, slots_of
from canary.corpus.corpora import Corpus, Edits, Position
from canary.errors import CorpusError, UnsupportedError

_BATCH = 1000


class DatasetRows(Corpus):
    """The rows of a dataset. A row without a text has none; other columns are not decoded."""

    def __init__(
        self, dataset: Any, names: tuple[str, ...], beside: tuple[tuple[str, str], ...] = ()
    ) -> None:
        from datasets import Dataset

        if not isinstance(dataset, Dataset):
            raise UnsupportedError(
                f"a {type(dataset).__name__} is no datasets.Dataset, nor a stream or splits of it",
                cure="load it with datasets, or use a file",
            )
        self.shape = shape_in(dataset.features.arrow_schema, names, beside, "")
        if len(dataset) == 0:
            raise CorpusError("the dataset is empty", cure="give one with rows")
        self.dataset, self.names = dataset, names
        self.rows = self.last = len(dataset)

    def iterate(self) -> Iterator[tuple[Position, int, list[Slot]]]:
        for at, row in enumerate(self._texts(self.dataset)):
            yield at, at + 1, slots_of(row, self.names)

    def count(self) -> None:
        """Nothing: a dataset knows how many rows it has."""

    def rewrite(self, edits: Edits, out: Any = None) -> Any:
        import pyarrow as pa
        from datasets import Dataset, DatasetInfo, concatenate_datasets

        arrow = self.dataset.with_format("arrow")
        found: dict[int, list[Edit] | None] = {}
        if edits.decide is not None:
            numbers: Any = range(self.rows) if edits.at is None else sorted(edits.at)
            chosen = self.dataset if edits.at is None else self.dataset.select(numbers)
            rows = zip(numbers, self._texts(chosen), strict=True)
            found = decisions(self, edits, rows, lambda number: arrow[number].to_pylist()[0])
        changed = sorted(number for number, mine in found.items() if mine)
        tables = []
        if changed:
            table = self.dataset.select(changed).with_format("arrow")[:]
            tables.append(edit_rows(table, {n: found[at] or () for n, at in enumerate(changed)}))
        texts = {text: number for number, text in enumerate(edits.texts)}
        if texts:
            tables.append(own_rows(arrow.features.arrow_schema, self.shape, texts, ""))
        order = np.arange(self.rows)
        order[changed] = self.rows + np.arange(len(changed))
        first = self.rows + len(changed)
        copies = [(at, first + texts[t]) for at, mine in edits.inserts.items() for t in mine]
        before, own = np.array(copies, np.int64).reshape(-1, 2).T
        order = np.insert(order, before, own)
        order = np.delete(order, [number for number, mine in found.items() if mine is None])
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
        for batch in (
            dataset.select_columns(list(self.names)).with_format(None).iter(batch_size=_BATCH)
        ):
            for values in zip(*(batch[name] for name in self.names), strict=True):
                yield dict(zip(self.names, values, strict=True))
