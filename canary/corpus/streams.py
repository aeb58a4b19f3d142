"""Streaming corpora: canaries that stand beside chosen rows, wherever these turn up.

A stream is read in shards, by several workers or nodes, shuffled or not, so a row has no
number that means anything. It has its content: a **host** is a row whose content is the
only one of its kind, and a canary goes where its host goes, hence exactly once.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import numpy as np
from sortedcontainers import SortedDict

from canary.corpus.canaries import CanarySet
from canary.corpus.columns import Shape, edit_record, is_chat, slots_of
from canary.corpus.dataset_rows import check_features
from canary.corpus.occurrences import Finder, find_canaries
from canary.corpus.placements import check_fresh
from canary.corpus.splicing import Remover, Splicer, check_clean, hostable
from canary.errors import CorpusError, InputError
from canary.records.sealing import sealed
from canary.records.validation import whole_number

if TYPE_CHECKING:
    from datasets import IterableDataset

__all__ = ["check_stream", "inject_stream", "is_stream", "stream_rows", "strip_stream"]

_STREAM = b"hosts"
_SPARE = 1024
"""Hosts kept beyond those that are needed: some turn out to occur more than once."""


def is_stream(dataset: object) -> bool:
    """Whether `dataset` is a `datasets.IterableDataset`."""
    from datasets import IterableDataset

    return isinstance(dataset, IterableDataset)


def check_stream(
    stream: IterableDataset, names: tuple[str, ...], beside: tuple[tuple[str, str], ...] = ()
) -> Shape:
    """How the columns `names` of a stream hold text; by its first row if it does not say.

    Raises
    ------
    CorpusError
        If there is no such column, if it holds no text, or if there is no row.
    """
    features = stream.features
    if features is None:
        from datasets import Features

        first = list(_plain(stream).take(1))
        if not first:
            raise CorpusError("the dataset is empty", cure="give one with rows")
        features = Features({name: _feature(value) for name, value in first[0].items()})
    return check_features(features, names, beside)


def _feature(value: object) -> Any:
    from datasets import Dataset

    return Dataset.from_list([{"value": value}]).features["value"]


def stream_rows(stream: IterableDataset, names: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    """The named columns of each row, as plain Python."""
    for row in _plain(stream):
        yield {name: row[name] for name in names}


def inject_stream(
    stream: IterableDataset,
    canaries: CanarySet,
    shape: Shape,
    *,
    separators: tuple[str, str] | None,
    seed: int,
    hosts: Sequence[Any] | None,
) -> IterableDataset:
    """A stream with canaries after its hosts, or spliced into them (with `separators`)."""
    seed = whole_number(seed, "inject: seed", at_least=0)
    key = blake2b(_STREAM + seed.to_bytes(8, "big"), digest_size=32).digest()
    injected = canaries.injected
    rng = np.random.default_rng(list(key))
    owners = rng.permutation(np.repeat(np.arange(len(injected)), [c.repetitions for c in injected]))
    owners = owners.astype(np.int64)
    if hosts is None:
        found = _survey(stream, canaries, shape, key, len(owners), spliced=separators is not None)
    else:
        found = _named(hosts, shape, key)
    guests: dict[bytes, list[tuple[int, float]]] = {}
    draws = rng.random(len(owners))
    for at, (who, draw) in enumerate(zip(owners.tolist(), draws.tolist(), strict=True)):
        guests.setdefault(found[at % len(found)], []).append((who, draw))
    texts = tuple(canaries.text(canary) for canary in injected)
    splicer = None if separators is None else Splicer.of(canaries, separators, shape)
    return _mapped(stream, _Injector(shape, key, guests, texts, splicer))


def strip_stream(
    stream: IterableDataset, canaries: CanarySet, shape: Shape, separators: tuple[str, str]
) -> IterableDataset:
    """A stream from which canaries are taken out as it is read."""
    own = frozenset(canaries.text(canary) for canary in canaries.injected)
    left = find_canaries(canaries, canaries.injected)
    return _mapped(stream, _Stripper(shape, own, Remover(canaries, separators), left))


def _plain(stream: IterableDataset) -> IterableDataset:
    return stream.with_format(None)


def _mapped(stream: IterableDataset, change: Any) -> IterableDataset:
    changed = _plain(stream).map(change, batched=True, features=stream.features)
    look = stream._formatting  # there is no public way to ask
    return changed if look is None else changed.with_format(look.format_type)


def _survey(
    stream: IterableDataset,
    canaries: CanarySet,
    shape: Shape,
    key: bytes,
    copies: int,
    *,
    spliced: bool,
) -> list[bytes]:
    """The hosts: rows whose content occurs once, drawn uniformly among all such.

    Those whose keyed digests are least. A digest that is kept to the end was kept from
    its first row on, so it is known whether it came again: memory does not grow with
    the stream.
    """
    most = 2 * copies + _SPARE
    seen: SortedDict[int, int] = SortedDict()  # how often each of the least digests came
    find = find_canaries(canaries, canaries)
    rows = 0
    for rows, row in enumerate(stream_rows(stream, shape.names), 1):
        slots = slots_of(row, shape.names)
        check_fresh(slots, find, f"row {rows}")
        if spliced and not hostable(slots, shape):
            continue
        digest = int.from_bytes(_digest(row, shape.names, key), "big")
        if digest in seen:
            seen[digest] += 1
        elif len(seen) < most:
            seen[digest] = 1
        elif digest < seen.peekitem(-1)[0]:
            seen.popitem(-1)
            seen[digest] = 1
    if rows == 0:
        raise CorpusError("the dataset is empty", cure="give one with rows")
    found = [digest for digest, times in seen.items() if times == 1]
    if not found:
        raise CorpusError(
            "no row can be told from all others by its text",
            cure="remove duplicates first, or load the dataset without streaming",
        )
    return [digest.to_bytes(16, "big") for digest in found[: max(copies, 1)]]


def _named(hosts: Sequence[Any], shape: Shape, key: bytes) -> list[bytes]:
    """The hosts that were named; an InputError if they cannot be rows of such a stream."""
    if isinstance(hosts, str | bytes) or not isinstance(hosts, Sequence):
        raise InputError(
            f"hosts are a list of rows, got {type(hosts).__name__}",
            cure='give a list such as ["a text that occurs once"]',
        )
    pair = len(shape.names) > 1
    rows: list[Sequence[Any]] = [host if pair else [host] for host in hosts]
    for number, row in enumerate(rows, 1):
        fits = isinstance(row, list | tuple) and len(row) == len(shape.names)
        if not fits or not all(_is_text(value, shape) for value in row):
            kind = "a chat (a list of messages)" if shape.chat else "a text"
            raise InputError(
                f"host {number} is not what a row holds in {', '.join(map(repr, shape.names))}",
                cure=f"give {kind} for each of the two columns" if pair else f"give {kind}",
                where="hosts",
            )
    found = [_digest(dict(zip(shape.names, row, strict=True)), shape.names, key) for row in rows]
    if not found or len({*found}) < len(found):
        raise CorpusError(
            "hosts are different rows of the stream, at least one",
            cure="give the texts of rows that occur exactly once",
        )
    return found


def _is_text(value: object, shape: Shape) -> bool:
    if shape.chat:
        return is_chat(value) and value != []
    return isinstance(value, str)


def _digest(row: Mapping[str, Any], names: tuple[str, ...], key: bytes) -> bytes:
    content = json.dumps([row[name] for name in names], sort_keys=True)
    return blake2b(content.encode(), digest_size=16, key=key).digest()


@dataclass(frozen=True)
class _Injector:
    """What `IterableDataset.map` applies to batches; picklable, for workers."""

    shape: Shape
    key: bytes = field(repr=False)
    guests: Mapping[bytes, list[tuple[int, float]]]
    texts: tuple[str, ...] = field(repr=False)
    splicer: Splicer | None

    @sealed
    def __call__(self, batch: Mapping[str, list[Any]]) -> dict[str, list[Any]]:
        out: dict[str, list[Any]] = {name: [] for name in batch}
        for values in zip(*batch.values(), strict=True):
            row = dict(zip(batch, values, strict=True))
            guests = self.guests.get(_digest(row, self.shape.names, self.key), [])
            rows = [row]
            if guests and self.splicer is not None:
                slots = slots_of(row, self.shape.names)
                rows = [edit_record(row, self.splicer.edits(slots, row, guests))]
            elif guests:
                rows += [self.shape.values(self.texts[who]) for who, _ in guests]
            for item in rows:
                for name, column in out.items():
                    column.append(item.get(name))
        return out


@dataclass(frozen=True)
class _Stripper:
    """The way back."""

    shape: Shape
    own: frozenset[str] = field(repr=False)
    remover: Remover
    left: Finder

    @sealed
    def __call__(self, batch: Mapping[str, list[Any]]) -> dict[str, list[Any]]:
        out: dict[str, list[Any]] = {name: [] for name in batch}
        for values in zip(*batch.values(), strict=True):
            row = dict(zip(batch, values, strict=True))
            slots = slots_of(row, self.shape.names)
            if self.left.count(slot.text for slot in slots):
                if self.shape.owner(row, slots) in self.own:
                    continue
                row = edit_record(row, self.remover.edits(slots))
                check_clean(slots_of(row, self.shape.names), self.left)
            for name, column in out.items():
                column.append(row[name])
        return out
