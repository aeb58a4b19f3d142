"""Two sets of numbers beside each other: distances of distributions, and correlations."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from canary.errors import EstimationError
from canary.statistics.number_checks import check_confidence, halved, real_array
from canary.statistics.roc import Estimate

Floats = NDArray[np.float64]

_NUMBERS = 1 << 21
"""That are cumulated at a time."""

_FIRST = 200
"""Resamples that say how large the noise is."""

_DOUBLINGS = 40
_STEP = 1e-3
_FAR = 1e9
_FEWEST = 4


def ks_distance(first: ArrayLike, second: ArrayLike) -> float:
    """The largest vertical distance between two empirical distribution functions.

    ``max_x |F_first(x) - F_second(x)|`` over the pooled support, from 0 (the same) to 1: equations
    1 and 2 of Liu and Tsaftaris, Have you forgotten?, MICCAI 2020, with both functions at the same
    points. It stays the same when both samples go through one increasing function. Numbers may be
    infinite; an EstimationError says that a sample is empty, has another shape than (n,), or holds
    NaN.

    Examples
    --------
    >>> ks_distance([0.1, 0.2, 0.9, 0.9], [0.8, 0.9, 0.9, 0.9])
    0.5
    """
    return abs(_largest_gap(first, second))


def lies_lower(first: ArrayLike, second: ArrayLike) -> bool:
    """Whether the first numbers are the lower ones where the two are farthest apart.

    Examples
    --------
    >>> lies_lower([0.1, 0.2, 0.9], [0.8, 0.9, 0.9])
    True
    """
    return _largest_gap(first, second) > 0


def _largest_gap(first: ArrayLike, second: ArrayLike) -> float:
    """The largest difference of the two functions, above 0 where the first is larger."""
    one, other = _numbers(first), _numbers(second)
    n, m = len(one), len(other)
    order, ends = _pooled(one, other)
    # Exact integers, so that what is equal has the distance 0.
    gaps = np.cumsum(np.where(order < n, m, -n))[ends]
    return float(gaps[np.abs(gaps).argmax()] / (n * m))


def _pooled(first: Floats, second: Floats) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The order of the pooled values, and the places in it where a value ends.

    In between, equal values would be counted one by one.
    """
    pooled = np.concatenate([first, second])
    order = np.argsort(pooled, kind="stable")
    in_order = pooled[order]
    return order, np.flatnonzero(np.append(in_order[1:] != in_order[:-1], True))


def chance_distance(first: int, second: int, *, level: float = 0.05) -> float:
    """The distance that two samples of these sizes exceed with probability `level`.

    ``sqrt(-log(level / 2) / 2 * (n + m) / (n m))`` for samples of one distribution, which is
    right for large samples and otherwise a little too large.

    Examples
    --------
    >>> round(chance_distance(1000, 1000), 4)
    0.0607
    """
    return math.sqrt(-math.log(level / 2) / 2 * (first + second) / (first * second))


def resamples(samples: int, count: int, *, seed: int = 0) -> NDArray[np.int32]:
    """How often each sample is drawn in each resample with replacement.

    Shape (count, samples); each row sums to `samples`.
    """
    rng = np.random.default_rng([seed, samples])
    drawn = (rng.integers(samples, size=samples) for _ in range(count))
    return np.stack([np.bincount(d, minlength=samples) for d in drawn]).astype(np.int32)


