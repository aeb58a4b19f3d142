"""Exposure from counts of weighted leaves, with intervals that respect skewed weights.

The weighted count of the candidates up to a cost is unbiased, and so is a rank, unless certain
facts move it. Its logarithm is not: exposure, ``log2|R| - log2 rank``, comes out too high on
average by about half the relative variance of the rank, in units of 1/ln 2 bits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import SupportsIndex

import numpy as np
from numpy.typing import NDArray

from canary.errors import EstimationError
from canary.statistics.exposures import (
    IMPORTANCE,
    RANK_AND_DRAWS,
    Exposure,
    exposure_by_bounds,
    exposure_by_bounds_and_draws,
)
from canary.statistics.number_checks import check_confidence, exact_size

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

_ROUNDING = 1e-9


@dataclass(frozen=True)
class ImportanceCount:
    """An unbiased count of leaves, from a sample of them.

    Parameters
    ----------
    total, deviation : float
        Sum of the weights of the leaves found, and an estimate of its standard deviation. Its
        square may be beyond float64, as sizes of spaces go up to 2^1000.
    found, unseen : int
        Leaves found: so many there are at least; and how many more there are at most, for certain.
    heaviest : float or None
        The largest weight among them and some hundred leaves beyond, times the leaves of a
        node: so much may one node weigh that was missed. None if the sample has not that many.
    """

    total: float
    deviation: float
    found: int
    heaviest: float | None
    unseen: int

    @property
    def exact(self) -> bool:
        """Whether all leaves that count were found."""
        return self.unseen == 0

    @property
    def effective(self) -> float | None:
        """Effective sample size: Poisson hits of the same relative variance; None if exact."""
        if self.deviation <= 0.0:
            return None
        return (self.total / self.deviation) ** 2

    def interval(self, confidence: float) -> tuple[int, int] | None:
        """Ends of the interval for the number of leaves, each for half of the error.

        None where the sample does not carry one.

        Notes
        -----
        As `weighted_interval`. Here the heaviest weight is also that of leaves somewhat dearer,
        and a hit is a node with the leaves below it. Then certain facts: whole numbers, from
        `found` to `found + unseen`.
        """
        if self.exact:
            return self.found, self.found
        if self.heaviest is None:
            return None
        seen = self.total, self.deviation
        low, high = weighted_interval(seen, self.heaviest, (1.0 - confidence) / 2.0)
        most = self.found + self.unseen
        first = min(max(math.ceil(low - _ROUNDING * low), self.found), most)
        last = min(max(math.floor(high + _ROUNDING * high), self.found), most)
        return first, max(first, last)


def weighted_interval(
    seen: tuple[float, float], heaviest: float, tail: float
) -> tuple[float, float]:
    """Ends of the interval for a sum of weighted hits, each for an error of `tail`.

    Parameters
    ----------
    seen : tuple of float
        The estimate and its standard deviation.
    heaviest : float
        What one hit may weigh that was missed.

    Notes
    -----
    The lower end is a quantile of the gamma distribution with this mean and standard deviation
    (Fay and Feuer, Statistics in Medicine 16, 1997). The upper one is a quantile of an even
    mixture of that distribution and of the one with one more hit of weight `heaviest` added to
    mean and variance (mid-p: Fay and Kim, Biometrical Journal 59, 2017).
    """
    total, deviation = seen
    more = total + heaviest, math.hypot(deviation, heaviest)
    return _quantile(tail, *seen), _mixed_quantile(1.0 - tail, seen, more)


def _quantile(share: float, mean: float, deviation: float) -> float:
    """Of a gamma distribution, which may be a point."""
    from scipy.special import gammaincinv

    if deviation <= 0.0:
        return mean
    part = deviation / mean
    return float(gammaincinv(part**-2, share)) * deviation * part


def _mixed_quantile(share: float, one: tuple[float, float], other: tuple[float, float]) -> float:
    """Of an even mixture of two gamma distributions, each by mean and standard deviation.

    The first may be a point.
    """
    from scipy.optimize import brentq
    from scipy.special import gammainc

    unit = other[0]  # sizes go up to 2^1000

    def excess(value: float) -> float:
        below = 0.0
        for mean, deviation in (one, other):
            if deviation <= 0.0:
                below += float(value * unit >= mean)
            else:
                scaled = value * (unit / deviation) * mean / deviation
                below += float(gammainc((mean / deviation) ** 2, scaled))
        return below / 2.0 - share

    low, high = sorted(_quantile(share, *each) / unit for each in (one, other))
    if excess(low) >= 0.0 or excess(high) <= 0.0:  # to within rounding, they are one
        return high * unit
    return float(brentq(excess, low, high, xtol=1e-12, rtol=1e-12)) * unit


@dataclass(frozen=True)
class RankCount:
    """What a sample tells of the rank of one canary.

    Parameters
    ----------
    point, below, up_to : ImportanceCount
        Other candidates of ``Px <= Px(canary)``, of ``Px < Px(canary) - noise`` and of ``Px
        <= Px(canary) + noise``. They are the same where there is no noise.
    known, known_below, known_up_to : int
        To be added to each: the canary itself, and those that were counted one by one.
    """

    point: ImportanceCount
    below: ImportanceCount
    up_to: ImportanceCount
    known: int
    known_below: int
    known_up_to: int

    @property
    def certain(self) -> tuple[int, int]:
        """The rank is between these, to within the noise, whatever the sample missed."""
        most = self.known_up_to + self.up_to.found + self.up_to.unseen
        return self.known_below + self.below.found, most

    def interval(self, confidence: float) -> tuple[int, int] | None:
        """Ends of the interval for the rank; None where the sample carries none."""
        low, high = self.below.interval(confidence), self.up_to.interval(confidence)
        if low is None or high is None:
            return None
        return self.known_below + low[0], max(self.known_up_to + high[1], self.known)


def exposure_by_importance(
    counts: Sequence[RankCount],
    uniform: Sequence[Exposure],
    *,
    space_size: SupportsIndex,
    confidence: float = 0.95,
) -> list[Exposure]:
    """Exposure of each canary from weighted counts of the candidates as likely as it.

    Parameters
    ----------
    counts : sequence of RankCount
    uniform : sequence of Exposure
        Of the same canaries by uniform draws (`exposure_by_draws`), in the same order.
    space_size : int
    confidence : float

    Returns
    -------
    list of Exposure
        The interval is certain, and has no confidence, where everything that may count was
        found. Where the sample carries no interval it is that of the uniform draws, cut by
        certain facts, and the method says so: `UNIFORM_DRAWS`, or `RANK_AND_DRAWS` where
        those cut it. ``effective_draws`` is the effective sample size of the count; None
        where the estimate is no weighted count, or all that count were found.

    Notes
    -----
    No estimate enters a p-value. It is that of `exposure_by_bounds_and_draws`: of the largest
    rank that is certain, or of the uniform draws.
    """
    where = "exposure_by_importance"
    size = exact_size(space_size, where)
    check_confidence(confidence, where)
    if len(counts) != len(uniform):
        raise EstimationError(
            f"{len(counts)} counts and {len(uniform)} exposures by uniform draws",
            cure="give one of each per canary, in the same order",
            where=where,
        )
    exposures = []
    for count, drawn in zip(counts, uniform, strict=True):
        least, most = count.certain
        # What was found is all there is where nothing was missed, whatever chance it had.
        exact = count.up_to.exact
        rank = count.known + (count.point.found if exact else count.point.total)
        bounds = exposure_by_bounds(
            lower=least,
            upper=min(most, size),
            rank=int(rank) if exact else None,
            space_size=size,
        )
        exposure = exposure_by_bounds_and_draws(bounds, drawn)
        ends = count.interval(confidence)
        if exact:
            exposure = replace(exposure, method=IMPORTANCE)
        elif ends is None:
            uncut = drawn.bits, drawn.lower_bits, drawn.upper_bits
            if (exposure.bits, exposure.lower_bits, exposure.upper_bits) == uncut:
                exposure = replace(exposure, method=drawn.method)
            else:
                exposure = replace(exposure, method=RANK_AND_DRAWS)
        else:
            first, last = ends[0], min(ends[1], size)
            exposure = replace(
                exposure,
                method=IMPORTANCE,
                bits=math.log2(size / min(max(rank, first), last)),
                lower_bits=math.log2(size / last),
                upper_bits=math.log2(size / first),
                confidence=confidence,
                effective_draws=count.point.effective,
            )
        exposures.append(exposure)
    return exposures


def count_deviation(
    counts: Ints | Floats, weights: Floats, parents: Ints, levels: Sequence[int]
) -> float:
    """Standard deviation of ``weights @ counts``; its square has no bias for independent draws.

    Parameters
    ----------
    counts : array of shape (n,)
        Leaves right below each node, or what is to be summed there.
    weights : float64 array of shape (n,)
        One over the chance that the node was entered; the root's is 1.
    parents : int64 array of shape (n,)
        The node above; nodes come level by level, the root first.
    levels : sequence of int
        Nodes of each level.

    Notes
    -----
    Two nodes are entered together with the chance ``p_u p_v / p_a``, a being where their
    paths part. So the estimate of Horvitz and Thompson (Journal of the American Statistical
    Association 47, 1952) of the variance is ``sum over u, v of (1 - p_a) s_u s_v`` with ``s =
    weight * count``, and in one pass up the tree ``sum over v of (1 / w_parent(v) - 1 / w_v)
    S_v**2``, S_v being the sum of s below v. Draws that are spread evenly over a level vary less.
    """
    # In units of the largest weight that counts, so that no square leaves float64.
    unit = float(weights[counts > 0].max(initial=1.0))
    sums, shares = weights / unit * counts, 1.0 / weights
    variance, stop = 0.0, len(sums)
    for size in reversed(levels[1:]):
        here = slice(stop - size, stop)
        lost = shares[parents[here]] - shares[here]
        variance += float(lost @ sums[here] ** 2)
        np.add.at(sums, parents[here], sums[here])
        stop -= size
    return unit * math.sqrt(variance)
