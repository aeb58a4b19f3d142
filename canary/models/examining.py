"""Whether a model's numbers can be believed, found out when it is first used.

`canary.load` runs the checks that take few queries on every adapter that is not canary's own,
and refuses what fails; `canary doctor` shows all of them, for any model.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from canary.errors import ModelError
from canary.models.answered import under_watch
from canary.models.experiments import TWICE, examined
from canary.models.finding import Finding
from canary.models.language_model import LanguageModel
from canary.models.whole_reading import reading

__all__ = ["believed", "notes_on_model", "notes_on_reading"]

_MOST_ROWS = 1 << 16
"""Rows that a load may take to add up one distribution, where each token is a row of its own."""

_examined: dict[int, tuple[weakref.ref[Any], str, tuple[str, ...]]] = {}
"""By the identity of an adapter: the adapter, its fingerprint, and the notes on it."""


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
        _refuse_if(TWICE.of(under_watch(model)), model)
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


def notes_on_reading(
    model: LanguageModel, *, tokens: Callable[[], int], start_token: str | None
) -> tuple[str, ...]:
    """What `canary.models.whole_reading` leaves open of an adapter that is not canary's own.

    `tokens` gives how many the longest candidate has.

    Raises
    ------
    ModelError
        If it does not price rows of so many tokens, or leaves the start token out.
    """
    if _is_own(model):
        return ()
    findings = reading(under_watch(model), tokens=tokens(), start_token=start_token)
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
        raise ModelError(
            f"is not true of this adapter: {finding.check} ({finding.figure})",
            cure=f"{finding.cure}; canary.doctor(model) shows all checks",
            where=type(model).__name__,
        )