@dataclass(frozen=True, eq=False)
class Distance:
    """A distance, and how far it may be from that of all samples there could be.

    `excess`, of shape (resamples,), is what chance adds to it, taken rather too high: the largest
    over all places where the two functions might be farthest apart. `shortfall` is taken rather too
    low: at the place where they were seen farthest apart.
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
    A largest difference has no ordinary bootstrap: percentiles miss a true 0 always. What is
    resampled is the difference of the two functions, less the one seen. Where that one is within
    the noise (the 95th percentile of its largest error) of the largest, the largest might truly be
    (Fang and Santos, Review of Economic Studies 86, 2019); `excess` is the largest error there,
    `shortfall` that where it was seen. One sort for all resamples, then O(n) for each.
    """
    one, other = _numbers(first), _numbers(second)
    n = len(one)
    order, ends = _pooled(one, other)
    sign = np.where(order < n, 1, -1).astype(np.int32)
    sample = np.where(order < n, order, order - n)
    seen = np.cumsum(sign)[ends]
    value, farthest = int(np.abs(seen).max()), int(np.abs(seen).argmax())
    side = 1 if seen[farthest] >= 0 else -1
    rows = max(_NUMBERS // (2 * n), 1)

    def errors(part: NDArray[np.int32]) -> Iterator[NDArray[np.int32]]:
        for start in range(0, len(part), rows):
            steps = part[start : start + rows][:, sample] * sign
            yield np.cumsum(steps, axis=1, dtype=np.int32)[:, ends] - seen

    largest = [np.abs(error).max(axis=1) for error in errors(times[:_FIRST])]
    noise = float(np.quantile(np.concatenate(largest), 0.95))
    above, below = seen >= value - noise, -seen >= value - noise
    excess, shortfall = [], []
    for error in errors(times):
        candidates = np.concatenate([error[:, above], -error[:, below]], axis=1)
        excess.append(candidates.max(axis=1))
        shortfall.append(side * error[:, farthest])
    return Distance(value / n, np.concatenate(excess) / n, np.concatenate(shortfall) / n)


def ratio_interval(
    above: Distance, below: Distance, *, confidence: float = 0.95
) -> tuple[float, float]:
    """The interval of the ratio of two distances whose errors are from the same resamples.

    The ratios ``r`` for which ``above - r below`` is within its resampled errors (Fieller):
    from 0, and to infinity where `below` may be 0. As the errors are taken too high and too
    low, it covers more often than it says.
    """
    tail = (1.0 - confidence) / 2.0

    def too_low(ratio: float) -> bool:
        """Whether the ratio is so low that chance does not explain what was seen."""
        error = float(np.quantile(above.excess - ratio * below.shortfall, 1.0 - tail))
        return above.value - ratio * below.value > error

    def not_too_high(ratio: float) -> bool:
        error = float(np.quantile(above.shortfall - ratio * below.excess, tail))
        return not above.value - ratio * below.value < error  # NaN of an infinite ratio is not

    seen = above.value / below.value if below.value else math.inf
    lower = halved(too_low, 0.0, min(seen, _FAR))[0] if too_low(0.0) else 0.0
    most = seen
    for _ in range(_DOUBLINGS):
        if not not_too_high(most):
            return lower, halved(not_too_high, seen, most)[0]
        most = 2.0 * most + _STEP
    return lower, math.inf


def _numbers(sample: ArrayLike) -> Floats:
    array = real_array(sample, "a sample", "ks_distance", cure="give losses or confidences")
    missing = bool(np.isnan(array).any())
    if array.ndim != 1 or not len(array) or missing:
        raise EstimationError(
            f"a sample of shape {array.shape}" + " with NaN" * missing,
            cure="give one number for each of at least one sample",
            where="ks_distance",
        )
    return array


@dataclass(frozen=True)
class Correlation:
    """How two numbers of the same `count` things go together.

    `rank` is Spearman's correlation: 1 if one number always rises with the other. `linear` is
    Pearson's: 1 if they are on a rising line; NaN with an interval from -1 to 1 where a number is
    infinite.
    """

    rank: Estimate
    linear: Estimate
    count: int


def correlation(x: ArrayLike, y: ArrayLike, *, confidence: float = 0.95) -> Correlation:
    """The correlations of ranks and of values.

    `x` and `y` have the shape (n,), at least 4, neither of one value only: otherwise, or where
    one is NaN, an EstimationError is raised. Infinities are values like others for ranks.

    Notes
    -----
    Intervals are normal on the scale of ``atanh``: with variance ``1 / (n - 3)`` for the
    linear one (Fisher), ``(1 + r^2 / 2) / (n - 3)`` for that of ranks (Bonett and Wright,
    Psychometrika 65, 2000). Ranks that agree wholly would get no width: there the interval is that
    of ranks that differ by one swap of neighbours, ``r = 1 - 12 / (n (n^2 - 1))``, up to 1.

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
    spread = 1.0 + min(abs(ranks), most) ** 2 / 2.0
    linear = Estimate(math.nan, -1.0, 1.0)
    if np.isfinite(one).all() and np.isfinite(other).all():
        linear = _interval(_pearson(one, other), 1.0 - 1e-15, 1.0 / (n - 3), confidence)
    return Correlation(_interval(ranks, most, spread / (n - 3), confidence), linear, n)


def differ_enough(x: Floats, y: Floats) -> bool:
    """Whether `correlation` can say something of them: four pairs, and no side constant."""
    return len(x) >= _FEWEST and not ((x == x[0]).all() or (y == y[0]).all())


def _ranks(x: Floats) -> Floats:
    """From 1, equal ones sharing their mean; scipy.stats has it too, for 44 MiB of memory."""
    _, place, counts = np.unique(x, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(counts) - (counts - 1) / 2.0)[place])


def _pearson(x: Floats, y: Floats) -> float:
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
