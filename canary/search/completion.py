"""Completion as a text field would do it: greedy and beam search below what is known."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from canary.models.base import Walker, most_queries
from canary.scoring.batcher import Batcher
from canary.search.step import expand, root_frontier
from canary.tokens.tree import TokenTree

__all__ = ["Completed", "complete"]


@dataclass(frozen=True)
class Completed:
    """Where a beam search ended.

    Parameters
    ----------
    leaf : int or None
        Number of the likeliest leaf that it found; None if the model gives all that it
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
    """The likeliest leaf that a beam of `width` prefixes finds; 1 is greedy search.

    In each step every prefix is continued by one token choice, and the `width` likeliest of
    all continuations go on. Leaves stay in the beam as they are. A likelier leaf may be
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
    leaves, costs, queries = np.zeros(0, np.int64), np.zeros(0), 0
    while len(frontier):
        above = np.where(frontier.handles >= 0, frontier.priced - 1, 0)
        most = most_queries(walker, frontier.nodes, above, tree.degrees[frontier.states])
        if queries + int(most.sum()) > budget or time.monotonic() >= deadline:
            walker.release(held)
            return None
        step = expand(batcher, walker, tree, frontier)
        walker.release(held)
        held = step.handles
        queries += step.queries
        # What stands in the beam already comes first, then this step's continuations.
        order = np.argsort(np.concatenate([costs, step.costs]), kind="stable")[:width]
        stay, go = order[order < len(costs)], order[order >= len(costs)] - len(costs)
        go = go[np.isfinite(step.costs[go])]
        done = go[step.leaves[go]]
        leaves = np.concatenate([leaves[stay], step.first_leaf[done]])
        costs = np.concatenate([costs[stay], step.costs[done]])
        frontier = step.open_nodes(go[~step.leaves[go]])
    walker.release(held)
    if not len(costs):
        return Completed(None, np.inf, queries)
    best = int(np.argmin(costs))
    return Completed(int(leaves[best]), float(costs[best]), queries)
