"""Facts, settings, versions and groups of canaries as words and cells."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from canary.audits.audit_result import largest_bits, median_bits, smallest_bits
from canary.records.versions import versions
from canary.statistics.exposure_result import ENUMERATION, RANK, Exposure
from canary.statistics.numbers import count

__all__ = [
    "EXPOSURE_COLUMNS",
    "bound_or_bits",
    "copies_cell",
    "exposure_cells",
    "facts_in_words",
    "percent",
    "settings_in_words",
    "software",
]

EXPOSURE_COLUMNS = ("Copies", "Canaries", "Median", "Smallest", "Largest")
"""Of `exposure_cells`."""

_Words = Callable[[Any], str]


def exposure_cells(
    repetitions: int, exposures: Sequence[Exposure], *, controls: str = "0 (controls)"
) -> tuple[str, ...]:
    """Of the canaries of one number of copies: that, their number, median, least and most."""
    values = (measure(exposures) for measure in (median_bits, smallest_bits, largest_bits))
    cells = (bound_or_bits(*value) for value in values)
    return copies_cell(repetitions, controls), count(len(exposures)), *cells


def bound_or_bits(bits: float, bound: bool) -> str:  # noqa: FBT001 - what median_bits returns
    """Bits with two decimals, marked where they are only a lower bound."""
    return f"{'≥ ' if bound else ''}{bits:z.2f}"


def copies_cell(repetitions: int, controls: str = "0 (controls)") -> str:
    """The number of copies; controls are called so."""
    return count(repetitions) if repetitions else controls


def percent(share: float) -> str:
    """``95 %``, in one piece."""
    return f"{100 * share:g}\N{NO-BREAK SPACE}%"


def software() -> str:
    """Names and versions of what the numbers were made with, in one line."""
    return _software(versions())


def facts_in_words(facts: Mapping[str, Any]) -> dict[str, str]:
    """What is known of the model: name of a fact, and what it says.

    Facts that this version does not know are shown as they are.
    """
    return _worded(facts, _FACTS)


def settings_in_words(settings: Mapping[str, Any]) -> dict[str, str]:
    """What an audit was asked for, and what stood before each candidate.

    Settings that this version does not know are shown as they are.
    """
    return _worded(settings, _SETTINGS)


def _worded(given: Mapping[str, Any], known: Mapping[str, tuple[str, _Words]]) -> dict[str, str]:
    found = {}
    # Those that are known come in the order of their table, whatever wrote them.
    for name in (*(n for n in known if n in given), *(n for n in given if n not in known)):
        title, words = known.get(name, (name.replace("_", " "), _shown))
        found[title] = words(given[name])
    return found


def _shown(value: Any) -> str:
    """A value as text; the template escapes it."""
    if value is None or value == "":
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, int):
        return str(value)  # a seed is copied, not read: no thousands separators
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_shown, value)) or "none"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _number(value: Any) -> str:
    return count(value) if type(value) is int else _shown(value)


def _or(empty: str) -> _Words:
    return lambda value: empty if value in (None, "") else _number(value)


def _method(value: Any) -> str:
    return {
        "auto": "exact ranks where the budget allows them, draws elsewhere",
        RANK: "ranks by branch and bound, as was asked for",
        "sampling": "uniform draws, as was asked for",
        "importance": "importance draws, as was asked for",
        ENUMERATION: "enumeration, as was asked for",
    }.get(str(value)) or _shown(value)


def _start(value: Any) -> str:
    if value in (None, ""):
        return (
            "nothing but what the tokenizer adds by itself (no start token was named); if "
            "training put another one before each text, the numbers may be too low"
        )
    return f"the start token {json.dumps(_shown(value), ensure_ascii=False)}"


def _context(value: Any) -> str:
    if value in (None, ""):
        return "none"
    return json.dumps(_shown(value), ensure_ascii=False)


def _offers(value: Any) -> str:
    words = {
        "score": "whole texts",
        "expand": "next tokens below a beginning",
        "reuse": "continued from states that it keeps",
        "share": "many at a time below one copy of the context",
    }
    if not isinstance(value, (list, tuple)):
        return _shown(value)
    return ", ".join(words.get(str(one), str(one)) for one in value) or "none"


def _software(value: Any) -> str:
    """Names and versions of what numbers were made with, in one line."""
    if not isinstance(value, Mapping):
        return _shown(value)
    names = {"python": "Python", "canary-lm": "canary"}
    return ", ".join(f"{names.get(str(k), str(k))} {_shown(v)}" for k, v in value.items())


def _share(value: Any) -> str:
    return f"{100 * value:.3g} %" if isinstance(value, (int, float)) else "without limit"


_FACTS: dict[str, tuple[str, _Words]] = {
    "name": ("Name", _shown),
    "vocabulary": ("Tokens in its vocabulary", _number),
    "length_limit": ("Longest text, in tokens", _or("no limit")),
    "dtype": ("Arithmetic", _shown),
    "attention": ("Attention", _shown),
    "device": ("Device", _shown),
    "fingerprint": ("Fingerprint (SHA-256)", _shown),
    "noise_bits_per_token": ("Noise of the arithmetic, bits per token", _shown),
    "capabilities": ("Gives probabilities of", _offers),
}

_SETTINGS: dict[str, tuple[str, _Words]] = {
    "start_token": ("Before each candidate", _start),
    "context": ("Text before each candidate", _context),
    "canaries_in_corpus": (
        "Canaries in the corpus",
        lambda value: "no, none was put in" if value is False else _shown(value),
    ),
    "method": ("Method", _method),
    "budget": ("Most queries for the ranks of a format", _number),
    "draws": ("Uniform draws of each format", _number),
    "seed": ("Seed of the draws (not of the canaries)", _shown),
    "batch_size": ("Batch size", _or("found by trial")),
    "model_arguments": ("Model on the command line", _shown),
    "every": ("Measured every so many steps", _shown),
    "steps": ("And at the steps", _shown),
    "share": ("Most of the training's time", _share),
    "stop_above_bits": ("Stops above, in bits", _or("never")),
    "versions": ("Software", _software),
}
