"""p-values of several canaries, made into one.

``2**-exposure`` is a p-value: a canary that was not learned has ``Pr[p <= u] <= u`` for
``p = rank/|R|`` (exact), ``rank_upper/|R|`` and ``(1 + hits)/(1 + draws)``.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from typing import SupportsIndex

import numpy as np
from numpy.typing import ArrayLike, NDArray

from canary.errors import EstimationError
from canary.records.record import Record
from canary.statistics.number_checks import positive_integer, real_array
from canary.statistics.urn import MOST, MOST_DRAWS, urn_tails

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class CombinedP(Record):
    """One p-value for a group of canaries.

    Parameters
    ----------
    p_value : float
        Probability of exposures at least as large in sum if none was learned.
    statistic : float
        The test statistic, ``-2 sum ln p``, after the correction if there was one.
    degrees_of_freedom : int
        Of the chi-square distribution that it is compared with unless the draws are shared.
    count : int
        Canaries in the group.
    shared_draws : int or None
        Number of draws that the p-values have in common; None if they are exact.
    """

    p_value: float
    statistic: float
    degrees_of_freedom: int
    count: int
    shared_draws: int | None


def fisher(p_values: ArrayLike, *, shared_draws: SupportsIndex | None = None) -> CombinedP:
    """One p-value for canaries of which none was learned, by Fisher's method.

    Parameters
    ----------
    p_values : array_like of shape (k,)
        One per canary, above 0 and at most 1.
    shared_draws : int, optional
        Number of draws that all the p-values were made with. Those are dependent, and the
        statistic is corrected for it. None: the p-values are independent. Where canaries
        of several formats are combined, give the smallest number of draws of any format.

    Returns
    -------
    CombinedP

    Raises
    ------
    EstimationError
        If there is no p-value, one is outside (0, 1], or `shared_draws` is not positive.

    Notes
    -----
    ``T = -2 sum ln p = 2 ln 2 sum(exposure)`` is stochastically at most chi-square with
    ``2 k`` degrees of freedom [1]_, if the p-values are independent. Those from the same
    ``n`` draws rise and fall together. Where all are ``(1 + hits) / (1 + n)``, for at most
    100 canaries and a thousand million draws, the p-value is exact (`canary.statistics.urn`).

    Elsewhere, as where some canaries were ranked for certain, the dependence leaves the mean
    of ``T`` at ``2 k`` and multiplies its variance by ``1 + g``, ``g = k / n``; so the
    statistic that is compared is [2]_

        (T + 2 k (sqrt(1 + g) - 1)) / sqrt(1 + g)

    That is asymptotic: where draws are few it alarms too rarely.

    References
    ----------
    .. [1] Fisher, Statistical Methods for Research Workers, 4th edition, 1932, section 21.1.
    .. [2] Bates, Candes, Lei, Romano and Sesia, Testing for outliers with conformal
       p-values, Annals of Statistics 51, 2023, section 2.5.

    Examples
    --------
    >>> round(fisher([0.01]).p_value, 12)
    0.01
    >>> fisher([0.01, 0.5], shared_draws=200).degrees_of_freedom
    4
    """
    where = "fisher"
    p = _p_values(p_values, where)
    draws = None
    if shared_draws is not None:
        cure = "give the number of draws, or None for p-values from exact ranks"
        draws = positive_integer(shared_draws, "shared_draws", where, cure=cure)
    k = len(p)
    statistic = -2.0 * math.fsum(np.log(p)) + 0.0  # no -0.0
    if draws is not None and _are_shares(p, draws):
        tail = urn_tails(p, draws)
    else:
        statistic = float(_corrected(statistic, k, draws))
        tail = _tail(np.asarray(statistic), k)
    return CombinedP(
        p_value=float(tail),
        statistic=statistic,
        degrees_of_freedom=2 * k,
        count=k,
        shared_draws=draws,
    )


def fisher_tails(p_values: Floats, *, shared_draws: int | None = None) -> Floats:
    """`fisher` of many groups at once, for studies of what a test alarms at.

    Parameters
    ----------
    p_values : float64 array of shape (..., k)
        Above 0 and at most 1; a group in each last row.
    shared_draws : int, optional
        Number of draws that the p-values of a row were made with.

    Returns
    -------
    float64 array of shape (...)
    """
    k = p_values.shape[-1]
    if shared_draws is not None and _are_shares(p_values, shared_draws):
        return urn_tails(p_values, shared_draws)
    statistic = -2.0 * np.log(p_values).sum(axis=-1)
    return _tail(np.asarray(_corrected(statistic, k, shared_draws)), k)


def holm(p_values: ArrayLike) -> Floats:
    """p-values of several groups, each adjusted for having looked at all of them.

    Parameters
    ----------
    p_values : array_like of shape (n,)
        One per group, above 0 and at most 1.

    Returns
    -------
    float64 array of shape (n,)
        In the order given. To reject where one is at most a level wrongs any group that
        has nothing to reject with at most that probability, however the groups depend on
        each other [1]_.

    Raises
    ------
    EstimationError
        If there is no p-value, or one is outside (0, 1].

    References
    ----------
    .. [1] Holm, A simple sequentially rejective multiple test procedure, Scandinavian
       Journal of Statistics 6, 1979.

    Examples
    --------
    >>> holm([0.04, 0.01, 0.03]).tolist()
    [0.06, 0.03, 0.06]
    """
    p = _p_values(p_values, "holm")
    order = np.argsort(p, kind="stable")
    steps = np.arange(len(p), 0, -1)
    adjusted = np.empty(len(p))
    adjusted[order] = np.minimum(np.maximum.accumulate(p[order] * steps), 1.0)
    return adjusted


def _p_values(given: ArrayLike, where: str) -> Floats:
    p = real_array(given, "p_values", where, cure="give one per canary")
    if p.ndim != 1 or not len(p):
        raise EstimationError(
            f"p_values must hold at least one number in one dimension, got shape {p.shape}",
            cure="give one p-value per canary",
            where=where,
        )
    bad = np.flatnonzero(~((p > 0.0) & (p <= 1.0)))
    if len(bad):
        raise EstimationError(
            f"p-values lie above 0 and at most at 1, got {p[bad[0]]} at position {bad[0]}",
            cure="count the canary itself: (1 + hits) / (1 + draws), or rank / |R|; an exposure "
            "read off a curve has no p-value",
            where=where,
        )
    return p


def _are_shares(p_values: Floats, draws: int) -> bool:
    """Whether all are ``(1 + hits) / (1 + draws)``, of no more than are counted out."""
    if p_values.shape[-1] > MOST or draws > MOST_DRAWS:
        return False
    shares = p_values * (1 + draws)
    return bool((np.abs(shares - np.rint(shares)) < 1e-6).all() and (shares > 0.5).all())


def _corrected(statistic: float | Floats, k: int, draws: int | None) -> float | Floats:
    if draws is None:
        return statistic
    scale = math.sqrt(1.0 + k / draws)
    return (statistic + 2.0 * k * (scale - 1.0)) / scale


def _tail(statistic: Floats, k: int) -> Floats:
    """Pr[chi2(2 k) >= t] = Q(k, t / 2); where it underflows, the smallest float bounds it."""
    from scipy.special import gammaincc

    return np.asarray(np.maximum(gammaincc(k, statistic / 2.0), sys.float_info.min))
