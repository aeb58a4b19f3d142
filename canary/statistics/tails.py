"""How low a number lies among those of a null hypothesis: quantiles, and evidence in bits.

A null sample ``x_1 <= ... <= x_m`` stands for what would be seen under the hypothesis. Low
numbers speak against it: it is rejected at level alpha when the number is at most ``c``, the
lower alpha-quantile. Three rules say what that is.

empirical
    The largest number ``c`` with ``(1 + #{x_i <= c}) / (m + 1) <= alpha``: the last one below
    ``x_k``, ``k = floor(alpha (m + 1))``. The number that is judged counts as one of the null,
    so that one which is exchangeable with them is rejected with probability at most alpha,
    whatever m is. Equal numbers are no evidence: a number that ties with ``x_k`` stays.
linear
    ``x_i`` is the quantile at ``i / (m + 1)``, with straight lines between. Within ties it is
    the last number below them.
gaussian
    The null is Gaussian after a transformation by the caller; mean and variance are estimated.
    The quantile is that of the next draw, ``mean + s sqrt(1 + 1/m) t`` with Student's t of
    ``m - 1`` degrees of freedom, which is exact for every m.

Below the lowest order statistic, at ``alpha < 1 / (m + 1)``, the first two reject nothing: the
quantile is minus infinity. Above the highest, nothing is rejected that is larger than all of
the null. The Gaussian rule goes on.

The **evidence** against the hypothesis is ``-log2 p`` bits, with p the least alpha at which it
is rejected; so ``evidence >= -log2 alpha`` is the decision at alpha, for every alpha at once.
All numbers are arrays of float64, all counts of int64, one entry for each null.
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from canary.errors import EstimationError
from canary.records.validation import one_of
from canary.statistics.number_checks import LN2

Rule = Literal["empirical", "linear", "gaussian"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_SLACK = 1e-12
"""So that 0.29 of 100 is 29, whatever rounding says."""


def check_level(alpha: float, where: str) -> None:
    """An EstimationError unless it lies between 0 and 1."""
    if not 0.0 < alpha < 1.0:
        raise EstimationError(
            f"alpha must be between 0 and 1, got {alpha!r}",
            cure="it is the share of non-members that may be called members: 0.01, say",
            where=where,
        )


def check_rule(rule: str, where: str) -> None:
    """An EstimationError unless there is such a rule."""
    one_of(rule, "rule", get_args(Rule), error=EstimationError, where=where)


def bits_needed(alpha: float) -> float:
    """The evidence from which on the hypothesis is rejected at `alpha`."""
    return float(-np.log2(alpha * (1.0 + _SLACK)))


def quantile_place(alpha: float, count: Ints) -> tuple[Ints, Floats]:
    """Which order statistic is at `alpha` of `count` numbers, and how far beyond it alpha is.

    The place counts from 1, and is 0 where there is none yet; how far, from 0 to 1, is a share
    of the way to the next.
    """
    rank = alpha * (count + 1.0) * (1.0 + _SLACK)
    place = np.minimum(np.floor(rank), count)
    return place.astype(np.int64), np.clip(rank - place, 0.0, 1.0)


def rank_quantile(place: Ints, beyond: Floats, low: Floats, high: Floats, rule: Rule) -> Floats:
    """The lower quantile by the empirical or the linear rule.

    Parameters
    ----------
    place, beyond
        As `quantile_place` gives them.
    low, high
        The order statistic at `place` and the next: anything where there is none at `place`,
        and for `high` NaN behind the last. The empirical rule does not look at `high`.
    """
    last_below = np.nextafter(low, -np.inf)
    if rule == "empirical":
        return np.where(place == 0, -np.inf, last_below)
    with np.errstate(invalid="ignore", over="ignore"):
        step = np.where(beyond > 0, beyond * (high - low), 0.0)
        between = np.minimum(low + step, np.nextafter(high, -np.inf))
    inner = np.where(high > low, between, last_below)
    return np.where(place == 0, -np.inf, np.where(np.isnan(high), last_below, inner))


def rank_evidence(
    values: Floats, below: Ints, count: Ints, low: Floats, high: Floats, *, rule: Rule
) -> Floats:
    """Evidence of each value by the empirical or the linear rule, in bits.

    Parameters
    ----------
    below, count
        How many of its null are at most the value, and how many there are, 1 or more.
    low, high
        For the linear rule: the largest of the null that is at most the value, and the
        smallest that is larger; anything where there is none.
    """
    if rule == "empirical":
        return np.log2((count + 1.0) / (below + 1.0))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        share = (values - low) / (high - low)
    inside = (below > 0) & (below < count)
    share = np.where(inside & (share > 0), np.minimum(share, 1.0), 0.0)
    rank = np.where(below == count, count + 1.0, np.maximum(below, 1) + share)
    return np.log2((count + 1.0) / rank)


def gaussian_quantile(alpha: float, mean: Floats, scale: Floats, freedom: Floats) -> Floats:
    """The upper alpha-quantile of the next draw, where high values speak against the null.

    `scale` is ``s sqrt(1 + 1/m)``, `freedom` infinite where the variance is known.
    """
    from scipy.special import ndtri, stdtrit

    level = alpha * (1.0 + _SLACK)
    known = np.isinf(freedom)
    t = np.where(known, -ndtri(level), -stdtrit(np.where(known, 1.0, freedom), level))
    return np.asarray(mean + scale * t)


def gaussian_evidence(z: Floats, freedom: Floats) -> Floats:
    """Evidence in bits of ``z = (value - mean) / scale``, where high ones speak against the null.

    Scale and freedom are those of `gaussian_quantile`.
    """
    from scipy.special import log_ndtr, stdtr

    known = np.isinf(freedom)
    if known.all():
        return np.asarray(-log_ndtr(-z) / LN2)
    with np.errstate(divide="ignore"):
        student = -np.log2(stdtr(np.where(known, 1.0, freedom), -z))
    return np.asarray(np.where(known, -log_ndtr(-z) / LN2, student))
