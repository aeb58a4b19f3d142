"""The likeliest leaves of a tree, by shortest paths in batches, with a proof.

Costs only grow along a path, so a leaf that is no dearer than the cheapest open node is
proven: nothing below an open node can be cheaper.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from canary.errors import RequestsSpentError
from canary.models.language_model import Walker
from canary.records import clocks
from canary.scoring.batcher import Batcher
from canary.search.buckets import OpenNodes
from canary.search.step import at_once, expand, root_frontier, worst_queries
from canary.tokens.arrays import LEAF, TokenTree

Ints = NDArray[np.int64]
Stop = Literal["proof", "paper"]
Stopped = Literal["proof", "memory", "paper", "budget", "seconds", "requests", "interrupted"]

STOPS: tuple[Stop, ...] = ("proof", "paper")
"""When to stop: at the proof, or by the rule of the paper."""

MOST_OPEN = 2**20


@dataclass(frozen=True, eq=False)
class Shortest:
    """The most likely leaves that were found, and what is known of all others.

    Parameters
    ----------
    costs, leaves : arrays of shape (k,)
        Nats, of whole candidates, ascending and finite; and numbers in the tree. Leaves of which
        the model gives bounds only are not among them, and count for `rest` with the least that
        they can cost.
    found_after : int64 array of shape (k,)
        Queries that were spent when each was found.
    rest : float
        Nats. Every other leaf costs at least this: the cheapest node that is open or was dropped,
        or the cheapest leaf that was left out. Infinity if no other leaf has a probability above 0.
    queries : int
        Tokens computed below the context.
    batches, dropped : int
        Batches that were expanded; open nodes that were dropped to keep memory bounded.
    stopped : str
        ``"proof"``; ``"memory"`` (nothing is open any more, but nodes were dropped that might
        have led to something better); ``"paper"``, ``"budget"``, ``"seconds"``,
        ``"requests"`` (no more are allowed to a served model) or ``"interrupted"``.
    """

    costs: NDArray[np.float64]
    leaves: Ints
    found_after: Ints
    rest: float
    queries: int
    batches: int
    dropped: int
    stopped: Stopped

    @property
    def proven(self) -> int:
        """How many of the leaves are the most likely ones, proven to within noise."""
        return int(np.searchsorted(self.costs, self.rest, side="right"))


def shortest_leaves(
    tree: TokenTree,
    walker: Walker,
    batcher: Batcher,
    *,
    top: int = 1,
    budget: int | None = None,
    seconds: float | None = None,
    most_open: int = MOST_OPEN,
    stop: Stop = "proof",
) -> Shortest:
    """The `top` leaves of least cost; valid whatever ended the walk, Ctrl-C included.

    Parameters
    ----------
    tree : TokenTree
        Prefix-free, as `compile_tree` sees to.
    walker : Walker
        Below `tree.context`.
    batcher : Batcher
    top : int
    budget : int, optional
        Queries that may be spent; none more are.
    seconds : float, optional
        Wall-clock time after which no other batch is begun.
    most_open : int
        Open nodes that are kept between batches; the dearest beyond them are dropped.
    stop : {"proof", "paper"}
        ``"paper"`` stops after twice the batches that it took to find the first leaf (Carlini et
        al., The Secret Sharer, USENIX Security 2019, section 8.1).

    Notes
    -----
    Dijkstra's algorithm by buckets (delta-stepping: Meyer and Sanders, Journal of Algorithms
    49(1), 2003): a batch is what the lowest bucket holds. A state is held while a child of its
    node is open, within `walker.room`, the states of the cheapest nodes first. Of leaves with
    equal costs any may be returned.
    """
    walk = ShortestWalk(tree, walker, batcher, top=top, most_open=most_open)
    deadline = clocks.deadline(seconds)
    first = None  # batches until the first leaf
    stopped: Stopped = "proof"
    try:
        while len(walk.open):
            if clocks.is_over(deadline):
                stopped = "seconds"
                break
            if stop == "paper" and first is not None and walk.batches >= 2 * first:
                stopped = "paper"
                break
            if not walk.step(None if budget is None else budget - walk.queries):
                stopped = "budget"
                break
            if first is None and len(walk.best.costs):
                first = walk.batches
        rest = min(walk.left_out, walk.open.cheapest())
    except KeyboardInterrupt:
        stopped, rest = "interrupted", min(walk.left_out, walk.floor)
    except RequestsSpentError as spent:
        stopped, rest = spent.stopped, min(walk.left_out, walk.floor)
    if stopped == "proof" and walk.best.limit > rest:
        stopped = "memory"
    return Shortest(
        costs=walk.best.costs,
        leaves=walk.best.leaves,
        found_after=walk.best.found_after,
        rest=rest,
        queries=walk.queries,
        batches=walk.batches,
        dropped=walk.dropped,
        stopped=stopped,
    )


@dataclass(frozen=True, eq=False)
class _Best:
    """The best leaves so far, replaced as a whole, so that it is valid at any moment."""

    top: int
    costs: NDArray[np.float64]
    leaves: Ints
    found_after: Ints

    @property
    def limit(self) -> float:
        """What a leaf must cost less than to come among them."""
        return float(self.costs[-1]) if len(self.costs) == self.top else np.inf


class ShortestWalk:
    """The state of a `shortest_leaves` between two batches, for those who end it themselves."""

    def __init__(
        self, tree: TokenTree, walker: Walker, batcher: Batcher, *, top: int, most_open: int
    ) -> None:
        self._tree, self._walker, self._batcher = tree, walker, batcher
        self._most_open = most_open
        # States below which some edge is no leaf: theirs are held for a while.
        self._inner = np.add.reduceat(tree.targets != LEAF, tree.offsets[:-1], dtype=np.int64) > 0
        self.open = OpenNodes(walker)
        root = root_frontier(batcher, walker, tree)
        if np.isfinite(root.costs[0]):  # else nothing below has a probability either
            self.open.add(root, np.zeros(1, np.int64))
        none = np.zeros(0, np.int64)
        self.best = _Best(top, np.zeros(0), none, none)
        self.queries = self.batches = self.dropped = 0
        # Least cost of what was seen and is neither open nor among the best.
        self.left_out = np.inf
        # Least cost of what was not yet seen when a batch began: what the batch changes costs at
        # least that, so the bound holds at any moment.
        self.floor = float(root.costs[0])

    def step(self, left: int | None) -> bool:
        """Expand a batch that takes at most `left` queries; false if none does."""
        self.floor = max(self.floor, self.open.floor)
        places = self.open.take(self._batcher.node_batch(self._walker))
        states = self.open.states(places)
        count = at_once(self._batcher, self._walker, self._tree, states)
        self.open.put_back(places[count:])
        places = places[:count]
        self.open.make_room(int(self._inner[states[:count]].sum()))
        frontier, held = self.open.at(places)
        if left is not None:
            queries = np.cumsum(worst_queries(self._walker, self._tree, frontier, held=held))
            count = int(np.searchsorted(queries, left, side="right"))
            self.open.put_back(places[count:])
            places, frontier = places[:count], frontier[:count]
        if not len(places):
            return False
        step = expand(self._batcher, self._walker, self._tree, frontier, bounds=True)
        self.queries += step.queries
        self.batches += 1

        # A leaf of which only a bound is known is left out, as is one that is too dear.
        better = step.costs < self.best.limit
        leaves = step.leaves
        good = leaves & step.exact & better
        self._leave_out(step.costs[leaves & ~good])
        which = np.flatnonzero(good)
        which = which[step.canonical(which)]
        if len(which):
            self._take_leaves(step.costs[which], step.first_leaf[which])

        better = step.costs < self.best.limit
        self._leave_out(step.costs[~leaves & ~better])
        inner = np.flatnonzero(~leaves & better)
        parents = self.open.hold(step.handles, frontier.lengths, places, step.parents[inner])
        if len(inner):
            self.open.add(step.open_nodes(inner), parents)
        self.open.close(places)
        number, least = self.open.trim(self._most_open)
        self.dropped += number
        self.left_out = min(self.left_out, least)
        return True

    def _leave_out(self, costs: NDArray[np.float64]) -> None:
        self.left_out = min(self.left_out, float(costs.min(initial=np.inf)))

    def _take_leaves(self, costs: NDArray[np.float64], leaves: Ints) -> None:
        """The best of these leaves and those so far; nodes that are too dear then are dropped."""
        best = self.best
        all_costs = np.concatenate([best.costs, costs])
        all_leaves = np.concatenate([best.leaves, leaves])
        found_after = np.concatenate([best.found_after, np.full(len(costs), self.queries)])
        order = np.lexsort((all_leaves, all_costs))
        kept = order[: best.top]
        better = _Best(best.top, all_costs[kept], all_leaves[kept], found_after[kept])
        least = float(all_costs[order[best.top :]].min(initial=np.inf))
        if better.limit < best.limit:
            least = min(least, self.open.drop_from(better.limit))
        self.left_out = min(self.left_out, least)
        self.best = better
