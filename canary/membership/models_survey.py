"""All attacks on all models of one table by each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from canary.errors import EstimationError, InputError
from canary.membership.aggregate import (
    SampleAuc,
    agreement,
    evaluate_models,
    mean_estimate,
    rates,
    sample_auc,
)
from canary.membership.diagnostics import Growth, growth
from canary.membership.doubts import doubts_of_models
from canary.membership.fleet_intervals import FEWEST, groups_of, over_fleets
from canary.membership.many import ManyScores, attack_models
from canary.membership.models_needed import chosen_attacks, left_out_safely
from canary.membership.models_result import AttackedModels, ModelsSurvey
from canary.membership.outcomes import odd_models, positive_control, upside_down
from canary.membership.references import resolve
from canary.membership.repeats import repeated_models
from canary.membership.survey import rates_of
from canary.scoring.batcher import Stage
from canary.signals.output_checks import check_members
from canary.signals.signal_table import SignalTable, positions
from canary.statistics.number_checks import check_confidence
from canary.statistics.numbers import plural
from canary.statistics.roc import Estimate
from canary.statistics.tails import Rule, check_level, check_rule

LEVELS = (0.01, 0.1, 0.3)
"""Levels at which decisions are made unless others are asked for."""

_GROWN_TARGETS = 4
"""The curves against the number of models are of so many targets at most."""

_GROWN_FROM = 4
"""The fewest models there; a target stands for as many models at least."""


_OF_LOSS = ("S", "P", "R", "lira-offline", "lira-offline-fixed", "rmia-offline")
"""Attacks that look for low losses of members. With all flags swapped the others find them too."""


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
    stage: Stage = lambda name, total: lambda count: None,
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
        False positive rates to look at, as in `canary.membership.shadow_survey.survey`.
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
        Told ``attacks`` and how many there are, each again for its interval and its curve
        against the number of models; gives what is told of those that are done.

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
    trainings. Beside the attack itself they take 16 more, each without a sixteenth of the
    models, or of fewer than 16 one without each. Otherwise the ends are the means of the
    targets' own intervals, which speak of other samples: the standard error of a mean is at
    most the mean of the standard errors, however targets vary together. A curve against the
    number of models is one more attack, on four targets at most, for each number.
    """
    check_confidence(confidence, "survey_models")
    check_rule(rule, "survey_models")
    levels = sorted(set(alphas))
    for alpha in levels:
        check_level(alpha, "alphas")
    if not levels:
        raise EstimationError("no level was given", cure="give one, 0.1 say", where="alphas")
    called = tuple(names or map(str, table.numbers))
    rows = positions(targets, table.models, "targets", table.source)
    doubts = [*doubts_of_models(table, called), *odd_models(table, called)]
    notes = [*_repeats(table, called), *doubts]
    needs, said = chosen_attacks(table, attacks, rows, least=least)
    notes += said
    judged = needs.judged
    few = table if judged.all() else table.select(samples=judged)
    for row in rows:
        check_members(few.member[row], called[row])
    nonmembers = int((~few.member[rows]).sum(axis=1).min())
    whole = len(rows) == few.models
    fleets = whole and left_out_safely(few, needs)
    # Intervals over fleets have ends of their own.
    rates_seen, said = rates_of(fprs, nonmembers, confidence=None if fleets else confidence)
    notes += said
    if whole and not fleets:
        notes.append(_no_fleets(few))
    done = stage("attacks", len(needs.names) * (2 + (groups_of(few.models) if fleets else 0)))
    plan = _Plan(few, rows, rates_seen, levels, rule, confidence, seed, fleets)
    reached = [plan.attacked(name, done) for name in needs.names]
    attacked = tuple(one for one, _ in reached)
    decided = [one.scores for one in attacked if one.scores.calibrated]
    best = max(attacked, key=lambda one: one.auc.value)
    notes += [note for _, said in reached for note in said]
    notes += [note for one in attacked for note in one.scores.notes]
    doubts += upside_down(
        {o.name: partial(_auc, o) for o in attacked if o.name in _OF_LOSS}, "flags"
    )
    if "R" in needs.names:
        notes += _silent(few, rows, [*levels, *rates_seen], rule)
    result = ModelsSurvey(
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
        notes=tuple(dict.fromkeys([*notes, *doubts])),
        doubts=tuple(doubts),
    )
    if result.told_apart() is not False:
        return result
    return replace(result, notes=(*result.notes, positive_control("these models")))


