"""Is more memorized than in the baseline? Of two models, and of two ways of training."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

from canary.audits.audit_result import Audit
from canary.audits.by_rank import exact_ranks
from canary.audits.designs import differences
from canary.audits.group_medians import median_bits
from canary.errors import InputError
from canary.gate.baselines import Baseline, Measured
from canary.gate.verdict import Finding, Outcome, Standing
from canary.statistics.numbers import bits, copies, plural, probability
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

ITSELF = "a model is compared with itself"
"""What an undecided finding on a baseline says if its weights are those of the audit."""


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
    copies, in any order), or to deal canaries of one format and number of copies to the two
    models (other canaries). It is a statement about these two models: which of two seeds
    memorizes more is luck that the canaries of one seed share, so between ways of training
    this test alarms far too often.

    *Two ways of training*: whole audits are dealt to the two sides. What the canaries of a
    seed share is dealt with them, and the test keeps its level whatever it is.

    Exposures may be intervals. More is found only if the test finds it with the lower ends of
    the current ones against the upper ends of the baseline's. It passes only if the test does
    not find it with the estimates, where those that are known to be "at least" so much now
    count as the most that they may be.
    """
    now, before = (
        [_chosen(measured, repetitions) for measured in side.audits] for side in (current, baseline)
    )
    alone = len(now) == len(before) == 1
    _check_sides(now, before, alone=alone)
    names, theirs = (
        [(c.format, c.id, c.repetitions) for measured in side for c in measured.canaries]
        for side in (now, before)
    )
    paired = alone and names == theirs

    def p_value(mine: str, other: str) -> float:
        """Of one field of the current canaries against one of the baseline's."""
        values = _values(now, mine, paired=paired), _values(before, other, paired=paired)
        return (larger_in_pairs if paired else larger_in_groups)(*values, seed=seed)

    value, surely = p_value("middle_bits", "middle_bits"), p_value("lower_bits", "upper_bits")
    possibly, least = p_value("most_bits", "middle_bits"), least_in_pairs(len(names))
    if not paired:
        sides = (_values(side, "middle_bits", paired=False) for side in (now, before))
        least = least_in_groups([(len(a), len(b)) for a, b in zip(*sides, strict=True)])
    level, how = PROCEDURE_LEVEL, f"{len(now)} seeds against {len(before)}"
    few, cure = "more seeds would do", "look for what changed in the training"
    if alone:
        level, few = MODEL_LEVEL, "more canaries would do (--per-repetition)"
        kind = "pair by pair" if paired else "other canaries than the baseline's"
        how = f"{plural(len(names), 'canary', 'canaries')}, {kind}"
        cure = (
            "it speaks of these two models; of the way of training only three seeds or more of "
            "each can (give several audits)"
        )
    outcome: Outcome = "undecided"
    if surely <= level:
        outcome = "memorized"
    elif least > level:
        cure = f"no p-value below {least:.2g} can come of so few; {few}"
    elif possibly <= level:
        ranks = exact_ranks(now[0].model)
        cure = (
            f"their intervals leave open whether it is more; use {f'{ranks} or ' if ranks else ''}"
            "more draws (--draws), for the baseline as well"
        )
    else:
        outcome, cure = "passed", ""
    means = [fmean(c.middle_bits for m in side for c in m.canaries) for side in (now, before)]
    lead = means[0] - means[1]
    told = (
        f"the canaries are exposed by {abs(lead):.1f} bits {'more' if lead >= 0 else 'less'} than "
        f"in the baseline on average ({how}, p = "
        f"{probability(surely if outcome == 'memorized' else value)} by permutation)"
    )
    who = "all injected canaries"
    if repetitions is not None:
        who = f"injected canaries with {', '.join(map(str, sorted(set(repetitions))))} copies"
    standings = tuple(
        Standing(c.id, c.repetitions, c.bits, c.lower_bits, c.upper_bits)
        for c in sorted(now[0].canaries, key=lambda c: -c.lower_bits)
    )
    return Finding(
        *("baseline", who, outcome, told, cure),
        limit=level,
        value=value,
        lower=possibly,
        upper=surely,
        chance=level,
        canaries=standings if alone and outcome == "memorized" else (),
    )


