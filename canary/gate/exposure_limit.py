"""A limit on exposure: the median of each number of copies, or the largest of all."""

from __future__ import annotations

import math
from collections.abc import Sequence

from canary.audits.audit_result import Audit, CanaryResult, median_bits
from canary.audits.by_rank import queries_to_rank
from canary.errors import InputError
from canary.gate.verdict import Finding, Outcome, Standing
from canary.records.validation import as_real
from canary.statistics.exposures import ENUMERATION, RANK, Exposure
from canary.statistics.medians import agreeing, canaries_to_decide, median_interval
from canary.statistics.numbers import bits, count, plural, probability
from canary.statistics.power import draws_to_tell

_MISS = 0.025  # of intervals at 95 %, at one end
_CERTAIN = (ENUMERATION, RANK)


def medians(
    audit: Audit, groups: Sequence[int], limit: float, *, confidence: float
) -> list[Finding]:
    """Whether the median exposure of each number of copies keeps a limit, in bits.

    Parameters
    ----------
    audit : Audit
    groups : sequence of int
        Numbers of copies.
    limit : float
        The largest median that passes.
    confidence : float
        See `canary.statistics.medians.median_interval`. Of each number of copies by itself:
        the worst of several groups is wrong more often.

    Raises
    ------
    InputError
        If no exposure in these spaces could exceed the limit.

    Notes
    -----
    Canaries of a space that holds no more bits than the limit cannot exceed it, whatever was
    learned. They say nothing of it and are left out; the sentence says how many.
    """
    by_copies = audit.by_repetitions()
    return [_median(audit, n, by_copies[n], limit, confidence) for n in groups]


def largest(audit: Audit, groups: Sequence[int], limit: float, *, confidence: float) -> Finding:
    """Whether the largest exposure of all these canaries keeps a limit, in bits.

    Notes
    -----
    It speaks of these canaries, not of others like them: the more there are, the larger is
    the largest. Among k canaries that were not learned it exceeds t bits with probability
    ``1 - (1 - 2**-t)**k``.

    A canary can be put on the wrong side of the limit only if the interval of the one canary
    of its format that is next to the limit misses; so the chance of an error is
    ``1 - (1 - 0.025)**f`` for f formats with canaries whose exposure rests on draws. An exact
    rank does not miss: one above the limit decides alone.

    Canaries whose space holds no more bits than the limit are left out, as for `medians`.
    """
    asked = [c for c in audit.injected if c.repetitions in groups]
    chosen = within_reach(audit, asked, limit)
    left_out = _left_out(len(asked) - len(chosen))
    sure = [c for c in chosen if c.exposure.confidence is None and c.exposure.lower_bits > limit]
    top = max(sure or chosen, key=lambda c: (c.exposure.lower_bits, c.exposure.upper_bits))
    lower = top.exposure.lower_bits
    upper = max(c.exposure.upper_bits for c in chosen)
    chance = None if audit.natural else exceeding(limit, len(chosen))
    misses = [] if sure else _formats(audit, chosen)[1]
    error = 1.0 - math.prod(1.0 - miss for miss in misses)
    outcome: Outcome = "undecided"
    if error <= 1.0 - confidence:
        outcome = _outcome(lower, upper, limit)
    which = f"{top.id} with {plural(top.repetitions, 'copy', 'copies')}"
    who = plural(len(chosen), "canary", "canaries")
    luck = ""
    if chance is not None:
        luck = f"; of {who} never learned, one or more exceed it in {share(chance)} of audits"
    found = f"the largest exposure of {who} {_place(lower, upper, limit, outcome)}"
    if error > 1.0 - confidence:
        drawn = sum(miss > 0.0 for miss in misses)
        found = (
            f"the draws of {drawn} formats are too few to speak of the largest exposure of "
            f"{who} at {share(confidence)} confidence"
        )
    if outcome == "memorized":
        found = f"{which} has an exposure of {_least(lower)}, above the limit of {limit:g}"
    cure = ""
    if error > 1.0 - confidence:
        cure = f"rank exactly (--method rank), or lower the confidence to {1 - error:.2g}"
    elif outcome == "undecided":
        cure = _draws_cure([c.exposure for c in chosen], limit)
    elif outcome == "memorized":
        cure = _AGAINST
    return Finding(
        "exposure",
        f"the largest of {who}",
        outcome,
        found + luck + left_out,
        cure,
        limit=limit,
        value=top.exposure.bits,
        lower=lower,
        upper=upper,
        confidence=1.0 - error,
        chance=chance,
        canaries=_above(chosen, limit, outcome),
    )


