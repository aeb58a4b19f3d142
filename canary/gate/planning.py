"""Before training: what so many canaries could show, and how many it takes."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, SupportsIndex

from canary.audits.group_medians import ceiling
from canary.audits.question import AuditOptions
from canary.corpus.canaries import CanarySet
from canary.corpus.consistency import REPETITIONS, Groups, asked_of, check_counts
from canary.errors import InputError
from canary.formats.format import Format
from canary.gate.exposure_limit import check_level, check_limit, exceeding, share
from canary.records.record import Record
from canary.records.sealing import sealed
from canary.records.validation import real_number, whole_number
from canary.statistics.number_checks import check_confidence, exact_size
from canary.statistics.numbers import Shown, bits, count, plural
from canary.statistics.power import canaries_for, evidence_power, limit_power, smallest_seen

_MOST_CANARIES = 64  # in a group of which it is said what it would decide: beyond, it takes long


@dataclass(frozen=True)
class Decided:
    """What canaries of one number of copies decide: as `memorized_bits` and `passed_bits`."""

    canaries: int
    passed_bits: float | None
    memorized_bits: float | None


@dataclass(frozen=True, repr=False)
class GatePlan(Shown, Record):
    """What an audit of this many canaries could show.

    Exposures are medians over all canaries with one number of copies, in bits.

    Parameters
    ----------
    space_size : int
        Of several formats, the smallest.
    repetitions, draws, max_p, max_exposure_bits, confidence, power
        As given to `canary.plan`.
    per_repetition : int
        The canaries of one format in the smallest group.
    seen_bits : float or None
        The smallest exposure of one group that the test of evidence sees with the wanted
        chance; None if it sees none in this space.
    memorized_bits, passed_bits : float or None
        The smallest exposure that is called memorized, and the largest that passes the
        limit, with that chance; None if there is none.
    with_more : tuple of Decided
        The same with twice and four times as many canaries in a group, up to 64.
    maximum_chance : float or None
        How often the largest of all these exposures exceeds the limit if none was learned.
    exposure_bits : float or None
        An exposure that was asked about.
    evidence, memorized, passed : float or None
        Chances, at that exposure, of evidence, and of either verdict on the limit.
    canaries_for_evidence, canaries_for_verdict : int or None
        How many canaries in a group give the wanted chance there; None if it was not asked,
        or no number up to 4,096 does.
    queries : int or None
        About how many queries price every candidate, with one token for each character: what
        the budget of an audit needs for exact ranks of all. None with draws, or without a format.
    formats : int
    per_format : int
        The most canaries of one format.
    """

    space_size: int
    repetitions: tuple[int, ...]
    per_repetition: int
    draws: int | None
    max_p: float
    max_exposure_bits: float | None
    confidence: float
    power: float
    seen_bits: float | None = None
    memorized_bits: float | None = None
    passed_bits: float | None = None
    with_more: tuple[Decided, ...] = ()
    maximum_chance: float | None = None
    exposure_bits: float | None = None
    evidence: float | None = None
    memorized: float | None = None
    passed: float | None = None
    canaries_for_evidence: int | None = None
    canaries_for_verdict: int | None = None
    queries: int | None = None
    formats: int = 1
    per_format: int = 0

    def _table(self) -> list[dict[str, Any]]:
        return [vars(self)]

    def _highest(self) -> str:
        """How high medians can be, as canaries of one format take each other's ranks."""
        total, each = self.per_format, self.per_repetition
        if total == 1:
            return ""
        whole = math.log2(self.space_size)
        high, low = (
            bits(ceiling([(whole, first + rank) for rank in range(1, each + 1)]))
            for first in (0, total - each)
        )
        highest = f"The median of {plural(each, 'canary', 'canaries')} is at most {high} bits"
        if total == each:
            return f"{highest}, since canaries of one format take each other's ranks"
        return (
            f"{highest}, and {low} if all {count(total)} are the most likely candidates, since "
            "canaries of one format take each other's ranks. A format for each number of copies "
            f"gives {high} to all (canary generate with --repetitions for each)"
        )

    def summary(self) -> str:
        """The plan in sentences, one per line."""
        groups, wanted = plural(len(self.repetitions), "number"), share(self.power)
        compared = "exact ranks" if self.draws is None else plural(self.draws, "draw")
        seen = f"no exposure gives it with a chance of {wanted}"
        if self.seen_bits is not None:
            seen = (
                f"a median exposure of {bits(self.seen_bits)} bits or more is seen with a chance "
                f"of {wanted}; canaries that were not learned have 1 bit"
            )
        of = f"{self.formats:,} formats of at least " if self.formats > 1 else ""
        lines = [
            f"{plural(self.per_repetition, 'canary', 'canaries')} for each of {groups} of copies, "
            f"{compared}, {of}{plural(self.space_size, 'candidate')} "
            f"({math.log2(self.space_size):.1f} bits)",
            f"Evidence (p <= {self.max_p:g} over all groups): {seen}",
        ]
        if highest := self._highest():
            lines.append(highest)
        if self.maximum_chance is not None:
            limit, over, under = f"Limit of {self.max_exposure_bits:g} bits", *["no median"] * 2
            if self.memorized_bits is not None:
                over = f"a median from {bits(self.memorized_bits)} bits on"
            if self.passed_bits is not None:
                under = f"one up to {bits(self.passed_bits)} bits"
            lines += [
                f"{limit}: with a chance of {wanted}, {over} is called memorized and {under} "
                "passes; in between it is often undecided",
                *_more(self.with_more),
                f"{limit} on the maximum: if nothing is learned, exceeded in "
                f"{share(self.maximum_chance)} of audits",
            ]
        if self.exposure_bits is not None and self.evidence is not None:
            asked = f"If the median exposure is {bits(self.exposure_bits)} bits"
            lines.append(
                f"{asked}, evidence is found with a chance of {share(self.evidence)}; a chance of "
                f"{wanted} takes {_number(self.canaries_for_evidence)}"
            )
            if self.memorized is not None and self.passed is not None:
                lines.append(
                    f"{asked}, the verdict on the limit is memorized with a chance of "
                    f"{share(self.memorized)} and passed with {share(self.passed)}; the right one "
                    f"of them with {wanted} takes {_number(self.canaries_for_verdict)}"
                )
        if self.seen_bits is self.memorized_bits is None:
            lines.append(
                f"note: with a chance of {wanted} this set-up never shows that something was "
                "memorized: take more canaries (--per-repetition), a format with more candidates, "
                "or more draws"
            )
        if self.draws is not None:
            lines.append(
                "This counts draws alone. By default an audit also ranks exactly the canaries that "
                "were learned well enough (budget), and so may decide where draws would not; "
                "without draws, the plan is that of exact ranks for all"
            )
        elif (self.queries or 0) > AuditOptions.budget:
            lines.append(
                "note: this assumes exact ranks for all. With one token per character they take "
                f"{plural(self.queries or 0, 'query', 'queries')}; an audit's default budget is "
                f"{AuditOptions.budget:,} (--budget), and then only canaries that were learned "
                f"well have exact ranks. With --draws {AuditOptions.draws}, the plan is for draws"
            )
        return "\n".join(lines)


