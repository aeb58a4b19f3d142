"""Where copies go, among the records or within texts: seeded, every arrangement equally likely."""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sortedcontainers import SortedDict

from canary.corpus.canaries import CanarySet
from canary.corpus.columns import Edit, Shape, Slot, edit_text, is_chat
from canary.corpus.corpora import Corpus, Position
from canary.corpus.dataset_rows import digest_of
from canary.corpus.occurrences import Copies, find_canaries
from canary.errors import CorpusError, InputError
from canary.records.validation import one_of

Guests = Mapping[Position, list[tuple[int, float]]]
"""By place, ascending where places have an order: whose copies go there, and a draw for each."""

# Streams of one seed differ by purpose: fills, records of their own, splices, hosts.
_PLACES = int.from_bytes(b"places", "big")
_SPLICES = int.from_bytes(b"splices", "big")
_HOSTS = b"hosts"

_SPARE = 1024
"""Hosts kept beyond those that are needed: some turn out to occur more than once."""


# The end of a sentence with its closing quotes and the space after it, or of a line.
_END = re.compile(r"(?:[.!?…]+[\"'”’»)\]]*\s|[。！？]|\n)\s*")  # noqa: RUF001

_TRIES = 16
_GOLDEN = 0.6180339887498949


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
        return by_place(before.tolist(), owners, np.zeros(len(owners)))

    def named(self, rows: Sequence[Any]) -> Guests:
        """Who goes to which of the rows that somebody named, by what they hold."""
        raise InputError(
            "hosts were named for a dataset that is not a stream",
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
        homes = self.homes
        chosen, owners, draws = choose_homes(len(homes), self.owners, self.seed)
        return by_place(homes[chosen].tolist(), owners, draws)

    @property
    def homes(self) -> NDArray[np.int64]:
        """The positions of the records, ascending."""
        return np.frombuffer(self._homes, np.int64)


class Hosts(Between):
    """Rows of a stream whose content occurs once, drawn uniformly among all such.

    Those whose keyed digests are least. A digest that is kept to the end was kept from its
    first row on, so it is known whether it came again: memory does not grow with the stream.
    """

    def __init__(self, corpus: Any, seed: int, copies: Sequence[int]) -> None:
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
                "no row can be identified by its text",
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
        return by_place(places, owners, rng.random(len(owners)))


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


def choose_homes(
    homes: int, owners: NDArray[np.int64], seed: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """The homes of copies (numbers from 0, ascending), whose copy each is, and a draw for each.

    A CorpusError if there is no home.
    """
    if not homes:
        raise CorpusError(
            "no record can take a canary: none has text in the named columns, or in quotes "
            "where the canaries need them",
            cure="name other columns or separators, or inject records (mode='record')",
        )
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(_SPLICES,)))
    owners = rng.permutation(owners)
    rounds, rest = divmod(len(owners), homes)
    last = rng.choice(homes, rest, replace=False, shuffle=False)
    all_of_them = np.arange(homes if rounds else 0)
    chosen = np.sort(np.append(np.tile(all_of_them, rounds), last).astype(np.int64))
    return chosen, owners, rng.random(len(owners))


def by_place(
    places: Sequence[Position], owners: NDArray[np.int64], draws: NDArray[np.float64]
) -> Guests:
    """Who goes to each place, in the order of the places."""
    guests: dict[Position, list[tuple[int, float]]] = {}
    for place, guest in zip(places, zip(owners.tolist(), draws.tolist(), strict=True), strict=True):
        guests.setdefault(place, []).append(guest)
    return guests


def check_mode(mode: str, separators: Sequence[str] | None) -> None:
    """Refuse an unknown mode, and separators for records of their own."""
    one_of(mode, "mode", ("record", "splice"))
    if mode == "record" and separators is not None:
        raise InputError(
            "records of their own have no separators",
            cure="leave separators (--separators) out, or splice (--mode splice)",
            where="separators",
        )


def check_separators(separators: Sequence[str] | None, default: tuple[str, str]) -> tuple[str, str]:
    """The separators before and after, neither of them empty."""
    if separators is None:
        return default
    parts = tuple(separators)
    if len(parts) != 2 or not all(isinstance(part, str) and part for part in parts):
        raise InputError(
            "separators are two texts, one before and one after the canary, neither empty",
            cure='give a pair such as ("\\n", " ")',
        )
    return parts[0], parts[1]


