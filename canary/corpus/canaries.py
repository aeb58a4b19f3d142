"""Canary sets: which secrets go into a corpus, how often, and which stay out."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from canary.corpus.consistency import (
    REPETITIONS,
    Canary,
    Groups,
    asked_of,
    check_parts,
    check_texts,
)
from canary.corpus.fuzzy import check_unlike, copies_of
from canary.errors import FormatError, InputError, OutputError, RecordError
from canary.formats.format import Format
from canary.records.files import kind_there
from canary.records.record import Document, from_plain, write_as
from canary.records.sealing import sealed
from canary.records.validation import flag, of_kind, one_of, whole_number
from canary.records.versioned_json import render_document
from canary.statistics.numbers import Shown, picked
from canary.tokens.chats import ROLES

__all__ = ["Canary", "CanarySet", "canary_set", "generate"]

KIND = "canary set"
SCHEMA = 1

# Random streams of one seed must differ by purpose: a user gives the same seed to
# generation, injection and audit, and an audit whose draws repeat the canaries' own
# stream would compare each canary with itself.
_STREAM = int.from_bytes(b"canaries", "big")
_COINS = int.from_bytes(b"coins", "big")


@dataclass(frozen=True, repr=False)
class CanarySet(
    Shown,
    Document,
    kind=KIND,
    schema=SCHEMA,
    written=("formats", "seed", "natural", "role", "canaries"),
    sparse=True,
):
    """Canaries and controls, with the formats they are drawn from; holds secrets.

    No canary's text occurs within another's, so that occurrences can be counted and a
    control is not injected as a part of something else.

    Parameters
    ----------
    formats : tuple of Format
        All different.
    canaries : tuple of Canary
        At least one; controls among them.
    seed : int
        The seed of the draw. Who knows it can draw the secrets again. It is the key of the
        `fingerprint` as well.
    natural : bool
        Whether the secrets were found in a corpus and not drawn. They have no p-values, as
        nothing follows from their exposure by chance; they are not injected. Controls among
        them are drawn as always.
    role : str
        Who says the canaries, if they are chat messages: ``"assistant"``, ``"user"`` or
        ``"system"``; empty if they are texts.

    Raises
    ------
    InputError
        If the parts do not fit together; it names the canary, not its secret.

    Examples
    --------
    >>> from canary import generate
    >>> canaries = generate("my pin is {digit:4}", seed=0)
    >>> print(canaries)
    CanarySet of 32 canaries and 16 controls from 1 format
    my pin is ••••
    """

    formats: tuple[Format, ...]
    canaries: tuple[Canary, ...]
    seed: int
    natural: bool = False
    role: str = ""

    def summary(self) -> str:
        """How many canaries and controls, of which formats; no secret."""
        formats = ", ".join(format.masked for format in self.formats)
        return f"{repr(self)[1:-1]}\n{formats}"

    def _table(self) -> list[dict[str, Any]]:
        return [picked(canary, "id", "format", "repetitions") for canary in self.canaries]

    @sealed
    def __post_init__(self) -> None:
        if self.seed < 0:
            raise InputError("the seed is negative", cure="give 0 or more", where="seed")
        one_of(self.role, "role", ("", *ROLES))
        check_parts(self.formats, self.canaries)
        named = [(canary.id, self.text(canary)) for canary in self.canaries]
        if not self.natural:
            check_texts(named)
        elif len({text for _, text in named}) < len(named) or any(
            canary.tossed is not None for canary in self
        ):
            raise InputError(
                "natural secrets are different texts that were found, and no coins were tossed",
                cure="make the set with CanarySet.from_fills or discover",
                where="canaries",
            )

    def __iter__(self) -> Iterator[Canary]:
        return iter(self.canaries)

    def __len__(self) -> int:
        return len(self.canaries)

    def __repr__(self) -> str:
        if self.natural:
            return f"<CanarySet of {len(self.injected)} natural secrets>"
        return (
            f"<CanarySet of {len(self.injected)} canaries and {len(self.controls)} controls"
            f" from {len(self.formats)} format{'s' * (len(self.formats) != 1)}>"
        )

    @property
    def injected(self) -> tuple[Canary, ...]:
        """The canaries that go into the corpus."""
        return tuple(canary for canary in self.canaries if not canary.control)

    @property
    def controls(self) -> tuple[Canary, ...]:
        """The canaries that stay out of it."""
        return tuple(canary for canary in self.canaries if canary.control)

    @property
    @sealed
    def fingerprint(self) -> str | None:
        """What says whether two files are of the same set, and nothing of its secrets.

        HMAC-SHA256 of the formats and canaries under the seed, which only the set holds. None
        for natural secrets: they have no seed, and one could be found by trying.
        """
        if self.natural:
            return None
        if (whole := self.__dict__.get("_copies_of")) is not None:
            return str(whole.fingerprint)
        told = [[item.text for item in self.formats], [list(vars(c).values()) for c in self]]
        told += [[self.role]] if self.role else []
        key = str(self.seed).encode()
        return hmac.new(key, json.dumps(told).encode(), hashlib.sha256).hexdigest()

    @cached_property
    @sealed
    def written(self) -> CanarySet:
        """The set as it goes into a corpus, of one `fingerprint` with this one.

        It is this one, unless a format has open slots: then each copy of its canaries is a canary
        of its own, with words of its own there, and a name of `names`.

        A FormatError if there are not as many different copies.
        """
        spaces = [space.opened or space for space in self.formats]
        if self.natural or spaces == list(self.formats):
            return self
        copies: list[Canary] = []
        for canary in self:
            space = self.formats[canary.format]
            if space.opened is None or canary.control:
                copies.append(canary)
                continue
            pairs = zip(self.names(canary), copies_of(space, canary, self.seed), strict=True)
            copies += (Canary(name, canary.format, fill, 1) for name, fill in pairs)
        found = CanarySet(tuple(spaces), tuple(copies), self.seed, role=self.role)
        found.__dict__["_copies_of"] = self
        return found

    def check_written(self) -> None:
        """A FormatError if near-de-duplication would take copies of different words for one."""
        for number, space in enumerate(self.formats):
            if space.opened is not None:
                mine = [c for c in self.written.injected if c.format == number]
                check_unlike(space, [self.written.text(canary) for canary in mine])

    def names(self, canary: Canary) -> list[str]:
        """The ids of a canary's copies in `written`: its own, unless its format has open slots."""
        if canary.control or self.formats[canary.format].opened is None:
            return [canary.id]
        return [f"{canary.id}.{number}" for number in range(1, canary.repetitions + 1)]

    @cached_property
    def owners(self) -> list[str]:
        """The id of the canary that each injected one of `written` is a copy of, in its order."""
        return [canary.id for canary in self.injected for _ in self.names(canary)]

    @sealed
    def text(self, canary: Canary) -> str:
        """The candidate of a canary of this set: its format with its fill."""
        return self.formats[canary.format].candidate(canary.fill)

    @classmethod
    @sealed
    def from_fills(
        cls, formats: Format | str, fills: Iterable[str] | Mapping[str, int]
    ) -> CanarySet:
        """A set of natural secrets: fills that somebody knows, not drawn.

        Parameters
        ----------
        formats : Format or str
            The space in which an audit ranks them.
        fills : iterable of str, or mapping of str to int
            The secrets, with their numbers of copies in the training data; 1 if not known.

        Raises
        ------
        FormatError
            If a fill is not in the space.
        InputError
            If there is none, one is there twice, or a count cannot be used.
        """
        space = Format.of(formats)
        if isinstance(fills, str):
            raise InputError("fills are a list of texts, got one text", cure="put it into a list")
        listed = list(fills)
        counts = fills if isinstance(fills, Mapping) else dict.fromkeys(listed, 1)
        if len(counts) < len(listed):
            raise InputError(
                "a secret is listed twice", cure="give each once, or a mapping to their counts"
            )
        for fill in counts:
            space.index(fill)
        return cls.natural_of([(space, counts)])

    @classmethod
    def natural_of(cls, spaces: Sequence[tuple[Format, Mapping[str, int]]]) -> CanarySet:
        """The set of natural secrets of several formats, each with its counts."""
        canaries: list[Canary] = []
        for number, (_, counts) in enumerate(spaces):
            for fill, number_of_copies in counts.items():
                copies = whole_number(number_of_copies, "from_fills: a count", at_least=1)
                canaries.append(Canary(f"natural-{len(canaries) + 1}", number, fill, copies))
        formats = tuple(space for space, _ in spaces)
        return cls(formats, tuple(canaries), seed=0, natural=True)

    @sealed
    def save(self, path: str | os.PathLike[str], *, force: bool = False) -> None:
        """Write the set as versioned JSON, atomically, readable by its owner only.

        `force` replaces another canary set, without which no model that was trained with it can
        be audited.

        Raises
        ------
        OutputError
            If there is another set, or the file cannot be written.
        """
        if not force:
            self.check_place(path)
        super().save(path)

    @sealed
    def check_place(self, path: str | os.PathLike[str]) -> None:
        """Refuse a path with another canary set, by an OutputError."""
        same = render_document(KIND, SCHEMA, self.to_dict()).encode()
        if kind_there(path) == KIND and Path(path).read_bytes() != same:
            raise OutputError(
                "holds another canary set, and models that were trained with it cannot be "
                "audited without it",
                cure="name another file, or remove this one yourself (canary generate --force "
                "replaces it, as does save(force=True))",
                where=str(path),
            )


