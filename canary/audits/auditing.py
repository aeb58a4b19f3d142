"""Exposure of a set of canaries under a model, and what all of them say together."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from functools import partial
from typing import Any

from canary.audits.audit_result import (
    Audit,
    CanaryResult,
    FormatResult,
    UnderBase,
    combined_p,
    noted,
)
from canary.audits.audit_setup import audit_identity, control_in, no_bounds, set_of, with_controls
from canary.audits.choosing import check_method, choose
from canary.audits.copies_seen import note_on_copies
from canary.audits.cut_secrets import noting_cuts
from canary.audits.exposure_result import Exposures, beyond_draws
from canary.audits.extracting import with_extractions
from canary.audits.pacing import say_expected, within_seconds
from canary.audits.question import AuditOptions, Question, questions_of
from canary.audits.start_search import started
from canary.corpus.canaries import CanarySet, canary_set
from canary.errors import EstimationError
from canary.models.adapters import adapters_off
from canary.models.english import note_on_english, note_on_named, note_on_vocabulary
from canary.models.examining import notes_on_model, notes_on_reading
from canary.models.language_model import LanguageModel
from canary.models.loading import load
from canary.records.about import About
from canary.records.progress import Progress, Timed, phase, shows_progress
from canary.records.sealing import sealed
from canary.records.shards import Run, open_run
from canary.records.validation import AUTO, whole_number
from canary.records.weight_files import files_of
from canary.scoring.served_requests import announce, requests_of, sharing
from canary.statistics.exposures import check_exposures
from canary.statistics.learned_parts import SHOWN_LEARNED
from canary.tokens.candidates import check_kept_apart


@sealed
@shows_progress
def exposure(
    model: Any,
    canaries: CanarySet,
    *,
    method: str = "auto",
    budget: int = 1_000_000,
    draws: int = 20_000,
    seconds: float | None = None,
    seed: int = 0,
    start_token: str | None = AUTO,
    start_texts: Sequence[str] | None = None,
    context: str | None = "",
    chat_template: str | None = AUTO,
    batch_size: int | None = None,
    progress: Progress = None,
) -> Exposures:
    """Exposure of each canary, in the order of the set, without the tests of an audit.

    Parameters
    ----------
    model, canaries, method, budget, draws, seconds, seed, start_token
        As for `canary.audit`. Besides, `method` may be ``"skew-normal"``: the estimate that
        an audit gives beside each exposure becomes the exposure. It has no p-value.
    start_texts, context, chat_template, batch_size, progress
        As for `canary.audit`.

    Returns
    -------
    Exposures
        A sequence of `CanaryResult`. For a served model that returns only the most likely next
        tokens: certain intervals, with log-perplexities below the context.

    Raises
    ------
    InputError
        If the method does not fit within the budget, or a format begins with a hole and no
        token comes before it.
    FormatError
        If a format is not prefix-free.
    EstimationError
        If the skew-normal estimate was asked for and no curve can be fitted.
    UnsupportedError
        If ranks were asked for, and the format has no token tree or the model's states
        cannot be reused.
    ModelError
        If a candidate is too long for the model, cannot be tokenized, or gets NaN.

    Examples
    --------
    >>> canary.exposure("./model", canaries)[0].exposure.bits  # doctest: +SKIP
    19.9
    """
    options = AuditOptions(
        method=method,
        budget=budget,
        draws=draws,
        seconds=seconds,
        seed=seed,
        start_token=start_token,
        start_texts=start_texts,
        context=context or "",
        chat_template=chat_template,
        batch_size=batch_size,
        progress=progress,
    )
    return exposure_with(model, canaries, options)


@sealed
def exposure_with(model: Any, canaries: CanarySet, options: AuditOptions) -> Exposures:
    """`exposure`, with its options as one."""
    check_method(options.method)
    canary_set(canaries)
    seam, texts = load(model), options.start_texts
    options, start = started(
        seam, canaries.formats, options, canaries=canaries, draws=options.draws
    )
    results, formats = _measured(seam, canaries, options, own=texts)
    return Exposures(
        results,
        (*start.doubts, *beyond_draws(results), *noted(formats)),
        formats=formats,
        model=seam.facts.to_dict(),
        settings={**options.to_dict(), **set_of(canaries), **requests_of(seam), **files_of(seam)},
        start=start,
        about=About.today(),
    )


@sealed
@shows_progress
def audit(
    model: Any,
    canaries: CanarySet,
    *,
    method: str = "auto",
    budget: int = 1_000_000,
    draws: int = 20_000,
    seconds: float | None = None,
    seed: int = 0,
    start_token: str | None = AUTO,
    start_texts: Sequence[str] | None = None,
    context: str | None = "",
    chat_template: str | None = AUTO,
    batch_size: int | None = None,
    progress: Progress = None,
    parts: str | os.PathLike[str] | None = None,
    against_base: bool = False,
    extraction_budget: int = 0,
    require_learned: int | None = None,
) -> Audit:
    """Exposure of every canary, and one test over all of them.

    Exposure says how far ahead of chance a canary is: at 10 bits, one candidate in 1,024 is
    as likely as the canary. Fisher's method combines the exposures into one p-value for the
    injected canaries and one for the controls. The controls must look like chance; if they
    do not, the audit itself is suspect.

    Parameters
    ----------
    model : LanguageModel, or what `canary.load` takes
    canaries : CanarySet
        Natural secrets (`CanarySet.natural`) were not drawn at random and get no p-value.
        For each of their formats 16 controls are drawn and added at the end of the result.
    method : {"auto", "rank", "enumeration", "sampling", "importance", "controls"}
        ``auto`` prices every candidate of a format if that takes at most `budget` queries.
        For larger spaces it compares each canary with `draws` uniform draws. Then it ranks
        by branch and bound, within the budget, the canaries for which the draws leave that
        possible: their exposures are exact. ``rank`` tries that for all canaries, from the
        most likely on, and gives certain bounds if the budget ends first. ``importance``
        draws likely candidates more often and weights them. ``controls`` compares with the set's.
    budget : int
        The most queries for each format. A query is a token that the model computes below
        the context. Pricing the canaries and the draws is extra: at most one query for each
        of their tokens. 10**18 is practically no limit. All requests to a server are limited by
        `max_requests` of `Endpoint`.
    draws : int
        Candidates drawn for each format. If all candidates are scored, the draws only serve
        to fit the skew-normal curve.
    seconds : float, optional
        The budget is no larger than what this model does in that time, by a few timed batches.
    seed : int
        Seed of the draws.
    start_token : str, optional
        The token that came before each text in training, if the tokenizer adds none.
        ``"auto"`` takes the token after which text without secrets is most likely; None is
        no token.
    start_texts, context, chat_template, batch_size, progress
        As the fields of `canary.scoring.run_options.RunOptions`.
    parts : path-like, optional
        A folder for finished pieces. An audit that was killed continues from there when it
        is called again in the same way. The pieces hold log-perplexities and counts, no
        secret, but keep them like the model. Remove the folder when the result is saved.
    against_base : bool
        Of a model with an adapter of peft: measure the exposures under its base model as well, with
        the adapter off (`CanaryResult.base`). That takes twice the queries, and no second model.
    extraction_budget : int
        Queries for each format of a search afterwards for its most likely candidates, as
        `canary.audits.extracting.with_extractions`; 0 for none. The command takes 10,000.
    require_learned : int, optional
        The number of copies of a positive control: the verdict of the audit is on the other
        canaries, and says whether these were learned. `canary.check` takes it from the audit.

    Returns
    -------
    Audit
        Log-perplexities and exposures are in bits. A skew-normal estimate accompanies each
        exposure where the curve can be fitted.

    Raises
    ------
    InputError, FormatError, UnsupportedError, ModelError
        As for `canary.exposure`. The method ``"skew-normal"`` is refused: it has no p-value.
        `against_base` is refused without an adapter, or where the base cannot be had from it.
    RecordError
        If the audit in `parts` was begun with another model, canaries or settings.
    OutputError
        If the disk of `parts` is full; what is finished is kept.

    References
    ----------
    .. [1] Carlini et al., The Secret Sharer, USENIX Security 2019, sections 4 and 5.

    Examples
    --------
    >>> canaries = canary.CanarySet.load("canaries.json")  # doctest: +SKIP
    >>> print(canary.audit("./model", canaries))  # doctest: +SKIP
         verdict: The model memorized planted secrets
        injected: p = 1.1e-08 (Fisher)
        controls: p = 0.52 (Fisher)
          1 copy: 8 canaries, median 4.17 bits
    """
    options = AuditOptions(
        method=method,
        budget=budget,
        draws=draws,
        seconds=seconds,
        seed=seed,
        start_token=start_token,
        start_texts=start_texts,
        context=context or "",
        chat_template=chat_template,
        batch_size=batch_size,
        progress=(timed := Timed(progress)).stage,
    )
    check_method(options.method, p_values=True)
    given = canary_set(canaries)
    whole_number(extraction_budget, "extraction_budget", at_least=0)
    control_in(canaries, require_learned)
    with timed:
        seam = load(model)
        if "score" not in seam.facts.capabilities:
            raise no_bounds()
        if canaries.natural:
            canaries = with_controls(canaries, options.seed)
        options, start = started(
            *(seam, canaries.formats, options),
            canaries=canaries,
            draws=options.draws,
            after=partial(_rows, seam, canaries),
        )
        identity = audit_identity(seam, options, canaries)
        with nullcontext() if parts is None else open_run(parts, identity, layout=1) as run:
            base = _under_base(seam, canaries, options, run) if against_base else None
            results, formats = _measured(seam, canaries, options, run, start_texts)
    if base:
        results = tuple(replace(c, base=each) for c, each in zip(results, base, strict=True))
    about = set_of(canaries, require_learned, tokenizer=seam.tokenizer)
    made = Audit(
        canaries=results,
        formats=formats,
        injected_p=None if canaries.natural else combined_p([c for c in results if not c.control]),
        controls_p=combined_p([c for c in results if c.control]),
        model=seam.facts.to_dict(),
        # Not the seed of the canaries: with the format it gives their fills.
        settings={**options.to_dict(), **about, **requests_of(seam), **files_of(seam)},
        start=start,
        seconds=timed.seconds,
    )
    if not extraction_budget:
        return made
    return with_extractions(
        *(made, seam, given), budget=extraction_budget, batch_size=batch_size, progress=progress
    )


def _rows(model: LanguageModel, canaries: CanarySet, options: AuditOptions) -> int:
    """Rows that are sure to be priced of all formats."""
    return sum(choose(question)[1].rows for question in questions_of(model, canaries, options))


def _under_base(
    model: LanguageModel, canaries: CanarySet, options: AuditOptions, run: Run | None
) -> list[UnderBase]:
    """The canaries under the base model, measured as those under the model itself."""
    with adapters_off(model) as base:
        kept = None if run is None else replace(run, prefix="base-")
        found, _ = _measured(base, canaries, options, kept)
    return [UnderBase(c.px_bits, c.exposure) for c in found]


def _measured(
    model: LanguageModel, canaries: CanarySet, options: AuditOptions, run: Run | None = None,
    own: Sequence[str] | None = None,
) -> tuple[tuple[CanaryResult, ...], tuple[FormatResult, ...]]:  # fmt: skip
    """Results of all canaries in the order of the set, and of all formats."""
    questions = [within_seconds(q, run) for q in questions_of(model, canaries, options, run)]
    rows = any(question.prices_rows for question in questions)
    announce(
        model,
        lambda: sum(choose(question)[1].rows for question in questions),
        at_most=0 if rows else options.budget * len(questions),
    )
    on_model: tuple[str, ...] = ()  # notes, whatever the format
    if rows:
        phase("Checking how the model reads")
        read = notes_on_reading(
            model,
            tokens=lambda: max(question.sizes().tokens for question in questions),
            start_token=questions[0].encoder.start_token,
        )
        more = filter(None, [note_on_vocabulary(model), note_on_named(model), model.facts.note])
        on_model = (*notes_on_model(model), *read, *more)
    cuts = rows and not canaries.natural
    say_expected(questions, lambda: [(q, *choose(q)) for q in questions], cuts=cuts)
    results: dict[str, CanaryResult] = {}
    formats = []
    for place, question in enumerate(questions):
        # Of the requests that are left, a search takes its format's part.
        with sharing(model, 1 if rows else len(questions) - place):
            formats.append(_measured_format(question, results))
    most = max(c.repetitions for c in canaries)
    tested = [c for c in results.values() if c.exposure.p_value is not None and not c.control]
    learned = combined_p([c for c in tested if c.repetitions == most])
    # Of a model that learned canaries, nobody need ask whether it is trained and well read.
    if rows and (canaries.natural or learned is None or learned.p_value > SHOWN_LEARNED):
        phase("Checking that the model reads English")
        on_model += tuple(filter(None, [note_on_english(model, texts=own or ())]))
    if not canaries.natural and (note := note_on_copies(tested)):
        on_model += (note,)
    formats = [replace(about, notes=(*about.notes, *on_model)) for about in formats]
    if rows and not canaries.natural:
        formats = noting_cuts(questions, tested, formats)
    if canaries.natural:
        results = {k: replace(found, natural=not found.control) for k, found in results.items()}
    return tuple(results[c.id] for c in canaries), tuple(formats)


def _measured_format(question: Question, results: dict[str, CanaryResult]) -> FormatResult:
    """The result of one format; those of its canaries are added to `results`, by id."""
    began, format = time.perf_counter(), question.format
    format.check_prefix_free()
    check_kept_apart(format, question.encoder)
    method, cost = choose(question)
    kept = [question.series(name) or () for name in ("", "-rank")]
    earlier = sum(piece.state["seconds"] for series in kept for piece in series)
    found = method.measure(question, cost)
    check_exposures(found.exposures, p_values=method.has_p_values, where=method.name)
    beside, fit = found.beside or (None, None)
    if beside is None and method.whole_rows:
        with suppress(EstimationError):  # the estimate only stands beside the exposures
            beside, fit = found.curve(question, cost.sizes.noise_bits)
    context = found.canaries.context_bits
    for i, canary in enumerate(question.canaries):
        results[canary.id] = CanaryResult(
            id=canary.id,
            format=question.number,
            repetitions=canary.repetitions,
            px_bits=float(found.canaries.px_bits[i]),
            context_bits=None if context is None else float(context[i]),
            exposure=found.exposures[i],
            skew_normal=None if beside is None else beside[i],
        )
    return FormatResult(
        format=format.text,
        masked=format.masked,
        space_size=format.size,
        method=found.method,
        reason=cost.reason + found.done,
        histogram=found.histogram,
        skew_normal=fit,
        candidates=found.candidates,
        draws=found.draws,
        queries=found.queries,
        tokens=cost.sizes.tokens,
        noise_bits=cost.sizes.noise_bits,
        certificate=cost.certificate,
        seconds=time.perf_counter() - began + earlier,
        notes=(*question.notes(), *found.notes),
    )
