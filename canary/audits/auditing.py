"""Exposure of a set of canaries under a model, and what all of them say together."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import numpy as np

from canary.audits.audit_result import CANARY_SET, Audit, CanaryResult, noted
from canary.audits.bounded_exposure import exposures_between, gives_bounds
from canary.audits.candidate_scorer import Below
from canary.audits.combining import combined_p
from canary.audits.measurement import Auditor
from canary.audits.rivals import with_rivals
from canary.audits.settings import METHODS, Settings
from canary.audits.start_notes import StartChoice
from canary.audits.start_search import check_start_texts, start_for
from canary.corpus.canaries import Canary, CanarySet, canary_set
from canary.errors import InputError, UnsupportedError
from canary.formats.format import Format
from canary.models.language_model import LanguageModel
from canary.models.loading import load
from canary.records.sealing import sealed
from canary.records.shards import open_run
from canary.records.validation import AUTO, function
from canary.scoring.batcher import Stage
from canary.scoring.identity import identity_of
from canary.statistics.exposure_result import SKEW_NORMAL

__all__ = ["audit", "exposure", "exposure_and_notes"]

# Keeps the controls apart from what else is drawn from the same seed.
_CONTROLS_STREAM = 0x6374726C
_CONTROLS = 16  # of each format, for natural secrets, which bring none


@sealed
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
    stage: Stage | None = None,
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
        There is always one; 10**18, say, for none that is felt. Queries (tokens computed
        below the context) that enumeration, or branch and bound
        together with importance draws, may take per format. The canaries and the uniform
        draws are priced besides, one query per token at most; branch and bound and importance draws
        count the canaries' own paths, but walk them whatever the budget.
    draws : int
        Candidates drawn per format. Where it is enumerated they are a part of what is
        priced anyway, and only the skew-normal curve is fitted to them. With ``rank`` they
        serve the curve and the histogram only, and are priced all the same.
    seed : int
        Of the draws.
    start_token : str, optional
        What stood before each text in training, where the tokenizer puts nothing there: the
        name of a token, or None (or ``"none"``) for nothing. ``"auto"`` takes the one after
        which text without secrets is most likely.
    start_texts : sequence of str, optional
        Training texts without a canary, for ``"auto"`` to choose by.
    context : str
        Text before every candidate; see `canary.tokens.candidates.CandidateEncoder`.
    batch_size : int, optional
        Found by trial unless given; changes results within the model's noise only.
    stage : callable, optional
        For progress, in tokens; see `canary.scoring.batcher.Stage`.

    Returns
    -------
    tuple of CanaryResult
        Of a served model that tells only the likeliest next tokens, certain intervals by
        branch and bound, with log-perplexities below the context (`exposures_between`).

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
    return exposure_and_notes(
        model,
        canaries,
        method=method,
        budget=budget,
        draws=draws,
        seed=seed,
        start_token=start_token,
        start_texts=start_texts,
        context=context,
        batch_size=batch_size,
        stage=stage,
    )[0]


@sealed
def exposure_and_notes(
    model: Any,
    canaries: CanarySet,
    *,
    method: str,
    budget: int,
    draws: int,
    seed: int,
    start_token: str | None,
    start_texts: Sequence[str] | None,
    context: str,
    batch_size: int | None,
    stage: Stage | None,
) -> tuple[tuple[CanaryResult, ...], tuple[str, ...], StartChoice]:
    """`exposure`, what its reader must know before the numbers (`Audit.notes`), and `Audit.start`.

    The notes are those of the start token, too.
    """
    settings = Settings(method, budget, draws, seed, start_token, context, batch_size)
    canary_set(canaries)
    function(stage, "stage")
    texts = check_start_texts(start_texts, canaries)
    seam = load(model)
    settings, start = _started(seam, settings, canaries, texts, stage)
    if gives_bounds(seam):
        results, notes = exposures_between(seam, canaries, settings, stage)
    else:
        results, formats = Auditor.of(seam, settings, stage).measure(canaries)
        notes = noted(formats)
    return results, (*start.notes, *notes), start


@sealed
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
    stage: Stage | None = None,
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
    was killed goes on when it is called again in the same way. Of branch and bound only
    the end is kept: a walk that was stopped begins anew. They hold log-perplexities,
    counts and ordinal numbers, no fill and no text, readable by their owner only; whoever
    also has the model can find a fill by its log-perplexity, as in the audit itself. They
    stay when the audit is done; remove the folder once its result is saved.

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
    if isinstance(method, str) and method == SKEW_NORMAL:
        raise InputError(
            "the skew-normal estimate has no p-value, and an audit rests on p-values",
            cure=f"use one of {', '.join(METHODS)}; the estimate stands beside each exposure",
        )
    settings = Settings(method, budget, draws, seed, start_token, context, batch_size)
    canary_set(canaries)
    function(stage, "stage")
    texts = check_start_texts(start_texts, canaries)
    seam = load(model)
    if gives_bounds(seam):
        raise UnsupportedError(
            "an audit prices draws, and the server of this model tells only the likeliest next "
            "tokens",
            cure="use canary exposure and canary extract, which give bounds",
        )
    if canaries.natural:
        canaries = _with_controls(canaries, settings.seed)
    settings, start = _started(seam, settings, canaries, texts, stage)
    held = nullcontext() if parts is None else open_run(parts, _identity(seam, settings, canaries))
    with held as run:
        results, formats = Auditor.of(seam, settings, stage, run).measure(canaries)
    return Audit(
        canaries=results,
        formats=formats,
        injected_p=None if canaries.natural else combined_p([c for c in results if not c.control]),
        controls_p=combined_p([c for c in results if c.control]),
        model=seam.facts.to_dict(),
        # Not the seed of the canaries: with the format it gives their fills.
        settings={**settings.to_dict(), CANARY_SET: canaries.fingerprint},
        start=start,
    )


def _started(
    model: LanguageModel,
    settings: Settings,
    canaries: CanarySet,
    texts: Sequence[str] | None,
    stage: Stage | None,
) -> tuple[Settings, StartChoice]:
    """The settings with the start token that is meant, and why it is."""
    running: dict[str, Any] = {
        "context": settings.context,
        "batch_size": settings.batch_size,
        "stage": stage,
    }
    start = start_for(model, canaries.formats, settings.start_token, texts=texts, **running)
    below = Below.of(model, start_token=start.token, **running)
    start = with_rivals(below, canaries, start, draws=settings.draws, seed=settings.seed)
    return replace(settings, start_token=start.token), start


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


def _identity(model: LanguageModel, settings: Settings, canaries: CanarySet) -> dict[str, Any]:
    """What makes two audits the same; of the canaries only what is no secret.

    That the fills are the same is seen by their log-perplexities, in the shards.
    """
    asked = {name: getattr(settings, name) for name in settings.__dataclass_fields__}
    del asked["batch_size"]  # moves numbers within the noise only
    return {
        "task": "audit",
        **identity_of(model),
        **{name.replace("_", " "): value for name, value in asked.items()},
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