def check_limit(limit: float) -> float:
    """A limit in bits, if it is one.

    Raises
    ------
    InputError
        If it is not a finite number from 1 on.
    """
    value = as_real(limit)
    if not 1.0 <= value < math.inf:
        raise InputError(
            f"a limit of {limit!r} bits makes no sense",
            cure="give a number from 1 bit on, which is what chance gives; 10 is usual",
            where="max_exposure_bits",
        )
    return value


def within_reach(
    audit: Audit, chosen: Sequence[CanaryResult], limit: float
) -> tuple[CanaryResult, ...]:
    """The canaries that could exceed the limit, for their space holds more bits.

    Raises
    ------
    InputError
        If there is none.
    """
    room = [math.log2(audit.formats[c.format].space_size) for c in chosen]
    most = max(room)
    if limit >= most:
        raise InputError(
            f"no exposure could exceed the limit of {limit:g} bits: the largest space holds "
            f"{most:.4g}",
            cure="lower the limit, or take a format with more candidates",
            where="max_exposure_bits",
        )
    return tuple(c for c, holds in zip(chosen, room, strict=True) if holds > limit)


def exceeding(limit: float, canaries: int) -> float:
    """Probability that one or more of so many unlearned canaries exceed a limit in bits."""
    return -math.expm1(canaries * math.log1p(-(2.0**-limit)))


def group_name(repetitions: int) -> str:
    """``canaries with 4 copies``."""
    return f"canaries with {plural(repetitions, 'copy', 'copies')}"


def share(chance: float) -> str:
    """A probability in percent."""
    percent = 100 * chance
    if 99.5 <= percent < 100:
        return "more than 99 %"
    if percent >= 0.01:
        return f"{percent:.0f} %" if percent >= 10 else f"{percent:.2g} %"
    return f"{probability(percent)} %" if percent > 0 else "0 %"


_AGAINST = (
    "fewer copies (de-duplication), fewer epochs, or training with differential privacy would "
    "lower it"
)


def _median(
    audit: Audit, repetitions: int, group: tuple[CanaryResult, ...], limit: float, confidence: float
) -> Finding:
    asked, group = len(group), within_reach(audit, group, limit)
    left_out = _left_out(asked - len(group))
    exposures = [c.exposure for c in group]
    homes, misses = _formats(audit, group)
    found = median_interval(
        [e.lower_bits for e in exposures],
        [e.upper_bits for e in exposures],
        formats=homes,
        misses=misses,
        confidence=confidence,
    )
    estimate, bound = median_bits(exposures)
    name = group_name(repetitions)
    who = f"{plural(len(group), 'canary', 'canaries')}, {share(confidence)}"
    if found.lower_bits is None or found.upper_bits is None:
        return Finding(
            "exposure",
            name,
            "undecided",
            f"{plural(len(group), 'canary', 'canaries')} with "
            f"{plural(repetitions, 'copy', 'copies')} say too little of the median of all such "
            f"canaries at {share(confidence)} confidence{left_out}",
            _few_cure(len(group), found.needed, misses),
            limit=limit,
            value=None if bound else estimate,
            confidence=confidence,
            canaries=_above(group, limit, "undecided"),
        )
    lower, upper = found.lower_bits, found.upper_bits
    outcome = _outcome(lower, upper, limit)
    cure = ""
    if outcome == "undecided":
        cure = _cure(exposures, limit, misses, confidence)
    elif outcome == "memorized":
        cure = _AGAINST
    return Finding(
        "exposure",
        name,
        outcome,
        f"the median exposure of {name} ({who}) {_place(lower, upper, limit, outcome)}{left_out}",
        cure,
        limit=limit,
        value=None if bound else estimate,
        lower=lower,
        upper=upper,
        confidence=confidence,
        chance=_median_chance(limit, len(group), found.needed),
        canaries=_above(group, limit, outcome),
    )


def _outcome(lower: float, upper: float, limit: float) -> Outcome:
    if lower > limit:
        return "memorized"
    return "passed" if upper <= limit else "undecided"


def _place(lower: float, upper: float, limit: float, outcome: Outcome) -> str:
    if outcome == "memorized":
        return f"is {_least(lower)}, above the limit of {limit:g}"
    if outcome == "passed":
        return f"is at most {bits(upper)} bits, within the limit of {limit:g}"
    return f"lies from {bits(lower)} to {bits(upper)} bits, on both sides of the limit of {limit:g}"