def canary_set(given: CanarySet) -> CanarySet:
    """What was given, if it is a set of canaries; an InputError if not."""
    cure = "give what canary.generate returned, or CanarySet.load(path)"
    return of_kind(given, CanarySet, "canaries", cure=cure)


@sealed
def generate(
    formats: Format | str | Sequence[Format | str] | Mapping[Format | str, Groups],
    *,
    repetitions: Groups = REPETITIONS,
    per_repetition: int = 8,
    controls: int = 16,
    seed: int | None = None,
    coin_flips: bool = False,
    role: str | None = None,
) -> CanarySet:
    """Draw canaries and controls, uniformly and all different.

    Parameters
    ----------
    formats : Format, str, sequence of them, or mapping of them to `repetitions`
        Where to draw from; each gets its own canaries and controls, and by a mapping its own
        `repetitions`.
    repetitions : sequence of int, or mapping of int to int
        Numbers of copies to inject, each at least 1; a mapping gives the canaries of each.
    per_repetition, controls : int
        Canaries of each number of copies, and canaries that are never injected.
    seed : int, optional
        Non-negative; drawn and recorded if it is not given. Keep it as secret as the set.
    coin_flips : bool
        Toss a fair coin for each canary: tails, and it stays out, as one more control. What
        it was tossed for is recorded (`Canary.tossed`). A bound on epsilon needs this.
    role : str, optional
        For chats: who says the canaries (`CanarySet.role`). Whatever renders chats then finds
        what the chat template puts before them.

    Returns
    -------
    CanarySet
        Format by format: canaries by number of copies, in the order given, then controls.

    Raises
    ------
    FormatError
        If a format is not valid or not prefix-free, or its space is too small.
    InputError
        If a number cannot be used, or a drawn text is part of another.

    Examples
    --------
    >>> canaries = generate("The code is {digit:6}.", repetitions=[1, 10], controls=4, seed=0)
    >>> canaries
    <CanarySet of 16 canaries and 4 controls from 1 format>
    >>> generate({"code {digit:6}": [1], "pin {digit:6}": [10]}, controls=2, seed=0)
    <CanarySet of 16 canaries and 4 controls from 2 formats>
    """
    asked = asked_of(formats, repetitions, per_repetition, controls)
    coin_flips = flag(coin_flips, "coin_flips")
    given = secrets.randbits(128) if seed is None else seed
    seed = whole_number(given, "generate: seed", at_least=0, below=2**128)
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(_STREAM,)))
    coins = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(_COINS,)))
    canaries: list[Canary] = []
    numbers = {"canary": count(1), "control": count(1)}
    for position, (space, counts) in enumerate(asked):
        space.check_prefix_free()  # nothing could rank them after training
        if len(counts) > space.size:
            problem = f"the space of {space.text!r} has {space.size:,} fills, but "
            problem += f"{len(counts):,} canaries and controls were asked for"
            raise FormatError(problem, cure="use a longer hole, or ask for fewer")
        for copies, fill in zip(counts, space.sample(len(counts), rng=rng), strict=True):
            tossed = copies if copies and coin_flips else None
            heads = tossed is None or int(coins.integers(2))
            kind = "canary" if copies else "control"
            name = f"{kind}-{next(numbers[kind])}"
            canaries.append(Canary(name, position, fill, heads * copies, tossed))
    found = CanarySet(tuple(s for s, _ in asked), tuple(canaries), seed, role=role or "")
    found.check_written()
    return found


@dataclass(frozen=True)
class _Worded:
    """A format that its text alone does not say; its size tells if a registered kind changed."""

    text: str
    words: tuple[str, ...] | None
    size: int


def _written(space: Format) -> str | _Worded:
    """Its text, if that says all; else with its word list and the size of its space."""
    plain = space.words is None and space.portable
    return space.text if plain else _Worded(space.text, space.words, space.size)


def _read(value: object) -> Format:
    if not isinstance(value, Mapping):
        return Format(from_plain(value, str))
    space = Format((plain := from_plain(value, _Worded)).text, words=plain.words)
    if space.size != plain.size:
        raise RecordError(
            "the space has another size than when the set was made",
            cure="register the kinds of its holes as they were then",
        )
    return space


write_as(Format, _written, _read)