@sealed
def plan(
    space: CanarySet
    | Format
    | str
    | SupportsIndex
    | Sequence[Format | str]
    | Mapping[Format | str, Groups],
    *,
    repetitions: Groups = REPETITIONS,
    per_repetition: int = 8,
    draws: int | None = None,
    max_p: float = 0.001,
    max_exposure_bits: float | None = None,
    exposure_bits: float | None = None,
    confidence: float = 0.9,
    power: float = 0.9,
) -> GatePlan:
    """Say what an audit could show, before anything is trained.

    Parameters
    ----------
    space : CanarySet, Format, str, int, sequence of formats, or mapping of them to `repetitions`
        Canaries that were drawn, their formats as for `canary.generate`, or the size of a space.
        A set has its own numbers of copies and of canaries.
    repetitions : sequence of int, or mapping of int to int
        Numbers of copies; a mapping gives the canaries of each.
    per_repetition : int
        Canaries of each.
    draws : int, optional
        With which canaries are compared. Exact ranks unless given: audits have them of
        spaces that they enumerate, and of canaries that were learned well.
    max_p : float
        Level of the test of evidence, over all numbers of copies (Holm).
    max_exposure_bits : float, optional
        A limit on the median.
    exposure_bits : float, optional
        A median exposure of which to say how likely it is seen, and how many canaries it
        takes.
    confidence, power : float
        Of a verdict on the limit, and the wanted chance of seeing what is there.

    Returns
    -------
    GatePlan

    Raises
    ------
    InputError
        If a number does not serve, or the secrets of a set were found and not drawn.

    Notes
    -----
    A learned canary is one whose log-perplexity moved to the left by a fixed number of
    standard deviations of its candidates' (`canary.statistics.power`). Where canaries with
    as many copies differ by more than candidates do, it takes more of them. That canaries
    share their draws is counted: all of them may be placed too high or too low together.
    Where groups or spaces differ, the plan is that of the smallest, and others show more. So do
    numbers of copies that several formats have.

    Examples
    --------
    >>> planned = plan(10**9, per_repetition=8, max_exposure_bits=10)
    >>> round(planned.seen_bits, 1), round(planned.maximum_chance, 3)
    (4.7, 0.031)
    """
    formats: list[Format] = []
    if isinstance(space, CanarySet):
        space = _groups(space)
    if isinstance(space, SupportsIndex):
        size, each = exact_size(space, "plan"), [check_counts(repetitions, per_repetition, 0)]
    else:
        asked_for = asked_of(space, repetitions, per_repetition, 0)
        if not asked_for:
            raise InputError("no format", cure="give at least one", where="plan")
        formats, each = [format for format, _ in asked_for], [counts for _, counts in asked_for]
        size = min(format.size for format in formats)
    groups = tuple(dict.fromkeys(number for counts in each for number in counts))
    number = min(size for counts in each for size in Counter(counts).values())
    level = check_level(max_p) / len(groups)
    check_confidence(confidence, "plan: confidence")
    check_confidence(power, "plan: power")
    if draws is not None:
        cure = "leave it out for exact ranks"
        draws = whole_number(draws, "plan: draws", at_least=1, cure=cure)
    most = math.log2(size)
    if most <= 1.0:
        raise InputError(
            f"a space of {plural(size, 'candidate')} tells nothing",
            cure="take a format with more",
            where="plan",
        )
    limit = None if max_exposure_bits is None else check_limit(max_exposure_bits, most=most)
    asked = exposure_bits
    if asked is not None:
        asked = real_number(asked, "exposure_bits", cure="give a median in bits, or leave it out")
        if not 1.0 <= asked <= most:
            raise InputError(
                f"a median exposure of {asked!r} bits cannot be in this space",
                cure=f"give one from 1 bit, which is not learned, to {most:.4g}",
                where="exposure_bits",
            )

    def evident(median: float, canaries: int = number) -> float:
        return evidence_power(median, canaries=canaries, space_size=size, draws=draws, level=level)

    planned = GatePlan(
        space_size=size,
        repetitions=groups,
        per_repetition=number,
        draws=draws,
        max_p=max_p,
        max_exposure_bits=limit,
        confidence=confidence,
        power=power,
        seen_bits=smallest_seen(evident, power, low=1.0, high=most),
        exposure_bits=asked,
        queries=None if draws is not None or not formats else max(map(_queries, formats)),
        formats=len(each),
        per_format=max(map(len, each)),
    )
    if asked is not None:
        planned = replace(
            planned,
            evidence=evident(asked),
            canaries_for_evidence=canaries_for(lambda n: evident(asked, n), power),
        )
    if limit is None:
        return planned

    def verdicts(median: float, canaries: int = number) -> tuple[float, float]:
        return limit_power(
            *(median, limit),
            canaries=canaries, space_size=size, draws=draws, confidence=confidence,
        )  # fmt: skip

    def decided(canaries: int) -> Decided:
        # Chances of passing fall with the median: where not passing is as likely as that.
        turn = smallest_seen(
            lambda m: 1.0 - verdicts(m, canaries)[1], 1.0 - power, low=1.0, high=most
        )
        over = smallest_seen(lambda m: verdicts(m, canaries)[0], power, low=1.0, high=most)
        return Decided(canaries, None if verdicts(1.0, canaries)[1] < power else turn, over)

    mine = decided(number)
    planned = replace(
        planned,
        memorized_bits=mine.memorized_bits,
        passed_bits=mine.passed_bits,
        with_more=tuple(decided(n * number) for n in (2, 4) if n * number <= _MOST_CANARIES),
        maximum_chance=exceeding(limit, number * len(groups)),
    )
    if asked is None:
        return planned
    memorized, passed = verdicts(asked)
    side = 0 if asked > limit else 1
    enough = canaries_for(lambda n: verdicts(asked, n)[side], power)
    return replace(planned, memorized=memorized, passed=passed, canaries_for_verdict=enough)


