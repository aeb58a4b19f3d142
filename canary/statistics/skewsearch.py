"""The skew-normal curve of the greatest likelihood: a search along one line.

In ``a = 1 / scale`` and ``b = location / scale`` the log-likelihood at a fixed shape ``s``,

    n log a - sum z^2 / 2 + sum log Phi(s z) + const,   z = a x - b,

is concave: each term is a concave function of a linear one. So the best location and scale
of a shape are found by Newton's method from anywhere, and what is left is a search along
one line. That search is blind to what stops other optimizers, the flat spot at shape 0
where all derivatives up to the second vanish in the shape's own direction.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

__all__ = ["GRID", "LARGEST_SHAPE", "half_normal", "polish", "search", "trace"]

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]

LARGEST_SHAPE = 2e4
"""Greater shapes are not told from the limit, a half-normal curve."""

GRID = np.array([0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 64.0, 512.0])
"""Shapes from the best of which, either sign of each and 0, the search sets out."""

_HALVINGS = 60
_CHUNK = 2**15
_ROOT_HALF_PI = math.sqrt(math.pi / 2.0)
_LEAST = 1e-3
# A fit is done when Newton's method promises less than this, in nats of the whole sample.
_TOLERANCE_NATS = 1e-7


def search(points: Floats, weights: Floats) -> tuple[float, float, float]:
    """The best finite curve of the weighted points, from a grid of shapes."""
    shapes = np.concatenate([-GRID[::-1], [0.0], GRID])
    grid = np.broadcast_to(weights, (len(shapes), len(weights)))
    _, _, values, _ = _profile(points, grid, shapes, _moments(points, grid, shapes))
    start = shapes[[int(np.argmax(np.where(np.isnan(values), -np.inf, values)))]]
    a, b, shape = trace(points, weights[None, :], start, tolerance=1e-10)
    return float(a[0]), float(b[0]), float(shape[0])


def trace(
    points: Floats, weights: Floats, start: Floats, *, tolerance: float
) -> tuple[Floats, Floats, Floats]:
    """Follow each row's likelihood along the shape, from `start` to where it turns.

    The line is measured in ``u = arsinh(shape^3)``. Around 0 that is the curve's skewness but
    for a factor, in which the likelihood is nearly a parabola; far out, a logarithm. A row
    that never turns ends at the largest shape. Between two points of opposite slope: regula
    falsi with the Illinois rule, until they are `tolerance` apart.
    """
    edge = math.asinh(LARGEST_SHAPE**3)
    a, b = _moments(points, weights, start)

    def slope(at: Floats, rows: Ints) -> Floats:
        shape = _shape_at(at[rows])
        a[rows], b[rows], _, by_shape = _profile(points, weights[rows], shape, (a[rows], b[rows]))
        return np.asarray(by_shape * np.hypot(1.0, shape**3) / (3.0 * shape**2))

    low = np.clip(np.arcsinh(start**3), -edge, edge)
    low_slope = slope(low, np.arange(len(low)))
    high, high_slope, direction = low.copy(), low_slope.copy(), np.sign(low_slope)
    step = 0.1
    while True:
        rising = (np.sign(high_slope) == direction) & (direction * high < edge) & (direction != 0)
        rows = np.flatnonzero(rising)
        if not len(rows):
            break
        low[rows], low_slope[rows] = high[rows], high_slope[rows]
        high[rows] = np.clip(high[rows] + direction[rows] * step, -edge, edge)
        high_slope[rows] = slope(high, rows)
        # A long step could pass over the top and begin to climb to another one.
        step = min(2.0 * step, 0.8)
    done = (np.sign(high_slope) == direction) | (high_slope == 0.0)
    root, side = high.copy(), np.zeros_like(high)
    for _ in range(60):
        done |= np.abs(high - low) < tolerance
        rows = np.flatnonzero(~done)
        if not len(rows):
            break
        left, right, f, g = low[rows], high[rows], low_slope[rows], high_slope[rows]
        root[rows] = guess = (left * g - right * f) / (g - f)
        here = slope(root, rows)
        same = np.sign(here) == np.sign(f)
        # The end that stays for a second time counts half.
        low_slope[rows] = np.where(same, here, np.where(side[rows] < 0, f / 2.0, f))
        high_slope[rows] = np.where(same, np.where(side[rows] > 0, g / 2.0, g), here)
        low[rows], high[rows] = np.where(same, guess, left), np.where(same, right, guess)
        side[rows] = np.where(same, 1.0, -1.0)
        done[rows] = np.abs(here) < _TOLERANCE_NATS
    return a, b, _shape_at(root)


def _shape_at(u: Floats) -> Floats:
    """The shape at a point of the line; not 0 itself, where the slope would be 0/0."""
    shape = np.cbrt(np.sinh(u))
    return np.where(np.abs(shape) < _LEAST, np.copysign(_LEAST, shape), shape)


def _moments(points: Floats, weights: Floats, shape: Floats) -> tuple[Floats, Floats]:
    """`a` and `b` of each row by its mean and standard deviation, at a shape."""
    m = np.sin(np.arctan(shape)) / _ROOT_HALF_PI
    total = weights.sum(axis=1)
    mean = weights @ points / total
    a = np.sqrt((1.0 - m**2) / np.maximum(weights @ points**2 / total - mean**2, 1e-300))
    return a, a * mean - m


def _profile(
    points: Floats, weights: Floats, shape: Floats, start: tuple[Floats, Floats]
) -> tuple[Floats, Floats, Floats, Floats]:
    """The best `a` and `b` of each row at its shape, the value there, its slope in the shape.

    NaN where the likelihood has no curvature to go by, as that of numbers nearly equal.
    """
    a, b = (v.copy() for v in start)
    value, gradient, hessian = _derivatives(points, weights, a, b, shape)
    rows = np.arange(len(a))
    for _ in range(100):
        step = _newton(hessian[rows, :2, :2], gradient[rows, :2])
        gain = np.einsum("ij,ij->i", step, gradient[rows, :2]) / 2.0
        value[rows[np.isnan(gain)]] = gradient[rows[np.isnan(gain)]] = np.nan
        moving = gain > 1e-11 * np.abs(value[rows])
        rows, step = rows[moving], step[moving]
        if not len(rows):
            break
        halvings = 0
        while True:
            to_a, to_b = a[rows] + step[:, 0], b[rows] + step[:, 1]
            bad = to_a <= 0.0
            found = _derivatives(
                points, weights[rows], np.where(bad, a[rows], to_a), to_b, shape[rows]
            )
            bad |= ~(found[0] >= value[rows] - 1e-12 * np.abs(value[rows]))  # NaN is bad
            if not bad.any() or halvings == _HALVINGS:
                break
            halvings += 1
            step[bad] /= 2.0
        good = ~bad  # of the others no step is short enough: they stay where they are
        rows = rows[good]
        a[rows], b[rows] = to_a[good], to_b[good]
        value[rows], gradient[rows], hessian[rows] = (part[good] for part in found)
    return a, b, value, gradient[:, 2]


def _newton(hessian: Floats, gradient: Floats) -> Floats:
    """Newton's step of each row, shapes (k, 2, 2) and (k, 2); not finite where there is none."""
    (p, q), (_, r) = np.moveaxis(-hessian, 0, -1)
    f, g = gradient.T
    determinant = p * r - q * q
    step: Floats = np.stack([r * f - q * g, p * g - q * f], axis=1) / determinant[:, None]
    return step


