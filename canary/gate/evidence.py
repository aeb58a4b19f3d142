"""A limit on p-values, by number of copies."""

from __future__ import annotations

from collections.abc import Sequence

from canary.audits.audit_result import Audit
from canary.audits.combining import combined_p, least_p
from canary.audits.resolution import coarsest
from canary.errors import EstimationError, InputError
from canary.gate.exposure_limit import group_name
from canary.gate.verdict import Finding, Outcome, Standing
from canary.records.validation import as_real
from canary.statistics.numbers import plural, probability
from canary.statistics.pvalues import holm


def check_level(level: float) -> float:
    """A limit on p-values, if it is one.

    Raises
    ------
    InputError
        If it does not lie above 0 and below 1.
    """
    value = as_real(level)
    if not 0.0 < value < 1.0:
        raise InputError(
            f"a limit of {level!r} on p-values makes no sense",
            cure="give a number above 0 and below 1; 0.001 is usual for a gate",
            where="max_p",
        )
    return value


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
    found = [combined_p(by_copies[n]) for n in groups]
    raw = [combined.p_value for combined in found if combined is not None]
    if len(raw) < len(groups):
        raise InputError("canaries have no p-values", cure="audit them again", where="max_p")
    adjusted = holm(raw)
    blind = coarsest(audit) is not None
    findings = []
    for n, p, alone in zip(groups, adjusted.tolist(), raw, strict=True):
        group, name = by_copies[n], group_name(n)
        least = least_p(audit, group) * len(groups)
        outcome: Outcome = "passed"
        told = f"the {name} look like text that was not learned: p = {probability(p)}, above the"
        cure = ""
        if p <= level:
            outcome = "memorized"
            told = f"the {name} look learned: p = {probability(p)}, at most the"
            cure = "look at their exposures for how much was learned"
        elif least > level:
            outcome = "undecided"
            told = (
                f"{plural(len(group), 'canary', 'canaries')} with {plural(n, 'copy', 'copies')} "
                f"cannot reach a p-value below {probability(min(least, 1.0))}, whatever the model "
                "learned; it takes less for the"
            )
            cure = "more canaries, more draws or a larger space would do (canary plan)"
        elif blind:
            outcome = "undecided"
            told = (
                f"the noise of the arithmetic could hide what was learned of the {name}: "
                f"p = {probability(p)} says nothing about the"
            )
            cure = "audit with dtype float32, or a format whose candidates differ more"
        several = ""
        if len(groups) > 1:
            several = f", by Holm over {len(groups)} groups; {probability(alone)} alone"
        findings.append(
            Finding(
                "p-value",
                name,
                outcome,
                f"{told} level of {level:g} (Fisher{several})",
                cure,
                limit=level,
                value=p,
                chance=level,
                canaries=tuple(map(Standing.of, group)) if outcome == "memorized" else (),
            )
        )
    return findings
