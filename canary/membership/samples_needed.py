"""Before an attack: how many samples a limit on membership takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from canary.errors import InputError
from canary.records.validation import as_real, brief, whole_number
from canary.statistics.number_checks import check_confidence
from canary.statistics.numbers import Shown, count, plural
from canary.statistics.shares import nonmembers_to_decide

ATTACKS_OF_A_CLASSIFIER = 13
"""All attacks of `canary membership attack` on a classifier that gives logits or probabilities."""


@dataclass(frozen=True, eq=False, repr=False)
class AttackPlan(Shown):
    """How many non-members, and as many members, can judge limits on membership.

    `nonmembers` is by false positive rate for `attacks` attacks, and `with_one` for one attack;
    None where no number can.
    """

    limits: Mapping[float, float]
    attacks: int
    confidence: float
    nonmembers: Mapping[float, int | None]
    with_one: Mapping[float, int | None]

    def summary(self) -> str:
        """A line for each limit."""
        lines = []
        for fpr, limit in self.limits.items():
            needed, one = self.nonmembers[fpr], self.with_one[fpr]
            said = "no number of non-members shows that it is kept: it is what guessing reaches"
            if needed is not None and one is not None:
                said = f"{count(needed)} non-members and as many members"
                if self.attacks > 1:
                    said += f" with {plural(self.attacks, 'attack')}, {count(one)} with one attack"
            lines.append(
                f"A limit of {100 * limit:g} % found at a false positive rate of {100 * fpr:g} %: "
                f"{said}"
            )
        return "\n".join([*lines, "A model whose rate is near the limit takes more"])

    def _table(self) -> list[dict[str, Any]]:
        return [
            {"fpr": fpr, "limit": limit, "attacks": self.attacks,
             "nonmembers": self.nonmembers[fpr], "with_one_attack": self.with_one[fpr]}
            for fpr, limit in self.limits.items()
        ]  # fmt: skip

    def to_dict(self) -> dict[str, Any]:
        """The plan as plain data."""
        return {"confidence": self.confidence, "limits": self._table()}


def plan_attacks(
    max_tpr_at_fpr: Mapping[float, float],
    *,
    attacks: int = ATTACKS_OF_A_CLASSIFIER,
    confidence: float = 0.95,
) -> AttackPlan:
    """How many samples of the target a membership test needs before a limit can be judged.

    Parameters
    ----------
    max_tpr_at_fpr : mapping of float to float
        Limits on the true positive rate by false positive rate, as in `canary.check`.
    attacks : int
        How many are tried: intervals are wider if they allow for a choice among many.
    confidence : float
        Of the intervals, for all attacks together.

    Raises
    ------
    InputError
        If a limit is below its false positive rate, or a number is out of range.

    Notes
    -----
    See `canary.statistics.shares.nonmembers_to_decide`.

    Examples
    --------
    >>> plan_attacks({0.001: 0.02}).nonmembers
    {0.001: 6251}
    """
    limits = checked_rates(max_tpr_at_fpr)
    number = whole_number(attacks, "attacks", at_least=1)
    check_confidence(confidence, "plan_attacks")

    def needed(attacks: int) -> dict[float, int | None]:
        return {fpr: needed_for(fpr, limit, attacks, confidence) for fpr, limit in limits.items()}

    return AttackPlan(limits, number, confidence, needed(number), needed(1))


def needed_for(fpr: float, limit: float, attacks: int, confidence: float) -> int | None:
    """`nonmembers_to_decide` with intervals that allow for the choice among attacks."""
    return nonmembers_to_decide(fpr, limit, confidence=1.0 - (1.0 - confidence) / attacks)


def checked_rates(limits: Mapping[float, float] | None) -> dict[float, float]:
    """Limits on the true positive rate by false positive rate, or an InputError."""
    if limits is not None and not isinstance(limits, Mapping):
        raise InputError(
            f"max_tpr_at_fpr must be a mapping, got {brief(limits)}",
            cure="give false positive rates and limits, as in {0.001: 0.02}",
        )
    rates = {as_real(fpr): as_real(limit) for fpr, limit in (limits or {}).items()}
    for fpr, limit in rates.items():
        if not 0.0 < fpr <= limit < 1.0:
            raise InputError(
                f"a limit of {limit:g} on the true positive rate at a false positive rate of "
                f"{fpr:g} makes no sense",
                cure="give a rate above 0, and a limit from that rate, which is what guessing "
                "reaches, to below 1",
                where="max_tpr_at_fpr",
            )
    return rates
