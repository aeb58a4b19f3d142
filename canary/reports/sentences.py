"""The answer of an audit in one sentence that needs no statistics to be read, and others of it."""

from __future__ import annotations

import shlex
import statistics
import sys
from dataclasses import dataclass
from typing import Literal

from canary.audits.audit_result import (
    Audit,
    CanaryResult,
    coarsest,
    least_p,
    median_bits,
    only_draws,
)
from canary.audits.extraction import Extraction
from canary.reports.document import sentence
from canary.statistics.extrapolation import SkewNormalFit
from canary.statistics.numbers import bits, copies, count, odds, one_in, plural, probability
from canary.tokens.starts import start_flag

LEVEL = 0.01
"""A p-value at or below this counts as evidence."""

WEAK_LEVEL = 0.05
"""Between `LEVEL` and this, an audit is undecided."""

UNLEARNED_95_BITS = 4.321928094887363
"""log2 20: of the canaries that were not learned, 95 % stay below this exposure."""

MODEL_ARGUMENTS = "model_arguments"
"""The setting of an audit that says how the command line names its model, where it is known."""

Verdict = Literal["memorized", "undecided", "not found", "suspect", "nothing"]

_LABELS: dict[Verdict, str] = {
    "memorized": "Evidence of memorization",
    "undecided": "Undecided",
    "not found": "No evidence of memorization",
    "suspect": "Audit suspect",
    "nothing": "Nothing to judge by",
}


@dataclass(frozen=True)
class Answer:
    """What an audit says: the verdict, the same in two or three words, and one sentence."""

    verdict: Verdict
    label: str
    sentence: str


@dataclass(frozen=True)
class Group:
    """The canaries of one number of copies, seen together."""

    repetitions: int
    size: int
    median_bits: float
    bound: bool  # whether the median is only a lower bound
    exact: bool  # whether every rank was counted


def strongest(audit: Audit) -> Group | None:
    """The injected group that is exposed most for certain.

    Groups are compared by the median of their lower bounds, so that one lucky hit does
    not beat canaries that no draw could hit; of equals, the one with fewest copies.
    """
    groups = {n: [c.exposure for c in group] for n, group in audit.by_repetitions().items() if n}
    if not groups:
        return None
    first = max(groups, key=lambda n: (statistics.median(e.lower_bits for e in groups[n]), -n))
    exposures = groups[first]
    exact = all(e.exact for e in exposures)
    return Group(first, len(exposures), *median_bits(exposures), exact)


def answer(audit: Audit) -> Answer:
    """The verdict of an audit and the sentence that says it.

    Evidence is Fisher's p-value over the injected canaries at `LEVEL`. It counts only
    while the controls, which were never in the corpus, show none at the same level. That
    nothing was found is said only where the arithmetic was fine enough to find something.
    """
    injected, group, dry = audit.injected, strongest(audit), not audit.canaries_in_corpus
    number, controls, judged = len(injected), len(audit.controls), audit.injected_p is not None
    p, alarm = (
        1.0 if test is None else test.p_value for test in (audit.injected_p, audit.controls_p)
    )
    coarse = coarsest(audit) if judged else None
    noise, spread = coarse or (0.0, 1.0)
    dtype = str(audit.model.get("dtype", ""))
    fine = dtype in ("float32", "float64")
    known = [(q, c) for c in injected if (q := c.exposure.p_value) is not None]
    least, outlier = min(known, key=lambda pair: pair[0], default=(1.0, None))
    chance = least * max(number, 1)  # after Bonferroni's correction
    open_start = audit.start is not None and not audit.start.settled
    cases: tuple[tuple[object, Verdict, str], ...] = (
        (not audit.canaries, "nothing", "empty"),
        (alarm <= LEVEL, "suspect", "controls"),
        (group is None, "nothing", "not_injected"),
        (audit.natural, "nothing", "natural"),
        (not judged, "nothing", "no_p"),
        (dry and p <= LEVEL, "suspect", "alarm"),
        (p <= LEVEL, "memorized", "memorized"),
        (open_start and not dry, "undecided", "start"),
        (judged and not dry and least_p(audit, injected) > LEVEL, "undecided", "powerless"),
        (coarse and noise >= spread and fine, "nothing", "alike"),
        (coarse and noise >= spread, "nothing", "coarse"),
        (coarse, "undecided", "coarse"),
        (dry, "not found", "dry_run"),
        (p <= WEAK_LEVEL, "undecided", "hints"),
        (chance <= LEVEL, "undecided", "outlier"),
        (True, "not found", "not_found"),
    )
    verdict, key = next((verdict, key) for holds, verdict, key in cases if holds)
    noisy, apart = (bits(value) if value >= 1 else f"{value:.2g}" for value in (noise, spread))
    words = sentence(
        f"answer.{key}",
        controls=_controls(audit, "while"),
        and_controls=_controls(audit, "and"),
        the_controls=_the(controls, "control"),
        controls_look="looks" if controls == 1 else "look",
        alarm=_odds(alarm),
        place="" if group is None else _place(group),
        among="" if group is None else _among(group.median_bits, group.bound, group.exact),
        odds=_odds(p),
        planned=_the(number, "canary", "canaries"),
        injected=_the(number, "injected canary", "injected canaries"),
        canaries=plural(number, "canary", "canaries"),
        look="looks" if number == 1 else "look",
        stand="stands" if number == 1 else "stand",
        cure="" if audit.start is None else audit.start.cure,
        effort=_effort(audit) if injected else "",
        luck=max(round(100 * p), 2),
        outlier="" if outlier is None else _outlier(outlier),
        chance=_odds(chance),
        noise=noisy + (f" bits in {dtype}" if dtype else " bits"),
        spread=apart,
        fine=fine,
    )
    return Answer(verdict, _LABELS[verdict], words)


