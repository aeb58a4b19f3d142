"""Why samples are at risk: generalization error, sensitivity of the model, feature space."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from canary.errors import InputError
from canary.membership.risk import RISK_SIGNAL, RiskScores
from canary.signals.signal_table import SignalTable
from canary.statistics.distances import Correlation, correlation, differ_enough
from canary.statistics.number_checks import check_confidence, real_array

_LEAST = 1e-10
_LEAST_OF_CLASS = 10
_NUMBERS = 1 << 24


@dataclass(frozen=True, eq=False)
class ClassRisks:
    """Mean risk of members beside the generalization error, class by class.

    Parameters
    ----------
    classes : ndarray of int64 of shape (k,)
        Those with enough members and nonmembers, by rising generalization error.
    error : ndarray of float64 of shape (k,)
        Accuracy on the members less that on the nonmembers.
    risk : ndarray of float64 of shape (k,)
        Mean risk score of the members.
    correlation : Correlation
    """

    classes: NDArray[np.int64]
    error: NDArray[np.float64]
    risk: NDArray[np.float64]
    correlation: Correlation


@dataclass(frozen=True)
class RiskBand:
    """A number of the samples whose risk scores are alike.

    Parameters
    ----------
    low, high : float
        Risk scores from `low` up to and without `high`; the last band holds 1.
    count : int
    first_quartile, mean, third_quartile : float
    """

    low: float
    high: float
    count: int
    first_quartile: float
    mean: float
    third_quartile: float


@dataclass(frozen=True, eq=False)
class FeatureDistances:
    """How far each sample lies from others of its class, in the space of features.

    Parameters
    ----------
    nearest, mean : ndarray of float64 of shape (samples,)
        Euclidean distance to the nearest of them, and the mean distance; NaN where there is
        no other.
    """

    nearest: NDArray[np.float64]
    mean: NDArray[np.float64]


def class_risks(
    table: SignalTable,
    risks: RiskScores,
    *,
    target: int = 0,
    least: int = _LEAST_OF_CLASS,
    confidence: float = 0.95,
) -> ClassRisks:
    """Whether classes that generalize badly are those at risk.

    Figure 8 of Song and Mittal (USENIX Security 2021), section 4.2.4, which gives the linear
    correlation. The interval speaks of further classes like these.

    Parameters
    ----------
    table : SignalTable
        With the signal ``correctness``.
    risks : RiskScores
        Of the samples of `table`.
    target : int
        Its row.
    least : int
        Members and nonmembers that a class needs to be counted.
    confidence : float

    Raises
    ------
    InputError
        If the scores are of other samples.
    EstimationError
        If fewer than four classes are left, or their numbers do not differ.
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
    classes, error, risk = _of_classes(table, risks, 0, _LEAST_OF_CLASS)
    if not differ_enough(error, risk):
        return None
    return ClassRisks(classes, error, risk, correlation(error, risk, confidence=confidence))


