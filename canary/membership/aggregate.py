"""What an attack reaches across targets: on average, by model, by sample, and in other fleets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from canary.errors import InputError
from canary.membership.evaluation import Evaluation
from canary.membership.loss_tests import row_ranks
from canary.membership.many import ManyScores, attack_models
from canary.signals.signal_table import SignalTable
from canary.statistics.number_checks import check_confidence, positive_integer
from canary.statistics.numbers import Shown
from canary.statistics.roc import Estimate, Roc, roc
from canary.statistics.tails import Rule, check_level

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

ALPHAS: tuple[float, ...] = (
    *(0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05),
    *(k / 10 for k in range(1, 10)),
)
"""The grid of levels, and of false positive rates, at which attacks are compared."""

FEWEST = 4
"""Models that an interval over fleets needs."""

_BLOCK = 1 << 18

_AGREE = 1e-12
"""Means of parts that differ by less differ by rounding."""


@dataclass(frozen=True)
class Spread:
    """A figure over several targets.

    `sd` is the standard deviation over targets, 0 of one. Targets that share references are not
    independent: it is no standard error of the mean. `over_fleets` gives intervals.
    """

    mean: float
    sd: float
    least: float
    most: float
    count: int

    @classmethod
    def of(cls, values: ArrayLike) -> Spread:
        """The spread of some figures, at least one."""
        array = np.asarray(values, np.float64)
        sd = float(array.std(ddof=1)) if len(array) > 1 else 0.0
        least, most = float(array.min()), float(array.max())
        # Sums of equal numbers round.
        return cls(min(max(float(array.mean()), least), most), sd, least, most, len(array))


def mean_estimate(estimates: Sequence[Estimate]) -> Estimate:
    """The mean over targets of values, and of the ends of their intervals.

    The standard error of a mean is at most the mean of the standard errors, whatever targets share.
    """
    ends = ([getattr(one, end) for one in estimates] for end in ("value", "lower", "upper"))
    return Estimate(*(Spread.of(values).mean for values in ends))


def mean_tpr(curves: Sequence[Roc], fpr: float, confidence: float) -> Estimate:
    """`mean_estimate` of the true positive rates of curves at a false positive rate."""
    return mean_estimate([curve.tpr_at_fpr(fpr, confidence=confidence).tpr for curve in curves])


@dataclass(frozen=True, eq=False, repr=False)
class Across(Shown):
    """What an attack reaches on each target, and on average.

    `fprs` has the shape (points,); `tprs` of shape (targets, points) is the true positive rate of
    each target at the largest false positive rate not above these. `models_trained` is what the
    attack costs, for all targets together.
    """

    name: str
    targets: tuple[int, ...]
    evaluations: tuple[Evaluation, ...]
    auc: Spread
    fprs: Floats
    tprs: Floats
    models_trained: int
    notes: tuple[str, ...]

    def summary(self) -> str:
        """Its AUC, on average over targets."""
        line = f"{self.name}: AUC {self.auc.mean:.3f}, the mean over {self.auc.count} targets"
        spread = f" ({self.auc.least:.3f} to {self.auc.most:.3f})" if self.auc.count > 1 else ""
        return "\n".join([line + spread, *self.notes])

    def _table(self) -> list[dict[str, Any]]:
        return [
            {"target": at, "auc": one.auc.value, "lower": one.auc.lower, "upper": one.auc.upper}
            for at, one in zip(self.targets, self.evaluations, strict=True)
        ]

    def _metrics(self) -> Iterator[tuple[str, Any]]:
        yield from ((f"membership/{self.name}/auc_{n}", v) for n, v in vars(self.auc).items())

    @property
    def average_tpr(self) -> Floats:
        """Mean over targets of the true positive rate at `fprs`: the average ROC."""
        return np.asarray(self.tprs.mean(axis=0))

    def tpr_at_fpr(self, fpr: float) -> Spread:
        """The true positive rate over targets at a rate of one non-member or more."""
        return Spread.of([one.roc.tpr_value(fpr) for one in self.evaluations])

    def most_vulnerable(self) -> tuple[int, ...]:
        """The targets, those of the highest AUC first."""
        order = np.argsort([-one.auc.value for one in self.evaluations], kind="stable")
        return tuple(self.targets[place] for place in order)


def evaluate_models(
    scores: ManyScores, *, fprs: ArrayLike | None = None, confidence: float = 0.95
) -> Across:
    """How well an attack separates members from non-members, by target and on average.

    The average ROC is taken at `fprs`, 200 rates from 0.0001 to 1 unless given. An EstimationError
    if all judged samples of a target are of one kind.
    """
    check_confidence(confidence, "evaluate_models")
    grid = np.geomspace(1e-4, 1.0, 200) if fprs is None else np.asarray(fprs, np.float64)
    evaluations, tprs = [], []
    for score, member in zip(scores.scores, scores.member, strict=True):
        curve = roc(score[scores.judged], member[scores.judged])
        # Rates are compared as counts: 1 of 1,000 is no more than 0.001.
        allowed = np.floor(grid * curve.nonmembers * (1.0 + 1e-12))
        tprs.append(curve.tpr[np.searchsorted(curve.false_positives, allowed, side="right")])
        area = curve.auc(confidence=confidence)
        evaluations.append(Evaluation(scores.name, curve, confidence, area, None))
    auc = Spread.of([one.auc.value for one in evaluations])
    reached = (tuple(evaluations), auc, grid, np.array(tprs))
    return Across(scores.name, scores.targets, *reached, scores.models_trained, scores.notes)


@dataclass(frozen=True, eq=False)
class SampleAuc:
    """How vulnerable samples are, of those that are members of some targets and not of others.

    `samples` are these, `auc` the chance that a target trained on one gives it a higher score than
    one that was not, `members` and `nonmembers` the targets of both kinds, all of shape (k,). With
    8 and 8 the standard deviation of an AUC is 0.15 by chance.
    """

    samples: Ints
    auc: Floats
    members: Ints
    nonmembers: Ints

    def most_vulnerable(self, most: int = 20) -> Ints:
        """The samples of the highest AUC, the first of equal ones first."""
        return np.asarray(self.samples[np.argsort(-self.auc, kind="stable")][:most])


def sample_auc(scores: ManyScores) -> SampleAuc:
    """The AUC over targets of each sample that some were trained on, and some not. O(nK log K)."""
    inside = scores.member.sum(axis=0)
    outside = len(scores.member) - inside
    chosen = np.flatnonzero(scores.judged & (inside > 0) & (outside > 0))
    if not len(chosen):
        raise InputError(
            f"no sample is a member of some of the {len(scores.member)} targets and a non-member "
            "of others",
            cure="attack several models of which each was trained on other samples",
            where="sample_auc",
        )
    auc = np.empty(len(chosen))
    step = max(_BLOCK // len(scores.member), 1)
    for start in range(0, len(chosen), step):
        part = chosen[start : start + step]
        values, member = scores.scores[:, part].T, scores.member[:, part].T
        null = np.sort(np.where(member, np.nan, values), axis=1)
        mirrored = np.sort(np.where(member, np.nan, -values), axis=1)
        below = row_ranks(null, values)
        least = outside[part][:, None] - row_ranks(mirrored, -values)
        wins = np.where(member, (below + least) / 2.0, 0.0).sum(axis=1)
        auc[start : start + step] = wins / (inside[part] * outside[part])
    return SampleAuc(chosen, auc, inside[chosen], outside[chosen])


@dataclass(frozen=True, eq=False)
class Rates:
    """Shares of non-members and of members that are called members; arrays of shape (levels,)."""

    name: str
    alphas: Floats
    fpr: Floats
    tpr: Floats


def rates(scores: ManyScores, *, alphas: Sequence[float] = ALPHAS) -> Rates:
    """The rates of the decisions at each level, over all targets and judged samples.

    An FPR above its alpha says that non-members are unlike the null: shadows that were trained
    otherwise, or a population from elsewhere.
    """
    called = [scores.guess(alpha)[:, scores.judged] for alpha in alphas]
    member = scores.member[:, scores.judged]
    fpr, tpr = (np.array([guess[kind].mean() for guess in called]) for kind in (~member, member))
    return Rates(scores.name, np.asarray(alphas, np.float64), fpr, tpr)


@dataclass(frozen=True, eq=False)
class Agreement:
    """How often attacks, and the truth (first of `names`), say the same at a level.

    Shares of the members, and of the non-members, have the shape (names, names).
    """

    names: tuple[str, ...]
    alpha: float
    members: Floats
    nonmembers: Floats


def agreement(attacks: Sequence[ManyScores], *, alpha: float) -> Agreement:
    """How often decisions at one level agree with each other and with the truth.

    Only samples that all attacks judge are compared. An InputError if they are of other targets or
    samples, nothing is given, or an attack has no decision at a level.
    """
    check_level(alpha, "agreement")
    if not attacks:
        raise InputError("no attack was given", cure="give two or more", where="agreement")
    first = attacks[0]
    for other in attacks[1:]:
        if other.targets != first.targets or not np.array_equal(other.member, first.member):
            raise InputError(
                f"attacks {first.name} and {other.name} are of other targets or samples",
                cure="attack the same targets of the same table",
                where="agreement",
            )
    judged = np.logical_and.reduce([scores.judged for scores in attacks])
    member = first.member[:, judged]
    said = [member, *(scores.guess(alpha)[:, judged] for scores in attacks)]

    def shares(flags: NDArray[np.bool_]) -> Floats:
        votes = np.array([answers[flags] for answers in said])
        return np.array([(votes == vote).mean(axis=1) for vote in votes])

    names = ("truth", *(scores.name for scores in attacks))
    return Agreement(names, alpha, shares(member), shares(~member))


@dataclass(frozen=True, eq=False)
class OverFleets:
    """Means over the models of a table, with intervals over fleets.

    `tpr` has the true positive rate at each of `fprs`, `groups` in how many parts models were left
    out, `auc_error` and `tpr_errors` the standard errors over fleets (0 where all parts agree), and
    `curves` the ROC of each model.
    """

    name: str
    auc: Estimate
    tpr: tuple[Estimate, ...]
    fprs: tuple[float, ...]
    models: int
    groups: int
    auc_error: float
    tpr_errors: tuple[float, ...]
    curves: tuple[Roc, ...]

    def auc_at(self, confidence: float) -> Estimate:
        """The AUC with an interval of another confidence."""
        check_confidence(confidence, "over_fleets")
        own = [curve.auc(confidence=confidence) for curve in self.curves]
        return _estimate(self.auc_error, mean_estimate(own), self.groups, confidence)

    def tpr_at(self, confidence: float) -> tuple[Estimate, ...]:
        """The true positive rates with intervals of another confidence."""
        check_confidence(confidence, "over_fleets")
        return tuple(
            _estimate(error, mean_tpr(self.curves, fpr, confidence), self.groups, confidence)
            for fpr, error in zip(self.fprs, self.tpr_errors, strict=True)
        )


def groups_of(models: int) -> int:
    """In how many parts models are left out unless it is said."""
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
        In how many parts models are left out: 16, or one by one if they are fewer, unless given.
    confidence, population, rule, gamma, a
        As in `canary.membership.many.attack_models`, which is called `groups` + 1 times.
    across : Across, optional
        What this very attack reaches on the whole table, if that is known already.
    done : callable
        Called each time that the attack was done.

    Raises
    ------
    InputError
        If there are fewer than four models, groups are out of range, or the models that are
        left are too few for the attack on some sample.

    Notes
    -----
    The jackknife over models (Efron and Stein 1981) with Student's interval: the same samples, new
    splits and trainings. Where all parts agree that has no width; then the ends are the means of
    the ends of the models' own intervals, which cover more often than `confidence` says.
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

    def means(reached: Across) -> Floats:
        return np.array([reached.auc.mean, *(reached.tpr_at_fpr(fpr).mean for fpr in fprs)])

    rows = np.arange(table.models)
    curves = [one.roc for one in (attacked(table) if across is None else across).evaluations]
    without = np.array(
        [means(attacked(table.select(models=rows % made != part))) for part in range(made)]
    )
    errors = np.sqrt((made - 1) * without.var(axis=0))
    errors = np.where(np.ptp(without, axis=0) < _AGREE, 0.0, errors)
    own = [
        mean_estimate([curve.auc(confidence=confidence) for curve in curves]),
        *(mean_tpr(curves, fpr, confidence) for fpr in fprs),
    ]
    off: list[float] = errors.tolist()
    auc, *tpr = (_estimate(*both, made, confidence) for both in zip(off, own, strict=True))
    ends = (tuple(fprs), table.models, made, off[0], tuple(off[1:]), tuple(curves))
    return OverFleets(name, auc, tuple(tpr), *ends)


def _estimate(error: float, mean: Estimate, groups: int, confidence: float) -> Estimate:
    """The mean with its interval over fleets; with the models' own where all parts agree."""
    from scipy.special import stdtrit

    if not error:
        return mean
    half = -float(stdtrit(groups - 1, (1.0 - confidence) / 2.0)) * error
    return Estimate(mean.value, max(mean.value - half, 0.0), min(mean.value + half, 1.0))
