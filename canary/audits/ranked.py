"""Ranks by branch and bound in an audit: for which canaries, and what they add to draws."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from canary.records.shards import Series
from canary.search.bounds import RankBounds
from canary.statistics.exposure_result import Exposure
from canary.statistics.exposures import exposure_by_bounds, exposure_by_bounds_and_draws
from canary.statistics.numbers import plural

__all__ = [
    "FEW_HITS",
    "beside_draws",
    "beside_importance",
    "by_bounds",
    "kept_bounds",
    "outcome",
    "queries_to_rank",
    "untried",
    "within",
]

_QUERIES_A_PLACE = 16
_ROUNDING_BITS = 1e-9

FEW_HITS = 50
"""With fewer draws as likely as a canary, importance draws say more of its rank."""


def within(drawn: Sequence[Exposure], *, budget: int) -> NDArray[np.bool_]:
    """Which canaries may be ranked within a budget, judged by their draws; shape (k,).

    The ranks that the draws leave possible decide. On trained models each place took 5 to
    40 queries.
    """
    most = math.log2(max(budget / _QUERIES_A_PLACE, 1.0))
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
    """The exposures that bounds give by themselves.

    A tree may hold more leaves than there are candidates; ranks are those of candidates.
    """
    return [
        exposure_by_bounds(
            lower=int(bounds.lower[i]),
            upper=min(int(bounds.upper[i]), space_size),
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


def beside_importance(walked: Exposure, sampled: Exposure) -> Exposure:
    """The exposure of importance draws, cut by the ranks that a walk leaves possible.

    Only what is certain cuts: two intervals that each hold at 95 % would hold together at
    90 %. Both p-values are of the same two kinds (`exposure_by_bounds_and_draws`), of the
    largest rank that is certain, or of the same uniform draws; so the smaller one is that
    of both certain ranks together.
    """
    first = max(walked.rank_lower or 1, sampled.rank_lower or 1)
    lasts = [e.rank_upper for e in (walked, sampled) if e.rank_upper is not None]
    p_value = min((e.p_value for e in (walked, sampled) if e.p_value is not None), default=None)
    for one in (walked, sampled):
        if one.exact:
            return replace(one, p_value=p_value)
    upper = min(sampled.upper_bits, sampled.space_bits - math.log2(first))
    lower = sampled.lower_bits
    if lasts:
        lower = max(lower, sampled.space_bits - math.log2(min(lasts)))
    if lower > upper + _ROUNDING_BITS:  # the sample's interval misses all that is possible
        return replace(walked, p_value=p_value)
    lower = min(lower, upper)
    return replace(
        sampled,
        bits=None if sampled.bits is None else min(max(sampled.bits, lower), upper),
        lower_bits=lower,
        upper_bits=upper,
        p_value=p_value,
        rank_lower=first,
        rank_upper=min(lasts, default=None),
    )


def queries_to_rank(space_bits: float, exposure_bits: float) -> int:
    """About how many queries rank a canary of such an exposure, whatever the tree."""
    return math.ceil(_QUERIES_A_PLACE * math.exp2(space_bits - exposure_bits))


def outcome(bounds: RankBounds) -> str:
    """How far branch and bound came, in words."""
    exact, canaries = int(bounds.exact.sum()), len(bounds.exact)
    which = f"all {canaries}" if exact == canaries else f"{exact} of {canaries}"
    spent = plural(bounds.queries, "query", "queries")
    return f"branch and bound ranked {which} canaries exactly, with {spent}"


def untried(bounds: RankBounds, wanted: NDArray[np.bool_] | None, *, budget: int) -> str:
    """Why some of a budget may have been left: which canaries were not tried, in words."""
    left = 0 if wanted is None else int(np.count_nonzero(~wanted & ~bounds.exact))
    if not left:
        return ""
    return (
        f"; by the draws {left} {'stands' if left == 1 else 'stand'} too far back to be counted "
        f"within {plural(budget, 'query', 'queries')}, so branch and bound did not try "
        f"{'it' if left == 1 else 'them'} (a larger --budget would, or --method rank)"
    )
