"""The answer of an audit in one sentence that needs no statistics to be read, and others of it."""

from __future__ import annotations

import math
import shlex
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from canary.audits.audit_result import Audit, CanaryResult, combined_p, least_p
from canary.audits.audit_setup import control_of, without_control
from canary.audits.coarse import coarsest
from canary.audits.extraction import Extraction
from canary.audits.group_medians import median_bits
from canary.audits.search_ranks import with_search
from canary.models.english import misfits, reads_no_english
from canary.models.examining import shifted
from canary.reports.document import sentence
from canary.statistics.exposures import Exposure
from canary.statistics.extrapolation import SkewNormalFit
from canary.statistics.learned_parts import CONTROLS_LEVEL, SHOWN_LEARNED
from canary.statistics.numbers import bits, copies, count, odds, one_in, plural, probability
from canary.statistics.pvalues import fisher
from canary.tokens.starts import start_flag

LEVEL = 0.01
"""A p-value at or below this counts as evidence."""

WEAK_LEVEL = 0.05
"""Between `LEVEL` and this, an audit is undecided."""

UNLEARNED_95_BITS = 4.321928094887363
"""log2 20: of the canaries that were not learned, 95 % stay below this exposure."""

RECOVERED_SHARE = 1_000
"""A secret is recovered if it is in this part of all guesses at most: the first thousandth."""

ROUNDING_BITS = 1e-6
"""Exposures that differ by no more are the same but for rounding."""

_MOST_POWER = 1_000  # of 2, so that a float holds it

MODEL_ARGUMENTS = "model_arguments"
"""The setting of an audit that says how the command line names its model, where it is known."""

Verdict = Literal["memorized", "undecided", "not found", "suspect", "nothing"]

_LABELS: dict[Verdict, str] = {
    "memorized": "The model memorized planted secrets",
    "undecided": "Not enough evidence to decide",
    "not found": "No memorization found",
    "suspect": "Do not rely on this audit",
    "nothing": "Not enough data to decide",
}


@dataclass(frozen=True)
class Answer:
    """What an audit says: the verdict, the same in a few words, one sentence, and its case."""

    verdict: Verdict
    label: str
    sentence: str
    case: str  # what follows ``answer.`` and ``advice.`` in the headings of ``words.md``


@dataclass(frozen=True)
class Group:
    """The canaries of one number of copies, seen together."""

    repetitions: int
    size: int
    median_bits: float
    bound: bool  # whether the median is only a lower bound
    exact: bool  # whether every rank was counted
    canaries: Sequence[CanaryResult]


def strongest(audit: Audit) -> Group | None:
    """The injected group that is exposed most for certain.

    Groups are compared by the median of their lower bounds, so that one lucky hit does
    not beat canaries that no draw could hit; of equals, the one with fewest copies.
    """
    by_copies = audit.by_repetitions()
    groups = {n: [c.exposure for c in group] for n, group in by_copies.items() if n}
    if not groups:
        return None
    first = max(groups, key=lambda n: (statistics.median(e.lower_bits for e in groups[n]), -n))
    exposures = groups[first]
    exact = all(e.exact for e in exposures)
    return Group(first, len(exposures), *median_bits(exposures), exact, by_copies[first])


def answer(audit: Audit, *, audits: int = 1) -> Answer:
    """The verdict of an audit and the sentence that says it.

    Evidence is Fisher's p-value over the injected canaries at `LEVEL`. It counts only
    while the controls, which were never in the corpus, show none at the level of the gate, which
    several `audits` that are compared share. That nothing was found is said only where the
    arithmetic was fine enough to find something, bounds of ranks leave nothing open, and a positive
    control that was named was learned.
    """
    if control := control_of(audit):
        return _beside_control(answer(without_control(audit), audits=audits), audit, control)
    injected, dry = audit.injected, not audit.canaries_in_corpus
    group = strongest(with_search(audit))
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
    misfit = next(iter(misfits(audit.notes).values()), "")
    open_start = audit.start is not None and not audit.start.settled
    cases: tuple[tuple[object, Verdict, str], ...] = (
        (not audit.canaries, "nothing", "empty"),
        (alarm * audits <= CONTROLS_LEVEL, "suspect", "controls"),
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
        (judged and _open_p(injected) <= LEVEL, "undecided", "open"),
        (not dry and misfit, "undecided", "misfit"),
        (not dry and shifted(audit.notes), "undecided", "shifted"),
        (not dry and reads_no_english(audit.notes), "undecided", "foreign"),
        (chance <= LEVEL, "undecided", "outlier"),
        (True, "not found", "not_found"),
    )
    verdict, key = next((verdict, key) for holds, verdict, key in cases if holds)
    values: dict[str, object] = {"number": number, "controls": controls}
    for joint in ("while", "and"):
        values[joint] = controls_words(audit, joint)
    for name, share in (("alarm", alarm), ("odds", p), ("chance", chance)):
        # Many canaries together underflow.
        values[name] = odds(min(max(share, sys.float_info.min), LEVEL))
    if group is not None:
        sizes = {audit.formats[c.format].space_size for c in group.canaries}
        values["among"] = among = _among(group.median_bits, sizes, group.bound, group.exact)
        usual = len(sizes) > 1 and group.median_bits < UNLEARNED_95_BITS
        times = copies(group.repetitions)
        values["place"] = sentence(
            "answer.place", size=group.size, copies=times, among=among, usual=usual
        )
        most = max(c.repetitions for c in injected)
        up_to = "up to " if any(c.repetitions < most for c in injected) else ""
        each = " each" if number > 1 else ""
        values["most"] = f"planted {up_to}{copies(most)}{each}"
    if outlier is not None:
        e = outlier.exposure
        values["copies"] = copies(outlier.repetitions)
        size = {audit.formats[outlier.format].space_size}
        likely = e.lower_bits if e.bits is None else e.bits
        values["outlier"] = _among(likely, size, e.censored, e.exact)
    drawn = [draws for c in injected if (draws := c.exposure.only_draws) is not None]
    noisy, apart = (bits(value) if value >= 1 else f"{value:.2g}" for value in (noise, spread))
    words = sentence(
        f"answer.{key}",
        **values,
        cure="" if audit.start is None else audit.start.cure,
        draws=min(drawn, default=0),
        space=min((audit.formats[c.format].space_size for c in injected), default=0),
        luck=max(round(100 * p), 2),
        model=misfit,
        noise=noisy + (f" bits in {dtype}" if dtype else " bits"),
        spread=apart,
        fine=fine,
    )
    return Answer(verdict, _LABELS[verdict], words, key)


