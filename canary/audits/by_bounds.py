"""Certain bounds of exposures under a model that gives only bounds for most tokens."""

from __future__ import annotations

import numpy as np

from canary.audits.by_rank import exposures_by_bounds
from canary.audits.method import Cost, Measured, Method, Stage, Unfit
from canary.audits.question import Question
from canary.errors import UnsupportedError
from canary.formats.unplanted import SHARE, note
from canary.scoring.served_requests import queries_within
from canary.search.pricing import Priced
from canary.search.ranking import BoundedRanks, rank_by_bounds
from canary.statistics.exposures import RANK
from canary.statistics.histogram import HistogramBuilder
from canary.statistics.numbers import count, plural
from canary.tokens.tree import check_certified

_LEARNED = 0.001  # of all candidates, before which only a learned canary surely is
_ENDED = {
    "budget": "the budget was spent (the same command continues it, in Python a larger one)",
    "requests": "no request allowed in this run was left (the same command continues it)",
}


class Bounds(Method):
    """Branch and bound below the context; nothing is scored as a whole row.

    Log-perplexities are those below the context, and the least that a canary can cost where
    the server did not report a token of it.
    """

    name = "bounds"
    answers = ("rank", "auto")
    whole_rows = False

    def cost(self, question: Question) -> Cost | Unfit:
        """As much of the budget as the search takes."""
        try:
            tree = question.searched_tree
            check_certified(tree, question.format)
        except UnsupportedError as error:
            return Unfit(error.problem, error)
        reason = "the server reports only the most likely next tokens"
        return Cost(reason, question.options.budget, 0, question.sizes(tree), tree.certificate)

    def stages(self, question: Question, cost: Cost) -> tuple[Stage, ...]:
        """A search within the budget."""
        return (Stage("search", cost.queries, at_most=True),)

    def measure(self, question: Question, cost: Cost) -> Measured:
        """Search until ranks are known or the budget is spent."""
        budget, name = question.options.budget, f"{RANK} of {question.format.masked}"
        batcher = question.batcher(name, budget, longest=cost.sizes.tokens)
        allowed = queries_within(question.model, budget)
        with question.pricer(cost.sizes.tree, cost.sizes.noise_bits) as pricer:
            ranks = rank_by_bounds(pricer, batcher, question.fills, budget=allowed, share=SHARE)
        strange = note(ranks.likely, question.format, question.fills)
        planted = np.array([not canary.control for canary in question.canaries])
        early = np.asarray(ranks.bounds.upper)[planted] <= _LEARNED * question.format.size
        return Measured(
            method=self.name,
            canaries=Priced(np.minimum(ranks.px_bits, 1e6), None),
            exposures=exposures_by_bounds(ranks.bounds, space_size=question.format.size),
            histogram=HistogramBuilder().build(),
            candidates=ranks.bounds.candidates,
            queries=ranks.bounds.queries,
            draws=None,
            draws_px=np.empty(0),
            notes=(
                *([] if early.any() else strange),
                *_left_open(ranks, question.format.masked, size=question.format.size),
            ),
        )


def _left_open(ranks: BoundedRanks, masked: str, *, size: int) -> tuple[str, ...]:
    """How many canaries are not ranked, why, and what would rank them."""
    total, exact = len(ranks.known), int(ranks.bounds.exact.sum())
    if exact == total:
        return ()
    told = [f"{exact} of {plural(total, 'canary', 'canaries')} of {masked} are ranked exactly"]
    silent = (np.asarray(ranks.bounds.lower) <= 1) & (np.asarray(ranks.bounds.upper) >= size)
    if silent.all():
        told.append(
            "Nothing was measured: each interval holds all that is possible, as it does for "
            "secrets that were never planted"
        )
    hidden = int(np.count_nonzero(~ranks.known)) if ranks.bounds.queries else 0
    if hidden:
        told.append(
            f"Of {count(hidden)} the server did not return every token, so their intervals begin "
            "at 0: a larger budget does not change that, but a larger --top-k may"
        )
    open_ends = int(np.count_nonzero(ranks.known & (np.asarray(ranks.bounds.upper) >= size)))
    if open_ends and ranks.ended:
        told.append(
            "The search ended before it knew a lower bound for "
            f"{plural(open_ends, 'other canary', 'other canaries')}, whose intervals begin at 0 "
            "as well"
            if hidden
            else f"The search ended before it knew a lower bound for {count(open_ends)} of them, "
            "whose intervals begin at 0"
        )
    if ranks.ended:
        told.append(
            f"The search ended early because {_ENDED[ranks.ended]}; answers of the server are "
            "kept. The intervals of canaries that are not ranked hold for certain, but may be wide"
        )
    return (". ".join(told),)