def polish(x: Floats, a: float, b: float, shape: float) -> tuple[float, float, float, float]:
    """Newton's method in all three parameters on all the numbers; the value, too."""
    at = np.array([a, b, shape])
    value, gradient, hessian = _exact(x, at)
    for _ in range(30):
        if not (
            math.isfinite(value) and np.isfinite(gradient).all() and np.isfinite(hessian).all()
        ):
            return math.nan, math.nan, math.nan, -math.inf
        scale = 1.0 / np.sqrt(np.maximum(np.abs(np.diag(hessian)), 1e-300))
        eigenvalues, vectors = np.linalg.eigh(-hessian * np.outer(scale, scale))
        # Downhill also where the likelihood is flat or hollow, as at shape 0.
        eigenvalues = np.maximum(np.abs(eigenvalues), 1e-9 * np.abs(eigenvalues).max())
        step = scale * (vectors @ ((vectors.T @ (scale * gradient)) / eigenvalues))
        if step @ gradient / 2.0 < _TOLERANCE_NATS:
            break
        for halving in range(30):
            to = at + step / 2.0**halving
            if to[0] > 0.0:
                found = _exact(x, to)
                if found[0] > value:
                    break
        else:
            break
        at, (value, gradient, hessian) = to, found
    return float(at[0]), float(at[1]), float(at[2]), value


