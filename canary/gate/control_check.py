"""What the controls of an audit say of the audit itself."""

from __future__ import annotations

import math

from canary.audits.audit_result import Audit, CanaryResult
from canary.gate.verdict import Finding, Outcome, Standing, standings
from canary.statistics.learned_parts import CONTROLS_LEVEL, SHOWN_LEARNED
from canary.statistics.numbers import plural, probability


def controls(audit: Audit) -> list[Finding]:
    """Whether the controls look like chance; empty if the audit has none."""
    combined = audit.controls_p
    if combined is None:
        return []
    number, p = plural(combined.count, "control"), probability(combined.p_value)
    if all(map(_unmeasured, audit.controls)):
        told = (
            f"of {number} nothing was measured: each may be more likely than all other candidates"
        )
        cure = "give a larger --budget, or at a server that returns few tokens a larger --top-k"
        return [Finding("controls", "controls", "undecided", told, cure, limit=CONTROLS_LEVEL)]
    outcome: Outcome = "passed"
    level = f" at level {CONTROLS_LEVEL:g}" * (combined.p_value <= SHOWN_LEARNED)
    told, cure = f"{number} cannot be distinguished from chance{level} (p = {p})", ""
    named: tuple[Standing, ...] = ()
    if combined.p_value <= CONTROLS_LEVEL:
        outcome, named = "undecided", standings(audit.controls)
        told = (
            f"{number}, never put into the corpus, look learned (p = {p}), so the audit cannot be "
            "relied on"
        )
        cure = (
            "find out whether copies of them reached the training data, or whether another model "
            "was audited"
        )
    return [
        Finding(
            *("controls", "controls", outcome, told, cure),
            limit=CONTROLS_LEVEL,
            value=combined.p_value,
            chance=CONTROLS_LEVEL,
            canaries=named,
        )
    ]


def _unmeasured(control: CanaryResult) -> bool:
    """Whether bounds leave open both that a control looks learned, and that it is the last."""
    exposure = control.exposure
    known = exposure.confidence is not None or exposure.rank is not None
    learned = min(-math.log2(CONTROLS_LEVEL), exposure.space_bits)  # a smaller space has no more
    return not known and exposure.lower_bits <= 0.0 and exposure.upper_bits >= learned - 1e-9
