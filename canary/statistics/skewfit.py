"""Maximum likelihood for the skew-normal distribution, fast and to the last digit.

The search runs over the mean ``m``, the logarithm of the standard deviation, and
``u = arsinh(shape^3)``, which around 0 is the curve's skewness but for a factor and far out a
logarithm of the shape. In these the likelihood is nearly a parabola; in the shape itself all
derivatives up to the second vanish at 0, which stops other optimizers there.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from canary.errors import EstimationError
from canary.statistics.number_checks import finite_array
from canary.statistics.skewnormal import SkewNormal

Floats = NDArray[np.float64]

FEWEST = 20
"""Fewer numbers than this are not fitted: three parameters would follow their noise."""

_FEWEST_DIFFERENT = 4  # three parameters go through three places
# Half the digits of float64. Deviations smaller than this share of what they are deviations
# from leave nothing in squares; and no model computes as finely.
_ROUNDING = 2.0**-26
_FITTED_SHARE = 0.9  # of the replicates

_BINS, _ENDS = 256, 128

_STARTS = np.array([-64.0, -6.0, -0.5, 0.5, 6.0, 64.0])  # shapes
_FAR_SHAPE = 512.0
# Greater shapes are not told from the limit, a half-normal curve; smaller ones not from 0.
_LARGEST_SHAPE, _LEAST_SHAPE = 2e4, 1e-3
_CHUNK = 2**15
_EDGE = math.asinh(_LARGEST_SHAPE**3)
_ROOT_2_PI = math.sqrt(2.0 / math.pi)
# A climb ends when less than this is to be gained, in nats of the whole sample.
_TOLERANCE_NATS, _TOLERANCE_OF_REPLICATES = 1e-7, 1e-6


def fit_skew_normal(px_bits: ArrayLike, *, noise_bits: float = 0.0) -> SkewNormal:
    """The skew-normal curve under which the numbers are most likely.

    Its log-likelihood is within 1e-6 nats of the maximum that the search found. Where the
    likelihood rises all the way to an infinite shape, that limit: the half-normal distribution
    from the smallest number upwards, or from the largest downwards.

    Parameters
    ----------
    px_bits : array_like of shape (n,)
        Log-perplexities in bits, in any order; 20 at least.
    noise_bits : float
        Noise of the model that they are of: a smaller spread is not fitted.

    Raises
    ------
    EstimationError
        If there are fewer than 20 numbers or fewer than 4 different ones, one is not
        finite, they spread by no more than `noise_bits` or than rounding does (2^-26 of the
        largest), or no maximum can be found.

    Notes
    -----
    The search runs on bins; then a last climb over all the numbers takes the error of the bins
    out again. A million numbers take about 0.2 s. The likelihood of this family can have two
    maxima: the search sets out from six shapes, and the best end and both limits are compared
    (Azzalini and Capitanio, The Skew-Normal and Related Families, 2014, chapter 3).
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
        raise _unfit(
            where,
            f"the {len(values)} log-perplexities have only {different} different values, too few "
            f"to fit a curve, {_FEWEST_DIFFERENT} are the least",
        )
    # What overflows on the way is not finite in the end, and is judged there.
    with np.errstate(all="ignore"):
        points, weights = _condense(x, ends=_ENDS)
        starts = _at(0.0, 1.0, _STARTS)
        starts[:, :2] = 0.0  # the moments of x
        for row, sign in ((0, -1.0), (-1, 1.0)):
            end, width, _ = _half_normal(points, weights[None], sign)
            starts[row] = _at(end, width, _STARTS[row])[0]
        rows = np.tile(weights, (len(_STARTS), 1))
        at, reached, inverse = _climb(points, rows, starts, tolerance=1e-3)
        best = [int(np.argmax(np.where(np.isnan(reached), -np.inf, reached)))]
        at, inverse, every = at[best], inverse[best], np.ones((1, len(x)))
        for numbers, counts in ((points, rows[best]), (x, every)):
            at, reached, inverse = _climb(
                numbers, counts, at, inverse=inverse, tolerance=_TOLERANCE_NATS
            )
        curve = _or_limit(x, every, at, reached, beyond=0.0)
        location, scale, shape = (float(part[0]) for part in curve)
    if not (math.isfinite(location) and 0.0 < scale < math.inf and not math.isnan(shape)):
        none = f"no curve was found under which the {len(values)} log-perplexities are most likely"
        raise _unfit(where, none)
    if math.isinf(shape):  # the number itself, to the last digit
        return SkewNormal(float(values.min() if shape > 0 else values.max()), spread * scale, shape)
    return SkewNormal(middle + spread * location, spread * scale, shape)


