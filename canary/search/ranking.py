"""Canaries ranked among all candidates of their format."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from canary.records.shards import Pace, Series
from canary.scoring.batcher import Batcher
from canary.search.enumerate import enumerate_leaves
from canary.search.pricing import FILLS_AT_ONCE, FLOATS, Priced, Pricer, resumed
from canary.search.rank_counter import Census, CensusResult
from canary.statistics.number_checks import LN2

Ints = NDArray[np.int64]

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
        size, grain, count = format.size, FILLS_AT_ONCE, _count_rows
    else:
        index = pricer.leaves(fills)
        size, grain, count = tree.size, batcher.batch_size or 0, _count_leaves
        grain *= _BATCHES_PER_RANGE
        if keep is not None:
            keep = pricer.leaves(format.automaton.unrank_many(keep.tolist()))
    if shards is not None:
        canaries, queries = resumed(canaries, queries, shards, noise_bits=pricer.noise_bits)
    census = Census(canaries.px_bits, index, noise_bits=pricer.noise_bits, keep=keep)

    def counted(census: Census, start: int, stop: int) -> int:
        cuts = _cuts(start, stop, grain or size)
        return sum(count(pricer, batcher, census, *ends) for ends in cuts)

    if shards is None:
        queries += counted(census, 0, size)
        return Ranking(canaries, census.result(), queries)
    each = grain or 1
    done = 0
    for number in range(1, len(shards)):
        shard = shards[number]
        census.merge(json.loads(shard.body))
        done, queries = shard.state["stop"], queries + shard.state["queries"]
    pace = Pace()
    while done < size:
        stop = min(max((done + pace.items) // each, done // each + 1) * each, size)
        part, began = census.part(), time.perf_counter()
        spent = counted(part, done, stop)
        seconds = time.perf_counter() - began
        found = part.to_dict()
        state = {
            "start": done,
            "stop": stop,
            "share": (stop - done) / size,
            "queries": spent,
            "seconds": seconds,
        }
        shards.append(state, json.dumps(found).encode())
        census.merge(found)
        pace.observe(stop - done, seconds)
        done, queries = stop, queries + spent
    return Ranking(canaries, census.result(), queries)


def _cuts(start: int, stop: int, grain: int) -> Iterator[tuple[int, int]]:
    """The range in parts that end at multiples of `grain`."""
    while start < stop:
        end = min((start // grain + 1) * grain, stop)
        yield start, end
        start = end


def _count_rows(pricer: Pricer, batcher: Batcher, census: Census, start: int, stop: int) -> int:
    """Price fills by whole rows; the queries that it took."""
    priced, queries = pricer.price(batcher, list(islice(iter(pricer.format), start, stop)))
    census.add(priced.px_bits, (start, stop), lambda: np.arange(start, stop))
    return queries


def _count_leaves(pricer: Pricer, batcher: Batcher, census: Census, start: int, stop: int) -> int:
    """Price leaves along the tree; the queries that it took."""
    assert pricer.tree is not None
    queries = 0
    walk = enumerate_leaves(pricer.tree, pricer.walker, batcher, start=start, stop=stop)
    for leaves, spent in walk:
        census.add(leaves.costs / LN2, leaves.bounds(), leaves.index)
        queries += spent
    return queries


@dataclass(frozen=True, eq=False)
class Draws:
    """What uniform draws give: their Px in bits, shape (n,), beside the canaries'.

    `others` is bool of shape (n,): which draws are none of the canaries themselves.
    """

    canaries: Priced
    px_bits: NDArray[np.float64]
    others: NDArray[np.bool_]
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
    parts: list[NDArray[np.float64]] = []
    for first in range(0, len(drawn), FILLS_AT_ONCE):
        block = drawn[first : first + FILLS_AT_ONCE]
        number = 1 + len(parts)
        if shards is not None and number < len(shards):
            shard = shards[number]
            px, spent = np.frombuffer(shard.body, FLOATS), shard.state["queries"]
        else:
            began = time.perf_counter()
            priced, spent = pricer.price(batcher, block)
            px = np.sort(priced.px_bits[[fill not in own for fill in block]])
            if shards is not None:
                state = {
                    "share": len(block) / len(drawn),
                    "queries": spent,
                    "seconds": time.perf_counter() - began,
                }
                shards.append(state, px.astype(FLOATS).tobytes())
        parts.append(px)
        queries += spent
    mine = np.array([own[fill] for fill in drawn if fill in own])
    px = np.concatenate([*parts, mine])
    return Draws(canaries, px, np.arange(len(px)) < len(px) - len(mine), queries)
