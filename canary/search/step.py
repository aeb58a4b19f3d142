"""The expansion step below every walk: open nodes in, priced leaves and open nodes out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from canary.errors import UnsupportedError
from canary.models.language_model import Children, Nodes, Walker, most_queries
from canary.scoring.batcher import Batcher
from canary.tokens.arrays import LEAF, TokenTree

Ints = NDArray[np.int64]

MOST_CHILDREN = 2**20
"""Children of one step, unless one node has more: some 100 MB."""


@dataclass(frozen=True, eq=False)
class Frontier:
    """Open nodes as arrays, one entry per node.

    Parameters
    ----------
    states : int64 array of shape (n,)
        State in the token tree.
    paths : int32 array of shape (n, d)
        Token choices below the context, forced tokens included, right-padded.
    lengths, priced, handles : int64 arrays of shape (n,)
        As in `canary.models.language_model.Nodes`.
    costs : float64 array of shape (n,)
        Nats, of the context and of the priced part of the path.
    first_leaf : array of shape (n,)
        Number of the first leaf below; of the dtype of `TokenTree.leaves`.
    exact : bool array of shape (n,)
        False where the cost is a lower bound, of a model that gives bounds for some tokens.
    """

    states: Ints
    paths: NDArray[np.int32]
    lengths: Ints
    priced: Ints
    handles: Ints
    costs: NDArray[np.float64]
    first_leaf: Ints
    exact: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.states)

    def __getitem__(self, part: slice | Ints) -> Frontier:
        return Frontier(*(getattr(self, name)[part] for name in self.__dataclass_fields__))

    @property
    def nodes(self) -> Nodes:
        """What a walker needs of the open nodes."""
        return Nodes(self.paths, self.lengths, self.priced, self.handles)


@dataclass(frozen=True, eq=False)
class Step:
    """Children of a batch of nodes, in order: edge by edge, node by node.

    Parameters
    ----------
    edges, parents : int64 arrays of shape (m,)
        Edge of the tree that each child is at the end of, and its parent's position in the batch.
    costs : float64 array of shape (m,)
        Nats, of the context and of the path up to the choice that the edge makes.
    exact : bool array of shape (m,)
        As in `Frontier`.
    handles : int64 array of shape (n,)
        Handles of the parents.
    queries : int
        Tokens computed below the context.
    """

    frontier: Frontier
    tree: TokenTree
    edges: Ints
    parents: Ints
    costs: NDArray[np.float64]
    exact: NDArray[np.bool_]
    handles: Ints
    queries: int

    @property
    def leaves(self) -> NDArray[np.bool_]:
        """Which children are leaves, shape (m,)."""
        at_end: NDArray[np.bool_] = self.tree.targets[self.edges] == LEAF
        return at_end

    @property
    def first_leaf(self) -> Ints:
        """Number of the first leaf below each child (a leaf's own number), shape (m,)."""
        first: Ints = self.frontier.first_leaf[self.parents] + self.tree.first_leaf[self.edges]
        return first

    def canonical(self, which: Ints) -> NDArray[np.bool_]:
        """Which leaves at the positions `which` the tokenizer itself would give, shape (k,).

        Costs nothing unless the tree holds others; then each is encoded again.
        """
        if self.tree.canonical or not len(which):
            return np.ones(len(which), np.bool_)
        edges, parents = self.edges[which], self.parents[which]
        paths, lengths = self.frontier.paths[parents].tolist(), self.frontier.lengths[parents]
        context, tokens = self.tree.context.tolist(), self.tree.tokens[edges].tolist()
        rows = [
            [*context, *path[:length], token]
            for path, length, token in zip(paths, lengths.tolist(), tokens, strict=True)
        ]
        fills = self.tree.fills_of(rows, self.first_leaf[which])
        return np.array([fill is not None for fill in fills], np.bool_)

    def open_nodes(self, which: Ints) -> Frontier:
        """The children at the positions `which` as open nodes."""
        edges, parents = self.edges[which], self.parents[which]
        before = self.frontier.lengths[parents]
        starts = self.tree.forced_offsets[edges]
        forced = self.tree.forced_offsets[edges + 1] - starts
        lengths = before + 1 + forced
        paths = np.zeros((len(which), int(lengths.max(initial=0))), np.int32)
        above = self.frontier.paths[parents, : paths.shape[1]]
        paths[:, : above.shape[1]] = above
        rows = np.arange(len(which))
        paths[rows, before] = self.tree.tokens[edges]
        for k in range(int(forced.max(initial=0))):
            more = rows[k < forced]
            paths[more, before[more] + 1 + k] = self.tree.forced[starts[more] + k]
        return Frontier(
            states=self.tree.targets[edges].astype(np.int64),
            paths=paths,
            lengths=lengths,
            priced=before + 1,
            handles=self.handles[parents],
            costs=self.costs[which],
            first_leaf=self.first_leaf[which],
            exact=self.exact[which],
        )


def context_nats(walker: Walker) -> float:
    """The cost of the context: what every candidate below it costs at least."""
    context = 0.0
    for log_prob in walker.context_log_probs:  # first token first, as everywhere
        context -= float(log_prob)
    return context


def root_frontier(batcher: Batcher, walker: Walker, tree: TokenTree) -> Frontier:
    """The root alone, with the cost of the context.

    Raises
    ------
    ModelError
        If the context has no price: the model gives NaN, or more than probability 1.
    """
    batcher.check_numbers(walker.context_log_probs)
    zero = np.zeros(1, np.int64)
    return Frontier(
        states=zero,
        paths=np.zeros((1, 0), np.int32),
        lengths=zero,
        priced=zero,
        handles=np.full(1, -1, np.int64),
        costs=np.array([context_nats(walker)]),
        first_leaf=np.zeros(1, tree.leaves.dtype),
        exact=np.ones(1, np.bool_),
    )


def joined(parts: Sequence[Frontier]) -> Frontier:
    """The open nodes of several frontiers, one after the other; at least one is needed."""
    width = max(part.paths.shape[1] for part in parts)
    paths = np.zeros((sum(map(len, parts)), width), np.int32)
    first = 0
    for part in parts:
        paths[first : first + len(part), : part.paths.shape[1]] = part.paths
        first += len(part)
    names = [name for name in Frontier.__dataclass_fields__ if name != "paths"]
    others = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
    return Frontier(paths=paths, **others)


def at_once(batcher: Batcher, walker: Walker, tree: TokenTree, states: Ints) -> int:
    """How many of the nodes in these states, the first of them, one `expand` should take.

    A batch, or as many as have `MOST_CHILDREN` children; one at least if there is one.
    """
    degrees = tree.degrees[states[: batcher.node_batch(walker)]]
    fitting = int(np.searchsorted(np.cumsum(degrees), MOST_CHILDREN, side="right"))
    return max(fitting, min(len(degrees), 1))


def worst_queries(
    walker: Walker, tree: TokenTree, frontier: Frontier, *, held: Ints | None = None
) -> Ints:
    """The most queries that each node takes.

    `held` are the depths of the states above; unless given those right before the tokens that
    made the nodes, or none.
    """
    if held is None:
        held = np.where(frontier.handles >= 0, frontier.priced - 1, 0)
    return most_queries(walker, frontier.nodes, held, tree.degrees[frontier.states])


def expand_all(
    batcher: Batcher, walker: Walker, tree: TokenTree, frontier: Frontier
) -> Iterator[tuple[int, Step]]:
    """`expand` nodes batch by batch; gives the position of the first node of each batch, too."""
    first = 0
    while first < len(frontier):
        last = first + at_once(batcher, walker, tree, frontier.states[first:])
        yield first, expand(batcher, walker, tree, frontier[first:last])
        first = last


def expand(
    batcher: Batcher,
    walker: Walker,
    tree: TokenTree,
    frontier: Frontier,
    *,
    bounds: bool = False,
) -> Step:
    """Price the children of every node of a frontier.

    The nodes' states are kept only if some child is not a leaf. With `bounds` costs may be
    lower bounds, which `Step.exact` marks.

    Raises
    ------
    UnsupportedError
        If the model gives bounds, and these do not serve.
    """
    degrees = tree.degrees[frontier.states]
    parents = np.repeat(np.arange(len(frontier)), degrees)
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(degrees)])
    starts = tree.offsets[frontier.states] - offsets[:-1]
    edges = np.arange(len(parents)) + np.repeat(starts, degrees)
    tokens, alike = tree.tokens[edges], int(offsets[1])
    children = Children(tokens, offsets)
    if (
        len(frontier) * alike == len(tokens)
        and (tokens.reshape(len(frontier), alike) == tokens[:alike]).all()
    ):  # one list for the whole batch
        children = Children(tokens[:alike])
    keep = bool((tree.targets[edges] != LEAF).any())
    expansion = batcher.expand(walker, frontier.nodes, children, keep=keep)
    exact = frontier.exact[parents]
    if expansion.exact is not None:
        exact &= expansion.exact.reshape(-1)
    if not bounds and not exact.all():
        raise UnsupportedError(
            f"the model {batcher.model.facts.name!r} gives bounds for some tokens instead of "
            "probabilities, and this walk needs them exact",
            cure="use a model that gives the log-probability of every token",
        )
    # The parent's cost, that of the forced tokens before the choice, and that of the choice.
    base = frontier.costs - expansion.path_log_probs
    costs = base[parents] - expansion.log_probs.reshape(-1)
    return Step(frontier, tree, edges, parents, costs, exact, expansion.handles, expansion.queries)
