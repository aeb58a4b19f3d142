"""What attacks on all models of one table by each other found."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from canary.membership.aggregate import (
    Across,
    Agreement,
    OverFleets,
    Rates,
    SampleAuc,
    Spread,
    mean_estimate,
    mean_tpr,
)
from canary.membership.diagnostics import Growth
from canary.membership.evaluation import Part, evaluate_by
from canary.membership.many import ManyScores
from canary.membership.singled_out import SingledOut, singled_out
from canary.membership.survey import SCHEMA, Survey, plain, point_fields, rows_of
from canary.records.validation import versions
from canary.records.versioned_json import Saves
from canary.signals.signal_table import SignalTable, table_facts
from canary.statistics.numbers import Shown, count, picked
from canary.statistics.roc import Estimate, OperatingPoint, too_coarse
from canary.statistics.shares import nonmembers_for_lower_end
from canary.statistics.tails import Rule

KIND = "canary membership models"

_MOST = 20
_OF_CLASS = ("value", "members", "nonmembers", "auc")


@dataclass(frozen=True, eq=False)
class AttackedModels:
    """One attack and what it reaches over its targets.

    `rates` are those of decisions at levels, None for online LiRA; intervals are those of `over`,
    if they speak of other fleets; `growth` is the AUC against the number of models.
    """

    scores: ManyScores
    across: Across
    fprs: tuple[float, ...]
    rates: Rates | None
    over: OverFleets | None
    growth: Growth | None

    @cached_property
    def points(self) -> tuple[tuple[OperatingPoint, ...], ...]:
        """Of each target at each false positive rate that was asked for."""
        return tuple(
            tuple(one.tpr_at_fpr(fpr) for one in self.across.evaluations) for fpr in self.fprs
        )

    @cached_property
    def auc(self) -> Estimate:
        """The mean over targets."""
        own = [one.auc for one in self.across.evaluations]
        return mean_estimate(own) if self.over is None else self.over.auc

    @cached_property
    def tpr(self) -> tuple[Estimate, ...]:
        """The mean over targets at each false positive rate that was asked for."""
        if self.over is not None:
            return self.over.tpr
        return tuple(mean_estimate([point.tpr for point in points]) for points in self.points)

    @property
    def name(self) -> str:
        """Of the attack."""
        return self.scores.name

    def rates_found(self, confidence: float | None = None) -> dict[float, Estimate]:
        """The mean true positive rate at each false positive rate that was asked for."""
        if confidence is None:
            return dict(zip(self.fprs, self.tpr, strict=True))
        if self.over is not None:
            return dict(zip(self.fprs, self.over.tpr_at(confidence), strict=True))
        curves = [one.roc for one in self.across.evaluations]
        return {fpr: mean_tpr(curves, fpr, confidence) for fpr in self.fprs}

    def auc_at(self, confidence: float) -> Estimate:
        """The mean AUC with an interval of another confidence."""
        if self.over is not None:
            return self.over.auc_at(confidence)
        return mean_estimate(
            [one.roc.auc(confidence=confidence) for one in self.across.evaluations]
        )

    def too_coarse(self, fpr: float) -> bool:
        """Whether too many scores are equal to judge it at a rate, in the mean."""
        at = self.fprs.index(fpr)
        reached = float(np.mean([point.fpr for point in self.points[at]]))
        return self.tpr[at].lower <= fpr and too_coarse(fpr, reached)

    def widest_auc(self, confidence: float) -> Estimate:
        """As `auc_at`, with the wider of two intervals: of other fleets, and of other samples."""
        over, own = self.auc_at(confidence), replace(self, over=None).auc_at(confidence)
        return Estimate(own.value, min(over.lower, own.lower), max(over.upper, own.upper))

    def to_dict(self, models: list[dict[str, Any]]) -> dict[str, Any]:
        """The attack as plain data; `models` has the number and the name of each target."""
        growth, rates = self.growth, self.rates
        at_fpr = [
            {
                "asked_fpr": fpr,
                "fpr": float(np.mean([point.fpr for point in points])),
                "largest_fpr": max(point.fpr for point in points),
                "tpr": {**plain(tpr), **_spread(Spread.of([p.tpr.value for p in points]))},
            }
            for fpr, tpr, points in zip(self.fprs, self.tpr, self.points, strict=True)
        ]
        kept = ("asked_fpr", "fpr", "fpr_interval", "tpr")
        targets = []
        for place, model in enumerate(models):
            fields = [point_fields(points[place]) for points in self.points]
            reached = [{key: point[key] for key in kept} for point in fields]
            auc = plain(self.across.evaluations[place].auc)
            targets.append({**model, "auc": auc, "tpr_at_fpr": reached})
        return {
            "name": self.name,
            "signal": self.scores.signal,
            "models_trained": self.scores.models_trained,
            "auc": {**plain(self.auc), **_spread(self.across.auc)},
            "tpr_at_fpr": at_fpr,
            "levels": None
            if rates is None
            else rows_of({"alpha": rates.alphas, "fpr": rates.fpr, "tpr": rates.tpr}),
            "targets": targets,
            "growth": None
            if growth is None
            else {
                "samples": growth.samples,
                "sizes": [
                    {"models": size, "auc": auc.mean, **_spread(auc)}
                    for size, auc in zip(growth.sizes, growth.auc, strict=True)
                ],
            },
            "notes": list(self.scores.notes),
        }


@dataclass(frozen=True, eq=False, repr=False)
class SampleScores(Shown):
    """The score of each judged sample under each target by each attack: one row for each pair.

    `columns` are model, sample (its number among those that were given), id (where samples have
    names), label, member, and the scores of each attack, as `ManyScores` says what they are.
    """

    columns: Mapping[str, NDArray[Any]]

    def summary(self) -> str:
        """How many scores, and by which attacks."""
        first = list(self.columns).index("member") + 1
        return (
            f"{count(len(self.columns['sample']))} scores by {', '.join([*self.columns][first:])}"
        )

    def _table(self) -> dict[str, Any]:
        return dict(self.columns)


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class ModelsSurvey(Survey[AttackedModels], Saves):
    """What attacks on models by each other found; see `Survey`.

    Parameters
    ----------
    table : SignalTable
        Of the samples that were judged; `names` are those of its models, `targets` its rows.
    fprs : tuple of float
    agreements : tuple of Agreement
        At each level, of the attacks that have decisions.
    exposed : SampleAuc or None
        Of single samples by the strongest attack; None of one target.
    samples : ndarray of int64
        The number of each judged sample among the `given` ones.
    over_fleets : bool
        Whether intervals speak of other splits and trainings, on the same samples; otherwise
        they speak of these models, and of other samples.
    rule : str
    """

    table: SignalTable
    names: tuple[str, ...]
    targets: tuple[int, ...]
    fprs: tuple[float, ...]
    agreements: tuple[Agreement, ...]
    exposed: SampleAuc | None
    samples: NDArray[np.int64]
    given: int
    over_fleets: bool
    rule: Rule
    kind = "models"
    _kind, _schema = KIND, SCHEMA

    def average_of(self, one: AttackedModels, confidence: float) -> Estimate:
        """Its mean AUC over the targets."""
        return one.auc if confidence == self.confidence else one.auc_at(confidence)

    def _can_show(self, fpr: float) -> bool:
        least = min(one.roc.nonmembers for one in self.attacked[0].across.evaluations)
        # Intervals over fleets have ends of their own.
        needed = nonmembers_for_lower_end(fpr, confidence=self.each)
        return self.over_fleets or least >= needed

    def by_target(self) -> list[Estimate]:
        """Of each target, what the surest guesses find; without false positive rates the AUC."""
        surest, lead = self.surest(), self.lead
        if surest is None:
            return [one.auc for one in lead.across.evaluations]
        return [point.tpr for point in lead.points[lead.fprs.index(surest.fpr)]]

    def most_vulnerable_models(self, most: int = _MOST) -> list[int]:
        """Places among the targets: those whose members the surest guesses find most of first.

        Of equal ones, and without false positive rates, the highest AUC of the same attack.
        """
        surest, lead = self.surest(), self.lead
        at = None if surest is None else lead.fprs.index(surest.fpr)

        def found(place: int) -> tuple[float, float]:
            tpr = 0.0 if at is None else lead.points[at][place].tpr.value
            return tpr, lead.across.evaluations[place].auc.value

        return sorted(range(len(self.targets)), key=found, reverse=True)[:most]

    def most_vulnerable_samples(self, most: int = _MOST) -> list[dict[str, Any]]:
        """The samples of the highest AUC over targets, by the strongest attack."""
        if self.exposed is None:
            return []
        chosen = self.exposed.most_vulnerable(most)
        places = np.searchsorted(self.exposed.samples, chosen)
        named = self._named(chosen)
        found = picked(self.exposed, "auc", "members", "nonmembers")
        return rows_of(named | {name: column[places] for name, column in found.items()})

    @cached_property
    def by_class(self) -> tuple[Part, ...]:
        """The leading attack on each class of a single target; empty of several."""
        return self._by(self.table.label)

    @cached_property
    def by_group(self) -> tuple[Part, ...]:
        """As `by_class`, of each group; empty where files have no groups."""
        return self._by(self.table.group)

    def _by(self, column: NDArray[Any] | None) -> tuple[Part, ...]:
        if len(self.targets) > 1 or column is None:
            return ()
        (row,), scores, judged = self.targets, self.lead.scores, self.lead.scores.judged
        member = self.table.member[row, judged]
        return tuple(
            evaluate_by(
                scores.scores[0, judged], member, column[judged], confidence=self.confidence
            )
        )

    def most_member_like(self, most: int = _MOST) -> list[dict[str, Any]]:
        """The members of a single target that the leading attack is surest of.

        Of each, also how many non-members have its score or a higher one.
        """
        if len(self.targets) > 1:
            return []
        lead, (row,) = self.lead.scores, self.targets
        scores, member = lead.scores[0], self.table.member[row]
        inside = np.flatnonzero(member & lead.judged)
        order = inside[np.argsort(-scores[inside], kind="stable")][:most]
        others = np.sort(scores[~member & lead.judged])
        columns = {
            **self._named(order),
            "score": scores[order],
            "nonmembers_as_high": len(others) - np.searchsorted(others, scores[order]),
        }
        return rows_of(columns)

    def _named(self, places: NDArray[np.intp]) -> dict[str, NDArray[Any]]:
        """Number, id (if there are any) and class of judged samples."""
        ids = {} if self.table.ids is None else {"id": self.table.ids[places]}
        return {"sample": self.samples[places], **ids, "label": self.table.label[places]}

    def sample_scores(self) -> SampleScores:
        """Of every judged sample under every target, by every attack; `to_frame` is its table."""
        targets, samples = len(self.targets), self.table.samples
        columns = {"model": np.repeat([self.names[row] for row in self.targets], samples)}
        columns |= self._named(np.tile(np.arange(samples), targets))
        columns["member"] = self.table.member[list(self.targets)].ravel()
        return SampleScores(
            columns | {one.name: one.scores.scores.ravel() for one in self.attacked}
        )

    def perfect_samples(self) -> tuple[int, float]:
        """How many samples have an AUC of 1, and how many would at most by chance.

        Where scores say nothing, all of m members are above all of n non-members in one of
        ``(m + n)! / (m! n!)`` orders.
        """
        if self.exposed is None:
            return 0, 0.0
        counts = zip(self.exposed.members.tolist(), self.exposed.nonmembers.tolist(), strict=True)
        chance = math.fsum(1.0 / math.comb(m + n, m) for m, n in counts)
        return int((self.exposed.auc == 1.0).sum()), chance

    def singled_out(self, fpr: float | None = None, *, target: int = 0) -> SingledOut:
        """The members of a target, by its place, that the best attack there singles out.

        As `canary.membership.shadow_survey.ShadowSurvey.singled_out`.
        """
        surest = self.surest()
        asked = fpr if fpr is not None else 1.0 if surest is None else surest.fpr
        at = {one.name: one.across.evaluations[target].tpr_at_fpr(asked) for one in self.attacked}
        best = max(self.attacked, key=lambda one: at[one.name].tpr.value)
        scores, row = best.scores.scores[target], self.targets[target]
        curve = best.across.evaluations[target].roc
        chance = curve.tpr_at_fpr(asked, confidence=self.each).tpr.lower <= asked
        found = singled_out(self.table, best.name, scores, at[best.name], row, may_be_chance=chance)
        return replace(found, samples=self.samples[found.samples])

    def to_dict(self) -> dict[str, Any]:
        """The result as plain data."""
        (perfect, chance), surest = self.perfect_samples(), self.surest()
        kept = ("members", "nonmembers", "accuracy_on_members", "accuracy_on_nonmembers")
        named, models = [], []
        for row, (number, name) in enumerate(zip(self.table.numbers, self.names, strict=True)):
            facts = table_facts(self.table.select(models=[row]))
            named.append({"model": number, "name": name})
            models.append(named[-1] | {key: facts[key] for key in kept})
        targets = [named[row] for row in self.targets]
        exposed = {"found": perfect, "by_chance_at_most": chance}
        return {
            "models": models,
            "missing": {str(model): why for model, why in self.table.missing.items()},
            "source": self.table.source,
            "targets": [model["model"] for model in targets],
            "classes": self.table.classes,
            "samples": self.given,
            "samples_judged": self.table.samples,
            "confidence": self.confidence,
            "intervals_over": "fleets" if self.over_fleets else "samples",
            **picked(self, "rule", "seed"),
            "strongest": self.strongest.name,
            "surest": surest
            and {"name": surest.name, "asked_fpr": surest.fpr, "tpr": plain(surest.tpr)},
            "told_apart": self.told_apart(),
            "outcome": self.outcome(),
            "corrected_auc": plain(self.corrected()),
            "attacks": [
                {**one.to_dict(targets), "corrected": self.corrected_of(one)}
                for one in self.attacked
            ],
            "doubts": list(self.against()),
            "agreement": plain(self.agreements),
            "most_vulnerable_models": [
                targets[place]["model"] for place in self.most_vulnerable_models()
            ],
            "most_vulnerable_samples": self.most_vulnerable_samples(),
            "most_member_like": self.most_member_like(),
            "by_class": _parts(self.by_class),
            "by_group": _parts(self.by_group),
            "samples_of_auc_1": None if self.exposed is None else exposed,
            "notes": list(self.notes),
            "about": self.about.to_dict(),
            "versions": versions(),
        }


def _parts(parts: tuple[Part, ...]) -> list[dict[str, Any]]:
    return [{name: plain(getattr(part, name)) for name in _OF_CLASS} for part in parts]


def _spread(spread: Spread) -> dict[str, float | int]:
    return {"sd": spread.sd, "least": spread.least, "most": spread.most, "targets": spread.count}
