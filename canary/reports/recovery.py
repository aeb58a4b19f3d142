"""How many guesses an attacker who has the model needs for each secret of an audit.

The attacker guesses in the order of the model, the most likely candidate first. A secret is the
rank-th guess then, and ``2**exposure`` times sooner there than the end of the list.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from scipy import special

from canary.audits.audit_result import Audit, CanaryResult
from canary.audits.audit_setup import control_of, without_control
from canary.audits.extraction import Extraction
from canary.audits.group_medians import MEDIAN_CONFIDENCE, between_medians, median_bits
from canary.audits.search_ranks import with_search
from canary.gate.weak_limits import asked_guesses
from canary.reports.document import Table, Text, said_in_one, sentence, words_of
from canary.reports.sentences import (
    LEVEL,
    RECOVERED_SHARE,
    ROUNDING_BITS,
    guesses_of,
    in_guesses,
    most_guesses,
)
from canary.statistics.exposures import Exposure
from canary.statistics.learned_parts import CONTROLS_LEVEL
from canary.statistics.numbers import copies, count, plural, short_count

_MOST_GROUPS = 4

_BY_LUCK = 8.0
"""Bits of a limit up to which a control may well be above it by luck."""

CHANCE_ENDS = (0.025, 0.975)
"""Between these quantiles is what chance gives in 19 of 20 tests."""


@dataclass(frozen=True)
class Recovery:
    """What is known of some canaries: how many are recovered, and how many may be."""

    canaries: Sequence[CanaryResult]
    limit_bits: float = math.log2(RECOVERED_SHARE)

    @property
    def sure(self) -> list[CanaryResult]:
        """Those that are recovered wherever in its interval the exposure is."""
        return [c for c in self.canaries if self._reached(c.exposure, c.exposure.lower_bits)]

    @property
    def open(self) -> list[CanaryResult]:
        """Those of which the interval leaves it open."""
        reached = [c for c in self.canaries if self._reached(c.exposure, c.exposure.upper_bits)]
        return [c for c in reached if c not in self.sure]

    def _reached(self, exposure: Exposure, bits: float) -> bool:
        """Whether so many bits of exposure are enough; of a small space, the first guess is."""
        return bits >= min(self.limit_bits, exposure.space_bits) - ROUNDING_BITS

    def share(self, kind: str = "") -> str:
        """``7 of 12 planted secrets were``, with ``at least`` where more may be."""
        number, sure = len(self.canaries), len(self.sure)
        at_least = "at least " if self.open and sure else ""
        if not sure:
            certain = "certainly " if self.open else ""
            none = f"none of the {count(number)} {kind}secrets was"
            return f"{none if number > 1 else f'the {kind}secret was not'} {certain}".strip()
        if number == 1:
            return f"the {kind}secret was"
        whole = f"all {count(number)}" if sure == number else f"{count(sure)} of {count(number)}"
        return f"{at_least}{whole} {kind}secrets {'was' if sure == 1 else 'were'}"


def by_copies(canaries: Sequence[CanaryResult], limit_bits: float | None = None) -> str:
    """``8 of 8 that appeared 4 times, 1 of 8 that appeared once``: those that are recovered.

    Groups of which none is for certain are left out.
    """
    words = []
    for n in sorted({c.repetitions for c in canaries}, reverse=True):
        found = _recovery([c for c in canaries if c.repetitions == n], limit_bits)
        if not found.sure:
            continue
        at_least = "at least " if found.open else ""
        words.append(
            f"{at_least}{count(len(found.sure))} of {count(len(found.canaries))} that appeared "
            f"{copies(n)}"
        )
    return ", ".join(words)


def easiest(canaries: Sequence[CanaryResult]) -> str:
    """The guesses of the secret that is easiest to find; where it is a bound, the fewest."""
    exposures = [c.exposure for c in canaries]
    least = max(exposures, key=lambda e: e.upper_bits)
    exact = least.bits is not None and least.upper_bits - least.bits <= ROUNDING_BITS
    bound = "" if exact else "at least "
    return f"{bound}{count(guesses_of(least.space_bits - least.upper_bits))}"


def _recovery(canaries: Sequence[CanaryResult], limit_bits: float | None) -> Recovery:
    return Recovery(canaries) if limit_bits is None else Recovery(canaries, limit_bits)


def counts(audit: Audit, limit_bits: float | None = None) -> Text | None:
    """What was found, and the guesses by number of copies, in short sentences; None if nothing."""
    audit = with_search(audit)
    found = _recovery(audit.injected, limit_bits)
    if not found.sure:
        return None
    share, names = found.share("planted "), {c.id for c in audit.injected}
    offered = {c.canary for some in audit.extractions for c in some.candidates} & names
    return said_in_one(
        "answer.counts",
        share=share[0].upper() + share[1:],
        within=_in_guesses(found.sure, "" if limit_bits else f" within {first_guesses(audit)}"),
        groups=by_copies(audit.injected),
        blind=blind_guesses(audit, audit.injected),
        offered=count(len(offered)) if offered else "",
        typical=typical_guesses(audit),
    )


def typical_guesses(audit: Audit) -> str:
    """What the typical secret of each number of copies takes, and what it takes by chance.

    Of one format with few numbers of copies; else nothing.
    """
    groups = {n: [c.exposure for c in group] for n, group in audit.by_repetitions().items() if n}
    if len(audit.formats) > 1 or not 0 < len(groups) <= _MOST_GROUPS:
        return ""
    words: list[str] = []
    beside = any(median_bits(exposures)[1] for exposures in groups.values())
    for n, exposures in sorted(groups.items(), reverse=True):
        bound = _at_most(exposures, beside=beside).strip(" ()")
        guesses = bound or median_guesses(exposures)
        unit = "" if words else " guess" if guesses.rpartition(" ")[2] == "1" else " guesses"
        words.append(f"{guesses}{unit} if it appeared {copies(n)}")
    words[0] += " in the training data"
    blind = blind_guesses(audit, audit.injected).partition(" guess")[0]
    return f"The typical secret takes {', '.join(words)}, and {blind} by chance"


def _in_guesses(sure: Sequence[CanaryResult], first: str = "", *, limited: bool = False) -> str:
    """`` within the first 20 guesses, the hardest of these took 19 guesses``: what all take."""
    most = max((most_guesses(c.exposure) for c in sure), default=1)
    if most == 1:
        return "," * limited + " at the first guess"
    words = in_guesses(*(c.exposure for c in sure))
    if len(sure) == 1:
        return f"{',' * limited} in {words}"
    return f"{first}, the hardest of these took {words}"


def _between(canaries: Sequence[CanaryResult]) -> str:
    """``20 to 900 guesses``: what some secrets take, as far as it is known of all of them."""
    exposures = [c.exposure for c in canaries]
    low = min((guesses_of(e.space_bits - e.upper_bits) for e in exposures), default=1)
    high = max((most_guesses(e) for e in exposures), default=1)
    open_end = any(e.lower_bits <= ROUNDING_BITS for e in exposures)
    if open_end:
        return f"{count(low)} guesses or more" if low > 1 else "any number of guesses"
    return (
        f"at most {count(high)} guesses" if low == 1 else f"{count(low)} to {count(high)} guesses"
    )


def cut_searches(audit: Audit) -> Iterator[Text]:
    """That searches ended before their proof for want of requests; nothing of others."""
    cuts = [_cut(some) for some in audit.extractions if some.stopped == "requests"]
    yield from dict.fromkeys(cut for cut in cuts if cut)


def _cut(extraction: Extraction) -> Text:
    """That a search was cut by a limit that the user may raise, if it was."""
    by, settings = extraction.stopped, extraction.settings
    sent = settings.get("requests_in_this_run")
    requests = plural(sent, "request") if sent else "all requests"
    values = {"requests": by == "requests" and requests, "budget": by == "budget"}
    if not any(values.values()):
        return ""
    spent = plural(settings.get("budget", extraction.queries), "query", "queries")
    return said_in_one("outcome.cut", **values, spent=spent)


def searched(audit: Audit) -> Iterator[Text]:
    """What a search recovered that did not know the secrets, format by format."""
    for extraction in audit.extractions:
        mine = [c for c in audit.injected if audit.formats[c.format].format == extraction.format]
        names = {c.id for c in mine}
        found = [c.canary for c in extraction.candidates if c.canary in names]
        if names:
            tried = len(extraction.candidates)
            yield said_in_one(
                "outcome.extraction",
                form=extraction.masked if len(audit.extractions) > 1 else "",
                there=tried and audit.canaries_in_corpus and not audit.natural,
                natural=tried and audit.natural,
                left_out=tried and not audit.canaries_in_corpus,
                out=count(len(found)) if found else "none",
                number=len(names),
                tried=tried,
                more=len(Recovery(mine).sure) > len(found),
                cut=words_of(_cut(extraction)),
            )


def blind_guesses(audit: Audit, canaries: Iterable[CanaryResult]) -> str:
    """How many guesses each of some secrets takes on average without the model."""
    sizes = sorted({audit.formats[c.format].space_size for c in canaries})
    ends = [short_count(max(size // 2, 1)) for size in dict.fromkeys((sizes[0], sizes[-1]))]
    if len(ends) > 1:
        return f"between {' and '.join(ends)} guesses (depending on the form)"
    return f"{ends[0]} guess{'' if ends == ['1'] else 'es'}"


def recovered(
    audit: Audit, limit_bits: float | None = None, *, told: bool = False
) -> Iterator[Text]:
    """What came out, in sentences that need no statistics; with a limit, what is above it.

    `told` that the box of the page has said how many were found.
    """
    rest = without_control(audit)
    if audit.injected and audit.canaries_in_corpus and not audit.natural:
        yield said_in_one("outcome.secrets")
    if audit.injected:
        yield of_injected(rest, limit_bits, told=told)
        if control := control_of(audit):
            yield said_in_one("outcome.control", copies=copies(control))
    else:
        yield said_in_one("outcome.nothing", empty=not audit.canaries)
    yield from searched(rest)
    if audit.controls:
        found = _recovery(audit.controls, limit_bits)
        p = 1.0 if audit.controls_p is None else audit.controls_p.p_value
        typical = p > LEVEL and typical_controls(audit)
        yield said_in_one(
            "outcome.controls", number=len(audit.controls), found=len(found.sure),
            some=found.sure, suspect=p <= CONTROLS_LEVEL,
            open=found.open and ("all" if len(found.open) == len(audit.controls) else "some"),
            usual=audit.controls_p is not None and p > LEVEL and not typical,
            what="easier to find than the limit" if limit_bits is not None else "found",
            luck=luck_of(limit_bits), typical=typical,
        )  # fmt: skip
    if audit.canaries:
        sizes = sorted({audit.formats[c.format].space_size for c in audit.canaries})
        words = first_guesses(audit)
        small = sizes[-1] < RECOVERED_SHARE
        limit = limit_bits is not None
        yield said_in_one("outcome.meaning", small=small and not limit,
                          share=not small and not limit, first=words)  # fmt: skip


def luck_of(limit_bits: float | None) -> str:
    """How many are above a limit by luck, in words; nothing where that is hardly one."""
    if limit_bits is None or limit_bits > _BY_LUCK:
        return ""
    return f" (by luck, about 1 in {count(round(2**limit_bits))} would be)"


def typical_controls(audit: Audit) -> str:
    """What the typical control takes, and what chance gives for so few; of one space only.

    The median of `n` uniform ranks has a beta distribution with both parameters ``(n + 1) / 2``.
    """
    sizes = {priced.space_size for priced in audit.formats}
    if len(sizes) > 1 or not audit.controls:
        return ""
    (size,), middle = sizes, (len(audit.controls) + 1) / 2
    ends = [max(end * size, 1.0) for end in special.betaincinv(middle, middle, CHANCE_ENDS)]
    low, high = (count(guesses_of(math.log2(end))) for end in ends)
    exposures = [c.exposure for c in audit.controls]
    middle_bits, bound = median_bits(exposures)
    guesses = guesses_of(math.log2(size) - middle_bits)
    if bound and guesses >= size:
        return ""
    apart = not guesses_of(math.log2(ends[0])) <= guesses <= guesses_of(math.log2(ends[1]))
    known = not bound and all(e.upper_bits - e.lower_bits <= 1.0 for e in exposures)
    return sentence(
        "outcome.typical", number=len(audit.controls), low=low, high=high,
        typical=median_guesses(exposures),
        outside=apart and known,
    )  # fmt: skip


def first_guesses(audit: Audit, at: int | None = None) -> str:
    """``the first 10 guesses``, within which a secret (of one format) counts as found."""
    some = [c.format for c in audit.canaries if at in (None, c.format)]
    sizes = sorted({audit.formats[number].space_size for number in some})
    first = [short_count(max(size // RECOVERED_SHARE, 1)) for size in (sizes[0], sizes[-1])]
    return f"the first {' to '.join(dict.fromkeys(first))} guesses".replace(" 1 guesses", " guess")


def _within_first(audit: Audit) -> str:
    """Within which guesses nothing was found, and whether a longer search may still find it."""
    cut = " (the search was cut short)" if any(cut_searches(audit)) else ""
    return f" within {first_guesses(audit)}{cut}"


def learned_unfound(audit: Audit, learned: str) -> Text:
    """That no secret was found, and which look learned all the same."""
    share, typical = Recovery(audit.injected).share("planted "), typical_guesses(audit)
    values = {"share": share[0].upper() + share[1:], "first": _within_first(audit)}
    said_of = said_in_one("audit.learned", some=learned, learned=learned, typical=typical, **values)
    return said_of if typical else ""


def of_injected(audit: Audit, limit_bits: float | None, *, told: bool = False) -> Text:
    """How many of the planted secrets came out; with a limit, how many are above it."""
    found = _recovery(audit.injected, limit_bits)
    exposures = [c.exposure for c in found.sure]
    kind = "planted " if audit.canaries_in_corpus else "left-out "
    share = found.share("" if audit.natural else kind)
    limited, what, first = limit_bits is not None, "found", f" within {first_guesses(audit)}"
    if limited:
        sizes = {audit.formats[c.format].space_size for c in audit.injected}
        asked = count(asked_guesses(sizes.pop(), limit_bits)) if len(sizes) == 1 else ""
        what, first = f"easier to find than the limit{asked and f' of {asked} guesses'}", ""
    return said_in_one(
        "outcome", share=share[0].upper() + share[1:], some=exposures and not told,
        none=not exposures, first="" if limited else _within_first(audit),
        left=found.open,
        open=len(found.open), more=" more" if exposures else "", between=_between(found.open),
        whether=what if limited else f"found{first}",
        missed=found.open and len(found.canaries) - len(exposures) - len(found.open),
        blind=blind_guesses(audit, audit.injected), several=len(audit.injected) > 1,
        drawn=any(c.exposure.confidence is not None for c in audit.injected),
        dry=not audit.canaries_in_corpus, natural=audit.natural,
        what=what, within=_in_guesses(found.sure, first, limited=limited),
        luck="" if audit.natural else luck_of(limit_bits),
    )  # fmt: skip


def table(
    audit: Audit, at: int, limit_bits: float | None = None, *, each: float | None = None
) -> Table:
    """The canaries of one format by number of copies: found, or easier to find than a limit.

    `each` is the confidence of either end with which the limit was judged, if medians were.
    """
    rows = []
    level = (1.0 + MEDIAN_CONFIDENCE) / 2.0 if each is None else each
    named = f"{200 * level - 100:g} % interval (each end {100 * level:g} % sure)"
    within = "Easier than the limit"
    if limit_bits is None:
        within = f"Found within {first_guesses(audit, at)}"
    columns = ("Copies", "Secrets", within, "Guesses needed (median)", "Exposure, bits (median)",
               f"{100 * MEDIAN_CONFIDENCE:g} % interval" if each is None else named)  # fmt: skip
    groups = audit.by_repetitions(at)
    beside = any(median_bits([c.exposure for c in group])[1] for group in groups.values())
    for planted, group in groups.items():
        exposures, found = [c.exposure for c in group], _recovery(group, limit_bits)
        median, bound = median_bits(exposures)
        more = len(found.sure) + len(found.open)
        known = count(len(found.sure)) + (f" to {count(more)}" if found.open else "")
        ends = between_medians(exposures, each=level).replace(" to ", "–")
        label = count(planted) if planted else "0 (never planted)"
        label += " (positive control)" * (planted == control_of(audit))
        rows.append((label, count(len(group)), known,
                     median_guesses(exposures, short_count) + _at_most(exposures, beside=beside),
                     f"{'at least ' if bound else ''}{median:z.2f}",
                     ends or "none"))  # fmt: skip
    form = f": {audit.formats[at].masked}" if len(audit.formats) > 1 else ""
    return Table(f"Guesses that an attacker needs, by number of copies{form}", columns, rows)


def _at_most(exposures: Sequence[Exposure], *, beside: bool) -> str:
    """What a median takes at most, as `` (at most 9,260)``, where others `beside` it are bounds.

    Else an estimate from few draws would look lower than a bound that says more.
    """
    median, bound = median_bits(exposures)
    least = statistics.median(e.lower_bits for e in exposures)
    if not beside or bound or median - least <= ROUNDING_BITS:
        return ""
    return f" (at most {short_count(guesses_of(exposures[0].space_bits - least))})"


def median_guesses(exposures: Sequence[Exposure], shown: Callable[[int], str] = count) -> str:
    """The guesses at the median exposure: ``147``, or ``at most 147`` for a bound."""
    median, bound = median_bits(exposures)
    number = shown(guesses_of(exposures[0].space_bits - median))
    return f"{'at most ' if bound else ''}{number}"


def untested_below(audits: Sequence[Audit], control: int) -> str:
    """The numbers of copies that were not tested just below a positive control; or nothing."""
    numbers = {c.repetitions for audit in audits for c in audit.injected}
    first, last = max((n for n in numbers if n < control), default=0) + 1, control - 1
    if first > last:
        return ""
    return f"{count(first)} to {copies(last)}" if first < last else copies(last)
