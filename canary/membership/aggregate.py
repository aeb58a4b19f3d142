"""What an attack reaches across targets: on average, by model, by sample; and attacks compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from canary.errors import InputError
from canary.membership.evaluation import Evaluation
from canary.membership.loss_tests import row_ranks
from canary.membership.many import ManyScores
from canary.statistics.number_checks import check_confidence
from canary.statistics.roc import Estimate, roc
from canary.statistics.tails import check_level

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

ALPHAS: tuple[float, ...] = (
    *(0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05),
    *(k / 10 for k in range(1, 10)),
)
"""The grid of levels, and of false positive rates, at which attacks are compared."""

_BLOCK = 1 << 18


@dataclass(frozen=True)
class Spread:
    """A figure over several targets.

    Parameters
    ----------
    mean, sd, least, most : float
        `sd` is the standard deviation over targets, 0 of one. Targets that share references
        are not independent: it is no standard error of the mean. For an interval see
        `canary.membership.fleet_intervals`.
    count : int
        Number of targets.
    """

    mean: float
    sd: float
    least: float
    most: float
    count: int

    @classmethod
    def of(cls, values: ArrayLike) -> Spread:
        """The spread of some figures, at least one."""
        found = np.asarray(values, np.float64)
        sd = float(found.std(ddof=1)) if len(found) > 1 else 0.0
        # Sums of equal numbers round.
        least, most = float(found.min()), float(found.max())
        return cls(min(max(float(found.mean()), least), most), sd, least, most, len(found))


def mean_estimate(found: Sequence[Estimate]) -> Estimate:
    """The mean over targets of values, and of the ends of their intervals.

    The standard error of a mean is at most the mean of the standard errors, whatever the
    targets share: so the interval is not too narrow.
    """
    value, lower, upper = (
        Spread.of([getattr(one, end) for one in found]).mean for end in ("value", "lower", "upper")
    )
    return Estimate(value, lower, upper)


@dataclass(frozen=True, eq=False)
class Across:
    """What an attack reaches on each target, and on average.

    Parameters
    ----------
    name : str
    targets : tuple of int
    evaluations : tuple of Evaluation
        One for each target: how vulnerable that model is.
    auc : Spread
    fprs, tprs : ndarray of float64 of shape (points,) and (targets, points)
        The true positive rate of each target at the largest false positive rate not above `fprs`.
    models_trained : int
        What the attack costs, for all targets together.
    notes : tuple of str
    """

    name: str
    targets: tuple[int, ...]
    evaluations: tuple[Evaluation, ...]
    auc: Spread
    fprs: Floats
    tprs: Floats
    models_trained: int
    notes: tuple[str, ...]

    @property
    def average_tpr(self) -> Floats:
        """Mean over targets of the true positive rate at `fprs`: the average ROC."""
        return np.asarray(self.tprs.mean(axis=0))

    def tpr_at_fpr(self, fpr: float) -> Spread:
        """The true positive rate over targets at a false positive rate.

        Raises
        ------
        EstimationError
            If `fpr` is below one nonmember of a target.
        """
        return Spread.of([one.roc.tpr_value(fpr) for one in self.evaluations])

    def most_vulnerable(self) -> tuple[int, ...]:
        """The targets, those of the highest AUC first."""
        order = np.argsort([-one.auc.value for one in self.evaluations], kind="stable")
        return tuple(self.targets[at] for at in order)


def evaluate_models(
    scores: ManyScores, *, fprs: ArrayLike | None = None, confidence: float = 0.95
) -> Across:
    """How well an attack tells members from nonmembers, by target and on average.

    Parameters
    ----------
    scores : ManyScores
    fprs : array_like of float, optional
        Where the average ROC is taken; at 200 rates from 0.0001 to 1 unless given.
    confidence : float
        Of the intervals of each target.

    Raises
    ------
    EstimationError
        If all judged samples of a target are of one kind.
    """
    check_confidence(confidence, "evaluate_models")
    grid = np.geomspace(1e-4, 1.0, 200) if fprs is None else np.asarray(fprs, np.float64)
    found, rows = [], []
    for score, member in zip(scores.scores, scores.member, strict=True):
        curve = roc(score[scores.judged], member[scores.judged])
        # Rates are compared as counts: 1 of 1,000 is no more than 0.001.
        allowed = np.floor(grid * curve.nonmembers * (1.0 + 1e-12))
        at = np.searchsorted(curve.false_positives, allowed, side="right")
        rows.append(curve.tpr[at])
        found.append(
            Evaluation(scores.name, curve, confidence, curve.auc(confidence=confidence), None)
        )
    return Across(
        name=scores.name,
        targets=scores.targets,
        evaluations=tuple(found),
        auc=Spread.of([one.auc.value for one in found]),
        fprs=grid,
        tprs=np.array(rows),
        models_trained=scores.models_trained,
        notes=scores.notes,
    )


@dataclass(frozen=True, eq=False)
class SampleAuc:
    """How vulnerable samples are, over targets.

    Parameters
    ----------
    samples : ndarray of int64
        Those that are judged, and are members of some targets and not of others.
    auc : ndarray of float64
        Chance that a target trained on the sample gives it a higher score than one that was not.
    members, nonmembers : ndarray of int64
        Targets of both kinds. With 8 and 8 the standard deviation of an AUC is 0.15 by chance.
    """

    samples: Ints
    auc: Floats
    members: Ints
    nonmembers: Ints

    def most_vulnerable(self, most: int = 20) -> Ints:
        """The samples of the highest AUC, the first of equal ones first."""
        return np.asarray(self.samples[np.argsort(-self.auc, kind="stable")][:most])


def sample_auc(scores: ManyScores) -> SampleAuc:
    """The AUC of each sample over targets. O(nK log K), in parts.

    Raises
    ------
    InputError
        If no sample is a member of one target and a nonmember of another.
    """
    inside = scores.member.sum(axis=0)
    outside = len(scores.member) - inside
    chosen = np.flatnonzero(scores.judged & (inside > 0) & (outside > 0))
    if not len(chosen):
        raise InputError(
            f"no sample is a member of some of the {len(scores.member)} targets and a nonmember "
            "of others",
            cure="attack several models of which each was trained on other samples",
            where="sample_auc",
        )
    auc = np.empty(len(chosen))
    step = max(_BLOCK // len(scores.member), 1)
    for at in range(0, len(chosen), step):
        part = chosen[at : at + step]
        values, member = scores.scores[:, part].T, scores.member[:, part].T
        null = np.sort(np.where(member, np.nan, values), axis=1)
        mirrored = np.sort(np.where(member, np.nan, -values), axis=1)
        below = row_ranks(null, values)
        least = outside[part][:, None] - row_ranks(mirrored, -values)
        wins = np.where(member, (below + least) / 2.0, 0.0).sum(axis=1)
        auc[at : at + step] = wins / (inside[part] * outside[part])
    return SampleAuc(chosen, auc, inside[chosen], outside[chosen])


@dataclass(frozen=True, eq=False)
class Rates:
    """What decisions at each level come to, over all targets and judged samples.

    Parameters
    ----------
    name : str
    alphas : ndarray of float64 of shape (levels,)
    fpr, tpr : ndarray of float64 of shape (levels,)
        Shares of nonmembers and of members that are called members.
    """

    name: str
    alphas: Floats
    fpr: Floats
    tpr: Floats


def rates(scores: ManyScores, *, alphas: Sequence[float] = ALPHAS) -> Rates:
    """The false and true positive rates of the decisions at each level.

    Notes
    -----
    A false positive rate above its alpha says that nonmembers are unlike the null: shadows
    that were trained otherwise, or a population from elsewhere.
    """
    called = [scores.guess(alpha)[:, scores.judged] for alpha in alphas]
    member = scores.member[:, scores.judged]
    return Rates(
        scores.name,
        np.asarray(alphas, np.float64),
        np.array([one[~member].mean() for one in called]),
        np.array([one[member].mean() for one in called]),
    )


@dataclass(frozen=True, eq=False)
class Agreement:
    """How often attacks, and the truth, say the same.

    Parameters
    ----------
    names : tuple of str
        ``truth`` first.
    alpha : float
    members, nonmembers : ndarray of float64 of shape (names, names)
        Shares of the members, and of the nonmembers, of which two say the same.
    """

    names: tuple[str, ...]
    alpha: float
    members: Floats
    nonmembers: Floats


def agreement(attacks: Sequence[ManyScores], *, alpha: float) -> Agreement:
    """How often decisions at one level agree with each other and with the truth.

    Table 3 of Ye et al., which has members above its diagonal and nonmembers below. Only samples
    that all attacks judge are compared.

    Raises
    ------
    InputError
        If they are of other targets or samples, nothing is given, or an attack has no
        decision at a level.
    """
    check_level(alpha, "agreement")
    if not attacks:
        raise InputError("no attack was given", cure="give two or more", where="agreement")
    first = attacks[0]
    for one in attacks[1:]:
        if one.targets != first.targets or not np.array_equal(one.member, first.member):
            raise InputError(
                f"attacks {first.name} and {one.name} are of other targets or samples",
                cure="attack the same targets of the same table",
                where="agreement",
            )
    judged = np.logical_and.reduce([one.judged for one in attacks])
    member = first.member[:, judged]
    said = [member, *(one.guess(alpha)[:, judged] for one in attacks)]

    def shares(flags: NDArray[np.bool_]) -> Floats:
        votes = np.array([one[flags] for one in said])
        return np.array([(votes == vote).mean(axis=1) for vote in votes])

    return Agreement(
        ("truth", *(one.name for one in attacks)), alpha, shares(member), shares(~member)
    )
