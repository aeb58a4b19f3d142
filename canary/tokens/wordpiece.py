"""Models that need no pairs: WordPiece, longest match first, and whole words.

WordPiece takes the longest token that fits, then the longest that continues it, and so on.
So what follows a token must never make it part of a longer one: after a token, each longer
one that begins with it is awaited, and must not come about. The state is the set of texts
that have begun so; it is empty after most tokens.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from canary.tokens.machine import NEVER, Table, check_size

__all__ = ["word_machine", "wordpiece_machine"]

Symbols = tuple[str, ...]
Begun = tuple[bool, Symbols]
"""The beginning of a longer token: whether of one that begins a piece, and its text."""


def word_machine(words: Sequence[Symbols]) -> Table:
    """Each piece is one of `words`."""
    return Table(
        np.zeros(len(words), np.int32),
        np.full((1, len(words)), NEVER, np.int32),
        np.ones(1, np.bool_),
    )


def wordpiece_machine(first: Sequence[Symbols], within: Sequence[Symbols]) -> Table:
    """Longest match first, exactly.

    Parameters
    ----------
    first, within : sequences of symbol tuples
        Tokens that begin a piece and tokens that continue one, without their mark; they
        are numbered through both.
    """
    check_size(len(first) + len(within))
    longer: dict[Begun, set[Symbols]] = defaultdict(set)  # what would complete a longer token
    onwards: dict[Begun, set[Symbols]] = defaultdict(set)  # what would lead on towards one
    for begins, tokens in ((True, first), (False, within)):
        for token in tokens:
            for k in range(1, len(token)):
                longer[begins, token[:k]].add(token[k:])
                for end in range(k + 1, len(token)):
                    onwards[begins, token[:k]].add(token[k:end])
    number = {token: len(first) + k for k, token in enumerate(within)}
    beginning: dict[Symbols, list[int]] = defaultdict(list)
    for token, k in number.items():
        for end in range(1, len(token) + 1):
            beginning[token[:end]].append(k)

    states: dict[frozenset[Begun], int] = {}
    queue: list[frozenset[Begun]] = []

    def state(begun: frozenset[Begun]) -> int:
        if begun not in states:
            states[begun] = len(queue)
            queue.append(begun)
        return states[begun]

    def after(begins: bool, token: Symbols) -> frozenset[Begun]:  # noqa: FBT001
        return frozenset([(begins, token)]) if (begins, token) in longer else frozenset()

    start = np.full(len(first) + len(within), NEVER, np.int32)
    start[: len(first)] = [state(after(True, token)) for token in first]
    usual = np.full(len(first) + len(within), NEVER, np.int32)
    usual[len(first) :] = [state(after(False, token)) for token in within]
    rows = []
    for begun in queue:  # grows while it is read
        row = usual.copy()
        carried: dict[Symbols, set[Begun]] = defaultdict(set)
        for begins, text in begun:
            for more in onwards.get((begins, text), ()):
                if more in number:
                    carried[more].add((begins, text + more))
        for token, pending in carried.items():
            row[number[token]] = state(after(False, token) | pending)
        for key in begun:
            for rest in longer[key]:
                row[beginning[rest]] = NEVER
        rows.append(row)
    return Table(start, np.stack(rows), np.ones(len(rows), np.bool_))
