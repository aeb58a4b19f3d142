"""Means of few numbers, and differences of such means: Student's and Welch's intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, variance
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Estimated:
    """A mean or a difference of means, in the unit of the numbers.

    The ends and the p-value (two-sided, of the value 0) are None where the numbers have no spread,
    or are fewer than two of a kind.
    """

    value: float
    lower: float | None = None
    upper: float | None = None
    p_value: float | None = None


def mean_of(values: Sequence[float], confidence: float) -> Estimated:
    """The mean of some numbers with Student's interval."""
    return _estimated(fmean(values), (values,), confidence)


def difference_of(more: Sequence[float], less: Sequence[float], confidence: float) -> Estimated:
    """The mean of the first numbers less that of the others, with Welch's interval.

    The numbers of a kind are independent, of one distribution that is nearly normal; the two kinds
    may vary by different amounts.
    """
    return _estimated(fmean(more) - fmean(less), (more, less), confidence)


def _estimated(value: float, kinds: Sequence[Sequence[float]], confidence: float) -> Estimated:
    from scipy.special import stdtr

    sizes = [len(kind) for kind in kinds]
    if min(sizes) < 2 or not any(spreads := [variance(kind) for kind in kinds]):
        return Estimated(value)
    half, freedom = welch_half(np.array(spreads), np.array(sizes), confidence)
    error = math.sqrt(sum(v / n for v, n in zip(spreads, sizes, strict=True)))
    p_value = 2.0 * float(stdtr(freedom, -abs(value) / error))
    return Estimated(value, value - float(half), value + float(half), p_value)


def welch_half(variances: Any, sizes: Any, confidence: float) -> tuple[Floats, Floats]:
    """Half of the interval of a difference of means, and its degrees of freedom.

    Parameters
    ----------
    variances, sizes : sequence of arrays
        Of each kind of numbers, its unbiased variance and how many there are. One kind alone gives
        Student's interval of its mean.
    confidence : float
        Of both ends together.
    """
    from scipy.special import stdtrit

    parts = [v / np.maximum(n, 1) for v, n in zip(variances, sizes, strict=True)]
    total, least = sum(parts), np.maximum(np.min(np.array(sizes), axis=0) - 1, 1)
    below = sum(p**2 / np.maximum(n - 1, 1) for p, n in zip(parts, sizes, strict=True))
    freedom = np.where(below > 0, total**2 / np.where(below > 0, below, 1.0), least)
    freedom = np.maximum(freedom, least)
    return stdtrit(freedom, (1 + confidence) / 2) * np.sqrt(total), freedom
