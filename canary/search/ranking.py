"""Canaries ranked among all candidates of their format, or beside uniform draws of it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from canary.errors import ModelError, RecordError
from canary.formats.format import Format
from canary.models.base import Context
from canary.records.shards import Pace, Series
from canary.scoring.batcher import Batcher, row_sums
from canary.scoring.texts import score_encodings
from canary.search.bounded import BoundedWalk
from canary.search.bounds import RankBounds, most_leaves
from canary.search.census import Census, CensusResult
from canary.search.enumerate import enumerate_leaves, leaf_costs
from canary.search.step import context_nats
from canary.tokens.candidates import CandidateEncoder
from canary.tokens.tree import MISSING, TokenTree

__all__ = [
    "Draws",
    "Priced",
    "Ranking",
    "check_agreement",
    "draw",
    "leaf_numbers",
    "rank_by_bounds",
    "rank_by_rows",
    "rank_by_tree",
]

_LN2 = float(np.log(2))
_ROWS_AT_ONCE = 2**12

_FLOATS = np.dtype("<f8")  # how costs stand in a shard, whatever the machine

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Priced:
    """Canaries with their costs.

    Parameters
    ----------
    px_bits : float64 array of shape (k,)
        Log-perplexity of each.
    context_bits : float64 array of shape (k,), or None
        The part of it that comes before the fill; None if the tokenizer cannot tell.
    """

    px_bits: NDArray[np.float64]
    context_bits: NDArray[np.float64] | None


@dataclass(frozen=True, eq=False)
class Ranking:
    """What enumeration gives; `queries` are tokens computed below the context."""

    canaries: Priced
    census: CensusResult
    queries: int


@dataclass(frozen=True, eq=False)
class Draws:
    """What uniform draws give: their Px in bits, shape (n,), beside the canaries'.

    `others` is bool of shape (n,): which draws are none of the canaries themselves.
    """

    canaries: Priced
    px_bits: NDArray[np.float64]
    others: NDArray[np.bool_]
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

    Costs `tree.queries()` queries and one per token of each canary; memory does not
    grow with the space. With `shards`, finished ranges of leaves are kept there and not
    walked again; each range costs the few nodes above its ends once more.

    Raises
    ------
    ModelError
        If a canary costs something else along the walk than as a whole row: then the
        model's states do not carry what came before, or the tree is not its tokenizer's.
    """
    rows, row_queries = _price_canaries(batcher, format, encoder, fills)
    index = leaf_numbers(tree, format, encoder, fills)
    if keep is not None:
        kept = format.automaton.unrank_many(keep.tolist())
        keep = leaf_numbers(tree, format, encoder, kept)
    with batcher.model.open(Context(tree.context), memory_bytes=memory_bytes) as walker:
        context = context_nats(walker) / _LN2
        own, queries = leaf_costs(tree, walker, batcher, index)
        priced = Priced(own / _LN2, np.full(len(own), context))
        check_agreement(batcher, priced, rows, noise_bits)

        def count(census: Census, start: int, stop: int) -> int:
            spent = 0
            for leaves, more in enumerate_leaves(tree, walker, batcher, start=start, stop=stop):
                census.add(leaves.costs / _LN2, leaves.bounds(), leaves.index)
                spent += more
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
    canaries, queries = _price_canaries(batcher, format, encoder, fills)
    index = np.array([format.index(fill) for fill in fills], np.int64)

    def count(census: Census, start: int, stop: int) -> int:
        rest, spent = islice(iter(format), start, stop), 0
        while part := list(islice(rest, _ROWS_AT_ONCE)):
            priced, more = _price(batcher, format, encoder, part)
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
        Queries that walk and fills' own paths may take. The paths take one per token of
        each fill, and are walked whatever the budget.
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
        context = context_nats(walker) / _LN2
        own, queries = leaf_costs(tree, walker, batcher, numbers)
        priced = Priced(own / _LN2, np.full(len(own), context))
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
    free = most_leaves(priced.px_bits + noise_bits - context, np.full(len(own), tree.size))
    lower, rank = np.ones((2, len(own)), np.int64)
    exact = np.zeros(len(own), np.bool_)
    lower[chosen], rank[chosen], exact[chosen] = found.lower, found.rank, found.exact
    free[chosen] = found.upper
    free = np.minimum(free, format.size)  # a tree may hold more leaves than fills
    return replace(
        found, lower=lower, rank=rank, upper=free, exact=exact, queries=found.queries + queries
    )


