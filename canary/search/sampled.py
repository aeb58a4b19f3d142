"""Canaries ranked by importance draws: all of a format from one sample."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from canary.models.language_model import Walker
from canary.scoring.batcher import Batcher
from canary.search.enumerate import leaf_costs
from canary.search.node_sample import NodeSample
from canary.search.node_sampling import importance_sample
from canary.search.step import context_nats
from canary.statistics.importance import RankCount
from canary.statistics.units import LN2
from canary.tokens.tree import TokenTree

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class SampledRanks:
    """What importance draws tell of some leaves.

    Parameters
    ----------
    costs_bits : float64 array of shape (k,)
        Log-perplexity of each, read off the walk along its path.
    counts : tuple of RankCount
        In the same order.
    queries : int
        Tokens computed below the context.
    """

    costs_bits: Floats
    counts: tuple[RankCount, ...]
    queries: int


def rank_by_importance(
    tree: TokenTree,
    walker: Walker,
    batcher: Batcher,
    numbers: Ints,
    *,
    width: int,
    rng: np.random.Generator,
    noise_bits: float,
    budget: int | None = None,
) -> SampledRanks:
    """Rank leaves by one importance sample.

    Parameters
    ----------
    tree, walker, batcher
        As for `enumerate_leaves`.
    numbers : int64 array of shape (k,)
        The canaries, by the numbers of their leaves.
    width : int
        Nodes that the sample enters per level, its pilot's included.
    rng : numpy.random.Generator
    noise_bits : float
        Costs closer than this are ties of unknown order.
    budget : int, optional
        Queries that canaries and sample together may take; the canaries' own paths, and
        one node of each level, are walked whatever it is.

    Notes
    -----
    All leaves of canaries are left out of the weighted counts, and the canaries no dearer
    than one are counted exactly: so one that was found by luck weighs no more than it is.
    """
    costs, queries = leaf_costs(tree, walker, batcher, numbers)
    noise = noise_bits * LN2
    sample = importance_sample(
        tree,
        walker,
        batcher,
        width=width,
        rng=rng,
        ceiling=float(costs.max(initial=context_nats(walker))) + noise,
        budget=None if budget is None else budget - queries,
    )
    counts = tuple(
        _count(sample, at, numbers=numbers, costs=costs, noise=noise) for at in range(len(numbers))
    )
    return SampledRanks(costs / LN2, counts, queries + sample.queries)


def _count(sample: NodeSample, at: int, *, numbers: Ints, costs: Floats, noise: float) -> RankCount:
    """The rank of one canary: those known are counted, the others estimated."""
    own = float(costs[at])
    # The same leaf given twice is one candidate.
    different = np.unique(numbers, return_index=True)[1]
    others = costs[different[numbers[different] != numbers[at]]]
    point = sample.count(own, known=numbers)
    if noise > 0.0:
        below = sample.count(own - noise, known=numbers, ties=False)
        up_to = sample.count(own + noise, known=numbers)
    else:
        below = up_to = point
    return RankCount(
        point=point,
        below=below,
        up_to=up_to,
        known=1 + int((others <= own).sum()),
        known_below=1 + int((others < own - noise if noise > 0.0 else others <= own).sum()),
        known_up_to=1 + int((others <= own + noise).sum()),
    )