def refit_skew_normal(
    px_bits: ArrayLike, fitted: SkewNormal, *, replicates: int, rng: np.random.Generator
) -> tuple[Floats, Floats, Floats]:
    """Curves fitted to samples drawn from the sample: the nonparametric bootstrap.

    Of `replicates` samples of size n, drawn with replacement from what `fitted` was fitted to,
    gives location, scale and shape (which may be infinite) of those that can be fitted. An
    EstimationError says that more than a tenth cannot.

    Notes
    -----
    All at once, on 256 bins: 200 replicates take less than 0.1 s, whatever n is. A replicate
    climbs from `fitted`, by its curvature; it does not look for another maximum.
    """
    where = "refit_skew_normal"
    values = finite_array(px_bits, "px_bits", where)
    middle, spread = _moments_of(values, 0.0, where)
    points, weights = _condense((values - middle) / spread, ends=0)
    share = weights / weights.sum()
    drawn = rng.multinomial(len(values), share, size=replicates).astype(np.float64)
    varied = [_different(points[row > 0]) >= _FEWEST_DIFFERENT for row in drawn]
    drawn = drawn[varied]
    shape = float(np.clip(fitted.shape, -_FAR_SHAPE, _FAR_SHAPE))
    start = _at((fitted.location_bits - middle) / spread, fitted.scale_bits / spread, shape)
    beyond = 0.0 if math.isinf(fitted.shape) else 0.9 * _FAR_SHAPE
    starts = np.tile(start, (len(drawn), 1))
    with np.errstate(all="ignore"):
        if shape != fitted.shape:
            starts = _at(*_half_normal(points, drawn, math.copysign(1.0, shape))[:2], shape)
        # By differences of the gradient; kept positive definite.
        aside = 1e-4 * np.concatenate([np.eye(3), -np.eye(3)])
        _, gradients = _likelihood(points, np.tile(weights, (6, 1)), start + aside)
        curvature = (gradients[3:] - gradients[:3]) / 2e-4
        eigenvalues, vectors = np.linalg.eigh((curvature + curvature.T) / 2.0)
        eigenvalues = np.maximum(np.abs(eigenvalues), 1e-3 * np.abs(eigenvalues).max())
        inverse = (vectors / eigenvalues) @ vectors.T
        at, reached, _ = _climb(
            points, drawn, starts, inverse=inverse, tolerance=_TOLERANCE_OF_REPLICATES
        )
        location, scale, shapes = _or_limit(points, drawn, at, reached, beyond=beyond)
    sound = np.isfinite(location) & np.isfinite(scale) & (scale > 0.0) & ~np.isnan(shapes)
    if np.count_nonzero(sound) < _FITTED_SHARE * replicates:
        raise _unfit(
            where,
            f"a curve can be fitted to only {np.count_nonzero(sound)} of {replicates} samples of "
            f"the {len(values)} log-perplexities: it hangs on a few of them",
        )
    return middle + spread * location[sound], spread * scale[sound], shapes[sound]


def _at(location: ArrayLike, scale: ArrayLike, shape: ArrayLike) -> Floats:
    """The places of curves in the search, shape (k, 3)."""
    location, scale, shape = np.broadcast_arrays(*np.atleast_1d(location, scale, shape))
    m = _ROOT_2_PI * shape / np.hypot(1.0, shape)
    at = (location + scale * m, np.log(scale * np.sqrt(1.0 - m * m)), np.arcsinh(shape**3))
    return np.stack(at, axis=1)