def hostable(slots: Sequence[Slot], shape: Shape, *, special: bool) -> bool:
    """Whether a canary can be spliced into a record: its columns hold text.

    `special`: the canary needs quotes.
    """
    if special and any(slot.bare for slot in slots):
        return False
    depth = 3 if shape.chat else 1
    if len(slots) == 1 == len(shape.names):  # nearly always
        return len(slots[0].path) == depth
    fits = all(len(slot.path) == depth for slot in slots)
    return fits and len({slot.path[0] for slot in slots}) == len(shape.names)


class Remover:
    """Takes spliced canaries out of texts again."""

    def __init__(self, canaries: CanarySet, separators: tuple[str, str]) -> None:
        self._between = find_canaries(canaries, canaries.injected, *separators)
        self._anywhere = find_canaries(canaries, canaries.injected)

    def edits(self, slots: Sequence[Slot]) -> list[Edit]:
        """Cuts that take every spliced canary out, from left to right."""
        cuts = []
        for slot in slots:
            free = 0
            for start, stop, _ in self._between(slot.text):
                if start >= free:
                    cuts.append(Edit(slot.path, start, stop, ""))
                    free = stop
        return cuts

    def touches(self, slots: Sequence[Slot]) -> bool:
        """Whether there is a canary in the slots, between separators or not."""
        return any(self._anywhere(slot.text) for slot in slots)

    def check_clean(self, texts: Iterable[str]) -> None:
        """Refuse the texts of a stripped record with a canary in them, by a CorpusError."""
        for name in self._anywhere.count(texts):
            raise CorpusError(
                f"still holds {name}, which is neither alone nor between the separators",
                cure="name the separators with which it was spliced in",
            )


class Splicer:
    """Puts canaries into records, so that they can be taken out again.

    `texts` are the injected canaries between separators; an InputError if one would be part of a
    longer run of characters. `guests` are who goes where, once that is known.
    """

    def __init__(self, canaries: CanarySet, separators: tuple[str, str], shape: Shape) -> None:
        before, after = separators
        self.texts = [before + canaries.text(canary) + after for canary in canaries.injected]
        self.shape = shape
        self.guests: Guests = {}
        self._remover = Remover(canaries, separators)
        self._find = find_canaries(canaries, canaries)
        copies = Copies(canaries)
        if any(copies.hits(text)[1] for text in self.texts):
            raise InputError(
                "a separator continues the letters or digits of a canary, which is no copy then",
                cure="take separators that end and begin with a space, a newline or a sign",
                where="separators",
            )

    def __call__(
        self, position: Position, slots: list[Slot], record: Callable[[Position], Mapping[str, Any]]
    ) -> list[Edit]:
        """Insertions of the guests of a record, as `Edits.decide`.

        A CorpusError if they could not be told apart from the text around them.
        """
        guests = self.guests[position]
        hosts = {n: [slot for slot in slots if slot.path[0] == n] for n in self.shape.names}
        if self.shape.chat:
            whole = record(position)
            for name, mine in hosts.items():
                answers = [s for s in mine if whole[name][s.path[1]]["role"] == "assistant"]
                hosts[name] = answers or mine
        for _ in range(_TRIES):
            edits = [
                self._insertion(who, draw, mine) for who, draw in guests for mine in hosts.values()
            ]
            if self._clean(slots, edits, len(guests)):
                return edits
            guests = [(who, (draw + _GOLDEN) % 1.0) for who, draw in guests]
        raise CorpusError(
            "a canary between these separators cannot be separated from the text around it",
            cure="use other separators, or begin and end the formats with fixed text",
        )

    def _insertion(self, who: int, draw: float, slots: Sequence[Slot]) -> Edit:
        """A canary at a boundary of one of the slots: the start, after a sentence, the end."""
        drawn = draw * len(slots)
        slot = slots[int(drawn)]
        ends = (match.end() for match in _END.finditer(slot.text))
        boundaries = sorted({0, *ends, len(slot.text)})
        place = boundaries[int((drawn - int(drawn)) * len(boundaries))]
        return Edit(slot.path, place, place, self.texts[who])

    def _clean(self, slots: Sequence[Slot], edits: Sequence[Edit], guests: int) -> bool:
        """Whether the copies, and no others, are found, and cutting them restores the text."""
        copies = 0
        for slot in slots:
            mine = [edit for edit in edits if edit.path == slot.path]
            if not mine:
                continue
            text = edit_text(slot.text, mine)
            copies += len(self._find(text))
            if edit_text(text, self._remover.edits([Slot(slot.path, text)])) != slot.text:
                return False
        return copies == guests * len(self.shape.names)
