"""Whether a model's numbers can be believed: what experiments find, refused or noted.

`canary.load` runs those that take few queries on every adapter that is not canary's own, and
refuses what fails; `canary doctor` shows all of them, for any model.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from canary.errors import ModelError, OutOfMemory, ServerError
from canary.models import experiments
from canary.models.answered import under_watch
from canary.models.conformance import (
    CHECKS,
    TOKENS,
    WHOLE_VOCABULARY,
    DeviationError,
    asked_twice,
    worst_nats,
)
from canary.models.experiments import NOISE_CURE, Finding, fine, refused, unchecked
from canary.models.language_model import LanguageModel
from canary.models.noise import rounding
from canary.models.table_model import TableModel
from canary.models.ties import ties
from canary.statistics.number_checks import LN2

TOKENS_BY_DEFAULT = 256
"""Tokens of the long rows of `canary doctor`, where the model takes so many."""

_EARLY = 3  # checks of conformance that explain what the others find
_FEWEST = 5  # tokens that the checks of conformance name
_MOST_ROWS = 1 << 16  # that a load may take to add up one distribution, a row for each token
_SHIFTED = "does not depend on the token right before it"
_TWICE = ". Its logits are probably shifted twice: "
_WALK = "see the check of this name in canary.models.conformance"
_CURES = {
    "asked_twice": "put the model into evaluation mode (module.eval()): dropout is probably on",
    "batch_size_does_not_matter": "mask the padding, or pad on the right, put the model into "
    "evaluation mode, and keep nothing in the module between calls",
    "later_tokens_do_not_matter": "give a causal model, and look up each token in the logits of "
    "the place before it",
}

_examined: dict[int, tuple[weakref.ref[Any], str, tuple[str, ...]]] = {}
"""By the identity of an adapter: the adapter, its fingerprint, and the notes on it."""


def finding_of(says: str, experiment: Callable[..., Finding], *given: Any) -> Finding:
    """What an experiment shows of something that ought to hold; what is raised is a refusal."""
    try:
        finding = experiment(*given)
    except OutOfMemory:
        finding = unchecked("memory ran out")
    except ServerError:
        raise
    except ModelError as error:
        place = f"{error.where}: " if error.where else ""
        finding = refused(f"{place}{error.problem}", error.cure, error)
    except Exception as error:  # the adapter is the caller's own code
        reason = (str(error).strip().splitlines() or [""])[0]
        finding = refused(f"it raised {type(error).__name__}: {reason}", "mend the adapter")
    return replace(finding, check=says)


def believed(model: LanguageModel) -> None:
    """Refuse an adapter that is not canary's own if its numbers cannot be right.

    It is examined once for each object and fingerprint; later only whether a row costs the
    same twice is asked again, since dropout can be switched on at any time.

    Raises
    ------
    ModelError
        It names the check, what was found, and the cure.
    """
    if _is_own(model):
        return
    if _known(model) is not None:
        _refuse_if(_conformance(asked_twice, under_watch(model)), model)
        return
    notes = tuple(_notes(examined(model, most_rows=_MOST_ROWS), model))
    number = id(model)
    try:
        reference = weakref.ref(model, lambda _: _examined.pop(number, None))
    except TypeError:  # it has slots and no place for references: examined each time
        return
    _examined[number] = reference, model.facts.fingerprint, notes


def notes_on_model(model: LanguageModel) -> tuple[str, ...]:
    """What examining an adapter left open, for the notes of an audit; empty for canary's own."""
    return _known(model) or ()


def note_on_shift(model: LanguageModel) -> str | None:
    """That no token's score depends on the token right before it, though on the one before that.

    Of a few random rows. A unigram model shows neither. None for served models and tables.
    """
    if model.facts.device == "served" or isinstance(model, TableModel):
        return None
    try:
        finding = experiments.shift(model)
    except OutOfMemory:
        return None
    if finding.verdict != "refused":
        return None
    return (
        f"In the model {model.facts.name!r} a token's score {_SHIFTED} ({finding.figure}){_TWICE}"
        f"{finding.cure}. Run canary doctor: until this is mended, the exposures say nothing."
    )


def shifted(notes: Iterable[str]) -> dict[str, str]:
    """The notes of a result that `note_on_shift` gave, each with what it found."""
    return {note: note.partition(_TWICE)[0] for note in notes if _SHIFTED in note}


def notes_on_reading(
    model: LanguageModel, *, tokens: Callable[[], int], start_token: str | None
) -> tuple[str, ...]:
    """What `reading` leaves open of an adapter; of canary's own `note_on_shift` alone.

    `tokens` gives how many the longest candidate has. A ModelError if it does not price rows of
    that length, or leaves the start token out.
    """
    if _is_own(model):
        return tuple(filter(None, [note_on_shift(model)]))
    findings = reading(model, tokens=tokens(), start_token=start_token)
    return tuple(_notes((f for f in findings if f.verdict != "not checked"), model))