def _curves(at: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """Location, scale and shape of each row, and the mean at location 0 and scale 1."""
    mean, log_sd, u = at.T
    shape = np.cbrt(np.sinh(np.clip(u, -_EDGE, _EDGE)))
    shape = np.where(np.abs(shape) < _LEAST_SHAPE, np.copysign(_LEAST_SHAPE, shape), shape)
    m = _ROOT_2_PI * shape / np.hypot(1.0, shape)
    scale = np.exp(log_sd) / np.sqrt(1.0 - m * m)
    return mean - scale * m, scale, shape, m


def _likelihood(x: Floats, weights: Floats, at: Floats) -> tuple[Floats, Floats]:
    """Log-likelihood of each row and its gradient, shapes (k,) and (k, 3).

    Without the constant ``n log(2 / sqrt(2 pi))``.
    """
    from scipy.special import erfcx

    location, scale, shape, m = _curves(at)
    total = weights.sum(axis=1)
    # Sums of log Phi(t) - z^2 / 2, phi/Phi(t), z, z phi/Phi(t) and z^2, with t = shape z.
    sums = np.zeros((5, len(at)))
    for first in range(0, len(x), _CHUNK):
        counts = weights[:, first : first + _CHUNK]
        z = (x[first : first + _CHUNK] - location[:, None]) / scale[:, None]
        t = shape[:, None] * z
        squares, below = t * t / 2.0, t < 0.0
        half = erfcx(np.abs(t) / math.sqrt(2.0)) / 2.0
        bell = np.exp(-squares)
        # Phi(t) is half bell below 0, and 1 - half bell above.
        log_phi = np.where(below, np.log(half) - squares, np.log1p(-half * bell))
        ratio = np.where(below, 1.0 / half, bell / (1.0 - half * bell)) / math.sqrt(2.0 * math.pi)
        sums[0] += np.einsum("km,km->k", counts, log_phi - z * z / 2.0)
        sums[1] += np.einsum("km,km->k", counts, ratio)
        sums[2] += np.einsum("km,km->k", counts, z)
        sums[3] += np.einsum("km,km,km->k", counts, z, ratio)
        sums[4] += np.einsum("km,km,km->k", counts, z, z)
    value, ratios, deviations, by_shape, squares = sums
    value = value - total * np.log(scale)
    by_location = (deviations - shape * ratios) / scale
    by_scale = (squares - shape * by_shape - total) / scale
    # At a fixed mean and standard deviation, location and scale follow the shape.
    slope_of_m = _ROOT_2_PI * np.hypot(1.0, shape) ** -3.0
    slope_of_scale = scale * m * slope_of_m / (1.0 - m * m)
    by_shape = by_shape + by_scale * slope_of_scale
    by_shape -= by_location * (scale * slope_of_m + m * slope_of_scale)
    by_u = by_shape * np.hypot(1.0, shape**3) / (3.0 * shape**2)
    outward = (np.abs(at[:, 2]) >= _EDGE) & (by_u * at[:, 2] > 0.0)
    by_log_sd = scale * (by_scale - m * by_location)
    return value, np.stack([by_location, by_log_sd, np.where(outward, 0.0, by_u)], axis=1)


def _climb(
    x: Floats, weights: Floats, at: Floats, *, tolerance: float, inverse: Floats | None = None
) -> tuple[Floats, Floats, Floats]:
    """Climb the likelihood of each row of weights from `at`, all rows at once (BFGS).

    A row ends where its next step promises less than `tolerance` nats, or where no step is
    short enough. `inverse` is that of the curvature, at the start (unless given, that of a
    normal curve) and where it ends; shape (k, 3, 3).
    """
    at = at.copy()
    if inverse is None:
        inverse = np.diag([1.0, 0.5, 1.0]) / weights.sum(axis=1)[:, None, None]
    inverse = np.broadcast_to(inverse, (len(at), 3, 3)).copy()
    value, gradient = _likelihood(x, weights, at)
    rows = np.arange(len(at))
    for _ in range(200):
        step = np.einsum("kij,kj->ki", inverse[rows], gradient[rows])
        slope = np.einsum("ki,ki->k", step, gradient[rows])
        rising = slope / 2.0 > tolerance
        rows, step, slope = rows[rising], step[rising], slope[rising]
        if not len(rows):
            break
        short = np.minimum(1.0, 1.0 / np.abs(step).max(axis=1))
        to, to_value, to_gradient = at[rows], value[rows], gradient[rows]
        left = np.arange(len(rows))
        for halving in range(40):
            length = short[left] / 2.0**halving
            trial = at[rows[left]] + length[:, None] * step[left]
            trial_value, trial_gradient = _likelihood(x, weights[rows[left]], trial)
            good = trial_value >= value[rows[left]] + 1e-4 * length * slope[left]  # NaN is not
            done = left[good]
            to[done], to_value[done] = trial[good], trial_value[good]
            to_gradient[done] = trial_gradient[good]
            left = left[~good]
            if not len(left):
                break
        moved, turned = to - at[rows], gradient[rows] - to_gradient
        at[rows], value[rows], gradient[rows] = to, to_value, to_gradient
        # Where the curvature stays positive definite it is updated (BFGS).
        product = np.einsum("ki,ki->k", moved, turned)
        sizes = np.linalg.norm(moved, axis=1) * np.linalg.norm(turned, axis=1)
        bent = product > 1e-12 * sizes
        share = (1.0 / np.where(bent, product, 1.0))[:, None, None]
        along = np.einsum("kij,kj->ki", inverse[rows], turned)
        outer = moved[:, :, None] * along[:, None, :]
        growth = 1.0 + share * np.einsum("ki,ki->k", turned, along)[:, None, None]
        change = growth * moved[:, :, None] * moved[:, None, :] - outer - outer.transpose(0, 2, 1)
        inverse[rows] += np.where(bent[:, None, None], share * change, 0.0)
        rows = np.delete(rows, left)
    return at, value, inverse


def _half_normal(x: Floats, weights: Floats, sign: float) -> tuple[Floats, Floats, Floats]:
    """Location, scale and log-likelihood of the limit of each row: all numbers on one side."""
    total = weights.sum(axis=1)
    end = sign * np.where(weights > 0.0, sign * x, np.inf).min(axis=1)
    width = np.sqrt(np.einsum("km,km->k", weights, (x - end[:, None]) ** 2) / total)
    # Phi(shape z) is 1 everywhere but at the end, which is one number's own place.
    return end, width, -total * (np.log(width) + 0.5)


def _or_limit(
    x: Floats, weights: Floats, at: Floats, best: Floats, *, beyond: float
) -> tuple[Floats, Floats, Floats]:
    """Location, scale and shape of each row; beyond a shape, of a limit that is as likely.

    `best` is the log-likelihood of each.
    """
    location, scale, shape, _ = _curves(at)
    for sign in (1.0, -1.0):
        end, width, limit = _half_normal(x, weights, sign)
        better = ~(limit < best) & (np.abs(shape) >= beyond)
        location, scale = np.where(better, end, location), np.where(better, width, scale)
        shape, best = np.where(better, sign * np.inf, shape), np.where(better, limit, best)
    return location, scale, shape


def _moments_of(values: Floats, noise_bits: float, where: str) -> tuple[float, float]:
    """Mean and standard deviation, if the latter is more than noise and rounding."""
    middle, spread = float(values.mean()), float(values.std())
    if not spread > _ROUNDING * float(np.abs(values).max()):
        equal = f"all {len(values)} log-perplexities are equal to within rounding"
        raise _unfit(where, f"{equal}, so there is no curve to fit")
    if not spread > noise_bits:
        raise _unfit(
            where,
            f"the {len(values)} log-perplexities spread by {spread:.2g} bits, no more than the "
            f"noise of the model, {noise_bits:.2g} bits, so there is no curve to fit",
        )
    return middle, spread


def _unfit(where: str, problem: str) -> EstimationError:
    cure = "use enumeration or uniform draws; check that the model is trained"
    return EstimationError(problem, cure=cure, where=where)


def _different(x: Floats) -> int:
    """How many different values there are, rounding aside; `_FEWEST_DIFFERENT` for more."""
    for found in range(_FEWEST_DIFFERENT):
        if not len(x):
            return found
        x = x[np.abs(x - x[0]) > _ROUNDING * max(abs(float(x[0])), 1.0)]
    return _FEWEST_DIFFERENT


def _condense(x: Floats, *, ends: int) -> tuple[Floats, Floats]:
    """Points and weights for `x`: two for each bin, with its mean and variance.

    Half of the edges are evenly spaced, and half are at quantiles: so the tails are resolved,
    and a number far away leaves the others where they can be told apart. So many numbers as
    `ends` at either end, where a curve of large shape is decided, have bins of their own.
    """
    n = len(x)
    if n <= 2 * _BINS:
        return x, np.ones(n)
    ordered, half = np.sort(x), _BINS // 2
    even = np.searchsorted(ordered, np.linspace(ordered[0], ordered[-1], half + 1)[:-1])
    quantiles = np.arange(half) * n // half
    first = np.unique(np.r_[even, quantiles, :ends, n - ends : n])
    counts = np.diff(first, append=n)
    # Measured from inside the bin, so that no two large squares are subtracted.
    away = ordered - np.repeat(ordered[first], counts)
    mean = np.add.reduceat(away, first) / counts
    square = np.add.reduceat(away * away, first) / counts
    deviation = np.sqrt(np.maximum(square - mean**2, 0.0))
    mean += ordered[first]
    return np.concatenate([mean - deviation, mean + deviation]), np.tile(counts / 2.0, 2)
