"""p-values of several canaries, made into one.

``2**-exposure`` is a p-value: a canary that was not learned has ``Pr[p <= u] <= u`` for
``p = rank/|R|`` (exact), ``rank_upper/|R|`` and ``(1 + hits)/(1 + draws)``.
"""

from __future__ import annotations

import math
import sys
from typing import SupportsIndex

import numpy as np
from numpy.typing import ArrayLike

from canary.errors import EstimationError
from canary.statistics.checks import positive_integer, real_array
from canary.statistics.combined import CombinedP

__all__ = ["fisher"]


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
    ``2 k`` degrees of freedom [1]_. p-values from the same ``n`` draws rise and fall
    together, which leaves the mean of ``T`` at ``2 k`` and multiplies its variance by
    ``1 + g``, ``g = k / n``; so the statistic that is compared is [2]_

        (T + 2 k (sqrt(1 + g) - 1)) / sqrt(1 + g)

    The correction is asymptotic; at level 1 % the null rate was seen to stay near 1 % for
    8 and 64 canaries and 200 to 20,000 draws.

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
    from scipy.special import gammaincc

    where = "fisher"
    p = real_array(p_values, "p_values", where, cure="give one per canary")
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
    draws = None
    if shared_draws is not None:
        cure = "give the number of draws, or None for p-values from exact ranks"
        draws = positive_integer(shared_draws, "shared_draws", where, cure=cure)
    k = len(p)
    statistic = -2.0 * math.fsum(np.log(p)) + 0.0  # no -0.0
    if draws is not None:
        scale = math.sqrt(1.0 + k / draws)
        statistic = (statistic + 2.0 * k * (scale - 1.0)) / scale
    # Pr[chi2(2 k) >= t] = Q(k, t / 2). Where it underflows, the smallest float bounds it.
    tail = float(gammaincc(k, statistic / 2.0))
    return CombinedP(
        p_value=max(tail, sys.float_info.min),
        statistic=statistic,
        degrees_of_freedom=2 * k,
        count=k,
        shared_draws=draws,
    )
