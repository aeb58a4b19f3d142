"""Which token may follow which within a piece, as tables: of whole words, WordPiece and BPE.

WordPiece takes the longest token that fits, then the longest that continues it, and so on.
So what follows a token must never make it part of a longer one: after a token, each longer
one that begins with it is awaited, and must not come about. The state is the set of texts
that have begun so; it is empty after most tokens.

BPE does merges in the order of their ranks, the leftmost first. Within a piece a sequence
of tokens is what the model makes of its text iff that holds for each two neighbours: what
happens between two boundaries that survive depends on nothing outside, and the first merge
across a boundary needs only the symbols on both of its sides. So each token is taken apart
once. At its right end stands a chain of symbols, each there from the merge that made it to the
merge that used it up, and so at its left end. A merge (x, y) of rank k is done across the
boundary of tokens l and r iff x stands at the end of l while y stands at the beginning of r, and
k comes before the merges that use them up.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from canary.tokens.pattern import UnknownRuleError

NEVER = -1

MAX_TOKENS = 8_192
"""Tokens of a vocabulary that a format may use: tables of pairs hold their square."""

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]
States = NDArray[np.int32]
Symbols = tuple[str, ...]
Ranks = Mapping[tuple[str, str], int]
Begun = tuple[bool, Symbols]
"""The beginning of a longer token: whether of one that begins a piece, and its text."""

_NEVER_USED = 2**62
_MOST_SIMULATED = 200_000  # pairs of tokens whose merges are not in ascending order


@dataclass(frozen=True, eq=False)
class Table:
    """A machine whose states are all known: those within a piece, by the tokens read so far.

    Tokens are numbered from 0; every canonical tokenization of a piece can be read. `start` has
    shape (tokens,): the state after a token that begins a piece, `NEVER` where it cannot;
    `follow` (states, tokens), and `final` (states,).
    """

    start: States
    follow: States
    final: Bools

    def rows(self, states: Ints) -> tuple[States, Ints]:
        """The states after one more token: a table, and the row of each of `states`.

        `NEVER` where the token cannot follow.
        """
        return self.follow, states

    def ends(self, states: Ints) -> Bools:
        """Whether the piece may end, for each of `states`."""
        return self.final[states]


def check_size(tokens: int) -> None:
    """Refuse more tokens than a table of pairs can hold."""
    if tokens > MAX_TOKENS:
        raise UnknownRuleError(
            f"{tokens:,} tokens that fit into the format, more than {MAX_TOKENS:,}"
        )


def word_machine(words: Sequence[Symbols]) -> Table:
    """Each piece is one of `words`."""
    start = np.zeros(len(words), np.int32)
    return Table(start, np.full((1, len(words)), NEVER, np.int32), np.ones(1, np.bool_))


def wordpiece_machine(first: Sequence[Symbols], within: Sequence[Symbols]) -> Table:
    """Longest match first, exactly.

    Tokens begin a piece, or continue one (without their mark); they are numbered through both.
    """
    check_size(len(first) + len(within))
    longer: dict[Begun, set[Symbols]] = defaultdict(set)  # what would complete a longer token
    onwards: dict[Begun, set[Symbols]] = defaultdict(set)  # what would lead on towards one
    for begins, tokens in ((True, first), (False, within)):
        for token in tokens:
            for k in range(1, len(token)):
                longer[begins, token[:k]].add(token[k:])
                onwards[begins, token[:k]].update(token[k:end] for end in range(k + 1, len(token)))
    number = {token: len(first) + k for k, token in enumerate(within)}
    beginning: dict[Symbols, list[int]] = defaultdict(list)
    for token, k in number.items():
        for end in range(1, len(token) + 1):
            beginning[token[:end]].append(k)
    states: dict[frozenset[Begun], int] = {}
    queue: list[frozenset[Begun]] = []

    def state(begun: Iterable[Begun]) -> int:
        key = frozenset(each for each in begun if each in longer)
        if key not in states:
            states[key] = len(queue)
            queue.append(key)
        return states[key]

    start = np.full(len(first) + len(within), NEVER, np.int32)
    usual = start.copy()
    start[: len(first)] = [state([(True, token)]) for token in first]
    usual[len(first) :] = [state([(False, token)]) for token in within]
    rows = []
    for begun in queue:  # grows while it is read
        row = usual.copy()
        carried: dict[Symbols, set[Begun]] = defaultdict(set)
        for begins, text in begun:
            for more in onwards[begins, text] & number.keys():
                carried[more].add((begins, text + more))
        for token, pending in carried.items():
            row[number[token]] = state([(False, token), *pending])
        for each in begun:
            for rest in longer[each]:
                row[beginning[rest]] = NEVER
        rows.append(row)
    return Table(start, np.stack(rows), np.ones(len(rows), np.bool_))


def bpe_machine(
    tokens: Sequence[Symbols], merges: Sequence[Sequence[str]], *, ignore_merges: bool = False
) -> Table:
    """The pairs of `tokens` that byte-pair encoding keeps apart.

    `merges` are in the order of their ranks; with `ignore_merges` a piece that is a token is
    taken as it is. Time grows with the tokens' number of witnesses: at most the square of the
    tokens for each place in a chain, and in practice far below.
    """
    check_size(len(tokens))
    chars = {c for token in tokens for symbol in token for c in symbol}
    # Of a pair that stands there twice the last one counts.
    ranks = {
        (x, y): rank
        for rank, (x, y) in enumerate(merges)
        if chars.issuperset(x) and chars.issuperset(y)
    }
    # By symbol: tokens at whose right or left end it stands, from when, until when.
    chains: tuple[dict[str, list[tuple[int, int, int]]], ...] = defaultdict(list), defaultdict(list)
    used = np.zeros(len(tokens), np.bool_)
    irregular = []
    for number, token in enumerate(tokens):
        *both, ascending, parts = _take_apart(token, ranks)
        used[number] = len(parts) == 1
        if used[number] and not ascending:
            irregular.append(number)
        elif used[number]:
            for chain, events in zip(chains, both, strict=True):
                until = [made for _, made in events[1:]] + [_NEVER_USED]
                for (symbol, made), end in zip(events, until, strict=True):
                    chain[symbol].append((number, made, end))
    valid = np.ones((len(tokens), len(tokens)), np.bool_)
    rights, lefts = ({symbol: np.array(rows) for symbol, rows in c.items()} for c in chains)
    for (x, y), rank in ranks.items():
        if x in rights and y in lefts:
            # At the same rank what lies further left comes first: merges within the left token,
            # then the one across, then those within the right one.
            right = rights[x][rank < rights[x][:, 2]]
            left = lefts[y][rank <= lefts[y][:, 2]]
            before_end = left[None, :, 1] < right[:, None, 2]
            across = before_end & (right[:, None, 1] <= left[None, :, 2])
            valid[np.ix_(right[:, 0], left[:, 0])] &= ~across
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


Events = list[tuple[str, int]]


def _take_apart(token: Symbols, ranks: Ranks) -> tuple[Events, Events, bool, list[str]]:
    """The symbols at a token's right and left end, each with the rank that made it.

    Also whether ranks only grow, and what the model makes of the token's text.
    """
    parts = list(token)
    right, left = [(parts[-1], -1)], [(parts[0], -1)]
    last, ascending = -1, True
    while len(parts) > 1:
        best, at = min((ranks.get(p, _NEVER_USED), i) for i, p in enumerate(pairwise(parts)))
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


def _apart(left: Symbols, right: Symbols, ranks: Ranks) -> bool:
    """Whether the model makes two tokens of the text of both."""
    return _take_apart(left + right, ranks)[3] == ["".join(left), "".join(right)]


def _with_whole_pieces(machine: Table, tokens: Sequence[Symbols], used: Bools) -> Table:
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
