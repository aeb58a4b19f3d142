"""How well scores tell members from non-members: ROC, AUC, TPR at FPR, with intervals.

A threshold calls a sample a member when its score is at least the threshold. Samples of
one score are called together: they are one point of the curve. Scores may be infinite,
not NaN.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from canary.errors import EstimationError
from canary.statistics.number_checks import check_confidence, halved, real_array
from canary.statistics.numbers import Shown
from canary.statistics.shares import clopper_pearson, difference_interval, tpr_interval

_MOST = 10**12


@dataclass(frozen=True, repr=False)
class Estimate(Shown):
    """A number with its interval.

    Parameters
    ----------
    value, lower, upper : float
    """

    value: float
    lower: float
    upper: float

    def summary(self) -> str:
        """``0.671 (0.648 to 0.692)``."""
        return f"{self.value:.3g} ({self.lower:.3g} to {self.upper:.3g})"

    def _table(self) -> list[dict[str, float]]:
        return [vars(self)]


@dataclass(frozen=True, repr=False)
class OperatingPoint(Shown):
    """What an attack reaches at a false positive rate.

    Parameters
    ----------
    asked_fpr, fpr : float
        The rate that was asked for, and the largest not above it that a threshold reaches.
    fpr_interval : tuple of float
        Clopper-Pearson interval of the threshold's false positive rate.
    tpr : Estimate
        Share of the members that are called so. The interval is that of the share at the rate
        that was asked for: it allows for the choice of the threshold by these samples.
    threshold : float
        The least score that is called a member; infinite if none is and none could be.
    true_positives, false_positives, members, nonmembers : int
    """

    asked_fpr: float
    fpr: float
    fpr_interval: tuple[float, float]
    tpr: Estimate
    threshold: float
    true_positives: int
    false_positives: int
    members: int
    nonmembers: int

    def summary(self) -> str:
        """How many members are found, and how many others are mistaken for members."""
        return (
            f"TPR {self.tpr.summary()} at FPR {self.asked_fpr:g}: {self.true_positives:,} of "
            f"{self.members:,} members are found while {self.false_positives:,} of "
            f"{self.nonmembers:,} non-members are mistaken for members"
        )

    def _table(self) -> list[dict[str, float]]:
        low, high = self.fpr_interval
        ends = {"tpr": self.tpr.value, "tpr_lower": self.tpr.lower, "tpr_upper": self.tpr.upper}
        plain = {name: each for name, each in vars(self).items() if isinstance(each, float | int)}
        return [{**plain, "fpr_lower": low, "fpr_upper": high, **ends}]


@dataclass(frozen=True, eq=False, repr=False)
class Roc(Shown):
    """The curve: what each threshold calls a member.

    Parameters
    ----------
    thresholds : ndarray of float64 of shape (points,)
        The distinct scores, from the highest to the lowest.
    true_positives, false_positives : ndarray of int64 of shape (points,)
        Members and non-members whose score is at least the threshold. The point (0, 0) of
        no threshold at all is not among them.
    """

    thresholds: NDArray[np.float64]
    true_positives: NDArray[np.int64]
    false_positives: NDArray[np.int64]

    def summary(self) -> str:
        """The area under it, and of how many samples it is."""
        samples = f"{self.members:,} members and {self.nonmembers:,} non-members"
        return f"ROC of {samples}: AUC {self.auc().summary()}"

    def _table(self) -> dict[str, NDArray[np.float64]]:
        return {"false_positive_rate": self.fpr, "true_positive_rate": self.tpr}

    @property
    def members(self) -> int:
        """Number of members."""
        return int(self.true_positives[-1])

    @property
    def nonmembers(self) -> int:
        """Number of non-members."""
        return int(self.false_positives[-1])

    @property
    def tpr(self) -> NDArray[np.float64]:
        """True positive rates, from the point (0, 0) on; shape (points + 1,)."""
        return np.append(0, self.true_positives) / self.members

    @property
    def fpr(self) -> NDArray[np.float64]:
        """False positive rates, from the point (0, 0) on; shape (points + 1,)."""
        return np.append(0, self.false_positives) / self.nonmembers

    def advantage(self) -> float:
        """The largest TPR - FPR of any threshold; chosen on these samples, so it flatters."""
        return float((self.tpr - self.fpr).max())

    def auc(self, *, confidence: float = 0.95, widening: float = 1.0) -> Estimate:
        """Chance that a member has a higher score than a non-member, ties as one half.

        `widening` multiplies the standard error, for scores that are not independent.

        Notes
        -----
        The area under the curve by trapezoids. The interval holds two others: DeLong's
        (Biometrics 44, 1988) on the logit scale, and the fifth of Newcombe (Statistics in Medicine
        25, 2006), by the variance that Hanley and McNeil give for the area that is asked about.
        The first is too narrow with few samples of one kind near 0 and 1, the second where scores
        of one kind spread more than those of the other. Together they cover 93 to 99 % at 95 %.

        If all pairs of a member and a non-member come out alike DeLong's has no width; then the
        share of other pairs is bounded by what ``min(members, nonmembers)`` disjoint, so
        independent, pairs exclude. O(points).
        """
        from scipy.special import expit, ndtri

        check_confidence(confidence, "auc")
        members, nonmembers = self.members, self.nonmembers
        m = np.diff(self.true_positives, prepend=0).astype(np.float64)
        n = np.diff(self.false_positives, prepend=0).astype(np.float64)
        # Of a member with this score: share of the non-members below; of a non-member: of the
        # members above. Ties count half.
        below = 1.0 - (self.false_positives - n / 2.0) / nonmembers
        above = (self.true_positives - m / 2.0) / members
        area = min(float(m @ below) / members, 1.0)
        variance = _variance(below, m, members) + _variance(above, n, nonmembers)
        reach = widening * float(ndtri(0.5 + confidence / 2.0))
        if variance <= 0.0 or not 0.0 < area < 1.0:
            alike = ((1.0 - confidence) / 2.0) ** (1.0 / min(members, nonmembers))
            low, high = area * alike, 1.0 - (1.0 - area) * alike
        else:
            logit = math.log(area) - math.log1p(-area)
            half = reach * math.sqrt(variance) / (area * (1.0 - area))
            low, high = float(expit(logit - half)), float(expit(logit + half))
        below_it = _newcombe(area, members, nonmembers, reach)
        above_it = 1.0 - _newcombe(1.0 - area, members, nonmembers, reach)
        return Estimate(area, min(low, below_it), max(high, above_it))

    def tpr_at_fpr(self, fpr: float, *, confidence: float = 0.95) -> OperatingPoint:
        """The true positive rate at the largest false positive rate not above `fpr`.

        Its interval is that of `canary.statistics.shares.tpr_interval`: it allows for other
        non-members, which would choose another threshold. An EstimationError says that `fpr` is
        less than one non-member, or above 1.
        """
        check_confidence(confidence, "tpr_at_fpr")
        members, nonmembers = self.members, self.nonmembers
        hits, false, threshold = self._point(fpr)
        least, most = clopper_pearson(false, nonmembers, (1.0 - confidence) / 2.0)

        def members_above(place: NDArray[np.int64]) -> NDArray[np.int64]:
            points = np.searchsorted(self.false_positives, place, side="left")
            return np.append(0, self.true_positives)[points]

        ends = tpr_interval(members_above, members, nonmembers, fpr, confidence=confidence)
        return OperatingPoint(
            asked_fpr=fpr,
            fpr=false / nonmembers,
            fpr_interval=(float(least), float(most)),
            tpr=Estimate(hits / members, *ends),
            threshold=threshold,
            true_positives=hits,
            false_positives=false,
            members=members,
            nonmembers=nonmembers,
        )

    def tpr_value(self, fpr: float) -> float:
        """The value of `tpr_at_fpr` without its interval, which takes longer."""
        return self._point(fpr)[0] / self.members

    def _point(self, fpr: float) -> tuple[int, int, float]:
        """Hits, false positives and threshold of the last point whose rate is not above `fpr`."""
        check_rate(fpr, self.nonmembers)
        # Counts, so that 1 of 1,000 is no more than 0.001 whatever rounding says.
        allowed = math.floor(fpr * self.nonmembers * (1.0 + 1e-12))
        place = int(np.searchsorted(self.false_positives, allowed, side="right")) - 1
        if place < 0:
            return 0, 0, math.inf
        hits, false = int(self.true_positives[place]), int(self.false_positives[place])
        return hits, false, float(self.thresholds[place])


def roc(scores: ArrayLike, member: ArrayLike) -> Roc:
    """The ROC of attack scores.

    Parameters
    ----------
    scores : array_like of shape (samples,)
        Higher for what looks like a member.
    member : array_like of bool of shape (samples,)

    Raises
    ------
    EstimationError
        If the shapes differ, a score is NaN, or there are no members or no non-members.

    Examples
    --------
    >>> curve = roc([0.9, 0.4, 0.4, 0.1], [True, True, False, False])
    >>> curve.auc().value
    0.875
    >>> curve.tpr_at_fpr(0.5).tpr.value
    1.0
    """
    values, flags = scored_members(scores, member, "roc")
    order = np.argsort(-values)  # how ties lie does not matter
    values, flags = values[order], flags[order]
    last = np.flatnonzero(np.append(values[1:] != values[:-1], True))
    hits = np.cumsum(flags, dtype=np.int64)[last]
    return Roc(values[last], hits, last + 1 - hits)


def nonmembers_for_auc(limit: float, *, confidence: float) -> int | None:
    """The least number of non-members, with as many members, that can judge a limit on the AUC.

    An attack that guesses is within it with a chance of 90 %, and one that finds every member is
    above it. None where the limit is not above 0.5, or 10^12 are too few.

    Notes
    -----
    Of n members and as many non-members, guessing has a variance of ``(2 n + 1) / (12 n**2)``; the
    ends are Newcombe's, by the variance of Hanley and McNeil, as in `Roc.auc`.

    Examples
    --------
    >>> nonmembers_for_auc(0.55, confidence=0.95)
    696
    """
    from scipy.special import ndtri

    reach, usual = float(ndtri(0.5 + confidence / 2.0)), float(ndtri(0.9))

    def judges(n: int) -> bool:
        seen = min(0.5 + usual * math.sqrt((2.0 * n + 1.0) / 12.0) / n, 1.0)
        upper = 1.0 - _newcombe(1.0 - seen, n, n, reach)
        return upper <= limit < _newcombe(1.0, n, n, reach)

    low, high = 0, 1
    while limit > 0.5 and high <= _MOST and not judges(high):
        low, high = high, 2 * high
    if limit <= 0.5 or high > _MOST:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if judges(middle) else (middle, high)
    return high


def rates_row(rates: Mapping[float, Estimate]) -> dict[str, float]:
    """True positive rates by their false positive rates, as columns with their intervals."""
    row: dict[str, float] = {}
    for fpr, tpr in rates.items():
        name = f"tpr_at_fpr_{fpr:g}"
        row |= {name: tpr.value, f"{name}_lower": tpr.lower, f"{name}_upper": tpr.upper}
    return row


def too_coarse(asked: float, reached: float) -> bool:
    """Whether scores have too many ties to be judged at a false positive rate.

    The rate that is reached is at most half of the one that was asked for: the next threshold is
    of a rate above that. Scores without ties reach more than half.
    """
    return 2 * reached <= asked


def check_rate(fpr: float, nonmembers: int) -> None:
    """An EstimationError if a false positive rate is less than one non-member, or above 1."""
    if not 1.0 / nonmembers <= fpr <= 1.0:
        raise EstimationError(
            f"a false positive rate of {fpr:g} cannot be seen with {nonmembers} non-members",
            cure=f"ask for {1.0 / nonmembers:.3g} to 1, or bring more non-members",
            where="tpr_at_fpr",
        )


def balanced_accuracy(guess: ArrayLike, member: ArrayLike, *, confidence: float = 0.95) -> Estimate:
    """Mean of the shares of members and of non-members that are guessed right.

    `guess` and `member` are array_like of bool of shape (samples,). It is the accuracy where a
    sample is as likely a member as not, whatever the numbers of both. The interval is
    `difference_interval` of the two positive rates. Raises EstimationError as `roc`.
    """
    check_confidence(confidence, "balanced_accuracy")
    called, flags = scored_members(guess, member, "balanced_accuracy")
    inside = called.astype(np.bool_)
    members, nonmembers = int(flags.sum()), int((~flags).sum())
    hits, false = int(inside[flags].sum()), int(inside[~flags].sum())
    low, high = difference_interval(hits, members, false, nonmembers, confidence=confidence)
    value = (hits / members + 1.0 - false / nonmembers) / 2.0
    return Estimate(value, (1.0 + low) / 2.0, (1.0 + high) / 2.0)


def scored_members(
    scores: ArrayLike, member: ArrayLike, where: str
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Scores and flags of samples of both kinds, or an EstimationError."""
    values = real_array(scores, "scores", where, cure="give one per sample")
    flags = real_array(member, "member", where, cure="give one per sample, true or false")
    if values.ndim != 1 or values.shape != flags.shape:
        raise EstimationError(
            f"scores of shape {values.shape} for members of shape {flags.shape}",
            cure="give one score and one flag for each sample",
            where=where,
        )
    missing = int(np.isnan(values).sum())
    if missing:
        raise EstimationError(
            f"{missing} of {len(values)} scores are NaN",
            cure="leave out samples that have no score",
            where=where,
        )
    inside = flags == 1
    if not ((flags == 0) | inside).all():
        raise EstimationError(
            "member must hold true and false, or 1 and 0", cure="mark each sample", where=where
        )
    if inside.all() or not inside.any():
        raise EstimationError(
            f"all {len(inside)} samples are {'members' if inside.any() else 'non-members'}",
            cure="give samples of both kinds",
            where=where,
        )
    return values, inside


def _variance(shares: NDArray[np.float64], weights: NDArray[np.float64], total: int) -> float:
    """Variance of a mean over `total` samples that have these values so often."""
    mean = float(weights @ shares) / total
    if total == 1:  # nothing is known of its variance; this is the most there can be
        return max(mean * (1.0 - mean), 0.0)
    return float(weights @ (shares - mean) ** 2) / (total - 1) / total


def _newcombe(area: float, members: int, nonmembers: int, reach: float) -> float:
    """The least area whose own standard error, times `reach`, reaches up to the one seen."""
    more = (members + nonmembers) / 2.0 - 1.0

    def too_low(true: float) -> bool:
        spread = 1.0 + more * ((1.0 - true) / (2.0 - true) + true / (1.0 + true))
        error = math.sqrt(true * (1.0 - true) * spread / (members * nonmembers))
        return area - true - reach * error > 0.0

    return halved(too_low, 0.0, area, steps=50)[0]
