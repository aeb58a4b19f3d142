"""One format of a canary set measured: by enumeration, by draws, and by what adds to draws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from canary.audits.candidate_scorer import Below
from canary.audits.method_choice import Plan
from canary.audits.ranked import (
    FEW_HITS,
    beside_draws,
    beside_importance,
    by_bounds,
    kept_bounds,
    outcome,
    untried,
    within,
)
from canary.audits.settings import Settings
from canary.formats.format import Format
from canary.formats.sampling import draw_indices
from canary.records.shards import Series
from canary.scoring.batcher import Batcher
from canary.search.bounded_ranks import rank_by_bounds
from canary.search.bounds import RankBounds
from canary.search.drawing import draw
from canary.search.pricing import Priced, Pricer
from canary.search.ranking import rank_all
from canary.search.sampled import rank_by_importance
from canary.statistics.checks import LARGEST_BITS
from canary.statistics.exposure_result import IMPORTANCE, RANK, RANK_AND_DRAWS, Exposure
from canary.statistics.exposures import exposure_by_draws, exposure_by_rank
from canary.statistics.histogram import Histogram, HistogramBuilder
from canary.statistics.importance import exposure_by_importance

__all__ = ["Found", "OneFormat", "untold"]

# Each keeps what it draws apart from the canaries of the same seed, and from the others.
_DRAWS_STREAM = 0x64726177
_IMPORTANCE_STREAM = 0x77656967


@dataclass(frozen=True, eq=False)
class Found:
    """What either method gives for one format.

    `draws_px` holds none of the canaries and ascends: either method gives the same.
    """

    canaries: Priced
    exposures: Sequence[Exposure]
    histogram: Histogram
    candidates: int
    queries: int
    draws_px: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class OneFormat:
    """A format with the fills of its canaries, and how it is to be measured.

    `number` is its place in the set; it tells its draws from those of the other formats.
    """

    below: Below
    settings: Settings
    plan: Plan
    number: int
    pricer: Pricer
    fills: Sequence[str] = field(repr=False)

    @property
    def format(self) -> Format:
        """The format."""
        return self.pricer.format

    def enumerated(self, batcher: Batcher, shards: Series | None) -> Found:
        """Every candidate, row by row or along the tree."""
        # The same candidates as uniform draws of this seed, but for the canaries.
        drawn = draw_indices(
            self.format.size,
            min(self.settings.draws, self.format.size),
            rng=self._rng(_DRAWS_STREAM),
        )
        own = {self.format.index(fill) for fill in self.fills}
        keep = np.array([index for index in drawn if index not in own], np.int64)
        ranking = rank_all(self.pricer, batcher, self.fills, keep=keep, shards=shards)
        census = ranking.census
        exposures = [
            exposure_by_rank(
                int(rank), lower=int(lower), upper=int(upper), space_size=self.format.size
            )
            for rank, lower, upper in zip(census.rank, census.lower, census.upper, strict=True)
        ]
        return Found(
            ranking.canaries,
            exposures,
            census.histogram,
            census.candidates,
            ranking.queries,
            census.kept_bits,
        )

    def drawn(self, batcher: Batcher, shards: Series | None) -> Found:
        """Uniform draws."""
        drawn = draw(
            self.pricer,
            batcher,
            self.fills,
            count=self.settings.draws,
            rng=self._rng(_DRAWS_STREAM),
            shards=shards,
        )
        exposures = exposure_by_draws(
            drawn.canaries.px_bits,
            # A candidate of probability 0 is a miss like any other.
            np.minimum(drawn.px_bits, LARGEST_BITS),
            space_size=self.format.size,
            noise_bits=self.pricer.noise_bits,
        )
        histogram = HistogramBuilder()
        histogram.add(drawn.px_bits)
        return Found(
            drawn.canaries,
            exposures,
            histogram.build(),
            len(drawn.px_bits),
            drawn.queries,
            np.sort(drawn.px_bits[drawn.others]),
        )

    def ranked(self, drawn: Found, kept: Series | None) -> tuple[Found, str, str]:
        """What branch and bound adds to draws, how far it came, and what it did not try."""
        budget = self.settings.budget - self.plan.set_aside
        wanted = None
        if self.plan.method == RANK_AND_DRAWS:
            wanted = within(drawn.exposures, budget=budget)

        def walk() -> RankBounds:
            batcher = self.below.batcher(f"ranks of {self.format.masked}", budget)
            return rank_by_bounds(
                self.pricer, batcher, self.fills, budget=budget, wanted=wanted
            ).bounds

        bounds = kept_bounds(kept, walk)
        if self.plan.method == RANK:
            exposures = by_bounds(bounds, space_size=self.format.size)
        else:
            exposures = beside_draws(bounds, drawn.exposures, space_size=self.format.size)
        found = replace(
            drawn,
            exposures=exposures,
            candidates=drawn.candidates + bounds.candidates,
            queries=drawn.queries + bounds.queries,
        )
        return found, outcome(bounds), untried(bounds, wanted, budget=budget)

    def by_importance(self, drawn: Found) -> tuple[Found, str]:
        """What importance draws add to uniform ones, and what they cost."""
        tree = self.plan.tree
        assert tree is not None
        budget = self.plan.set_aside or self.settings.budget
        batcher = self.below.batcher(f"{IMPORTANCE} of {self.format.masked}", budget)
        ranks = rank_by_importance(
            tree,
            self.pricer.walker,
            batcher,
            self.pricer.leaves(self.fills),
            width=self.plan.width,
            rng=self._rng(_IMPORTANCE_STREAM),
            noise_bits=self.pricer.noise_bits,
            budget=budget,
        )
        found = replace(
            drawn,
            exposures=exposure_by_importance(
                ranks.counts, drawn.exposures, space_size=self.format.size
            ),
            queries=drawn.queries + ranks.queries,
        )
        return found, f"with {ranks.queries:,} queries"

    def some_by_importance(self, found: Found, drawn: Sequence[Exposure]) -> tuple[Found, str]:
        """What importance draws add for those that neither draws nor the walk tell much of."""
        few = [
            not certain.exact and (by_draws.hits or 0) < FEW_HITS
            for certain, by_draws in zip(found.exposures, drawn, strict=True)
        ]
        if not self.plan.width or not any(few):
            return found, ""
        before = replace(found, exposures=drawn)
        sampled, cost = self.by_importance(before)
        exposures = [
            _beside(certain, by_weight) if wanted else certain
            for certain, by_weight, wanted in zip(
                found.exposures, sampled.exposures, few, strict=True
            )
        ]
        told = sum(
            e.method == IMPORTANCE for e, wanted in zip(exposures, few, strict=True) if wanted
        )
        done = f", and importance draws told of {told} more, {cost}"
        return replace(sampled, exposures=exposures), done

    def _rng(self, stream: int) -> np.random.Generator:
        return np.random.default_rng([stream, self.settings.seed, self.number])


def untold(exposures: Sequence[Exposure]) -> str:
    """For how many canaries importance draws carry no interval, in words."""
    silent = sum(e.method != IMPORTANCE for e in exposures)
    if not silent:
        return ""
    return (
        f"; {silent} of {len(exposures)} canaries keep their uniform draws, for the sample "
        "has no interval for them"
    )


def _beside(walked: Exposure, sampled: Exposure) -> Exposure:
    if sampled.method != IMPORTANCE:  # uniform draws, which the walk cuts
        sampled = replace(sampled, method=RANK_AND_DRAWS)
    return beside_importance(walked, sampled)
