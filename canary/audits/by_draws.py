"""Uniform draws: canaries are compared with candidates that are drawn at random."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from canary.audits.method import Cost, Measured, Method, Stage
from canary.audits.question import DRAWS_STREAM, Question, Sizes, longest
from canary.errors import EstimationError, UnsupportedError
from canary.formats.format import Format
from canary.scoring.batcher import Batcher
from canary.search.pricing import FILLS_AT_ONCE, ListedRows, Pricer, StatesError
from canary.search.ranking import draw
from canary.statistics.exposures import (
    ENUMERATION,
    UNIFORM_DRAWS,
    Exposure,
    exposure_by_draws,
    exposure_by_rank,
)
from canary.statistics.extrapolation import skew_normal_bits
from canary.statistics.histogram import HistogramBuilder
from canary.statistics.number_checks import LARGEST_BITS
from canary.tokens.arrays import branches
from canary.tokens.candidates import CandidateEncoder
from canary.tokens.tree import leaf_numbers

Floats = NDArray[np.float64]


class UniformDraws(Method):
    """Fits any tokenizer and any model: along the token tree where there is one, or row by row."""

    name = UNIFORM_DRAWS
    answers: ClassVar[tuple[str, ...]] = ("sampling", "auto")

    def cost(self, question: Question) -> Cost:
        """The draws."""
        tree, reason = question.certified_tree, "draws were asked for"
        limit = question.model.facts.length_limit
        if isinstance(tree, UnsupportedError):
            return drawing_cost(question, reason, question.sizes())
        if question.options.method != "auto" and limit is not None and longest(tree) > limit:
            return drawing_cost(question, reason, question.sizes())  # those drawn may be shorter
        return drawing_cost(question, reason, question.sizes(tree), tree.certificate)

    def stages(self, question: Question, cost: Cost) -> tuple[Stage, ...]:
        """The draws; those of an audit share their beginnings."""
        return (drawing_stage(question, cost),)

    def measure(self, question: Question, cost: Cost) -> Measured:
        """Compare the canaries with the draws, as whole rows where cached states do not serve."""
        sizes = cost.sizes
        try:
            with question.pricer(sizes.tree, sizes.noise_bits) as pricer:
                return measure_draws(question, sizes, pricer, ranks=True)
        except StatesError as error:
            rows = replace(sizes, tree=None)
            with question.pricer(None, sizes.noise_bits) as pricer:
                drawn = measure_draws(question, rows, pricer, ranks=True)
            return replace(drawn, done=f"{drawn.done}; whole rows were scored, for {error.problem}")


def drawing_cost(
    question: Question, reason: str, sizes: Sizes, certificate: str | None = None
) -> Cost:
    """What uniform draws cost, of a method that begins with them."""
    rows = len(question.fills) + question.draws
    return Cost(reason, question.draws * sizes.below, rows, sizes, certificate)


def drawing_stage(question: Question, cost: Cost) -> Stage:
    """The draws of a question, and the queries that they take where they share beginnings."""
    tree = cost.sizes.tree
    if tree is None:
        return Stage("draws", cost.queries)
    drawn = question.format.sample(question.draws, rng=question.rng(DRAWS_STREAM))
    drawn.sort()
    queries = 0
    for first in range(0, len(drawn), FILLS_AT_ONCE):
        block = drawn[first : first + FILLS_AT_ONCE]
        numbers = leaf_numbers(tree, question.format, question.encoder, block)
        queries += branches(tree, np.unique(numbers.astype(tree.leaves.dtype))).queries()
    return Stage("draws", queries)


def measure_draws(
    question: Question, sizes: Sizes, pricer: Pricer, *, ranks: bool = False
) -> Measured:
    """Canaries beside uniform draws; with `ranks`, counted if these are all candidates."""
    # Whole rows cost every token but the first.
    each = sizes.tokens - 1 if sizes.tree is None else sizes.below
    drawn = draw(
        pricer,
        question.first_batcher(UNIFORM_DRAWS, sizes, question.draws * each),
        question.fills,
        count=question.draws,
        rng=question.rng(DRAWS_STREAM),
        shards=question.series(),
    )
    whole = ranks and question.draws == question.format.size
    exposures = (_exposure_by_all if whole else exposure_by_draws)(
        drawn.canaries.px_bits,
        np.minimum(drawn.px_bits, LARGEST_BITS),  # probability 0 is a miss like any other
        space_size=question.format.size,
        noise_bits=sizes.noise_bits,
    )
    histogram = HistogramBuilder()
    histogram.add(drawn.px_bits)
    return Measured(
        method=ENUMERATION if whole else UNIFORM_DRAWS,
        canaries=drawn.canaries,
        exposures=exposures,
        histogram=histogram.build(),
        candidates=len(drawn.px_bits),
        queries=drawn.queries,
        draws=None if whole else question.draws,
        draws_px=np.sort(drawn.px_bits[drawn.others]),
        done="; the draws were all candidates, so ranks are exact" if whole else "",
    )


def _exposure_by_all(
    px: Floats, everything: Floats, *, space_size: int, noise_bits: float
) -> list[Exposure]:
    """By counting the whole space, the canaries included."""
    ordered = np.sort(everything)
    rank, upper = (np.searchsorted(ordered, px + off, side="right") for off in (0.0, noise_bits))
    lower = 1 + np.searchsorted(ordered, px - noise_bits, side="left")
    return [
        exposure_by_rank(n, lower=low, upper=high, space_size=space_size)
        for n, low, high in zip(rank.tolist(), lower.tolist(), upper.tolist(), strict=True)
    ]


@dataclass(frozen=True, eq=False)
class SampleResult:
    """Canaries of a sample, and estimates off a fitted curve, NaN where none fits; shape (k,)."""

    px_bits: Floats
    exposures: Sequence[Exposure]
    curve_bits: Floats


@dataclass(frozen=True, eq=False)
class Sample:
    """Canaries beside uniform draws, encoded once to be scored again and again.

    `rows` are those of `canaries` canaries, then of the draws that are no canaries; `draws` are
    the places of all draws among them.
    """

    rows: ListedRows = field(repr=False)
    canaries: int
    draws: NDArray[np.int64]
    space_size: int

    @classmethod
    def of(
        cls, format: Format, fills: Sequence[str], drawn: Sequence[str], encoder: CandidateEncoder
    ) -> Sample:
        """Encode fills of canaries, and fills that were drawn."""
        places = {fill: place for place, fill in enumerate(fills)}
        for fill in drawn:
            places.setdefault(fill, len(places))
        rows = ListedRows(encoder.candidates(format, list(places)))
        draws = np.array([places[fill] for fill in drawn], np.int64)
        return cls(rows, len(fills), draws, format.size)

    def measure(self, batcher: Batcher) -> SampleResult:
        """Exposure of every canary under the model as it is now."""
        px = self.rows.price(batcher)
        bounded = np.minimum(px, LARGEST_BITS)
        mine, others = bounded[: self.canaries], self.draws[self.draws >= self.canaries]
        noise_bits = batcher.model.facts.noise_bits(self.rows.longest)
        exposures = exposure_by_draws(
            mine, bounded[self.draws], space_size=self.space_size, noise_bits=noise_bits
        )
        try:
            curve = skew_normal_bits(mine, px[others], noise_bits=noise_bits)
        except EstimationError:  # few draws, or all alike
            curve = np.full(self.canaries, np.nan)
        return SampleResult(px[: self.canaries], exposures, np.asarray(curve, np.float64))
