"""Ranks by branch and bound, also of a model that gives bounds for some tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from canary.scoring.batcher import Batcher
from canary.search.bounded import BoundedWalk
from canary.search.bounds import RankBounds, most_leaves
from canary.search.enumerate import leaf_bounds
from canary.search.pricing import Pricer
from canary.statistics.units import LN2


@dataclass(frozen=True, eq=False)
class BoundedRanks:
    """Bounds of ranks, and what is known of the canaries' costs.

    Parameters
    ----------
    bounds : RankBounds
    px_bits : float64 array of shape (k,)
        The least that each fill can cost.
    known : bool array of shape (k,)
        Whether it does cost that.
    """

    bounds: RankBounds
    px_bits: NDArray[np.float64]
    known: NDArray[np.bool_]


def rank_by_bounds(
    pricer: Pricer,
    batcher: Batcher,
    fills: Sequence[str],
    *,
    budget: int,
    wanted: NDArray[np.bool_] | None = None,
) -> BoundedRanks:
    """Exact ranks of fills by branch and bound, and bounds where the budget ends before.

    A fill of which every token was told has a cost, and is ranked: surely after the others
    that surely cost less, and surely before those that surely cost more. Of one with a
    token that was not told, only that it costs as much is known; it comes after all that
    surely cost less than that.

    Parameters
    ----------
    pricer : Pricer
        With a tree.
    budget : int
        Queries that walk and fills' own paths may take. The paths take at most one per
        token of each fill, and are walked whatever the budget.
    wanted : bool array of shape (k,), optional
        Fills worth the walk. The others get the bound that costs nothing: of all
        candidates, at most ``2**B`` can be as likely, B being the bits below the context.
    """
    tree, size = pricer.tree, pricer.format.size  # a tree may hold more leaves than fills
    assert tree is not None
    numbers = pricer.leaves(fills)
    least, known, queries = leaf_bounds(tree, pricer.walker, batcher, numbers)
    chosen = np.isfinite(least) if wanted is None else np.isfinite(least) & wanted
    walk = BoundedWalk(
        tree,
        pricer.walker,
        batcher,
        numbers=numbers[chosen],
        costs=least[chosen],
        noise_bits=pricer.noise_bits,
    )
    walk.run(budget=max(budget - queries, 0))
    found = walk.bounds()
    walk.close()
    upper = most_leaves(
        least / LN2 + pricer.noise_bits - pricer.context_bits,
        np.full(len(least), tree.size, tree.leaves.dtype),
        excess_bits=walk.excess_bits,
    )
    lower, rank = np.ones((2, len(least)), np.int64)
    exact = np.zeros(len(least), np.bool_)
    lower[chosen], rank[chosen] = found.lower, found.rank
    upper[chosen], exact[chosen] = found.upper, found.exact
    upper = np.minimum(upper, size)
    upper[~known], exact[~known] = size, False
    bounds = replace(
        found, lower=lower, rank=rank, upper=upper, exact=exact, queries=found.queries + queries
    )
    return BoundedRanks(bounds, least / LN2, known)
