"""Before training: what so many canaries could show, and how many it takes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, SupportsIndex

from canary.corpus.consistency import check_counts
from canary.errors import InputError
from canary.formats.format import Format
from canary.gate.evidence import check_level
from canary.gate.exposure_limit import check_limit, exceeding, share
from canary.records.record import Record
from canary.records.validation import real_number, some, whole_number
from canary.statistics.number_checks import check_confidence, exact_size, positive_integer
from canary.statistics.numbers import Shown, bits, plural
from canary.statistics.power import canaries_for, evidence_power, limit_power, smallest_seen


@dataclass(frozen=True, repr=False)
class GatePlan(Shown, Record):
    """What an audit of so many canaries could show.

    Exposures are medians over all canaries with one number of copies, in bits.

    Parameters
    ----------
    space_size : int
    repetitions : tuple of int
        Numbers of copies; each is a group of its own.
    per_repetition : int
        Canaries in each.
    draws : int or None
        With which they are compared; None for exact ranks.
    max_p : float
        Level of the test of evidence, over all groups.
    max_exposure_bits : float or None
        The limit, if one is planned.
    confidence : float
        Of a verdict on the limit.
    power : float
        The wanted chance of seeing what is there.
    seen_bits : float or None
        The smallest exposure of one group that the test of evidence sees with that chance;
        None if it sees none in this space.
    memorized_bits, passed_bits : float or None
        The smallest exposure that is called memorized, and the largest that passes the
        limit, with that chance; None if there is none.
    maximum_chance : float or None
        How often the largest exposure of all these canaries exceeds the limit if none was
        learned.
    exposure_bits : float or None
        An exposure that was asked about.
    evidence, memorized, passed : float or None
        Chances, at that exposure, of evidence, and of either verdict on the limit.
    canaries_for_evidence, canaries_for_verdict : int or None
        How many canaries in a group give the wanted chance there: of evidence, and of a
        verdict on the limit. None if it was not asked, or no number up to 4,096 does.
    """

    space_size: int
    repetitions: tuple[int, ...]
    per_repetition: int
    draws: int | None
    max_p: float
    max_exposure_bits: float | None
    confidence: float
    power: float
    seen_bits: float | None
    memorized_bits: float | None
    passed_bits: float | None
    maximum_chance: float | None
    exposure_bits: float | None
    evidence: float | None
    memorized: float | None
    passed: float | None
    canaries_for_evidence: int | None
    canaries_for_verdict: int | None

    def _table(self) -> list[dict[str, Any]]:
        return [vars(self)]

    def summary(self) -> str:
        """The plan in sentences, one per line."""
        groups = plural(len(self.repetitions), "number")
        compared = "exact ranks" if self.draws is None else plural(self.draws, "draw")
        lines = [
            f"{plural(self.per_repetition, 'canary', 'canaries')} for each of {groups} of copies, "
            f"{compared}, {plural(self.space_size, 'candidate')} "
            f"({math.log2(self.space_size):.1f} bits)",
            self._seen(),
        ]
        if self.max_exposure_bits is not None:
            lines += self._limit()
        if self.exposure_bits is not None:
            lines += self._asked()
        if self.seen_bits is self.memorized_bits is None:
            lines.append(
                "note: with a chance of "
                f"{share(self.power)} this set-up never shows that something was memorized: take "
                "more canaries (--per-repetition), a format with more candidates, or more draws"
            )
        if self.draws is not None:
            lines.append(
                "This counts draws alone. By default an audit also ranks exactly the canaries that "
                "were learned well enough (--budget), and so may decide where draws would not; "
                "without --draws, the plan is that of exact ranks for all"
            )
        return "\n".join(lines)

    def _seen(self) -> str:
        level = f"p <= {self.max_p:g} over all groups"
        if self.seen_bits is None:
            return f"Evidence ({level}): no exposure gives it with a chance of {share(self.power)}"
        return (
            f"Evidence ({level}): a median exposure of {bits(self.seen_bits)} bits or more is "
            f"seen with a chance of {share(self.power)}; canaries that were not learned have 1 bit"
        )

    def _limit(self) -> list[str]:
        limit = f"Limit of {self.max_exposure_bits:g} bits"
        over = under = "no median"
        if self.memorized_bits is not None:
            over = f"a median from {bits(self.memorized_bits)} bits on"
        if self.passed_bits is not None:
            under = f"one up to {bits(self.passed_bits)} bits"
        assert self.maximum_chance is not None
        return [
            f"{limit}: with a chance of {share(self.power)}, {over} is called memorized and "
            f"{under} passes; in between it is often undecided",
            f"{limit} on the maximum: if nothing is learned, exceeded in "
            f"{share(self.maximum_chance)} of audits",
        ]

    def _asked(self) -> list[str]:
        assert self.exposure_bits is not None
        assert self.evidence is not None
        at = f"If the median exposure is {bits(self.exposure_bits)} bits"
        lines = [
            f"{at}, evidence is found with a chance of {share(self.evidence)}; a chance of "
            f"{share(self.power)} takes {_number(self.canaries_for_evidence)}"
        ]
        if self.memorized is not None and self.passed is not None:
            lines.append(
                f"{at}, the verdict on the limit is memorized with a chance of "
                f"{share(self.memorized)} and passed with {share(self.passed)}; the right one of "
                f"them with {share(self.power)} takes {_number(self.canaries_for_verdict)}"
            )
        return lines


def plan(
    space: Format | str | SupportsIndex,
    *,
    repetitions: Sequence[int] = (1, 4, 16, 64),
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
    space : Format, str, or int
        The format of the canaries, or the size of its space.
    repetitions : sequence of int
        Numbers of copies.
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
        If a number does not serve.

    Notes
    -----
    A learned canary is one whose log-perplexity moved to the left by a fixed number of
    standard deviations of its candidates' (`canary.statistics.power`). Where canaries with
    as many copies differ by more than candidates do, it takes more of them. That canaries
    share their draws is counted: all of them may be placed too high or too low together.

    Examples
    --------
    >>> planned = plan(10**9, per_repetition=8, max_exposure_bits=10)
    >>> round(planned.seen_bits, 1), round(planned.maximum_chance, 3)
    (4.7, 0.031)
    """
    size = exact_size(space, "plan") if isinstance(space, SupportsIndex) else Format.of(space).size
    cure = "give a list such as [1, 4, 16]"
    copies = some(repetitions, "plan: repetitions", cure=cure)
    groups = tuple(
        dict.fromkeys(whole_number(n, "plan: each of repetitions", at_least=1) for n in copies)
    )
    if not groups:
        raise InputError("no number of copies", cure="give at least one", where="plan: repetitions")
    per_repetition = whole_number(per_repetition, "plan: per_repetition", at_least=1)
    check_counts(groups, per_repetition, 0)
    level = check_level(max_p) / len(groups)
    check_confidence(confidence, "plan: confidence")
    check_confidence(power, "plan: power")
    drawn = None
    if draws is not None:
        drawn = positive_integer(draws, "draws", "plan", cure="leave it out for exact ranks")
        whole_number(drawn, "plan: draws", at_least=1, cure="leave it out for exact ranks")
    most = math.log2(size)
    if most <= 1.0:
        raise InputError(
            f"a space of {plural(size, 'candidate')} tells nothing",
            cure="take a format with more",
            where="plan",
        )
    limit = None if max_exposure_bits is None else check_limit(max_exposure_bits)
    if limit is not None and limit >= most:
        raise InputError(
            f"no exposure could exceed the limit of {limit:g} bits: the space holds {most:.4g}",
            cure="lower the limit, or take a format with more candidates",
            where="max_exposure_bits",
        )
    if exposure_bits is not None:
        cure = "give a median in bits, or leave it out"
        exposure_bits = real_number(exposure_bits, "exposure_bits", cure=cure)
    if exposure_bits is not None and not 1.0 <= exposure_bits <= most:
        raise InputError(
            f"a median exposure of {exposure_bits!r} bits cannot be in this space",
            cure=f"give one from 1 bit, which is not learned, to {most:.4g}",
            where="exposure_bits",
        )

    def evident(median: float, k: int) -> float:
        return evidence_power(median, canaries=k, space_size=size, draws=drawn, level=level)

    def verdicts(median: float, k: int) -> tuple[float, float]:
        assert limit is not None
        return limit_power(
            median, limit, canaries=k, space_size=size, draws=drawn, confidence=confidence
        )

    def smallest(chance: Callable[[float], float]) -> float | None:
        return smallest_seen(chance, power, low=1.0, high=most)

    k = per_repetition
    over = under = None
    if limit is not None:
        over = smallest(lambda median: verdicts(median, k)[0])
        # Chances of passing fall with the median: where not passing is as likely as that.
        turn = smallest_seen(lambda m: 1.0 - verdicts(m, k)[1], 1.0 - power, low=1.0, high=most)
        under = None if verdicts(1.0, k)[1] < power else turn
    asked, at = exposure_bits is not None, exposure_bits or 1.0
    both = verdicts(at, k) if asked and limit is not None else (None, None)
    side = limit is not None and at > limit
    return GatePlan(
        space_size=size,
        repetitions=groups,
        per_repetition=k,
        draws=drawn,
        max_p=max_p,
        max_exposure_bits=limit,
        confidence=confidence,
        power=power,
        seen_bits=smallest(lambda median: evident(median, k)),
        memorized_bits=over,
        passed_bits=under,
        maximum_chance=None if limit is None else exceeding(limit, k * len(groups)),
        exposure_bits=exposure_bits,
        evidence=evident(at, k) if asked else None,
        memorized=both[0],
        passed=both[1],
        canaries_for_evidence=canaries_for(lambda n: evident(at, n), power) if asked else None,
        canaries_for_verdict=canaries_for(lambda n: verdicts(at, n)[0 if side else 1], power)
        if asked and limit is not None
        else None,
    )


def _number(canaries: int | None) -> str:
    if canaries is None:
        return "more than 4,096 canaries with each number of copies, or no number does"
    return (
        f"{plural(canaries, 'canary', 'canaries')} with each number of copies "
        f"(--per-repetition {canaries})"
    )
