"""Completion as a text field would do it: greedy and beam search below what is known."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from canary.models.language_model import Walker
from canary.records import clocks
from canary.scoring.batcher import Batcher
from canary.search.step import expand_all, joined, root_frontier, worst_queries
from canary.tokens.arrays import TokenTree


@dataclass(frozen=True)
class Completed:
    """Where a beam search ended.

    Parameters
    ----------
    leaf : int or None
        Number of the most likely leaf that it found; None if the model gives all that it
        tried probability 0.
    cost : float
        Nats, of the whole candidate in the tokens of this leaf; infinity if there is none.
    queries : int
    """

    leaf: int | None
    cost: float
    queries: int


def complete(
    tree: TokenTree,
    walker: Walker,
    batcher: Batcher,
    *,
    width: int,
    budget: float = np.inf,
    deadline: float = np.inf,
) -> Completed | None:
    """The most likely leaf that a beam of `width` prefixes finds; 1 is greedy search.

    In each step every prefix is continued by one token choice, and the `width` most likely of
    all continuations go on. Leaves stay in the beam as they are. A more likely leaf may be
    missed: nothing is proven. None if it cannot end within `budget` queries, or before the
    time `deadline` of `time.monotonic`. Where the tree holds tokenizations that the tokenizer
    itself would not give, they count as well: what is completed is a text, however it is cut
    (`TokenTree.texts`).

    Raises
    ------
    ModelError
        If the model gives NaN, or more than probability 1.
    """
    frontier, held = root_frontier(batcher, walker, tree), np.zeros(0, np.int64)
    leaves, leaf_costs, queries = np.zeros(0, np.int64), np.zeros(0), 0
    while len(frontier):
        most = int(worst_queries(walker, tree, frontier).sum())
        if queries + most > budget or clocks.is_over(deadline):
            walker.release(held)
            return None
        # The beam: costs, leaves by their numbers or -1, and open nodes in the same order. Where
        # costs tie, leaves of earlier steps come first, and then what was expanded first.
        costs, numbers, nodes, handles = leaf_costs, leaves, frontier[:0], []
        for _, step in expand_all(batcher, walker, tree, frontier):
            handles.append(step.handles)
            queries += step.queries
            both = np.concatenate([costs, step.costs])
            best = np.sort(np.argsort(both, kind="stable")[:width])
            best = best[np.isfinite(both[best])]
            old, new = best[best < len(costs)], best[best >= len(costs)] - len(costs)
            kept = (np.cumsum(numbers < 0) - 1)[old[numbers[old] < 0]]
            leaf = step.leaves[new]
            costs = both[best]
            numbers = np.concatenate([numbers[old], np.where(leaf, step.first_leaf[new], -1)])
            nodes = joined([nodes[kept], step.open_nodes(new[~leaf])])
        walker.release(held)
        held = np.concatenate(handles)
        leaf_costs, leaves, frontier = costs[numbers >= 0], numbers[numbers >= 0], nodes
    walker.release(held)
    if not len(leaves):
        return Completed(None, np.inf, queries)
    best_leaf = int(np.argmin(leaf_costs))
    return Completed(int(leaves[best_leaf]), float(leaf_costs[best_leaf]), queries)
