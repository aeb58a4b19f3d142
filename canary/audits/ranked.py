"""Ranks by branch and bound in an audit: for which canaries, and what they add to draws."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from canary.records.shards import Series
from canary.search.bounds import RankBounds
from canary.statistics.exposures import exposure_by_bounds, exposure_by_bounds_and_draws
from canary.statistics.result import Exposure
from canary.tokens.tree import TokenTree

__all__ = [
    "RANK",
    "RANK_AND_DRAWS",
    "beside_draws",
    "by_bounds",
    "kept_bounds",
    "outcome",
    "within",
]

RANK = "rank"
RANK_AND_DRAWS = "rank and draws"
"""Methods of a format that is ranked by branch and bound, without and with draws."""


def within(tree: TokenTree, drawn: Sequence[Exposure], *, budget: int) -> NDArray[np.bool_]:
    """Which canaries may be ranked within a budget, judged by their draws; shape (k,).

    A query prices the children of one node, so a rank cannot be counted in fewer queries
    than it has times that many. The ranks that the draws leave possible decide.
    """
    most = math.log2(budget) + math.log2(int(tree.degrees.max()))
    return np.array([e.space_bits - e.upper_bits <= most for e in drawn], np.bool_)


def kept_bounds(shards: Series | None, walk: Callable[[], RankBounds]) -> RankBounds:
    """What `walk` finds, or found in an earlier run that had got so far.

    A walk that was stopped left nothing, and is done again.
    """
    if shards is not None and len(shards):
        return RankBounds.from_dict(json.loads(shards[0].body))
    began = time.perf_counter()
    found = walk()
    if shards is not None:
        seconds = time.perf_counter() - began
        shards.append({"seconds": seconds}, json.dumps(found.to_dict()).encode())
    return found


def by_bounds(bounds: RankBounds, *, space_size: int) -> list[Exposure]:
    """The exposures that bounds give by themselves."""
    return [
        exposure_by_bounds(
            lower=int(bounds.lower[i]),
            upper=int(bounds.upper[i]),
            rank=int(bounds.rank[i]) if bounds.exact[i] else None,
            space_size=space_size,
        )
        for i in range(len(bounds.lower))
    ]


def beside_draws(
    bounds: RankBounds, drawn: Sequence[Exposure], *, space_size: int
) -> list[Exposure]:
    """The exposures that bounds and draws give together."""
    certain = by_bounds(bounds, space_size=space_size)
    return [exposure_by_bounds_and_draws(*both) for both in zip(certain, drawn, strict=True)]


def outcome(bounds: RankBounds) -> str:
    """How far branch and bound came, in words."""
    exact, canaries = int(bounds.exact.sum()), len(bounds.exact)
    which = f"all {canaries}" if exact == canaries else f"{exact} of {canaries}"
    return f"branch and bound ranked {which} canaries exactly, with {bounds.queries:,} queries"
