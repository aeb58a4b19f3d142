"""Exposure beyond what draws can count: the paper's estimate, read off a fitted curve.

The rank of a canary is taken to be what a skew-normal curve, fitted to uniform draws, holds at
or below it: a number and not only a bound, if the curve goes on as it began.
"""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass
from typing import SupportsIndex

import numpy as np
from numpy.typing import ArrayLike, NDArray

from canary.errors import EstimationError
from canary.records.record import Record
from canary.statistics.exposures import MOST_BITS, SKEW_NORMAL, Exposure, exposure_by_draws
from canary.statistics.number_checks import LN2, check_confidence, checked_px, exact_size
from canary.statistics.skewfit import FEWEST, fit_skew_normal, refit_skew_normal
from canary.statistics.skewnormal import SkewNormal, log_integral

REJECTION_LEVEL = 0.01
"""A curve whose Kolmogorov-Smirnov p-value is at or below this is rejected.

A right curve is rejected in 4 to 8 % of cases, not in 1 %: it was fitted to as few draws as
it is tested on, and its own error adds to the distance. That errs towards distrust.
"""

_TAIL = 1e-3


@dataclass(frozen=True)
class SkewNormalFit(Record):
    """A skew-normal curve, fitted on one half of the draws and tested on the other.

    Parameters
    ----------
    curve : SkewNormal
        Fitted to `fitted` draws by maximum likelihood.
    fitted, tested : int
        Draws in the two halves, which have none in common.
    ks_distance, ks_p_value : float
        Kolmogorov-Smirnov D between the curve and the tested draws, and its p-value as if the
        curve had been known beforehand; see `REJECTION_LEVEL`.
    tested_tail_bits : float or None
        Exposure of the tested draw at the empirical 10^-3 quantile: the mean that it has
        under the right curve, about 10 bits. None if fewer than 1,000 draws were tested.
    tail_error_bits : float or None
        By how much the curve's exposure of that draw is larger than `tested_tail_bits`. None
        also where the curve has nothing at or below that draw.
    confidence : float
        Of the intervals.
    replicates : int
        Samples of the bootstrap behind them: those to which a curve could be fitted.
    """

    curve: SkewNormal
    fitted: int
    tested: int
    ks_distance: float
    ks_p_value: float
    tested_tail_bits: float | None
    tail_error_bits: float | None
    confidence: float
    replicates: int

    @property
    def rejected(self) -> bool:
        """Whether the tested draws contradict the curve: p at or below `REJECTION_LEVEL`."""
        return self.ks_p_value <= REJECTION_LEVEL

    @property
    def tail_error_sd_bits(self) -> float | None:
        """Standard deviation of `tail_error_bits` by the luck of the tested draws alone."""
        if self.tested_tail_bits is None:
            return None
        from scipy.special import polygamma

        k = math.floor(self.tested * _TAIL)
        return float(np.sqrt(polygamma(1, k) - polygamma(1, self.tested + 1))) / LN2

    def _check(self) -> None:
        if self.tested_tail_bits is None and self.tail_error_bits is not None:
            raise ValueError("tail_error_bits needs tested_tail_bits")


