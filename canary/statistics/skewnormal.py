"""The skew-normal distribution, its integrals in log space however small they are.

Density ``(2 / w) phi(z) Phi(a z)`` with ``z = (x - x0) / w``: location ``x0``, scale ``w``,
shape ``a``. A shape of plus or minus infinity is the half-normal to the right or to the
left of the location.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import ArrayLike, NDArray

from canary.records.record import Infinite, Record
from canary.statistics.number_checks import LN2

Floats = NDArray[np.float64]

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(48)
_NODES, _WEIGHTS = (_NODES + 1.0) / 2.0, _WEIGHTS / 2.0
# Beyond a fall of exp(-42) nothing is added to a float64.
_FALL_NATS = 42.0
_LOG_ROOT_2PI = 0.5 * math.log(2.0 * math.pi)
# A shape whose square overflows is taken for infinite.
_HALF_NORMAL = 1e150
# Elements of the largest temporary array.
_AT_ONCE = 2**21


@dataclass(frozen=True)
class SkewNormal(Record):
    """One curve over log-perplexities.

    Parameters
    ----------
    location_bits, scale_bits : float
        ``x0`` and ``w``; neither the mean nor the standard deviation.
    shape : float
        ``a``: 0 is the normal distribution, positive leans to the right; may be infinite.
    """

    location_bits: float
    scale_bits: float
    shape: Annotated[float, Infinite(up="+inf")]

    @property
    def mean_bits(self) -> float:
        """Mean of the curve."""
        return self.location_bits + self.scale_bits * _standard_mean(self.shape)

    @property
    def sd_bits(self) -> float:
        """Standard deviation of the curve."""
        return self.scale_bits * math.sqrt(1.0 - _standard_mean(self.shape) ** 2)

    def standard(self, x_bits: ArrayLike) -> Floats:
        """``z`` of each `x_bits`."""
        return (np.asarray(x_bits, np.float64) - self.location_bits) / self.scale_bits

    def log_density(self, x_bits: ArrayLike) -> Floats:
        """Natural logarithm of the density per bit; of any shape."""
        from scipy.special import log_ndtr

        z = self.standard(x_bits)
        if math.isinf(self.shape):
            skewed = np.where(z * np.sign(self.shape) >= 0.0, 0.0, -np.inf)
        else:
            skewed = log_ndtr(self.shape * z)
        return np.asarray(
            LN2 - _LOG_ROOT_2PI - math.log(self.scale_bits) - z * z / 2.0 + skewed, np.float64
        )

    def log_integral(self, low_bits: ArrayLike, high_bits: ArrayLike) -> Floats:
        """Natural logarithm of the probability between two points, which may be infinite."""
        return log_integral(self.standard(low_bits), self.standard(high_bits), self.shape)

    def cumulative(self, x_bits: ArrayLike) -> Floats:
        """Probability up to each point, to an absolute error of 1e-15: fast, for the bulk."""
        from scipy.special import ndtr, owens_t

        z = self.standard(x_bits)
        below: Floats = np.clip(ndtr(z) - 2.0 * owens_t(z, self.shape), 0.0, 1.0)
        return below

    def _check(self) -> None:
        if not self.scale_bits > 0.0:
            raise ValueError("a skew-normal curve has a positive scale")


def log_integral(low: ArrayLike, high: ArrayLike, shape: ArrayLike) -> Floats:
    """Natural logarithm of the integral of ``2 phi(z) Phi(shape z)`` from `low` to `high`.

    Parameters
    ----------
    low, high, shape : array_like
        Ends in standard units, and shapes of any sign, broadcast against each other; infinite
        ones too. Where `high` is not above `low` the logarithm is ``-inf``.

    Returns
    -------
    float64 array of the broadcast shape
        Relative error of the integral about 1e-13 and, where its logarithm is large, a few
        roundings of that; never ``-inf`` because of an underflow.

    Notes
    -----
    Beyond some 50 bits nothing is left of the usual ``Phi(z) - 2 T(z, a)`` (Azzalini and
    Capitanio, The Skew-Normal and Related Families, 2014, section 2.1). Here all terms are on the
    negative half line, where for a shape ``a >= 0`` the integrand has a concave logarithm

        -(1 + a^2) t^2 / 2 + log erfcx(-a t / sqrt 2) + const,

    so from the upper end ``u`` down it falls at least like ``exp(-d s - k s^2 / 2)``, with
    ``d`` its slope at ``u`` and ``k`` its curvature there, and Gauss-Legendre quadrature
    over the part that is not negligible serves. Other cases reduce to it without
    cancellation: ``t -> -t`` mirrors the shape, and where ``Phi(a t)`` is above one half,
    ``Phi(a t) = 1 - Phi(-a t)``. Cost: 96 evaluations of erfcx per element.
    """
    ends = np.broadcast_arrays(*(np.asarray(v, np.float64) for v in (low, high, shape)))
    flat = np.stack([v.ravel() for v in ends])
    out = np.empty(flat.shape[1])
    step = _AT_ONCE // len(_NODES)
    for first in range(0, len(out), step):
        lows, highs, shapes = flat[:, first : first + step]
        left = (np.minimum(lows, 0.0), np.minimum(highs, 0.0))
        right = (-np.maximum(highs, 0.0), -np.maximum(lows, 0.0))
        rare, common = np.where(shapes >= 0, [left, right], [right, left])
        size = np.abs(shapes)
        # Where Phi(a t) <= 1/2, as it is; where it is above, as 1 - Phi(-a t).
        scarce = _left_integral(rare[0], rare[1], size)
        both = LN2 + _left_integral(common[0], common[1], np.zeros_like(size))
        missing = _left_integral(common[0], common[1], size)
        with np.errstate(invalid="ignore"):
            plenty = both + np.log1p(-np.exp(missing - both))
        plenty = np.where(np.isneginf(both), both, plenty)
        out[first : first + step] = np.logaddexp(scarce, plenty)
    return out.reshape(ends[0].shape)


def _left_integral(low: Floats, high: Floats, a: Floats) -> Floats:
    """Logarithm of the integral of ``2 phi(t) Phi(a t)`` over low < t < high <= 0, a >= 0."""
    from scipy.special import erfcx

    empty = ~(high > low) | (a > _HALF_NORMAL)
    length = np.where(empty, 1.0, high) - np.where(empty, 0.0, low)
    a, u = np.where(empty, 0.0, a), np.where(empty, 0.0, high)
    ratio = math.sqrt(2.0 / math.pi) / erfcx(-a * u / math.sqrt(2.0))  # phi / Phi at a u
    slope = -u + a * ratio
    curvature = 1.0 + a * a * np.maximum(ratio * (ratio + a * u), 0.0)
    reach = 2.0 * _FALL_NATS / (np.sqrt(slope**2 + 2.0 * _FALL_NATS * curvature) + slope)
    reach = np.where(empty, 1.0, np.minimum(reach, length))
    s = reach[:, None] * _NODES
    a, u = a[:, None], u[:, None]
    scaled = erfcx(-a * (u - s) / math.sqrt(2.0)) / erfcx(-a * u / math.sqrt(2.0))
    # (t^2 - u^2) / 2 with t = u - s, so that no two large squares are subtracted.
    total = (np.exp(-(1.0 + a * a) * s * (s / 2.0 - u)) * scaled) @ _WEIGHTS
    a, u = a[:, 0], u[:, 0]
    top = -(1.0 + a * a) * u * u / 2.0 - _LOG_ROOT_2PI + np.log(erfcx(-a * u / math.sqrt(2.0)))
    return np.where(empty, -np.inf, top + np.log(reach * total))


def _standard_mean(shape: float) -> float:
    return math.sqrt(2.0 / math.pi) * math.sin(math.atan(shape))
