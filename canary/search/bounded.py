"""Exact ranks by branch and bound, and certain bounds of them at any moment before.

Costs only grow along a path. A node dearer than a canary has no leaf that counts for it,
and those of one depth that are not have a probability of at least 2^-B each, so there are
at most 2^B of them, however large the space.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from canary.models.language_model import Walker
from canary.scoring.batcher import Batcher
from canary.search.rank_counter import Limits, RankBounds, most_leaves, tokens_below
from canary.search.step import Frontier, at_once, expand, joined, root_frontier, worst_queries
from canary.statistics.number_checks import LN2
from canary.tokens.arrays import TokenTree

_MOST_PARKED = 2**20  # about 100 bytes each
_AGAIN_BITS = 1.0

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

_NONE = np.zeros(0, np.int64)


@dataclass(frozen=True, eq=False)
class _Due:
    """Open nodes to be expanded in this pass, and what is let go after the last of them."""

    frontier: Frontier
    parents: Ints


class BoundedWalk:
    """Ranks some leaves of a tree by pricing those that are at least as likely.

    The canaries are ranked in passes at ascending thresholds, each depth first in
    batches, so that whenever the walk stops every canary below the last finished
    threshold has its exact rank, and the others have bounds.

    Parameters
    ----------
    tree, walker, batcher
        As for `canary.search.enumerate.enumerate_leaves`.
    numbers, costs : arrays of shape (k,)
        The canaries, by the numbers of their leaves, and what each costs along its own path
        (`canary.search.enumerate.leaf_costs`), in nats.
    noise_bits : float
        Costs closer than this are ties of unknown order.
    most_parked : int
        Nodes that are kept between passes.

    Notes
    -----
    A pass costs one query per node and forced token between the last threshold and its
    own: nodes beyond a threshold are parked, and their parents' states are held as far as
    half of the walker's room goes. Beyond that the states above a parked node are computed
    again, once for those side by side. If more than `most_parked` nodes wait, the dearest
    half of them is forgotten. Canaries beyond those keep the bounds that they had, and
    their pass begins anew at the root, at a threshold at least one bit above the last: it
    costs every node up to that threshold.
    """

    def __init__(
        self,
        tree: TokenTree,
        walker: Walker,
        batcher: Batcher,
        *,
        numbers: Ints,
        costs: Floats,
        noise_bits: float,
        most_parked: int = _MOST_PARKED,
    ) -> None:
        self._tree, self._walker, self._batcher = tree, walker, batcher
        px = np.asarray(costs, np.float64) / LN2
        self._order = np.argsort(px, kind="stable")
        self._numbers = np.asarray(numbers)[self._order]
        self._limits = px[self._order] + noise_bits
        self._counting = Limits(px[self._order], self._numbers, noise_bits=noise_bits)
        self.excess_bits = batcher.model.facts.excess_bits(tokens_below(tree))
        self._most_parked = most_parked
        self._most_pinned = walker.room // 2
        k = len(px)
        # A stack of levels, the last one deepest: nodes up to the threshold, of this pass.
        self._levels: list[_Due] = []
        # Nodes beyond it and up to the ceiling, for later passes; those beyond that are forgotten.
        self._parked = [root_frontier(batcher, walker, tree)]
        self._threshold, self._ceiling = -math.inf, float(self._limits[-1]) if k else -math.inf
        self._pinned = 0  # cached states that parked nodes stand on, or did when the pass began
        # Others surely below each canary, at most as dear, and not surely above, as far as they
        # were scored; and those among the last of which the model gives bounds only.
        self._found = np.zeros((4, k), np.int64)
        # What is certain of each canary: they are in ascending order of their costs.
        self._lower, self._rank = np.ones((2, k), np.int64)
        self._upper = np.full(k, tree.size, tree.leaves.dtype)
        # So many are done with; of those, the ones whose ranks bounds of the model leave open.
        self._exact, self._unsure = 0, np.zeros(k, np.bool_)
        self._candidates = self._queries = 0
        self.likely_bits = -math.inf
        """Leaves that cost no more are looked for first, and kept in `likely`."""
        self.likely: dict[int, float] = {}
        """Numbers of leaves, and their costs in bits."""

    def run(self, *, budget: int | None = None) -> bool:
        """Walk on, until all ranks are exact, or this many more queries are spent.

        Never takes more queries than the budget; up to one per token of a path are left
        where the next node might cost that many. Gives whether all ranks are exact.
        """
        most = math.inf if budget is None else self._queries + budget
        while self._exact < len(self._limits):
            if not self._levels:
                self._next_pass()
                continue
            frontier = self._levels[-1].frontier
            if not len(frontier):
                self._release(self._levels.pop().parents)
                continue
            part = frontier[: at_once(self._batcher, self._walker, self._tree, frontier.states)]
            queries = np.cumsum(worst_queries(self._walker, self._tree, part))
            count = int(np.searchsorted(queries, most - self._queries, side="right"))
            if not count:
                return False
            self._expand(count)
            if sum(map(len, self._parked)) > self._most_parked:
                self._forget()
        return True

    def bounds(self) -> RankBounds:
        """What is certain now.

        Notes
        -----
        Leaves counted <= rank <= leaves counted + the sum over open nodes of
        ``min(leaves below, floor(2**(B - cost)))``: a leaf that counts has a probability of
        at least ``2**-(B - cost)`` below its node, and they sum to 1 there, or to
        ``2**excess_bits`` at most, for which B is raised by as much. The candidates must be
        prefix-free. Nodes that were forgotten or not yet expanded are open.

        O(k n) for n open nodes.
        """
        self._make_certain()
        lower, rank, upper = map(np.empty_like, (self._lower, self._rank, self._upper))
        lower[self._order], rank[self._order] = self._lower, self._rank
        upper[self._order] = self._upper
        exact = np.zeros(len(lower), np.bool_)
        exact[self._order[: self._exact]] = ~self._unsure[: self._exact]
        return RankBounds(lower, upper, rank, exact, self._candidates, self._queries)

    def close(self) -> None:
        """Let go of all states that are held; the walk does not go on after it."""
        self._release(*(level.parents for level in self._levels))
        self._release(*(part.handles for part in self._open_nodes))

    @property
    def _open_nodes(self) -> list[Frontier]:
        """Nodes that are open: of this pass, and of later ones."""
        return [*(level.frontier for level in self._levels), *self._parked]

    def _next_pass(self) -> None:
        """The canaries of the pass that ended are done with; the next one begins."""
        done = int(np.searchsorted(self._limits, self._threshold, side="right"))
        if done > self._exact:
            new = slice(self._exact, done)
            self._lower[new], self._rank[new], self._upper[new] = 1 + self._found[:3, new]
            self._unsure[new] = self._found[3, new] > 0
            self._exact = done
        if done == len(self._limits):
            self._release(*(part.handles for part in self._parked))
            self._parked, self._pinned = [], 0
            return
        threshold = float(self._limits[done])
        if self._threshold < self.likely_bits < threshold:
            threshold = self.likely_bits  # a pass of its own, since those before are few
        if threshold > self._ceiling:
            # From the root again, with what is certain kept and what was found forgotten.
            self._make_certain()
            self._release(*(part.handles for part in self._parked))
            self._levels = [_Due(root_frontier(self._batcher, self._walker, self._tree), _NONE)]
            self._parked, self._pinned, self._found[:] = [], 0, 0
            self._ceiling = float(self._limits[-1])
            self._threshold = min(max(threshold, self._threshold + _AGAIN_BITS), self._ceiling)
            return
        self._threshold = threshold
        if self._parked:
            parked = joined(self._parked)
            due = parked.costs / LN2 <= threshold
            now, later = parked[np.flatnonzero(due)], parked[np.flatnonzero(~due)]
            self._levels = _by_length(now, np.setdiff1d(now.handles, later.handles))
            self._parked = [later] if len(later) else []
            self._pinned = _held(parked.handles)

    def _expand(self, count: int) -> None:
        """Expand the first `count` nodes of the deepest level."""
        level = self._levels[-1]
        part = level.frontier[:count]
        step = expand(self._batcher, self._walker, self._tree, part, bounds=True)
        bits, leaves = step.costs / LN2, step.leaves
        inner = np.flatnonzero(~leaves & (bits <= self._ceiling))
        now = inner[bits[inner] <= self._threshold]
        later = inner[bits[inner] > self._threshold]

        below_now, below_later = (np.zeros(count, np.bool_) for _ in range(2))
        below_now[step.parents[now]] = True
        below_later[step.parents[later]] = True
        more = _held(step.handles[below_later])
        if self._pinned + more > self._most_pinned:
            below_later[:], more = False, 0
        self._pinned += more
        self._release(step.handles[~(below_now | below_later)])

        self._levels[-1] = replace(level, frontier=level.frontier[count:])
        if len(now):
            parents = step.handles[below_now & ~below_later]
            self._levels.append(_Due(step.open_nodes(now), parents))
        if len(later):
            nodes = step.open_nodes(later)
            if not more:
                nodes = replace(nodes, handles=np.full(len(nodes), -1, np.int64))
            self._parked.append(nodes)

        which = np.flatnonzero(leaves & (bits <= self._limits[-1]))
        which = which[step.canonical(which)]
        sure = which[step.exact[which]]
        if len(sure):
            numbers = step.first_leaf[sure]
            near = bits[sure] <= self.likely_bits
            self.likely |= zip(numbers[near].tolist(), bits[sure][near].tolist(), strict=True)
            ends = int(numbers.min()), int(numbers.max()) + 1
            ordered = np.sort(bits[sure])
            self._found[:3] += self._counting.count(ordered, bits[sure], ends, numbers.copy)
        # A canary among these has no cost to rank it by, and its upper bound says nothing.
        possible = np.sort(bits[which[~step.exact[which]]])
        self._found[2:] += np.searchsorted(possible, self._limits, side="right")
        self._candidates += int(np.count_nonzero(leaves))
        self._queries += step.queries

    def _forget(self) -> None:
        """Forget the dearest half of the parked nodes."""
        parked = joined(self._parked)
        bits = parked.costs / LN2
        middle = np.partition(bits, len(bits) // 2)[len(bits) // 2]
        ceiling = float(np.nextafter(middle, -math.inf))
        self._make_certain(above=ceiling)
        kept = parked[np.flatnonzero(bits <= ceiling)]
        # Nodes of this pass may stand on the same states: they go with its last one.
        first = self._levels[0]
        free = np.setdiff1d(parked.handles, kept.handles)
        self._levels[0] = replace(first, parents=np.concatenate([first.parents, free]))
        self._parked, self._ceiling = [kept] if len(kept) else [], ceiling

    def _make_certain(self, *, above: float = -math.inf) -> None:
        """Take down what is certain now of canaries that are not done with.

        Their upper bounds need all open nodes that may hold leaves for them, so those of
        canaries beyond the ceiling stay. Only those of canaries `above` some bits are looked at.
        """
        todo = slice(self._exact, None)
        self._lower[todo] = np.maximum(self._lower[todo], 1 + self._found[0, todo])
        self._rank[todo] = np.maximum(self._rank[todo], 1 + self._found[1, todo])
        parts = self._open_nodes
        bits = np.concatenate([np.zeros(0), *(part.costs for part in parts)]) / LN2
        first = np.concatenate([_NONE, *(part.first_leaf for part in parts)])
        leaves = self._tree.leaves[np.concatenate([_NONE, *(part.states for part in parts)])]
        for place in range(self._exact, len(self._upper)):
            limit, own = self._limits[place], self._numbers[place]
            if above < limit <= self._ceiling:
                here = bits <= limit
                more = most_leaves(limit - bits[here], leaves[here], excess_bits=self.excess_bits)
                holding = (first[here] <= own) & (own - first[here] < leaves[here])
                others = int(self._found[2, place]) + int(more.sum()) - int(holding.any())
                self._upper[place] = min(self._upper[place], 1 + others)

    def _release(self, *several: Ints) -> None:
        for handles in several:
            if len(handles) and handles.max() >= 0:
                self._walker.release(handles)


def _by_length(nodes: Frontier, parents: Ints) -> list[_Due]:
    """Levels of nodes of one length each, held ones apart: what a walker expands fastest."""
    order = np.lexsort((nodes.first_leaf, nodes.handles < 0, nodes.lengths))
    nodes = nodes[order]
    alike = (np.diff(nodes.lengths) == 0) & (np.diff(nodes.handles < 0) == 0)
    ends = [0, *(np.flatnonzero(~alike) + 1).tolist(), len(nodes)]
    return [
        # The first level is the last to be done.
        _Due(nodes[slice(start, stop)], _NONE if start else parents)
        for start, stop in itertools.pairwise(ends)
    ]


def _held(handles: Ints) -> int:
    """How many states are named."""
    return len(np.unique(handles[handles >= 0]))
