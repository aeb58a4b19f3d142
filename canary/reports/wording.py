"""Facts, settings, versions and groups of canaries as words and cells."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from canary.audits.audit_result import FormatResult, largest_bits, median_bits, smallest_bits
from canary.records.validation import versions
from canary.statistics.exposures import ENUMERATION, RANK, UNIFORM_DRAWS, Exposure
from canary.statistics.extrapolation import SkewNormalFit
from canary.statistics.numbers import bits, count, plural

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


def format_facts(priced: FormatResult) -> dict[str, str]:
    """How the candidates of a format were priced: name of a fact, and what it says."""
    space_bits = bits(math.log2(priced.space_size))
    return {
        "Format": priced.format,
        "Possible secrets": f"{count(priced.space_size)} ({space_bits} bits)",
        "Method": priced.method,
        "Why this method": priced.reason,
        "Candidates priced": count(priced.candidates),
        "Uniform draws among them": "none" if priced.draws is None else count(priced.draws),
        "Every candidate counted once": _completeness(priced),
        "Queries": f"{count(priced.queries)} tokens computed",
        "Longest candidate": plural(priced.tokens, "token"),
        "Noise of the arithmetic": f"{priced.noise_bits:.2g} bits for a whole candidate",
        "Skew-normal curve": _curve(priced.skew_normal),
        "Time": f"{priced.seconds:,.1f} s",
    }


def _completeness(priced: FormatResult) -> str:
    """How it is known that no candidate was left out or counted twice."""
    if priced.method == UNIFORM_DRAWS:
        return "not needed: the draws are random candidates"
    certified, _, how = (priced.certificate or "").partition(": ")
    if certified == "certified":
        return f"yes: {how}"
    if certified == "not certified":
        return f"very likely: {how}"
    return priced.certificate or "not recorded"


def _curve(fit: SkewNormalFit | None) -> str:
    if fit is None:
        return "none: none could be fitted"
    curve = fit.curve
    shape = f"{curve.shape:.3g}" if math.isfinite(curve.shape) else "infinite (half-normal)"
    return (
        f"mean {curve.mean_bits:.2f} bits, standard deviation {curve.sd_bits:.2f} bits, shape "
        f"{shape}; fitted to {count(fit.fitted)} draws, tested on {count(fit.tested)} others"
    )
