"""Ranks by branch and bound, beside uniform draws and importance draws."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from canary.audits.by_draws import drawing_cost, drawing_stage, measure_draws
from canary.audits.by_importance import is_silent, sample
from canary.audits.method import Cost, Measured, Method, Stage, Unfit
from canary.audits.question import Question, Sizes
from canary.errors import UnsupportedError
from canary.search.pricing import Pricer
from canary.search.rank_counter import RankBounds
from canary.search.ranking import rank_by_bounds
from canary.statistics.exposures import (
    RANK,
    RANK_AND_DRAWS,
    Exposure,
    exposure_by_bounds,
    exposure_by_bounds_and_draws,
)
from canary.statistics.numbers import plural

FEW_HITS = 50
"""With fewer draws as likely as a canary, they give no estimate beside other methods."""

_QUERIES_A_PLACE = 16  # on trained models each place took 5 to 40 queries
_ROUNDING_BITS = 1e-9
# Nodes per level of importance draws beside branch and bound; fewer carry no interval.
_WIDTH, _LEAST_WIDTH, _LEAST_A_TOKEN = 4_000, 100, 45


class Rank(Method):
    """Ranks every canary, from the likeliest on; draws serve the curve and the histogram."""

    name = RANK
    answers = ("rank",)
    help = "rank ranks every canary, and draws only for the curve and the histogram."

    def cost(self, question: Question) -> Cost | Unfit:
        """The uniform draws; the walk stays within the budget."""
        tree = question.certified_tree
        if isinstance(tree, UnsupportedError):
            return Unfit(tree.problem, tree)
        sizes = question.sizes(tree)
        return drawing_cost(question, "ranks were asked for", sizes, tree.certificate)

    def stages(self, question: Question, cost: Cost) -> tuple[Stage, ...]:
        """Draws, and what follows within the budget."""
        search = Stage("search", question.options.budget, at_most=True)
        return (drawing_stage(question, cost), search)

    def measure(self, question: Question, cost: Cost) -> Measured:
        """Draw, and rank exactly or with certain bounds where the budget ends before."""
        sizes, budget = cost.sizes, question.options.budget
        with question.pricer(sizes.tree, sizes.noise_bits) as pricer:
            drawn = measure_draws(question, sizes, pricer)
            bounds = _walk(question, pricer, budget=budget)
        certain = exposures_by_bounds(bounds, space_size=question.format.size)
        exposures = [estimated(*pair) for pair in zip(certain, drawn.exposures, strict=True)]
        return replace(_walked(drawn, bounds, exposures), method=self.name)


class RankAndDraws(Rank):
    """Ranks the canaries whose draws leave few places possible; the others keep their draws.

    A part of the budget, a quarter at most, goes to importance draws for canaries of which
    neither says much.
    """

    name = RANK_AND_DRAWS
    answers = ("auto",)
    help = ""

    def measure(self, question: Question, cost: Cost) -> Measured:
        """Draw, rank what can be ranked, and draw by importance for the rest."""
        with question.pricer(cost.sizes.tree, cost.sizes.noise_bits) as pricer:
            return self._measured(question, cost.sizes, pricer)

    def _measured(self, question: Question, sizes: Sizes, pricer: Pricer) -> Measured:
        drawn = measure_draws(question, sizes, pricer)
        own, below = len(question.fills) + 1, sizes.below
        width = min(_WIDTH, question.options.budget // (4 * below) - own)
        worth_it = width >= max(_LEAST_WIDTH, _LEAST_A_TOKEN * below)
        kept = (width + own) * below if worth_it else 0  # paths included
        budget = question.options.budget - kept
        # The ranks that the draws leave possible decide which canaries are worth the walk.
        most = math.log2(max(budget / _QUERIES_A_PLACE, 1.0))
        wanted = np.array([e.space_bits - e.upper_bits <= most for e in drawn.exposures], np.bool_)
        bounds = _walk(question, pricer, budget=budget, wanted=wanted)
        certain = exposures_by_bounds(bounds, space_size=question.format.size)
        pairs = zip(certain, drawn.exposures, strict=True)
        exposures = [exposure_by_bounds_and_draws(*pair) for pair in pairs]
        found = replace(_walked(drawn, bounds, exposures), method=self.name)
        few = [
            not walked.exact and (by_draws.hits or 0) < FEW_HITS
            for walked, by_draws in zip(exposures, drawn.exposures, strict=True)
        ]
        if worth_it and any(few):
            before = replace(found, exposures=drawn.exposures)
            sampled, spent = sample(question, pricer, before, width=width, budget=kept)
            more = 0
            for place in np.flatnonzero(few).tolist():
                by_weight = sampled.exposures[place]
                if is_silent(by_weight):  # uniform draws, which the walk cuts
                    by_weight = replace(by_weight, method=RANK_AND_DRAWS)
                exposures[place] = beside_importance(exposures[place], by_weight)
                more += not is_silent(exposures[place])
            done = f"{found.done}, and importance draws covered {more} more, with {spent:,} queries"
            found = replace(sampled, exposures=exposures, done=done)
        left = int(np.count_nonzero(~wanted & ~bounds.exact))
        if not left:
            return found
        untried = (
            f"; by the draws {left} {'stands' if left == 1 else 'stand'} too far back to be "
            f"counted within {plural(budget, 'query', 'queries')}, so branch and bound did not "
            f"try {'it' if left == 1 else 'them'} (a larger budget would, or the method rank)"
        )
        return replace(found, done=found.done + untried)


def _walk(
    question: Question, pricer: Pricer, *, budget: int, wanted: NDArray[np.bool_] | None = None
) -> RankBounds:
    """Branch and bound, or what an earlier run found; one that was stopped left nothing."""
    kept = question.series("-rank")
    if kept:
        return RankBounds.from_dict(json.loads(kept[0].body))
    began = time.perf_counter()
    batcher = question.batcher(f"ranks of {question.format.masked}", budget)
    bounds = rank_by_bounds(pricer, batcher, question.fills, budget=budget, wanted=wanted).bounds
    if kept is not None:
        state = {"seconds": time.perf_counter() - began}
        kept.append(state, json.dumps(bounds.to_dict()).encode())
    return bounds


def _walked(drawn: Measured, bounds: RankBounds, exposures: Sequence[Exposure]) -> Measured:
    exact, canaries = int(bounds.exact.sum()), len(bounds.exact)
    which = f"all {canaries}" if exact == canaries else f"{exact} of {canaries}"
    spent = plural(bounds.queries, "query", "queries")
    return replace(
        drawn,
        exposures=exposures,
        candidates=drawn.candidates + bounds.candidates,
        queries=drawn.queries + bounds.queries,
        done=f"; branch and bound ranked {which} canaries exactly, with {spent}",
    )


def exposures_by_bounds(bounds: RankBounds, *, space_size: int) -> list[Exposure]:
    """The exposures that bounds of ranks give alone.

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


