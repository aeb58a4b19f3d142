"""Fisher's statistic of canaries that share draws: its exact distribution.

Canaries that were not learned and draws are exchangeable, so the hits of k canaries among n
draws are a draw of k balls from Pólya's urn: every multiset of k numbers of 0..n is equally
likely. The p-values ``(1 + hits) / (1 + n)`` are few where draws are few, and rise and fall
together; an approximation that knows neither alarms too rarely.
"""

from __future__ import annotations

import math
import sys
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MOST = 100
"""Canaries for which it is computed: the work grows with their square, and more."""

MOST_DRAWS = 10**9
"""Draws for which it is computed: of more, a float no longer tells the number of hits."""

_FINE = 64  # points of the lattice in a standard deviation of the statistic
_PLAIN = 1e-6  # smaller tails lose digits to rounding without a tilt
_TILTS = 16


def urn_tails(p_values: Floats, draws: int) -> Floats:
    """p-values of groups of canaries by Fisher's method, from the exact distribution.

    Parameters
    ----------
    p_values : float64 array of shape (..., k)
        ``(1 + hits) / (1 + draws)`` of canaries that were compared with the same draws; a
        group in each last row, of at most `MOST`.
    draws : int
        At most `MOST_DRAWS`.

    Returns
    -------
    float64 array of shape (...)
        Chance of hits as far out in a group of which none was learned.

    Notes
    -----
    The statistic is the sum of ``-ln p``, each rounded to a lattice with 64 points in its
    standard deviation; so rounded it is a statistic of its own, and its distribution is exact.

    The multisets of k of the values are counted by their sum: the complete homogeneous
    symmetric polynomial of the values' powers of z, by Newton's identity
    ``k h_k = sum_i p_i h_(k-i)`` at each frequency of z. All terms are positive, so that
    rounding stays near 1e-12. Smaller tails are those of values that were weighted by
    ``exp(tilt * value)`` first, which puts the observed sum into the middle.

    Time is O(k**2.5 log n), memory O(k**1.5 log n), whatever the number n of draws.
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
        found = zip(tilts.tolist(), sums[deep].tolist(), strict=True)
        tails[deep] = [_tails(draws, k, min(tilt, _TILTS - 1))[at] for tilt, at in found]
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
