"""Limits on what canaries show by their number of copies: on exposures and on p-values."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from canary.audits.audit_result import (
    Audit,
    CanaryResult,
    combined_p,
    least_p,
)
from canary.audits.by_rank import exact_ranks, queries_to_rank
from canary.audits.coarse import coarsest
from canary.audits.group_medians import highest, interval_of_median, median_bits, misses_of
from canary.errors import EstimationError, InputError
from canary.gate.subjects import limit_checked
from canary.gate.verdict import Finding, Outcome, Standing, group_name, standings
from canary.gate.weak_limits import check_limit
from canary.statistics.exposures import Exposure
from canary.statistics.medians import agreeing, canaries_to_decide
from canary.statistics.numbers import bits, count, plural, probability
from canary.statistics.power import draws_to_tell
from canary.statistics.pvalues import holm

_MANY_REQUESTS, _MANY_QUERIES = 100_000, 100_000_000  # of a server; of a walk: more take hours
_AGAINST = (
    "fewer copies (de-duplication), fewer epochs, or training with differential privacy would "
    "lower it"
)
_RANKS = ", but they take each other's ranks, so {} bits is the highest that their median can be"
_CROWDED = (
    "use another format for each number of copies, fewer canaries of each format, or a format with "
    "more candidates; or lower the limit"
)
_BUT_COPIES = (
    "fewer epochs, or training with differential privacy would lower it; removing duplicates is "
    "not enough, since canaries with 1 copy exceed the limit, too"
)


def medians(
    audit: Audit, groups: Sequence[int], limit: float, *, confidence: float
) -> list[Finding]:
    """Whether the median exposure of each number of copies in `groups` keeps a limit, in bits.

    The confidence is that of `canary.statistics.medians.median_interval`, of each group alone.
    Canaries of a space that holds no more bits than the limit cannot exceed it, whatever was
    learned: they are left out, and the sentence says how many. A median near the highest that
    these canaries can show, since they take each other's ranks, keeps no limit.

    Raises
    ------
    InputError
        If no exposure in these spaces, or no median of these canaries, could exceed the limit.
    """
    from scipy.special import bdtrc

    findings: list[Finding] = []
    by_copies = audit.by_repetitions()
    for copies in groups:
        group, left_out = _within_reach(audit, by_copies[copies], limit)
        _check_median(group, limit)
        exposures = [c.exposure for c in group]
        formats = [c.format for c in group]
        misses = misses_of(exposures, formats)[1]
        interval = interval_of_median(exposures, confidence, formats=formats)
        lower, upper, needed = interval.lower_bits, interval.upper_bits, interval.needed
        who, name = plural(len(group), "canary", "canaries"), group_name(copies)
        chance, cure = None, ""
        if lower is None or upper is None:
            outcome: Outcome = "undecided"
            lower = upper = None
            told = (
                f"{who} with {plural(copies, 'copy', 'copies')} say too little of the median of "
                f"all such canaries at {share(confidence)} confidence"
            )
            cure = f"use {exact_ranks(audit.model) or 'a lower confidence'}"
            if needed is not None and needed > len(group):
                fewer = ", fewer with exact ranks" if max(misses) > 0.0 else ""
                cure = f"{count(needed)} that agree would do{fewer}"
        else:
            outcome, place = _placed(lower, upper, limit)
            sure = f"each end {share(confidence)} sure"
            told = f"the median exposure of {name} ({who}, {sure}) {place}"
            if needed is not None:
                chance = float(bdtrc(needed - 1, len(group), 2.0**-limit)) if needed else 1.0
            if outcome != "memorized" and (most := audit.at_ceiling().get(copies)) is not None:
                told += _RANKS.format(bits(most))
                outcome, lower, upper, cure = "undecided", None, None, _CROWDED
            elif outcome == "undecided":
                cure = _cure(exposures, limit, max(misses), confidence, audit.model)
            elif outcome == "memorized":
                above = {name, *(f.subject for f in findings if f.outcome == "memorized")}
                cure = _BUT_COPIES if group_name(1) in above else _AGAINST
        estimate, bound = median_bits(exposures)
        findings.append(
            Finding(
                *("exposure", name, outcome, told + left_out, cure),
                limit=limit,
                value=None if bound else estimate,
                lower=lower,
                upper=upper,
                confidence=confidence,
                chance=chance,
                canaries=_above(group, limit, outcome),
            )
        )
    return findings


def largest(
    audit: Audit, groups: Sequence[int], limit: float, *, confidence: float
) -> list[Finding]:
    """Whether the largest exposure of all these canaries keeps a limit, in bits.

    Notes
    -----
    It speaks of these canaries, not of others like them. Among k that were not learned it
    exceeds t bits with probability ``1 - (1 - 2**-t)**k``.

    A canary can be put on the wrong side of the limit only if the interval of the one canary
    of its format that is next to the limit misses; so the chance of an error is
    ``1 - (1 - m)**f`` for f formats with intervals that miss with the chance m at one end
    (`Exposure.miss`: 0.025 for draws at 95 %). An exact rank does not miss: one above the limit
    decides alone. Canaries are left out as by `medians`.
    """
    asked = [c for c in audit.injected if c.repetitions in groups]
    chosen, left_out = _within_reach(audit, asked, limit)
    sure = [c for c in chosen if not c.exposure.miss and c.exposure.lower_bits > limit]
    top = max(sure or chosen, key=lambda c: (c.exposure.lower_bits, c.exposure.upper_bits))
    lower, upper = top.exposure.lower_bits, max(c.exposure.upper_bits for c in chosen)
    misses = [] if sure else misses_of([c.exposure for c in chosen], [c.format for c in chosen])[1]
    error = 1.0 - math.prod(1.0 - miss for miss in misses)
    who = plural(len(chosen), "canary", "canaries")
    chance, luck, cure = None, "", ""
    if not audit.natural:
        chance = exceeding(limit, len(chosen))
        luck = f"; of {who} never learned, one or more exceed it in {share(chance)} of audits"
    outcome: Outcome = "undecided"
    if error > 1.0 - confidence:
        drawn = sum(miss > 0.0 for miss in misses)
        told = (
            f"the draws of {drawn} formats are too few to speak of the largest exposure of "
            f"{who} at {share(confidence)} confidence"
        )
        ranks = exact_ranks(audit.model)
        other = f"lower the confidence to {1 - error:.2g}" if error < 0.5 else "audit fewer formats"
        cure = f"{f'use {ranks}, or ' if ranks else ''}{other}"
    else:
        outcome, place = _placed(lower, upper, limit)
        told = f"the largest exposure of {who} {place}"
        if outcome == "memorized":
            which = f"{top.id} with {plural(top.repetitions, 'copy', 'copies')}"
            told, cure = f"{which} has an exposure of {place.removeprefix('is ')}", ""
            single = audit.by_repetitions().get(1, ())
            above = any(canary.exposure.lower_bits > limit for canary in single)
            cure = _BUT_COPIES if above else _AGAINST
        elif outcome == "undecided":
            cure = _draws_cure([c.exposure for c in chosen], limit, audit.model)
    finding = Finding(
        *("exposure", f"the largest of {who}", outcome, told + luck + left_out, cure),
        limit=limit,
        value=top.exposure.bits,
        lower=lower,
        upper=upper,
        confidence=1.0 - error,
        chance=chance,
        canaries=_above(chosen, limit, outcome),
    )
    return [finding]


def evidence(audit: Audit, groups: Sequence[int], level: float) -> list[Finding]:
    """Whether canaries of any number of copies look learned, at a level.

    Fisher's p-value over the canaries of each number of copies, adjusted by Holm for the
    number of them. A model that learned none fails with a probability of at most `level`.

    Raises
    ------
    EstimationError
        For natural secrets, which have no p-value.
    """
    if audit.natural:
        raise EstimationError(
            "natural secrets have no p-value: they were found and not drawn at random, so "
            "nothing says how likely they would be if the model had not seen them",
            cure="give a limit on exposure, or audit canaries of canary generate",
            where="max_p",
        )
    by_copies = audit.by_repetitions()
    combined = [combined_p(by_copies[copies]) for copies in groups]
    raw = [test.p_value for test in combined if test is not None]
    blind, findings = coarsest(audit) is not None, []
    for copies, p, alone in zip(groups, holm(raw).tolist(), raw, strict=True):
        group, name = by_copies[copies], group_name(copies)
        least = least_p(audit, group) * len(groups)
        outcome: Outcome = "undecided"
        if p <= level:
            outcome = "memorized"
            told = f"the {name} look learned: p = {probability(p)}, at most the"
            cure = "look at their exposures for how much was learned"
        elif least > level:
            told = (
                f"{plural(len(group), 'canary', 'canaries')} with "
                f"{plural(copies, 'copy', 'copies')} cannot reach a p-value below "
                f"{probability(min(least, 1.0))}, whatever the model learned; it takes less for the"
            )
            cure = "more canaries, more draws or a larger space would do (canary plan)"
        elif blind:
            told = (
                f"the noise of the arithmetic could hide what was learned of the {name}: "
                f"p = {probability(p)} says nothing about the"
            )
            cure = "audit with dtype float32, or a format whose candidates differ more"
        else:
            outcome, cure = "passed", ""
            told = f"the {name} cannot be distinguished from chance: p = {probability(p)}, above "
            told += "the"
        several = ""
        if len(groups) > 1:
            several = f", by Holm over {len(groups)} groups; {probability(alone)} alone"
        findings.append(
            Finding(
                *("p-value", name, outcome, f"{told} level of {level:g} (Fisher{several})", cure),
                limit=level,
                value=p,
                chance=level,
                canaries=standings(group) if outcome == "memorized" else (),
            )
        )
    return findings


def check_level(level: float) -> float:
    """A limit on p-values, from 0.000001 to 0.5: beyond, it tests nothing; else an `InputError`."""
    cure = "give a number from 0.000001 to 0.5; 0.001 is usual for a gate"
    return limit_checked(level, lambda p: 1e-6 <= p <= 0.5, "on p-values", cure, "max_p")


def exceeding(limit: float, canaries: int) -> float:
    """Probability that one or more of so many unlearned canaries exceed a limit in bits."""
    return -math.expm1(canaries * math.log1p(-(2.0**-limit)))


def share(chance: float) -> str:
    """A probability in percent."""
    percent = 100 * chance
    if 99.5 <= percent < 100:
        return "more than 99 %"
    if percent >= 0.01:
        return f"{percent:.0f} %" if percent >= 10 else f"{percent:.2g} %"
    return "less than 0.01 %" if percent > 0 else "0 %"


def _within_reach(
    audit: Audit, asked: Sequence[CanaryResult], limit: float
) -> tuple[list[CanaryResult], str]:
    """The canaries whose space holds more bits than the limit, and a clause on the others."""
    room = [math.log2(audit.formats[c.format].space_size) for c in asked]
    check_limit(limit, most=max(room))
    chosen = [c for c, holds in zip(asked, room, strict=True) if holds > limit]
    others = len(asked) - len(chosen)
    if not others:
        return chosen, ""
    spaces, they = ("their spaces are", "they") if others > 1 else ("its space is", "it")
    return chosen, (
        f"; {plural(others, 'canary', 'canaries')} left out: {spaces} too small for the limit, "
        f"so {they} could not exceed it"
    )


def _check_median(group: Sequence[CanaryResult], limit: float) -> None:
    """Refuse a limit that no median of these canaries could exceed."""
    most = highest((c.format, c.exposure.space_bits) for c in group)
    if most <= limit:
        told = f"no median of these {len(group)} canaries could exceed {limit:g} bits: "
        told += f"they take each other's ranks, so it is {most:.4g} bits at most"
        cure = "lower the limit, or take a format with more candidates"
        raise InputError(told, cure=cure, where="max_exposure_bits")


def _placed(lower: float, upper: float, limit: float) -> tuple[Outcome, str]:
    """What an interval says of a limit, and a clause on it."""
    if lower > limit:
        return "memorized", f"is {bits(lower)} bits or more, above the limit of {limit:g}"
    if upper <= limit:
        return "passed", f"is at most {bits(upper)} bits, within the limit of {limit:g}"
    ends = f"is between {bits(lower)} and {bits(upper)} bits"
    return "undecided", f"{ends}, on both sides of the limit of {limit:g}"


def _above(chosen: Sequence[CanaryResult], limit: float, outcome: Outcome) -> tuple[Standing, ...]:
    """The canaries that surely exceed the limit; of an undecided group, those that may."""
    end = "lower_bits" if outcome == "memorized" else "upper_bits"
    above = [c for c in chosen if getattr(c.exposure, end) > limit]
    above.sort(key=lambda c: (-c.exposure.lower_bits, -c.exposure.upper_bits))
    return standings(above)


def _cure(
    exposures: Sequence[Exposure],
    limit: float,
    miss: float,
    confidence: float,
    model: Mapping[str, Any],
) -> str:
    """What would decide: narrower intervals of these canaries, or more canaries."""
    number = len(exposures)
    unknown = sum(e.lower_bits <= limit < e.upper_bits and e.bits is None for e in exposures)
    above = sum(e.lower_bits > limit or (e.bits is not None and e.bits > limit) for e in exposures)
    below = number - above - unknown
    most = max(above, below)
    needed = agreeing((number,), (miss,), confidence=confidence)
    enough = needed is not None and most + unknown >= needed
    # Those that it separates from the limit may be on either side.
    if enough and (cure := _draws_cure(exposures, limit, model, does="may")):
        return cure
    more = canaries_to_decide(
        most / max(above + below, 1), at_least=number + 1, miss=miss, confidence=confidence
    )
    if more is None:
        return (
            "about half of them are above the limit, so no number of canaries would decide; "
            "treat the model as not passed"
        )
    side = "above" if above > below else "within"
    space_bits = max(e.space_bits for e in exposures)
    ranks = _ranks(model, space_bits, limit) if miss else ""
    # Exact ranks need fewer that agree, and move none whose interval is on one side.
    fewest = agreeing((number,), (0.0,), confidence=confidence)
    first = ranks and fewest is not None and most + unknown >= fewest
    return (
        (f"{ranks} may decide with fewer canaries; with draws, " if first else "")
        + f"about {plural(more, 'canary', 'canaries')} in place of {number} would decide, if the "
        f"same share of them is {side} the limit"
        + ("; fewer, if their ranks are exact" if ranks and not first else "")
    )


def _draws_cure(
    exposures: Sequence[Exposure], limit: float, model: Mapping[str, Any], *, does: str = "would"
) -> str:
    """How canaries whose own intervals hold the limit would be told from it; empty if none do."""
    straddling = [e for e in exposures if e.lower_bits <= limit < e.upper_bits]
    if not straddling:
        return ""
    served = model.get("device") == "served"
    if all(e.exact for e in straddling):
        how = "serve the model in float32" if served else "audit with dtype float32"
        return f"the noise of the arithmetic blurs their ranks; {how}"
    # A walk that has counted so many places tells on which side of the limit each canary is.
    space_bits = max(e.space_bits for e in straddling)
    queries, long = _queries(space_bits, limit), queries_to_rank(space_bits, limit) > _MANY_QUERIES
    if not any(e.miss for e in straddling):
        further = f"a larger budget would rank them further ({queries})"
        # Ranks that may be any: the server did not return the tokens of these canaries.
        unseen = sum(e.lower_bits <= 0.0 for e in straddling) if served else 0
        if not unseen:
            return further
        some = f"{unseen} of these {plural(len(exposures), 'canary', 'canaries')}"
        cure = (
            f"no lower bound is known of {some}: where the server did not return every token of a "
            "canary, a larger --top-k may; else a larger budget does"
        )
        return cure + (f". Of the others, {further}" if unseen < len(straddling) else "")
    wanted = [draws_to_tell(e.bits, limit, tail=e.miss) for e in straddling if 0 < e.miss < 1]
    known = [draws for draws in wanted if draws is not None]
    ranks = _ranks(model, space_bits, limit)
    if not known:
        first = f"{ranks} would separate them from the limit; " if ranks else ""
        return f"{first}no number of draws {'does' if ranks else 'separates them from the limit'}"
    draws, size = _round_up(max(known)), round(2.0**space_bits)
    if served and ranks and draws > _MANY_REQUESTS:
        return f"{ranks} {does} decide; the server would need about {count(draws)} requests"
    each = ", one request each" if served else ""
    drawn = f"about {count(draws)} draws (--draws {draws}{each})"
    if draws >= size:  # these are ranks, too
        way = "enumeration" if ranks and not served else f"sampling --draws {size}{each}"
        drawn = f"all {count(size)} candidates (--method {way})"
    ways = ranks, drawn
    return f"{', or '.join(filter(None, ways[::-1] if long else ways))} {does} decide"


def _queries(space_bits: float, limit: float) -> str:
    return f"--budget {_round_up(queries_to_rank(space_bits, limit))}, or less"


def _ranks(model: Mapping[str, Any], space_bits: float, limit: float) -> str:
    """How exact ranks are had that place canaries beside a limit; empty if they are not."""
    return exact_ranks(model, f" {_queries(space_bits, limit)}")


def _round_up(number: int) -> int:
    """To two digits."""
    unit = int(10 ** max(len(str(number)) - 2, 0))
    return -(-number // unit) * unit
