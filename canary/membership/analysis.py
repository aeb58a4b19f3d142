"""What risk scores are worth as guesses, and why samples are at risk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from canary.errors import EstimationError, InputError
from canary.membership.risk import LEAST_ENTROPY, RISK_SIGNAL, RiskScores
from canary.signals.signal_table import SignalTable
from canary.statistics.distances import Correlation, correlation, differ_enough
from canary.statistics.number_checks import check_confidence, check_prior, real_array
from canary.statistics.numbers import Shown, count, percent_of
from canary.statistics.roc import Estimate, scored_members
from canary.statistics.shares import clopper_pearson

Floats = NDArray[np.float64]

RISK_THRESHOLDS = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5)
"""Thresholds on risk scores in table 6 of Song and Mittal (USENIX Security 2021)."""

OF_SCORES = "Of the samples with a risk score"  # how the note of `overstated` begins
HIGH_RISK = 0.9

PRIORS = (0.1, 0.3, 0.5, 0.7, 0.9)
"""Priors in appendix B of Song and Mittal."""

_LEAST_OF_CLASS = 10
_NUMBERS = 1 << 24


@dataclass(frozen=True)
class Guesses:
    """What comes of calling samples of a score from a threshold on members.

    `precision` is None where no sample is called a member.
    """

    threshold: float
    true_positives: int
    false_positives: int
    precision: Estimate | None
    recall: Estimate


def precision_recall(
    scores: RiskScores | ArrayLike,
    member: ArrayLike,
    thresholds: Sequence[float] = RISK_THRESHOLDS,
    *,
    prior: float | None = None,
    confidence: float = 0.95,
) -> list[Guesses]:
    """Precision and recall of guessing "member" from each threshold on, in their order.

    Parameters
    ----------
    scores : RiskScores, or array_like of shape (samples,)
        Higher for what looks like a member.
    member : array_like of bool of shape (samples,)
    thresholds : sequence of float
    prior : float, optional
        How common members are where guesses are made, on which precision depends. Unless
        given, that of the risk scores; for other scores, as common as among these samples.
    confidence : float
        Of intervals of Clopper and Pearson. Fix thresholds beforehand, or they flatter.

    Examples
    --------
    >>> found = precision_recall([0.9, 0.8, 0.6, 0.1], [1, 0, 1, 0], [0.8, 0.5])
    >>> [one.precision.value for one in found], [one.recall.value for one in found]
    ([0.5, 0.6666666666666666], [0.5, 1.0])
    """
    where = "precision_recall"
    check_confidence(confidence, where)
    own = scores.scores if isinstance(scores, RiskScores) else scores
    values, flags = scored_members(own, member, where)
    cuts = real_array(thresholds, "thresholds", where, cure="give one number for each")
    if cuts.ndim != 1 or np.isnan(cuts).any():
        raise EstimationError(
            "thresholds must be numbers, and none NaN", cure="0.9 is one", where=where
        )
    if prior is None and isinstance(scores, RiskScores):
        prior = scores.prior
    if prior is not None:
        check_prior(prior, where)
    members, nonmembers = int(flags.sum()), int((~flags).sum())
    factor = 1.0 if prior is None else prior / (1.0 - prior) * (nonmembers / members)

    def share_of(hits: int, called: int, factor: float) -> Estimate:
        """A share with its interval, its odds multiplied."""
        shares = hits / called, *map(float, clopper_pearson(hits, called, (1.0 - confidence) / 2.0))
        if factor == 1.0:
            return Estimate(*shares)
        return Estimate(*(factor * share / (factor * share + 1.0 - share) for share in shares))

    inside, outside = np.sort(values[flags]), np.sort(values[~flags])
    guesses = []
    for cut in cuts:
        hits = members - int(np.searchsorted(inside, cut))
        false = nonmembers - int(np.searchsorted(outside, cut))
        precision = share_of(hits, hits + false, factor) if hits + false else None
        guesses.append(Guesses(float(cut), hits, false, precision, share_of(hits, members, 1.0)))
    return guesses


def overstated(risks: RiskScores, member: ArrayLike, *, confidence: float = 0.95) -> list[str]:
    """A note if fewer samples of a score of `HIGH_RISK` or more are members than it says."""
    (found,) = precision_recall(risks, member, [HIGH_RISK], confidence=confidence)
    right = found.precision
    if right is None or right.upper >= HIGH_RISK:
        return []
    return [
        f"{OF_SCORES} of {HIGH_RISK:g} or more, {percent_of(right.value)} "
        f"({100 * right.lower:.1f} to {100 * right.upper:.1f}) were in the training data: such "
        "scores are too high. Do not use them as probabilities"
    ]


def risk_at(risks: RiskScores, prior: float) -> Floats:
    """Risk scores at another prior, of shape (samples,).

    The odds are those of the prior times the ratio of the two likelihoods (equation 12 of Song
    and Mittal), which is the same at all priors.
    """
    check_prior(prior, "risk_at")
    factor = prior / (1.0 - prior) * (1.0 - risks.prior) / risks.prior
    r = risks.scores
    return np.asarray(factor * r / (factor * r + 1.0 - r))


@dataclass(frozen=True)
class Leakage:
    """How much the scores of members rise above a prior.

    `leakage` is their mean less the prior, `above` the share of members with scores above it.
    """

    prior: float
    leakage: Estimate
    above: float


def leakage(
    risks: RiskScores,
    member: ArrayLike,
    priors: Sequence[float] = PRIORS,
    *,
    confidence: float = 0.95,
) -> list[Leakage]:
    """How far members' risk scores are above the prior, at several priors, in their order.

    The distance of appendix B of Song and Mittal, with a normal interval.
    """
    from scipy.special import ndtri

    where = "leakage"
    check_confidence(confidence, where)
    _, flags = scored_members(risks.scores, member, where)
    z = float(ndtri(0.5 + confidence / 2.0))
    leaks = []
    for prior in priors:
        rise = risk_at(risks, prior)[flags] - prior
        mean = float(rise.mean())
        # Of a single member nothing is known but that it lies within a length of 1.
        spread = float(rise.std(ddof=1)) if len(rise) > 1 else 0.5
        half = z * spread / len(rise) ** 0.5
        ends = max(mean - half, -prior), min(mean + half, 1.0 - prior)
        leaks.append(Leakage(prior, Estimate(mean, *ends), float((rise > 0).mean())))
    return leaks


@dataclass(frozen=True, eq=False, repr=False)
class ClassRisks(Shown):
    """Mean risk of members beside the generalization error, by rising error; of shape (k,).

    `classes` are those with enough members and non-members; `error` is the accuracy on the members
    less that on the non-members.
    """

    classes: NDArray[np.int64]
    error: Floats
    risk: Floats
    correlation: Correlation

    def summary(self) -> str:
        """The rank correlation, and the class that generalizes worst."""
        rank, number = self.correlation.rank, count(self.correlation.count)
        return (
            f"Over {number} classes the mean risk of the members and the generalization error have "
            f"a rank correlation of {rank.value:.2f} ({rank.lower:.2f} to {rank.upper:.2f}). Class "
            f"{self.classes[-1]} generalizes worst: its error is {percent_of(self.error[-1])}, and "
            f"the mean risk of its members is {self.risk[-1]:.2f}."
        )

    def _table(self) -> dict[str, Any]:
        return {"class": self.classes, "generalization_error": self.error, "mean_risk": self.risk}


def class_risks(
    table: SignalTable,
    risks: RiskScores,
    *,
    target: int = 0,
    least: int = _LEAST_OF_CLASS,
    confidence: float = 0.95,
) -> ClassRisks:
    """Whether classes that generalize badly are those at risk.

    Figure 8 of Song and Mittal, section 4.2.4.

    Parameters
    ----------
    table : SignalTable
        With the signal ``correctness``.
    risks : RiskScores
        Of the same samples.
    target : int
        The row of the model in `table`.
    least : int
        Members and non-members that a class needs to be counted.
    confidence : float
        Of the interval of the correlation, which speaks of further classes like these.

    Raises
    ------
    InputError, EstimationError
        If the scores are of other samples; if fewer than four classes are left, or do not differ.
    """
    classes, error, risk = _of_classes(table, risks, target, least)
    return ClassRisks(classes, error, risk, correlation(error, risk, confidence=confidence))


def possible_class_risks(
    table: SignalTable, risks: RiskScores, *, confidence: float = 0.95
) -> ClassRisks | None:
    """`class_risks`, or None where there are too few classes, or nothing differs among them."""
    check_confidence(confidence, "possible_class_risks")
    if "correctness" not in table.values:
        return None
    _, error, risk = _of_classes(table, risks, 0, _LEAST_OF_CLASS)
    return class_risks(table, risks, confidence=confidence) if differ_enough(error, risk) else None


def _of_classes(
    table: SignalTable, risks: RiskScores, target: int, least: int
) -> tuple[NDArray[np.int64], Floats, Floats]:
    """Classes, generalization errors and mean risks, by rising error."""
    _same_samples(len(risks.scores), table.samples, "class_risks")
    right, member = table.signal("correctness")[target], table.member[target]
    label, k = table.label, table.classes
    inside = np.bincount(label[member], minlength=k)
    outside = np.bincount(label[~member], minlength=k)
    there = np.flatnonzero(np.minimum(inside, outside) >= max(least, 1))
    trained = np.bincount(label[member], right[member], k)[there] / inside[there]
    tested = np.bincount(label[~member], right[~member], k)[there] / outside[there]
    error = trained - tested
    risk = np.bincount(label[member], risks.scores[member], k)[there] / inside[there]
    order = np.argsort(error, kind="stable")
    return there[order], error[order], risk[order]


def sensitivity(table: SignalTable, *, target: int = 0) -> Floats:
    """How much a model's modified entropy of a sample depends on having been trained on it.

    Song and Mittal, section 4.2.4, with one retrained model for each sample. Retraining differs by
    its seed as well: the mean over several models shows less of that. `target` is the row of the
    model with all members; the others were trained alike without some of them, or it is an
    InputError.

    Returns
    -------
    ndarray of float64 of shape (samples,)
        Mean over the models without sample z of ``log(Mentr(without z) / Mentr(with z))``,
        in nats; NaN for non-members of the target, and for members that no model lacks.
    """
    others = np.arange(table.models) != target
    lacking = ~table.member & table.member[target] & others[:, None]
    if not lacking.any():
        raise InputError(
            f"of {table.models} models none lacks a member of model {target}",
            cure="give the outputs of models that were trained without some of its members",
            where=table.source,
        )
    logs = np.log(np.maximum(table.signal(RISK_SIGNAL), LEAST_ENTROPY))
    with np.errstate(invalid="ignore"):
        gain = np.where(logs == logs[target], 0.0, logs - logs[target])
    count = lacking.sum(axis=0)
    total = np.where(lacking, gain, 0.0).sum(axis=0)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


@dataclass(frozen=True)
class RiskBand:
    """Quartiles and mean of a number of the `count` samples with risk from `low` to below `high`.

    The last band holds 1.
    """

    low: float
    high: float
    count: int
    first_quartile: float
    mean: float
    third_quartile: float


def by_risk(risks: RiskScores, values: ArrayLike, *, bands: int = 10) -> list[RiskBand]:
    """Quartiles and mean of a number of the samples, by risk score in `bands` of equal width.

    Figure 7 of Song and Mittal, where the values are sensitivities.

    Parameters
    ----------
    risks : RiskScores
    values : array_like of float of shape (samples,)
        Samples whose value is NaN are left out.
    bands : int
        Those without a sample are left out.
    """
    numbers = real_array(values, "values", "by_risk", cure="give one for each sample")
    _same_samples(len(numbers), len(risks.scores), "by_risk")
    band_of = np.minimum((risks.scores * bands).astype(np.int64), bands - 1)
    found = []
    for band in range(bands):
        here = numbers[(band_of == band) & ~np.isnan(numbers)]
        if len(here):
            low, high = map(float, np.percentile(here, [25, 75]))
            ends = band / bands, (band + 1) / bands
            found.append(RiskBand(*ends, len(here), low, float(here.mean()), high))
    return found


@dataclass(frozen=True, eq=False)
class FeatureDistances:
    """Euclidean distances of shape (samples,) to the nearest of a class, and their mean, or NaN."""

    nearest: Floats
    mean: Floats


def feature_distances(
    features: ArrayLike, label: ArrayLike, *, among: ArrayLike | None = None
) -> FeatureDistances:
    """Distances of each sample from others of its class. O(samples samples_of_class features).

    Figure 9 of Song and Mittal in numbers: classes at risk are those whose test samples are
    elsewhere than their members.

    Parameters
    ----------
    features : array_like of float of shape (samples, features)
        Finite, such as the outputs of the last hidden layer.
    label : array_like of int of shape (samples,)
    among : array_like of bool of shape (samples,), optional
        The samples to which distances are taken; all unless given. None is its own neighbour.
    """
    from scipy.spatial.distance import cdist

    where = "feature_distances"
    points = real_array(features, "features", where, cure="give a row for each sample")
    labels = np.asarray(label)
    chosen = np.ones(len(labels), np.bool_) if among is None else np.asarray(among)
    if points.ndim != 2 or labels.shape != (len(points),) or chosen.shape != labels.shape:
        raise InputError(
            f"features of shape {points.shape}, labels of {labels.shape} and a choice of "
            f"{chosen.shape}",
            cure="give features of shape (samples, features), and a label for each sample",
            where=where,
        )
    if not np.isfinite(points).all():
        raise InputError("a feature is NaN or infinite", cure="leave such samples out", where=where)
    nearest, mean = np.full((2, len(points)), np.nan)
    for value in np.unique(labels):
        rows = np.flatnonzero(labels == value)
        columns = rows[chosen.astype(np.bool_)[rows]]
        step = max(_NUMBERS // max(len(columns), 1), 1)
        for part in (rows[at : at + step] for at in range(0, len(rows), step)):
            distance = cdist(points[part], points[columns])
            own = part[:, None] == columns[None, :]
            others = len(columns) - own.sum(axis=1)
            there = others > 0
            total = distance.sum(axis=1)  # its own distance is 0
            distance[own] = np.inf
            nearest[part[there]] = distance.min(axis=1, initial=np.inf)[there]
            mean[part[there]] = (total / np.maximum(others, 1))[there]
    return FeatureDistances(nearest, mean)


def _same_samples(given: int, expected: int, where: str) -> None:
    if given != expected:
        raise InputError(
            f"numbers of {given} samples for {expected}",
            cure="give those of the same samples, in the same order",
            where=where,
        )
