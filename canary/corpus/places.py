"""Where copies go: seeded, and every arrangement equally likely."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from sortedcontainers import SortedDict

from canary.corpus.columns import Shape, is_chat
from canary.corpus.corpora import Corpus, Position
from canary.corpus.streams import StreamRows, digest_of
from canary.errors import CorpusError, InputError
from canary.records.validation import whole_number

Guests = Mapping[Position, list[tuple[int, float]]]
"""By place, ascending where places have an order: whose copies go there, and a draw for each."""

# Streams of one seed differ by purpose: fills, records of their own, splices, hosts.
_PLACES = int.from_bytes(b"places", "big")
_SPLICES = int.from_bytes(b"splices", "big")
_HOSTS = b"hosts"

_SPARE = 1024
"""Hosts kept beyond those that are needed: some turn out to occur more than once."""

_BLOCK = 1 << 16


class Pool(Protocol):
    """The records that copies may go to."""

    def offer(self, position: Any) -> None:
        """Take note of a record that can take a copy."""

    def guests(self, copies: Sequence[int]) -> Guests:
        """Who goes where, `copies` of each canary; a CorpusError if no record can take one."""


def pool_for(corpus: Corpus, seed: int, copies: Sequence[int], *, spliced: bool) -> Pool:
    """The pool of a corpus, to which its records are offered as it is read."""
    seed = whole_number(seed, "inject: seed", at_least=0)
    if isinstance(corpus, StreamRows):
        corpus.key = blake2b(_HOSTS + seed.to_bytes(8, "big"), digest_size=32).digest()
        return _Hosts(corpus.key, 2 * sum(copies) + _SPARE)
    return Homes(seed) if spliced else _Between(corpus, seed)


class _Between:
    """The places before, between and behind the records."""

    def __init__(self, corpus: Corpus, seed: int) -> None:
        self._corpus, self._seed = corpus, seed

    def offer(self, position: int) -> None:
        """Nothing: a copy may go to any place."""

    def guests(self, copies: Sequence[int]) -> Guests:
        places, owners = arrange(self._corpus.last, copies, self._seed)
        found: dict[Position, list[tuple[int, float]]] = {}
        before = places - np.arange(len(places))
        for at, who in zip(before.tolist(), owners.tolist(), strict=True):
            found.setdefault(at, []).append((who, 0.0))
        return found


class Homes:
    """The records that can take a splice, a byte for each record."""

    def __init__(self, seed: int) -> None:
        self._seed, self._homes = seed, bytearray()

    def offer(self, position: int) -> None:
        if position > len(self._homes):
            self._homes += bytes(position - len(self._homes))
        self._homes.append(1)

    def guests(self, copies: Sequence[int]) -> Guests:
        count = self._homes.count(1)
        if count == 0:
            raise CorpusError(
                "no record can take a canary: none has text in the named columns, or in quotes "
                "where the canaries need them",
                cure="name other columns or separators, or inject records (mode='record')",
            )
        chosen, owners, draws = allot(count, copies, self._seed)
        found: dict[Position, list[tuple[int, float]]] = {}
        for at, who, draw in zip(self._nth(chosen), owners.tolist(), draws.tolist(), strict=True):
            found.setdefault(at, []).append((who, draw))
        return found

    def _nth(self, ordinals: NDArray[np.int64]) -> Iterator[int]:
        """Where the homes with these ordinals (ascending, from 0) are, block by block."""
        before = 0
        for start in range(0, len(self._homes), _BLOCK):
            ones = np.flatnonzero(np.frombuffer(self._homes[start : start + _BLOCK], np.uint8))
            first, last = np.searchsorted(ordinals, [before, before + len(ones)])
            yield from (start + ones[ordinals[first:last] - before]).tolist()
            before += len(ones)


class _Hosts:
    """Rows of a stream whose content occurs once, drawn uniformly among all such.

    Those whose keyed digests are least. A digest that is kept to the end was kept from its
    first row on, so it is known whether it came again: memory does not grow with the stream.
    """

    def __init__(self, key: bytes, most: int) -> None:
        self._key, self._most = key, most
        self._seen: SortedDict[int, int] = SortedDict()  # how often each of the least came

    def offer(self, position: bytes) -> None:
        digest, seen = int.from_bytes(position, "big"), self._seen
        if digest in seen:
            seen[digest] += 1
        elif len(seen) < self._most:
            seen[digest] = 1
        elif digest < seen.peekitem(-1)[0]:
            seen.popitem(-1)
            seen[digest] = 1

    def guests(self, copies: Sequence[int]) -> Guests:
        found = [digest for digest, times in self._seen.items() if times == 1]
        if not found:
            raise CorpusError(
                "no row can be told from all others by its text",
                cure="remove duplicates first, or load the dataset without streaming",
            )
        hosts = [digest.to_bytes(16, "big") for digest in found[: max(sum(copies), 1)]]
        return _shared_out(hosts, copies, self._key)


def named_hosts(hosts: Sequence[Any], corpus: Corpus, copies: Sequence[int]) -> Guests:
    """Who goes to which of the rows of a stream that were named."""
    if not isinstance(corpus, StreamRows):
        raise InputError(
            "hosts were named for a dataset that is no stream",
            cure="leave hosts out: its rows can be counted",
        )
    shape, names = corpus.shape, corpus.shape.names
    if isinstance(hosts, str | bytes) or not isinstance(hosts, Sequence):
        raise InputError(
            f"hosts are a list of rows, got {type(hosts).__name__}",
            cure='give a list such as ["a text that occurs once"]',
        )
    pair = len(names) > 1
    rows: list[Sequence[Any]] = [host if pair else [host] for host in hosts]
    for number, row in enumerate(rows, 1):
        fits = isinstance(row, list | tuple) and len(row) == len(names)
        if not fits or not all(_is_text(value, shape) for value in row):
            kind = "a chat (a list of messages)" if shape.chat else "a text"
            raise InputError(
                f"host {number} is not what a row holds in {', '.join(map(repr, names))}",
                cure=f"give {kind} for each of the two columns" if pair else f"give {kind}",
                where="hosts",
            )
    found = [digest_of(dict(zip(names, row, strict=True)), names, corpus.key) for row in rows]
    if not found or len({*found}) < len(found):
        raise CorpusError(
            "hosts are different rows of the stream, at least one",
            cure="give the texts of rows that occur exactly once",
        )
    return _shared_out(found, copies, corpus.key)


def _is_text(value: object, shape: Shape) -> bool:
    return (is_chat(value) and value != []) if shape.chat else isinstance(value, str)


def _shared_out(hosts: Sequence[bytes], copies: Sequence[int], key: bytes) -> Guests:
    rng = np.random.default_rng(list(key))
    owners = rng.permutation(_owners(copies))
    draws = rng.random(len(owners))
    guests: dict[Position, list[tuple[int, float]]] = {}
    for at, (who, draw) in enumerate(zip(owners.tolist(), draws.tolist(), strict=True)):
        guests.setdefault(hosts[at % len(hosts)], []).append((who, draw))
    return guests


def arrange(
    others: int, copies: Sequence[int], seed: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Places of the copies among all records (ascending, from 0), and whose copy each is.

    Every set of places and every order of the copies in them is equally likely: the
    result is that of shuffling `copies` of each canary into `others` records.
    """
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(_PLACES,)))
    owners = rng.permutation(_owners(copies))
    places = rng.choice(others + len(owners), size=len(owners), replace=False, shuffle=False)
    return np.sort(places), owners


def allot(
    hosts: int, copies: Sequence[int], seed: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Which host takes each copy (ascending), whose copy it is, and a draw for its place.

    Hosts are drawn without replacement as long as they suffice; with more copies than
    hosts, each host takes as many as any other, give or take one.
    """
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(_SPLICES,)))
    owners = rng.permutation(_owners(copies))
    rounds, rest = divmod(len(owners), hosts)
    chosen = np.concatenate(
        [np.tile(np.arange(hosts), rounds), rng.choice(hosts, rest, replace=False, shuffle=False)]
    ).astype(np.int64)
    return np.sort(chosen), owners, rng.random(len(owners))


def _owners(copies: Sequence[int]) -> NDArray[np.int64]:
    return np.repeat(np.arange(len(copies)), np.array(copies, np.int64))
