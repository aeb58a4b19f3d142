"""Intervals for shares: hits among trials, and the difference of two shares."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray


def clopper_pearson(
    hits: ArrayLike, trials: int, tail: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Ends of the interval for a share, each too far in with probability at most `tail`.

    Parameters
    ----------
    hits : array_like of int of any shape
        From 0 to `trials`.
    trials : int
        1 or more.
    tail : float
        Half of what the interval may miss.
    """
    from scipy.special import betainccinv, betaincinv

    k = np.asarray(hits)
    # The beta distribution has no parameter 0: there the ends are 0 and 1.
    small = np.where(k == 0, 0.0, betaincinv(np.maximum(k, 1), trials - k + 1, tail))
    large = np.where(k == trials, 1.0, betainccinv(k + 1, np.maximum(trials - k, 1), tail))
    return small, large


def difference_interval(
    first: int, first_trials: int, second: int, second_trials: int, *, confidence: float
) -> tuple[float, float]:
    """Interval for the difference of two independent shares, first minus second.

    Parameters
    ----------
    first, first_trials, second, second_trials : int
        Hits and trials of each.
    confidence : float

    Notes
    -----
    Newcombe's hybrid score interval [1]_: with ``l`` and ``u`` the ends of Wilson's
    interval of each share, ``d - sqrt((p1 - l1)^2 + (u2 - p2)^2)`` and
    ``d + sqrt((u1 - p1)^2 + (p2 - l2)^2)``. It stays within -1 and 1 and has a width where a
    share is 0 or 1.

    References
    ----------
    .. [1] Newcombe, Interval estimation for the difference between independent proportions,
       Statistics in Medicine 17, 1998, method 10.
    """
    from scipy.special import ndtri

    z = float(ndtri(0.5 + confidence / 2.0))
    p1, l1, u1 = _wilson(first, first_trials, z)
    p2, l2, u2 = _wilson(second, second_trials, z)
    difference = p1 - p2
    return (
        max(difference - math.hypot(p1 - l1, u2 - p2), -1.0),
        min(difference + math.hypot(u1 - p1, p2 - l2), 1.0),
    )


def _wilson(hits: int, trials: int, z: float) -> tuple[float, float, float]:
    """A share, and the ends of its score interval."""
    share = hits / trials
    middle = (share + z * z / (2 * trials)) / (1 + z * z / trials)
    half = z * math.sqrt(share * (1 - share) / trials + (z / (2 * trials)) ** 2)
    half /= 1 + z * z / trials
    return share, max(middle - half, 0.0), min(middle + half, 1.0)


Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

_NEGLIGIBLE = 1e-12
_NODES = 256
"""Counts of nonmembers that are looked at; more are taken in groups."""


def tpr_interval(
    members_above: Callable[[Ints], Ints],
    members: int,
    nonmembers: int,
    fpr: float,
    *,
    confidence: float,
) -> tuple[float, float]:
    """Interval of the population's true positive rate at a false positive rate.

    Parameters
    ----------
    members_above : callable
        Gives how many members have a higher score than the k-th highest nonmember, for k
        from 0 (no score is higher) to nonmembers + 1 (all are).
    members, nonmembers : int
        1 or more of each.
    fpr : float
        Above 0, at most 1.
    confidence : float
        Half of what is left goes to either end.

    Returns
    -------
    tuple of float
        The lower end is 0 where the threshold may well be above all nonmembers, if
        ``(1 - fpr) ** nonmembers`` is more than half of ``1 - confidence``: without an
        assumption of how scores fall off nothing is known of members there.

    Notes
    -----
    The threshold of the population has K of these nonmembers above it, and K is binomial.
    Were it known that K is k, the members above the threshold would be at least those above
    the k-th highest nonmember and at most those above the next, and Clopper and Pearson's
    ends would follow. K is not known, so the distributions that these ends are quantiles of
    (Beta) are averaged over the law of K, and the quantile is that of the average. Ties need
    no rule of their own. What it covers stands in ADR 032. It costs some hundred values of the
    incomplete beta function for each of a dozen steps, whatever the number of samples.
    """
    counts, weights = _binomial(nonmembers, fpr)
    step = -(-len(counts) // _NODES)
    starts = np.arange(0, len(counts), step)
    weights = np.add.reduceat(weights, starts)
    ends = np.append(starts[1:], len(counts)) - 1
    tail = (1.0 - confidence) / 2.0
    fewest, most = members_above(counts[starts]), members_above(counts[ends] + 1)
    lower = _averaged(fewest, members, weights, tail)
    return lower, 1.0 - _averaged(members - most, members, weights, tail)


def nonmembers_for_lower_end(fpr: float, *, confidence: float) -> int:
    """The least number of nonmembers for which the lower end can be above 0.

    Examples
    --------
    >>> nonmembers_for_lower_end(0.001, confidence=0.95)
    3688
    """
    if fpr >= 1.0:
        return 1
    return math.ceil(math.log((1.0 - confidence) / 2.0) / math.log1p(-fpr))


def _binomial(trials: int, share: float) -> tuple[Ints, Floats]:
    """Numbers of hits with more than a negligible chance, and their chances."""
    from scipy.special import gammaln, xlog1py, xlogy

    middle, reach = trials * share, 8.0 * math.sqrt(trials * share * (1.0 - share)) + 30.0
    first, last = max(math.floor(middle - reach), 0), min(math.ceil(middle + reach), trials)
    k = np.arange(first, last + 1)
    ways = gammaln(trials + 1) - gammaln(k + 1) - gammaln(trials - k + 1)
    chance = np.exp(ways + xlogy(k, share) + xlog1py(trials - k, -share))
    there = chance > _NEGLIGIBLE
    return k[there], chance[there] / chance[there].sum()


def _averaged(hits: Ints, trials: int, weights: Floats, tail: float) -> float:
    """The quantile `tail` of the average of Beta(hits, trials - hits + 1); 0 of no hits."""
    from scipy.optimize import brentq
    from scipy.special import betainc, betaincinv

    none = hits == 0
    nothing = float(weights[none].sum())
    if nothing >= tail:
        return 0.0
    a, at = np.unique(hits[~none], return_inverse=True)
    of_each = np.bincount(at, weights=weights[~none])
    b = trials - a + 1.0
    if len(a) == 1 and not nothing:
        return float(betaincinv(a[0], b[0], tail))

    def excess(share: float) -> float:
        return nothing + float(of_each @ betainc(a, b, share)) - tail

    return float(brentq(excess, 0.0, betaincinv(a[-1], b[-1], tail), xtol=1e-12))
