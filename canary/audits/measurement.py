"""Each format of a canary set measured by the method that the budget allows."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from canary.audits.audit_result import CanaryResult, FormatResult
from canary.audits.candidate_scorer import Below
from canary.audits.method_choice import plan_for
from canary.audits.methods import Found, OneFormat, untold
from canary.audits.settings import Settings
from canary.audits.tokenization import deepest, longest, notes_on
from canary.corpus.canaries import Canary, CanarySet
from canary.errors import EstimationError
from canary.formats.format import Format
from canary.models.english import note_on_english, note_on_vocabulary
from canary.models.examining import notes_on_model, notes_on_reading
from canary.models.language_model import LanguageModel
from canary.records.shards import Run
from canary.scoring.batcher import Stage
from canary.scoring.requests import announce
from canary.statistics.exposure_result import (
    ENUMERATION,
    IMPORTANCE,
    RANK,
    RANK_AND_DRAWS,
    SKEW_NORMAL,
    UNIFORM_DRAWS,
    Exposure,
)
from canary.statistics.extrapolation import SkewNormalFit, exposure_by_skew_normal
from canary.tokens.normalization_check import check_kept_apart

__all__ = ["Auditor"]

_CURVE_STREAM = 0x63757276  # apart from the canaries and the draws of the same seed


@dataclass(frozen=True)
class Auditor:
    """Measures the formats of a set, one after the other."""

    below: Below
    settings: Settings
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
        below = Below.of(
            model,
            start_token=settings.start_token,
            context=settings.context,
            batch_size=settings.batch_size,
            stage=stage,
        )
        return cls(below, settings, run)

    def measure(
        self, canaries: CanarySet
    ) -> tuple[tuple[CanaryResult, ...], tuple[FormatResult, ...]]:
        """Results of all canaries in the order of the set, and of all formats."""
        announce(self.below.model, lambda: self._rows(canaries))
        found: dict[str, CanaryResult] = {}
        formats = []
        on_model = self._notes_on_model(canaries)
        for number, format in enumerate(canaries.formats):
            mine = [c for c in canaries if c.format == number]
            results, about = self._measure_format(number, format, mine)
            found.update((c.id, result) for c, result in zip(mine, results, strict=True))
            formats.append(replace(about, notes=(*about.notes, *on_model)))
        if canaries.natural:
            found = {k: replace(result, natural=not result.control) for k, result in found.items()}
        return tuple(found[c.id] for c in canaries), tuple(formats)

    def _notes_on_model(self, canaries: CanarySet) -> tuple[str, ...]:
        """What is to be known of the model, whatever the format."""
        model, encoder = self.below.model, self.below.encoder
        read = notes_on_reading(
            model,
            tokens=lambda: max(longest(encoder, f, [])[0] for f in canaries.formats),
            start_token=encoder.start_token,
        )
        found = (note_on_vocabulary(model), note_on_english(model))
        return (*notes_on_model(model), *read, *(note for note in found if note))

    def _rows(self, canaries: CanarySet) -> int:
        """How many candidates are priced as whole rows."""
        rows = 0
        for number, format in enumerate(canaries.formats):
            fills = [c.fill for c in canaries if c.format == number]
            _, below = longest(self.below.encoder, format, fills)
            facts, encoder = self.below.model.facts, self.below.encoder
            plan = plan_for(facts, encoder, self.settings, format, fills, below=below)
            drawn = min(self.settings.draws, format.size)
            rows += len(fills) + (format.size if plan.method == ENUMERATION else drawn)
        return rows

    def _measure_format(
        self, number: int, format: Format, canaries: Sequence[Canary]
    ) -> tuple[list[CanaryResult], FormatResult]:
        began = time.perf_counter()
        format.check_prefix_free()
        encoder, facts = self.below.encoder, self.below.model.facts
        check_kept_apart(format, encoder)
        fills = [c.fill for c in canaries]
        tokens, below = longest(encoder, format, fills)
        plan = plan_for(facts, encoder, self.settings, format, fills, below=below)
        if plan.tree is not None:
            tokens = deepest(plan.tree)
        shards = None if self.run is None else self.run.series(f"format-{number}")
        earlier = [] if shards is None else [shard.state for shard in shards]
        drawn, enumerated = min(self.settings.draws, format.size), plan.method == ENUMERATION
        name = ENUMERATION if enumerated else UNIFORM_DRAWS
        # Whole rows cost every token but the first; some canaries are priced as rows in any case.
        walked = plan.tree is not None
        own = len(fills) * (tokens - 1 + (below if walked else 0))
        each = below if walked else tokens - 1
        work = (
            plan.queries if enumerated and walked else (format.size if enumerated else drawn) * each
        )
        left = own + round(work * (1 - sum(state["share"] for state in earlier)))
        rest = ", the rest" if earlier else ""
        batcher = self.below.batcher(f"{name} of {format.masked}{rest}", left)
        batcher.check_length(tokens)
        noise_bits, reason = facts.noise_bits(tokens), plan.reason
        with self.below.pricer(format, plan.tree, noise_bits) as pricer:
            one = OneFormat(self.below, self.settings, plan, number, pricer, fills)
            found = (one.enumerated if enumerated else one.drawn)(batcher, shards)
            if plan.method in (RANK, RANK_AND_DRAWS):
                kept = None if self.run is None else self.run.series(f"format-{number}-rank")
                earlier += [] if kept is None else [shard.state for shard in kept]
                by_draws = found.exposures
                found, done, left_out = one.ranked(found, kept)
                more = ""
                if plan.method == RANK_AND_DRAWS:
                    found, more = one.some_by_importance(found, by_draws)
                reason = f"{reason}; {done}{more}{left_out}"
            if plan.method == IMPORTANCE:
                found, cost = one.by_importance(found)
                reason = f"{reason}, {cost}{untold(found.exposures)}"
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
            draws=None if enumerated else drawn,
            queries=found.queries,
            tokens=tokens,
            noise_bits=noise_bits,
            certificate=plan.certificate,
            seconds=time.perf_counter() - began + sum(state["seconds"] for state in earlier),
            notes=notes_on(encoder, format, canaries, self.settings.seed),
        )

    def _extrapolate(
        self, number: int, format: Format, found: Found, *, noise_bits: float
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


def _results(
    canaries: Sequence[Canary], number: int, found: Found, skewed: Sequence[Exposure] | None
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
