"""What a plan says: what so many canaries could show."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from canary.audits.group_medians import ceiling
from canary.audits.question import AuditOptions
from canary.gate.exposure_limit import share
from canary.records.record import Record
from canary.statistics.numbers import Shown, bits, count, plural


@dataclass(frozen=True)
class Decided:
    """What a number of canaries in each group decides: as the same fields of the plan."""

    canaries: int
    passed_bits: float | None
    memorized_bits: float | None
    unlearned_passes: float


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
    unlearned_passes : float or None
        The chance that all numbers of copies pass the limit if none was learned.
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
    control, smallest : int
        The number of copies of the positive control, which is left out; and that of the smallest
        group, where groups differ. 0 for none.
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
    unlearned_passes: float | None = None
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
    control: int = 0
    smallest: int = 0

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
            return highest
        return (
            f"{highest}, or {low} if the other groups are more likely. Only a limit near that "
            "takes a format for each number of copies (canary generate with --repetitions for each)"
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
        ]
        lines += [*self._limits(wanted), *self._asked(wanted)]
        lines.append(f"Evidence (p <= {self.max_p:g} over all groups): {seen}")
        if self.control:
            lines.append(
                f"The canaries with {count(self.control)} copies are left out, as a positive "
                "control: no limit is asked of them"
            )
        if self.smallest:
            lines.append(
                "note: groups have different numbers of canaries, and the plan is that of the "
                f"smallest, {plural(self.smallest, 'copy', 'copies')}; others show more. If it is "
                f"a positive control, leave it out with --require-learned {self.smallest}"
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
        return "\n".join(filter(None, [*lines, self._highest()]))

    def _limits(self, wanted: str) -> Iterator[str]:
        """What a limit decides, and what more canaries would."""
        if self.maximum_chance is None or self.unlearned_passes is None:
            return
        groups = len(self.repetitions)
        which, all_pass = "", "it passes"
        if groups > 1:
            which, all_pass = ", for each number of copies", f"all {groups} numbers of copies pass"
        limit, over, under = f"Limit of {self.max_exposure_bits:g} bits", "no median", "no median"
        if self.memorized_bits is not None:
            over = f"a median from {bits(self.memorized_bits)} bits on"
        if self.passed_bits is not None:
            under = f"a median up to {bits(self.passed_bits)} bits"
        where = "in between it is" if self.passed_bits is not None else "below that it is"
        if self.memorized_bits is None:
            where = "all are" if self.passed_bits is None else "above that it is"
        surely = "" if self.passed_bits is not None else " as surely"
        yield (
            f"{limit}{which}: with a chance of {wanted}, {over} is called memorized and {under} "
            f"passes{surely}; {where} often undecided"
        )
        first: dict[str, int] = {}  # more canaries than the first of a share say no more
        for each in self.with_more:
            first.setdefault(share(each.unlearned_passes), each.canaries)
        more = [f"{chance} with {number}" for chance, number in first.items()]
        yield (
            f"If nothing is learned (1 bit), {all_pass} with a chance of "
            f"{share(self.unlearned_passes)}"
        ) + (f"; it is {', '.join(more)} canaries each (--per-repetition)" if more else "")
        yield from _more(self.with_more)
        yield (
            f"{limit} on the maximum: if nothing is learned, exceeded in "
            f"{share(self.maximum_chance)} of audits"
        )

    def _asked(self, wanted: str) -> Iterator[str]:
        """How likely an exposure that was asked for is seen."""
        if self.exposure_bits is None or self.evidence is None:
            return
        asked = f"If the median exposure is {bits(self.exposure_bits)} bits"
        yield (
            f"{asked}, evidence is found with a chance of {share(self.evidence)}; a chance of "
            f"{wanted} takes {_number(self.canaries_for_evidence)}"
        )
        if self.memorized is not None and self.passed is not None:
            yield (
                f"{asked}, the verdict on the limit is memorized with a chance of "
                f"{share(self.memorized)} and passed with {share(self.passed)}; the right one "
                f"of them with {wanted} takes {_number(self.canaries_for_verdict)}"
            )


def _more(with_more: Sequence[Decided]) -> list[str]:
    """What more canaries decide, in a sentence; none where nothing is known of that."""
    told = []
    for each in with_more:
        under = over = "no median"
        if each.passed_bits is not None:
            under = f"a median up to {bits(each.passed_bits)} bits"
        if each.memorized_bits is not None:
            over = f"a median from {bits(each.memorized_bits)} bits on"
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
