"""Do two numbers of the same things rise together? Correlations with intervals."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from canary.errors import EstimationError
from canary.statistics.number_checks import check_confidence, real_array
from canary.statistics.roc import Estimate

_FEWEST = 4


@dataclass(frozen=True)
class Correlation:
    """How two numbers go together.

    Parameters
    ----------
    rank : Estimate
        Spearman's correlation, of the ranks: 1 if one number always rises with the other.
    linear : Estimate
        Pearson's correlation: 1 if they lie on a rising line. NaN with an interval from -1
        to 1 where a number is infinite.
    count : int
    """

    rank: Estimate
    linear: Estimate
    count: int


def correlation(x: ArrayLike, y: ArrayLike, *, confidence: float = 0.95) -> Correlation:
    """The correlations of ranks and of values.

    Parameters
    ----------
    x, y : array_like of shape (n,)
        At least 4, neither of one value only; infinities are values like others for ranks.
    confidence : float

    Raises
    ------
    EstimationError
        If the shapes differ, a number is NaN, there are too few, or one side is constant.

    Notes
    -----
    Intervals are normal on the scale of ``atanh``: with variance ``1 / (n - 3)`` for the
    linear one (Fisher), ``(1 + r^2 / 2) / (n - 3)`` for that of ranks [1]_. Ranks that agree
    wholly would get no width: there the interval is that of ranks that differ by one swap
    of neighbours, ``r = 1 - 12 / (n (n^2 - 1))``, up to 1. O(n log n).

    References
    ----------
    .. [1] Bonett and Wright, Sample size requirements for estimating Pearson, Kendall and
       Spearman correlations, Psychometrika 65, 2000.

    Examples
    --------
    >>> correlation([1, 2, 3, 4, 5], [1, 4, 9, 16, 25]).rank.value
    1.0
    """
    where = "correlation"
    check_confidence(confidence, where)
    one, other = (real_array(v, "x and y", where, cure="give one for each") for v in (x, y))
    if one.ndim != 1 or one.shape != other.shape or np.isnan(one).any() or np.isnan(other).any():
        raise EstimationError(
            f"numbers of shapes {one.shape} and {other.shape}, or one is NaN",
            cure="give two numbers of each thing",
            where=where,
        )
    n = len(one)
    if not differ_enough(one, other):
        raise EstimationError(
            f"{n} pairs of numbers, or one side is constant",
            cure=f"give at least {_FEWEST} pairs that differ on both sides",
            where=where,
        )
    ranks = _pearson(_ranks(one), _ranks(other))
    most = 1.0 - 12.0 / (n * (n * n - 1.0))
    finite = bool(np.isfinite(one).all() and np.isfinite(other).all())
    line = Estimate(math.nan, -1.0, 1.0)
    if finite:
        r = _pearson(one, other)
        line = _interval(r, 1.0 - 1e-15, 1.0 / (n - 3), confidence)
    bound = min(abs(ranks), most)
    return Correlation(
        _interval(ranks, most, (1.0 + bound * bound / 2.0) / (n - 3), confidence), line, n
    )


def differ_enough(x: NDArray[np.float64], y: NDArray[np.float64]) -> bool:
    """Whether `correlation` can say something of them: four pairs, and no side constant."""
    return len(x) >= _FEWEST and not ((x == x[0]).all() or (y == y[0]).all())


def _ranks(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """From 1, equal ones sharing their mean; scipy.stats has it too, for 44 MiB of memory."""
    _, place, counts = np.unique(x, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(counts) - (counts - 1) / 2.0)[place])


def _pearson(x: NDArray[np.float64], y: NDArray[np.float64]) -> float:
    # Scaled first, so that squares stay in range.
    dx, dy = (v / np.abs(v).max() if np.abs(v).max() > 0 else v for v in (x, y))
    dx, dy = dx - dx.mean(), dy - dy.mean()
    r = float(dx @ dy / math.sqrt(float(dx @ dx) * float(dy @ dy)))
    return min(max(r, -1.0), 1.0)


def _interval(r: float, most: float, variance: float, confidence: float) -> Estimate:
    from scipy.special import ndtri

    half = float(ndtri(0.5 + confidence / 2.0)) * math.sqrt(variance)
    middle = math.atanh(min(max(r, -most), most))
    low, high = math.tanh(middle - half), math.tanh(middle + half)
    return Estimate(r, -1.0 if r < -most else low, 1.0 if r > most else high)