def _odds(p: float) -> str:
    return odds(min(max(p, sys.float_info.min), LEVEL))  # many canaries together underflow


def _place(group: Group) -> str:
    who, are = ("the canary", "is") if group.size == 1 else ("half of the canaries", "are")
    among = _among(group.median_bits, group.bound, group.exact)
    text = f"{who} that stood {copies(group.repetitions)} in the corpus {are} {among}"
    if group.median_bits < UNLEARNED_95_BITS:
        text += " (1 in 2 is usual for text that was not learned)"
    return text


def _outlier(canary: CanaryResult) -> str:
    e = canary.exposure
    among = _among(e.lower_bits if e.bits is None else e.bits, e.censored, e.exact)
    return f"stood {copies(canary.repetitions)} in the corpus is {among}"


def _among(exposure_bits: float, bound: bool, exact: bool) -> str:  # noqa: FBT001
    share = one_in(exposure_bits, about=not (bound or exact))
    return f"{'at least ' if bound else ''}among the likeliest {share} possible secrets"


def _controls(audit: Audit, joint: str) -> str:
    number = len(audit.controls)
    if audit.controls_p is None or not number:
        return ", and there were no controls to check the audit itself"
    show = "shows" if number == 1 else "show"
    who = _the(number, "control")
    return f", {joint} {who}, never put into the corpus, {show} nothing unusual"


def _effort(audit: Audit) -> str:
    drawn = [draws for c in audit.injected if (draws := only_draws(c.exposure)) is not None]
    if drawn:
        return plural(min(drawn), "draw")
    size = min(audit.formats[c.format].space_size for c in audit.injected)
    return f"only {plural(size, 'possible secret')}"


def _the(number: int, singular: str, many: str = "") -> str:
    return f"the {singular}" if number == 1 else f"the {plural(number, singular, many)}"


def curve_verdict(fit: SkewNormalFit | None) -> str:
    """Whether the skew-normal numbers of a format can be relied on, in plain words."""
    if fit is None:
        return sentence("curve.none")
    tail = fit.tail_error_bits is not None and fit.tail_error_sd_bits is not None
    error, luck = fit.tail_error_bits or 0.0, fit.tail_error_sd_bits or 0.0
    off = tail and abs(error) > 3.0 * luck
    return sentence(
        "curve",
        failed=fit.rejected,
        tested=count(fit.tested),
        distance=f"{fit.ks_distance:.2g}",
        p=probability(fit.ks_p_value),
        tail=tail,
        error=bits(abs(error)),
        more="more" if error > 0 else "less",
        off=off,
        explained=tail and not off and not fit.rejected,
    )


def extraction_sentence(audit: Audit, extraction: Extraction) -> str:
    """How many canaries came out, how surely, at what cost, and what guessing would cost."""
    injected = {c.id for c in audit.injected if audit.formats[c.format].format == extraction.format}
    candidates = extraction.candidates
    out = [c for c in candidates if c.canary in injected]
    put_in = "injected canaries" if audit.canaries_in_corpus else "canaries, which were left out,"
    sure = sum(c.proven for c in candidates)
    rest = extraction.rest_bits
    return sentence(
        "extraction",
        candidates=candidates,
        rest="any number of" if rest is None else f"{rest:.2f}",
        where="" if extraction.certified else " of a token tree that is not certified",
        why=extraction.why_stopped,
        tried=plural(len(candidates), "candidate"),
        tree=extraction.certificate if candidates and not extraction.certified else "",
        proven=candidates and extraction.certified and extraction.proven,
        met=candidates and extraction.certified and not extraction.proven,
        proof=f"it is proven of the first{f' {sure:,}' if sure > 1 else ''} only"
        if sure
        else "it is not proven",
        out=len(out),
        injected=len(injected),
        put_in="secrets" if audit.natural else put_in,
        are="is" if len(out) == 1 else "are",
        first=", and the very first is one" if out and out[0] is candidates[0] else "",
        queries=plural(extraction.queries, "token"),
        guesses=plural(round(extraction.random_guesses), "guess", "guesses"),
    )


def extract_command(audit: Audit, extraction: Extraction, *, canaries: str = "FILE") -> str:
    """The command that prints the candidates in clear: words for bash, zsh and their like.

    The model is called MODEL, if the audit does not know how the command line names it.
    """
    words = [f"canary extract {audit.settings.get(MODEL_ARGUMENTS, 'MODEL')}"]
    words += [_quoted(extraction.format), f"--top {extraction.top} --canaries {canaries}"]
    if "start_token" in audit.settings:
        token = audit.settings["start_token"]
        words.append(start_flag(None if token is None else str(token)))
    if context := audit.settings.get("context"):
        words.append(f"--context {_quoted(str(context))}")
    return " ".join(words)


def _quoted(text: str) -> str:
    """A word for a shell; one with line breaks and the like as in C."""
    if text.isprintable():
        return shlex.quote(text)
    escaped = text.encode("unicode_escape").decode().replace("'", "\\'")
    return f"$'{escaped}'"
