"""Extraction: the likeliest candidates of a format, and of the formats of an audit."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from canary.audits.audit_result import CANARY_SET, Audit
from canary.audits.completing import BEAM, SearchOptions, canaries_of, completed
from canary.audits.extraction import Candidate, Extraction, after_text, strange_among, unchecked
from canary.audits.question import AuditOptions, Question, longest
from canary.audits.start_search import started
from canary.corpus.canaries import CanarySet, canary_set
from canary.errors import InputError, ModelError, OutOfMemory, RequestsSpentError, UnsupportedError
from canary.formats.format import Format
from canary.formats.unplanted import noted
from canary.models.examining import notes_on_reading
from canary.models.loading import load
from canary.records import clocks
from canary.records.about import About
from canary.records.progress import Progress, shows_progress
from canary.records.sealing import sealed
from canary.records.validation import AUTO, of_kind, versions
from canary.records.weight_files import files_of
from canary.scoring.batcher import Batcher
from canary.scoring.served_requests import all_sent, announce, queries_within, requests_of, sharing
from canary.scoring.start_notes import StartChoice
from canary.search.pricing import check_agreement, price_rows, rows_compared
from canary.search.rank_counter import bounds_by_place
from canary.search.shortest import MOST_OPEN, Shortest, Stop, shortest_leaves
from canary.statistics.number_checks import LN2
from canary.tokens.candidates import misread

_MOST_DRAWS = 1_024  # to check the start token by
_BROKEN_OFF = ("interrupted", "requests")
_UNCHECKED = (
    "The budget left no candidate to be scored as a whole row besides, which finds states that "
    "do not carry all that came before. Allow a few more queries."
)
_AFTER = "Px is after the fixed text, whose own log-perplexity this server does not report"


@sealed
@shows_progress
def extract(
    model: Any,
    format: Format | str,
    *,
    top: int = 1,
    budget: int = 1_000_000,
    seconds: float | None = None,
    stop: Stop = "proof",
    known: int | None = None,
    canaries: CanarySet | None = None,
    beam: int = BEAM,
    most_open: int = MOST_OPEN,
    start_token: str | None = AUTO,
    start_texts: Sequence[str] | None = None,
    context: str | None = "",
    chat_template: str | None = AUTO,
    batch_size: int | None = None,
    progress: Progress = None,
) -> Extraction:
    """The most likely candidates of a format under a model, with a proof.

    The search finds shortest paths in the tree of tokens. A candidate is proven to be the
    most likely if no unexplored beginning costs less. A candidate that the model memorized
    takes a few queries, whatever the size of the space.

    Parameters
    ----------
    model : LanguageModel, or what `canary.load` takes
    format : Format or str
        What the secret looks like. Write known characters as fixed text:
        ``"The random number is 281{digit:6}"``.
    top : int
        How many candidates to find.
    budget : int
        The most queries (tokens computed below the context) for search and completions of `known`;
        10**18 is no limit. If `Endpoint.budget` is the same number, it bounds requests instead.
    seconds : float, optional
        Wall-clock time after which the search begins nothing new.
    stop : {"proof", "paper"}
        ``"paper"`` stops after twice the batches that it took to find the first candidate:
        the rule of the paper, for comparison. It proves at most as much.
    known : int, optional
        Also give this many first characters of each secret to greedy and to beam search, and
        report whether they complete it. The secrets are the canaries of this format if
        `canaries` are given (controls included), and otherwise the candidates found.
    canaries : CanarySet, optional
        Names the canary that each candidate is.
    beam : int
        Width of the beam.
    most_open : int
        How many open nodes are kept. If more are open, the most expensive are dropped, and
        the answer is proven up to their cost only.
    start_token, start_texts, context, chat_template, batch_size, progress
        As for `canary.audit`; `start_texts` must not hold a canary.

    Returns
    -------
    Extraction
        It is valid also if the budget or the requests to a served model ran out, or after
        Ctrl-C. Then it states up to which cost the answer is proven.

    Raises
    ------
    InputError
        If a number is out of range, the set has no canary of the format, or the format
        begins with a hole and no token comes before it.
    FormatError
        If the format is not prefix-free.
    UnsupportedError
        If the tokenizer does not make a tree of its candidates.
    ModelError
        If a candidate is too long for the model, cannot be tokenized or gets NaN, if all of
        them have probability 0, or if the price of a proven one differs as a whole row.

    References
    ----------
    .. [1] Carlini et al., The Secret Sharer, USENIX Security 2019, sections 3 and 8.

    Examples
    --------
    >>> found = canary.extract("./model", "my pin is {digit:4}", top=3)  # doctest: +SKIP
    >>> found.proven, found.candidates[0].fill  # doctest: +SKIP
    (True, '4071')
    """
    options = AuditOptions(
        start_token=start_token,
        start_texts=start_texts,
        context=context or "",
        chat_template=chat_template,
        batch_size=batch_size,
        progress=progress,
    )
    search = SearchOptions(
        top=top, budget=budget, seconds=seconds, stop=stop, known=known, beam=beam,
        most_open=most_open)  # fmt: skip
    format = Format.of(format)
    own = search.secrets_of(format, canaries)
    seam = load(model)
    mine = canaries
    if canaries is not None:
        of_format = tuple(c for c in canaries if canaries.formats[c.format] == format)
        mine = replace(canaries, canaries=of_format)
    options, start = started(seam, [format], options, canaries=mine, draws=_MOST_DRAWS)
    question = Question(format, tuple(own), seam, options.encoder(seam), options)
    read = notes_on_reading(seam, tokens=lambda: question.sizes().tokens, start_token=start.token)
    result = _search(question, start, own, replace(search, budget=queries_within(seam, budget)))
    copies = {c.id: c.repetitions for c in mine or ()}
    made = tuple(replace(c, control=copies.get(c.secret) == 0) for c in result.completions)
    return replace(
        result, settings={**result.settings, CANARY_SET: canaries and canaries.fingerprint,
                          "budget": search.budget, **requests_of(seam), **files_of(seam)},
        completions=made, notes=(*result.notes, *read), canaries=copies,
        natural=canaries is not None and canaries.natural, about=About.today(),
    )  # fmt: skip


@sealed
@shows_progress
def with_extractions(
    audit: Audit,
    model: Any,
    canaries: CanarySet,
    *,
    budget: int = 10_000,
    batch_size: int | None = None,
    progress: Progress = None,
) -> Audit:
    """An audit, and the most likely candidates of each of its formats.

    As many as there are injected canaries: one that was memorized is among them. The start
    token and the context are those of the audit.

    Parameters
    ----------
    audit : Audit
    model, canaries
        Those that it was made with, as for `canary.audit`.
    budget : int
        Queries for each format.
    batch_size, progress
        As for `extract`.

    Returns
    -------
    Audit
        Its extractions hold no fills. A format that has no canaries or cannot be searched is
        left out; a note says why.

    Raises
    ------
    InputError
        If the budget is no number of queries, or the set is not the audit's.
    KeyboardInterrupt
        On Ctrl-C: there is no part of an audit.
    """
    search = SearchOptions(budget=budget)
    canary_set(canaries)
    of_kind(audit, Audit, "audit", cure="give what canary.audit returned")
    if not audit.is_of(canaries):
        texts = " and ".join(repr(f.format) for f in audit.formats)
        number = sum(c.natural == audit.natural for c in audit.canaries)
        raise InputError(
            "the canaries are not those of the audit: other formats, ids, fills or numbers of "
            "copies",
            cure=f"give the set that it was made with, {number:,} canaries of {texts}",
            where="with_extractions",
        )
    token, context = audit.settings.get("start_token"), audit.settings.get("context", "")
    options = AuditOptions(
        start_token=token, context=context or "", batch_size=batch_size, progress=progress
    )
    start = audit.start or StartChoice(token, "asked", context=bool(context))
    seam, found, formats = load(model), [], list(audit.formats)
    searched = sorted({c.format for c in canaries})
    for place, number in enumerate(searched):
        format, mine = canaries.formats[number], [c for c in canaries if c.format == number]
        own = canaries_of(canaries, format)
        top = max(sum(not c.control for c in mine), 1)
        question = Question(format, tuple(own), seam, options.encoder(seam), options)
        try:
            with sharing(seam, len(searched) - place):  # the requests that are left
                result = _search(question, start, own, replace(search, top=top))
                cut = result.stopped == "budget" and all_sent(seam)  # and not its own budget
                result = replace(result, stopped="requests" if cut else result.stopped)
        except (ModelError, UnsupportedError, OutOfMemory, RequestsSpentError) as error:
            about, why = formats[number], error.problem
            note = f"{about.masked} was not searched for its most likely candidates: {why}."
            formats[number] = replace(about, notes=(*about.notes, note))
            continue
        if result.stopped == "interrupted":
            raise KeyboardInterrupt
        if strange := [each for each in result.notes if noted([each])]:
            formats[number] = replace(formats[number], notes=(*formats[number].notes, *strange))
        found.append(result.hidden())
    sent = {**audit.settings, **requests_of(seam)}
    return replace(audit, formats=tuple(formats), extractions=tuple(found), settings=sent)


def _search(
    question: Question, start: StartChoice, own: Mapping[str, str], search: SearchOptions
) -> Extraction:
    """`extract` after a start token that was chosen; `own` are ids of canaries, by fill."""
    began, deadline = time.perf_counter(), clocks.deadline(search.seconds)
    format, model, budget = question.format, question.model, search.budget
    tree = question.searched_tree
    tokens, queries = longest(tree), min(budget, tree.queries())
    noise_bits = model.facts.noise_bits(tokens)
    name = f"extraction (at most) from {format.masked}"  # it often ends long before
    batcher = question.batcher(name, queries, longest=tokens, told=search.told(queries))
    announce(model, lambda: 0, at_most=budget)
    with question.pricer(tree) as pricer:
        context_bits = pricer.context_bits
        found = shortest_leaves(
            *(tree, pricer.walker, batcher),
            top=search.top, budget=budget, seconds=search.seconds,
            most_open=search.most_open, stop=search.stop,
        )  # fmt: skip
    if not len(found.costs) and found.rest == np.inf:
        raise ModelError(
            f"the model {model.facts.name!r} gives every candidate of {format.masked!r} "
            "probability 0",
            cure="check which tokens the model forbids, or the context before the candidate",
        )
    fills = tree.fills(found.leaves)
    affordable = max((budget - found.queries) // (tokens - len(tree.context)), 0)
    again = min(rows_compared(tokens, 0), affordable)
    walked = format.size > 1 and question.prices_rows
    found = _checked(found, fills[: again if walked else 0], question, batcher, noise_bits)
    px, bits = found.costs / LN2, format.bits
    least, most = bounds_by_place(
        px,
        found.leaves,
        found.rest / LN2,
        size=format.size,
        context_bits=context_bits,
        noise_bits=noise_bits,
        excess_bits=model.facts.excess_bits(tokens - len(tree.context)),
    )
    candidates = tuple(
        Candidate(
            fill=fill,
            px_bits=float(px[i]),
            proven=tree.certified and i < found.proven,
            found_after=int(found.found_after[i]),
            exposure_lower_bits=bits - math.log2(most[i]) if tree.certified else 0.0,
            exposure_upper_bits=bits - math.log2(least[i]) if tree.certified else bits,
            canary=own.get(fill),
        )
        for i, fill in enumerate(fills)
        if fill is not None  # a leaf without a fill is no candidate
    )
    odd = strange_among(candidates, format, own, context_bits)
    asked = {name: getattr(search, name) for name in ("budget", "seconds", "stop", "most_open")}
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
            **requests_of(model),
            "versions": versions(),
        },
        notes=(
            *start.notes,
            *([_UNCHECKED] if walked and found.proven and not again else []),
            *([_AFTER] if after_text(model.facts.to_dict()) else []),
            *misread(question.encoder, format),
            *unchecked(candidates, odd, own, context_bits),
        ),
        unplanted=odd,
    )
    if search.known is None or found.stopped in _BROKEN_OFF:
        return result
    return _with_completions(result, question, own, search, known=search.known, deadline=deadline)


def _checked(
    found: Shortest,
    fills: Sequence[str | None],
    question: Question,
    batcher: Batcher,
    noise_bits: float,
) -> Shortest:
    """What was found; the first proven ones of these fills are scored again as whole rows."""
    first = fills[: found.proven]
    if not first or found.stopped in _BROKEN_OFF:
        return found
    which = [i for i, fill in enumerate(first) if fill is not None]
    texts = [fill for fill in first if fill is not None]
    try:
        rows, queries = price_rows(batcher, question.format, question.encoder, texts)
    except KeyboardInterrupt:  # what was found stays valid
        return replace(found, stopped="interrupted")
    except RequestsSpentError as spent:
        return replace(found, stopped=spent.stopped)
    check_agreement(batcher, found.costs[which] / LN2, rows.px_bits, noise_bits)
    return replace(found, queries=found.queries + queries)


def _with_completions(
    result: Extraction,
    question: Question,
    own: Mapping[str, str],
    search: SearchOptions,
    *,
    known: int,
    deadline: float,
) -> Extraction:
    """What was extracted, and which secrets are completed with what is left of the budget."""
    secrets = {name: fill for fill, name in own.items()} or {
        f"candidate {place}": c.fill
        for place, c in enumerate(result.candidates, 1)
        if c.fill is not None
    }
    if not secrets:
        none = (
            "Nothing was completed from known characters: no candidate was found, and no canaries "
            "were given. Allow more queries, or give the canary set."
        )
        return replace(result, notes=(*result.notes, none))
    long_enough = {name: fill for name, fill in secrets.items() if len(fill) > known}
    left = search.budget - result.queries
    try:
        made = completed(
            question, long_enough, known=known, beam=search.beam, budget=left, deadline=deadline
        )
    except KeyboardInterrupt:  # what was extracted stays valid
        return replace(result, stopped="interrupted")
    short, late = len(secrets) - len(long_enough), len(long_enough) - len(made)
    told = {
        f"Secrets with no more characters than are known were not completed: {short:,}.": short,
        f"Secrets left when the budget or the time ended, not completed: {late:,}.": late,
    }
    notes = (*result.notes, *(note for note, number in told.items() if number))
    return replace(result, completions=made, notes=notes)
