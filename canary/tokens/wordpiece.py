"""Models that need no pairs: WordPiece, longest match first, and whole words.

WordPiece takes the longest token that fits, then the longest that continues it, and so on.
So what follows a token must never make it part of a longer one: after a token, each longer
one that begins with it is awaited, and must not come about. The state is the set of texts
that have begun so; it is empty after most tokens.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np

from canary.tokens.machine import NEVER, Table, check_size

Symbols = tuple[str, ...]
Begun = tuple[int, Symbols]
"""The beginning of a longer token: of which of the two kinds, and its text."""

_FIRST, _WITHIN = 0, 1


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
    longer, onwards = _longer(first, within)
    number = {token: len(first) + k for k, token in enumerate(within)}
    beginning: dict[Symbols, list[int]] = defaultdict(list)
    for token, k in number.items():
        for end in range(1, len(token) + 1):
            beginning[token[:end]].append(k)
    states: dict[frozenset[Begun], int] = {}
    queue: list[frozenset[Begun]] = []

    def state(begun: Iterable[Begun]) -> int:
        key = frozenset(one for one in begun if one in longer)
        if key not in states:
            states[key] = len(queue)
            queue.append(key)
        return states[key]

    start = np.full(len(first) + len(within), NEVER, np.int32)
    start[: len(first)] = [state([(_FIRST, token)]) for token in first]
    usual = np.full(len(first) + len(within), NEVER, np.int32)
    usual[len(first) :] = [state([(_WITHIN, token)]) for token in within]
    rows = []
    for begun in queue:  # grows while it is read
        row = usual.copy()
        carried: dict[Symbols, set[Begun]] = defaultdict(set)
        for kind, text in begun:
            for more in onwards[kind, text] & number.keys():
                carried[more].add((kind, text + more))
        for token, pending in carried.items():
            row[number[token]] = state([(_WITHIN, token), *pending])
        for one in begun:
            for rest in longer[one]:
                row[beginning[rest]] = NEVER
        rows.append(row)
    return Table(start, np.stack(rows), np.ones(len(rows), np.bool_))


def _longer(
    first: Sequence[Symbols], within: Sequence[Symbols]
) -> tuple[dict[Begun, set[Symbols]], dict[Begun, set[Symbols]]]:
    """What would complete a longer token, and what would lead on towards one."""
    longer: dict[Begun, set[Symbols]] = {}
    onwards: dict[Begun, set[Symbols]] = {}
    for kind, tokens in ((_FIRST, first), (_WITHIN, within)):
        for token in tokens:
            for k in range(1, len(token)):
                begun = (kind, token[:k])
                longer.setdefault(begun, set()).add(token[k:])
                onwards.setdefault(begun, set()).update(
                    token[k:end] for end in range(k + 1, len(token))
                )
    return longer, onwards