def _of_classes(
    table: SignalTable, risks: RiskScores, target: int, least: int
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
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


def sensitivity(table: SignalTable, *, target: int = 0) -> NDArray[np.float64]:
    """How much a model's modified entropy of a sample hangs on having been trained on it.

    Song and Mittal (USENIX Security 2021), section 4.2.4, with one retrained model for each sample.
    Retraining differs by its seed as well: the mean over several models shows less of that.

    Parameters
    ----------
    table : SignalTable
        The target, and models that were trained alike without some of its members.
    target : int
        The row of the model with all members.

    Returns
    -------
    ndarray of float64 of shape (samples,)
        Mean over the models without sample z of ``log(Mentr(without z) / Mentr(with z))``,
        in nats; NaN for nonmembers of the target, and for members that no model lacks.

    Raises
    ------
    InputError
        If there is no other model, or none lacks a member.
    """
    others = np.arange(table.models) != target
    lacking = ~table.member & table.member[target] & others[:, None]
    if not lacking.any():
        raise InputError(
            f"of {table.models} models none lacks a member of model {target}",
            cure="give the outputs of models that were trained without some of its members",
            where=table.source,
        )
    logs = np.log(np.maximum(table.signal(RISK_SIGNAL), _LEAST))
    with np.errstate(invalid="ignore"):
        gain = np.where(logs == logs[target], 0.0, logs - logs[target])
    count = lacking.sum(axis=0)
    total = np.where(lacking, gain, 0.0).sum(axis=0)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def by_risk(risks: RiskScores, values: ArrayLike, *, bands: int = 10) -> list[RiskBand]:
    """Quartiles and mean of a number of the samples, by risk score.

    Figure 7 of Song and Mittal (section 4.2.4), where the values are sensitivities.

    Parameters
    ----------
    risks : RiskScores
    values : array_like of shape (samples,)
        NaN for samples that have none, which are left out.
    bands : int
        Of equal width from 0 to 1; empty ones are left out.
    """
    held = real_array(values, "values", "by_risk", cure="give one for each sample")
    _same_samples(len(held), len(risks.scores), "by_risk")
    at = np.minimum((risks.scores * bands).astype(np.int64), bands - 1)
    found = []
    for band in range(bands):
        here = held[(at == band) & ~np.isnan(held)]
        if len(here):
            low, high = np.percentile(here, [25, 75])
            found.append(
                RiskBand(
                    band / bands,
                    (band + 1) / bands,
                    len(here),
                    float(low),
                    float(here.mean()),
                    float(high),
                )
            )
    return found


def feature_distances(
    features: ArrayLike, label: ArrayLike, *, among: ArrayLike | None = None
) -> FeatureDistances:
    """Distances of each sample from others of its class. O(samples samples_of_class features).

    Numbers in the place of the drawings of figure 9 of Song and Mittal, which show that classes at
    risk are those whose test samples are elsewhere than their members.

    Parameters
    ----------
    features : array_like of shape (samples, features)
        Such as the outputs of the last hidden layer; finite.
    label : array_like of int of shape (samples,)
    among : array_like of bool of shape (samples,), optional
        Samples to which distances are taken; all unless given. None is its own neighbour.
    """
    from scipy.spatial.distance import cdist

    where = "feature_distances"
    points = real_array(features, "features", where, cure="give a row for each sample")
    labels = np.asarray(label)
    given = np.ones(len(labels), np.bool_) if among is None else np.asarray(among)
    if points.ndim != 2 or labels.shape != (len(points),) or given.shape != labels.shape:
        raise InputError(
            f"features of shape {points.shape}, labels of {labels.shape} and a choice of "
            f"{given.shape}",
            cure="give features of shape (samples, features), and a label for each sample",
            where=where,
        )
    if not np.isfinite(points).all():
        raise InputError("a feature is NaN or infinite", cure="leave such samples out", where=where)
    chosen = given.astype(np.bool_)
    nearest, mean = np.full(len(points), np.nan), np.full(len(points), np.nan)
    for one in np.unique(labels):
        rows = np.flatnonzero(labels == one)
        columns = rows[chosen[rows]]
        if not len(columns):
            continue
        step = max(_NUMBERS // len(columns), 1)
        for part in (rows[at : at + step] for at in range(0, len(rows), step)):
            distance = cdist(points[part], points[columns])
            own = part[:, None] == columns[None, :]
            others = len(columns) - own.sum(axis=1)
            there = others > 0
            total = distance.sum(axis=1)  # its own distance is 0
            distance[own] = np.inf
            nearest[part[there]] = distance.min(axis=1)[there]
            mean[part[there]] = (total / np.maximum(others, 1))[there]
    return FeatureDistances(nearest, mean)


def _same_samples(given: int, expected: int, where: str) -> None:
    if given != expected:
        raise InputError(
            f"numbers of {given} samples for {expected}",
            cure="give those of the same samples, in the same order",
            where=where,
        )