def _is_own(model: LanguageModel) -> bool:
    return type(model).__module__.partition(".")[0] == "canary"


def _known(model: LanguageModel) -> tuple[str, ...] | None:
    reference, fingerprint, notes = _examined.get(id(model), (None, "", ()))
    if reference is None or reference() is not model or fingerprint != model.facts.fingerprint:
        return None
    return notes


def _notes(findings: Iterable[Finding], model: LanguageModel) -> Iterator[str]:
    """A note for each finding that leaves something open; a refusal is raised."""
    for finding in findings:
        _refuse_if(finding, model)
        if finding.verdict == "not checked":
            yield (
                f"Of the model {model.facts.name!r} it is not known whether "
                f"{finding.check}: {finding.figure}."
            )
        elif finding.verdict == "noted":
            cure = f" {finding.cure[0].upper()}{finding.cure[1:]}." if finding.cure else ""
            yield f"The model {model.facts.name!r}: {finding.figure}.{cure}"


def _refuse_if(finding: Finding, model: LanguageModel) -> None:
    if finding.error is not None:
        raise finding.error
    if finding.verdict == "refused":
        problem = f"is not true of this adapter: {finding.check} ({finding.figure})"
        cure = f"{finding.cure}; canary.doctor(model) shows all checks"
        raise ModelError(problem, cure=cure, where=type(model).__name__)


def examined(model: LanguageModel, *, most_rows: int | None = None) -> Iterator[Finding]:
    """Every experiment on a model's arithmetic, one after the other.

    Adding up one distribution may take `most_rows`; as many as there are tokens unless given.
    """
    watched = under_watch(model)
    yield finding_of("its facts fit its tokenizer", experiments.facts, watched)
    for check in CHECKS[:_EARLY]:
        yield _conformance(check, watched, most_rows)
    says = "a token's score depends on the token right before it"
    yield finding_of(says, experiments.shift, watched)
    says = "the probabilities of all next tokens sum to 1"
    yield finding_of(says, experiments.sums, watched, most_rows)
    says = "next tokens differ in probability, and with the text before them"
    yield finding_of(says, experiments.varies, watched)
    says = "next tokens have probabilities of their own, neither cut off nor rounded"
    yield finding_of(says, ties, watched)
    for check in CHECKS[_EARLY:]:
        yield _conformance(check, watched, most_rows)


def reading(
    model: LanguageModel, *, tokens: int, start_token: str | None = None
) -> Iterator[Finding]:
    """Findings on rows of `tokens` tokens, and on start tokens; one that is named must matter."""
    watched = under_watch(model)
    length = min(tokens, model.facts.length_limit or tokens)
    if length > TOKENS:
        says = f"each token of a row of {length} has a score of its own"
        yield finding_of(says, experiments.prices, watched, length)
        says = f"the last token of a row of {length} depends on the tokens before it"
        yield finding_of(says, experiments.window, watched, length)
    says = "a start token changes what comes after it"
    yield finding_of(says, experiments.starts, watched, start_token)


def _conformance(
    check: Callable[[LanguageModel], None], model: LanguageModel, most_rows: int | None = None
) -> Finding:
    """What a check of conformance shows; its docstring says what ought to hold."""
    says = (check.__doc__ or check.__name__).strip().splitlines()[0].rstrip(".")
    return finding_of(says[0].lower() + says[1:], _conforms, check, model, most_rows)


def _conforms(
    check: Callable[[LanguageModel], None], model: LanguageModel, most_rows: int | None
) -> Finding:
    limit = model.facts.length_limit
    if limit is not None and limit < TOKENS and check is not asked_twice:
        return unchecked(f"it takes {limit} tokens, {TOKENS} are needed")
    if model.facts.vocabulary < _FEWEST:
        return unchecked(f"it has fewer than {_FEWEST} tokens")
    if check in WHOLE_VOCABULARY and not experiments.cheap(model, most_rows):
        return unchecked("each token would be a row of its own")
    try:
        return fine(f"within {worst_nats(check, model) / LN2:.2g} bits")
    except AssertionError as error:
        reason = (str(error) or "it does not").splitlines()[0]
        # Rounding that was not declared is another fault than a wrong number.
        if isinstance(error, DeviationError) and error.nats <= rounding(model.facts):
            return refused(reason, NOISE_CURE)
        return refused(reason, _CURES.get(check.__name__, _WALK))
