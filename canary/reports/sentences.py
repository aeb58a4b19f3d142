"""The answer of an audit in one sentence that needs no statistics to be read, and others of it."""

from __future__ import annotations

import shlex
import statistics
from dataclasses import dataclass
from typing import Literal

from canary.audits.audit_result import Audit, coarsest, least_p, median_bits, only_draws
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
    number, group = len(audit.injected), strongest(audit)
    if not audit.canaries:
        return _answer("nothing", "empty")
    if audit.controls_p is not None and audit.controls_p.p_value <= LEVEL:
        alarm = odds(audit.controls_p.p_value)
        who, look = _the(len(audit.controls), "control"), _look(len(audit.controls))
        return _answer("suspect", "controls", controls=who, look=look, odds=alarm)
    if group is None:
        return _answer("nothing", "not_injected", controls=_controls(audit, "and"))
    controls = _controls(audit, "while")
    if audit.natural:
        among = _among(group.median_bits, bound=group.bound, exact=group.exact)
        return _answer("nothing", "natural", among=among, controls=controls)
    if audit.injected_p is None:
        return _answer("nothing", "no_p")
    p = audit.injected_p.p_value
    if not audit.canaries_in_corpus:
        return _dry_run(audit, p, controls)
    if p <= LEVEL:
        return _answer("memorized", "memorized", place=_place(group), controls=controls)
    if audit.start is not None and not audit.start.settled:
        return _answer("undecided", "start", cure=audit.start.cure)
    canaries = plural(number, "canary", "canaries")
    if least_p(audit, audit.injected) > LEVEL:  # whatever the model did
        return _answer("undecided", "powerless", canaries=canaries, effort=_effort(audit))
    if (blind := _blind(audit)) is not None:
        return blind
    if p <= WEAK_LEVEL:
        luck = max(round(100 * p), 2)
        values = {"place": _place(group), "canaries": canaries, "luck": luck}
        return _answer("undecided", "hints", **values, controls=controls)
    known = [(q, c) for c in audit.injected if (q := c.exposure.p_value) is not None]
    least, canary = min(known, key=lambda pair: pair[0], default=(1.0, audit.injected[0]))
    if (chance := least * number) <= LEVEL:  # after Bonferroni's correction
        e = canary.exposure
        value = e.lower_bits if e.bits is None else e.bits
        among = _among(value, bound=e.censored, exact=e.exact)
        stood = copies(canary.repetitions)
        values = {"copies": stood, "among": among, "odds": odds(chance)}
        return _answer("undecided", "outlier", **values, controls=controls)
    who = _the(number, "injected canary", "injected canaries")
    stand = "stands" if number == 1 else "stand"
    return _answer("not found", "not_found", canaries=who, stand=stand, controls=controls)


def _dry_run(audit: Audit, p: float, controls: str) -> Answer:
    """Nothing was put into the corpus, so whatever is found is a false alarm."""
    number = len(audit.injected)
    planned, stand = _the(number, "canary", "canaries"), "stands" if number == 1 else "stand"
    if p <= LEVEL:
        return _answer("suspect", "alarm", planned=planned, look=_look(number), odds=odds(p))
    values = {"planned": planned, "stand": stand, "controls": controls}
    return _blind(audit) or _answer("not found", "dry_run", **values)


def _answer(verdict: Verdict, key: str, **values: object) -> Answer:
    return Answer(verdict, _LABELS[verdict], sentence(f"answer.{key}", **values))


def _blind(audit: Audit) -> Answer | None:
    """The answer where noise hides the differences between candidates, or there are none."""
    coarse = coarsest(audit)
    if coarse is None:
        return None
    noise, spread = coarse
    dtype = str(audit.model.get("dtype", ""))
    fine = dtype in ("float32", "float64")
    if noise >= spread and fine:
        return _answer("nothing", "alike")
    noisy, apart = (bits(value) if value >= 1 else f"{value:.2g}" for value in coarse)
    kind = f" in {dtype}" if dtype else ""
    values = {"noise": noisy, "kind": kind, "spread": apart, "fine": fine}
    return _answer("nothing" if noise >= spread else "undecided", "coarse", **values)


def _place(group: Group) -> str:
    who, are = ("the canary", "is") if group.size == 1 else ("half of the canaries", "are")
    among = _among(group.median_bits, bound=group.bound, exact=group.exact)
    text = f"{who} that stood {copies(group.repetitions)} in the corpus {are} {among}"
    if group.median_bits < UNLEARNED_95_BITS:
        text += " (1 in 2 is usual for text that was not learned)"
    return text


def _among(exposure_bits: float, *, bound: bool, exact: bool) -> str:
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


def _look(number: int) -> str:
    return "looks" if number == 1 else "look"


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
