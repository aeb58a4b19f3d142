"""Ranks from a sample of nodes: the more they promise, the more likely they are entered.

One walk down the tree, level by level. Among the children of a level it enters at most
`width`, each with a known chance, and a node stands for one over the chance of its path.
Every leaf below an entered node is counted with the weight of its node: the counts of the
leaves below any cost are unbiased, for all costs at once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from canary.models.language_model import Nodes, Walker, most_queries
from canary.records.validation import whole_number
from canary.scoring.batcher import Batcher
from canary.search.node_sample import UNIFORM, Edges, Guide, NodeSample, guide_from
from canary.search.rank_counter import tokens_below
from canary.search.step import (
    MOST_CHILDREN,
    Frontier,
    Step,
    context_nats,
    expand_all,
    joined,
    root_frontier,
)
from canary.tokens.arrays import TokenTree

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

_PILOT = 0.1  # of the width
_LEAST_PILOT = 64
_MODEL = 0.1  # of the width, for draws from the model itself; as much as for uniform ones
_KEPT_CHILDREN = 4 * MOST_CHILDREN  # those of a level stay until it is drawn from


def importance_sample(
    tree: TokenTree,
    walker: Walker,
    batcher: Batcher,
    *,
    width: int,
    rng: np.random.Generator,
    ceiling: float = np.inf,
    budget: int | None = None,
) -> NodeSample:
    """A uniform pilot of a tenth of the width, and the walk that it guides.

    Both together enter at most `width` nodes of a level, or 2, and take at most `budget`
    queries, as `sample_nodes` says. Counts are to be made up to about the cost `ceiling`, in
    nats: beyond it they are unbiased too, but vary more. The nodes of the pilot are not counted,
    so that the counts are unbiased whatever it found. `queries` are those of both.
    """
    pilot = min(max(_LEAST_PILOT, round(_PILOT * width)), max(width // 2, 1))
    seen: list[Edges] = []
    share = None if budget is None else budget * pilot // width
    first = sample_nodes(tree, walker, batcher, width=pilot, rng=rng, seen=seen, budget=share)
    edges = Edges(*map(np.concatenate, zip(*seen, strict=True)))
    guide = guide_from(edges, tree.size, context=context_nats(walker), ceiling=ceiling)
    rest = None if budget is None else budget - first.queries
    sample = sample_nodes(
        tree, walker, batcher, width=max(width - pilot, 1), rng=rng, guide=guide, budget=rest
    )
    return replace(sample, queries=first.queries + sample.queries)


@dataclass(frozen=True, eq=False)
class _Level:
    """Nodes of one level that were entered; `first` is the number of nodes above them."""

    frontier: Frontier
    weights: Floats
    log_model: Floats
    first: int


class _Children(NamedTuple):
    """Children of a level that may be entered, in the order of their parents.

    `parents` are positions in the level, `places` positions among all children of all its
    steps, `above` the weights of the parents.
    """

    costs: Floats
    leaves: Ints
    edges: Ints
    parents: Ints
    places: Ints
    above: Floats
    log_model: Floats


def sample_nodes(
    tree: TokenTree,
    walker: Walker,
    batcher: Batcher,
    *,
    width: int,
    rng: np.random.Generator,
    guide: Guide | None = None,
    seen: list[Edges] | None = None,
    budget: int | None = None,
) -> NodeSample:
    """Walk down the tree, entering at most about `width` nodes of each level.

    Parameters
    ----------
    tree, walker, batcher
        As for `canary.search.enumerate.enumerate_leaves`.
    width : int
    rng : numpy.random.Generator
    guide : Guide, optional
        What a node is worth; the leaves below it unless given: then leaves are drawn
        uniformly.
    seen : list, optional
        Collects the edges that were seen.
    budget : int, optional
        Queries that may be taken: fewer nodes of a level are entered where states that found
        no room must be computed again. One of each level is entered whatever the budget.

    Notes
    -----
    With w the weight of the node above, a child is entered with the chance ::

        min(1, w * (s * worth + width * (0.1 leaves / size + 0.1 q)))

    where q is the probability of its path under the model, renormalised over the children
    in the tree, and s makes the chances of a level sum to the width. Divided by w this is
    the denominator of the balance heuristic (Veach and Guibas, Optimally combining sampling
    techniques for Monte Carlo rendering, SIGGRAPH 1995), for draws without replacement: a
    node that all of them together would enter more than once is entered for certain. The
    scale s depends on the level's nodes only, so each weight has mean 1 given all above.
    It follows that a leaf of B bits below the context has a chance of at least
    ``min(1, 0.1 width (2**-B + 1 / size))``, and that all of up to log2(0.1 width) bits
    are found, with the width of the narrowest level. How narrow a level is made by the
    budget depends on what the nodes above cost, not on what is drawn, and biases nothing.
    """
    width = whole_number(width, "width", at_least=1)
    level = _Level(root_frontier(batcher, walker, tree), np.ones(1), np.zeros(1), 0)
    all_weights, all_parents, levels = [level.weights], [np.zeros(1, np.int64)], [1]
    found: list[tuple[Floats, Ints, Ints]] = []
    passed: list[tuple[Floats, Ints]] = []
    held = np.zeros(0, np.int64)
    most = max(1, min(width, _KEPT_CHILDREN // int(tree.degrees.max(initial=1))))
    queries, promised, longest = 0, 0, tokens_below(tree)
    while True:
        steps = list(expand_all(batcher, walker, tree, level.frontier))
        walker.release(held)
        parts, first = [], 0
        for offset, step in steps:
            queries += step.queries
            leaves = np.flatnonzero(step.leaves & np.isfinite(step.costs))
            leaves = leaves[step.canonical(leaves)]
            nodes = level.first + offset + step.parents[leaves]
            found.append((step.costs[leaves], step.first_leaf[leaves], nodes))
            if seen is not None:
                seen.append(_edges_of(step, level.weights[offset:]))
            parts.append(_children_of(step, level, offset, first))
            first += len(step.edges)
        children = _Children(*map(np.concatenate, zip(*parts, strict=True)))
        wide, prices = most, np.zeros(len(children.costs), np.int64)
        if budget is not None and len(prices):
            handles = np.concatenate([step.handles for _, step in steps])
            prices, lengths = _prices(children, level, handles, tree, walker)
            ahead = longest - 1 - int(lengths.min())
            wide = min(most, _fitting(prices, lengths, ahead, walker.room, budget - promised))
        chances = _chances(children, wide, tree.size, guide)
        drawn = systematic(chances, rng)
        entered, over = np.flatnonzero(drawn), np.flatnonzero(~drawn)
        promised += int(prices[entered].sum())
        passed.append((children.costs[over], children.leaves[over]))
        frontier, held = _enter(steps, children.places[entered], walker)
        if frontier is None:
            break
        weights = children.above[entered] / chances[entered]
        all_weights.append(weights)
        all_parents.append(level.first + children.parents[entered])
        levels.append(len(weights))
        above = level.first + len(level.frontier)
        level = _Level(frontier, weights, children.log_model[entered], above)
    costs, numbers, leaf_nodes = map(np.concatenate, zip(*found, strict=True))
    order = np.argsort(costs, kind="stable")
    passed_costs, passed_leaves = map(np.concatenate, zip(*passed, strict=True))
    passed_order = np.argsort(passed_costs)
    return NodeSample(
        costs=costs[order],
        numbers=numbers[order],
        nodes=leaf_nodes[order],
        weights=np.concatenate(all_weights),
        parents=np.concatenate(all_parents),
        levels=tuple(levels),
        passed_costs=passed_costs[passed_order],
        passed_leaves=passed_leaves[passed_order],
        excess_bits=batcher.model.facts.excess_bits(longest),
        queries=queries,
    )


def _edges_of(step: Step, weights: Floats) -> Edges:
    frontier, tree = step.frontier, step.tree
    leaves = tree.leaves.astype(np.float64)
    return Edges(
        above=leaves[frontier.states][step.parents],
        below=np.where(step.leaves, 0.0, leaves[tree.targets[step.edges]]),
        nats=step.costs - frontier.costs[step.parents],
        weights=weights[step.parents],
    )


def _children_of(step: Step, level: _Level, offset: int, first: int) -> _Children:
    """The children of a step that may be entered: neither leaves nor impossible."""
    starts = np.flatnonzero(np.diff(step.parents, prepend=-1))
    cheapest = np.minimum.reduceat(step.costs, starts)
    with np.errstate(invalid="ignore", divide="ignore"):
        shares = np.exp(cheapest[step.parents] - step.costs)
        log_shares = np.log(shares) - np.log(np.add.reduceat(shares, starts))[step.parents]
    places = np.flatnonzero(~step.leaves & np.isfinite(step.costs))
    parents, edges = offset + step.parents[places], step.edges[places]
    return _Children(
        costs=step.costs[places],
        leaves=step.tree.leaves[step.tree.targets[edges]],
        edges=edges,
        parents=parents,
        places=first + places,
        above=level.weights[parents],
        log_model=level.log_model[parents] + log_shares[places],
    )


def _prices(
    children: _Children, level: _Level, handles: Ints, tree: TokenTree, walker: Walker
) -> tuple[Ints, Ints]:
    """Queries that each child costs at most where it is entered, and tokens of its path."""
    above = level.frontier.lengths[children.parents]
    held = np.where(handles[children.parents] >= 0, above, 0)  # of the parent, or none
    lengths = above + 1 + np.diff(tree.forced_offsets)[children.edges]
    degrees = tree.degrees[tree.targets[children.edges]]
    # Few kinds of nodes differ in what they cost; which tokens they hold does not matter.
    sizes = [int(values.max(initial=0)) + 1 for values in (lengths, above, held, degrees)]
    keys = np.ravel_multi_index((lengths, above, held, degrees), sizes)
    _, first, kind = np.unique(keys, return_index=True, return_inverse=True)
    nodes = Nodes(
        paths=np.zeros((len(first), sizes[0] - 1), np.int32),
        lengths=lengths[first],
        priced=above[first] + 1,
        handles=np.full(len(first), -1, np.int64),
    )
    return most_queries(walker, nodes, held[first], degrees[first])[kind], lengths


def _fitting(prices: Ints, lengths: Ints, ahead: int, room: int, left: int) -> int:
    """How many children fit into the queries that are left, whichever of them are drawn.

    Below each entered node another one is entered for each of the tokens `ahead`. It costs a
    query while there is room for the state above it, and its whole path beyond.
    """
    count = np.arange(1, len(prices) + 1)
    longest = int(lengths.max())
    factor = float((prices / lengths).max())
    beyond = np.maximum(count - (room if factor <= 1.0 else 0), 0)
    again = max(factor, 1.0) * (longest * ahead + ahead * (ahead + 1) / 2) - ahead
    spent = np.cumsum(np.sort(prices)[::-1]) + count * ahead + beyond * again
    return max(1, int(np.searchsorted(spent, left, side="right")))


def _enter(
    steps: list[tuple[int, Step]], places: Ints, walker: Walker
) -> tuple[Frontier | None, Ints]:
    """The open nodes at some places among the children of all steps, and held handles.

    States that none of them stands on are released.
    """
    frontiers, kept, first = [], [], 0
    for _, step in steps:
        last = first + len(step.edges)
        low, high = np.searchsorted(places, [first, last])
        mine, first = places[low:high] - first, last
        needed = np.zeros(len(step.handles), np.bool_)
        needed[step.parents[mine]] = True
        walker.release(step.handles[~needed])
        kept.append(step.handles[needed])
        if len(mine):
            frontiers.append(step.open_nodes(mine))
    return joined(frontiers) if frontiers else None, np.concatenate(kept)


def _chances(children: _Children, width: int, size: int, guide: Guide | None) -> Floats:
    """The chance of each child to be entered, `width` in sum if there are more."""
    count = len(children.costs)
    if count <= width:
        return np.ones(count)
    leaves = children.leaves.astype(np.float64)
    log_worth = np.log(leaves) if guide is None else guide.log_worth(children.costs, leaves)
    log_worth = log_worth + np.log(children.above)
    floor = UNIFORM * width / size * leaves + _MODEL * width * np.exp(children.log_model)
    floor = np.minimum(children.above * floor, 1.0)
    # Chances that reach 1 are set to it, and the others share what is left of the width.
    certain = floor >= 1.0
    while True:
        left = width - np.count_nonzero(certain) - float(floor[~certain].sum())
        # Worths of those that are left alone: beside certain ones they may be too small to tell.
        best = log_worth[~certain].max(initial=-np.inf)
        worth = np.zeros(count)
        if np.isfinite(best):
            worth[~certain] = np.exp(log_worth[~certain] - best)
        scale = left / float(worth.sum()) if left > 0.0 and np.isfinite(best) else 0.0
        more = ~certain & (scale * worth + floor >= 1.0)
        if not more.any():
            return np.where(certain, 1.0, scale * worth + floor)
        certain |= more


def systematic(chances: Floats, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Which are drawn with these chances: the certain ones, and some of the others.

    The others are put in random order on a line, each as long as its chance, and those are
    drawn that hold the points of an evenly spaced grid (Fearnhead and Clifford, Journal of the
    Royal Statistical Society B 65, 2003, section 3). In the order of the tree, leaves that are
    alike can fall into step with the grid, and counts then vary more than those of independent
    draws.
    """
    drawn = chances >= 1.0
    others = rng.permutation(np.flatnonzero(~drawn))
    ends = np.cumsum(chances[others]) + rng.random()
    before = np.floor(ends[:1] - chances[others[:1]])
    drawn[others[np.diff(np.floor(ends), prepend=before) > 0]] = True
    return drawn
