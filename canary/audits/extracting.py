"""Extraction: the likeliest candidates of a format, and of the formats of an audit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from canary.audits.audit_result import CANARY_SET, Audit
from canary.audits.completing import BEAM
from canary.audits.extraction import Extraction
from canary.audits.format_search import SearchOptions, canaries_of, search_format
from canary.audits.question import AuditOptions, Question
from canary.audits.rivals import started
from canary.audits.start_notes import StartChoice
from canary.corpus.canaries import CanarySet, canary_set
from canary.errors import InputError, ModelError, OutOfMemory, RequestsSpentError, UnsupportedError
from canary.formats.format import Format
from canary.models.examining import notes_on_reading
from canary.models.loading import load
from canary.records.sealing import sealed
from canary.records.validation import AUTO, of_kind
from canary.scoring.batcher import Stage
from canary.search.shortest import MOST_OPEN, Stop

_MOST_DRAWS = 1_024  # to check the start token by


@sealed
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
    context: str = "",
    batch_size: int | None = None,
    stage: Stage | None = None,
) -> Extraction:
    """The likeliest candidates of a format under a model, with a proof.

    Shortest paths over the tree of tokens: a candidate is proven to be the likeliest when
    it is no dearer than the cheapest beginning that was not yet looked into. One that the
    model memorized takes a handful of queries, whatever the size of the space.

    Parameters
    ----------
    model : LanguageModel, or what `canary.load` takes
    format : Format or str
        What the secret looks like. Characters that are known are written as fixed text:
        ``"The random number is 281{digit:6}"``.
    top : int
        How many candidates.
    budget : int
        Queries (tokens computed below the context) that the search may take, and the
        completions of `known` after it. There is always one; 10**18, say, for none that is felt.
    seconds : float, optional
        Wall-clock time after which the search begins nothing new.
    stop : {"proof", "paper"}
        ``"paper"`` stops after twice the batches that it took to find the first candidate:
        the paper's rule, for comparison. It proves less, or as much.
    known : int, optional
        Besides, give so many first characters of each secret to greedy and to beam search,
        and say whether they give the rest. The secrets are the canaries of this format
        where `canaries` are given (controls included), else the candidates found.
    canaries : CanarySet, optional
        To say which canary each candidate is.
    beam : int
        Width of the beam.
    most_open : int
        Open nodes that are kept; the dearest beyond them are dropped, and the answer is
        then proven up to their cost only.
    start_token, start_texts, context, batch_size, stage
        As for `canary.audit`; `canaries` must not be among the texts.

    Returns
    -------
    Extraction
        Valid also where the budget or the requests to a served model ended, or Ctrl-C came;
        then it says up to which cost the answer is proven.

    Raises
    ------
    InputError
        If a number is out of range, the set has no canary of the format, or the format
        begins with a hole and no token stands before it.
    FormatError
        If the format is not prefix-free.
    UnsupportedError
        If the tokenizer does not make a tree of its candidates.
    ModelError
        If a candidate is too long for the model, cannot be tokenized, gets NaN, if all of
        them have probability 0, or if a proven one costs something else as a whole row.

    Notes
    -----
    The first proven candidates, four at most, are priced again as whole rows, as far as the
    budget reaches: the proof is no better than the tree and the model's states.

    References
    ----------
    .. [1] Carlini et al., The Secret Sharer, USENIX Security 2019, sections 3 and 8.
    """
    options = AuditOptions(
        start_token=start_token,
        start_texts=start_texts,
        context=context,
        batch_size=batch_size,
        stage=stage,
    )
    search = SearchOptions(
        top=top,
        budget=budget,
        seconds=seconds,
        stop=stop,
        known=known,
        beam=beam,
        most_open=most_open,
    )
    return extract_with(model, format, search, options, canaries=canaries)


@sealed
def extract_with(
    model: Any,
    format: Format | str,
    search: SearchOptions,
    options: AuditOptions,
    *,
    canaries: CanarySet | None = None,
) -> Extraction:
    """`extract`, with its options as objects."""
    format = Format.of(format)
    own = search.secrets_of(format, canaries)
    seam = load(model)
    mine = None
    if canaries is not None:
        own_format = tuple(c for c in canaries if canaries.formats[c.format] == format)
        mine = replace(canaries, canaries=own_format)
    options, start = started(seam, [format], options, canaries=mine, draws=_MOST_DRAWS)
    question = Question(format, tuple(own), seam, options.encoder(seam), options)
    read = notes_on_reading(seam, tokens=lambda: question.sizes().tokens, start_token=start.token)
    result = search_format(question, start, own, search)
    settings = {**result.settings, CANARY_SET: canaries.fingerprint if canaries else None}
    return replace(result, settings=settings, notes=(*result.notes, *read))


@sealed
def with_extractions(
    audit: Audit,
    model: Any,
    canaries: CanarySet,
    *,
    budget: int = 10_000,
    batch_size: int | None = None,
    stage: Stage | None = None,
) -> Audit:
    """An audit, and besides the likeliest candidates of each of its formats.

    As many as there are injected canaries: one that was memorized is among them. The start
    token and the context are those of the audit.

    Parameters
    ----------
    audit : Audit
    model : LanguageModel, or what `canary.load` takes
        The one that was audited.
    canaries : CanarySet
        Those it was audited with.
    budget : int
        Queries for each format.
    batch_size, stage
        As for `extract`.

    Returns
    -------
    Audit
        Its extractions hold no fills. A format without canaries is left out. So is one that
        cannot be searched (its candidates make no tree, one that was not sampled is too
        long for the model, a batch of one does not fit); a note of the format then says
        why, and all that was measured stands.

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
    _check_audited(audit, canaries)
    token, context = audit.settings.get("start_token"), audit.settings.get("context", "")
    options = AuditOptions(start_token=token, context=context, batch_size=batch_size, stage=stage)
    start = audit.start or StartChoice(token, "asked", context=bool(context))
    seam = load(model)
    encoder = options.encoder(seam)
    found, formats = [], list(audit.formats)
    for number, format in enumerate(canaries.formats):
        mine = [c for c in canaries if c.format == number]
        if not mine:
            continue
        own = canaries_of(canaries, format)
        top = max(sum(not c.control for c in mine), 1)
        question = Question(format, tuple(own), seam, encoder, options)
        try:
            result = search_format(question, start, own, replace(search, top=top))
        except (ModelError, UnsupportedError, OutOfMemory, RequestsSpentError) as error:
            about = formats[number]
            note = f"{about.masked} was not searched for its likeliest candidates: {error.problem}."
            formats[number] = replace(about, notes=(*about.notes, note))
            continue
        if result.stopped == "interrupted":
            raise KeyboardInterrupt
        found.append(result.hidden())
    return replace(audit, formats=tuple(formats), extractions=tuple(found))


def _check_audited(audit: Audit, canaries: CanarySet) -> None:
    """Refuse a set that the audit was not made with."""
    same = [f.format for f in audit.formats] == [f.text for f in canaries.formats]
    audited = [(c.id, c.format, c.repetitions) for c in audit.canaries]
    if canaries.natural:  # the audit drew controls and put them behind
        audited = audited[: len(canaries)]
    named = audit.settings.get(CANARY_SET)
    same = same and named == canaries.fingerprint
    if not same or audited != [(c.id, c.format, c.repetitions) for c in canaries]:
        texts = " and ".join(repr(f.format) for f in audit.formats)
        raise InputError(
            "the canaries are not those of the audit: other formats, ids, fills or numbers of "
            "copies",
            cure=f"give the set that it was made with, {len(audited):,} canaries of {texts}",
            where="with_extractions",
        )