def draw(
    batcher: Batcher,
    format: Format,
    encoder: CandidateEncoder,
    fills: Sequence[str],
    *,
    count: int,
    rng: np.random.Generator,
    noise_bits: float = 0.0,
    shards: Series | None = None,
) -> Draws:
    """Price fills, and `count` fills drawn uniformly without replacement beside them.

    Works with any tokenizer. Costs one query per candidate and token after the context.
    With `shards`, the costs of finished blocks of draws are kept there and not computed
    again; `noise_bits` then tells whether the fills are those of the earlier run.
    """
    canaries, queries = _price_canaries(batcher, format, encoder, fills)
    drawn = format.sample(min(count, format.size), rng=rng)
    if shards is not None:
        canaries, queries = _resumed(canaries, queries, shards, noise_bits=noise_bits)
    # A canary that was drawn has its price already. The prices of the others are kept in
    # ascending order: in the order of the draws, which the seed gives, they would say
    # which draw is the canary.
    own = dict(zip(fills, canaries.px_bits.tolist(), strict=True))
    parts: list[NDArray[np.float64]] = []
    for first in range(0, len(drawn), _ROWS_AT_ONCE):
        block = drawn[first : first + _ROWS_AT_ONCE]
        number = 1 + len(parts)
        if shards is not None and number < len(shards):
            shard = shards[number]
            px, spent = np.frombuffer(shard.body, _FLOATS), shard.state["queries"]
        else:
            began = time.perf_counter()
            priced, spent = _price(batcher, format, encoder, block)
            px = np.sort(priced.px_bits[[fill not in own for fill in block]])
            if shards is not None:
                state = {
                    "share": len(block) / len(drawn),
                    "queries": spent,
                    "seconds": time.perf_counter() - began,
                }
                shards.append(state, px.astype(_FLOATS).tobytes())
        parts.append(px)
        queries += spent
    mine = np.array([own[fill] for fill in drawn if fill in own])
    px = np.concatenate([*parts, mine])
    return Draws(canaries, px, np.arange(len(px)) < len(px) - len(mine), queries)


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
) -> Ranking:
    """Count candidates ``0..size-1`` in one go, or in ranges that are kept as they finish.

    Counts over ranges side by side add up, so a range is finished for good: what is
    kept of it is its end, its counts, its histogram and the costs asked for by `keep`.
    """
    if shards is None:
        census = Census(canaries.px_bits, index, noise_bits=noise_bits, keep=keep)
        queries += count(census, 0, size)
        return Ranking(canaries, census.result(), queries)
    canaries, queries = _resumed(canaries, queries, shards, noise_bits=noise_bits)
    census = Census(canaries.px_bits, index, noise_bits=noise_bits, keep=keep)
    done = 0
    for number in range(1, len(shards)):
        shard = shards[number]
        census.merge(json.loads(shard.body))
        done, queries = shard.state["stop"], queries + shard.state["queries"]
    pace = Pace()
    while done < size:
        stop = min(done + pace.items, size)
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


def _resumed(
    canaries: Priced, queries: int, shards: Series, *, noise_bits: float
) -> tuple[Priced, int]:
    """The canaries with the costs of the run's beginning, which the first shard keeps.

    All counts of a run refer to the same limits. The costs also tell whether the
    canaries are the same: nothing else of a secret may be kept, not even a digest.

    Raises
    ------
    RecordError
        If a cost is another than at the beginning.
    """
    if not len(shards):
        known = [canaries.px_bits]
        if canaries.context_bits is not None:
            known.append(canaries.context_bits)
        state = {"share": 0.0, "queries": queries, "seconds": 0.0}
        shards.append(state, np.concatenate(known).astype(_FLOATS).tobytes())
        return canaries, queries
    begun, k = np.frombuffer(shards[0].body, _FLOATS), len(canaries.px_bits)
    px, context = begun[:k], begun[k:]
    if len(begun) not in {k, 2 * k} or not np.allclose(
        px, canaries.px_bits, rtol=0.0, atol=noise_bits
    ):
        raise RecordError(
            "an unfinished run in it was begun with other canaries: their log-perplexities differ",
            cure="give the canary set it was begun with, or remove the folder to begin anew",
            where=str(shards.folder),
        )
    return Priced(px, context if len(context) else None), shards[0].state["queries"]


def _price(
    batcher: Batcher, format: Format, encoder: CandidateEncoder, fills: Sequence[str]
) -> tuple[Priced, int]:
    """Whole candidates scored as rows, and the queries that this took."""
    encodings = encoder.candidates(format, fills)
    log_probs, rows = score_encodings(batcher, encodings)
    px = -row_sums(log_probs, rows) / _LN2
    lengths = [encoder.context_length(format, e) for e in encodings]
    known = [n for n in lengths if n is not None]
    if len(known) < len(lengths):
        return Priced(px, None), int(rows.scored.sum())
    context = np.array(known, np.int64)
    context_bits = -row_sums(log_probs, rows, at_most=context - 1) / _LN2
    return Priced(px, context_bits), int((rows.lengths - context).sum())


def _price_canaries(
    batcher: Batcher, format: Format, encoder: CandidateEncoder, fills: Sequence[str]
) -> tuple[Priced, int]:
    """`_price`, refusing what no rank can be given: a canary of probability 0."""
    priced, queries = _price(batcher, format, encoder, fills)
    impossible = np.flatnonzero(~np.isfinite(priced.px_bits))
    if len(impossible):
        raise ModelError(
            f"the model {batcher.model.facts.name!r} gives {len(impossible)} canaries of "
            f"{format.masked!r} probability 0, the {impossible[0] + 1}. of them first",
            cure="check which tokens the model forbids, or leave these canaries out",
        )
    return priced, queries


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


def check_agreement(batcher: Batcher, walked: Priced, rows: Priced, noise_bits: float) -> None:
    """Refuse costs along the walk that are not those of whole rows, to within the noise."""
    difference = np.abs(walked.px_bits - rows.px_bits)
    worst = float(np.nanmax(difference, initial=0.0))  # both may be infinite
    if worst > noise_bits + 1e-9 * float(np.abs(rows.px_bits).max(initial=0.0)):
        raise ModelError(
            f"the model {batcher.model.facts.name!r} gives a canary {worst:.3g} bits more or "
            f"less below held states than as a whole row, its noise is {noise_bits:.3g}",
            cure="check that its states carry all that came before, or use --method sampling",
        )
