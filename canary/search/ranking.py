"""Canaries ranked among all candidates of their format."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from canary.errors import ModelError
from canary.formats.format import Format
from canary.models.language_model import Context
from canary.records.shards import Pace, Series
from canary.scoring.batcher import Batcher
from canary.search.bounded import BoundedWalk
from canary.search.bounds import RankBounds, most_leaves
from canary.search.enumerate import enumerate_leaves, leaf_costs
from canary.search.rank_counter import Census, CensusResult
from canary.search.row_pricing import (
    ROWS_AT_ONCE,
    Priced,
    check_agreement,
    price,
    price_canaries,
    resumed,
)
from canary.search.step import context_nats
from canary.statistics.units import LN2
from canary.tokens.candidates import CandidateEncoder
from canary.tokens.tree import MISSING, TokenTree

__all__ = ["Ranking", "leaf_numbers", "rank_by_bounds", "rank_by_rows", "rank_by_tree"]


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


def rank_by_tree(
    tree: TokenTree,
    batcher: Batcher,
    format: Format,
    encoder: CandidateEncoder,
    fills: Sequence[str],
    *,
    noise_bits: float,
    memory_bytes: int,
    keep: Ints | None = None,
    shards: Series | None = None,
) -> Ranking:
    """Rank fills among all leaves of the tree; `keep` the costs of fills, given by index.

    Costs `tree.queries()` queries and at most one per token of each canary; memory does
    not grow with the space. With `shards`, finished ranges of leaves are kept there and not
    walked again; each range costs the few nodes above its ends once more.

    What a batch holds decides how its numbers are rounded. With a fixed batch size the walk is
    cut at the same leaves in each run, stopped or not, so its numbers are the same to the bit.

    Raises
    ------
    ModelError
        If a canary costs something else along the walk than as a whole row: then the
        model's states do not carry what came before, or the tree is not its tokenizer's.
    """
    rows, row_queries = price_canaries(batcher, format, encoder, fills)
    index = leaf_numbers(tree, format, encoder, fills)
    if keep is not None:
        kept = format.automaton.unrank_many(keep.tolist())
        keep = leaf_numbers(tree, format, encoder, kept)
    with batcher.model.open(Context(tree.context), memory_bytes=memory_bytes) as walker:
        context = context_nats(walker) / LN2
        own, queries = leaf_costs(tree, walker, batcher, index)
        priced = Priced(own / LN2, np.full(len(own), context))
        check_agreement(batcher, priced, rows, noise_bits)

        grain = (batcher.batch_size or 0) * _BATCHES_PER_RANGE

        def count(census: Census, start: int, stop: int) -> int:
            spent = 0
            while start < stop:
                end = min((start // grain + 1) * grain, stop) if grain else stop
                for leaves, more in enumerate_leaves(tree, walker, batcher, start=start, stop=end):
                    census.add(leaves.costs / LN2, leaves.bounds(), leaves.index)
                    spent += more
                start = end
            return spent

        return _rank(
            priced,
            index,
            count,
            size=tree.size,
            queries=queries + row_queries,
            noise_bits=noise_bits,
            keep=keep,
            shards=shards,
            grain=grain or 1,
        )


def rank_by_rows(
    batcher: Batcher,
    format: Format,
    encoder: CandidateEncoder,
    fills: Sequence[str],
    *,
    noise_bits: float,
    keep: Ints | None = None,
    shards: Series | None = None,
) -> Ranking:
    """Rank fills among all candidates, each scored as a whole row; `keep` as in the tree.

    Works with any tokenizer. Costs one query per candidate and token after the context.
    With `shards`, finished ranges of candidates are kept there and not scored again.
    """
    canaries, queries = price_canaries(batcher, format, encoder, fills)
    index = np.array([format.index(fill) for fill in fills], np.int64)

    def count(census: Census, start: int, stop: int) -> int:
        rest, spent = islice(iter(format), start, stop), 0
        while part := list(islice(rest, ROWS_AT_ONCE)):
            priced, more = price(batcher, format, encoder, part)
            numbers = np.arange(start, start + len(part))
            census.add(priced.px_bits, (start, start + len(part)), numbers.copy)
            spent += more
            start += len(part)
        return spent

    return _rank(
        canaries,
        index,
        count,
        size=format.size,
        queries=queries,
        noise_bits=noise_bits,
        keep=keep,
        shards=shards,
        grain=ROWS_AT_ONCE,
    )


def rank_by_bounds(
    tree: TokenTree,
    batcher: Batcher,
    format: Format,
    encoder: CandidateEncoder,
    fills: Sequence[str],
    *,
    rows: Priced,
    noise_bits: float,
    memory_bytes: int,
    budget: int,
    wanted: NDArray[np.bool_] | None = None,
) -> RankBounds:
    """Exact ranks of fills by branch and bound, and bounds where the budget ends before.

    Parameters
    ----------
    rows : Priced
        The fills as whole rows, with which the walk must agree.
    budget : int
        Queries that walk and fills' own paths may take. The paths take at most one per
        token of each fill, and are walked whatever the budget.
    wanted : bool array of shape (k,), optional
        Fills worth the walk. The others get the bound that costs nothing: of all
        candidates, at most ``2**B`` can be as likely, B being the bits below the context.

    Raises
    ------
    ModelError
        If a fill costs something else along the walk than as a whole row.
    """
    numbers = leaf_numbers(tree, format, encoder, fills)
    with batcher.model.open(Context(tree.context), memory_bytes=memory_bytes) as walker:
        context = context_nats(walker) / LN2
        own, queries = leaf_costs(tree, walker, batcher, numbers)
        priced = Priced(own / LN2, np.full(len(own), context))
        check_agreement(batcher, priced, rows, noise_bits)
        chosen = np.arange(len(own)) if wanted is None else np.flatnonzero(wanted)
        walk = BoundedWalk(
            tree,
            walker,
            batcher,
            numbers=numbers[chosen],
            costs=own[chosen],
            noise_bits=noise_bits,
        )
        walk.run(budget=max(budget - queries, 0))
        found = walk.bounds()
    free = most_leaves(
        priced.px_bits + noise_bits - context,
        np.full(len(own), tree.size, tree.leaves.dtype),
        excess_bits=walk.excess_bits,
    )
    lower, rank = np.ones((2, len(own)), np.int64)
    exact = np.zeros(len(own), np.bool_)
    lower[chosen], rank[chosen], exact[chosen] = found.lower, found.rank, found.exact
    free[chosen] = found.upper
    free = np.minimum(free, format.size)  # a tree may hold more leaves than fills
    return replace(
        found, lower=lower, rank=rank, upper=free, exact=exact, queries=found.queries + queries
    )


def _rank(
    canaries: Priced,
    index: Ints,
    count: Callable[[Census, int, int], int],
    *,
    size: int,
    queries: int,
    noise_bits: float,
    keep: Ints | None,
    shards: Series | None,
    grain: int,
) -> Ranking:
    """Count candidates ``0..size-1`` in one go, or in ranges that are kept as they finish.

    Counts over ranges side by side add up, so a range is finished for good: what is
    kept of it is its end, its counts, its histogram and the costs asked for by `keep`.
    How many candidates a range holds depends on time; that each ends at a multiple of `grain`
    does not.
    """
    if shards is None:
        census = Census(canaries.px_bits, index, noise_bits=noise_bits, keep=keep)
        queries += count(census, 0, size)
        return Ranking(canaries, census.result(), queries)
    canaries, queries = resumed(canaries, queries, shards, noise_bits=noise_bits)
    census = Census(canaries.px_bits, index, noise_bits=noise_bits, keep=keep)
    done = 0
    for number in range(1, len(shards)):
        shard = shards[number]
        census.merge(json.loads(shard.body))
        done, queries = shard.state["stop"], queries + shard.state["queries"]
    pace = Pace()
    while done < size:
        stop = min(max((done + pace.items) // grain, done // grain + 1) * grain, size)
        part, began = census.part(), time.perf_counter()
        spent = count(part, done, stop)
        seconds = time.perf_counter() - began
        counted = part.to_dict()
        state = {
            "start": done,
            "stop": stop,
            "share": (stop - done) / size,
            "queries": spent,
            "seconds": seconds,
        }
        shards.append(state, json.dumps(counted).encode())
        census.merge(counted)
        pace.observe(stop - done, seconds)
        done, queries = stop, queries + spent
    return Ranking(canaries, census.result(), queries)


def leaf_numbers(
    tree: TokenTree, format: Format, encoder: CandidateEncoder, fills: Sequence[str]
) -> Ints:
    """The leaves of fills, found by their encodings.

    Raises
    ------
    ModelError
        If one is not in the tree.
    """
    numbers = tree.numbers([encoding.ids for encoding in encoder.candidates(format, fills)])
    missing = int((numbers == MISSING).sum())
    if missing:
        raise ModelError(
            f"the tokens of {missing:,} fills of {format.masked!r} are not in its tree "
            f"({tree.certificate})",
            cure="use --method sampling",
        )
    return numbers
