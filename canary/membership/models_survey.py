"""All attacks on all models of one table by each other, as one result."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from canary.errors import EstimationError, InputError
from canary.membership.across import (
    Across,
    Agreement,
    Rates,
    SampleAuc,
    Spread,
    agreement,
    evaluate_models,
    rates,
    sample_auc,
)
from canary.membership.fleet_intervals import FEWEST, OverFleets, groups_of, over_fleets
from canary.membership.many import ManyScores, attack_models
from canary.membership.models_needed import chosen_attacks, left_out_safely
from canary.membership.repeats import repeated_models
from canary.membership.studies import Growth, growth
from canary.membership.survey import estimate_fields, rates_of
from canary.records.versions import versions
from canary.signals.checking import check_members
from canary.signals.table import SignalTable, positions
from canary.statistics.checks import check_confidence
from canary.statistics.numbers import plural
from canary.statistics.roc import Estimate, OperatingPoint
from canary.statistics.tails import Rule, check_level, check_rule

__all__ = ["KIND", "LEVELS", "SCHEMA", "AttackedModels", "ModelsSurvey", "survey_models"]

KIND = "canary membership models"
SCHEMA = 1

LEVELS = (0.01, 0.1, 0.3)
"""Levels at which decisions are made unless others are asked for."""

_MOST = 20
_GROWN = 4
"""Targets of the curves against the number of models, and the fewest models there."""


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
        return _mean([one.roc.auc(confidence=confidence) for one in self.across.evaluations])


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
        Rows of the table.
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

    @property
    def strongest(self) -> AttackedModels:
        """The attack of the highest mean AUC; the first, of equal ones."""
        return max(self.attacked, key=lambda one: one.auc.value)

    def corrected(self) -> Estimate:
        """Mean AUC of the strongest attack, its interval widened for the choice.

        Bonferroni: each of k attacks may miss by one k-th of what one may.
        """
        return self.strongest.auc_at(1.0 - (1.0 - self.confidence) / len(self.attacked))

    def told_apart(self) -> bool:
        """Whether some attack is better than a coin, allowing for how many were tried."""
        return self.corrected().lower > 0.5

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
            "targets": list(self.targets),
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
                self.targets[place] for place in self.most_vulnerable_models()
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
                    "target": row,
                    "name": self.names[row],
                    "auc": estimate_fields(found.evaluations[place].auc),
                    "tpr_at_fpr": [
                        {
                            "asked_fpr": points[place].asked_fpr,
                            "fpr": points[place].fpr,
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


def survey_models(
    table: SignalTable,
    *,
    names: Sequence[str] | None = None,
    attacks: str = "all",
    targets: Sequence[int] | None = None,
    fprs: Sequence[float] | None = None,
    alphas: Sequence[float] = LEVELS,
    rule: Rule = "empirical",
    least: int | None = None,
    confidence: float = 0.95,
    seed: int = 0,
    stage: Callable[[str, int], Callable[[int], object]] = lambda name, total: lambda count: None,
) -> ModelsSurvey:
    """Attack the models of a table by each other, with every attack.

    Parameters
    ----------
    table : SignalTable
        Of two or more models on the same samples; of one for P.
    names : sequence of str, optional
        Of the models, for people; their numbers unless given.
    attacks : str
        Names with commas between them; or ``all``: S, P, R, lira-online, lira-offline (both
        with one variance where there are fewer than 64 models) and rmia, as far as they need
        no further models.
    targets : sequence of int, optional
        Rows of the table that are attacked; all unless given.
    fprs : sequence of float, optional
        False positive rates to look at, as in `canary.membership.survey.survey`.
    alphas : sequence of float
        Levels at which decisions are made.
    rule : {"empirical", "linear", "gaussian"}
        Of the quantile, for S, P and R.
    least : int, optional
        Judge only samples that so many models were trained without and, where an attack needs
        those, so many were trained on.
    confidence : float
    seed : int
        Of the order in which models are added for the curves against their number.
    stage : callable
        From the name of a piece of work and its length to what is told of it.

    Raises
    ------
    InputError
        If there is no such attack, a target's samples are all of one kind, two models are one,
        or an attack has nothing to compare some sample with.
    EstimationError
        If a level, a rate or the confidence is out of range.

    Notes
    -----
    Where every model is a target, of at least four, and each may be left out, intervals are
    those of `canary.membership.fleet_intervals.over_fleets`: they speak of other splits and
    trainings, at the cost of 17 times the attack. Otherwise the ends are the means of the
    targets' own intervals, which speak of other samples: the standard error of a mean is at
    most the mean of the standard errors, however targets vary together.
    """
    check_confidence(confidence, "survey_models")
    check_rule(rule, "survey_models")
    levels = sorted(set(alphas))
    for alpha in levels:
        check_level(alpha, "alphas")
    if not levels:
        raise EstimationError("no level was given", cure="give one, 0.1 say", where="alphas")
    called = tuple(names or (str(number) for number in _numbers(table)))
    rows = positions(targets, table.models, "targets", table.source)
    needs, notes = chosen_attacks(table, attacks, rows, least=least)
    notes = [*_repeats(table, called), *notes]
    judged = needs.judged
    few = table if judged.all() else table.select(samples=judged)
    for row in rows:
        check_members(few.member[row], called[row])
    nonmembers = int((~few.member[rows]).sum(axis=1).min())
    rates_seen, said = rates_of(fprs, nonmembers)
    notes += said
    whole = len(rows) == few.models
    fleets = whole and left_out_safely(few, needs)
    if whole and not fleets:
        notes.append(_no_fleets(few))
    total = len(needs.names) * (2 + (groups_of(few.models) + 1 if fleets else 0))
    done = stage("attacks", total)
    attacked = tuple(
        _attacked(
            few,
            name,
            rows,
            rates_seen,
            levels,
            rule=rule,
            confidence=confidence,
            seed=seed,
            fleets=fleets,
            notes=notes,
            done=done,
        )
        for name in needs.names
    )
    decided = [one.scores for one in attacked if one.scores.calibrated]
    best = max(attacked, key=lambda one: one.auc.value)
    notes += [note for one in attacked for note in one.scores.notes]
    notes += _silent(attacked, [*levels, *rates_seen])
    return ModelsSurvey(
        table=few,
        names=called,
        targets=tuple(rows.tolist()),
        attacked=attacked,
        fprs=tuple(rates_seen),
        agreements=tuple(agreement(decided, alpha=alpha) for alpha in levels)
        if len(decided) > 1
        else (),
        exposed=_exposed(best.scores),
        samples=np.flatnonzero(judged),
        given=table.samples,
        over_fleets=fleets,
        confidence=confidence,
        rule=rule,
        seed=seed,
        notes=tuple(dict.fromkeys(notes)),
    )


def _attacked(
    table: SignalTable,
    name: str,
    rows: NDArray[np.intp],
    fprs: Sequence[float],
    levels: Sequence[float],
    *,
    rule: Rule,
    confidence: float,
    seed: int,
    fleets: bool,
    notes: list[str],
    done: Callable[[int], object],
) -> AttackedModels:
    scores = attack_models(table, name, targets=rows, rule=rule)
    least = 1.0 / int((~table.member[rows]).sum(axis=1).min())
    across = evaluate_models(scores, fprs=np.geomspace(least, 1.0, 200), confidence=confidence)
    points = tuple(tuple(one.tpr_at_fpr(fpr) for one in across.evaluations) for fpr in fprs)
    done(1)
    over = None
    if fleets:
        over = over_fleets(table, name, fprs=fprs, confidence=confidence, rule=rule, done=done)
    grown = _grown(table, name, rows, rule=rule, seed=seed, notes=notes)
    done(1)
    return AttackedModels(
        scores=scores,
        across=across,
        auc=_mean([one.auc for one in across.evaluations]) if over is None else over.auc,
        tpr=tuple(_mean([point.tpr for point in at]) for at in points)
        if over is None
        else over.tpr,
        points=points,
        rates=rates(scores, alphas=levels) if scores.calibrated else None,
        over=over,
        growth=grown,
    )


def _mean(found: Sequence[Estimate]) -> Estimate:
    """Means of values and of ends: an interval of the mean that is not too narrow."""
    value, lower, upper = (
        float(np.mean([getattr(one, end) for one in found])) for end in ("value", "lower", "upper")
    )
    return Estimate(value, lower, upper)


def _grown(
    table: SignalTable,
    name: str,
    rows: NDArray[np.intp],
    *,
    rule: Rule,
    seed: int,
    notes: list[str],
) -> Growth | None:
    """The AUC against the number of models, where there are enough beside some targets."""
    of = rows[: max(min(_GROWN, table.models // _GROWN), 1)]
    free = table.models - len(of)
    if name == "P" or free <= _GROWN:
        return None
    sizes = [_GROWN * 2**k for k in range(free.bit_length()) if _GROWN * 2**k <= free]
    try:
        return growth(table, name, sorted({*sizes, free}), targets=of, seed=seed, rule=rule)
    except (InputError, EstimationError) as error:
        notes.append(f"The AUC of {name} against the number of models is not shown: {error}")
        return None


def _silent(attacked: Sequence[AttackedModels], asked: Sequence[float]) -> list[str]:
    """What to say of levels that R cannot speak of."""
    for one in attacked:
        least = 2.0 ** -float(one.scores.scores[:, one.scores.judged].max())
        if one.name == "R" and min(asked) < least * (1.0 - 1e-9):
            return [
                f"Attack R calls nobody a member at a level below {least:.3g}: so few models say "
                "no more. The rule gaussian goes on"
            ]
    return []


def _exposed(scores: ManyScores) -> SampleAuc | None:
    inside = scores.member.sum(axis=0)
    if not (scores.judged & (inside > 0) & (inside < len(scores.member))).any():
        return None
    return sample_auc(scores)


def _numbers(table: SignalTable) -> list[int]:
    """Of the models that are there, in the fleet."""
    every = range(table.models + len(table.missing))
    return [number for number in every if number not in table.missing]


def _repeats(table: SignalTable, names: Sequence[str]) -> list[str]:
    """What to say of models that say the same; an InputError if two are one."""
    found = repeated_models({"models": table.signal("loss")})
    for repeat in found:
        if repeat.certain:
            one, two = names[repeat.first[1]], names[repeat.second[1]]
            raise InputError(
                f"says of every sample what {one} says: the two are one model, and an attack "
                "would learn the flags that it is judged by",
                cure="give each model once",
                where=two,
            )
    if not found:
        return []
    return [f"{plural(len(found), 'model')} have the losses of another, as hard labels may give"]


def _no_fleets(table: SignalTable) -> str:
    said = "Intervals speak of these models and of other samples, not of other trainings"
    if table.models < FEWEST:
        return f"{said}: for that give {FEWEST} models or more"
    # So many are left out at a time, and two have to be left, of which one is a target.
    least = 2 - (-table.models // groups_of(table.models))
    return (
        f"{said}: some samples would have no model to be compared with if models were left out; "
        f"--least {least} leaves them away"
    )


def _spread(found: Spread) -> dict[str, float | int]:
    return {"sd": found.sd, "least": found.least, "most": found.most, "targets": found.count}


def _agreement(found: Agreement) -> dict[str, Any]:
    return {
        "alpha": found.alpha,
        "names": list(found.names),
        "members": found.members.tolist(),
        "nonmembers": found.nonmembers.tolist(),
    }
