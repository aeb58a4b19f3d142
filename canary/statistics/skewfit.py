"""Maximum likelihood for the skew-normal distribution, fast and to the last digit.

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
from numpy.typing import ArrayLike, NDArray

from canary.errors import EstimationError
from canary.statistics.checks import finite_array
from canary.statistics.skewnormal import SkewNormal

__all__ = ["FEWEST", "fit_skew_normal", "log_likelihood", "refit_skew_normal"]

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]

FEWEST = 20
"""Fewer numbers than this are not fitted: three parameters would follow their noise."""

_FEWEST_DIFFERENT = 4  # three parameters go through three places
# Half the digits of float64. Deviations smaller than this share of what they are deviations
# from leave nothing in squares; and no model computes as finely.
_ROUNDING = 2.0**-26
_FITTED_SHARE = 0.9  # of the replicates
_HALVINGS = 60

_BINS = 2048
_BINS_OF_REPLICATES = 256
_CHUNK = 2**15
_ROOT_HALF_PI = math.sqrt(math.pi / 2.0)
_LEAST = 1e-3
_LARGEST_SHAPE = 2e4
_OTHER_METHODS = "use enumeration or uniform draws; check that the model is trained"
_SHAPES = np.array([0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 64.0, 512.0])
# A fit is done when Newton's method promises less than this, in nats of the whole sample.
_TOLERANCE_NATS = 1e-7


def fit_skew_normal(px_bits: ArrayLike, *, noise_bits: float = 0.0) -> SkewNormal:
    """The skew-normal curve under which the numbers are likeliest.

    Parameters
    ----------
    px_bits : array_like of shape (n,)
        Log-perplexities in bits, in any order; 20 at least.
    noise_bits : float
        Noise of the model that they are of: a smaller spread is not fitted.

    Returns
    -------
    SkewNormal
        Its log-likelihood over all `px_bits` is within 1e-6 nats of the maximum that the
        search found, as Newton's method measures it on all of them. Where the likelihood
        rises all the way to an infinite shape, that limit: the half-normal distribution
        from the smallest number upwards, or from the largest downwards.

    Raises
    ------
    EstimationError
        If there are fewer than 20 numbers or fewer than 4 different ones, one is not
        finite, they spread by no more than `noise_bits` or than rounding does (2^-26 of the
        largest), or no maximum can be found.

    Notes
    -----
    The search runs on bins, each stood for by two points with its mean and variance; then
    Newton's method on all the numbers takes the error of the bins out again. One sort; a
    million numbers take less than 0.1 s. The likelihood of this family can have two maxima:
    seventeen shapes, the limits included, are tried before the search descends from the
    best.

    References
    ----------
    .. [1] Azzalini and Capitanio, The Skew-Normal and Related Families, Cambridge
       University Press 2014, sections 3.1 and 3.2.
    """
    where = "fit_skew_normal"
    values = finite_array(px_bits, "px_bits", where)
    if len(values) < FEWEST:
        raise EstimationError(
            f"{len(values)} log-perplexities are too few to fit a curve, {FEWEST} are the least",
            cure="draw more candidates",
            where=where,
        )
    middle, spread = _moments_of(values, noise_bits, where)
    x = (values - middle) / spread
    if (different := _different(x)) < _FEWEST_DIFFERENT:
        raise EstimationError(
            f"the {len(values)} log-perplexities have only {different} different values, too few "
            f"to fit a curve, {_FEWEST_DIFFERENT} are the least",
            cure=_OTHER_METHODS,
            where=where,
        )
    # What overflows on the way is not finite in the end, and is judged there.
    with np.errstate(all="ignore"):
        points, weights = _condense(x, _BINS)
        a, b, shape, best = _polish(x, *_search(points, weights))
        location, scale = middle + spread * b / a, spread / a
        for sign, edge in ((1.0, float(values.min())), (-1.0, float(values.max()))):
            _, width, limit = _half_normal(x, sign)
            if limit >= best:
                location, scale, shape = edge, spread * width, sign * math.inf
                best = limit
    if not (math.isfinite(location) and 0.0 < scale < math.inf and math.isfinite(best)):
        raise _no_maximum(len(values), where)
    return SkewNormal(location, scale, shape)


def refit_skew_normal(
    px_bits: ArrayLike, fitted: SkewNormal, *, replicates: int, rng: np.random.Generator
) -> tuple[Floats, Floats, Floats]:
    """Curves fitted to samples drawn from the sample: the nonparametric bootstrap.

    Parameters
    ----------
    px_bits : array_like of shape (n,)
        What `fitted` was fitted to.
    fitted : SkewNormal
    replicates : int
        How many samples of size n are drawn with replacement.
    rng : numpy.random.Generator

    Returns
    -------
    location, scale, shape : float64 arrays of shape (k,)
        Of the `k` replicates that can be fitted: the others have fewer than 4 different
        values, or no maximum was found. Shapes may be infinite.

    Raises
    ------
    EstimationError
        If more than a tenth of the replicates cannot be fitted: the curve hangs on a few
        numbers, which many a sample does not have.

    Notes
    -----
    All at once, on 256 bins (two points each): at n = 10,000 and n = 1,000,000 alike,
    200 replicates take some 0.2 s. A replicate follows the maximum of `fitted`; it does
    not look for another one.
    """
    where = "refit_skew_normal"
    values = finite_array(px_bits, "px_bits", where)
    middle, spread = _moments_of(values, 0.0, where)
    points, weights = _condense((values - middle) / spread, _BINS_OF_REPLICATES)
    share = weights / weights.sum()
    drawn = rng.multinomial(len(values), share, size=replicates).astype(np.float64)
    varied = [_different(points[row > 0]) >= _FEWEST_DIFFERENT for row in drawn]
    drawn = drawn[varied]
    start = np.full(len(drawn), np.clip(fitted.shape, -_SHAPES[-1], _SHAPES[-1]))
    with np.errstate(all="ignore"):
        # Far below the distances between the replicates.
        a, b, shape = _trace(points, drawn, start, tolerance=0.02 / math.sqrt(len(values)))
        for i in np.flatnonzero(np.abs(shape) > 0.99 * _LARGEST_SHAPE):
            here, sign = drawn[i] > 0, np.sign(shape[i])
            low, width, _ = _half_normal(points[here], sign, drawn[i, here])
            a[i], b[i], shape[i] = 1.0 / width, low / width, sign * math.inf
        location, scale = middle + spread * b / a, spread / a
    sound = np.isfinite(location) & np.isfinite(scale) & (scale > 0.0) & ~np.isnan(shape)
    if np.count_nonzero(sound) < _FITTED_SHARE * replicates:
        raise EstimationError(
            f"a curve can be fitted to only {np.count_nonzero(sound)} of {replicates} samples of "
            f"the {len(values)} log-perplexities: it hangs on a few of them",
            cure=_OTHER_METHODS,
            where=where,
        )
    return location[sound], scale[sound], shape[sound]


def log_likelihood(px_bits: ArrayLike, curve: SkewNormal) -> float:
    """Natural logarithm of the likelihood of the numbers under a curve, per bit each."""
    return float(np.sum(curve.log_density(px_bits)))


def _moments_of(values: Floats, noise_bits: float, where: str) -> tuple[float, float]:
    """Mean and standard deviation, if the latter is more than noise and rounding."""
    middle, spread = float(values.mean()), float(values.std())
    if not spread > _ROUNDING * float(np.abs(values).max()):
        raise EstimationError(
            f"all {len(values)} log-perplexities are equal to within rounding, so there is no "
            "curve to fit",
            cure=_OTHER_METHODS,
            where=where,
        )
    if not spread > noise_bits:
        raise EstimationError(
            f"the {len(values)} log-perplexities spread by {spread:.2g} bits, no more than the "
            f"noise of the model, {noise_bits:.2g} bits, so there is no curve to fit",
            cure=_OTHER_METHODS,
            where=where,
        )
    return middle, spread


def _different(x: Floats) -> int:
    """How many different values there are, rounding aside; `_FEWEST_DIFFERENT` for more."""
    for found in range(_FEWEST_DIFFERENT):
        if not len(x):
            return found
        x = x[np.abs(x - x[0]) > _ROUNDING * max(abs(float(x[0])), 1.0)]
    return _FEWEST_DIFFERENT


def _no_maximum(n: int, where: str) -> EstimationError:
    return EstimationError(
        f"no curve was found under which the {n} log-perplexities are likeliest",
        cure=_OTHER_METHODS,
        where=where,
    )


def _search(points: Floats, weights: Floats) -> tuple[float, float, float]:
    """The best finite curve of the weighted points, from a grid of shapes."""
    shapes = np.concatenate([-_SHAPES[::-1], [0.0], _SHAPES])
    grid = np.broadcast_to(weights, (len(shapes), len(weights)))
    _, _, values, _ = _profile(points, grid, shapes, _moments(points, grid, shapes))
    start = shapes[[int(np.argmax(np.where(np.isnan(values), -np.inf, values)))]]
    a, b, shape = _trace(points, weights[None, :], start, tolerance=1e-10)
    return float(a[0]), float(b[0]), float(shape[0])


def _trace(
    points: Floats, weights: Floats, start: Floats, *, tolerance: float
) -> tuple[Floats, Floats, Floats]:
    """Follow each row's likelihood along the shape, from `start` to where it turns.

    The line is measured in ``u = arsinh(shape^3)``. Around 0 that is the curve's skewness but
    for a factor, in which the likelihood is nearly a parabola; far out, a logarithm. A row
    that never turns ends at the largest shape. Between two points of opposite slope: regula
    falsi with the Illinois rule, until they are `tolerance` apart.
    """
    edge = math.asinh(_LARGEST_SHAPE**3)
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


def _polish(x: Floats, a: float, b: float, shape: float) -> tuple[float, float, float, float]:
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


def _half_normal(
    x: Floats, sign: float, weights: Floats | None = None
) -> tuple[float, float, float]:
    """Location, scale and value of the limit: all the numbers on one side of the location."""
    edge = float(x.min() if sign > 0 else x.max())
    scale = math.sqrt(float(np.average((x - edge) ** 2, weights=weights)))
    n = len(x) if weights is None else float(weights.sum())
    # Phi(shape z) is 1 everywhere but at the edge, which is one number's own place.
    return edge, scale, -n * (math.log(scale) + 0.5)


def _condense(x: Floats, bins: int) -> tuple[Floats, Floats]:
    """Points and weights that stand for `x`: two for each bin, with its mean and variance.

    Half of the edges are evenly spaced and half stand at quantiles: so the tails are
    resolved, and a number far away leaves the others where they can be told apart.
    """
    n = len(x)
    if n <= 2 * bins:
        return x, np.ones(n)
    ordered = np.sort(x)
    edges = np.linspace(ordered[0], ordered[-1], bins // 2 + 1)[:-1]
    first = np.unique(
        np.concatenate([np.searchsorted(ordered, edges), np.arange(bins // 2) * n // (bins // 2)])
    )
    counts = np.diff(first, append=n)
    # Measured from inside the bin, so that no two large squares are subtracted.
    away = ordered - np.repeat(ordered[first], counts)
    mean = np.add.reduceat(away, first) / counts
    square = np.add.reduceat(away * away, first) / counts
    deviation = np.sqrt(np.maximum(square - mean**2, 0.0))
    mean += ordered[first]
    return np.concatenate([mean - deviation, mean + deviation]), np.tile(counts / 2.0, 2)