def _groups(canaries: CanarySet) -> dict[Format | str, Groups]:
    """How many canaries of each format there are with each number of copies."""
    if canaries.natural:
        raise InputError(
            "these secrets were found and not drawn, so they have no p-values and nothing to plan",
            cure="give a set that canary generate drew",
            where="plan",
        )
    found: dict[Format | str, Counter[int]] = defaultdict(Counter)
    for canary in canaries.injected:
        found[canaries.formats[canary.format]][canary.repetitions] += 1
    return {**found}


def _queries(format: Format) -> int:
    """Queries of an enumeration where each character is a token.

    They are the beginnings of fills that something follows: text after the last hole makes each
    whole fill one of them.
    """
    automaton = format.automaton
    beginnings = [1] + [0] * (len(automaton.final) - 1)  # that lead to each state
    for state, (first, end) in enumerate(pairwise(automaton.offsets.tolist())):
        for target in automaton.targets[first:end].tolist():
            beginnings[target] += beginnings[state]
    return sum(beginnings) - 1 - (0 if format.suffix else automaton.size)


def _more(with_more: Sequence[Decided]) -> list[str]:
    """What more canaries decide, in a sentence; none where nothing is known of that."""
    told = []
    for each in with_more:
        under = "none" if each.passed_bits is None else f"one up to {bits(each.passed_bits)} bits"
        over = "none" if each.memorized_bits is None else f"one from {bits(each.memorized_bits)} on"
        told.append(
            f"with --per-repetition {each.canaries}, {under} passes and {over} is memorized"
        )
    if not told:
        return []
    return [
        f"More canaries close the gap: {'; '.join(told)}. A median at the limit stays undecided"
    ]


def _number(canaries: int | None) -> str:
    if canaries is None:
        return "more than 4,096 canaries with each number of copies, or no number does"
    return (
        f"{plural(canaries, 'canary', 'canaries')} with each number of copies "
        f"(--per-repetition {canaries})"
    )
