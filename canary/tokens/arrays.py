"""Token graphs, and the tree of token choices in compressed arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

END = 0
"""The state of a graph after the last token."""

MOST_PATHS = 2.0**62
"""That int64 is trusted with; Python's integers beyond."""

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
"""The fills that the tokens of each leaf spell, given these, context included, and its number."""


@dataclass(frozen=True, eq=False)
class TokenGraph:
    """States between tokens, without those from which no text can be finished.

    Edges are sorted by source, then as the tokens' texts are sorted; targets have smaller
    numbers than their sources. `END` has no edges; `paths` are how many ways lead to it from
    each state: int64, or Python's integers (dtype object) where those do not fit.
    """

    root: int
    sources: Ints
    tokens: Ints
    targets: Ints
    paths: Ints


def exact_counts(counts: Sequence[int]) -> Ints:
    """Numbers of paths as int64, or as Python's integers where one is too large for sums."""
    large = max(counts, default=0) >= MOST_PATHS
    return np.array(counts, object if large else np.int64)


def ranges(starts: Ints, counts: Ints) -> Ints:
    """``starts[i] .. starts[i] + counts[i] - 1`` for each i, end to end."""
    before = np.cumsum(counts) - counts
    found: Ints = np.repeat(starts - before, counts) + np.arange(int(counts.sum()))
    return found


@dataclass(frozen=True, eq=False)
class TokenTree:
    """Branching states, and edges between them, in compressed arrays.

    An edge is one token choice, followed by the tokens that are then forced. An edge to
    `LEAF` has no forced tokens: a fixed end is scored below a state of its own.

    Parameters
    ----------
    context : int32 array of shape (p,)
        Tokens before the first one that depends on the fill.
    offsets : int64 array of shape (states + 1,)
        State ``s`` has the edges ``offsets[s]:offsets[s + 1]``; state 0 is the root.
    tokens, targets : int32 arrays of shape (edges,)
        The token of an edge, and the state below, or `LEAF`.
    forced, forced_offsets : int32 array, int64 array of shape (edges + 1,)
        Forced tokens of all edges, end to end.
    first_leaf : array of shape (edges,)
        Leaves below the state's earlier edges: a leaf's number is the sum of this along
        its path. Of the dtype of `leaves`.
    leaves : array of shape (states,)
        Leaves below each state: int64, or Python's integers (dtype object) from 2**62 on.
    canonical : bool
        Whether every leaf is a tokenization that the tokenizer itself gives; if not, the
        canonical ones are among them, and `fills` finds them.
    certificate : str
        How it is known that the canonical leaves are those of all fills, each once.
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
        """The leaf numbers of token sequences, context included; `MISSING` if there is none."""
        known = self.context.tolist()
        p = len(known)
        return self.numbers_below([row[p:] if list(row[:p]) == known else () for row in rows])

    def numbers_below(self, rows: Sequence[Sequence[int]]) -> Ints:
        """`numbers` of token sequences without the context; O(tokens x log edges)."""
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
            starts, forced = self.forced_offsets[edges], np.diff(self.forced_offsets)[edges]
            fits = at + forced <= lengths[live]
            for k in range(int(forced.max(initial=0))):
                more = fits & (k < forced)
                fits[more] = paths[live[more], at[more] + k] == self.forced[starts[more] + k]
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
            ids += self.forced[self.forced_offsets[edge] : self.forced_offsets[edge + 1]].tolist()
            state = int(self.targets[edge])
        return tuple(ids)

    def fills(self, numbers: Sequence[int] | Ints) -> list[str | None]:
        """The fills of leaves by their numbers; None where a leaf is not canonical."""
        numbers = np.asarray(numbers, self.leaves.dtype)
        return self.fills_of([self.row(int(n)) for n in numbers], numbers)

    def fills_of(self, rows: Sequence[Sequence[int]], numbers: Ints) -> list[str | None]:
        """`fills` of leaves whose tokens are known."""
        texts = self.texts_of(rows, numbers)
        spelled = [(place, fill) for place, fills in enumerate(texts) for fill in fills]
        if self.canonical and len(spelled) == len(rows):
            return [fill for _, fill in spelled]
        assert self.encode is not None
        found: list[str | None] = [None] * len(rows)
        encoded = self.encode([fill for _, fill in spelled])
        for (place, fill), ids in zip(spelled, encoded, strict=True):
            if ids == tuple(rows[place]):
                found[place] = fill
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

    `head` and `tail` are tokens before and after every text; the rest is as in `TokenTree`.
    """
    about = (canonical, certificate, texts_of, encode)
    offsets = np.searchsorted(graph.sources, np.arange(len(graph.paths) + 1)).astype(np.int64)
    degrees = np.diff(offsets)
    context, root = list(head), graph.root
    while root != END and degrees[root] == 1:
        context.append(int(graph.tokens[offsets[root]]))
        root = int(graph.targets[offsets[root]])
    nothing = np.zeros(0, np.int64)
    if root == END:  # one candidate: its last token stands for it
        ids, one = np.array([*context, *tail], np.int32), np.ones(1, np.int64)
        leaf, no_tokens = np.array([LEAF], np.int32), np.zeros(0, np.int32)
        edges = np.array([0, 1]), ids[-1:], leaf, no_tokens, np.zeros(2, np.int64)
        return TokenTree(ids[:-1], *edges, one - 1, one, *about)
    branching = np.flatnonzero(degrees > 1)[::-1]  # the root has the greatest number
    inner = len(branching)
    place = np.full(len(degrees), LEAF, np.int64)
    place[branching] = np.arange(inner)
    counts = degrees[branching]
    edge = ranges(offsets[branching], counts)
    tokens, targets = graph.tokens[edge], graph.targets[edge]
    first_leaf = np.cumsum(graph.paths[targets]) - graph.paths[targets]
    first_leaf -= np.repeat(first_leaf[np.cumsum(counts) - counts], counts)

    owners, chained = [nothing], [nothing]  # edges, and tokens that are forced after them
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
    owner = np.concatenate(owners)
    order = np.argsort(owner, kind="stable")
    forced, owner = np.concatenate(chained)[order], owner[order]
    lengths = np.bincount(owner, minlength=len(edge))
    below = place[targets]
    # The last of the tokens before an end is scored at a state of its own.
    fixed = np.flatnonzero((targets == END) & (lengths > 0))
    last = np.cumsum(lengths)[fixed] - 1
    ends, number = np.unique(forced[last], return_inverse=True)
    below[fixed] = inner + number.reshape(-1)
    lengths[fixed] -= 1
    none = np.zeros(len(ends), np.int64)
    return TokenTree(
        np.array(context, np.int32),
        np.concatenate([[0], np.cumsum(np.concatenate([counts, none + 1]))]).astype(np.int64),
        np.concatenate([tokens, ends]).astype(np.int32),
        np.concatenate([below, none + LEAF]).astype(np.int32),
        np.delete(forced, last).astype(np.int32),
        np.concatenate([[0], np.cumsum(np.concatenate([lengths, none]))]).astype(np.int64),
        np.concatenate([first_leaf, none]),
        np.concatenate([graph.paths[branching], none + 1]),
        *about,
    )


