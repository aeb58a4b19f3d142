"""Exact ranks after other start tokens, where few queries give them."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from canary.audits.by_rank import exposures_by_bounds
from canary.audits.question import AuditOptions, Question
from canary.errors import CanaryError, OutOfMemory, UnsupportedError
from canary.formats.format import Format
from canary.models.language_model import LanguageModel
from canary.scoring.run_options import RunOptions
from canary.search.ranking import rank_by_bounds
from canary.tokens.candidates import CandidateEncoder

_BUDGET = 20_000  # queries for each format after each start
_Parts = Sequence[tuple[Format, Sequence[str]]]


def median_by_ranks(
    model: LanguageModel, encoder: CandidateEncoder, parts: _Parts, options: RunOptions
) -> tuple[float, float] | None:
    """Between which bits the median exposure of some canaries certainly is; None if not known.

    `parts` are formats with fills. Branch and bound counts the candidates before each.
    """
    asked = AuditOptions(
        budget=_BUDGET, batch_size=options.batch_size, progress=options.progress, seed=options.seed
    )
    found = []
    try:
        for number, (format, fills) in enumerate(parts):
            format.check_prefix_free()
            question = Question(format, tuple(fills), model, encoder, asked, number=number)
            tree = question.certified_tree
            if isinstance(tree, UnsupportedError):
                return None
            name = f"checking the start token by ranks of {format.masked}"
            batcher = question.batcher(name, _BUDGET)
            with question.pricer(tree, question.sizes(tree).noise_bits) as pricer:
                ranked = rank_by_bounds(pricer, batcher, question.fills, budget=_BUDGET)
            found += exposures_by_bounds(ranked.bounds, space_size=format.size)
    except OutOfMemory:
        raise
    except CanaryError:  # what the measurement itself will say
        return None
    low, high = ([e.lower_bits for e in found], [e.upper_bits for e in found])
    return statistics.median(low), statistics.median(high)
