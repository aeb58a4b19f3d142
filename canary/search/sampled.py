"""Canaries ranked by importance draws: all of a format from one sample."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from canary.models.language_model import Walker
from canary.records.validation import whole_number
from canary.scoring.batcher import Batcher
from canary.search.enumerate import leaf_costs
from canary.search.node_sample import NodeSample
from canary.search.node_sampling import importance_sample
from canary.search.step import context_nats
from canary.statistics.importance import RankCount
from canary.statistics.units import LN2
from canary.tokens.tree import TokenTree

__all__ = ["SampledRanks", "rank_by_importance"]

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
    width : int
        Nodes that the last sample may enter per level, its pilot's included.
    queries : int
        Tokens computed below the context, in all samples.
    """

    costs_bits: Floats
    counts: tuple[RankCount, ...]
    width: int
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
    narrow_bits: float | None = None,
    budget: int | None = None,
    seconds: float | None = None,
    confidence: float = 0.95,
) -> SampledRanks:
    """Rank leaves by one importance sample, or by ever larger ones.

    Parameters
    ----------
    tree, walker, batcher
        As for `enumerate_leaves`.
    numbers : int64 array of shape (k,)
        The canaries, by the numbers of their leaves.
    width : int
        Nodes that the first sample enters per level, its pilot's included.
    rng : numpy.random.Generator
    noise_bits : float
        Costs closer than this are ties of unknown order.
    narrow_bits : float, optional
        Draw samples of twice the width until no interval of an exposure is wider than
        this. One sample is drawn unless given.
    budget : int, optional
        Queries that canaries and all samples together may take; the canaries' own paths, and
        one node of each level, are walked whatever it is. A larger sample is drawn only if
        it is expected to fit.
    seconds : float, optional
        No larger sample is begun after so long.
    confidence : float
        Of the intervals.

    Raises
    ------
    KeyboardInterrupt
        In the first sample. After it, an interruption ends the search, and the last whole
        sample counts.

    Notes
    -----
    All leaves of canaries are left out of the weighted counts, and the canaries no dearer
    than one are counted exactly: so one that was found by luck weighs no more than it is.

    Only the last sample counts. Those before decide how wide it is, not what is in it.
    """
    width = whole_number(width, "width", at_least=1)
    began = time.monotonic()
    costs, queries = leaf_costs(tree, walker, batcher, numbers)
    noise = noise_bits * LN2
    ceiling = float(costs.max(initial=context_nats(walker))) + noise
    found = None
    while True:
        try:
            sample = importance_sample(
                tree,
                walker,
                batcher,
                width=width,
                rng=rng,
                ceiling=ceiling,
                budget=None if budget is None else budget - queries,
            )
        except KeyboardInterrupt:
            if found is None:
                raise
            break
        queries += sample.queries
        counts = tuple(
            _count(sample, at, numbers=numbers, costs=costs, noise=noise)
            for at in range(len(numbers))
        )
        found = SampledRanks(costs / LN2, counts, width, queries)
        widest = max((count.width_bits(confidence) for count in counts), default=0.0)
        if narrow_bits is None or widest <= narrow_bits:
            break
        if budget is not None and queries + 2 * sample.queries > budget:
            break
        if seconds is not None and time.monotonic() - began >= seconds:
            break
        width *= 2
    return found


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
