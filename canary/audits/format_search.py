"""The search for the most likely candidates of one format, and what is completed after it."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from canary.audits.completing import BEAM, check_known, completed
from canary.audits.extraction import Candidate, Extraction
from canary.audits.question import Question, longest
from canary.audits.start_notes import StartChoice
from canary.corpus.canaries import CanarySet, canary_set
from canary.errors import InputError, ModelError, RequestsSpentError
from canary.formats.format import Format
from canary.records.validation import one_of, real_number, whole_number
from canary.records.versions import versions
from canary.scoring.batcher import Batcher
from canary.scoring.requests import announce
from canary.search.pricing import check_agreement, price_rows
from canary.search.rank_counter import bounds_by_place
from canary.search.shortest import MOST_OPEN, STOPS, Shortest, Stop, shortest_leaves
from canary.statistics.number_checks import LN2
from canary.tokens.misread import misread

_BROKEN_OFF = ("interrupted", "requests")
_CHECKED = 4  # candidates that are priced as whole rows, too
_NOTHING_TO_COMPLETE = (
    "Nothing was completed from known characters: no candidate was found, and no canaries were "
    "given. Allow more queries, or give the canary set."
)


@dataclass(frozen=True, kw_only=True)
class SearchOptions:
    """How far a search goes, and what is completed after it; see `extract`.

    Raises
    ------
    InputError
        If a value has the wrong type or is out of range.
    """

    top: int = 1
    budget: int = 1_000_000
    seconds: float | None = None
    stop: Stop = "proof"
    known: int | None = None
    beam: int = BEAM
    most_open: int = MOST_OPEN

    def __post_init__(self) -> None:
        for name in ("top", "budget", "beam", "most_open"):
            limit: dict[str, Any] = {} if name == "beam" else {"below": None}
            value = whole_number(getattr(self, name), name, at_least=1, **limit)
            object.__setattr__(self, name, value)
        one_of(self.stop, "stop", STOPS)
        if self.seconds is not None:
            cure = "leave it out for no limit"
            seconds = real_number(self.seconds, "seconds", above=0, cure=cure)
            object.__setattr__(self, "seconds", seconds)

    def secrets_of(self, format: Format, canaries: CanarySet | None) -> dict[str, str]:
        """The ids of the canaries of a format, by fill.

        Raises
        ------
        InputError
            If the set has none of this format, or `known` leaves nothing to complete.
        """
        own = {} if canaries is None else canaries_of(canary_set(canaries), format)
        if self.known is not None:
            known = check_known(self.known, list(own) or [format.unrank(0)])
            object.__setattr__(self, "known", known)
        return own


def search_format(
    question: Question, start: StartChoice, own: Mapping[str, str], search: SearchOptions
) -> Extraction:
    """`extract` after a start token that was chosen; `own` are ids of canaries, by fill."""
    began = time.perf_counter()
    ends = math.inf if search.seconds is None else time.monotonic() + search.seconds
    format, model, budget = question.format, question.model, search.budget
    tree = question.searched_tree
    tokens = longest(tree)
    noise_bits = model.facts.noise_bits(tokens)
    batcher = question.batcher(f"extraction from {format.masked}", budget, longest=tokens)
    announce(model, lambda: 0, at_most=budget)
    with question.pricer(tree) as pricer:
        context_bits = pricer.context_bits
        found = shortest_leaves(
            tree,
            pricer.walker,
            batcher,
            top=search.top,
            budget=budget,
            seconds=search.seconds,
            most_open=search.most_open,
            stop=search.stop,
        )
    if not len(found.costs) and found.rest == np.inf:
        raise ModelError(
            f"the model {model.facts.name!r} gives every candidate of {format.masked!r} "
            "probability 0",
            cure="check which tokens the model forbids, or the context before the candidate",
        )
    fills = tree.fills(found.leaves)
    most = (budget - found.queries) // tokens
    found = _checked(found, fills[: max(most, 0)], question, batcher, noise_bits)
    candidates = _candidates(found, fills, own, question, context_bits)
    asked = {n: getattr(search, n) for n in ("budget", "seconds", "stop", "most_open")}
    result = Extraction(
        format=format.text,
        masked=format.masked,
        space_size=format.size,
        top=search.top,
        candidates=candidates,
        context_bits=context_bits,
        rest_bits=None if found.rest == np.inf else found.rest / LN2,
        queries=found.queries,
        batches=found.batches,
        dropped=found.dropped,
        stopped=found.stopped,
        noise_bits=noise_bits,
        certificate=tree.certificate,
        seconds=time.perf_counter() - began,
        model=model.facts.to_dict(),
        settings={
            **asked,
            "start_token": start.token,
            "start": start.to_dict(),
            "context": question.encoder.context,
            "batch_size": question.options.batch_size,
            "versions": versions(),
        },
        notes=(*start.notes, *misread(question.encoder, format)),
    )
    if search.known is None or found.stopped in _BROKEN_OFF:
        return result
    return _with_completions(result, question, own, search, deadline=ends)


def _with_completions(
    result: Extraction,
    question: Question,
    own: Mapping[str, str],
    search: SearchOptions,
    *,
    deadline: float,
) -> Extraction:
    """What was extracted, and which secrets are completed with what is left of the budget."""
    assert search.known is not None
    secrets = {name: fill for fill, name in own.items()} or {
        f"candidate {place}": c.fill
        for place, c in enumerate(result.candidates, 1)
        if c.fill is not None
    }
    if not secrets:
        return replace(result, notes=(*result.notes, _NOTHING_TO_COMPLETE))
    long_enough = {name: fill for name, fill in secrets.items() if len(fill) > search.known}
    try:
        made = completed(
            question,
            long_enough,
            known=search.known,
            beam=search.beam,
            budget=search.budget - result.queries,
            deadline=deadline,
        )
    except KeyboardInterrupt:  # what was extracted stays valid
        return replace(result, stopped="interrupted")
    except RequestsSpentError:
        return replace(result, stopped="requests")
    skipped = _not_completed(len(secrets) - len(long_enough), len(long_enough) - len(made))
    return replace(result, completions=made, notes=(*result.notes, *skipped))


def _checked(
    found: Shortest,
    fills: Sequence[str | None],
    question: Question,
    batcher: Batcher,
    noise_bits: float,
) -> Shortest:
    """What was found; the first proven ones of these fills are priced again as whole rows."""
    count = min(found.proven, len(fills), _CHECKED)
    walked = question.format.size > 1 and question.prices_rows
    if not walked or count <= 0 or found.stopped in _BROKEN_OFF:
        return found
    which = [i for i in range(count) if fills[i] is not None]
    texts = [fill for fill in fills[:count] if fill is not None]
    try:
        rows, queries = price_rows(batcher, question.format, question.encoder, texts)
    except KeyboardInterrupt:  # what was found stays valid
        return replace(found, stopped="interrupted")
    except RequestsSpentError:
        return replace(found, stopped="requests")
    check_agreement(batcher, found.costs[which] / LN2, rows.px_bits, noise_bits)
    return replace(found, queries=found.queries + queries)


def _candidates(
    found: Shortest,
    fills: Sequence[str | None],
    own: Mapping[str, str],
    question: Question,
    context_bits: float,
) -> tuple[Candidate, ...]:
    """What was found, leaf by leaf; a leaf without a fill is no candidate."""
    tree, facts = question.searched_tree, question.model.facts
    tokens, px, bits = longest(tree), found.costs / LN2, question.format.bits
    least, most = bounds_by_place(
        px,
        found.leaves,
        found.rest / LN2,
        size=question.format.size,
        context_bits=context_bits,
        noise_bits=facts.noise_bits(tokens),
        excess_bits=facts.excess_bits(tokens - len(tree.context)),
    )
    sure = tree.certified
    return tuple(
        Candidate(
            fill=fill,
            px_bits=float(px[i]),
            proven=sure and i < found.proven,
            found_after=int(found.found_after[i]),
            exposure_lower_bits=bits - math.log2(most[i]) if sure else 0.0,
            exposure_upper_bits=bits - math.log2(least[i]) if sure else bits,
            canary=own.get(fill),
        )
        for i, fill in enumerate(fills)
        if fill is not None
    )


def _not_completed(short: int, late: int) -> Iterator[str]:
    """Notes of secrets with too few characters, and of those beyond the budget or the time."""
    if short:
        yield f"Secrets with no more characters than are known were not completed: {short:,}."
    if late:
        yield f"Secrets left when the budget or the time ended, not completed: {late:,}."


def canaries_of(canaries: CanarySet, format: Format) -> dict[str, str]:
    """Ids of the canaries of a format, by fill."""
    found = {c.fill: c.id for c in canaries if canaries.formats[c.format] == format}
    if not found:
        named = dict.fromkeys(canaries.formats[c.format].text for c in canaries)
        raise InputError(
            f"the canary set has no canary of the format {format.text!r}",
            cure=f"name one of {', '.join(map(repr, named))}" if named else "give another set",
        )
    return found
