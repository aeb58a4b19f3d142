"""What guesses by a threshold are worth, and what risk scores tell at other priors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from canary.errors import EstimationError
from canary.membership.risk import RiskScores, check_prior
from canary.statistics.number_checks import check_confidence, real_array
from canary.statistics.roc import Estimate, scored_members
from canary.statistics.shares import clopper_pearson

RISK_THRESHOLDS = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5)
"""Thresholds on risk scores in table 6 of Song and Mittal."""

PRIORS = (0.1, 0.3, 0.5, 0.7, 0.9)
"""Priors in appendix B of Song and Mittal."""


@dataclass(frozen=True)
class Guesses:
    """What comes of calling samples of a score from a threshold on members.

    Parameters
    ----------
    threshold : float
    true_positives, false_positives : int
    precision : Estimate or None
        Chance that a sample that is called a member is one; None where none is called so.
    recall : Estimate
        Share of the members that are called so.
    """

    threshold: float
    true_positives: int
    false_positives: int
    precision: Estimate | None
    recall: Estimate


@dataclass(frozen=True)
class Leakage:
    """How much the scores of members rise above a prior.

    Parameters
    ----------
    prior : float
    leakage : Estimate
        Mean over the members of risk score minus prior.
    above : float
        Share of the members whose score is above the prior.
    """

    prior: float
    leakage: Estimate
    above: float


def precision_recall(
    scores: RiskScores | ArrayLike,
    member: ArrayLike,
    thresholds: Sequence[float] = RISK_THRESHOLDS,
    *,
    prior: float | None = None,
    confidence: float = 0.95,
) -> list[Guesses]:
    """Precision and recall of guessing "member" from each threshold on.

    Parameters
    ----------
    scores : RiskScores, or array_like of shape (samples,)
        Higher for what looks like a member.
    member : array_like of bool of shape (samples,)
    thresholds : sequence of float
        Those of table 6 of Song and Mittal (USENIX Security 2021) unless given.
    prior : float, optional
        How common members are where guesses are made, on which precision depends. Unless
        given, that of the risk scores; for other scores, as common as among these samples.
    confidence : float
        Of intervals of Clopper and Pearson. A threshold is fixed beforehand, or they flatter.

    Returns
    -------
    list of Guesses, in the order of `thresholds`.

    Raises
    ------
    EstimationError
        As `canary.statistics.roc.roc`, or if a threshold is NaN or an option out of range.

    Examples
    --------
    >>> found = precision_recall([0.9, 0.8, 0.6, 0.1], [1, 0, 1, 0], [0.8, 0.5])
    >>> [one.precision.value for one in found], [one.recall.value for one in found]
    ([0.5, 0.6666666666666666], [0.5, 1.0])
    """
    where = "precision_recall"
    check_confidence(confidence, where)
    held = scores.scores if isinstance(scores, RiskScores) else scores
    values, flags = scored_members(held, member, where)
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
    tail = (1.0 - confidence) / 2.0
    inside, outside = np.sort(values[flags]), np.sort(values[~flags])
    found = []
    for cut in cuts:
        hits = members - int(np.searchsorted(inside, cut))
        false = nonmembers - int(np.searchsorted(outside, cut))
        low, high = clopper_pearson(hits, members, tail)
        recall = Estimate(hits / members, float(low), float(high))
        precision = None
        if hits + false:
            low, high = clopper_pearson(hits, hits + false, tail)
            precision = Estimate(
                *(_odds_times(float(s), factor) for s in (hits / (hits + false), low, high))
            )
        found.append(Guesses(float(cut), hits, false, precision, recall))
    return found


def risk_at(risks: RiskScores, prior: float) -> NDArray[np.float64]:
    """Risk scores at another prior, of shape (samples,).

    The odds are those of the prior times the ratio of the two likelihoods (equation 12 of Song
    and Mittal), which is the same at all priors.
    """
    check_prior(prior, "risk_at")
    factor = prior / (1.0 - prior) * (1.0 - risks.prior) / risks.prior
    r = risks.scores
    return np.asarray(factor * r / (factor * r + 1.0 - r))


def leakage(
    risks: RiskScores,
    member: ArrayLike,
    priors: Sequence[float] = PRIORS,
    *,
    confidence: float = 0.95,
) -> list[Leakage]:
    """How far members' risk scores are above the prior, at several priors.

    The distance of appendix B of Song and Mittal (USENIX Security 2021), with a normal interval.

    Parameters
    ----------
    risks : RiskScores
        At any prior.
    member : array_like of bool of shape (samples,)
    priors : sequence of float
    confidence : float

    Returns
    -------
    list of Leakage, in the order of `priors`.

    Raises
    ------
    EstimationError
        As `canary.statistics.roc.roc`, or if an option is out of range.
    """
    from scipy.special import ndtri

    where = "leakage"
    check_confidence(confidence, where)
    _, flags = scored_members(risks.scores, member, where)
    z = float(ndtri(0.5 + confidence / 2.0))
    found = []
    for prior in priors:
        rise = risk_at(risks, prior)[flags] - prior
        mean = float(rise.mean())
        # Of a single member nothing is known but that it lies within a length of 1.
        spread = float(rise.std(ddof=1)) if len(rise) > 1 else 0.5
        half = z * spread / len(rise) ** 0.5
        ends = max(mean - half, -prior), min(mean + half, 1.0 - prior)
        found.append(Leakage(prior, Estimate(mean, *ends), float((rise > 0).mean())))
    return found


def _odds_times(share: float, factor: float) -> float:
    return share if factor == 1.0 else factor * share / (factor * share + 1.0 - share)
