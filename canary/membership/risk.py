"""Privacy risk scores: the chance that a sample is a member, given what the model says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from canary.errors import EstimationError
from canary.membership.densities import Known, by_histograms, by_kernels
from canary.membership.shadows import shadow_samples
from canary.signals.signal_table import SignalTable
from canary.statistics.number_checks import check_confidence, positive_integer
from canary.statistics.roc import Estimate, scored_members

Scale = Literal["log", "linear"]

BINS = 5
"""Of the histogram of a class, unless others are asked for."""

RISK_SIGNAL = "modified-entropy"
"""The signal whose distribution tells the risk."""

_LEAST = 1e-10
_DRAWS = 10_000
_CELLS = 1 << 23
"""Most bins of all histograms together: about half a gigabyte while they are filled."""


@dataclass(frozen=True, eq=False)
class RiskScores:
    """The privacy risk score of each sample of a target.

    Parameters
    ----------
    scores : ndarray of float64 of shape (samples,)
        From 0 to 1: posterior probability of being a member.
    prior : float
        Probability of being a member before anything is known.
    bins : int or None
        None for the smoothed estimate.
    scale : {"log", "linear"}
    pooled : ndarray of bool of shape (classes,)
        Classes of too few shadow samples, which use the histogram of all classes.
    """

    scores: NDArray[np.float64]
    prior: float
    bins: int | None
    scale: Scale
    pooled: NDArray[np.bool_]


def risk_scores(
    table: SignalTable,
    *,
    shadow: SignalTable | None = None,
    target: int = 0,
    prior: float = 0.5,
    bins: int | None = None,
    scale: Scale = "log",
    least: int = 10,
    smooth: bool = False,
) -> RiskScores:
    """The privacy risk score of every sample, by a shadow's modified entropy.

    Parameters
    ----------
    table : SignalTable
    shadow : SignalTable, optional
        As in `canary.attack`.
    target : int
    prior : float
        Between 0 and 1.
    bins : int, optional
        Of the histogram of a class, besides one for infinity; with the classes at most about
        eight million in all. 5 unless given.
    scale : {"log", "linear"}
        Bins of equal width, or a kernel of one width, in the logarithm or in the modified entropy
        itself.
    least : int
        Members and nonmembers that a class needs for a histogram or densities of its own.
    smooth : bool
        Kernel densities in place of histograms.

    Returns
    -------
    RiskScores

    Raises
    ------
    InputError
        As `canary.attack`.
    EstimationError
        If an option is out of range, bins are given for a smoothed estimate, or the shadow has
        no members or no nonmembers.

    Notes
    -----
    With ``a`` and ``b`` the shares of the shadow's members and nonmembers of class ``y``
    that fall in the bin of the sample's modified entropy (equation 15 of [1]_), or their
    densities there, the score is ``prior a / (prior a + (1 - prior) b)`` (equation 12).

    The bins of a class span its finite shadow values. What is outside belongs to the
    nearest of them, and infinity to a bin of its own. On the logarithmic scale values
    below 1e-10 count as that. A bin without any shadow sample takes the shares of the
    nearest bin that has one; of two as near, of the lower. O(samples + classes bins).

    Densities have a Gaussian kernel of one width for both kinds, so that the score is a weighted
    share of members among the samples nearby: Silverman's ``0.9 s n^(-1/5)``, with ``n`` the
    smaller number of the two kinds and ``s^2`` the mean of their squared spreads, each the
    smaller of standard deviation and quartile distance / 1.349. A hundredth of a sample of each
    kind is added everywhere, so that in a gap without any the score is the prior.

    References
    ----------
    .. [1] Song and Mittal, Systematic Evaluation of Privacy Risks of Machine Learning
       Models, USENIX Security 2021, section 4.1.
    """
    where = "risk scores"
    check_prior(prior, where)
    positive_integer(least, "least", where, cure="10 samples are usual")
    if scale not in ("log", "linear"):
        raise EstimationError(
            f"there is no scale {scale!r}", cure='say "log" or "linear"', where=where
        )
    if smooth and bins is not None:
        raise EstimationError(
            f"bins={bins} and smooth were both given, and smoothed risk scores have no bins",
            cure="leave one of them out (--bins, --smooth)",
            where=where,
        )
    made = BINS if bins is None else bins
    positive_integer(made, "bins", where, cure="5 bins are usual")
    most = _CELLS // (table.classes + 1) - 1
    if made > most:
        raise EstimationError(
            f"bins={made:,} for each of {table.classes:,} classes",
            cure=f"give at most {most:,}; 5 are usual, and more than samples tell nothing",
            where=where,
        )
    values, member, label = shadow_samples(table, RISK_SIGNAL, shadow=shadow, target=target)
    if member.all() or not member.any():
        raise EstimationError(
            f"all {len(member)} shadow samples are of one kind",
            cure="give members and nonmembers of the shadow model",
            where=where,
        )
    members = np.bincount(label[member], minlength=table.classes)
    both = np.minimum(members, np.bincount(label, minlength=table.classes) - members)
    pooled = both < least
    rows = np.where(pooled, table.classes, np.arange(table.classes))[table.label]
    queries = table.signal(RISK_SIGNAL)[target]
    if scale == "log":
        values, queries = (np.log(np.maximum(one, _LEAST)) for one in (values, queries))
    known = Known(values, member, label, table.classes)
    if smooth:
        return RiskScores(by_kernels(known, queries, rows, prior=prior), prior, None, scale, pooled)
    scores = by_histograms(known, queries, rows, prior=prior, bins=made)
    return RiskScores(scores, prior, made, scale, pooled)


@dataclass(frozen=True, eq=False)
class Reliability:
    """Scores beside the share of members among samples of such scores.

    Parameters
    ----------
    score, share : ndarray of float64 of shape (bins,)
        Mean score, and share of members weighted to the prior; bins without samples are
        left out.
    members, nonmembers : ndarray of int64 of shape (bins,)
    rmse : float
        Root of the mean of ``(score - share)^2`` over the bins.
    calibration_error : Estimate
        Mean of ``|score - share|`` over the samples, weighted to the prior.
    """

    score: NDArray[np.float64]
    share: NDArray[np.float64]
    members: NDArray[np.int64]
    nonmembers: NDArray[np.int64]
    rmse: float
    calibration_error: Estimate


def reliability(
    risks: RiskScores | ArrayLike,
    member: NDArray[np.bool_],
    *,
    prior: float | None = None,
    bins: int = 10,
    confidence: float = 0.95,
) -> Reliability:
    """Whether samples of a score are members as often as it says.

    Parameters
    ----------
    risks : RiskScores, or array_like of shape (samples,)
        Or any other scores from 0 to 1, such as the outputs of an attack network.
    member : ndarray of bool of shape (samples,)
        Of both kinds.
    prior : float, optional
        How common members are, where the scores are to hold. Unless given, that of the risk
        scores, or 0.5.
    bins : int
        Of equal width from 0 to 1.
    confidence : float

    Raises
    ------
    EstimationError
        If a score is not from 0 to 1, the shapes differ, all samples are of one kind, or an
        option is out of range.

    Notes
    -----
    Song and Mittal (USENIX Security 2021), section 4.2.1 and figure 3. The calibration error is
    ``sum_b |d_b|``, where ``d_b`` is the sum over bin b of weight times (score - member). With
    ``e`` the errors of ``d``, normal with the covariance of sampling members and nonmembers, ``sum
    |d + e| <= sum |d| + sum |e|``: the lower end takes the quantile of the last sum (from 10,000
    seeded draws) off. And ``sum |d| <= sum |d + e| - sum sign(d_b) e_b``: its variance is at most
    the sum of the uncentred second moments, which gives the upper end. To each kind's moments one
    sample is added in the middle of the bin, so that a bin of one kind is not taken for certain.
    """
    where = "reliability"
    check_confidence(confidence, where)
    positive_integer(bins, "bins", where, cure="10 bins are usual")
    held = risks.scores if isinstance(risks, RiskScores) else risks
    scores, flags = scored_members(held, member, where)
    if not ((scores >= 0.0) & (scores <= 1.0)).all():
        raise EstimationError(
            f"scores lie from {scores.min():g} to {scores.max():g}",
            cure="give probabilities of being a member, from 0 to 1",
            where=where,
        )
    if prior is None:
        prior = risks.prior if isinstance(risks, RiskScores) else 0.5
    check_prior(prior, where)
    at = np.minimum((scores * bins).astype(np.int64), bins - 1)
    inside = np.bincount(at[flags], minlength=bins)
    outside = np.bincount(at[~flags], minlength=bins)
    weigh_in = prior / inside.sum()
    weigh_out = (1.0 - prior) / outside.sum()
    weight = weigh_in * inside + weigh_out * outside
    there = weight > 0
    weights = np.where(flags, weigh_in, weigh_out)
    mean = np.bincount(at, weights * scores, minlength=bins)[there] / weight[there]
    share = (weigh_in * inside)[there] / weight[there]
    off = np.abs(mean - share)
    error = float(weight[there] @ off)
    kinds = ((flags, weigh_in, 1.0), (~flags, weigh_out, 0.0))
    moments = [
        _moments(scores[kind] - truth, at[kind], weigh, truth, there)
        for kind, weigh, truth in kinds
    ]
    low, high = _error_ends(moments, confidence)
    return Reliability(
        mean,
        share,
        inside[there],
        outside[there],
        float(np.sqrt(np.mean(off**2))),
        Estimate(error, max(error - low, 0.0), min(error + high, 1.0)),
    )


def _moments(
    off: NDArray[np.float64],
    at: NDArray[np.int64],
    weigh: float,
    truth: float,
    there: NDArray[np.bool_],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Uncentred variance of the sum of each bin, and the covariance of all sums.

    Of n samples of one kind; `off` is score - member, and `weigh` what a sample counts.
    """
    bins = len(there)
    middle = (np.arange(bins) + 0.5) / bins - truth
    square = weigh**2 * (np.bincount(at, off**2, bins) + middle**2)[there]
    total = weigh * np.bincount(at, off, bins)[there]
    return square, np.diag(square) - np.outer(total, total) / len(off)


def _error_ends(
    moments: list[tuple[NDArray[np.float64], NDArray[np.float64]]], confidence: float
) -> tuple[float, float]:
    """How far the calibration error may lie above the truth, and below."""
    from scipy.special import ndtri

    tail = (1.0 - confidence) / 2.0
    covariance = moments[0][1] + moments[1][1]
    values, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    drawn = np.random.default_rng(0).standard_normal((_DRAWS, len(root))) @ root.T
    low = float(np.quantile(np.abs(drawn).sum(axis=1), 1.0 - tail))
    return low, -float(ndtri(tail)) * float(np.sqrt(moments[0][0].sum() + moments[1][0].sum()))


def check_prior(prior: float, where: str) -> None:
    """An EstimationError unless it lies between 0 and 1."""
    if not 0.0 < prior < 1.0:
        raise EstimationError(
            f"prior must lie between 0 and 1, got {prior!r}",
            cure="0.5 says that members are as common as nonmembers",
            where=where,
        )
