"""What attacks on all models of one table by each other found."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from canary.membership.aggregate import Across, Agreement, Rates, SampleAuc, Spread, mean_estimate
from canary.membership.diagnostics import Growth
from canary.membership.fleet_intervals import OverFleets
from canary.membership.many import ManyScores
from canary.membership.survey import estimate_fields
from canary.records.versions import versions
from canary.signals.signal_table import SignalTable
from canary.statistics.roc import Estimate, OperatingPoint
from canary.statistics.tails import Rule

__all__ = ["KIND", "SCHEMA", "AttackedModels", "ModelsSurvey"]

KIND = "canary membership models"
SCHEMA = 1

_MOST = 20


@dataclass(frozen=True, eq=False)
class AttackedModels:
    """One attack and what it reaches over its targets.

    Parameters
    ----------
    scores : ManyScores
    across : Across
        With the evaluation of each target.
    auc : Estimate
        Mean over targets.
    tpr : tuple of Estimate
        Mean over targets at each false positive rate that was asked for.
    points : tuple of tuple of OperatingPoint
        At each of these rates, of each target.
    rates : Rates or None
        Of decisions at levels; None for online LiRA, which has none.
    over : OverFleets or None
        Where the intervals come from, if they speak of other fleets.
    growth : Growth or None
        The AUC against the number of models.
    """

    scores: ManyScores
    across: Across
    auc: Estimate
    tpr: tuple[Estimate, ...]
    points: tuple[tuple[OperatingPoint, ...], ...]
    rates: Rates | None
    over: OverFleets | None
    growth: Growth | None

    @property
    def name(self) -> str:
        """Of the attack."""
        return self.scores.name

    def auc_at(self, confidence: float) -> Estimate:
        """The mean AUC with an interval of another confidence."""
        if self.over is not None:
            return self.over.auc_at(confidence)
        return mean_estimate(
            [one.roc.auc(confidence=confidence) for one in self.across.evaluations]
        )


@dataclass(frozen=True, eq=False)
class ModelsSurvey:
    """What attacks with many models found.

    Parameters
    ----------
    table : SignalTable
        Of the samples that were judged.
    names : tuple of str
        Of the models of the table.
    targets : tuple of int
        Rows of the table. As plain data a model has its number in the fleet in place of its row.
    attacked : tuple of AttackedModels
        In the order that was asked for.
    fprs : tuple of float
    agreements : tuple of Agreement
        At each level, of the attacks that have decisions.
    exposed : SampleAuc or None
        Of single samples by the strongest attack; None of one target.
    samples : ndarray of int64
        The number of each judged sample among those that were given.
    given : int
        How many samples were given.
    over_fleets : bool
        Whether intervals speak of other splits and trainings, on the same samples; otherwise
        they speak of these models, and of other samples.
    confidence : float
    rule : str
    seed : int
    notes : tuple of str
    doubts : tuple of str
        Of the notes, those by which it decides nothing that nothing was found.
    """

    table: SignalTable
    names: tuple[str, ...]
    targets: tuple[int, ...]
    attacked: tuple[AttackedModels, ...]
    fprs: tuple[float, ...]
    agreements: tuple[Agreement, ...]
    exposed: SampleAuc | None
    samples: NDArray[np.int64]
    given: int
    over_fleets: bool
    confidence: float
    rule: Rule
    seed: int
    notes: tuple[str, ...]
    doubts: tuple[str, ...] = ()

    @property
    def strongest(self) -> AttackedModels:
        """The attack of the highest mean AUC; the first, of equal ones."""
        return max(self.attacked, key=lambda one: one.auc.value)

    def corrected(self) -> Estimate:
        """Mean AUC of the strongest attack, its interval widened for the choice.

        Bonferroni: each of k attacks may miss by one k-th of what one may.
        """
        return self.strongest.auc_at(1.0 - (1.0 - self.confidence) / len(self.attacked))

    def told_apart(self) -> bool | None:
        """Whether some attack is better than a coin, allowing for how many were tried.

        None where none is, and there are doubts: `canary.membership.survey.Survey.told_apart`.
        """
        return self.corrected().lower > 0.5 or (None if self.doubts else False)

    def most_vulnerable_models(self, most: int = _MOST) -> list[int]:
        """Places among the targets, of the highest AUC by the strongest attack first."""
        order = self.strongest.across.most_vulnerable()
        return [self.targets.index(row) for row in order[:most]]

    def most_vulnerable_samples(self, most: int = _MOST) -> list[dict[str, Any]]:
        """The samples of the highest AUC over targets, by the strongest attack."""
        if self.exposed is None:
            return []
        found = self.exposed
        at = {int(sample): place for place, sample in enumerate(found.samples)}
        return [
            {
                "sample": int(self.samples[sample]),
                "label": int(self.table.label[sample]),
                "auc": float(found.auc[at[int(sample)]]),
                "members": int(found.members[at[int(sample)]]),
                "nonmembers": int(found.nonmembers[at[int(sample)]]),
            }
            for sample in found.most_vulnerable(most)
        ]

    def perfect_samples(self) -> tuple[int, float]:
        """How many samples have an AUC of 1, and how many would at most by chance.

        Where scores say nothing, all of m members stand above all of n nonmembers in one of
        ``(m + n)! / (m! n!)`` orders.
        """
        if self.exposed is None:
            return 0, 0.0
        kinds, often = np.unique(
            np.stack([self.exposed.members, self.exposed.nonmembers]), axis=1, return_counts=True
        )
        chance = sum(
            float(many) / math.comb(int(m) + int(n), int(m))
            for (m, n), many in zip(kinds.T, often, strict=True)
        )
        return int((self.exposed.auc == 1.0).sum()), chance

    def to_dict(self) -> dict[str, Any]:
        """The result as plain data."""
        perfect, chance = self.perfect_samples()
        return {
            "models": [self._model(row) for row in range(self.table.models)],
            "missing": {str(model): why for model, why in self.table.missing.items()},
            "source": self.table.source,
            "targets": [self.table.numbers[row] for row in self.targets],
            "classes": self.table.classes,
            "samples": self.given,
            "samples_judged": self.table.samples,
            "confidence": self.confidence,
            "intervals_over": "fleets" if self.over_fleets else "samples",
            "rule": self.rule,
            "seed": self.seed,
            "strongest": self.strongest.name,
            "told_apart": self.told_apart(),
            "corrected_auc": estimate_fields(self.corrected()),
            "attacks": [self._attack(one) for one in self.attacked],
            "agreement": [_agreement(one) for one in self.agreements],
            "most_vulnerable_models": [
                self.table.numbers[self.targets[place]] for place in self.most_vulnerable_models()
            ],
            "most_vulnerable_samples": self.most_vulnerable_samples(),
            "samples_of_auc_1": None
            if self.exposed is None
            else {"found": perfect, "by_chance_at_most": chance},
            "notes": list(self.notes),
            "versions": versions(),
        }

    def _model(self, row: int) -> dict[str, Any]:
        member = self.table.member[row]
        right = self.table.values.get("correctness")
        shares = {
            f"accuracy_on_{kind}": None
            if right is None or not flags.any()
            else float(right[row, flags].mean())
            for kind, flags in (("members", member), ("nonmembers", ~member))
        }
        return {
            "model": self.table.numbers[row],
            "name": self.names[row],
            "members": int(member.sum()),
            "nonmembers": int((~member).sum()),
            **shares,
        }

    def _attack(self, one: AttackedModels) -> dict[str, Any]:
        found = one.across
        return {
            "name": one.name,
            "signal": one.scores.signal,
            "models_trained": one.scores.models_trained,
            "auc": {**estimate_fields(one.auc), **_spread(found.auc)},
            "tpr_at_fpr": [
                {
                    "asked_fpr": fpr,
                    "fpr": float(np.mean([point.fpr for point in points])),
                    "largest_fpr": max(point.fpr for point in points),
                    "tpr": {
                        **estimate_fields(tpr),
                        **_spread(Spread.of([point.tpr.value for point in points])),
                    },
                }
                for fpr, tpr, points in zip(self.fprs, one.tpr, one.points, strict=True)
            ],
            "levels": None
            if one.rates is None
            else [
                {"alpha": float(alpha), "fpr": float(fpr), "tpr": float(tpr)}
                for alpha, fpr, tpr in zip(
                    one.rates.alphas, one.rates.fpr, one.rates.tpr, strict=True
                )
            ],
            "targets": [
                {
                    "model": self.table.numbers[row],
                    "name": self.names[row],
                    "auc": estimate_fields(found.evaluations[place].auc),
                    "tpr_at_fpr": [
                        {
                            "asked_fpr": points[place].asked_fpr,
                            "fpr": points[place].fpr,
                            "fpr_interval": dict(
                                zip(("lower", "upper"), points[place].fpr_interval, strict=True)
                            ),
                            "tpr": estimate_fields(points[place].tpr),
                        }
                        for points in one.points
                    ],
                }
                for place, row in enumerate(self.targets)
            ],
            "growth": None
            if one.growth is None
            else {
                "samples": one.growth.samples,
                "sizes": [
                    {"models": size, "auc": auc.mean, **_spread(auc)}
                    for size, auc in zip(one.growth.sizes, one.growth.auc, strict=True)
                ],
            },
            "notes": list(one.scores.notes),
        }


def _spread(found: Spread) -> dict[str, float | int]:
    return {"sd": found.sd, "least": found.least, "most": found.most, "targets": found.count}


def _agreement(found: Agreement) -> dict[str, Any]:
    return {
        "alpha": found.alpha,
        "names": list(found.names),
        "members": found.members.tolist(),
        "nonmembers": found.nonmembers.tolist(),
    }
