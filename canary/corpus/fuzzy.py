"""Copies of a canary that differ at its open slots, as near-de-duplication lets them pass."""

from __future__ import annotations

import hashlib
from itertools import combinations, count
from typing import TYPE_CHECKING

from canary.corpus.consistency import Canary
from canary.errors import FormatError
from canary.formats.format import Format

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SHINGLE = 5
"""Words of the runs that near-de-duplication compares, as in datatrove and text-dedup."""

ALIKE = 0.7
"""Share of equal runs from which such programs take two texts for one."""

_TRIES = 64  # draws of a copy that may be one of the earlier ones
_COMPARED = 64  # copies that are compared with each other


def copies_of(space: Format, canary: Canary, seed: int) -> list[str]:
    """The fills of ``space.opened`` that go into a corpus for a canary: all different.

    They follow from the seed by SHA-256 alone, so that each version of each library finds them
    again. A FormatError if there are not as many.
    """
    slots = space.slots(canary.fill)
    drawn: dict[str, None] = {}
    tries = _drawn(slots, f"{seed}/{canary.id}")
    for _ in range(_TRIES * canary.repetitions):
        if len(drawn) == canary.repetitions:
            break
        drawn[next(tries)] = None
    else:
        raise FormatError(
            f"the open slots of {space.masked[:40]!r} have too few words for "
            f"{canary.repetitions:,} different copies",
            cure="open more slots, or ask for fewer copies",
        )
    return list(drawn)


def _drawn(slots: Sequence[tuple[str, ...]], key: str) -> Iterator[str]:
    for number in count():
        words = []
        for place, words_here in enumerate(slots):
            digest = hashlib.sha256(f"{key}/{number}/{place}".encode()).digest()
            words.append(words_here[int.from_bytes(digest, "big") % len(words_here)])
        yield "".join(words)


def likeness(texts: Sequence[str]) -> float:
    """The largest Jaccard index of two texts, by their runs of five words; 0 for one text.

    Examples
    --------
    >>> likeness(["one two three four five six", "one two three four five seven"])
    0.3333333333333333
    """
    runs = [_runs(text) for text in texts[:_COMPARED]]
    return max((len(a & b) / len(a | b) for a, b in combinations(runs, 2)), default=0.0)


def _runs(text: str) -> frozenset[tuple[str, ...]]:
    words = text.lower().split()
    return frozenset(tuple(words[i : i + SHINGLE]) for i in range(max(1, len(words) - SHINGLE + 1)))


def check_unlike(space: Format, texts: Sequence[str]) -> None:
    """A FormatError if near-de-duplication would take two copies for one; 64 are compared."""
    found = likeness(texts)
    if found >= ALIKE:
        raise FormatError(
            f"two copies of {space.masked[:40]!r} share {found:.0%} of their runs of "
            f"{SHINGLE} words, and near-de-duplication removes one of them from {ALIKE:.0%} on",
            cure="open more slots, in all parts of the text",
        )
