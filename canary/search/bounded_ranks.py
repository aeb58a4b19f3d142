"""Ranks of a model that gives bounds for the probabilities of some tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from canary.formats.format import Format
from canary.models.language_model import Context
from canary.scoring.batcher import Batcher
from canary.search.bounded import BoundedWalk
from canary.search.bounds import RankBounds
from canary.search.enumerate import leaf_bounds
from canary.search.ranking import leaf_numbers
from canary.statistics.units import LN2
from canary.tokens.candidates import CandidateEncoder
from canary.tokens.tree import TokenTree

__all__ = ["RanksBetween", "ranks_between"]


@dataclass(frozen=True, eq=False)
class RanksBetween:
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


def ranks_between(
    tree: TokenTree,
    batcher: Batcher,
    format: Format,
    encoder: CandidateEncoder,
    fills: Sequence[str],
    *,
    noise_bits: float,
    memory_bytes: int,
    budget: int,
) -> RanksBetween:
    """Certain bounds of the ranks of fills, by branch and bound.

    A fill of which every token was told has a cost, and is ranked: surely after the others
    that surely cost less, and surely before those that surely cost more. Of one with a
    token that was not told, only that it costs as much is known; it comes after all that
    surely cost less than that.

    Parameters
    ----------
    budget : int
        Queries that walk and fills' own paths may take; the paths are walked whatever it is.
    """
    numbers = leaf_numbers(tree, format, encoder, fills)
    with batcher.model.open(Context(tree.context), memory_bytes=memory_bytes) as walker:
        least, known, queries = leaf_bounds(tree, walker, batcher, numbers)
        possible = np.isfinite(least)
        walk = BoundedWalk(
            tree,
            walker,
            batcher,
            numbers=numbers[possible],
            costs=least[possible],
            noise_bits=noise_bits,
        )
        walk.run(budget=max(budget - queries, 0))
        found = walk.bounds()
    k = len(least)
    lower, rank = np.ones((2, k), np.int64)
    upper, exact = np.full(k, format.size), np.zeros(k, np.bool_)
    lower[possible], rank[possible] = found.lower, found.rank
    upper[possible], exact[possible] = np.minimum(found.upper, format.size), found.exact
    upper[~known], exact[~known] = format.size, False
    bounds = replace(
        found, lower=lower, rank=rank, upper=upper, exact=exact, queries=found.queries + queries
    )
    return RanksBetween(bounds, least / LN2, known)
