"""The tree of token choices in compressed arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from canary.tokens.token_graph import END, TokenGraph

Ints = NDArray[np.int64]

LEAF = -1
"""Target of an edge below which there is nothing more to choose or to price."""

MISSING = -1
"""In place of the number of a leaf that is not there."""

NOT_CERTIFIED = "not certified"
"""How the certificate begins of a tree that may lack some candidates."""


def is_certified(certificate: str) -> bool:
    """Whether a tree with this certificate surely holds every candidate."""
    return not certificate.startswith(NOT_CERTIFIED)


Texts = Callable[[Sequence[Sequence[int]], Ints], list[tuple[str, ...]]]
"""The fills that the tokens of each leaf spell, given these, context included, and its number.

More than one where the tokenizer takes several for the same text.
"""


@dataclass(frozen=True, eq=False)
class TokenTree:
    """Branching states, and edges between them, in compressed arrays.

    An edge is one token choice, followed by the tokens that are then forced. An edge to
    `LEAF` has no forced tokens: a fixed end is priced below a state of its own.

    Parameters
    ----------
    context : int32 array of shape (p,)
        Tokens before the first one that depends on the fill.
    offsets : int64 array of shape (states + 1,)
        State ``s`` has the edges ``offsets[s]:offsets[s + 1]``; state 0 is the root.
    tokens : int32 array of shape (edges,)
    targets : int32 array of shape (edges,)
        The state below, or `LEAF`.
    forced : int32 array
        Forced tokens of all edges, end to end.
    forced_offsets : int64 array of shape (edges + 1,)
    first_leaf : array of shape (edges,)
        Leaves below the state's earlier edges: a leaf's number is the sum of this along
        its path. Of the dtype of `leaves`.
    leaves : array of shape (states,)
        Leaves below each state: int64, or Python's integers (dtype object) from 2**62 on.
    canonical : bool
        Whether every leaf is a tokenization that the tokenizer itself gives; if not, the
        canonical ones are among them, and the others are told by `fills`.
    certificate : str
        How it is known that the canonical leaves are the tokenizations of all fills, each
        once.
    texts_of : callable
        Reads leaves: see `Texts`.
    encode : callable, optional
        The tokens of candidates with some fills; not needed where each leaf is canonical and
        spells one text.
    """

    context: NDArray[np.int32]
    offsets: Ints
    tokens: NDArray[np.int32]
    targets: NDArray[np.int32]
    forced: NDArray[np.int32]
    forced_offsets: Ints
    first_leaf: Ints
    leaves: Ints
    canonical: bool
    certificate: str
    texts_of: Texts
    encode: Callable[[Sequence[str]], list[tuple[int, ...]]] | None = None

    @property
    def certified(self) -> bool:
        """Whether it is known that every candidate is among the leaves."""
        return is_certified(self.certificate)

    @property
    def size(self) -> int:
        """Number of leaves."""
        return int(self.leaves[0])

    @property
    def degrees(self) -> Ints:
        """Number of edges of each state."""
        return np.diff(self.offsets)

    def queries(self) -> int:
        """Tokens that a model must compute below the context to price every leaf.

        One per inner node and forced token; the root costs nothing.
        """
        inner = np.flatnonzero(self.targets != LEAF)
        sources = np.repeat(np.arange(len(self.leaves)), self.degrees)[inner]
        targets = self.targets[inner].astype(np.int64)
        costs = 1 + np.diff(self.forced_offsets)[inner]
        # Nodes of one depth are counted by their state. Python's integers where the sum
        # of all may not fit.
        longest = len(self.leaves) * int(costs.max(initial=1))
        kind = np.int64 if self.size * longest < 2**62 else object
        nodes = np.zeros(len(self.leaves), kind)
        nodes[0] = 1
        total = 0
        while True:
            taken = np.flatnonzero(nodes[sources] != 0)
            if not len(taken):
                return total
            reached = nodes[sources[taken]]
            total += int((reached * costs[taken]).sum())
            nodes = np.zeros(len(self.leaves), kind)
            np.add.at(nodes, targets[taken], reached)

    def numbers(self, rows: Sequence[Sequence[int]]) -> Ints:
        """The leaf numbers of token sequences, context included; `MISSING` if there is none.

        Notes
        -----
        O(tokens of the rows x log edges), all rows at once.
        """
        known = self.context.tolist()
        p = len(known)
        return self.numbers_below([row[p:] if list(row[:p]) == known else () for row in rows])

    def numbers_below(self, rows: Sequence[Sequence[int]]) -> Ints:
        """`numbers` of token sequences without the context."""
        lengths = np.array([len(row) for row in rows], np.int64)
        paths = np.full((len(rows), int(lengths.max(initial=0)) + 1), -1, np.int64)
        for path, ids in zip(paths, rows, strict=True):
            path[: len(ids)] = ids
        found = np.full(len(rows), MISSING, self.leaves.dtype)
        live = np.flatnonzero(lengths > 0)
        state, at = (np.zeros(len(live), np.int64) for _ in range(2))
        number = np.zeros(len(live), self.leaves.dtype)
        keys, edge_of = self._by_token
        while len(live):
            wanted = (state << 32) + paths[live, at]
            place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
            there = (keys[place] == wanted) & (paths[live, at] >= 0)
            live, at, number = live[there], at[there] + 1, number[there]
            edges = edge_of[place[there]]
            number = number + self.first_leaf[edges]
            starts, forced = (self.forced_offsets[edges], np.diff(self.forced_offsets)[edges])
            fits = at + forced <= lengths[live]
            for k in range(int(forced.max(initial=0))):
                more = fits & (k < forced)
                same = paths[live[more], at[more] + k] == self.forced[starts[more] + k]
                fits[more] = same
            at = at + forced
            state = self.targets[edges].astype(np.int64)
            done = fits & (state == LEAF) & (at == lengths[live])
            found[live[done]] = number[done]
            on = fits & (state != LEAF)
            live, state, at, number = live[on], state[on], at[on], number[on]
        return found

    def row(self, number: int) -> tuple[int, ...]:
        """The tokens of the leaf with a number, context included."""
        ids = self.context.tolist()
        state = 0
        while state != LEAF:
            a, b = int(self.offsets[state]), int(self.offsets[state + 1])
            edge = a + int(np.searchsorted(self.first_leaf[a:b], number, side="right")) - 1
            number -= int(self.first_leaf[edge])
            ids.append(int(self.tokens[edge]))
            a, b = int(self.forced_offsets[edge]), int(self.forced_offsets[edge + 1])
            ids.extend(self.forced[a:b].tolist())
            state = int(self.targets[edge])
        return tuple(ids)

    def fills(self, numbers: Sequence[int] | Ints) -> list[str | None]:
        """The fills of leaves by their numbers; None where a leaf is not canonical."""
        numbers = np.asarray(numbers, self.leaves.dtype)
        return self.fills_of([self.row(int(n)) for n in numbers], numbers)

    def fills_of(self, rows: Sequence[Sequence[int]], numbers: Ints) -> list[str | None]:
        """`fills` of leaves whose tokens are known."""
        texts = self.texts_of(rows, numbers)
        spelled = [(at, fill) for at, fills in enumerate(texts) for fill in fills]
        if self.canonical and len(spelled) == len(rows):
            return [fill for _, fill in spelled]
        assert self.encode is not None
        found: list[str | None] = [None] * len(rows)
        encoded = self.encode([fill for _, fill in spelled])
        for (at, fill), ids in zip(spelled, encoded, strict=True):
            if ids == tuple(rows[at]):
                found[at] = fill
        return found

    def texts(self, numbers: Sequence[int] | Ints) -> list[tuple[str, ...]]:
        """The fills that leaves spell, by their numbers; also of leaves that are not canonical."""
        numbers = np.asarray(numbers, self.leaves.dtype)
        return self.texts_of([self.row(int(n)) for n in numbers], numbers)

    @cached_property
    def _by_token(self) -> tuple[Ints, Ints]:
        """State and token of each edge as one ascending key, and the edges in that order."""
        keys = (np.repeat(np.arange(len(self.leaves)), self.degrees) << 32) + self.tokens
        order = np.argsort(keys, kind="stable")
        return keys[order], order


def compress(
    graph: TokenGraph,
    head: Sequence[int],
    tail: Sequence[int],
    *,
    canonical: bool,
    certificate: str,
    texts_of: Texts,
    encode: Callable[[Sequence[str]], list[tuple[int, ...]]] | None = None,
) -> TokenTree:
    """The tree of a token graph: chains become context and forced tokens.

    Parameters
    ----------
    graph : TokenGraph
    head, tail : sequence of int
        Tokens before and after every text.
    canonical, certificate, texts_of, encode
        As in `TokenTree`.
    """
    offsets = np.searchsorted(graph.sources, np.arange(len(graph.paths) + 1)).astype(np.int64)
    degrees = np.diff(offsets)
    context, root = list(head), graph.root
    while root != END and degrees[root] == 1:
        context.append(int(graph.tokens[offsets[root]]))
        root = int(graph.targets[offsets[root]])
    if root == END:  # one candidate: its last token stands for it
        ids = [*context, *tail]
        return TokenTree(
            np.array(ids[:-1], np.int32),
            np.array([0, 1], np.int64),
            np.array(ids[-1:], np.int32),
            np.array([LEAF], np.int32),
            np.zeros(0, np.int32),
            np.zeros(2, np.int64),
            np.zeros(1, np.int64),
            np.ones(1, np.int64),
            canonical,
            certificate,
            texts_of,
            encode,
        )
    branching = np.flatnonzero(degrees > 1)[::-1]  # the root has the greatest number
    inner = len(branching)
    place = np.full(len(degrees), LEAF, np.int64)
    place[branching] = np.arange(inner)
    counts = degrees[branching]
    edges = np.repeat(offsets[branching] - (np.cumsum(counts) - counts), counts)
    edges += np.arange(len(edges))
    tokens, targets = graph.tokens[edges], graph.targets[edges]
    first_leaf = np.cumsum(graph.paths[targets]) - graph.paths[targets]
    starts = np.cumsum(counts) - counts
    first_leaf -= np.repeat(first_leaf[starts], counts)

    owners: list[Ints] = []
    chained: list[Ints] = []
    going = np.flatnonzero(degrees[targets] == 1)
    while len(going):
        only = offsets[targets[going]]
        owners.append(going)
        chained.append(graph.tokens[only])
        targets[going] = graph.targets[only]
        going = going[degrees[targets[going]] == 1]
    ended = np.flatnonzero(targets == END)
    for token in tail:
        owners.append(ended)
        chained.append(np.full(len(ended), token, np.int64))
    nothing = np.zeros(0, np.int64)
    owner = np.concatenate([nothing, *owners])
    order = np.argsort(owner, kind="stable")
    forced, owner = np.concatenate([nothing, *chained])[order], owner[order]
    lengths = np.bincount(owner, minlength=len(edges))
    below = place[targets]
    # The last of the tokens before an end is priced at a state of its own.
    fixed = np.flatnonzero((targets == END) & (lengths > 0))
    last = np.cumsum(lengths)[fixed] - 1
    ends, number = np.unique(forced[last], return_inverse=True)
    below[fixed] = inner + number.reshape(-1)
    keep = np.ones(len(forced), np.bool_)
    keep[last] = False
    lengths[fixed] -= 1
    none = np.zeros(len(ends), np.int64)
    degrees = np.concatenate([counts, none + 1])
    return TokenTree(
        np.array(context, np.int32),
        np.concatenate([[0], np.cumsum(degrees)]).astype(np.int64),
        np.concatenate([tokens, ends]).astype(np.int32),
        np.concatenate([below, none + LEAF]).astype(np.int32),
        forced[keep].astype(np.int32),
        np.concatenate([[0], np.cumsum(np.concatenate([lengths, none]))]).astype(np.int64),
        np.concatenate([first_leaf, none]),
        np.concatenate([graph.paths[branching], none + 1]),
        canonical,
        certificate,
        texts_of,
        encode,
    )
