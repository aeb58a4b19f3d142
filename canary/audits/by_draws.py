"""Uniform draws: canaries are compared with candidates that are drawn at random."""

from __future__ import annotations

import numpy as np

from canary.audits.method import Cost, Measured, Method
from canary.audits.question import Question, Sizes
from canary.formats.sampling import draw_indices
from canary.search.pricing import Pricer
from canary.search.ranking import draw
from canary.statistics.exposures import UNIFORM_DRAWS, exposure_by_draws
from canary.statistics.histogram import HistogramBuilder
from canary.statistics.number_checks import LARGEST_BITS

_STREAM = 0x64726177  # keeps draws apart from the canaries of the same seed


class UniformDraws(Method):
    """Fits any tokenizer and any model that prices rows."""

    name = UNIFORM_DRAWS
    answers = ("sampling", "auto")

    def cost(self, question: Question) -> Cost:
        """The draws as whole rows."""
        return drawing_cost(question, "draws were asked for", question.sizes())

    def measure(self, question: Question, cost: Cost) -> Measured:
        """Compare the canaries with the draws."""
        with question.pricer(None, cost.sizes.noise_bits) as pricer:
            return measure_draws(question, cost.sizes, pricer)


def drawing_cost(
    question: Question, reason: str, sizes: Sizes, certificate: str | None = None
) -> Cost:
    """What uniform draws cost, of a method that begins with them."""
    rows = len(question.fills) + question.draws
    return Cost(reason, question.draws * sizes.below, rows, sizes, certificate)


def drawn_indices(question: Question) -> list[int]:
    """Which candidates are drawn, as places in the format."""
    return draw_indices(question.format.size, question.draws, rng=question.rng(_STREAM))


def measure_draws(question: Question, sizes: Sizes, pricer: Pricer) -> Measured:
    """Canaries beside uniform draws."""
    # Whole rows cost every token but the first.
    each = sizes.tokens - 1 if sizes.tree is None else sizes.below
    drawn = draw(
        pricer,
        question.first_batcher(UNIFORM_DRAWS, sizes, question.draws * each),
        question.fills,
        count=question.draws,
        rng=question.rng(_STREAM),
        shards=question.series(),
    )
    exposures = exposure_by_draws(
        drawn.canaries.px_bits,
        np.minimum(drawn.px_bits, LARGEST_BITS),  # probability 0 is a miss like any other
        space_size=question.format.size,
        noise_bits=sizes.noise_bits,
    )
    histogram = HistogramBuilder()
    histogram.add(drawn.px_bits)
    return Measured(
        method=UNIFORM_DRAWS,
        canaries=drawn.canaries,
        exposures=exposures,
        histogram=histogram.build(),
        candidates=len(drawn.px_bits),
        queries=drawn.queries,
        draws=question.draws,
        draws_px=np.sort(drawn.px_bits[drawn.others]),
    )
