"""Each format of a canary set measured by the method that the budget allows."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from canary.audits.candidates import longest, notes_on
from canary.audits.planning import Plan, plan_for
from canary.audits.ranked import (
    FEW_HITS,
    RANK,
    RANK_AND_DRAWS,
    beside_draws,
    beside_weighed,
    by_bounds,
    kept_bounds,
    outcome,
    within,
)
from canary.audits.result import CanaryResult, FormatResult
from canary.audits.settings import Settings, Stage
from canary.corpus.canaries import Canary, CanarySet
from canary.errors import EstimationError, FormatError
from canary.formats.format import Format
from canary.formats.sampling import draw_indices
from canary.models.base import Context, LanguageModel
from canary.records.shards import Run, Series
from canary.scoring.batcher import Batcher, Progress
from canary.search.bounds import RankBounds
from canary.search.ranking import (
    Priced,
    check_agreement,
    draw,
    leaf_numbers,
    rank_by_bounds,
    rank_by_rows,
    rank_by_tree,
)
from canary.search.sampled import rank_by_importance
from canary.statistics.checks import LARGEST_BITS
from canary.statistics.exposures import exposure_by_draws, exposure_by_rank
from canary.statistics.extrapolation import SkewNormalFit, exposure_by_skew_normal
from canary.statistics.histogram import Histogram, HistogramBuilder
from canary.statistics.result import IMPORTANCE, SKEW_NORMAL, Exposure
from canary.statistics.weighted import exposure_by_importance
from canary.tokens.candidates import CandidateEncoder

__all__ = ["Auditor"]

# Each keeps what it draws apart from the canaries of the same seed, and from the others.
_DRAWS_STREAM = 0x64726177
_CURVE_STREAM = 0x63757276
_WEIGHED_STREAM = 0x77656967
_MOST_STATES = 2**20  # a walk holds a batch per level, far fewer than that


@dataclass(frozen=True)
class Auditor:
    """Measures the formats of a set, one after the other."""

    model: LanguageModel
    encoder: CandidateEncoder
    settings: Settings
    stage: Stage
    run: Run | None

    @classmethod
    def of(
        cls,
        model: LanguageModel,
        settings: Settings,
        stage: Stage | None,
        run: Run | None = None,
    ) -> Auditor:
        """The auditor of one model; `run` keeps finished pieces."""
        encoder = CandidateEncoder(model.tokenizer, settings.start_token, settings.context)
        return cls(model, encoder, settings, stage or _silent, run)

    def measure(
        self, canaries: CanarySet
    ) -> tuple[tuple[CanaryResult, ...], tuple[FormatResult, ...]]:
        """Results of all canaries in the order of the set, and of all formats."""
        found: dict[str, CanaryResult] = {}
        formats = []
        for number, format in enumerate(canaries.formats):
            mine = [c for c in canaries if c.format == number]
            results, about = self._measure_format(number, format, mine)
            found.update((c.id, result) for c, result in zip(mine, results, strict=True))
            formats.append(about)
        if canaries.natural:
            found = {k: replace(result, natural=not result.control) for k, result in found.items()}
        return tuple(found[c.id] for c in canaries), tuple(formats)

    def _measure_format(
        self, number: int, format: Format, canaries: Sequence[Canary]
    ) -> tuple[list[CanaryResult], FormatResult]:
        began = time.perf_counter()
        if not format.prefix_free:
            raise FormatError(
                f"{format.masked!r} is not prefix-free: some candidates continue others, and the "
                "shorter ones would always win",
                cure="put fixed text that no fill can contain after the last hole",
            )
        fills = [c.fill for c in canaries]
        tokens, below = longest(self.encoder, format, fills)
        plan = plan_for(self.model.facts, self.encoder, self.settings, format, fills, below=below)
        shards = None if self.run is None else self.run.series(f"format-{number}")
        earlier = [] if shards is None else [shard.state for shard in shards]
        left = round(plan.queries * (1 - sum(state["share"] for state in earlier)))
        name = "enumeration" if plan.method == "enumeration" else "uniform draws"
        batcher = self._batcher(f"{name} of {format.masked}", left)
        batcher.check_length(tokens)
        noise_bits = self.model.facts.noise_bits(tokens)
        if plan.method == "enumeration":
            found = self._enumerate(
                number, plan, batcher, format, fills, noise_bits=noise_bits, shards=shards
            )
        else:
            found = self._draw(number, batcher, format, fills, noise_bits=noise_bits, shards=shards)
        reason = plan.reason
        if plan.method in (RANK, RANK_AND_DRAWS):
            kept = None if self.run is None else self.run.series(f"format-{number}-rank")
            earlier += [] if kept is None else [shard.state for shard in kept]
            drawn = found.exposures
            found, done = self._rank(plan, format, fills, found, noise_bits=noise_bits, kept=kept)
            reason = f"{reason}; {done}"
            if plan.method == RANK_AND_DRAWS:
                found, more = self._weigh_some(
                    number, plan, format, fills, found=found, drawn=drawn, noise_bits=noise_bits
                )
                reason += more
        if plan.method == IMPORTANCE:
            found = self._weigh(number, plan, format, fills, found, noise_bits=noise_bits)
        skewed, fit = self._extrapolate(number, format, found, noise_bits=noise_bits)
        if skewed is not None and self.settings.method == SKEW_NORMAL:
            found = replace(found, exposures=skewed)
        return _results(canaries, number, found, skewed), FormatResult(
            format=format.text,
            masked=format.masked,
            space_size=format.size,
            method=plan.method,
            reason=reason,
            histogram=found.histogram,
            skew_normal=fit,
            candidates=found.candidates,
            queries=found.queries,
            tokens=tokens,
            noise_bits=noise_bits,
            certificate=plan.certificate,
            seconds=time.perf_counter() - began + sum(state["seconds"] for state in earlier),
            notes=notes_on(self.encoder, format, canaries, self.settings.seed),
        )

    def _enumerate(
        self,
        number: int,
        plan: Plan,
        batcher: Batcher,
        format: Format,
        fills: Sequence[str],
        *,
        noise_bits: float,
        shards: Series | None,
    ) -> _Found:
        # The same candidates as uniform draws of this seed, but for the canaries.
        drawn = draw_indices(
            format.size, min(self.settings.draws, format.size), rng=self._draws_rng(number)
        )
        own = {format.index(fill) for fill in fills}
        keep = np.array([index for index in drawn if index not in own], np.int64)
        if plan.tree is None:
            ranking = rank_by_rows(
                batcher,
                format,
                self.encoder,
                fills,
                noise_bits=noise_bits,
                keep=keep,
                shards=shards,
            )
        else:
            ranking = rank_by_tree(
                plan.tree,
                batcher,
                format,
                self.encoder,
                fills,
                noise_bits=noise_bits,
                memory_bytes=self._memory_bytes(),
                keep=keep,
                shards=shards,
            )
        census = ranking.census
        exposures = [
            exposure_by_rank(int(rank), lower=int(lower), upper=int(upper), space_size=format.size)
            for rank, lower, upper in zip(census.rank, census.lower, census.upper, strict=True)
        ]
        return _Found(
            ranking.canaries,
            exposures,
            census.histogram,
            census.candidates,
            ranking.queries,
            census.kept_bits,
        )

    def _draw(
        self,
        number: int,
        batcher: Batcher,
        format: Format,
        fills: Sequence[str],
        *,
        noise_bits: float,
        shards: Series | None,
    ) -> _Found:
        drawn = draw(
            batcher,
            format,
            self.encoder,
            fills,
            count=self.settings.draws,
            rng=self._draws_rng(number),
            noise_bits=noise_bits,
            shards=shards,
        )
        exposures = exposure_by_draws(
            drawn.canaries.px_bits,
            # A candidate of probability 0 is a miss like any other.
            np.minimum(drawn.px_bits, LARGEST_BITS),
            space_size=format.size,
            noise_bits=noise_bits,
        )
        histogram = HistogramBuilder()
        histogram.add(drawn.px_bits)
        return _Found(
            drawn.canaries,
            exposures,
            histogram.build(),
            len(drawn.px_bits),
            drawn.queries,
            np.sort(drawn.px_bits[drawn.others]),
        )

    def _rank(
        self,
        plan: Plan,
        format: Format,
        fills: Sequence[str],
        drawn: _Found,
        *,
        noise_bits: float,
        kept: Series | None,
    ) -> tuple[_Found, str]:
        """What branch and bound adds to draws, and how far it came."""
        tree, budget = plan.tree, self.settings.budget
        assert tree is not None
        wanted = None
        if plan.method == RANK_AND_DRAWS:
            wanted = within(tree, drawn.exposures, budget=budget)

        def walk() -> RankBounds:
            return rank_by_bounds(
                tree,
                self._batcher(f"ranks of {format.masked}", budget),
                format,
                self.encoder,
                fills,
                rows=drawn.canaries,
                noise_bits=noise_bits,
                memory_bytes=self._memory_bytes(),
                budget=budget,
                wanted=wanted,
            )

        bounds = kept_bounds(kept, walk)
        if plan.method == RANK:
            exposures = by_bounds(bounds, space_size=format.size)
        else:
            exposures = beside_draws(bounds, drawn.exposures, space_size=format.size)
        found = replace(
            drawn,
            exposures=exposures,
            candidates=drawn.candidates + bounds.candidates,
            queries=drawn.queries + bounds.queries,
        )
        return found, outcome(bounds)

    def _weigh(
        self,
        number: int,
        plan: Plan,
        format: Format,
        fills: Sequence[str],
        drawn: _Found,
        *,
        noise_bits: float,
    ) -> _Found:
        """What importance draws add to uniform ones."""
        tree = plan.tree
        assert tree is not None
        batcher = self._batcher(f"{IMPORTANCE} of {format.masked}", self.settings.budget)
        with self.model.open(Context(tree.context), memory_bytes=self._memory_bytes()) as walker:
            ranks = rank_by_importance(
                tree,
                walker,
                batcher,
                leaf_numbers(tree, format, self.encoder, fills),
                width=plan.width,
                rng=np.random.default_rng([_WEIGHED_STREAM, self.settings.seed, number]),
                noise_bits=noise_bits,
                check=lambda bits: check_agreement(
                    batcher, Priced(bits, None), drawn.canaries, noise_bits
                ),
            )
        return replace(
            drawn,
            exposures=exposure_by_importance(ranks.counts, drawn.exposures, space_size=format.size),
            queries=drawn.queries + ranks.queries,
        )

    def _weigh_some(
        self,
        number: int,
        plan: Plan,
        format: Format,
        fills: Sequence[str],
        *,
        found: _Found,
        drawn: Sequence[Exposure],
        noise_bits: float,
    ) -> tuple[_Found, str]:
        """What importance draws add for those that neither draws nor the walk tell much of."""
        few = [
            not certain.exact and (by_draws.hits or 0) < FEW_HITS
            for certain, by_draws in zip(found.exposures, drawn, strict=True)
        ]
        if not plan.width or not any(few):
            return found, ""
        before = replace(found, exposures=drawn)
        weighed = self._weigh(number, plan, format, fills, before, noise_bits=noise_bits)
        exposures = [
            beside_weighed(certain, by_weight) if wanted else certain
            for certain, by_weight, wanted in zip(
                found.exposures, weighed.exposures, few, strict=True
            )
        ]
        done = f", and importance draws told of {sum(few)} more"
        return replace(weighed, exposures=exposures), done

    def _batcher(self, name: str, queries: int) -> Batcher:
        return Batcher(
            self.model,
            batch_size=self.settings.batch_size,
            progress=self.stage(name, queries),
        )

    def _memory_bytes(self) -> int:
        memory = self.model.memory()
        return min(memory.free_bytes // 4, _MOST_STATES * memory.bytes_per_held_token)

    def _extrapolate(
        self, number: int, format: Format, found: _Found, *, noise_bits: float
    ) -> tuple[Sequence[Exposure] | None, SkewNormalFit | None]:
        """The skew-normal estimate of each canary and the curve; None where there is none."""
        rng = np.random.default_rng([_CURVE_STREAM, self.settings.seed, number])
        try:
            return exposure_by_skew_normal(
                found.canaries.px_bits,
                found.draws_px,
                space_size=format.size,
                rng=rng,
                noise_bits=noise_bits,
            )
        except EstimationError:
            if self.settings.method == SKEW_NORMAL:
                raise
            return None, None

    def _draws_rng(self, number: int) -> np.random.Generator:
        return np.random.default_rng([_DRAWS_STREAM, self.settings.seed, number])


@dataclass(frozen=True, eq=False)
class _Found:
    """What either method gives for one format.

    `draws_px` holds none of the canaries and ascends: either method gives the same.
    """

    canaries: Priced
    exposures: Sequence[Exposure]
    histogram: Histogram
    candidates: int
    queries: int
    draws_px: NDArray[np.float64]


def _results(
    canaries: Sequence[Canary], number: int, found: _Found, skewed: Sequence[Exposure] | None
) -> list[CanaryResult]:
    context = found.canaries.context_bits
    return [
        CanaryResult(
            id=c.id,
            format=number,
            repetitions=c.repetitions,
            px_bits=float(found.canaries.px_bits[i]),
            context_bits=None if context is None else float(context[i]),
            exposure=found.exposures[i],
            skew_normal=None if skewed is None else skewed[i],
        )
        for i, c in enumerate(canaries)
    ]


def _silent(_name: str, _queries: int) -> Progress:
    return lambda _done: None
