"""Byte-pair encoding: which tokens may stand side by side.

Merges are done in the order of their ranks, the leftmost first. Within a piece a sequence
of tokens is what the model makes of its text iff that holds for each two neighbours: what
happens between two boundaries that survive depends on nothing outside, and the first merge
across a boundary needs only the symbols on both of its sides.

So each token is taken apart once. At its right end stands a chain of symbols, each there
from the merge that made it to the merge that used it up, and so at its left end. A merge
(x, y) of rank k is done across the boundary of tokens l and r iff x stands at the end of l
while y stands at the beginning of r, and k comes before the merges that use them up.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from canary.tokens.machine import NEVER, Table, check_size
from canary.tokens.pattern import UnknownRuleError

Symbols = tuple[str, ...]
Ranks = Mapping[tuple[str, str], int]
Ints = NDArray[np.int64]

_NEVER_USED = 2**62
_MOST_SIMULATED = 200_000  # pairs of tokens whose merges are not in ascending order


class _Chain:
    """Symbols at one end of tokens: which token, from when, until when."""

    def __init__(self) -> None:
        self._rows: dict[str, list[tuple[int, int, int]]] = defaultdict(list)

    def add(self, token: int, events: Sequence[tuple[str, int]]) -> None:
        """`events`: each symbol, and the rank of the merge that made it."""
        ends = [made for _, made in events[1:]] + [_NEVER_USED]
        for (symbol, made), end in zip(events, ends, strict=True):
            self._rows[symbol].append((token, made, end))

    def arrays(self) -> dict[str, Ints]:
        """By symbol: token, start and end, shape (n, 3)."""
        return {symbol: np.array(rows, np.int64) for symbol, rows in self._rows.items()}


def bpe_machine(
    tokens: Sequence[Symbols], merges: Sequence[Sequence[str]], *, ignore_merges: bool = False
) -> Table:
    """The pairs of `tokens` that byte-pair encoding keeps apart.

    Parameters
    ----------
    tokens : sequence of symbol tuples
    merges : sequence of pairs of str
        In the order of their ranks.
    ignore_merges : bool
        Whether a piece that is a token is taken as it is, whatever the merges.

    Notes
    -----
    Time grows with the tokens' number of witnesses: at most the square of the tokens for
    each place in a chain, and in practice far below.
    """
    check_size(len(tokens))
    usable = {symbol for token in tokens for symbol in token}
    chars = {c for symbol in usable for c in symbol}
    # Of a pair that stands there twice the last one counts.
    ranks = {
        (x, y): rank
        for rank, (x, y) in enumerate(merges)
        if chars.issuperset(x) and chars.issuperset(y)
    }
    rights, lefts = _Chain(), _Chain()
    used = np.zeros(len(tokens), np.bool_)
    irregular = []
    for number, token in enumerate(tokens):
        right, left, ascending, parts = _take_apart(token, ranks)
        used[number] = len(parts) == 1
        if not used[number]:
            continue
        if ascending:
            rights.add(number, right)
            lefts.add(number, left)
        else:
            irregular.append(number)
    valid = np.ones((len(tokens), len(tokens)), np.bool_)
    _cross(valid, rights.arrays(), lefts.arrays(), ranks)
    if len(irregular) * len(tokens) > _MOST_SIMULATED:
        raise UnknownRuleError("merges that are not in ascending order")
    for odd in irregular:
        for other in np.flatnonzero(used).tolist():
            valid[odd, other] = _apart(tokens[odd], tokens[other], ranks)
            valid[other, odd] = _apart(tokens[other], tokens[odd], ranks)
    # Tokens after which the same ones may follow are one state.
    valid &= used[:, None] & used[None, :]
    packed = np.packbits(valid, axis=1)
    keys = np.ascontiguousarray(packed).view(np.dtype((np.void, packed.shape[1])))[:, 0]
    _, first, classes = np.unique(keys, return_index=True, return_inverse=True)
    classes, rows = classes.reshape(-1), valid[first]
    follow = np.where(rows, classes[None, :], NEVER).astype(np.int32)
    start = np.where(used, classes, NEVER).astype(np.int32)
    machine = Table(start, follow, np.ones(len(rows), np.bool_))
    return _with_whole_pieces(machine, tokens, used) if ignore_merges else machine


def _take_apart(
    token: Symbols, ranks: Ranks
) -> tuple[list[tuple[str, int]], list[tuple[str, int]], bool, list[str]]:
    """The symbols at a token's right and left end, each with the rank that made it.

    Also whether ranks only grow, and what the model makes of the token's text.
    """
    parts = list(token)
    right, left = [(parts[-1], -1)], [(parts[0], -1)]
    last, ascending = -1, True
    while len(parts) > 1:
        best, at = min((ranks.get(p, _NEVER_USED), i) for i, p in enumerate(_pairs(parts)))
        if best == _NEVER_USED:
            break
        ascending = ascending and best >= last
        last = best
        merged = parts[at] + parts[at + 1]
        for end, touched in ((right, at + 2 == len(parts)), (left, at == 0)):
            if touched:
                ascending = ascending and best > end[-1][1]
                end.append((merged, best))
        parts[at : at + 2] = [merged]
    return right, left, ascending, parts


def _pairs(parts: Sequence[str]) -> list[tuple[str, str]]:
    return list(pairwise(parts))


def _apart(left: Symbols, right: Symbols, ranks: Ranks) -> bool:
    """Whether the model makes two tokens of the text of both."""
    parts = _take_apart(left + right, ranks)[3]
    return parts == ["".join(left), "".join(right)]


def _cross(
    valid: NDArray[np.bool_], rights: dict[str, Ints], lefts: dict[str, Ints], ranks: Ranks
) -> None:
    """Strike out the pairs across whose boundary a merge is done."""
    for (x, y), rank in ranks.items():
        if x not in rights or y not in lefts:
            continue
        left, right = rights[x], lefts[y]
        # At the same rank what lies further left comes first: merges within the left token,
        # then the one across, then those within the right one.
        left, right = left[rank < left[:, 2]], right[rank <= right[:, 2]]
        together = (right[None, :, 1] < left[:, None, 2]) & (left[:, None, 1] <= right[None, :, 2])
        valid[np.ix_(left[:, 0], right[:, 0])] &= ~together


def _with_whole_pieces(machine: Table, tokens: Sequence[Symbols], used: NDArray[np.bool_]) -> Table:
    """A piece that is a token no merges lead to is that token, and nothing else."""
    odd = {token for token, merged in zip(tokens, used, strict=True) if not merged}
    if not odd:
        return machine
    index = {token: number for number, token in enumerate(tokens)}
    beginnings = {token[:k] for token in odd for k in range(1, len(token) + 1)}
    onwards: dict[Symbols, list[Symbols]] = defaultdict(list)
    for text in beginnings:
        for k in range(1, len(text)):
            if text[k:] in index:
                onwards[text[:k]].append(text)
    start, rows, ends = machine.start.copy(), list(machine.follow), list(machine.final)
    alone = len(rows)  # after such a token the piece is at its end
    rows.append(np.full(len(tokens), NEVER, np.int32))
    ends.append(np.True_)
    states: dict[tuple[int, Symbols], int] = {}
    queue: list[tuple[int, Symbols]] = []

    def state(after: int, text: Symbols) -> int:
        if (after, text) not in states:
            states[after, text] = alone + 1 + len(queue)
            queue.append((after, text))
        return states[after, text]

    for number, token in enumerate(tokens):
        if token in odd:
            start[number] = alone
        elif used[number] and token in beginnings:
            start[number] = state(int(machine.start[number]), token)
    for after, text in queue:  # grows while it is read
        row = machine.follow[after].copy()
        rows.append(row)
        ends.append(np.bool_(text not in odd))
        for more in onwards[text]:
            number = index[more[len(text) :]]
            if row[number] != NEVER:
                row[number] = state(int(machine.follow[after, number]), more)
    return Table(start, np.stack(rows), np.array(ends, np.bool_))