@dataclass(frozen=True, eq=False)
class _Plan:
    """How each attack is done."""

    table: SignalTable
    rows: NDArray[np.intp]
    fprs: Sequence[float]
    levels: Sequence[float]
    rule: Rule
    confidence: float
    seed: int
    fleets: bool

    def attacked(
        self, name: str, done: Callable[[int], object]
    ) -> tuple[AttackedModels, list[str]]:
        """What an attack reaches, and what a reader has to know of it."""
        scores = attack_models(self.table, name, targets=self.rows, rule=self.rule)
        nonmembers = int((~self.table.member[self.rows]).sum(axis=1).min())
        grid = np.geomspace(1.0 / nonmembers, 1.0, 200)
        across = evaluate_models(scores, fprs=grid, confidence=self.confidence)
        points = tuple(
            tuple(one.tpr_at_fpr(fpr) for one in across.evaluations) for fpr in self.fprs
        )
        auc = mean_estimate([one.auc for one in across.evaluations])
        tpr = tuple(mean_estimate([point.tpr for point in at]) for at in points)
        done(1)
        over = None
        if self.fleets:
            over = over_fleets(
                self.table,
                name,
                fprs=self.fprs,
                confidence=self.confidence,
                rule=self.rule,
                across=across,
                done=done,
            )
            auc, tpr = over.auc, over.tpr
        decided = rates(scores, alphas=self.levels) if scores.calibrated else None
        grown, notes = self.grown(name)
        done(1)
        return AttackedModels(scores, across, auc, tpr, points, decided, over, grown), notes

    def grown(self, name: str) -> tuple[Growth | None, list[str]]:
        """The AUC against the number of models, where there are enough beside some targets."""
        models = self.table.models
        of = self.rows[: max(min(_GROWN_TARGETS, models // _GROWN_FROM), 1)]
        free = models - len(of)
        if name == "P" or free <= _GROWN_FROM:
            return None, []
        doubled = (_GROWN_FROM * 2**k for k in range(free.bit_length()))
        sizes = sorted({*(size for size in doubled if size <= free), free})
        try:
            grown = growth(self.table, name, sizes, targets=of, seed=self.seed, rule=self.rule)
        except (InputError, EstimationError) as error:
            said = f"The AUC of {name} against the number of models is not shown: {error}"
            return None, [said]
        return grown, []


def _auc(found: AttackedModels, confidence: float) -> Estimate:
    """The mean AUC with the wider of two intervals: of other fleets, and of other samples."""
    over = found.auc_at(confidence)
    own = mean_estimate([one.roc.auc(confidence=confidence) for one in found.across.evaluations])
    return Estimate(own.value, min(over.lower, own.lower), max(over.upper, own.upper))


def _silent(
    table: SignalTable, rows: NDArray[np.intp], asked: Sequence[float], rule: Rule
) -> list[str]:
    """What to say of levels that R cannot speak of.

    The least level at which a loss is below all of m is 1 / (m + 1).
    """
    if rule == "gaussian":
        return []
    bench = resolve(table, "R", targets=rows)
    least = 1.0 / (bench.most_compared() + 1)
    if min(asked) >= least * (1.0 - 1e-9):
        return []
    return [
        f"Attack R calls nobody a member at a level below {least:.3g}: so few models say no more. "
        "The rule gaussian goes on"
    ]


def _exposed(scores: ManyScores) -> SampleAuc | None:
    inside = scores.member.sum(axis=0)
    if not (scores.judged & (inside > 0) & (inside < len(scores.member))).any():
        return None
    return sample_auc(scores)


def _repeats(table: SignalTable, names: Sequence[str]) -> list[str]:
    """What to say of models that say the same; an InputError if two are one."""
    found = repeated_models({"models": table.signal("loss")})
    for repeat in found:
        if repeat.certain:
            one, two = names[repeat.first[1]], names[repeat.second[1]]
            raise InputError(
                f"says of every sample what {one} says, but for rounding: the two are one model, "
                "and an attack would learn the flags that it is judged by",
                cure="give each model once",
                where=two,
            )
    if not found:
        return []
    have = "has" if len(found) == 1 else "have"
    return [f"{plural(len(found), 'model')} {have} the losses of another, as hard labels may give"]


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
