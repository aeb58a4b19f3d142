"""Where copies go: seeded, and every arrangement equally likely."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sortedcontainers import SortedDict

from canary.corpus.columns import is_chat
from canary.corpus.corpora import Corpus, Position
from canary.corpus.dataset_rows import StreamRows, digest_of
from canary.errors import CorpusError, InputError

Guests = Mapping[Position, list[tuple[int, float]]]
"""By place, ascending where places have an order: whose copies go there, and a draw for each."""

# Streams of one seed differ by purpose: fills, records of their own, splices, hosts.
_PLACES = int.from_bytes(b"places", "big")
_SPLICES = int.from_bytes(b"splices", "big")
_HOSTS = b"hosts"

_SPARE = 1024
"""Hosts kept beyond those that are needed: some turn out to occur more than once."""


class Between:
    """The places before, between and behind the records of a corpus."""

    def __init__(self, corpus: Corpus, seed: int, copies: Sequence[int]) -> None:
        self.corpus, self.seed = corpus, seed
        self.owners = np.repeat(np.arange(len(copies)), np.array(copies, np.int64))

    def offer(self, position: Any) -> None:
        """Take note of a record that can take a copy; here a copy may go to any place."""

    def guests(self) -> Guests:
        """Who goes where; a CorpusError if no record can take a copy."""
        places, owners = arrange(self.corpus.last, self.owners, self.seed)
        before = places - np.arange(len(places))
        return _by_place(before.tolist(), owners, np.zeros(len(owners)))

    def named(self, rows: Sequence[Any]) -> Guests:
        """Who goes to which of the rows that somebody named, by what they hold."""
        raise InputError(
            "hosts were named for a dataset that is no stream",
            cure="leave hosts out: its rows can be counted",
        )


class Homes(Between):
    """The records that can take a splice, eight bytes for each.

    They are drawn without replacement as long as they suffice; with more copies than
    records, each takes as many as any other, give or take one.
    """

    def __init__(self, corpus: Corpus, seed: int, copies: Sequence[int]) -> None:
        super().__init__(corpus, seed, copies)
        self._homes = array("q")

    def offer(self, position: int) -> None:
        self._homes.append(position)

    def guests(self) -> Guests:
        homes = np.frombuffer(self._homes, np.int64)
        if not len(homes):
            raise CorpusError(
                "no record can take a canary: none has text in the named columns, or in quotes "
                "where the canaries need them",
                cure="name other columns or separators, or inject records (mode='record')",
            )
        rng = np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(_SPLICES,)))
        owners = rng.permutation(self.owners)
        rounds, rest = divmod(len(owners), len(homes))
        last = rng.choice(len(homes), rest, replace=False, shuffle=False)
        chosen = np.sort(np.append(np.tile(np.arange(len(homes)), rounds), last).astype(np.int64))
        return _by_place(homes[chosen].tolist(), owners, rng.random(len(owners)))


class Hosts(Between):
    """Rows of a stream whose content occurs once, drawn uniformly among all such.

    Those whose keyed digests are least. A digest that is kept to the end was kept from its
    first row on, so it is known whether it came again: memory does not grow with the stream.
    """

    def __init__(self, corpus: StreamRows, seed: int, copies: Sequence[int]) -> None:
        super().__init__(corpus, seed, copies)
        self.key = blake2b(_HOSTS + seed.to_bytes(8, "big"), digest_size=32).digest()
        corpus.key = self.key
        self._most = 2 * len(self.owners) + _SPARE
        self._seen: SortedDict[bytes, int] = SortedDict()  # how often each of the least came

    def offer(self, position: bytes) -> None:
        seen = self._seen
        if position in seen:
            seen[position] += 1
        elif len(seen) < self._most or position < seen.peekitem(-1)[0]:
            seen[position] = 1
            if len(seen) > self._most:
                seen.popitem(-1)

    def guests(self) -> Guests:
        hosts = [digest for digest, times in self._seen.items() if times == 1]
        if not hosts:
            raise CorpusError(
                "no row can be told from all others by its text",
                cure="remove duplicates first, or load the dataset without streaming",
            )
        return self.shared_out(hosts[: max(len(self.owners), 1)])

    def named(self, rows: Sequence[Any]) -> Guests:
        shape, names = self.corpus.shape, self.corpus.shape.names
        if isinstance(rows, str | bytes) or not isinstance(rows, Sequence):
            raise InputError(
                f"hosts are a list of rows, got {type(rows).__name__}",
                cure='give a list such as ["a text that occurs once"]',
            )
        pair = len(names) > 1
        hosts: list[bytes] = []
        for number, row in enumerate(rows, 1):
            values = row if pair else [row]
            fits = isinstance(values, list | tuple) and len(values) == len(names)
            if not fits or not all(
                value and is_chat(value) if shape.chat else isinstance(value, str)
                for value in values
            ):
                kind = "a chat (a list of messages)" if shape.chat else "a text"
                raise InputError(
                    f"host {number} is not what a row holds in {', '.join(map(repr, names))}",
                    cure=f"give {kind} for each of the two columns" if pair else f"give {kind}",
                    where="hosts",
                )
            hosts.append(digest_of(dict(zip(names, values, strict=True)), names, self.key))
        if not hosts or len({*hosts}) < len(hosts):
            raise CorpusError(
                "hosts are different rows of the stream, at least one",
                cure="give the texts of rows that occur exactly once",
            )
        return self.shared_out(hosts)

    def shared_out(self, hosts: Sequence[bytes]) -> Guests:
        """As many copies for each host as for any other, give or take one."""
        rng = np.random.default_rng(list(self.key))
        owners = rng.permutation(self.owners)
        places = [hosts[i % len(hosts)] for i in range(len(owners))]
        return _by_place(places, owners, rng.random(len(owners)))


def arrange(
    others: int, owners: NDArray[np.int64], seed: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Places of the copies among all records (ascending, from 0), and whose copy each is.

    The result is that of shuffling the copies, of which `owners` says whose they are, into
    `others` records: every set of places and every order in them is equally likely.
    """
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(_PLACES,)))
    mixed = rng.permutation(owners)
    places = rng.choice(others + len(mixed), size=len(mixed), replace=False, shuffle=False)
    return np.sort(places), mixed


def _by_place(
    places: Sequence[Position], owners: NDArray[np.int64], draws: NDArray[np.float64]
) -> Guests:
    guests: dict[Position, list[tuple[int, float]]] = {}
    for place, guest in zip(places, zip(owners.tolist(), draws.tolist(), strict=True), strict=True):
        guests.setdefault(place, []).append(guest)
    return guests