def _left_out(number: int) -> str:
    """That so many canaries could not have exceeded the limit; empty if all could."""
    if not number:
        return ""
    spaces = "their spaces are" if number > 1 else "its space is"
    none = "they could not" if number > 1 else "it could not"
    who = plural(number, "canary", "canaries")
    return f"; {who} left out: {spaces} too small for the limit, so {none} exceed it"


def _least(lower: float) -> str:
    return f"{bits(lower)} bits or more"


def _above(chosen: Sequence[CanaryResult], limit: float, outcome: Outcome) -> tuple[Standing, ...]:
    """The canaries that surely exceed the limit; of an undecided group, those that may."""
    surely = outcome == "memorized"
    found = [
        c for c in chosen if (c.exposure.lower_bits if surely else c.exposure.upper_bits) > limit
    ]
    found.sort(key=lambda c: (-c.exposure.lower_bits, -c.exposure.upper_bits))
    return tuple(map(Standing.of, found))


def _formats(audit: Audit, group: Sequence[CanaryResult]) -> tuple[list[int], list[float]]:
    """The format of each canary, counted from 0 among these, and how often each misses."""
    present = sorted({c.format for c in group})
    drawn = {c.format for c in group if c.exposure.confidence is not None}
    certain = [audit.formats[at].method in _CERTAIN or at not in drawn for at in present]
    misses = [0.0 if sure else _MISS for sure in certain]
    return [present.index(c.format) for c in group], misses


def _median_chance(limit: float, canaries: int, needed: int | None) -> float | None:
    """How often so many of these exceed a limit if none was learned, by exact ranks."""
    from scipy.special import bdtrc

    if needed is None:
        return None
    return float(bdtrc(needed - 1, canaries, 2.0**-limit)) if needed else 1.0


def _few_cure(canaries: int, needed: int | None, misses: Sequence[float]) -> str:
    if needed is None or needed <= canaries:
        return "rank exactly (method rank)"
    if max(misses) > 0.0:
        return f"{count(needed)} that agree would do, fewer with exact ranks"
    return f"{count(needed)} that agree would do"


def _cure(
    exposures: Sequence[Exposure], limit: float, misses: Sequence[float], confidence: float
) -> str:
    """What would decide: narrower intervals of these canaries, or more canaries."""
    k, miss = len(exposures), max(misses)
    unknown = [e for e in exposures if e.lower_bits <= limit < e.upper_bits and e.bits is None]
    above = sum(e.lower_bits > limit or (e.bits is not None and e.bits > limit) for e in exposures)
    below = k - above - len(unknown)
    needed = agreeing((k,), (miss,), confidence=confidence)
    if needed is not None and max(above, below) + len(unknown) >= needed:
        found = _draws_cure(exposures, limit)
        if found:
            return found
    more = canaries_to_decide(
        max(above, below) / max(above + below, 1),
        at_least=k + 1,
        miss=miss,
        confidence=confidence,
    )
    if more is None:
        return (
            "about as many lie above it as below, so no number of canaries would decide; "
            "treat the model as not passed"
        )
    side = "above" if above > below else "within"
    return (
        f"about {plural(more, 'canary', 'canaries')} in place of {k} would decide, if the same "
        f"share of them lies {side} the limit"
    )


def _draws_cure(exposures: Sequence[Exposure], limit: float) -> str:
    """How canaries whose own intervals hold the limit would be told from it; empty if none do."""
    straddling = [e for e in exposures if e.lower_bits <= limit < e.upper_bits]
    if not straddling:
        return ""
    if all(e.exact for e in straddling):
        return "the noise of the arithmetic blurs their ranks; audit with dtype float32"
    # A walk that has counted so many places tells on which side of the limit each canary is.
    space_bits = max(e.space_bits for e in straddling)
    queries = f"--budget {_round_up(queries_to_rank(space_bits, limit))}"
    if all(e.draws is None for e in straddling):
        return f"a larger budget would rank them further ({queries}, or less)"
    wanted = [draws_to_tell(e.bits, limit, tail=_MISS) for e in straddling if not e.exact]
    known = [draws for draws in wanted if draws is not None]
    ranks = f"exact ranks (--method rank {queries}, or less)"
    if not known:
        return f"{ranks} would tell them from the limit; no number of draws does"
    draws = f"about {count(_round_up(max(known)))} draws (--draws {_round_up(max(known))})"
    return f"{draws} or {ranks} would decide"


def _round_up(number: int) -> int:
    """To two digits."""
    unit = int(10 ** max(len(str(number)) - 2, 0))
    return -(-number // unit) * unit