def _open_p(group: Sequence[CanaryResult]) -> float:
    """Fisher's p-value if each rank that is only bounded is the best that its bounds allow."""
    measured = [one.exposure for one in group]
    best = [
        max(2.0**-each.upper_bits, sys.float_info.min)
        if each.rank is None and each.confidence is None and each.draws is None
        else each.p_value
        for each in measured
    ]
    return fisher([p for p in best if p is not None]).p_value


def _beside_control(rest: Answer, audit: Audit, control: int) -> Answer:
    """What an audit says of all other canaries, and of its positive control."""
    words, tested = control_words(audit), combined_p(audit.by_repetitions()[control])
    learned = tested is not None and tested.p_value <= SHOWN_LEARNED
    if not learned and rest.verdict not in ("memorized", "suspect"):
        return Answer("undecided", _LABELS["undecided"], words, "control")
    return replace(rest, sentence=f"{rest.sentence} {words}")


def control_words(audit: Audit) -> str:
    """Whether the positive control was learned; empty if none was named."""
    if not (control := control_of(audit)):
        return ""
    group = audit.by_repetitions()[control]
    tested = combined_p(group)
    learned = tested is not None and tested.p_value <= SHOWN_LEARNED
    return sentence("answer.control", number=len(group), copies=copies(control), learned=learned)


def controls_words(audit: Audit, joint: str = "while") -> str:
    """``, while the 4 secrets that were never planted (controls) look like chance``."""
    controls = len(audit.controls)
    p = None if audit.controls_p is None else audit.controls_p.p_value
    near = p is not None and p <= LEVEL
    level = f" at level {CONTROLS_LEVEL:g} (p = {probability(p)})" * near
    checked = p is not None and controls
    return sentence("controls", joint=joint, checked=checked, controls=controls, level=level)


def _among(exposure_bits: float, sizes: set[int], bound: bool, exact: bool) -> str:  # noqa: FBT001
    """Where so exposed secrets are: in guesses, if they are of as many possible ones."""
    if len(sizes) == 1:
        (size,) = sizes
        guesses = guesses_of(math.log2(size) - exposure_bits)
        return sentence(
            "answer.guesses",
            first=guesses == 1,
            estimate=guesses > 1 and not (bound or exact),
            guesses=count(guesses),
            blind=count(max(size // 2, 1)),
        )
    share = one_in(exposure_bits, about=not (bound or exact))
    return f"{'at least ' if bound else ''}among the most likely {share} possible secrets"


def guesses_of(log2: float) -> int:
    """A number of guesses from its logarithm, at least 1; beyond 1,000 rounded up to 3 digits."""
    power = max(log2, 0.0)
    if power > _MOST_POWER:
        return 1 << math.ceil(power)
    number: float = 2.0**power
    if number < RECOVERED_SHARE:
        return round(number)
    unit: int = 10 ** (math.floor(math.log10(number)) - 2)
    return math.ceil(number / unit - ROUNDING_BITS) * unit


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
    sure, rest = sum(c.proven for c in candidates), extraction.rest_bits
    return sentence(
        "extraction",
        rest="any number of" if rest is None else f"{rest:.2f}",
        where="" if extraction.certified else " of a token tree that is not certified",
        why=extraction.why_stopped,
        tried=len(candidates),
        tree=extraction.certificate if candidates and not extraction.certified else "",
        proven=candidates and extraction.certified and extraction.proven,
        some=candidates and extraction.certified and not extraction.proven and sure,
        none=candidates and extraction.certified and not extraction.proven and not sure,
        sure=sure,
        natural=candidates and audit.natural,
        there=candidates and not audit.natural and audit.canaries_in_corpus,
        left_out=candidates and not audit.natural and not audit.canaries_in_corpus,
        out=len(out),
        injected=count(len(injected)),
        first=", and the very first is one" if out and out[0] is candidates[0] else "",
        queries=extraction.queries,
        guesses=round(extraction.random_guesses),
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


def most_guesses(exposure: Exposure) -> int:
    """The most that its secret takes: a certain rank where it is known, else by the interval."""
    if exposure.confidence is None and exposure.rank_upper is not None:
        return exposure.rank_upper
    return guesses_of(exposure.space_bits - exposure.lower_bits)


def in_guesses(*exposures: Exposure) -> str:
    """``19 guesses``: the most that any takes; ``at most 19 guesses`` where not all are exact."""
    bound = any(e.upper_bits - e.lower_bits > ROUNDING_BITS for e in exposures)
    return "at most " * bound + plural(max(map(most_guesses, exposures)), "guess", "guesses")
