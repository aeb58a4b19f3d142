"""Canaries ranked among all candidates of their format, or beside uniform draws of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from canary.formats.format import Format
from canary.models.base import Context
from canary.scoring.batcher import Batcher, row_sums
from canary.scoring.texts import score_encodings
from canary.search.census import Census, CensusResult
from canary.search.enumerate import enumerate_leaves, leaf_costs
from canary.tokens.candidates import CandidateEncoder
from canary.tokens.tree import TokenTree

__all__ = ["Draws", "Priced", "Ranking", "draw", "rank_by_rows", "rank_by_tree"]

_LN2 = float(np.log(2))
_ROWS_AT_ONCE = 2**15


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
    fills: Sequence[str],
    *,
    noise_bits: float,
    memory_bytes: int,
    keep: NDArray[np.int64] | None = None,
) -> Ranking:
    """Rank fills among all leaves of the tree, keeping the costs of some, given by index.

    Costs `tree.queries()` queries and one per token of each canary; memory does not
    grow with the space.
    """
    index = np.array([format.index(fill) for fill in fills], np.int64)
    with batcher.model.open(Context(tree.context), memory_bytes=memory_bytes) as walker:
        context = -float(np.sum(walker.context_log_probs, dtype=np.float64)) / _LN2
        own, queries = leaf_costs(tree, walker, batcher, index)
        own /= _LN2
        census = Census(own, index, noise_bits=noise_bits, keep=keep)
        for leaves, spent in enumerate_leaves(tree, walker, batcher):
            census.add(leaves.costs / _LN2, leaves.bounds(), leaves.index)
            queries += spent
    return Ranking(Priced(own, np.full(len(own), context)), census.result(), queries)


def rank_by_rows(
    batcher: Batcher,
    format: Format,
    encoder: CandidateEncoder,
    fills: Sequence[str],
    *,
    noise_bits: float,
    keep: NDArray[np.int64] | None = None,
) -> Ranking:
    """Rank fills among all candidates, each scored as a whole row: for small spaces.

    Works with any tokenizer. Costs one query per candidate and token after the context.
    """
    canaries, queries = _price(batcher, format, encoder, fills)
    index = np.array([format.index(fill) for fill in fills], np.int64)
    census = Census(canaries.px_bits, index, noise_bits=noise_bits, keep=keep)
    first, rest = 0, iter(format)
    while part := list(islice(rest, _ROWS_AT_ONCE)):
        priced, spent = _price(batcher, format, encoder, part)
        numbers = np.arange(first, first + len(part))
        census.add(priced.px_bits, (first, first + len(part)), numbers.copy)
        queries += spent
        first += len(part)
    return Ranking(canaries, census.result(), queries)


def draw(
    batcher: Batcher,
    format: Format,
    encoder: CandidateEncoder,
    fills: Sequence[str],
    *,
    count: int,
    rng: np.random.Generator,
) -> Draws:
    """Price fills, and `count` fills drawn uniformly without replacement beside them.

    Works with any tokenizer. Costs one query per candidate and token after the context.
    """
    canaries, queries = _price(batcher, format, encoder, fills)
    drawn = format.sample(min(count, format.size), rng=rng)
    parts = []
    for first in range(0, len(drawn), _ROWS_AT_ONCE):
        priced, spent = _price(batcher, format, encoder, drawn[first : first + _ROWS_AT_ONCE])
        parts.append(priced.px_bits)
        queries += spent
    own = set(fills)
    others = np.array([fill not in own for fill in drawn])
    return Draws(canaries, np.concatenate(parts), others, queries)


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
