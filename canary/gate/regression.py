"""Is more memorized than in the baseline? Of two models, and of two ways of training."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain

from canary.audits.designs import differences
from canary.errors import InputError
from canary.gate.baselines import Baseline, Measured
from canary.gate.verdict import Finding, Outcome, Standing
from canary.statistics.numbers import plural, probability
from canary.statistics.resampling import (
    larger_in_groups,
    larger_in_pairs,
    least_in_groups,
    least_in_pairs,
)

MODEL_LEVEL = 0.01
"""Two models differ if the permutations of their canaries say so at this level."""

PROCEDURE_LEVEL = 0.05
"""The same of two ways of training: three seeds against three can give 1 in 20, not less."""

SEEDS = 3
"""So many seeds of each way of training are compared at the least."""

Value = Callable[[Standing], float]


def more_than(
    current: Baseline,
    baseline: Baseline,
    *,
    repetitions: Sequence[int] | None = None,
    seed: int = 0,
) -> Finding:
    """Whether canaries are more exposed than in a baseline.

    Parameters
    ----------
    current, baseline : Baseline
        One audit each compares two models; three or more each, of as many seeds, compare two
        ways of training.
    repetitions : sequence of int, optional
        Numbers of copies to compare. All unless given.
    seed : int
        Of random permutations, where there are too many to try all.

    Raises
    ------
    InputError
        If the audits cannot be compared, or there are neither one nor three of each.

    Notes
    -----
    *Two models*: the sum over the injected canaries of the differences in exposure, against
    all ways to swap the two exposures of a canary (the same canaries by format, id and
    copies, in whatever order they stand), or to deal canaries of one format and number of
    copies to the two models (other canaries). It is a statement
    about these two models: which of two seeds memorizes more is luck that the canaries of one
    seed share, so between ways of training this test alarms far too often.

    *Two ways of training*: whole audits are dealt to the two sides. What the canaries of a
    seed share is dealt with them, and the test keeps its level whatever it is.

    Exposures may be intervals. More is found only if the test finds it with the lower ends of
    the current ones against the upper ends of the baseline's. It passes only if the test does
    not find it with the estimates, where those that are known to be "at least" so much now
    count as the most that they may be.
    """
    now, before = (tuple(map(_ordered, side.audits)) for side in (current, baseline))
    if repetitions is not None:
        now, before = (tuple(one.only(repetitions) for one in side) for side in (now, before))
    for one in (*now, *before[1:]):
        apart = list(differences(one.design, before[0].design, sizes=False))
        if apart:
            raise InputError(
                f"the audit cannot be compared with the baseline: {'; '.join(apart)}",
                cure="audit in the same way with canaries of the same kind, or make a new "
                "baseline (--update-baseline, or --canary-update under pytest)",
                where="baseline",
            )
    who = "all injected canaries"
    if repetitions is not None:
        who = f"injected canaries with {', '.join(map(str, sorted(set(repetitions))))} copies"
    if len(now) == len(before) == 1:
        found = replace(_models(now[0], before[0], seed), subject=who)
        weights = [one.model.get("fingerprint") for one in (now[0], before[0])]
        if weights[0] and weights[0] == weights[1]:
            old = "both are of the same weights: if the model was trained since, audit it again"
            found = replace(found, sentence=f"{found.sentence}; {old}")
        return found
    if min(len(now), len(before)) < SEEDS:
        raise InputError(
            f"{plural(len(now), 'audit')} cannot be compared with a baseline of {len(before)}: "
            "one against one compares two models, and ways of training take three seeds or "
            "more of each",
            cure="train with other seeds and give all their audits, or make the baseline of one",
            where="baseline",
        )
    for side in (now, before):
        prints = Counter(one.model.get("fingerprint") for one in side)
        if max(prints.values()) > 1:
            raise InputError(
                "two audits are of the same weights, so they are not of different seeds",
                cure="train with other seeds, and audit each model once",
                where="baseline",
            )
    return replace(_procedures(now, before, seed), subject=who)


def _models(now: Measured, before: Measured, seed: int) -> Finding:
    names = _names(now)
    paired = names == _names(before) and len(set(names)) == len(names)

    def test(mine: Value, theirs: Value) -> float:
        if paired:
            return larger_in_pairs(
                [mine(c) for c in now.canaries],
                [theirs(c) for c in before.canaries],
                seed=seed,
            )
        here, there = _strata(now, mine), _strata(before, theirs)
        return larger_in_groups(
            [here[key] for key in sorted(here)], [there[key] for key in sorted(here)], seed=seed
        )

    here, there = _strata(now, _middle), _strata(before, _middle)
    sizes = [(len(here[key]), len(there[key])) for key in here]
    least = least_in_pairs(len(now.canaries)) if paired else least_in_groups(sizes)
    who = plural(len(now.canaries), "canary", "canaries")
    how = "pair by pair" if paired else "other canaries than the baseline's"
    return _finding(
        (now,),
        (before,),
        test,
        least,
        level=MODEL_LEVEL,
        phrases=(
            f"{who}, {how}",
            "more canaries would do (--per-repetition)",
            "it speaks of these two models; of the way of training only three seeds or more of "
            "each can (give several audits)",
        ),
    )


def _procedures(now: Sequence[Measured], before: Sequence[Measured], seed: int) -> Finding:
    def test(mine: Value, theirs: Value) -> float:
        return larger_in_groups(
            [[_level(one, mine) for one in now]],
            [[_level(one, theirs) for one in before]],
            seed=seed,
        )

    return _finding(
        now,
        before,
        test,
        least_in_groups([(len(now), len(before))]),
        level=PROCEDURE_LEVEL,
        phrases=(
            f"{len(now)} seeds against {len(before)}",
            "more seeds would do",
            "look for what changed in the training",
        ),
    )


def _finding(
    now: Sequence[Measured],
    before: Sequence[Measured],
    test: Callable[[Value, Value], float],
    least: float,
    *,
    level: float,
    phrases: tuple[str, str, str],
) -> Finding:
    """The finding of a test of values; `phrases` say how it was made, and give both cures."""
    told, few, more = phrases
    value = test(_middle, _middle)
    lead = _mean(now, _middle) - _mean(before, _middle)
    words = f"{abs(lead):.1f} bits {'more' if lead >= 0 else 'less'} than in the baseline"
    where = f"the canaries are exposed by {words} on average ({told}, p = {{}} by permutation)"
    outcome: Outcome = "passed"
    cure = ""
    p = value
    surely, possibly = test(_lower, _upper), test(_most, _middle)
    if surely <= level:
        outcome, cure, p = "memorized", more, surely
    elif least > level:
        outcome, cure = "undecided", f"no p-value below {least:.2g} can come of so few; {few}"
    elif possibly <= level:
        outcome = "undecided"
        cure = (
            "their intervals leave open whether it is more; rank exactly (--method rank) or draw "
            "more (--draws), for the baseline as well"
        )
    sentence = where.format(probability(p))
    chosen = sorted(now[0].canaries, key=lambda c: -c.lower_bits)
    return Finding(
        "baseline",
        "all injected canaries",
        outcome,
        sentence,
        cure,
        limit=level,
        value=value,
        lower=possibly,
        upper=surely,
        chance=level,
        canaries=tuple(c.standing for c in chosen)
        if outcome == "memorized" and len(now) == 1
        else (),
    )


def _ordered(one: Measured) -> Measured:
    """The same with its canaries in an order that is not that of the file."""
    order = sorted(one.canaries, key=lambda c: (c.format, len(c.id), c.id, c.repetitions))
    return replace(one, canaries=tuple(order))


def _names(one: Measured) -> list[tuple[int, str, int]]:
    """Which canaries they are, as far as it is told; pairs of others do no harm."""
    return [(c.format, c.id, c.repetitions) for c in one.canaries]


def _strata(one: Measured, value: Value) -> dict[tuple[int, int], list[float]]:
    found: dict[tuple[int, int], list[float]] = {}
    for c in one.canaries:
        found.setdefault((c.format, c.repetitions), []).append(value(c))
    return found


def _level(one: Measured, value: Value) -> float:
    """The mean over the kinds of canaries of their mean exposure."""
    means = [sum(found) / len(found) for found in _strata(one, value).values()]
    return sum(means) / len(means)


def _mean(side: Sequence[Measured], value: Value) -> float:
    found = list(chain.from_iterable(map(value, one.canaries) for one in side))
    return sum(found) / len(found)


def _middle(c: Standing) -> float:
    return c.lower_bits if c.bits is None else c.bits


def _most(c: Standing) -> float:
    return c.upper_bits if c.bits is None else c.bits


def _lower(c: Standing) -> float:
    return c.lower_bits


def _upper(c: Standing) -> float:
    return c.upper_bits
