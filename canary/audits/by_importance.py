"""Importance draws: likely candidates are drawn more often, and weighted."""

from __future__ import annotations

from dataclasses import replace

from canary.audits.by_draws import drawing_cost, drawing_stage, measure_draws
from canary.audits.method import Cost, Measured, Method, Stage, Unfit
from canary.audits.question import Question, Sizes
from canary.errors import UnsupportedError
from canary.search.pricing import Pricer
from canary.search.rank_counter import nodes_by_level
from canary.search.ranking import rank_by_importance
from canary.statistics.exposures import IMPORTANCE, Exposure
from canary.statistics.importance import exposure_by_importance

_STREAM = 0x77656967


class Importance(Method):
    """Draws `draws` nodes per level of the token tree, beside as many uniform draws."""

    name = IMPORTANCE
    answers = ("importance",)
    help = "importance draws likely candidates more often, and weights them."

    def cost(self, question: Question) -> Cost | Unfit:
        """The uniform draws; the importance draws stay within the budget."""
        tree = question.certified_tree
        if isinstance(tree, UnsupportedError):
            return Unfit(tree.problem, tree)
        sizes = question.sizes(tree)
        reason = f"importance draws were asked for, {_width(question, sizes):,} nodes per level"
        return drawing_cost(question, reason, sizes, tree.certificate)

    def stages(self, question: Question, cost: Cost) -> tuple[Stage, ...]:
        """Uniform draws, and the nodes of each level that are entered."""
        assert cost.sizes.tree is not None
        width = _width(question, cost.sizes)
        entered = sum(min(width, nodes) for nodes in nodes_by_level(cost.sizes.tree))
        own = len(question.fills) * cost.sizes.below
        queries = min(entered + own, question.options.budget)
        return (drawing_stage(question, cost), Stage("draws", queries))

    def measure(self, question: Question, cost: Cost) -> Measured:
        """Weight the sample; canaries of which it says nothing keep their uniform draws."""
        sizes, budget = cost.sizes, question.options.budget
        with question.pricer(sizes.tree, sizes.noise_bits) as pricer:
            drawn = measure_draws(question, sizes, pricer)
            width = _width(question, sizes)
            found, spent = sample(question, pricer, drawn, width=width, budget=budget)
        silent = sum(map(is_silent, found.exposures))
        done = f", with {spent:,} queries"
        if silent:
            done += (
                f"; {silent} of {len(found.exposures)} canaries keep their uniform draws, for the "
                "sample has no interval for them"
            )
        return replace(found, method=self.name, done=done)


def _width(question: Question, sizes: Sizes) -> int:
    affordable = question.options.budget // sizes.below - len(question.fills) - 1
    return max(1, min(question.draws, affordable))


def is_silent(sampled: Exposure) -> bool:
    """Whether an exposure of `sample` is that of the uniform draws, which certain facts may cut."""
    return not sampled.exact and sampled.effective_draws is None


def sample(
    question: Question, pricer: Pricer, drawn: Measured, *, width: int, budget: int
) -> tuple[Measured, int]:
    """What importance draws of `width` nodes per level add to uniform draws, and their queries."""
    batcher = question.batcher(f"{IMPORTANCE} of {question.format.masked}", budget)
    rng = question.rng(_STREAM)
    ranks = rank_by_importance(pricer, batcher, question.fills, width=width, rng=rng, budget=budget)
    size = question.format.size
    exposures = exposure_by_importance(ranks.counts, drawn.exposures, space_size=size)
    found = replace(drawn, exposures=exposures, queries=drawn.queries + ranks.queries)
    return found, ranks.queries
