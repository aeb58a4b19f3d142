"""Completion as a text field would do it: greedy and beam search below what is known."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from canary.models.language_model import Walker, most_queries
from canary.scoring.batcher import Batcher
from canary.search.step import Frontier, Step, at_once, expand, joined, root_frontier
from canary.tokens.tree import TokenTree


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


@dataclass(frozen=True, eq=False)
class _Beam:
    """The likeliest prefixes of a level so far: leaves by their numbers, and open nodes (-1)."""

    costs: NDArray[np.float64]
    leaves: NDArray[np.int64]
    nodes: Frontier

    def extended(self, step: Step, width: int) -> _Beam:
        """The `width` likeliest of these and the children of a step; these where they tie."""
        costs = np.concatenate([self.costs, step.costs])
        best = np.sort(np.argsort(costs, kind="stable")[:width])
        best = best[np.isfinite(costs[best])]
        old, new = best[best < len(self.costs)], best[best >= len(self.costs)] - len(self.costs)
        leaf, waiting = step.leaves[new], self.leaves < 0
        numbers = np.where(leaf, step.first_leaf[new], -1)
        kept = (np.cumsum(waiting) - 1)[old[waiting[old]]]
        return _Beam(
            costs[best],
            np.concatenate([self.leaves[old], numbers]),
            joined([self.nodes[kept], step.open_nodes(new[~leaf])]),
        )


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
        # What stands in the beam already comes first, then this step's continuations.
        beam, handles, at = _Beam(costs, leaves, frontier[:0]), [], 0
        while at < len(frontier):
            part = frontier[at : at + at_once(batcher, walker, tree, frontier.states[at:])]
            step = expand(batcher, walker, tree, part)
            beam = beam.extended(step, width)
            handles.append(step.handles)
            queries += step.queries
            at += len(part)
        walker.release(held)
        held = np.concatenate(handles)
        done = beam.leaves >= 0
        costs, leaves, frontier = beam.costs[done], beam.leaves[done], beam.nodes
    walker.release(held)
    if not len(costs):
        return Completed(None, np.inf, queries)
    best = int(np.argmin(costs))
    return Completed(int(leaves[best]), float(costs[best]), queries)
