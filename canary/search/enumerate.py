"""Every leaf of a tree, depth first in batches, in memory that does not grow."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from canary.models.base import Walker
from canary.scoring.batcher import Batcher
from canary.search.step import Frontier, Step, expand, root_frontier
from canary.tokens.tree import TokenTree

__all__ = ["Leaves", "enumerate_leaves", "leaf_bounds", "leaf_costs"]

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Leaves:
    """A batch of priced leaves.

    Parameters
    ----------
    costs : float64 array of shape (m,)
        Nats, of the whole candidate.
    step : Step
        Where they were found.
    which : int64 array of shape (m,), or None for all children of the step
    """

    costs: NDArray[np.float64]
    step: Step
    which: Ints | None

    def index(self) -> Ints:
        """Number of each leaf in the tree, shape (m,)."""
        first = self.step.first_leaf
        return first if self.which is None else first[self.which]

    def bounds(self) -> tuple[int, int]:
        """All numbers lie in this half-open range; cheaper than `index`."""
        frontier, leaves = self.step.frontier, self.step.tree.leaves
        return (
            int(frontier.first_leaf.min()),
            int((frontier.first_leaf + leaves[frontier.states]).max()),
        )


@dataclass
class _Depth:
    """Open nodes of one depth, how many were taken, and what they stand on."""

    frontier: Frontier
    parents: Ints
    taken: int = 0


def enumerate_leaves(
    tree: TokenTree,
    walker: Walker,
    batcher: Batcher,
    *,
    start: int = 0,
    stop: int | None = None,
) -> Iterator[tuple[Leaves, int]]:
    """Price the canonical leaves of `tree`, each once.

    Parameters
    ----------
    tree : TokenTree
    walker : Walker
        Below `tree.context`.
    batcher : Batcher
    start, stop : int
        Only the leaves with a number in this half-open range; all unless given. Subtrees
        outside it are not entered, so ranges side by side cost what one walk costs and
        the nodes above their ends once more.

    Yields
    ------
    (Leaves, int)
        A batch of leaves (possibly empty), and the queries that the step took.

    Notes
    -----
    Queries: one per inner node and forced token, `tree.queries()` in all, and more only
    where the walker had no room for states. Open nodes: at most one batch's children per
    level. The states of a batch are released when all its children were expanded.
    """
    stop = tree.size if stop is None else stop
    levels = [_Depth(root_frontier(batcher, walker, tree), np.zeros(0, np.int64))]
    while levels:
        level = levels[-1]
        if level.taken == len(level.frontier):
            walker.release(level.parents)
            levels.pop()
            continue
        part = slice(level.taken, level.taken + batcher.node_batch(walker))
        level.taken = min(part.stop, len(level.frontier))
        step = expand(batcher, walker, tree, level.frontier[part])
        leaves, inside = step.leaves, step.overlap(start, stop)
        if tree.canonical and inside.all() and leaves.all():
            yield Leaves(step.costs, step, None), step.queries
            continue
        which = np.flatnonzero(leaves & inside)
        which = which[step.canonical(which)]
        yield Leaves(step.costs[which], step, which), step.queries
        levels.append(_Depth(step.open_nodes(np.flatnonzero(~leaves & inside)), step.handles))


def leaf_costs(
    tree: TokenTree, walker: Walker, batcher: Batcher, index: Ints
) -> tuple[NDArray[np.float64], int]:
    """Costs of some leaves, read off the walk's own arithmetic along their paths.

    Parameters
    ----------
    index : int64 array of shape (n,)
        Leaves by their number in the tree; repeats are allowed.

    Returns
    -------
    costs : float64 array of shape (n,)
        Nats, of the whole candidate.
    queries : int
    """
    costs, _, queries = _leaf_costs(tree, walker, batcher, index, bounds=False)
    return costs, queries


def leaf_bounds(
    tree: TokenTree, walker: Walker, batcher: Batcher, index: Ints
) -> tuple[NDArray[np.float64], NDArray[np.bool_], int]:
    """`leaf_costs` of a model that gives bounds for some tokens.

    Returns
    -------
    costs : float64 array of shape (n,)
        The least that each can cost, in nats.
    exact : bool array of shape (n,)
        Whether it does cost that.
    queries : int
    """
    return _leaf_costs(tree, walker, batcher, index, bounds=True)


def _leaf_costs(
    tree: TokenTree, walker: Walker, batcher: Batcher, index: Ints, *, bounds: bool
) -> tuple[NDArray[np.float64], NDArray[np.bool_], int]:
    costs, exact = np.empty(len(index)), np.empty(len(index), np.bool_)
    queries = first = 0
    while first < len(index):
        part = slice(first, first + batcher.node_batch(walker))
        costs[part], exact[part], spent = _some_leaf_costs(
            tree, walker, batcher, index[part], bounds=bounds
        )
        queries += spent
        first = part.stop
    return costs, exact, queries


def _some_leaf_costs(
    tree: TokenTree, walker: Walker, batcher: Batcher, index: Ints, *, bounds: bool
) -> tuple[NDArray[np.float64], NDArray[np.bool_], int]:
    costs, exact = np.empty(len(index)), np.empty(len(index), np.bool_)
    wanted, origin = np.asarray(index), np.arange(len(index))
    frontier = root_frontier(batcher, walker, tree)[np.zeros(len(index), np.int64)]
    held = np.zeros(0, np.int64)
    queries = 0
    while len(frontier):
        step = expand(batcher, walker, tree, frontier, bounds=bounds)
        walker.release(held)
        held = step.handles
        queries += step.queries
        # The child to follow is the last one whose first leaf is not beyond the wanted.
        beyond = step.first_leaf > wanted[step.parents]
        passed = np.bincount(step.parents[~beyond], minlength=len(frontier))
        degrees = np.bincount(step.parents, minlength=len(frontier))
        follow = np.cumsum(degrees) - degrees + passed - 1
        leaf = step.leaves[follow]
        costs[origin[leaf]] = step.costs[follow[leaf]]
        exact[origin[leaf]] = step.exact[follow[leaf]]
        wanted, origin = wanted[~leaf], origin[~leaf]
        frontier = step.open_nodes(follow[~leaf])
    walker.release(held)
    return costs, exact, queries
