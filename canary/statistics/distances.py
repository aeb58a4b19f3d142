"""How far two empirical distributions are from each other: Kolmogorov and Smirnov."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from canary.errors import EstimationError
from canary.statistics.number_checks import check_confidence, real_array
from canary.statistics.roc import Estimate

Floats = NDArray[np.float64]

_NUMBERS = 1 << 21
"""That are cumulated at a time."""

_FIRST = 200
"""Resamples that say how large the noise is."""

_HALVINGS = 50
_DOUBLINGS = 40
_STEP = 1e-3
_FAR = 1e9


def ks_distance(first: ArrayLike, second: ArrayLike) -> float:
    """The largest vertical distance between two empirical distribution functions.

    Parameters
    ----------
    first, second : array_like of shape (n,) and (m,)
        Numbers, infinite ones included. The distance stays the same when both go through
        one increasing function: losses give that of confidences.

    Returns
    -------
    float
        ``max_x |F_first(x) - F_second(x)|`` over the pooled support, from 0 (the same) to 1.

    Raises
    ------
    EstimationError
        If one is empty, has another shape, or holds NaN.

    Notes
    -----
    Equations 1 and 2 of Liu and Tsaftaris [1]_, with the one reading under which they are
    a distance: read to the letter, each distribution function stands at its own points and
    the difference of any two samples of one size is 0. O((n + m) log (n + m)).

    References
    ----------
    .. [1] Liu and Tsaftaris, Have you forgotten? A method to assess if machine learning
       models have forgotten data, MICCAI 2020.

    Examples
    --------
    >>> ks_distance([0.1, 0.2, 0.9, 0.9], [0.8, 0.9, 0.9, 0.9])
    0.5
    """
    one, other = _numbers(first), _numbers(second)
    return _Pair(one, other).distance()


def lies_lower(first: ArrayLike, second: ArrayLike) -> bool:
    """Whether the first numbers are the lower ones where the two are farthest apart.

    Parameters
    ----------
    first, second : array_like of shape (n,) and (m,)

    Examples
    --------
    >>> lies_lower([0.1, 0.2, 0.9], [0.8, 0.9, 0.9])
    True
    """
    return _Pair(_numbers(first), _numbers(second)).gap() > 0


def chance_distance(first: int, second: int, *, level: float = 0.05) -> float:
    """The distance that two samples of one distribution exceed with probability `level`.

    Parameters
    ----------
    first, second : int
        Their sizes.
    level : float

    Notes
    -----
    ``sqrt(-log(level / 2) / 2 * (n + m) / (n m))``, which is right for large samples and
    otherwise a little too large.

    Examples
    --------
    >>> round(chance_distance(1000, 1000), 4)
    0.0607
    """
    return math.sqrt(-math.log(level / 2) / 2 * (first + second) / (first * second))


def resamples(samples: int, count: int, *, seed: int = 0) -> NDArray[np.int32]:
    """How often each sample is drawn in each resample with replacement.

    Returns
    -------
    ndarray of int32 of shape (count, samples)
        Each row sums to `samples`.
    """
    rng = np.random.default_rng([seed, samples])
    drawn = (rng.integers(samples, size=samples) for _ in range(count))
    return np.stack([np.bincount(d, minlength=samples) for d in drawn]).astype(np.int32)


@dataclass(frozen=True, eq=False)
class Distance:
    """A distance, and how far it may be from that of all samples there could be.

    Parameters
    ----------
    value : float
    excess : float64 array of shape (resamples,)
        What chance adds to the distance, taken rather too high: the largest over all places
        where the two functions might be farthest apart.
    shortfall : float64 array of shape (resamples,)
        The same, taken rather too low: at the place where they were seen farthest apart.
    """

    value: float
    excess: Floats
    shortfall: Floats


def resampled_distance(first: ArrayLike, second: ArrayLike, times: NDArray[np.int32]) -> Distance:
    """`ks_distance` of two models' numbers for the same samples, with its resampled errors.

    Parameters
    ----------
    first, second : array_like of shape (n,)
        Number i of both belongs to sample i: a resample takes both or none.
    times : ndarray of int of shape (resamples, n)
        What `resamples` gave.

    Notes
    -----
    A largest difference has no ordinary bootstrap: resamples of two equal distributions are
    farther apart than the samples, so that percentiles miss a true 0 always. What is
    resampled is the difference of the two functions, less the one seen. Where that one is
    within the noise (the 95th percentile of its largest error) of the largest, the largest
    might truly be [1]_; `excess` is the largest error there, `shortfall` that where it was
    seen. One sort for all resamples, then O(n) for each.

    References
    ----------
    .. [1] Fang and Santos, Inference on Directionally Differentiable Functions, Review of
       Economic Studies 86, 2019.
    """
    return _Pair(_numbers(first), _numbers(second)).resampled(times)


def ratio_interval(
    above: Distance, below: Distance, *, confidence: float = 0.95
) -> tuple[float, float]:
    """The interval of the ratio of two distances from one set of resamples.

    Parameters
    ----------
    above, below : Distance
        With errors from the same resamples.
    confidence : float

    Returns
    -------
    tuple of float
        The ratios ``r`` for which ``above - r below`` is within its resampled errors
        (Fieller): from 0, and to infinity where `below` may be 0.

    Notes
    -----
    As the errors are taken too high and too low, it covers more often than it says: for
    50 to 2,000 samples of normal losses 94.5 to 100 % at 95 %.
    """
    tail = (1.0 - confidence) / 2.0

    def too_low(ratio: float) -> bool:
        """Whether the ratio is so low that chance does not explain what was seen."""
        error = float(np.quantile(above.excess - ratio * below.shortfall, 1.0 - tail))
        return above.value - ratio * below.value > error

    def too_high(ratio: float) -> bool:
        error = float(np.quantile(above.shortfall - ratio * below.excess, tail))
        return above.value - ratio * below.value < error

    seen = above.value / below.value if below.value else math.inf
    lower = _edge(too_low, 0.0, seen) if too_low(0.0) else 0.0
    most = seen
    for _ in range(_DOUBLINGS):
        if too_high(most):
            return lower, _edge(lambda r: not too_high(r), seen, most)
        most = 2.0 * most + _STEP
    return lower, math.inf


def _edge(holds: Callable[[float], bool], start: float, end: float) -> float:
    """Where, on the way from `start` to `end`, something ceases to hold."""
    if not math.isfinite(end):
        end = _FAR
    for _ in range(_HALVINGS):
        middle = (start + end) / 2.0
        start, end = (middle, end) if holds(middle) else (start, middle)
    return (start + end) / 2.0


class _Pair:
    """Two samples in the order of their pooled values."""

    def __init__(self, first: Floats, second: Floats) -> None:
        pooled = np.concatenate([first, second])
        self._order = np.argsort(pooled, kind="stable")
        self._sizes = len(first), len(second)
        in_order = pooled[self._order]
        # Where a value ends: in between, equal values would be counted one by one.
        self._ends = np.flatnonzero(np.append(in_order[1:] != in_order[:-1], True))

    def distance(self) -> float:
        return abs(self.gap())

    def gap(self) -> float:
        """The largest difference of the two functions, above 0 where the first is larger."""
        n, m = self._sizes
        # Exact integers, so that what is equal has the distance 0.
        gaps = np.cumsum(np.where(self._order < n, m, -n))[self._ends]
        return float(gaps[np.abs(gaps).argmax()] / (n * m))

    def resampled(self, times: NDArray[np.int32]) -> Distance:
        n = self._sizes[0]
        sign = np.where(self._order < n, 1, -1).astype(np.int32)
        sample = np.where(self._order < n, self._order, self._order - n)
        seen = np.cumsum(sign)[self._ends]
        value = int(np.abs(seen).max())
        farthest = int(np.abs(seen).argmax())
        side = 1 if seen[farthest] >= 0 else -1
        rows = max(_NUMBERS // (2 * n), 1)

        def errors(part: NDArray[np.int32]) -> Iterator[NDArray[np.int32]]:
            for at in range(0, len(part), rows):
                steps = part[at : at + rows][:, sample] * sign
                yield np.cumsum(steps, axis=1, dtype=np.int32)[:, self._ends] - seen

        first = [np.abs(error).max(axis=1) for error in errors(times[:_FIRST])]
        noise = float(np.quantile(np.concatenate(first), 0.95))
        above, below = seen >= value - noise, -seen >= value - noise
        excess, shortfall = [], []
        for error in errors(times):
            ends = [part for part in (error[:, above], -error[:, below]) if part.shape[1]]
            excess.append(np.maximum.reduce([part.max(axis=1) for part in ends]))
            shortfall.append(side * error[:, farthest])
        return Distance(value / n, np.concatenate(excess) / n, np.concatenate(shortfall) / n)


def _numbers(given: ArrayLike) -> Floats:
    array = real_array(given, "a sample", "ks_distance", cure="give losses or confidences")
    if array.ndim != 1 or not len(array) or np.isnan(array).any():
        raise EstimationError(
            f"a sample of shape {array.shape}"
            + (" with NaN" if array.size and np.isnan(array).any() else ""),
            cure="give one number for each of at least one sample",
            where="ks_distance",
        )
    return array


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
