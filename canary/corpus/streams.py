"""Corpora as streams: canaries go beside chosen rows, wherever these turn up.

A stream is read in shards, by several workers or nodes, shuffled or not, so a row has no
number that means anything. It has its content, whose keyed digest is its position here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from canary.corpus.arrow_rows import shape_in
from canary.corpus.columns import Shape, Slot, edit_record, slots_of
from canary.corpus.corpora import Corpus, Edits, Position
from canary.errors import CorpusError
from canary.records.sealing import sealed

if TYPE_CHECKING:
    from datasets import IterableDataset


class StreamRows(Corpus):
    """The rows of a `datasets.IterableDataset`, which is rewritten as it is read.

    Parameters
    ----------
    stream : IterableDataset
    names, beside
        As of `FileCorpus`.
    """

    key = b""
    """Of the digests. Rows have none until it is set."""

    def __init__(
        self,
        stream: IterableDataset,
        names: tuple[str, ...],
        beside: tuple[tuple[str, str], ...] = (),
    ) -> None:
        self.stream, self.names = stream, names
        features = stream.features
        if features is None:
            from datasets import Dataset, Features

            first = list(stream.with_format(None).take(1))
            if not first:
                raise CorpusError("the dataset is empty", cure="give one with rows")
            kinds = ((n, Dataset.from_list([{n: v}]).features[n]) for n, v in first[0].items())
            features = Features(dict(kinds))
        self.shape = shape_in(features.arrow_schema, names, beside, "")

    def iterate(self) -> Iterator[tuple[Position, int, list[Slot]]]:
        number = 0
        for number, row in enumerate(self.stream.with_format(None), 1):
            yield digest_of(row, self.names, self.key), number, slots_of(row, self.names)
        if number == 0:
            raise CorpusError("the dataset is empty", cure="give one with rows")

    def rewrite(self, edits: Edits, out: Any = None) -> Any:
        change = _Change(self.shape, self.key, edits)
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
class _Change:
    """What `IterableDataset.map` applies to batches; picklable, for workers."""

    shape: Shape
    key: bytes = field(repr=False)
    edits: Edits

    @sealed
    def __call__(self, batch: Mapping[str, list[Any]]) -> dict[str, list[Any]]:
        out: dict[str, list[Any]] = {name: [] for name in batch}
        for values in zip(*batch.values(), strict=True):
            for item in self._become(dict(zip(batch, values, strict=True))):
                for name, column in out.items():
                    column.append(item.get(name))
        return out

    def _become(self, row: dict[str, Any]) -> list[dict[str, Any]]:
        place = digest_of(row, self.shape.names, self.key)
        rows = [row]
        if self.edits.asks(place) and self.edits.decide is not None:
            changes = self.edits.decide(place, slots_of(row, self.shape.names), lambda _: row)
            rows = [] if changes is None else [edit_record(row, changes)]
        return rows + [self.shape.values(text) for text in self.edits.inserts.get(place, ())]