def branches(tree: TokenTree, numbers: Ints) -> TokenTree:
    """The tree without all that leads to none of the chosen leaves; O(n x depth x log degree).

    `numbers` are those of n leaves in `tree`, ascending, none twice, at least one; of the dtype
    of `tree.leaves`. The n leaves stay in order. Each state on the way stays one, even where a
    single edge is left of it: so costs are added up as in the whole tree. States that several
    paths share become one for each path.
    """
    state, left = np.zeros(len(numbers), np.int64), numbers
    node, nodes = np.zeros(len(numbers), np.int64), 1  # of this level
    states = 1  # of all levels so far
    place = np.arange(len(numbers))
    leaves, degrees, first_leaf, edges, targets = ([] for _ in range(5))
    while len(left):
        # The edge below which a leaf lies: the last of its state that is not beyond it.
        edge, high = tree.offsets[state], tree.offsets[state + 1]
        while (high - edge > 1).any():
            middle = (edge + high) // 2
            reached = (tree.first_leaf[middle] <= left).astype(np.bool_)
            edge, high = np.where(reached, middle, edge), np.where(reached, high, middle)
        left = left - tree.first_leaf[edge]
        # Leaves below one node lie together, and so do those below one of its edges.
        begins = np.flatnonzero(np.diff(node, prepend=-1) | np.diff(edge, prepend=-1))
        opens = np.searchsorted(node, np.arange(nodes))
        leaves.append(np.diff(opens, append=len(node)))
        owners, taken = node[begins], edge[begins]
        degrees.append(np.bincount(owners, minlength=nodes))
        first_leaf.append(place[begins] - place[opens][owners])
        edges.append(taken)
        inner = tree.targets[taken] != LEAF
        below = np.cumsum(inner) - 1
        targets.append(np.where(inner, states + below, LEAF))
        nodes = int(inner.sum())
        states += nodes
        node = np.repeat(below, np.diff(begins, append=len(edge)))
        on = tree.targets[edge] != LEAF
        node, left, place = node[on], left[on], place[on]
        state = tree.targets[edge[on]].astype(np.int64)
    kept = np.concatenate(edges)
    counts = np.diff(tree.forced_offsets)[kept]
    return replace(
        tree,
        offsets=np.concatenate([[0], np.cumsum(np.concatenate(degrees))]),
        tokens=tree.tokens[kept],
        targets=np.concatenate(targets).astype(np.int32),
        forced=tree.forced[ranges(tree.forced_offsets[kept], counts)],
        forced_offsets=np.concatenate([[0], np.cumsum(counts)]),
        first_leaf=np.concatenate(first_leaf),
        leaves=np.concatenate(leaves),
        texts_of=lambda rows, chosen: tree.texts_of(rows, numbers[chosen]),
    )
