"""Canaries beside uniform draws of their format."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from canary.records.shards import Series
from canary.scoring.batcher import Batcher
from canary.search.pricing import FILLS_AT_ONCE, FLOATS, Priced, Pricer, resumed


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
