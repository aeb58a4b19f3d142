"""Before an attack: how many samples a limit on membership takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from canary.errors import InputError
from canary.records.validation import as_real, brief, real_number, whole_number
from canary.statistics.number_checks import check_confidence
from canary.statistics.numbers import Shown, count, plural
from canary.statistics.roc import check_rate, nonmembers_for_auc
from canary.statistics.shares import nonmembers_for_lower_end, nonmembers_to_decide

FPRS = (0.001, 0.01, 0.1)
"""False positive rates that are looked at unless others are asked for."""

ATTACKS_OF_A_CLASSIFIER = 13
"""All attacks of `canary membership attack` on a classifier that gives logits or probabilities."""


@dataclass(frozen=True, eq=False, repr=False)
class AttackPlan(Shown):
    """How many non-members, and as many members, can judge limits on membership.

    `nonmembers` is by false positive rate for `attacks` attacks, and `with_one` for one attack;
    None where no number can. The AUC has the key None.
    """

    limits: Mapping[float | None, float]
    attacks: int
    confidence: float
    nonmembers: Mapping[float | None, int | None]
    with_one: Mapping[float | None, int | None]

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
            what = f"{100 * limit:g} % found at a false positive rate of {100 * (fpr or 0):g} %"
            lines.append(f"A limit of {f'{limit:g} on the AUC' if fpr is None else what}: {said}")
        near = "rate" if None not in self.limits else "AUC or rate"
        more = f"one whose {near} is near the limit takes more"
        return "\n".join([*lines, f"This is for a model of which attacks find nothing; {more}"])

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
    max_tpr_at_fpr: Mapping[float, float] | None = None,
    *,
    max_auc: float | None = None,
    attacks: int = ATTACKS_OF_A_CLASSIFIER,
    confidence: float = 0.95,
) -> AttackPlan:
    """How many samples of the target a membership test needs before a limit can be judged.

    Parameters
    ----------
    max_tpr_at_fpr : mapping of float to float, optional
    max_auc : float, optional
        Limits on the true positive rate by false positive rate, and on the AUC, as in
        `canary.check`.
    attacks : int
        How many are tried: intervals are wider if they allow for a choice among many.
    confidence : float
        Of the intervals, for all attacks together.

    Raises
    ------
    InputError
        If there is no limit, one is below its false positive rate, or a number is out of range.

    Notes
    -----
    See `canary.statistics.shares.nonmembers_to_decide`; the same is asked of the interval of the
    AUC.

    Examples
    --------
    >>> plan_attacks({0.001: 0.02}).nonmembers
    {0.001: 6251}
    >>> plan_attacks(max_auc=0.55).nonmembers
    {None: 1152}
    """
    limits: dict[float | None, float] = dict(checked_rates(max_tpr_at_fpr).items())
    if max_auc is not None:
        cure = "give a number from 0.5, which is what guessing reaches, to below 1"
        limits[None] = real_number(max_auc, "max_auc", cure=cure)
        if not 0.5 <= limits[None] < 1.0:
            raise InputError(f"a limit of {limits[None]:g} on the AUC makes no sense", cure=cure)
    if not limits:
        cure = "give max_tpr_at_fpr={0.01: 0.02} (--max-tpr-at-fpr 0.01=0.02), or max_auc"
        raise InputError("there is no limit to plan for", cure=cure, where="plan_attacks")
    number = whole_number(attacks, "attacks", at_least=1)
    check_confidence(confidence, "plan_attacks")

    def needed(attacks: int) -> dict[float | None, int | None]:
        return {fpr: needed_for(fpr, limit, attacks, confidence) for fpr, limit in limits.items()}

    return AttackPlan(limits, number, confidence, needed(number), needed(1))


def needed_for(fpr: float | None, limit: float, attacks: int, confidence: float) -> int | None:
    """Non-members for a limit at a rate, or on the AUC (None), by a choice among attacks."""
    each = 1.0 - (1.0 - confidence) / attacks
    if fpr is None:
        return nonmembers_for_auc(limit, confidence=each)
    return nonmembers_to_decide(fpr, limit, confidence=each)


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


def rates_of(
    fprs: Sequence[float] | None,
    nonmembers: int,
    *,
    confidence: float | None = None,
    attacks: int = 1,
) -> tuple[list[float], list[str]]:
    """The false positive rates that are looked at, and notes on them.

    Those that were asked for (an EstimationError if one is below one non-member); or those of
    `FPRS` that are not. With a `confidence` the rates whose intervals have no lower end above 0 are
    named, of `FPRS` only the largest; intervals allow for the number of `attacks`.
    """
    each = None if confidence is None else 1.0 - (1.0 - confidence) / attacks
    chosen, notes, left = list(FPRS if fprs is None else fprs), [], ""
    if fprs is None:
        chosen = [rate for rate in FPRS if rate * nonmembers >= 1]
        left = f" who is wrong about less than 1 in {nonmembers:,} of them"
        left *= len(chosen) < len(FPRS)
    for rate in chosen:
        check_rate(rate, nonmembers)
        needed = 1 if each is None else nonmembers_for_lower_end(rate, confidence=each)
        if nonmembers < needed and (fprs is not None or rate == chosen[-1]):
            notes.append(
                f"{nonmembers:,} non-members are too few to show what an attacker finds who is "
                f"wrong about {100 * rate:g} % of them{', or less' if left else ''}: that interval "
                f"starts at 0, whatever the risk is. It takes {needed:,} non-members"
                f"{_with(attacks)}"
            )
            left = ""  # one sentence says both
    if left:
        shown = f", so the rates that are shown begin at {100 * chosen[0]:g} %" if chosen else ""
        notes.append(
            f"{nonmembers:,} non-members are too few to judge an attacker{left}{shown}; for lower "
            "ones, test with more"
        )
    return chosen, notes


def _with(attacks: int) -> str:
    return f" with {attacks} attacks, and fewer with fewer attacks" if attacks > 1 else ""
