"""What an attack reaches on average, with intervals that speak of other fleets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from canary.errors import InputError
from canary.membership.aggregate import Across, evaluate_models, mean_estimate
from canary.membership.many import attack_models
from canary.signals.signal_table import SignalTable
from canary.statistics.number_checks import check_confidence, positive_integer
from canary.statistics.roc import Estimate, Roc
from canary.statistics.tails import Rule

FEWEST = 4
"""Models that an interval over fleets needs."""

_AGREE = 1e-12
"""Means of parts that differ by less differ by rounding."""


@dataclass(frozen=True, eq=False)
class OverFleets:
    """Means over the models of a table, with intervals over fleets.

    Parameters
    ----------
    name : str
    auc : Estimate
    tpr : tuple of Estimate
        True positive rate at each false positive rate that was asked for.
    fprs : tuple of float
    models, groups : int
        How many models there are, and in how many parts they were left out.
    auc_error : float
        Standard error of the AUC over fleets; 0 where all parts agree.
    curves : tuple of Roc
        Of each model.
    """

    name: str
    auc: Estimate
    tpr: tuple[Estimate, ...]
    fprs: tuple[float, ...]
    models: int
    groups: int
    auc_error: float
    curves: tuple[Roc, ...]

    def auc_at(self, confidence: float) -> Estimate:
        """The AUC with an interval of another confidence."""
        check_confidence(confidence, "over_fleets")
        own = [curve.auc(confidence=confidence) for curve in self.curves]
        return _estimate(self.auc_error, self.groups, own, confidence)


def groups_of(models: int) -> int:
    """In how many parts so many models are left out unless it is said."""
    return min(models, 16)


def over_fleets(
    table: SignalTable,
    name: str,
    *,
    fprs: Sequence[float] = (),
    groups: int | None = None,
    confidence: float = 0.95,
    population: ArrayLike | None = None,
    rule: Rule = "empirical",
    gamma: float = 2.0,
    a: float = 0.3,
    across: Across | None = None,
    done: Callable[[int], object] = lambda attacks: None,
) -> OverFleets:
    """Mean AUC and TPR at FPR over the models of a table, had they been trained anew.

    Parameters
    ----------
    table : SignalTable
        Every model is attacked by the others.
    name : str
        An attack among the models of one table: not D or L.
    fprs : sequence of float
        From 1 / nonmembers to 1.
    groups : int, optional
        In how many parts models are left out, from 2 to their number; 16, or all one by one if
        they are fewer, unless given.
    confidence : float
    population, rule, gamma, a
        As in `canary.membership.many.attack_models`.
    across : Across, optional
        What this very attack reaches on the whole table, if that is known already.
    done : callable
        Told of every time that the attack was done, of G + 1, or of G beside `across`.

    Raises
    ------
    InputError
        If there are fewer than four models, groups are out of range, or the models that are
        left are too few for the attack on some sample.

    Notes
    -----
    The jackknife over models [1]_: each part is left out as target and as reference, and the
    whole attack done again. With theta_g the mean without part g of G, the standard error is

        sqrt((G - 1) / G sum_g (theta_g - mean theta)^2)

    and its interval Student's with G - 1 degrees of freedom, within 0 and 1. It speaks of the
    same samples and of new splits and trainings. Targets share their references, so what they
    reach varies together; the spread over targets does not see that.

    Where all parts agree that has no width. Then the interval goes from the mean of the lower
    ends to the mean of the upper ends of the models' own intervals, which know how many samples
    there are; it covers more often than `confidence` says, as do those of rates of few members.

    References
    ----------
    .. [1] Efron and Stein, The jackknife estimate of variance, Annals of Statistics 9, 1981.
    """
    where = "over_fleets"
    check_confidence(confidence, where)
    if table.models < FEWEST:
        raise InputError(
            f"{table.models} models",
            cure=f"train {FEWEST} or more on splits of the same samples",
            where=where,
        )
    made = groups_of(table.models)
    if groups is not None:
        made = positive_integer(groups, "groups", where, cure="leave models out in 2 parts or more")
    if not 2 <= made <= table.models:
        raise InputError(
            f"{made} groups of {table.models} models",
            cure=f"ask for 2 to {table.models}",
            where=where,
        )

    def attacked(part: SignalTable) -> Across:
        scores = attack_models(part, name, population=population, rule=rule, gamma=gamma, a=a)
        reached = evaluate_models(scores)
        done(1)
        return reached

    def means(reached: Across) -> NDArray[np.float64]:
        return np.array([reached.auc.mean, *(reached.tpr_at_fpr(fpr).mean for fpr in fprs)])

    rows = np.arange(table.models)
    curves = [one.roc for one in (attacked(table) if across is None else across).evaluations]
    without = np.array(
        [means(attacked(table.select(models=rows % made != part))) for part in range(made)]
    )
    errors = np.sqrt((made - 1) * without.var(axis=0))
    errors = np.where(np.ptp(without, axis=0) < _AGREE, 0.0, errors)
    own = [
        [curve.auc(confidence=confidence) for curve in curves],
        *([curve.tpr_at_fpr(fpr, confidence=confidence).tpr for curve in curves] for fpr in fprs),
    ]
    auc, *tpr = (
        _estimate(float(error), made, each, confidence)
        for error, each in zip(errors, own, strict=True)
    )
    return OverFleets(
        name,
        auc,
        tuple(tpr),
        tuple(fprs),
        table.models,
        made,
        auc_error=float(errors[0]),
        curves=tuple(curves),
    )


def _estimate(error: float, groups: int, own: Sequence[Estimate], confidence: float) -> Estimate:
    """The mean with its interval over fleets; with the models' own where all parts agree."""
    from scipy.special import stdtrit

    mean = mean_estimate(own)
    if not error:
        return mean
    half = -float(stdtrit(groups - 1, (1.0 - confidence) / 2.0)) * error
    return Estimate(mean.value, max(mean.value - half, 0.0), min(mean.value + half, 1.0))
