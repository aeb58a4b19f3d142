"""Exposures of a model that gives bounds for the probabilities of some tokens."""

from __future__ import annotations

import numpy as np

from canary.audits.audit_result import CanaryResult
from canary.audits.candidate_scorer import Below
from canary.audits.ranked import by_bounds
from canary.audits.settings import Settings
from canary.audits.tokenization import deepest, notes_on
from canary.corpus.canaries import CanarySet
from canary.errors import UnsupportedError
from canary.models.language_model import LanguageModel
from canary.scoring.batcher import Stage
from canary.scoring.requests import announce
from canary.search.bounded_ranks import rank_by_bounds
from canary.statistics.exposure_result import RANK
from canary.tokens.tree import check_certified

__all__ = ["exposures_between", "gives_bounds"]


def gives_bounds(model: LanguageModel) -> bool:
    """Whether whole rows cannot be priced, so that bounds are all there is."""
    return "score" not in model.facts.capabilities


def exposures_between(
    model: LanguageModel, canaries: CanarySet, settings: Settings, stage: Stage | None
) -> tuple[tuple[CanaryResult, ...], tuple[str, ...]]:
    """Certain intervals of exposures, by branch and bound, in the order of the set; and notes.

    `px_bits` are those below the context, and the least that a canary can cost where a
    token of it was not told.

    Raises
    ------
    UnsupportedError
        If a method was asked for that prices whole rows, or a format has no token
        tree, or one that is not certified.
    """
    if settings.method not in ("auto", RANK):
        raise UnsupportedError(
            f"the method {settings.method!r} prices whole candidates, and the server of "
            f"{model.facts.name!r} tells only the likeliest next tokens",
            cure="use --method rank, which gives bounds",
        )
    below = Below.of(
        model,
        start_token=settings.start_token,
        context=settings.context,
        batch_size=settings.batch_size,
        stage=stage,
    )
    announce(model, lambda: 0, at_most=settings.budget * len(canaries.formats))
    found: dict[str, CanaryResult] = {}
    notes: list[str] = []
    for number, format in enumerate(canaries.formats):
        mine = [c for c in canaries if c.format == number]
        fills = [c.fill for c in mine]
        tree = below.tree(format, among=fills)
        check_certified(tree, format)
        batcher = below.batcher(f"{RANK} of {format.masked}", settings.budget)
        tokens = deepest(tree)
        batcher.check_length(tokens)
        with below.pricer(format, tree, model.facts.noise_bits(tokens)) as pricer:
            ranks = rank_by_bounds(pricer, batcher, fills, budget=settings.budget)
        notes += notes_on(below.encoder, format, mine, settings.seed)
        exposures = by_bounds(ranks.bounds, space_size=format.size)
        least = np.minimum(ranks.px_bits, 1e6)
        for at, canary in enumerate(mine):
            found[canary.id] = CanaryResult(
                id=canary.id,
                format=number,
                repetitions=canary.repetitions,
                px_bits=float(least[at]),
                context_bits=None,
                exposure=exposures[at],
                skew_normal=None,
                natural=canaries.natural and not canary.control,
            )
    return tuple(found[c.id] for c in canaries), tuple(dict.fromkeys(notes))
