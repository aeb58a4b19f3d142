"""Intervals for shares: hits among trials, differences, and rates at a chosen threshold."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

_NEGLIGIBLE = 1e-12
_Z90, _MOST = 1.2815515655446004, 10**12
_NODES = 256
"""Counts of non-members that are looked at; more are taken in groups."""


def clopper_pearson(hits: ArrayLike, trials: int, tail: float) -> tuple[Floats, Floats]:
    """Ends of the interval for a share, each too far in with probability at most `tail`.

    `hits`, an array_like of int of any shape, are of one or more `trials`.
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

    Newcombe's hybrid score interval (Statistics in Medicine 17, 1998, method 10): with ``l`` and
    ``u`` the ends of Wilson's interval of each share, ``d - sqrt((p1 - l1)^2 + (u2 - p2)^2)`` and
    ``d + sqrt((u1 - p1)^2 + (p2 - l2)^2)``. It has a width where a share is 0 or 1.
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
        Gives how many members have a higher score than the k-th highest non-member, for k
        from 0 (no score is higher) to nonmembers + 1 (all are).
    members, nonmembers : int
    fpr : float
        Above 0, at most 1.
    confidence : float
        Half of what is left goes to either end.

    Notes
    -----
    The threshold of the population has K of these non-members above it, and K is binomial.
    Were it known that K is k, the members above the threshold would be at least those above
    the k-th highest non-member and at most those above the next, and Clopper and Pearson's
    ends would follow. K is not known, so the distributions that these ends are quantiles of
    (Beta) are averaged over the law of K, and the quantile is that of the average. The lower end is
    0 where ``(1 - fpr) ** nonmembers`` is more than half of ``1 - confidence``.
    """
    from scipy.special import gammaln, xlog1py, xlogy

    middle, reach = nonmembers * fpr, 8.0 * math.sqrt(nonmembers * fpr * (1.0 - fpr)) + 30.0
    first, last = max(math.floor(middle - reach), 0), min(math.ceil(middle + reach), nonmembers)
    counts = np.arange(first, last + 1)
    ways = gammaln(nonmembers + 1) - gammaln(counts + 1) - gammaln(nonmembers - counts + 1)
    chances = np.exp(ways + xlogy(counts, fpr) + xlog1py(nonmembers - counts, -fpr))
    counts, chances = counts[chances > _NEGLIGIBLE], chances[chances > _NEGLIGIBLE]

    starts = np.arange(0, len(counts), -(-len(counts) // _NODES))
    ends = np.append(starts[1:], len(counts)) - 1
    weights = np.add.reduceat(chances / chances.sum(), starts)
    tail = (1.0 - confidence) / 2.0
    fewest, most = members_above(counts[starts]), members_above(counts[ends] + 1)
    lower = _averaged(fewest, members, weights, tail)
    return lower, 1.0 - _averaged(members - most, members, weights, tail)


def nonmembers_for_lower_end(fpr: float, *, confidence: float) -> int:
    """The least number of non-members for which the lower end can be above 0.

    Examples
    --------
    >>> nonmembers_for_lower_end(0.001, confidence=0.95)
    3688
    """
    if fpr >= 1.0:
        return 1
    return math.ceil(math.log((1.0 - confidence) / 2.0) / math.log1p(-fpr))


def nonmembers_to_decide(fpr: float, limit: float, *, confidence: float) -> int | None:
    """The least number of non-members, with as many members, that can judge a limit on the rate.

    An attack that finds every member can be above the limit, and one that guesses is within it with
    a chance of 90 %. Rates near the limit take more. None where the limit is no more than `fpr`, or
    10^12 are too few.

    Notes
    -----
    An attack that guesses has ``k`` members above the k-th highest non-member on average, with a
    standard deviation of ``sqrt(2 k)``; the upper end of `tpr_interval` is that of the 90th
    percentile.

    Examples
    --------
    >>> nonmembers_to_decide(0.001, 0.02, confidence=0.95)
    3688
    >>> nonmembers_to_decide(0.001, 0.002, confidence=0.95)
    33036
    """
    least = max(nonmembers_for_lower_end(fpr, confidence=confidence), math.ceil(1.0 / fpr - 1e-9))

    def within(number: int) -> bool:
        def above(k: Ints) -> Ints:
            found: Ints = np.ceil(k + _Z90 * np.sqrt(2.0 * k)).astype(np.int64)
            return np.minimum(found, number)

        return tpr_interval(above, number, number, fpr, confidence=confidence)[1] <= limit

    if limit <= fpr:
        return None
    low = high = least
    while not within(high):
        low, high = high, 2 * high
        if high > _MOST:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if within(middle) else (middle, high)
    return high


def _averaged(hits: Ints, trials: int, weights: Floats, tail: float) -> float:
    """The quantile `tail` of the average of Beta(hits, trials - hits + 1); 0 of no hits."""
    from scipy.optimize import brentq
    from scipy.special import betainc, betaincinv

    none = hits == 0
    nothing = float(weights[none].sum())
    if nothing >= tail:
        return 0.0
    a, place = np.unique(hits[~none], return_inverse=True)
    of_each = np.bincount(place, weights=weights[~none])
    b = trials - a + 1.0
    if len(a) == 1 and not nothing:
        return float(betaincinv(a[0], b[0], tail))

    def excess(share: float) -> float:
        return nothing + float(of_each @ betainc(a, b, share)) - tail

    return float(brentq(excess, 0.0, betaincinv(a[-1], b[-1], tail), xtol=1e-12))