def estimated(certain: Exposure, drawn: Exposure) -> Exposure:
    """Certain bounds with the estimate of draws, where enough of them were as likely.

    Those whose ranks a walk leaves open are the least exposed. A table without their estimates
    would have too high a median.
    """
    if certain.exact or drawn.bits is None or (drawn.hits or 0) < FEW_HITS:
        return certain
    return replace(certain, bits=min(max(drawn.bits, certain.lower_bits), certain.upper_bits))


def beside_importance(walked: Exposure, sampled: Exposure) -> Exposure:
    """The exposure of importance draws, cut by the ranks that a walk leaves possible.

    Only what is certain cuts: two intervals that each hold at 95 % would hold together at
    90 %. Both p-values are of the largest rank that is certain, or of the same uniform draws;
    so the smaller one is that of both certain ranks together.
    """
    first = max(walked.rank_lower or 1, sampled.rank_lower or 1)
    lasts = [e.rank_upper for e in (walked, sampled) if e.rank_upper is not None]
    p_value = min((e.p_value for e in (walked, sampled) if e.p_value is not None), default=None)
    for exposure in (walked, sampled):
        if exposure.exact:
            return replace(exposure, p_value=p_value)
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


def can_rank(model: Mapping[str, Any]) -> bool:
    """Whether the method rank takes this model, given its facts; none at an address is taken."""
    return "reuse" in model.get("capabilities", ("reuse",))


def exact_ranks(model: Mapping[str, Any], budget: str = "") -> str:
    """How exact ranks are had, given a model's facts; empty if it cannot be ranked."""
    served = model.get("device") == "served"
    if not (served or can_rank(model)):
        return ""
    return f"exact ranks{' of the model files' if served else ''} (--method rank{budget})"
