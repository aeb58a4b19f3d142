"""Exposure of a set of canaries under a model, and what all of them say together."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from typing import Any

import numpy as np

from canary.audits.audit_result import (
    CANARY_SET,
    Audit,
    CanaryResult,
    FormatResult,
    combined_p,
    noted,
)
from canary.audits.by_bounds import Bounds
from canary.audits.by_draws import UniformDraws
from canary.audits.by_enumeration import Enumeration
from canary.audits.by_importance import Importance
from canary.audits.by_rank import Rank, RankAndDraws
from canary.audits.by_skew_normal import SkewNormal
from canary.audits.method import Cost, Method, Unfit
from canary.audits.question import AuditOptions, Question, questions_of
from canary.audits.start_notes import StartChoice
from canary.audits.start_search import started
from canary.corpus.canaries import Canary, CanarySet, canary_set
from canary.errors import EstimationError, InputError, UnsupportedError
from canary.formats.format import Format
from canary.models.english import note_on_english, note_on_vocabulary
from canary.models.examining import notes_on_model, notes_on_reading
from canary.models.language_model import LanguageModel
from canary.models.loading import load
from canary.records.progress import Progress, shows_progress
from canary.records.sealing import sealed
from canary.records.shards import Run, open_run
from canary.records.validation import AUTO, one_of
from canary.registry import Registry
from canary.scoring.batcher import announce
from canary.scoring.run_options import identity_of
from canary.statistics.exposures import check_exposures
from canary.tokens.candidates import check_kept_apart

METHODS: Registry[Method] = Registry("method", group="methods")
"""All methods. Those that answer ``"auto"`` are tried in this order."""

for _method in Rank, Enumeration, RankAndDraws, UniformDraws, Importance, SkewNormal, Bounds:
    METHODS.add(_method.name, _method())

_AUTO = (
    "auto enumerates the whole space where the budget allows, and otherwise samples and ranks "
    "those canaries exactly that the budget allows"
)
_CONTROLS_STREAM = 0x6374726C  # keeps controls apart from what else is drawn from the seed
_CONTROLS = 16  # of each format, for natural secrets, which bring none


@sealed
@shows_progress
def exposure(
    model: Any,
    canaries: CanarySet,
    *,
    method: str = "auto",
    budget: int = 1_000_000,
    draws: int = 20_000,
    seed: int = 0,
    start_token: str | None = AUTO,
    start_texts: Sequence[str] | None = None,
    context: str = "",
    batch_size: int | None = None,
    progress: Progress = None,
) -> tuple[CanaryResult, ...]:
    """Exposure of every canary, in the order of the set.

    Parameters
    ----------
    model : LanguageModel, or what `canary.load` takes
    canaries : CanarySet
    method : {"auto", "rank", "enumeration", "sampling", "importance", "skew-normal"}
        ``auto`` enumerates every candidate of a format where that takes no more than
        `budget` queries. Elsewhere it compares with `draws` uniform draws, and ranks by
        branch and bound, within the budget, the canaries of which the draws leave that
        possible: their exposures are exact. ``rank`` tries that for all, from the
        likeliest on, and gives certain bounds where the budget ends before; draws are
        priced for the curve and the histogram only.
        ``importance`` draws likely candidates more often and weights them: `draws` nodes
        per level of the token tree, within `budget` queries, beside as many uniform draws.
        ``skew-normal`` gives the estimate that otherwise stands beside the exposure as
        the exposure itself; it has no p-value.
    budget : int
        Queries (tokens computed below the context) that enumeration, or branch and bound
        together with importance draws, may take per format; 10**18, say, for no limit that is
        felt. The canaries and the uniform draws are priced besides, one query per token at
        most, and the canaries' own paths are walked whatever the budget.
    draws : int
        Candidates drawn per format. Where it is enumerated they are a part of what is
        priced anyway, and only the skew-normal curve is fitted to them.
    seed : int
        Of the draws.
    start_token, start_texts, context, batch_size, progress
        As of `canary.scoring.run_options.RunOptions`.

    Returns
    -------
    tuple of CanaryResult
        Of a served model that tells only the likeliest next tokens, certain intervals by
        branch and bound, with log-perplexities below the context.

    Raises
    ------
    InputError
        If the method cannot be had within the budget, or a format begins with a hole
        and no token stands before it.
    FormatError
        If a format is not prefix-free.
    EstimationError
        If the skew-normal estimate was asked for and no curve can be fitted.
    UnsupportedError
        If ranks were asked for, and the format has no token tree or the model's states
        cannot be reused.
    ModelError
        If a candidate is too long for the model, cannot be tokenized, or gets NaN.
    """
    options = AuditOptions(
        method=method,
        budget=budget,
        draws=draws,
        seed=seed,
        start_token=start_token,
        start_texts=start_texts,
        context=context,
        batch_size=batch_size,
        progress=progress,
    )
    return exposure_with(model, canaries, options)[0]


@sealed
def exposure_with(
    model: Any, canaries: CanarySet, options: AuditOptions
) -> tuple[tuple[CanaryResult, ...], tuple[str, ...], StartChoice]:
    """`exposure`, what its reader must know before the numbers, and the start token."""
    check_method(options.method)
    canary_set(canaries)
    seam = load(model)
    options, start = started(
        seam, canaries.formats, options, canaries=canaries, draws=options.draws
    )
    results, formats = _measured(seam, canaries, options)
    return results, (*start.notes, *noted(formats)), start


@sealed
@shows_progress
def audit(
    model: Any,
    canaries: CanarySet,
    *,
    method: str = "auto",
    budget: int = 1_000_000,
    draws: int = 20_000,
    seed: int = 0,
    start_token: str | None = AUTO,
    start_texts: Sequence[str] | None = None,
    context: str = "",
    batch_size: int | None = None,
    progress: Progress = None,
    parts: str | os.PathLike[str] | None = None,
) -> Audit:
    """Exposure of every canary, and what all of them say together.

    Parameters and errors are those of `exposure`, except for the method "skew-normal",
    which is refused: an audit rests on p-values. Fisher's method gives one over the
    injected canaries and one over the controls; the latter must look like chance, or the
    audit itself is suspect. The skew-normal estimate stands beside every exposure.

    Natural secrets (`CanarySet.natural`) were not drawn, so no p-value is given for them;
    16 controls are drawn for each of their formats and stand behind them in the result.

    With `parts`, a folder, finished pieces are kept there as they come, and an audit that
    was killed goes on when it is called again in the same way; of branch and bound only
    the end is kept. They hold log-perplexities, counts and ordinal numbers, no fill and no
    text, readable by their owner only; whoever also has the model can find a fill by its
    log-perplexity, as in the audit itself. Remove the folder once the result is saved.

    Raises
    ------
    RecordError
        If the audit in `parts` was begun with another model, canaries or settings.
    OutputError
        If there is no room in `parts`; what is finished is kept.

    References
    ----------
    .. [1] Carlini et al., The Secret Sharer, USENIX Security 2019, sections 4 and 5.
    """
    options = AuditOptions(
        method=method,
        budget=budget,
        draws=draws,
        seed=seed,
        start_token=start_token,
        start_texts=start_texts,
        context=context,
        batch_size=batch_size,
        progress=progress,
    )
    check_method(options.method, p_values=True)
    canary_set(canaries)
    seam = load(model)
    if "score" not in seam.facts.capabilities:
        raise UnsupportedError(
            "an audit prices draws, and the server of this model tells only the likeliest next "
            "tokens",
            cure="use canary exposure and canary extract, which give bounds",
        )
    if canaries.natural:
        canaries = _with_controls(canaries, options.seed)
    options, start = started(
        seam, canaries.formats, options, canaries=canaries, draws=options.draws
    )
    held = nullcontext() if parts is None else open_run(parts, _identity(seam, options, canaries))
    with held as run:
        results, formats = _measured(seam, canaries, options, run)
    return Audit(
        canaries=results,
        formats=formats,
        injected_p=None if canaries.natural else combined_p([c for c in results if not c.control]),
        controls_p=combined_p([c for c in results if c.control]),
        model=seam.facts.to_dict(),
        # Not the seed of the canaries: with the format it gives their fills.
        settings={**options.to_dict(), CANARY_SET: canaries.fingerprint},
        start=start,
    )


def method_names(*, p_values: bool = False) -> tuple[str, ...]:
    """What the user may ask for; with `p_values`, only what an audit can rest on."""
    able = _able(p_values=p_values)
    return tuple(dict.fromkeys(["auto", *(name for m in able for name in m.answers)]))


def method_help(*, p_values: bool = False) -> str:
    """What the methods of `method_names` do, in clauses."""
    return "; ".join([_AUTO, *(m.help for m in _able(p_values=p_values) if m.help)])


def _able(*, p_values: bool) -> list[Method]:
    return [m for m in METHODS.values() if m.has_p_values or not p_values]


def check_method(name: str, *, p_values: bool = False) -> None:
    """Refuse a method that does not exist, or that an audit cannot rest on."""
    one_of(name, "method", method_names())
    serving = method_names(p_values=p_values)
    if name not in serving:
        raise InputError(
            f"the {name} estimate has no p-value, and an audit rests on p-values",
            cure=f"use one of {', '.join(serving)}; the estimate stands beside each exposure",
        )


def choose(question: Question) -> tuple[Method, Cost]:
    """The first method that answers what was asked and can be had, or the first's error."""
    asked = question.options.method
    unfit: list[Unfit] = []
    for method in METHODS.values():
        if asked not in method.answers or method.whole_rows != question.prices_rows:
            continue
        cost = method.cost(question)
        if isinstance(cost, Cost):  # that the first cannot be had is why this one is taken
            return method, replace(cost, reason=unfit[0].reason) if unfit else cost
        unfit.append(cost)
    if unfit:
        raise unfit[0].error
    raise UnsupportedError(
        f"the method {asked!r} prices whole candidates, and the server of "
        f"{question.model.facts.name!r} tells only the likeliest next tokens",
        cure="use --method rank, which gives bounds",
    )


