"""Enumeration: every candidate of a small space is scored, and ranks are exact."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from canary.audits.method import Cost, Measured, Method, Stage, Unfit
from canary.audits.question import DRAWS_STREAM, Question
from canary.errors import InputError, UnsupportedError
from canary.formats.format import Format, draw_indices
from canary.search.ranking import rank_all
from canary.statistics.exposures import ENUMERATION, exposure_by_rank
from canary.statistics.numbers import count


class Enumeration(Method):
    """Every candidate is scored, along the token tree or, where there is none, row by row."""

    name = ENUMERATION
    answers = ("enumeration", "auto")

    def cost(self, question: Question) -> Cost | Unfit:
        """All candidates, if the budget allows it."""
        format, budget, tree = question.format, question.options.budget, question.certified_tree
        if isinstance(tree, UnsupportedError):
            sizes, certificate = question.sizes(), "certified: every fill was encoded"
            queries, obstacle = format.size * sizes.below, f" row by row ({tree.problem})"
            others = '"sampling"'
        else:
            sizes, certificate = question.sizes(tree), tree.certificate
            queries, obstacle, others = tree.queries(), "", '"sampling" or "rank"'
        if queries <= budget:
            reason = f"all {format.size:,} candidates take {queries:,} queries{obstacle}"
            rows = len(question.fills) + format.size
            return Cost(f"{reason}, within the budget", queries, rows, sizes, certificate)
        reason = (
            f"enumeration would take {count(queries)} queries{obstacle}, the budget is {budget:,}"
        )
        error = InputError(
            f"{format.masked!r}: {reason}",
            cure=f"give a budget of at least {queries}, or use method={others}",
        )
        return Unfit(reason, error)

    def stages(self, question: Question, cost: Cost) -> tuple[Stage, ...]:
        """One walk over all leaves."""
        return (Stage("leaves", cost.queries),)

    def measure(self, question: Question, cost: Cost) -> Measured:
        """Count the candidates before each canary."""
        format, sizes, fills = question.format, cost.sizes, question.fills
        # The curve is fitted to the same candidates as with uniform draws of this seed.
        drawn = draw_indices(format.size, question.draws, rng=question.rng(DRAWS_STREAM))
        own = {format.index(fill) for fill in fills}
        keep = np.array([i for i in drawn if i not in own], np.int64)
        # Whole rows cost every token but the first.
        work = format.size * (sizes.tokens - 1) if sizes.tree is None else cost.queries
        batcher = question.first_batcher(self.name, sizes, work)
        with question.pricer(sizes.tree, sizes.noise_bits) as pricer:
            ranking = rank_all(pricer, batcher, fills, keep=keep, shards=question.series())
        census = ranking.census
        exposures = [
            exposure_by_rank(int(rank), lower=int(lower), upper=int(upper), space_size=format.size)
            for rank, lower, upper in zip(census.rank, census.lower, census.upper, strict=True)
        ]
        return Measured(
            method=self.name,
            canaries=ranking.canaries,
            exposures=exposures,
            histogram=census.histogram,
            candidates=census.candidates,
            queries=ranking.queries,
            draws=None,
            draws_px=census.kept_bits,
        )


def queries_by_character(format: Format) -> int:
    """Queries of an enumeration where each character is a token.

    They are the beginnings of fills that something follows: text after the last hole makes each
    whole fill one of them.
    """
    automaton = format.automaton
    beginnings = [1] + [0] * (len(automaton.final) - 1)  # that lead to each state
    for state, (first, end) in enumerate(pairwise(automaton.offsets.tolist())):
        for target in automaton.targets[first:end].tolist():
            beginnings[target] += beginnings[state]
    return sum(beginnings) - 1 - (0 if format.suffix else automaton.size)