def of_same_weights(
    found: Finding, audits: Sequence[Audit], baseline: Baseline, *, named: bool
) -> Finding:
    """A finding on weights that are compared with themselves, which decides nothing.

    As of an audit that lay there when the model was trained again. It is one if the model was
    `named`, so that nothing was trained since, or is on a server, where nothing can name it.
    """
    prints = {audit.model.get("fingerprint") for audit in audits}
    prints |= {measured.model.get("fingerprint") for measured in baseline.audits}
    if found.outcome == "memorized" or len(prints) > 1 or not all(prints):
        return found
    told = "the audit and the baseline are of the same weights"
    if named or audits[0].model.get("device") == "served":
        return replace(found, sentence=f"{found.sentence}; {told}")
    told += f", so {ITSELF}"
    cure = "audit the model that was trained since, and check that audit; if none was, name the "
    cure += "model with --model (in Python model), which compares its weights with the audit"
    return replace(found, outcome="undecided", sentence=told, cure=cure)


def with_level(
    found: Finding, audits: Sequence[Audit], numbers: Sequence[int] | None = None
) -> Finding:
    """A pass that names the highest median of these numbers of copies: nothing limited it."""
    medians = [
        (median_bits([c.exposure for c in group]), n)
        for audit in audits
        for n, group in audit.by_repetitions().items()
        if n and (numbers is None or n in numbers)
    ]
    if found.outcome != "passed" or not medians:
        return found
    (highest, bound), n = max(medians)
    told = (
        f"the highest median is {'at least ' * bound}{bits(highest)} bits (canaries that appeared "
    )
    told += f"{copies(n)}), and no limit on exposure was given"
    return replace(found, sentence=f"{found.sentence}; {told}")


def _check_sides(now: Sequence[Measured], before: Sequence[Measured], *, alone: bool) -> None:
    """Refuse audits that cannot be compared."""
    for measured in (*now, *before[1:]):
        apart = list(differences(measured.design, before[0].design, sizes=False))
        if apart:
            raise InputError(
                f"the audit cannot be compared with the baseline: {'; '.join(apart)}",
                cure="audit in the same way with canaries of the same kind, or make a new "
                "baseline (--update-baseline, or --canary-update under pytest)",
                where="baseline",
            )
    if not alone and min(len(now), len(before)) < SEEDS:
        raise InputError(
            f"{plural(len(now), 'audit')} cannot be compared with a baseline of {len(before)}: "
            "one against one compares two models, and ways of training take three seeds or "
            "more of each",
            cure="train with other seeds and give all their audits, or make the baseline of one",
            where="baseline",
        )
    for side in (now, before):
        check_seeds([measured.model.get("fingerprint") for measured in side], where="baseline")


def check_seeds(weights: Sequence[Hashable], *, where: str) -> None:
    """Refuse audits of which two are of the same weights: they count as different seeds."""
    if len(set(weights)) < len(weights):
        raise InputError(
            "two audits are of the same weights, so they are not of different seeds",
            cure="train with other seeds, and give one audit of each model",
            where=where,
        )


def _chosen(measured: Measured, repetitions: Sequence[int] | None) -> Measured:
    """The same with the asked numbers of copies alone, in an order that is not the file's."""
    asked = [c for c in measured.canaries if repetitions is None or c.repetitions in repetitions]
    asked.sort(key=lambda c: (c.format, len(c.id), c.id, c.repetitions))
    return replace(measured, canaries=tuple(asked))


def _values(side: Sequence[Measured], field: str, *, paired: bool) -> list[Any]:
    """A field of the canaries: of one model in pairs or by kind, of several their mean levels."""
    if paired:
        return [getattr(c, field) for c in side[0].canaries]
    kinds: list[dict[tuple[int, int], list[float]]] = []
    for measured in side:
        kinds.append({})
        for c in measured.canaries:
            kinds[-1].setdefault((c.format, c.repetitions), []).append(getattr(c, field))
    if len(side) == 1:
        return [kinds[0][kind] for kind in sorted(kinds[0])]
    return [[fmean(map(fmean, values.values())) for values in kinds]]
