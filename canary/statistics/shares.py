"""Intervals for shares: hits among trials, and the difference of two shares."""

from __future__ import annotations

import math

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