def exposure_by_skew_normal(
    canary_px: ArrayLike,
    draws_px: ArrayLike,
    *,
    space_size: SupportsIndex,
    rng: np.random.Generator,
    confidence: float = 0.95,
    replicates: SupportsIndex = 200,
    noise_bits: float = 0.0,
) -> tuple[list[Exposure], SkewNormalFit]:
    """Exposure of each canary under a skew-normal curve fitted to uniform draws.

    Parameters
    ----------
    canary_px, draws_px : array_like of shape (n_canaries,) and (n_draws,)
        Log-perplexities in bits, of the canaries and of 40 or more candidates drawn uniformly
        from the space. Canaries that were learned shall not be among the draws.
    space_size, confidence
        As for `exposure_by_draws`.
    rng : numpy.random.Generator
        Parts the draws into halves, and drives the bootstrap of `replicates`.
    noise_bits : float
        Noise of the model's log-perplexities: no curve is fitted to a smaller spread.

    Returns
    -------
    exposures : list of Exposure
        ``bits`` is ``-log2`` of the integral of the density from 0 to Px, as in section 4.3 of
        Carlini et al., The Secret Sharer, 2019; ``tail_bits`` that of the integral from minus
        infinity. Neither is bounded by log2|R|. There is no p-value. Where the curve has nothing
        at or below the canary, ``bits`` is None and the lower bound that of the bootstrap, or
        that of `exposure_by_draws` if even that is infinite.
    fit : SkewNormalFit
        The curve, and how it did on the draws that it was not fitted to.

    Raises
    ------
    EstimationError
        If there are fewer than 40 draws, no curve can be fitted to one half (`fit_skew_normal`),
        an array is not one-dimensional or finite, or an option is out of range.

    Notes
    -----
    The interval is that of the bootstrap of the fit (percentiles). It covers sampling error and
    nothing else, so that an exposure has no confidence, and `fit` has one. How far the truth is
    from any skew-normal curve is usually more, and grows with every bit beyond the draws.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> draws = rng.normal(30, 2, 2_000)
    >>> (learned,), fit = exposure_by_skew_normal([12.0], draws, space_size=10**6, rng=rng)
    >>> learned.bits > learned.space_bits, learned.p_value, fit.rejected
    (True, None, False)
    """
    from scipy.special import psi
    from scipy.stats import kstest

    where = "exposure_by_skew_normal"
    space_bits = math.log2(exact_size(space_size, where))
    check_confidence(confidence, where)
    count = operator.index(replicates)
    if count < 20:
        raise EstimationError(
            f"replicates={count}, at least 20 were expected",
            cure="200 is usual; fewer cannot show the ends of an interval",
            where=where,
        )
    px = checked_px(canary_px, "canary_px", where)
    draws = checked_px(draws_px, "draws_px", where)
    if len(draws) < 2 * FEWEST:
        raise EstimationError(
            f"{len(draws)} draws are too few to fit a curve on one half and test it on the "
            f"other, {2 * FEWEST} are the least",
            cure="draw more candidates, or enumerate a space that has no more",
            where=where,
        )
    draws = rng.permutation(draws)
    half, rest = draws[: len(draws) // 2], draws[len(draws) // 2 :]
    curve = fit_skew_normal(half, noise_bits=noise_bits)
    replicas = refit_skew_normal(half, curve, replicates=count, rng=rng)
    bits = _bits(curve.log_integral(0.0, px))
    tails = _bits(curve.log_integral(-np.inf, px))
    # Order statistics of the replicas, not interpolated: some of them may be infinite.
    location, scale, shape = (part[:, None] for part in replicas)
    spread = np.sort(_bits(log_integral(-location / scale, (px - location) / scale, shape)), axis=0)
    skip = math.floor((1.0 - confidence) / 2.0 * len(spread))
    lower, upper = np.minimum(spread[skip], bits), np.maximum(spread[-1 - skip], bits)
    counted = exposure_by_draws(px, draws, space_size=space_size, confidence=confidence)
    exposures = [
        Exposure(
            bits=float(bits[i]) if math.isfinite(bits[i]) else None,
            lower_bits=float(lower[i]) if math.isfinite(lower[i]) else counted[i].lower_bits,
            upper_bits=float(upper[i]),
            confidence=None,
            method=SKEW_NORMAL,
            space_bits=space_bits,
            p_value=None,
            draws=len(draws),
            hits=counted[i].hits,
            tail_bits=float(tails[i]) if math.isfinite(tails[i]) else None,
        )
        for i in range(len(px))
    ]

    test = kstest(rest, curve.cumulative)
    tail = error = None
    if len(rest) * _TAIL >= 1.0:
        k = math.floor(len(rest) * _TAIL)
        # The share below the k-th smallest of n is Beta(k, n + 1 - k); of its logarithm,
        # the mean is psi(k) - psi(n + 1).
        tail = float(psi(len(rest) + 1) - psi(k)) / LN2
        quantile = np.partition(rest, k - 1)[k - 1]
        error = float(_bits(curve.log_integral(-np.inf, quantile))) - tail
    return exposures, SkewNormalFit(
        curve=curve,
        fitted=len(half),
        tested=len(rest),
        ks_distance=float(test.statistic),
        ks_p_value=float(test.pvalue),
        tested_tail_bits=tail,
        tail_error_bits=error if error is None or math.isfinite(error) else None,
        confidence=confidence,
        replicates=len(spread),
    )


def skew_normal_bits(
    canary_px: ArrayLike, draws_px: ArrayLike, *, noise_bits: float = 0.0
) -> NDArray[np.float64]:
    """The estimates of `exposure_by_skew_normal` alone, off a curve fitted to all draws.

    For when there is no time for a bootstrap and a test; 20 draws are enough. Infinite where
    the curve has nothing at or below the canary. Raises EstimationError as `fit_skew_normal`.
    """
    px = checked_px(canary_px, "canary_px", "skew_normal_bits")
    curve = fit_skew_normal(draws_px, noise_bits=noise_bits)
    return _bits(curve.log_integral(0.0, px))


def _bits(log_probability: NDArray[np.float64]) -> NDArray[np.float64]:
    # A probability of 1 may come out a rounding above it; adding 0 makes no -0.0 of 0.
    bits = np.maximum(-log_probability / LN2, 0.0) + 0.0
    # So far out in the tail the curve says nothing: as if there were nothing at all.
    return np.where(bits <= MOST_BITS, bits, np.inf)