def _measured(
    model: LanguageModel, canaries: CanarySet, options: AuditOptions, run: Run | None = None
) -> tuple[tuple[CanaryResult, ...], tuple[FormatResult, ...]]:
    """Results of all canaries in the order of the set, and of all formats."""
    questions = questions_of(model, canaries, options, run)
    rows = any(question.prices_rows for question in questions)
    announce(
        model,
        lambda: sum(choose(question)[1].rows for question in questions),
        at_most=0 if rows else options.budget * len(questions),
    )
    on_model: tuple[str, ...] = ()  # notes, whatever the format
    if rows:
        read = notes_on_reading(
            model,
            tokens=lambda: max(question.sizes().tokens for question in questions),
            start_token=questions[0].encoder.start_token,
        )
        of_text = (note_on_vocabulary(model), note_on_english(model))
        on_model = (*notes_on_model(model), *read, *filter(None, of_text))
    results: dict[str, CanaryResult] = {}
    formats = []
    for question in questions:
        about = _measured_format(question, results)
        formats.append(replace(about, notes=(*about.notes, *on_model)))
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
        notes=question.notes(),
    )


def _with_controls(canaries: CanarySet, seed: int) -> CanarySet:
    """Natural secrets with controls behind them, drawn from the rest of each space."""
    controls: list[Canary] = []
    for number, format in enumerate(canaries.formats):
        taken = {c.fill for c in canaries if c.format == number}
        rng = np.random.default_rng([_CONTROLS_STREAM, seed, number])
        drawn = format.sample(min(_CONTROLS + len(taken), format.size), rng=rng)
        free = [fill for fill in drawn if fill not in taken][:_CONTROLS]
        first = len(canaries.controls) + len(controls) + 1
        controls += [
            Canary(f"control-{at}", number, fill, 0) for at, fill in enumerate(free, first)
        ]
    return replace(canaries, canaries=(*canaries.canaries, *controls))


def _identity(model: LanguageModel, options: AuditOptions, canaries: CanarySet) -> dict[str, Any]:
    """What makes two audits the same; of the canaries only what is no secret.

    That the fills are the same is seen by their log-perplexities, in the shards.
    """
    return {
        "task": "audit",
        **identity_of(model),
        **{name.replace("_", " "): value for name, value in options.asked().items()},
        "list of formats": [format.text for format in canaries.formats],
        "set of fills": [_digest_of_space(format) for format in canaries.formats],
        "set of canaries": [[c.id, c.format, c.repetitions] for c in canaries],
    }


def _digest_of_space(format: Format) -> str:
    """SHA-256 of all fills together: word lists and registered kinds are not in the text."""
    automaton, digest = format.automaton, hashlib.sha256()
    for part in (automaton.offsets, automaton.targets, automaton.final):
        digest.update(np.ascontiguousarray(part).data)
    digest.update("\0".join(automaton.chars).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()
