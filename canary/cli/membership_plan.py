"""The command membership plan: how many samples a limit on membership takes."""

from __future__ import annotations

from canary.cli.check_command import rate_limits
from canary.cli.command import command
from canary.cli.console import show
from canary.cli.model_options import Count
from canary.cli.outputs import Result


@command(
    "membership plan --max-tpr-at-fpr 0.001=0.02 --max-auc 0.55",
    max_tpr_at_fpr="FPR=TPR: A limit on the true positive rate at a false positive rate, as in "
    "canary check. Can be repeated.",
    max_auc="AUC: A limit on the AUC, from 0.5 to 1.",
    attacks="N: The number of attacks that are tried; 13 are all on a classifier.",
    confidence="LEVEL: The confidence of the intervals, for all attacks together.",
)
def plan(
    *,
    max_tpr_at_fpr: list[str] | None = None,
    max_auc: float | None = None,
    attacks: Count = 13,
    confidence: float = 0.95,
) -> Result:
    """Show how many samples a limit on membership takes.

    With fewer non-members, canary check cannot find that the limit is exceeded, or seldom finds
    that it is kept. With as many members, an attack that guesses is within it in 90 % of tests.
    """
    from canary.membership.samples_needed import plan_attacks

    rates = rate_limits(max_tpr_at_fpr or ())
    planned = plan_attacks(rates, max_auc=max_auc, attacks=attacks, confidence=confidence)
    for line in planned.summary().splitlines():
        show(line)
    return Result("canary membership plan", planned.to_dict())
