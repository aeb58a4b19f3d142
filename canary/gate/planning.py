"""Before training: what so many canaries could show, and how many it takes."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import SupportsIndex

from canary.audits.by_enumeration import queries_by_character
from canary.corpus.canaries import CanarySet
from canary.corpus.consistency import REPETITIONS, Groups, asked_of, check_counts
from canary.errors import InputError
from canary.formats.format import Format
from canary.gate.exposure_limit import check_level, exceeding
from canary.gate.plan_result import Decided, GatePlan
from canary.gate.weak_limits import check_limit
from canary.records.sealing import sealed
from canary.records.validation import real_number, whole_number
from canary.statistics.number_checks import check_chance, check_confidence, exact_size
from canary.statistics.numbers import plural
from canary.statistics.power import canaries_for, evidence_power, limit_power, smallest_seen

_MOST_CANARIES = 64  # in a group of which it is said what it would decide: beyond, it takes long


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
    require_learned: int | None = None,
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
    require_learned : int, optional
        The number of copies of a positive control, as in `canary.check`: its canaries are not
        judged, so the plan is for the others.

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
    per_format = max(map(len, each))
    each = _judged(each, require_learned)
    groups = tuple(dict.fromkeys(number for counts in each for number in counts))
    sizes = [(size, -n) for counts in each for n, size in Counter(counts).items()]
    number, smallest = min(sizes)
    takes = max(map(queries_by_character, formats), default=None)
    level = check_level(max_p) / len(groups)
    check_confidence(confidence, "plan: confidence")
    check_chance(power, "plan", name="power")
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
        queries=takes if draws is None else None,
        formats=len(each),
        per_format=per_format,
        control=require_learned or 0,
        smallest=-smallest if number < max(sizes)[0] else 0,
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
        unlearned = verdicts(1.0, canaries)[1]
        passed = None if unlearned < power else turn
        return Decided(canaries, passed, over, unlearned ** len(groups))

    mine = decided(number)
    planned = replace(
        planned,
        memorized_bits=mine.memorized_bits,
        passed_bits=mine.passed_bits,
        unlearned_passes=mine.unlearned_passes,
        with_more=tuple(decided(n * number) for n in (2, 4) if n * number <= _MOST_CANARIES),
        maximum_chance=exceeding(limit, sum(size for size, _ in sizes)),
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


def _judged(each: Sequence[list[int]], control: int | None) -> list[list[int]]:
    """The copies of each canary, by format, without those of a positive control."""
    if control is None:
        return [*each]
    control = whole_number(control, "require_learned", at_least=1)
    judged = [[n for n in counts if n != control] for counts in each]
    if sum(map(len, judged)) in (0, sum(map(len, each))):
        raise InputError(
            f"no group with {plural(control, 'copy', 'copies')} beside others",
            cure="name one of several numbers of copies",
            where="require_learned",
        )
    return judged
