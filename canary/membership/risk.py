"""Privacy risk scores: the chance that a sample is a member, given what the model says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from canary.errors import EstimationError
from canary.membership.metric import shadow_samples
from canary.signals.table import SignalTable

__all__ = ["Reliability", "RiskScores", "Scale", "reliability", "risk_scores"]

Scale = Literal["log", "linear"]

_SIGNAL = "modified-entropy"
_LEAST = 1e-10


@dataclass(frozen=True, eq=False)
class RiskScores:
    """The privacy risk score of each sample of a target.

    Parameters
    ----------
    scores : ndarray of float64 of shape (samples,)
        From 0 to 1: posterior probability of being a member.
    prior : float
        Probability of being a member before anything is known.
    bins : int
    scale : {"log", "linear"}
    pooled : ndarray of bool of shape (classes,)
        Classes of too few shadow samples, which use the histogram of all classes.
    """

    scores: NDArray[np.float64]
    prior: float
    bins: int
    scale: Scale
    pooled: NDArray[np.bool_]


def risk_scores(
    table: SignalTable,
    *,
    shadow: SignalTable | None = None,
    target: int = 0,
    prior: float = 0.5,
    bins: int = 5,
    scale: Scale = "log",
    least: int = 10,
) -> RiskScores:
    """The privacy risk score of every sample, by histograms of a shadow's modified entropy.

    Parameters
    ----------
    table : SignalTable
    shadow : SignalTable, optional
        As in `canary.attack`.
    target : int
    prior : float
        Between 0 and 1.
    bins : int
        Of the histogram of a class, besides one for infinity.
    scale : {"log", "linear"}
        Bins of equal width in the logarithm, or in the modified entropy itself.
    least : int
        Members and nonmembers that a class needs for a histogram of its own.

    Returns
    -------
    RiskScores

    Raises
    ------
    InputError
        As `canary.attack`.
    EstimationError
        If an option is out of range, or the shadow has no members or no nonmembers.

    Notes
    -----
    With ``a`` and ``b`` the shares of the shadow's members and nonmembers of class ``y``
    that fall in the bin of the sample's modified entropy (equation 15 of [1]_), the score
    is ``prior a / (prior a + (1 - prior) b)`` (equation 12).

    The bins of a class span its finite shadow values. What lies outside belongs to the
    nearest of them, and infinity to a bin of its own. On the logarithmic scale values
    below 1e-10 count as that. A bin without any shadow sample takes the shares of the
    nearest bin that has one; of two as near, of the lower. O(samples + classes bins).

    References
    ----------
    .. [1] Song and Mittal, Systematic Evaluation of Privacy Risks of Machine Learning
       Models, USENIX Security 2021, section 4.1.
    """
    _check_options(prior, bins, scale, least)
    values, member, label = shadow_samples(table, _SIGNAL, shadow=shadow, target=target)
    if member.all() or not member.any():
        raise EstimationError(
            f"all {len(member)} shadow samples are of one kind",
            cure="give members and nonmembers of the shadow model",
            where="risk_scores",
        )
    classes = table.classes
    members = np.bincount(label[member], minlength=classes)
    pooled = np.minimum(members, np.bincount(label, minlength=classes) - members) < least
    # The histogram behind those of the classes is the one of them all.
    home = np.where(pooled, classes, np.arange(classes))
    logs, queries = (_scaled(v, scale) for v in (values, table.signal(_SIGNAL)[target]))
    low, high = _ends(logs, label, classes)
    shares = np.zeros((2, classes + 1, bins + 1))
    for kind, chosen in enumerate((~member, member)):
        of = label[chosen]
        for rows in (of, np.full(len(of), classes)):
            at = _bin(logs[chosen], rows, low, high, bins)
            flat = np.bincount(rows * (bins + 1) + at, minlength=(classes + 1) * (bins + 1))
            shares[kind] += flat.reshape(classes + 1, bins + 1)
    filled = shares.sum(axis=0) > 0
    shares /= np.maximum(shares.sum(axis=2, keepdims=True), 1.0)
    shares = np.take_along_axis(shares, _nearest(filled)[None], axis=2)
    inside, outside = prior * shares[1], (1.0 - prior) * shares[0]
    with np.errstate(invalid="ignore"):  # histograms that no sample uses
        posterior = inside / (inside + outside)
    rows = home[table.label]
    scores = posterior[rows, _bin(queries, rows, low, high, bins)]
    return RiskScores(scores, prior, bins, scale, pooled)


@dataclass(frozen=True, eq=False)
class Reliability:
    """Risk scores beside the share of members among samples of such scores.

    Parameters
    ----------
    score, share : ndarray of float64 of shape (bins,)
        Mean score, and share of members weighted to the prior; bins without samples are
        left out.
    members, nonmembers : ndarray of int64 of shape (bins,)
    rmse : float
        Root of the mean of ``(score - share)^2`` over the bins.
    calibration_error : float
        Mean of ``|score - share|`` over the samples, weighted to the prior.
    """

    score: NDArray[np.float64]
    share: NDArray[np.float64]
    members: NDArray[np.int64]
    nonmembers: NDArray[np.int64]
    rmse: float
    calibration_error: float


def reliability(risks: RiskScores, member: NDArray[np.bool_], *, bins: int = 10) -> Reliability:
    """Whether samples of a score are members as often as it says.

    Song and Mittal, section 4.2.1. Members and nonmembers are weighted so that the share
    of members is the prior of the scores.

    Parameters
    ----------
    risks : RiskScores
    member : ndarray of bool of shape (samples,)
        Of both kinds.
    bins : int
        Of equal width from 0 to 1.
    """
    at = np.minimum((risks.scores * bins).astype(np.int64), bins - 1)
    inside = np.bincount(at[member], minlength=bins)
    outside = np.bincount(at[~member], minlength=bins)
    weigh_in = risks.prior / inside.sum()
    weigh_out = (1.0 - risks.prior) / outside.sum()
    weight = weigh_in * inside + weigh_out * outside
    there = weight > 0
    weights = np.where(member, weigh_in, weigh_out)
    mean = np.bincount(at, weights * risks.scores, minlength=bins)[there] / weight[there]
    share = (weigh_in * inside)[there] / weight[there]
    off = np.abs(mean - share)
    return Reliability(
        mean,
        share,
        inside[there],
        outside[there],
        float(np.sqrt(np.mean(off**2))),
        float(weight[there] @ off),
    )


def _check_options(prior: float, bins: int, scale: Scale, least: int) -> None:
    where = "risk_scores"
    if not 0.0 < prior < 1.0:
        raise EstimationError(
            f"prior must lie between 0 and 1, got {prior!r}",
            cure="0.5 says that members are as common as nonmembers",
            where=where,
        )
    if bins < 1 or least < 1:
        raise EstimationError(
            f"bins and least must be 1 or more, got {bins} and {least}",
            cure="5 bins and 10 samples are usual",
            where=where,
        )
    if scale not in ("log", "linear"):
        raise EstimationError(
            f"there is no scale {scale!r}", cure='say "log" or "linear"', where=where
        )


def _scaled(values: NDArray[np.float64], scale: Scale) -> NDArray[np.float64]:
    return np.log(np.maximum(values, _LEAST)) if scale == "log" else values


def _ends(
    values: NDArray[np.float64], label: NDArray[np.int64], classes: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Least and largest finite value of each class, and of all behind them."""
    finite = np.isfinite(values)
    low, high = np.full(classes + 1, np.inf), np.full(classes + 1, -np.inf)
    np.minimum.at(low, label[finite], values[finite])
    np.maximum.at(high, label[finite], values[finite])
    low[classes], high[classes] = low.min(), high.max()
    none = ~np.isfinite(low)
    low[none] = high[none] = 0.0
    return low, high


def _bin(
    values: NDArray[np.float64],
    rows: NDArray[np.int64],
    low: NDArray[np.float64],
    high: NDArray[np.float64],
    bins: int,
) -> NDArray[np.int64]:
    """The bin of each value in the histogram of its row; `bins` for infinity."""
    width = high - low
    steps = bins / np.where(width > 0, width, np.inf)
    finite = values < np.inf
    place = (np.where(finite, values, 0.0) - low[rows]) * steps[rows]
    return np.where(finite, np.clip(place, 0, bins - 1), bins).astype(np.int64)


def _nearest(filled: NDArray[np.bool_]) -> NDArray[np.int64]:
    """For each bin the nearest one of its row with samples, itself if it has any."""
    places = np.arange(filled.shape[1])
    distance = np.abs(places[:, None] - places[None, :])[None] + np.where(
        filled[:, None, :], 0, 2 * len(places)
    )
    return np.asarray(distance.argmin(axis=2), np.int64)
