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
from canary.tokens.tree import TokenTree

_MOST_PARKED = 2**20  # about 100 bytes each
_AGAIN_BITS = 1.0

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

_NONE = np.zeros(0, np.int64)


@dataclass(frozen=True, eq=False)
class _Due:
    """Open nodes to be expanded in this pass, and what is let go after the last of them."""

    frontier: Frontier
    parents: Ints


@dataclass(frozen=True, eq=False)
class _State:
    """All that a walk knows: replaced as a whole, so that an interruption leaves no half.

    Canaries are in ascending order of their costs here.

    Parameters
    ----------
    levels : tuple of _Due
        A stack: the last one is deepest.
    parked : tuple of Frontier
        Nodes above `threshold` and up to `ceiling`, for later passes.
    pinned : int
        Held states that parked nodes stand on, or did when the pass began.
    threshold, ceiling : float
        Bits: nodes up to the first are expanded in this pass, beyond the second forgotten.
    found : int64 array of shape (4, k)
        Others surely below each canary, at most as dear, and not surely above, as far as
        they were priced; and those among the last of which the model gives bounds only.
    lower, rank, upper : int64 arrays of shape (k,)
        What earlier walks made certain.
    exact : int
        So many canaries are done with.
    unsure : bool array of shape (k,)
        Of those, the ones whose ranks bounds of the model leave open.
    """

    levels: tuple[_Due, ...]
    parked: tuple[Frontier, ...]
    pinned: int
    threshold: float
    ceiling: float
    found: Ints
    lower: Ints
    rank: Ints
    upper: Ints
    exact: int
    unsure: Flags
    candidates: int = 0
    queries: int = 0

    @property
    def open_nodes(self) -> tuple[Frontier, ...]:
        """Nodes that are open: of this pass, and of later ones."""
        return (*(level.frontier for level in self.levels), *self.parked)


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

    `run` may be interrupted (KeyboardInterrupt passes through); `bounds` is then still right,
    and `run` may go on.
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
        self._state = _State(
            levels=(),
            parked=(root_frontier(batcher, walker, tree),),
            pinned=0,
            threshold=-math.inf,
            ceiling=float(self._limits[-1]) if k else -math.inf,
            found=np.zeros((4, k), np.int64),
            lower=np.ones(k, np.int64),
            rank=np.ones(k, np.int64),
            upper=np.full(k, tree.size, tree.leaves.dtype),
            exact=0,
            unsure=np.zeros(k, np.bool_),
        )

    def run(self, *, budget: int | None = None) -> bool:
        """Walk on, until all ranks are exact, or so many more queries are spent.

        Never takes more queries than the budget; up to one per token of a path are left
        where the next node might cost that many. Gives whether all ranks are exact.
        """
        most = math.inf if budget is None else self._state.queries + budget
        while self._state.exact < len(self._limits):
            state = self._state
            if not state.levels:
                self._state = self._next_pass(state)
                continue
            frontier = state.levels[-1].frontier
            if not len(frontier):
                self._release(state.levels[-1].parents)
                self._state = replace(state, levels=state.levels[:-1])
                continue
            part = frontier[: at_once(self._batcher, self._walker, self._tree, frontier.states)]
            queries = np.cumsum(worst_queries(self._walker, self._tree, part))
            count = int(np.searchsorted(queries, most - state.queries, side="right"))
            if not count:
                return False
            self._state = self._lowered(self._expanded(state, count))
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
        state = self._with_bounds(self._state)
        lower, rank, upper = map(np.empty_like, (state.lower, state.rank, state.upper))
        lower[self._order], rank[self._order] = state.lower, state.rank
        upper[self._order] = state.upper
        exact = np.zeros(len(lower), np.bool_)
        exact[self._order[: state.exact]] = ~state.unsure[: state.exact]
        return RankBounds(lower, upper, rank, exact, state.candidates, state.queries)

    def close(self) -> None:
        """Let go of all states that are held; the walk does not go on after it."""
        state = self._state
        self._release(*(level.parents for level in state.levels))
        self._release(*(part.handles for part in state.open_nodes))

    def _next_pass(self, state: _State) -> _State:
        """The canaries of the pass that ended are done with; the next one begins."""
        done = int(np.searchsorted(self._limits, state.threshold, side="right"))
        if done > state.exact:
            ranks, unsure = np.stack([state.lower, state.rank, state.upper]), state.unsure.copy()
            new = slice(state.exact, done)
            ranks[:, new] = 1 + state.found[:3, new]
            unsure[new] = state.found[3, new] > 0
            lower, rank = ranks[:2].astype(np.int64)
            state = replace(
                state, lower=lower, rank=rank, upper=ranks[2], exact=done, unsure=unsure
            )
        if done == len(self._limits):
            self._release(*(part.handles for part in state.parked))
            return replace(state, parked=(), pinned=0)
        threshold = float(self._limits[done])
        if threshold > state.ceiling:
            # From the root again, with what is certain kept and what was found forgotten.
            self._release(*(part.handles for part in state.parked))
            top = float(self._limits[-1])
            return replace(
                self._with_bounds(state),
                levels=(_Due(root_frontier(self._batcher, self._walker, self._tree), _NONE),),
                parked=(),
                pinned=0,
                threshold=min(max(threshold, state.threshold + _AGAIN_BITS), top),
                ceiling=top,
                found=np.zeros_like(state.found),
            )
        if not state.parked:
            return replace(state, threshold=threshold)
        parked = joined(state.parked)
        due = parked.costs / LN2 <= threshold
        now, later = parked[np.flatnonzero(due)], parked[np.flatnonzero(~due)]
        return replace(
            state,
            levels=_by_length(now, np.setdiff1d(now.handles, later.handles)),
            parked=(later,) if len(later) else (),
            pinned=_held(parked.handles),
            threshold=threshold,
        )

    def _expanded(self, state: _State, count: int) -> _State:
        """The state after the first `count` nodes of the deepest level."""
        level = state.levels[-1]
        part = level.frontier[:count]
        step = expand(self._batcher, self._walker, self._tree, part, bounds=True)
        bits, leaves = step.costs / LN2, step.leaves
        inner = np.flatnonzero(~leaves & (bits <= state.ceiling))
        now = inner[bits[inner] <= state.threshold]
        later = inner[bits[inner] > state.threshold]

        below_now, below_later = (np.zeros(count, np.bool_) for _ in range(2))
        below_now[step.parents[now]] = True
        below_later[step.parents[later]] = True
        more = _held(step.handles[below_later])
        if state.pinned + more > self._most_pinned:
            below_later[:], more = False, 0
        self._release(step.handles[~(below_now | below_later)])

        levels = (*state.levels[:-1], replace(level, frontier=level.frontier[count:]))
        if len(now):
            parents = step.handles[below_now & ~below_later]
            levels = (*levels, _Due(step.open_nodes(now), parents))
        parked = state.parked
        if len(later):
            nodes = step.open_nodes(later)
            if not more:
                nodes = replace(nodes, handles=np.full(len(nodes), -1, np.int64))
            parked = (*parked, nodes)

        which = np.flatnonzero(leaves & (bits <= self._limits[-1]))
        which = which[step.canonical(which)]
        found = state.found.copy()
        sure = which[step.exact[which]]
        if len(sure):
            numbers = step.first_leaf[sure]
            ends = int(numbers.min()), int(numbers.max()) + 1
            found[:3] += self._counting.count(np.sort(bits[sure]), bits[sure], ends, numbers.copy)
        # A canary among these has no cost to rank it by, and its upper bound says nothing.
        possible = np.sort(bits[which[~step.exact[which]]])
        found[2:] += np.searchsorted(possible, self._limits, side="right")
        return replace(
            state,
            levels=levels,
            parked=parked,
            pinned=state.pinned + more,
            found=found,
            candidates=state.candidates + int(np.count_nonzero(leaves)),
            queries=state.queries + step.queries,
        )

    def _lowered(self, state: _State) -> _State:
        """Without the dearest half of the parked nodes, if there are too many."""
        if sum(map(len, state.parked)) <= self._most_parked:
            return state
        parked = joined(state.parked)
        bits = parked.costs / LN2
        middle = np.partition(bits, len(bits) // 2)[len(bits) // 2]
        ceiling = float(np.nextafter(middle, -math.inf))
        kept = parked[np.flatnonzero(bits <= ceiling)]
        # Nodes of this pass may stand on the same states: they go with its last one.
        first = state.levels[0]
        free = np.setdiff1d(parked.handles, kept.handles)
        first = replace(first, parents=np.concatenate([first.parents, free]))
        return replace(
            self._with_bounds(state, above=ceiling),
            levels=(first, *state.levels[1:]),
            parked=(kept,) if len(kept) else (),
            ceiling=ceiling,
        )

    def _with_bounds(self, state: _State, *, above: float = -math.inf) -> _State:
        """The state with what is certain now of canaries that are not done with.

        Their upper bounds need all open nodes that may hold leaves for them, so those of
        canaries beyond the state's ceiling stay. Only those of canaries `above` some bits
        are looked at.
        """
        todo = slice(state.exact, None)
        lower, upper, rank = state.lower.copy(), state.upper.copy(), state.rank.copy()
        lower[todo] = np.maximum(lower[todo], 1 + state.found[0, todo])
        rank[todo] = np.maximum(rank[todo], 1 + state.found[1, todo])
        parts = state.open_nodes
        bits = np.concatenate([np.zeros(0), *(part.costs for part in parts)]) / LN2
        first = np.concatenate([_NONE, *(part.first_leaf for part in parts)])
        leaves = self._tree.leaves[np.concatenate([_NONE, *(part.states for part in parts)])]
        for place in range(state.exact, len(upper)):
            limit, own = self._limits[place], self._numbers[place]
            if above < limit <= state.ceiling:
                here = bits <= limit
                more = most_leaves(limit - bits[here], leaves[here], excess_bits=self.excess_bits)
                holding = (first[here] <= own) & (own - first[here] < leaves[here])
                others = int(state.found[2, place]) + int(more.sum()) - int(holding.any())
                upper[place] = min(upper[place], 1 + others)
        return replace(state, lower=lower, rank=rank, upper=upper)

    def _release(self, *several: Ints) -> None:
        for handles in several:
            if len(handles) and handles.max() >= 0:
                self._walker.release(handles)


def _by_length(nodes: Frontier, parents: Ints) -> tuple[_Due, ...]:
    """Levels of nodes of one length each, held ones apart: what a walker expands fastest."""
    order = np.lexsort((nodes.first_leaf, nodes.handles < 0, nodes.lengths))
    nodes = nodes[order]
    alike = (np.diff(nodes.lengths) == 0) & (np.diff(nodes.handles < 0) == 0)
    ends = [0, *(np.flatnonzero(~alike) + 1).tolist(), len(nodes)]
    return tuple(
        # The first level is the last to be done.
        _Due(nodes[slice(start, stop)], _NONE if start else parents)
        for start, stop in itertools.pairwise(ends)
    )


def _held(handles: Ints) -> int:
    """How many states are named."""
    return len(np.unique(handles[handles >= 0]))
