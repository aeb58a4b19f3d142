"""p-values of several canaries, made into one.

``2**-exposure`` is a p-value: a canary that was not learned has ``Pr[p <= u] <= u`` for
``p = rank/|R|`` (exact), ``rank_upper/|R|`` and ``(1 + hits)/(1 + draws)``.

Those from the same n draws rise and fall together, and are few where draws are few. Canaries
that were not learned and draws are exchangeable, so the hits of k canaries are a draw of k balls
from Pólya's urn: every multiset of k numbers of 0..n is equally likely.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from functools import lru_cache
from typing import SupportsIndex

import numpy as np
from numpy.typing import ArrayLike, NDArray

from canary.errors import EstimationError
from canary.records.record import Record
from canary.statistics.number_checks import positive_integer, real_array

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

MOST = 100
"""Canaries whose p-value is exact: the work grows with their square, and more."""

MOST_DRAWS = 10**9
"""Draws for which it is exact: of more, a float no longer holds the number of hits."""

_FINE = 64  # points of the lattice in a standard deviation of the statistic
_PLAIN = 1e-6  # smaller tails lose digits to rounding without a tilt
_TILTS = 16


@dataclass(frozen=True)
class CombinedP(Record):
    """One p-value for a group of canaries.

    Parameters
    ----------
    p_value : float
        Probability of exposures at least as large in sum if none was learned.
    statistic : float
        The test statistic, ``-2 sum ln p``, after the correction if there was one.
    degrees_of_freedom : int
        Of the chi-square distribution that it is compared with unless the draws are shared.
    count : int
        Canaries in the group.
    shared_draws : int or None
        Number of draws that the p-values have in common; None if they are exact.
    """

    p_value: float
    statistic: float
    degrees_of_freedom: int
    count: int
    shared_draws: int | None


def fisher(p_values: ArrayLike, *, shared_draws: SupportsIndex | None = None) -> CombinedP:
    """One p-value for canaries of which none was learned, by Fisher's method.

    Parameters
    ----------
    p_values : array_like of shape (k,)
        One per canary, above 0 and at most 1.
    shared_draws : int, optional
        Number of draws that all the p-values were made with, the smallest of any format; None
        if they are independent.

    Raises
    ------
    EstimationError
        If there is no p-value, one is outside (0, 1], or `shared_draws` is not positive.

    Notes
    -----
    ``T = -2 sum ln p = 2 ln 2 sum(exposure)`` is stochastically at most chi-square with
    ``2 k`` degrees of freedom, if the p-values are independent. Where all are
    ``(1 + hits) / (1 + n)`` with the same draws, for at most 100 canaries and a thousand
    million draws, the p-value is exact (`urn_tails`).

    Elsewhere, as where some canaries were ranked for certain, the dependence leaves the mean
    of ``T`` at ``2 k`` and multiplies its variance by ``1 + g``, ``g = k / n``; so
    ``(T + 2 k (sqrt(1 + g) - 1)) / sqrt(1 + g)`` is compared (Bates et al., Testing for outliers
    with conformal p-values, Annals of Statistics 51, 2023, section 2.5). That is asymptotic:
    where draws are few it alarms too rarely.

    Examples
    --------
    >>> round(fisher([0.01]).p_value, 12)
    0.01
    >>> fisher([0.01, 0.5], shared_draws=200).degrees_of_freedom
    4
    """
    where = "fisher"
    p = _p_values(p_values, where)
    draws = None
    if shared_draws is not None:
        cure = "give the number of draws, or None for p-values from exact ranks"
        draws = positive_integer(shared_draws, "shared_draws", where, cure=cure)
    statistic = -2.0 * math.fsum(np.log(p)) + 0.0  # no -0.0
    corrected, tail = _compared(p, np.asarray(statistic), draws)
    return CombinedP(
        p_value=float(tail),
        statistic=float(corrected),
        degrees_of_freedom=2 * len(p),
        count=len(p),
        shared_draws=draws,
    )


def fisher_tails(p_values: Floats, *, shared_draws: int | None = None) -> Floats:
    """`fisher` of many groups at once, for studies of what a test alarms at.

    `p_values`, of shape (..., k), holds a group in each last row; the result has shape (...).
    """
    statistic = np.asarray(-2.0 * np.log(p_values).sum(axis=-1))
    return _compared(p_values, statistic, shared_draws)[1]


def _compared(p_values: Floats, statistic: Floats, draws: int | None) -> tuple[Floats, Floats]:
    """The statistic of each group after the correction if there is one, and its tail."""
    from scipy.special import gammaincc

    k = p_values.shape[-1]
    if draws is not None and k <= MOST and draws <= MOST_DRAWS:
        hits = p_values * (1 + draws)  # and the canary itself, where all are such shares
        if (np.abs(hits - np.rint(hits)) < 1e-6).all() and (hits > 0.5).all():
            return statistic, urn_tails(p_values, draws)
    if draws is not None:
        scale = math.sqrt(1.0 + k / draws)
        statistic = (statistic + 2.0 * k * (scale - 1.0)) / scale
    # Pr[chi2(2 k) >= t] = Q(k, t / 2); where it underflows, the smallest float bounds it.
    return statistic, np.asarray(np.maximum(gammaincc(k, statistic / 2.0), sys.float_info.min))


def holm(p_values: ArrayLike) -> Floats:
    """p-values of several groups, each adjusted for having looked at all of them.

    To reject where one is at most a level wrongs any group that has nothing to reject with at most
    that probability, however the groups depend on each other (Holm, Scandinavian Journal of
    Statistics 6, 1979). An EstimationError says that there is no p-value, or one outside (0, 1].

    Examples
    --------
    >>> holm([0.04, 0.01, 0.03]).tolist()
    [0.06, 0.03, 0.06]
    """
    p = _p_values(p_values, "holm")
    order = np.argsort(p, kind="stable")
    steps = np.arange(len(p), 0, -1)
    adjusted = np.empty(len(p))
    adjusted[order] = np.minimum(np.maximum.accumulate(p[order] * steps), 1.0)
    return adjusted


def _p_values(given: ArrayLike, where: str) -> Floats:
    p = real_array(given, "p_values", where, cure="give one per canary")
    if p.ndim != 1 or not len(p):
        raise EstimationError(
            f"p_values must hold at least one number in one dimension, got shape {p.shape}",
            cure="give one p-value per canary",
            where=where,
        )
    bad = np.flatnonzero(~((p > 0.0) & (p <= 1.0)))
    if len(bad):
        raise EstimationError(
            f"p-values are above 0 and at most 1, got {p[bad[0]]} at position {bad[0]}",
            cure="count the canary itself: (1 + hits) / (1 + draws), or rank / |R|; an exposure "
            "read off a curve has no p-value",
            where=where,
        )
    return p


def urn_tails(p_values: Floats, draws: int) -> Floats:
    """p-values of groups of canaries by Fisher's method, from the exact distribution.

    Parameters
    ----------
    p_values : float64 array of shape (..., k)
        ``(1 + hits) / (1 + draws)`` of canaries that were compared with the same draws; a
        group in each last row, of at most `MOST`. The result has shape (...).
    draws : int
        At most `MOST_DRAWS`.

    Notes
    -----
    The statistic is the sum of ``-ln p``, each rounded to a lattice with 64 points in its
    standard deviation; so rounded it is a statistic of its own, and its distribution is exact.

    The multisets of k of the values are counted by their sum: the complete homogeneous
    symmetric polynomial of the values' powers of z, by Newton's identity
    ``k h_k = sum_i p_i h_(k-i)`` at each frequency of z. All terms are positive, so that
    rounding stays near 1e-12. Smaller tails are those of values that were weighted by
    ``exp(tilt * value)`` first. O(k**2.5 log n) for any number n of draws.
    """
    k = p_values.shape[-1]
    if k == 1:
        return np.asarray(p_values[..., 0])
    step, above = _lattice(draws, k)
    ranks = np.rint(p_values * (1 + draws)).astype(np.int64)
    sums = (len(above) - np.searchsorted(above[::-1], ranks)).sum(axis=-1)
    tails = np.asarray(_tails(draws, k, 0)[sums])
    deep = tails < _PLAIN
    if deep.any():
        # The sum of k exponential values that are tilted by t is about k / (1 - t).
        tilts = np.ceil(_TILTS * np.maximum(1.0 - k / (step * sums[deep]), 0.0)).astype(int)
        tails[deep] = [
            _tails(draws, k, min(tilt, _TILTS - 1))[place]
            for tilt, place in zip(tilts.tolist(), sums[deep].tolist(), strict=True)
        ]
    return np.asarray(np.clip(tails, sys.float_info.min, 1.0))


def urn_critical(draws: int, k: int, level: float) -> float:
    """The sum of ``-ln p`` from which the p-value of a group is at most `level`, in nats."""
    if k == 1:
        return -math.log(level)
    tails = _tails(draws, k, 0)
    place = len(tails) - int(np.searchsorted(tails[::-1], level, side="right"))
    return (place - 0.5) * _lattice(draws, k)[0]


def _lattice(draws: int, k: int) -> tuple[float, Ints]:
    """The step, and for each place how many of the ``1 + draws`` values lie above it.

    The value of ``1 + hits`` is the number of places that it lies above: at least that many.
    """
    step = math.sqrt(k) / _FINE
    places = np.arange(math.log(1 + draws) / step + 1.0)
    above = np.floor((1 + draws) * np.exp(-(places + 0.5) * step)).astype(np.int64)
    return step, above[above > 0]


@lru_cache(maxsize=64)
def _tails(draws: int, k: int, tilt: int) -> Floats:
    """Chance of each sum or a larger one, `tilt` in sixteenths."""
    from scipy.special import logsumexp

    step, above = _lattice(draws, k)
    many = -np.diff(np.concatenate([[1 + draws], above, [0]])).astype(np.float64)
    places = np.flatnonzero(many)
    weight = tilt / _TILTS * step
    orders = np.arange(1, k + 1)
    # Logarithms of the power sums and of the polynomials at z = 1.
    logs = np.log(many[places]) + weight * orders[:, None] * places
    powers = np.concatenate([[0.0], logsumexp(logs, axis=1)])
    whole = np.zeros(k + 1)
    for j in orders:
        whole[j] = logsumexp(powers[1 : j + 1] + whole[j - 1 :: -1][:j]) - math.log(j)
    top = k * len(above)
    size = 1 << top.bit_length()
    spectra = np.zeros((k + 1, size // 2 + 1), np.complex128)
    for order in orders:
        spread = np.zeros(size)
        spread[order * places] = np.exp(logs[order - 1] - powers[order])
        spectra[order] = np.fft.rfft(spread)
    found = np.ones_like(spectra)
    for j in orders:
        shares = np.exp(powers[1 : j + 1] + whole[j - 1 :: -1][:j] - whole[j]) / j
        found[j] = np.einsum("i,iw,iw->w", shares, spectra[1 : j + 1], found[j - 1 :: -1][:j])
    chances = np.maximum(np.fft.irfft(found[k], size)[: top + 1], 0.0)
    sets = math.lgamma(draws + k + 1) - math.lgamma(draws + 1) - math.lgamma(k + 1)
    with np.errstate(under="ignore"):
        untilted = chances * np.exp(whole[k] - sets - weight * np.arange(top + 1))
    return np.asarray(untilted[::-1].cumsum()[::-1])
