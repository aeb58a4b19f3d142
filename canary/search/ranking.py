"""Canaries ranked among all candidates, by bounds, or beside draws of their format."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from canary.errors import RequestsSpentError
from canary.records import clocks
from canary.records.shards import Pace, Series
from canary.scoring.batcher import Batcher
from canary.scoring.served_requests import asking
from canary.search.bounded import BoundedWalk
from canary.search.enumerate import enumerate_leaves, leaf_costs
from canary.search.node_sampling import importance_sample
from canary.search.pricing import FILLS_AT_ONCE, FLOATS, Priced, Pricer, resumed
from canary.search.rank_counter import Census, CensusResult, RankBounds, most_leaves
from canary.statistics.importance import RankCount
from canary.statistics.number_checks import LN2

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

_BATCHES_PER_RANGE = 256
"""Full batches of leaves, about, between two places where a walk of fixed batches is cut: small
batches at the ends of a range cost some percent, and a kill costs one range at most."""


@dataclass(frozen=True, eq=False)
class Ranking:
    """What enumeration gives; `queries` are tokens computed below the context."""

    canaries: Priced
    census: CensusResult
    queries: int


def rank_all(
    pricer: Pricer,
    batcher: Batcher,
    fills: Sequence[str],
    *,
    keep: Ints | None = None,
    shards: Series | None = None,
) -> Ranking:
    """Rank fills among all candidates; `keep` the costs of fills, given by index.

    Along the tree of the pricer this costs `tree.queries()` queries and at most one per token
    of each canary; without a tree one per candidate and token after the context. Memory does
    not grow with the space.

    Counts over ranges side by side add up, so a range is finished for good. With `shards`, its
    end, counts, histogram and kept costs are there, and it is not priced again; of a tree, each
    range costs the few nodes above its ends once more. How many candidates a range holds depends
    on time, but not where it may end. What a batch holds decides how its numbers are rounded:
    with a fixed batch size they are the same to the bit in each run, stopped or not.

    Raises
    ------
    ModelError
        As `Pricer.canaries`.
    """
    tree, format = pricer.tree, pricer.format
    canaries, queries = pricer.canaries(batcher, fills)
    if tree is None:
        index = np.array([format.index(fill) for fill in fills], np.int64)
        size, grain = format.size, FILLS_AT_ONCE
    else:
        index = pricer.leaves(fills)
        size, grain = tree.size, (batcher.batch_size or 0) * _BATCHES_PER_RANGE
        if keep is not None:
            keep = pricer.leaves(format.automaton.unrank_many(keep.tolist()))
    if shards is not None:
        canaries, queries = resumed(canaries, queries, shards, noise_bits=pricer.noise_bits)
    census = Census(canaries.px_bits, index, noise_bits=pricer.noise_bits, keep=keep)

    def counted(census: Census, start: int, stop: int) -> int:
        """Price a range, in parts that end at multiples of the grain; the queries that it took."""
        with asking(pricer.model, "all candidates"):
            return walked(census, start, stop)

    def walked(census: Census, start: int, stop: int) -> int:
        queries = 0
        while start < stop:
            end = min((start // (grain or size) + 1) * (grain or size), stop)
            if tree is None:
                numbers = np.arange(start, end)
                priced, queries_of_rows = pricer.price(batcher, list(islice(format, start, end)))
                census.add(priced.px_bits, (start, end), numbers.copy)
                queries += queries_of_rows
            else:
                walk = enumerate_leaves(tree, pricer.walker, batcher, start=start, stop=end)
                for leaves, spent in walk:
                    census.add(leaves.costs / LN2, leaves.bounds(), leaves.index)
                    queries += spent
            start = end
        return queries

    if shards is None:
        queries += counted(census, 0, size)
        return Ranking(canaries, census.result(), queries)
    each, done, pace = grain or 1, 0, Pace()
    for number in range(1, len(shards)):
        shard = shards[number]
        census.merge(json.loads(shard.body))
        done, queries = shard.state["stop"], queries + shard.state["queries"]
    while done < size:
        stop = min(max((done + pace.items) // each, done // each + 1) * each, size)
        part, began = census.part(), clocks.seconds()
        spent = counted(part, done, stop)
        seconds = clocks.seconds() - began
        piece = part.to_dict()
        state = {
            "start": done,
            "stop": stop,
            "share": (stop - done) / size,
            "queries": spent,
            "seconds": seconds,
        }
        shards.append(state, json.dumps(piece).encode())
        census.merge(piece)
        pace.observe(stop - done, seconds)
        done, queries = stop, queries + spent
    return Ranking(canaries, census.result(), queries)


@dataclass(frozen=True, eq=False)
class Draws:
    """What uniform draws give: their Px in bits, shape (n,), beside the canaries'.

    `others` is bool of shape (n,): which draws are not canaries themselves.
    """

    canaries: Priced
    px_bits: Floats
    others: Flags
    queries: int


def draw(
    pricer: Pricer,
    batcher: Batcher,
    fills: Sequence[str],
    *,
    count: int,
    rng: np.random.Generator,
    shards: Series | None = None,
) -> Draws:
    """Price fills, and `count` fills drawn uniformly without replacement beside them.

    Costs one query per inner node of the tree above them; without a tree, which works with any
    tokenizer, one per candidate and token after the context. With `shards`, the costs of
    finished blocks of draws are kept there and not computed again.
    """
    canaries, queries = pricer.canaries(batcher, fills)
    drawn = pricer.format.sample(min(count, pricer.format.size), rng=rng)
    if pricer.tree is not None:
        drawn.sort()  # those that begin alike share a block
    if shards is not None:
        canaries, queries = resumed(canaries, queries, shards, noise_bits=pricer.noise_bits)
    # A canary that was drawn has its price already. The prices of the others are kept in
    # ascending order: in the order of the draws, which the seed gives, they would say
    # which draw is the canary.
    own = dict(zip(fills, canaries.px_bits.tolist(), strict=True))
    parts: list[Floats] = []
    for first in range(0, len(drawn), FILLS_AT_ONCE):
        block = drawn[first : first + FILLS_AT_ONCE]
        number = 1 + len(parts)
        if shards is not None and number < len(shards):
            shard = shards[number]
            px, spent = np.frombuffer(shard.body, FLOATS), shard.state["queries"]
        else:
            began = time.perf_counter()
            with asking(pricer.model, "draws"):
                priced, spent = pricer.price(batcher, block)
            px = np.sort(priced.px_bits[[fill not in own for fill in block]])
            if shards is not None:
                seconds = time.perf_counter() - began
                share = len(block) / len(drawn)
                state = {"share": share, "queries": spent, "seconds": seconds}
                shards.append(state, px.astype(FLOATS).tobytes())
        parts.append(px)
        queries += spent
    mine = np.array([own[fill] for fill in drawn if fill in own])
    px = np.concatenate([*parts, mine])
    return Draws(canaries, px, np.arange(len(px)) < len(px) - len(mine), queries)


@dataclass(frozen=True, eq=False)
class BoundedRanks:
    """Bounds of ranks, the least that each fill can cost, and whether it is known to cost that.

    Arrays have shape (k,). `ended` is what ended the search before its end: ``"budget"``,
    ``"requests"`` (a server may be sent no more) or nothing. `likely` are candidates that the
    search met, and their probabilities after the context, from a given share on.
    """

    bounds: RankBounds
    px_bits: Floats
    known: Flags
    ended: str = ""
    likely: Mapping[str, float] = field(default_factory=dict, repr=False)


def rank_by_bounds(
    pricer: Pricer,
    batcher: Batcher,
    fills: Sequence[str],
    *,
    budget: int,
    wanted: Flags | None = None,
    share: float = 1.0,
) -> BoundedRanks:
    """Exact ranks of fills by branch and bound, and bounds where the budget ends before.

    A fill of which the model gives every token a probability has a cost, and is ranked: surely
    after the others that surely cost less, and surely before those that surely cost more. Of
    one of which it gives bounds, only that it costs as much is known; it comes after all that
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
    share : float
        The least probability of candidates in `BoundedRanks.likely`.

    Notes
    -----
    What is certain when a server may be sent no more requests is given, too.
    """
    tree, size = pricer.tree, pricer.format.size  # a tree may hold more leaves than fills
    assert tree is not None
    numbers = pricer.leaves(fills)
    ended = ""
    try:
        least, known, queries = leaf_costs(tree, pricer.walker, batcher, numbers, bounds=True)
    except RequestsSpentError as spent:
        least = np.full(len(numbers), pricer.context_bits * LN2)
        known, queries, ended = np.zeros(len(numbers), np.bool_), 0, spent.stopped
        wanted = known
    chosen = np.isfinite(least) if wanted is None else np.isfinite(least) & wanted
    walk = BoundedWalk(
        tree,
        pricer.walker,
        batcher,
        numbers=numbers[chosen],
        costs=least[chosen],
        noise_bits=pricer.noise_bits,
    )
    walk.likely_bits = pricer.context_bits - math.log2(share)
    try:
        if not walk.run(budget=max(budget - queries, 0)):
            ended = "budget"
    except RequestsSpentError as spent:
        ended = spent.stopped
    walked = walk.bounds()
    walk.close()
    upper = most_leaves(
        least / LN2 + pricer.noise_bits - pricer.context_bits,
        np.full(len(least), tree.size, tree.leaves.dtype),
        excess_bits=walk.excess_bits,
    )
    lower, rank = np.ones((2, len(least)), np.int64)
    exact = np.zeros(len(least), np.bool_)
    lower[chosen], rank[chosen] = walked.lower, walked.rank
    upper[chosen], exact[chosen] = walked.upper, walked.exact
    upper = np.minimum(upper, size)
    upper[~known], exact[~known] = size, False
    queries += walked.queries
    bounds = RankBounds(lower, upper, rank, exact, walked.candidates, queries)
    met = zip(tree.fills(np.array([*walk.likely], np.int64)), walk.likely.values(), strict=True)
    likely = {f: 2.0 ** (pricer.context_bits - bits) for f, bits in met if f is not None}
    return BoundedRanks(bounds, least / LN2, known, ended, likely)


@dataclass(frozen=True, eq=False)
class SampledRanks:
    """What importance draws tell of some fills, in their order.

    Parameters
    ----------
    costs_bits : float64 array of shape (k,)
        Log-perplexity of each, read off the walk along its path.
    counts : tuple of RankCount
    queries : int
        Tokens computed below the context.
    """

    costs_bits: Floats
    counts: tuple[RankCount, ...]
    queries: int


def rank_by_importance(
    pricer: Pricer,
    batcher: Batcher,
    fills: Sequence[str],
    *,
    width: int,
    rng: np.random.Generator,
    budget: int | None = None,
) -> SampledRanks:
    """Rank fills by one importance sample.

    Parameters
    ----------
    pricer : Pricer
        With a tree.
    width : int
        Nodes that the sample enters per level, its pilot's included.
    rng : numpy.random.Generator
    budget : int, optional
        Queries that canaries and sample together may take; the canaries' own paths, and
        one node of each level, are walked whatever it is.

    Notes
    -----
    All leaves of canaries are left out of the weighted counts, and the canaries no dearer
    than one are counted exactly: so one that was found by luck weighs no more than it is.
    """
    assert pricer.tree is not None
    numbers = pricer.leaves(fills)
    costs, _, queries = leaf_costs(pricer.tree, pricer.walker, batcher, numbers)
    noise = pricer.noise_bits * LN2
    sample = importance_sample(
        pricer.tree,
        pricer.walker,
        batcher,
        width=width,
        rng=rng,
        ceiling=float(costs.max(initial=pricer.context_bits * LN2)) + noise,
        budget=None if budget is None else budget - queries,
    )
    counts = []
    # The same leaf given twice is one candidate.
    different = np.unique(numbers, return_index=True)[1]
    for number, own in zip(numbers, costs.tolist(), strict=True):
        others = costs[different[numbers[different] != number]]
        below = point = up_to = sample.count(own, known=numbers)
        known_below = others <= own
        if noise > 0.0:
            below = sample.count(own - noise, known=numbers, ties=False)
            up_to = sample.count(own + noise, known=numbers)
            known_below = others < own - noise
        counts.append(
            RankCount(
                point=point,
                below=below,
                up_to=up_to,
                known=1 + int((others <= own).sum()),
                known_below=1 + int(known_below.sum()),
                known_up_to=1 + int((others <= own + noise).sum()),
            )
        )
    return SampledRanks(costs / LN2, tuple(counts), queries + sample.queries)