def _exact(x: Floats, at: Floats) -> tuple[float, Floats, Floats]:
    value, gradient, hessian = 0.0, np.zeros(3), np.zeros((3, 3))
    ones = np.ones((1, min(len(x), _CHUNK)))
    a, b, shape = at[:, None]
    for first in range(0, len(x), _CHUNK):
        part = x[first : first + _CHUNK]
        found = _derivatives(part, ones[:, : len(part)], a, b, shape)
        value += float(found[0][0])
        gradient += found[1][0]
        hessian += found[2][0]
    return value, gradient, hessian


def _derivatives(
    x: Floats, weights: Floats, a: Floats, b: Floats, shape: Floats
) -> tuple[Floats, Floats, Floats]:
    """Log-likelihood of each row, its gradient and Hessian in (a, b, shape).

    Without the constant ``n log(2 / sqrt(2 pi))``; shapes (k,), (k, 3) and (k, 3, 3).
    """
    from scipy.special import erfcx

    s = shape[:, None]
    z = a[:, None] * x - b[:, None]
    t = s * z
    size = np.abs(t) / math.sqrt(2.0)
    tail = erfcx(size)
    bell = np.exp(-size * size)
    below = t < 0.0
    # Phi(t) = tail bell / 2 below 0, and 1 - tail bell / 2 above.
    half = tail / 2.0
    above = 1.0 - half * bell
    log_phi = np.where(below, np.log(half) - size * size, np.log(above))
    ratio = np.where(below, 1.0 / half, bell / above) / math.sqrt(2.0 * math.pi)  # phi / Phi
    bend = ratio * (t + ratio)
    total = weights.sum(axis=1)
    value = total * np.log(a) + np.einsum("km,km->k", weights, log_phi - z * z / 2.0)
    by_z = weights * (s * ratio - z)
    by_zz = weights * (1.0 + s * s * bend)
    mixed = weights * (ratio - t * bend)
    gradient = np.stack(
        [total / a + by_z @ x, -by_z.sum(axis=1), np.einsum("km,km->k", weights, ratio * z)], axis=1
    )
    hessian = np.empty((len(a), 3, 3))
    hessian[:, 0, 0] = -total / a**2 - by_zz @ (x * x)
    hessian[:, 0, 1] = hessian[:, 1, 0] = by_zz @ x
    hessian[:, 1, 1] = -by_zz.sum(axis=1)
    hessian[:, 0, 2] = hessian[:, 2, 0] = mixed @ x
    hessian[:, 1, 2] = hessian[:, 2, 1] = -mixed.sum(axis=1)
    hessian[:, 2, 2] = -np.einsum("km,km->k", weights, bend * z * z)
    return value, gradient, hessian


def half_normal(
    x: Floats, sign: float, weights: Floats | None = None
) -> tuple[float, float, float]:
    """Location, scale and value of the limit: all the numbers on one side of the location."""
    edge = float(x.min() if sign > 0 else x.max())
    scale = math.sqrt(float(np.average((x - edge) ** 2, weights=weights)))
    n = len(x) if weights is None else float(weights.sum())
    # Phi(shape z) is 1 everywhere but at the edge, which is one number's own place.
    return edge, scale, -n * (math.log(scale) + 0.5)
