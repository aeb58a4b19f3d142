"""Ranks from a sample of nodes: the more they promise, the more likely they are entered.

One walk down the tree, level by level. Among the children of a level it enters at most
`width`, each with a known chance, and a node stands for one over the chance of its path.
Every leaf below an entered node is counted with the weight of its node: the counts of the
leaves below any cost are unbiased, for all costs at once.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from canary.errors import InputError
from canary.models.base import Walker
from canary.scoring.batcher import Batcher
from canary.search.guide import Edges, Guide, guide_from
from canary.search.step import Frontier, Step, expand, joined, root_frontier
from canary.statistics.weighted import WeightedCount, count_variance
from canary.tokens.tree import TokenTree

__all__ = ["Sample", "importance_sample", "sample_nodes"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

_PILOT = 0.1  # of the width
_LEAST_PILOT = 64
# Parts of the width that are kept for uniform draws, and for draws from the model itself.
_UNIFORM, _MODEL = 0.1, 0.1
_NEXT = 30  # leaves beyond a limit whose weights tell what those below it may weigh
_CHILDREN_AT_ONCE = 2**22
_SLACK = 1e-3  # nats by which the probabilities below a node may exceed 1 in sum


@dataclass(frozen=True, eq=False)
class Sample:
    """Nodes that were entered, and the leaves right below them.

    Parameters
    ----------
    costs : float64 array of shape (m,)
        Of the leaves, ascending, in nats.
    numbers : int64 array of shape (m,)
        Their numbers in the tree.
    nodes : int64 array of shape (m,)
        The node right above each leaf.
    weights : float64 array of shape (n,)
        Of the nodes, the root first, level by level: one over the chance of being entered.
    parents : int64 array of shape (n,)
        The node above each; the root's is itself.
    levels : tuple of int
        Nodes of each level.
    passed_costs : float64 array of shape (p,)
        Of the nodes that were passed over, ascending, in nats.
    passed_leaves : int64 array of shape (p,)
        Leaves below them.
    ceiling : float
        Nats: dearer leaves and nodes were left out.
    queries : int
        Tokens computed below the context.
    """

    costs: Floats
    numbers: Ints
    nodes: Ints
    weights: Floats
    parents: Ints
    levels: tuple[int, ...]
    passed_costs: Floats
    passed_leaves: Ints
    ceiling: float
    queries: int

    def count(self, limit: float, *, but: int | None = None, ties: bool = True) -> WeightedCount:
        """How many leaves cost at most `limit` nats, not counting the leaf `but`.

        Without `ties` those that cost less. O(n + m + p).
        """
        assert limit <= self.ceiling
        side = "right" if ties else "left"
        found = int(np.searchsorted(self.costs, limit, side=side))
        here = np.ones(found, np.bool_) if but is None else self.numbers[:found] != but
        counts = np.bincount(self.nodes[:found][here], minlength=len(self.weights))
        near = self.nodes[: found + _NEXT]
        return WeightedCount(
            total=float(self.weights @ counts),
            variance=count_variance(counts, self.weights, self.parents, self.levels),
            found=int(here.sum()),
            heaviest=float(self.weights[near].max(initial=1.0)),
            unseen=self._unseen(limit),
        )

    def _unseen(self, limit: float) -> int:
        """At least as many leaves as may cost at most `limit` below nodes passed over.

        Each of them has a probability of at least ``exp(cost of the node - limit)`` below
        its node, and they sum to 1 there.
        """
        open_ = int(np.searchsorted(self.passed_costs, limit, side="right"))
        room = np.minimum(limit + _SLACK - self.passed_costs[:open_], 50.0)
        most = np.minimum(np.exp(room), self.passed_leaves[:open_].astype(np.float64))
        return int(min(np.floor(most).sum() * (1 + 1e-12), 2.0**62))


def importance_sample(
    tree: TokenTree,
    walker: Walker,
    batcher: Batcher,
    *,
    width: int,
    rng: np.random.Generator,
    ceiling: float = np.inf,
) -> Sample:
    """A uniform pilot of a tenth of the width, and the walk that it guides.

    The nodes of the pilot are not counted, so that the counts are unbiased whatever it
    found. `queries` are those of both.
    """
    pilot = max(_LEAST_PILOT, round(_PILOT * width))
    seen: list[Edges] = []
    first = sample_nodes(tree, walker, batcher, width=pilot, rng=rng, seen=seen)
    context = float(root_frontier(walker).costs[0])
    guide = guide_from(Edges.joined(seen), tree.size, context=context, ceiling=ceiling)
    return sample_nodes(
        tree,
        walker,
        batcher,
        width=max(width - pilot, 1),
        rng=rng,
        guide=guide,
        ceiling=ceiling,
        queries=first.queries,
    )


@dataclass(frozen=True, eq=False)
class _Children:
    """Children of a level that are no leaves, in the order of their parents."""

    costs: Floats
    leaves: Ints
    parents: Ints
    above: Floats
    log_model: Floats

    def __len__(self) -> int:
        return len(self.costs)


def sample_nodes(
    tree: TokenTree,
    walker: Walker,
    batcher: Batcher,
    *,
    width: int,
    rng: np.random.Generator,
    guide: Guide | None = None,
    ceiling: float = np.inf,
    seen: list[Edges] | None = None,
    queries: int = 0,
) -> Sample:
    """Walk down the tree, entering at most about `width` nodes of each level.

    Parameters
    ----------
    tree, walker, batcher
        As for `enumerate_leaves`.
    width : int
        Nodes of a level that are entered.
    rng : numpy.random.Generator
    guide : Guide, optional
        What a node is worth; the leaves below it unless given: then leaves are drawn
        uniformly.
    ceiling : float
        Nats: leaves and nodes that cost more are left out.
    seen : list, optional
        Collects the edges that were seen.
    queries : int
        Spent before, to be added.

    Notes
    -----
    With w the weight of the node above, a child is entered with the chance ::

        min(1, w * (s * worth + width * (0.1 leaves / size + 0.1 q)))

    where q is the probability of its path under the model, renormalised over the children
    in the tree, and s makes the chances of a level sum to the width. Divided by w this is
    the denominator of the balance heuristic [1]_, for draws without replacement: a
    node that all of them together would enter more than once is entered for certain. The
    scale s depends on the level's nodes only, so each weight has mean 1 given all above.
    It follows that a leaf of B bits below the context has a chance of at least
    ``min(1, 0.1 width (2**-B + 1 / size))``, and that all of up to log2(0.1 width) bits
    are found. Draws within a level are systematic [2]_, in the order of the tree.

    References
    ----------
    .. [1] Veach and Guibas, Optimally combining sampling techniques for Monte Carlo
       rendering, SIGGRAPH 1995.
    .. [2] Fearnhead and Clifford, On-line inference for hidden Markov models via particle
       filters, Journal of the Royal Statistical Society B 65, 2003, section 3.
    """
    if width < 1:
        raise InputError(f"width={width}, at least 1 was expected", cure="give a larger width")
    frontier, weights, log_model = root_frontier(walker), np.ones(1), np.zeros(1)
    all_weights, all_parents, levels = [weights], [np.zeros(1, np.int64)], [1]
    found: list[tuple[Floats, Ints, Ints]] = []
    passed: list[tuple[Floats, Ints]] = []
    held = np.zeros(0, np.int64)
    first = 0  # nodes above the present level
    while len(frontier):
        steps, parts, offset = [], [], 0
        while offset < len(frontier):
            here = slice(offset, offset + batcher.node_batch(walker))
            step = expand(batcher, walker, tree, frontier[here])
            queries += step.queries
            found.append(_leaves_of(step, first + offset, ceiling))
            which, children = _children_of(step, weights[here], log_model[here], offset, ceiling)
            parts.append(children)
            steps.append((step, which))
            if seen is not None:
                seen.append(_edges_of(step, weights[here]))
            offset = min(here.stop, len(frontier))
        walker.release(held)
        children = _joined(parts)
        if not len(children):
            walker.release(np.concatenate([step.handles for step, _ in steps]))
            break
        most = max(1, min(width, _CHILDREN_AT_ONCE // _widest(tree)))
        chances = _chances(children, most, tree.size, guide)
        entered = _systematic(chances, rng)
        mask = np.zeros(len(children), np.bool_)
        mask[entered] = True
        passed.append((children.costs[~mask], children.leaves[~mask]))

        ends = np.cumsum([len(which) for _, which in steps])
        frontiers, kept = [], []
        for (step, which), end in zip(steps, ends, strict=True):
            mine = which[mask[end - len(which) : end]]
            on = np.zeros(len(step.handles), np.bool_)
            on[step.parents[mine]] = True
            walker.release(step.handles[~on])
            kept.append(step.handles[on])
            if len(mine):
                frontiers.append(step.open_nodes(mine))
        held = np.concatenate(kept)
        first += len(frontier)
        frontier = joined(frontiers)
        weights = children.above[entered] / chances[entered]
        log_model = children.log_model[entered]
        all_weights.append(weights)
        all_parents.append(children.parents[entered] + first - levels[-1])
        levels.append(len(weights))
    costs, numbers, nodes = (np.concatenate(values) for values in zip(*found, strict=True))
    order = np.argsort(costs, kind="stable")
    passed_costs = np.concatenate([np.zeros(0), *(costs for costs, _ in passed)])
    passed_leaves = np.concatenate([np.zeros(0, np.int64), *(leaves for _, leaves in passed)])
    passed_order = np.argsort(passed_costs)
    return Sample(
        costs=costs[order],
        numbers=numbers[order],
        nodes=nodes[order],
        weights=np.concatenate(all_weights),
        parents=np.concatenate(all_parents),
        levels=tuple(levels),
        passed_costs=passed_costs[passed_order],
        passed_leaves=passed_leaves[passed_order],
        ceiling=ceiling,
        queries=queries,
    )


def _leaves_of(step: Step, first: int, ceiling: float) -> tuple[Floats, Ints, Ints]:
    """Costs, numbers and nodes of the leaves of a step that are not too dear."""
    which = np.flatnonzero(step.leaves & (step.costs <= ceiling) & np.isfinite(step.costs))
    return step.costs[which], step.first_leaf[which], first + step.parents[which]


def _children_of(
    step: Step, weights: Floats, log_model: Floats, offset: int, ceiling: float
) -> tuple[Ints, _Children]:
    """The children of a step that may be entered, and where they stand in it."""
    starts = np.flatnonzero(np.diff(step.parents, prepend=-1))
    cheapest = np.minimum.reduceat(step.costs, starts)
    with np.errstate(invalid="ignore", divide="ignore"):
        shares = np.exp(cheapest[step.parents] - step.costs)
        log_shares = np.log(shares) - np.log(np.add.reduceat(shares, starts))[step.parents]
    which = np.flatnonzero(~step.leaves & (step.costs <= ceiling) & np.isfinite(step.costs))
    parents = step.parents[which]
    below = step.tree.leaves[step.tree.targets[step.edges[which]]]
    return which, _Children(
        costs=step.costs[which],
        leaves=below,
        parents=offset + parents,
        above=weights[parents],
        log_model=log_model[parents] + log_shares[which],
    )


def _joined(parts: list[_Children]) -> _Children:
    names = _Children.__dataclass_fields__
    return _Children(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


def _edges_of(step: Step, weights: Floats) -> Edges:
    frontier, tree = step.frontier, step.tree
    targets = tree.targets[step.edges]
    return Edges(
        above=tree.leaves[frontier.states][step.parents],
        below=np.where(step.leaves, 0, tree.leaves[targets]),
        nats=step.costs - frontier.costs[step.parents],
        weights=weights[step.parents],
    )


def _widest(tree: TokenTree) -> int:
    return int(tree.degrees.max(initial=1))


def _chances(children: _Children, width: int, size: int, guide: Guide | None) -> Floats:
    """The chance of each child to be entered, `width` in sum unless there are fewer."""
    if len(children) <= width:
        return np.ones(len(children))
    if guide is None:
        log_worth = np.log(children.leaves)
    else:
        log_worth = guide.log_worth(children.costs, children.leaves)
    log_worth = log_worth + np.log(children.above)
    worth = np.exp(log_worth - log_worth.max())
    floor = _UNIFORM * width / size * children.leaves + _MODEL * width * np.exp(children.log_model)
    floor = np.minimum(children.above * floor, 1.0)
    # Chances that reach 1 are set to it, and the others share what is left of the width.
    certain = floor >= 1.0
    while True:
        left = width - np.count_nonzero(certain) - float(floor[~certain].sum())
        whole = float(worth[~certain].sum())
        scale = left / whole if left > 0.0 and whole > 0.0 else 0.0
        more = ~certain & (scale * worth + floor >= 1.0)
        if not more.any():
            return np.where(certain, 1.0, scale * worth + floor)
        certain |= more


def _systematic(chances: Floats, rng: np.random.Generator) -> Ints:
    """Positions drawn with these chances: the certain ones, and evenly spaced others."""
    certain = chances >= 1.0
    ends = np.cumsum(np.where(certain, 0.0, chances)) + rng.random()
    drawn = np.diff(np.floor(ends), prepend=np.floor(ends[0] - chances[0] * (not certain[0]))) > 0
    entered: Ints = np.flatnonzero(certain | drawn)
    return entered
