"""How a shadow's members and nonmembers of a class are spread over a signal: two estimates.

Both give each query the posterior probability of being a member, by the class that it is looked
up in; row number `classes` stands for all classes together.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_GRID = 512
_SILVERMAN = 0.9
_QUARTILES = 1.349  # quartile distance of a normal distribution, in standard deviations
_TRACE = 0.01


@dataclass(frozen=True, eq=False)
class Known:
    """Samples of the shadow.

    Parameters
    ----------
    values : ndarray of float64 of shape (samples,)
        May be plus infinity.
    member : ndarray of bool of shape (samples,)
    label : ndarray of int64 of shape (samples,)
    classes : int
    """

    values: Floats
    member: NDArray[np.bool_]
    label: Ints
    classes: int

    @cached_property
    def ends(self) -> tuple[Floats, Floats]:
        """Least and largest finite value of each class, and of all behind them."""
        finite = np.isfinite(self.values)
        low, high = np.full((2, self.classes + 1), np.inf)
        high = -high
        np.minimum.at(low, self.label[finite], self.values[finite])
        np.maximum.at(high, self.label[finite], self.values[finite])
        low[-1], high[-1] = low.min(), high.max()
        none = ~np.isfinite(low)
        low[none] = high[none] = 0.0
        return low, high

    def kinds(self) -> list[tuple[int, NDArray[np.bool_], Ints]]:
        """Number and flags of both kinds, with the row of each sample: its own, and that of all."""
        everyone = np.full(len(self.label), self.classes)
        flags = (~self.member, self.member)
        return [(k, flags[k], rows) for k in (0, 1) for rows in (self.label, everyone)]


def by_histograms(known: Known, queries: Floats, rows: Ints, *, prior: float, bins: int) -> Floats:
    """By bins of equal width between the ends of each row, and one for infinity.

    A bin without any sample takes the shares of the nearest bin that has one.
    """
    low, high = known.ends
    width = high - low
    steps = bins / np.where(width > 0, width, np.inf)

    def place(values: Floats, rows: Ints) -> Ints:
        finite = values < np.inf
        inside = (np.where(finite, values, 0.0) - low[rows]) * steps[rows]
        return np.where(finite, np.clip(inside, 0, bins - 1), bins).astype(np.int64)

    shares = np.zeros((2, known.classes + 1, bins + 1))
    for kind, flags, of in known.kinds():
        shares[kind] += _counted(of[flags], place(known.values[flags], of[flags]), shares[kind])
    filled = shares.sum(axis=0) > 0
    shares /= np.maximum(shares.sum(axis=2, keepdims=True), 1.0)
    shares = np.take_along_axis(shares, nearest_filled(filled)[None], axis=2)
    return np.asarray(_posterior(shares, prior)[rows, place(queries, rows)])


def nearest_filled(filled: NDArray[np.bool_]) -> Ints:
    """For each bin the nearest one of its row with samples, itself if it has any or none has.

    Of two as near the lower. Linear: the last filled bin on the way up, and on the way down.
    """
    places = np.arange(filled.shape[1])
    far = 3 * len(places)
    below = np.maximum.accumulate(np.where(filled, places, -far), axis=1)
    above = np.minimum.accumulate(np.where(filled, places, far)[:, ::-1], axis=1)[:, ::-1]
    nearest = np.where(places - below <= above - places, below, above)
    return np.where(filled.any(axis=1, keepdims=True), nearest, places)


def by_kernels(known: Known, queries: Floats, rows: Ints, *, prior: float) -> Floats:
    """By Gaussian kernels on a grid of 512 points between the ends of each row, interpolated.

    Infinity is apart; where the shadow has none, it counts as the largest value.
    """
    low, high = known.ends
    step = np.where(high > low, high - low, 1.0) / (_GRID - 1)

    def place(values: Floats, rows: Ints) -> tuple[Ints, Floats]:
        """The grid point at or below each value, and how far it is on to the next."""
        inside = np.clip(values, low[rows], (low + (_GRID - 1) * step)[rows])
        along = (inside - low[rows]) / step[rows]
        point = np.minimum(along.astype(np.int64), _GRID - 2)
        return point, along - point

    finite = np.isfinite(known.values)
    counts = np.zeros((2, known.classes + 1, _GRID))
    endless = np.zeros((2, known.classes + 1))
    for kind, flags, of in known.kinds():
        here = flags & finite
        point, part = place(known.values[here], of[here])
        counts[kind] += _counted(of[here], point, counts[kind], 1.0 - part)
        counts[kind] += _counted(of[here], point + 1, counts[kind], part)
        endless[kind] += np.bincount(of[flags & ~finite], minlength=known.classes + 1)
    divisor = np.maximum(counts.sum(axis=2) + endless, 1.0)
    posterior = _posterior(_smoothed(counts) / divisor[:, :, None], prior)
    beyond = np.where(
        endless.sum(axis=0) > 0, _posterior(endless / divisor, prior), posterior[:, -1]
    )
    point, part = place(queries, rows)
    between = posterior[rows, point] * (1.0 - part) + posterior[rows, point + 1] * part
    return np.where(np.isfinite(queries), between, beyond[rows])


def _counted(rows: Ints, columns: Ints, like: Floats, weights: Floats | None = None) -> Floats:
    """Weights, or numbers, of the samples of each cell of an array like another."""
    flat = np.bincount(rows * like.shape[1] + columns, weights, like.size)
    return np.asarray(flat.reshape(like.shape), np.float64)


def _posterior(shares: Floats, prior: float) -> Floats:
    inside, outside = prior * shares[1], (1.0 - prior) * shares[0]
    with np.errstate(invalid="ignore"):  # 0 / 0 belongs to rows that no sample uses
        return np.asarray(inside / (inside + outside))


def _smoothed(counts: Floats) -> Floats:
    """Counts under a Gaussian kernel of height 1, with a trace of both kinds everywhere."""
    number = counts.sum(axis=2)
    points = np.arange(_GRID)
    mean = counts @ points / np.maximum(number, 1.0)
    square = counts @ points**2 / np.maximum(number, 1.0) - mean**2
    deviation = np.sqrt(np.maximum(square, 0.0))
    climbed = np.cumsum(counts, axis=2)
    quartile = [(climbed < part * number[:, :, None]).sum(axis=2) for part in (0.25, 0.75)]
    between = (quartile[1] - quartile[0]) / _QUARTILES
    spread = np.where(between > 0, np.minimum(deviation, between), deviation)
    smaller = np.maximum(number.min(axis=0), 1.0)
    width = _SILVERMAN * np.sqrt((spread**2).mean(axis=0)) * smaller**-0.2
    width = np.maximum(width, 1.0)
    # The transform of a Gaussian is one; twice the grid, so that the ends do not meet.
    waves = np.fft.rfftfreq(2 * _GRID)
    kernel = np.exp(-2.0 * (np.pi * waves[None, :] * width[:, None]) ** 2)
    kernel *= (np.sqrt(2.0 * np.pi) * width)[:, None]
    smooth = np.fft.irfft(np.fft.rfft(counts, 2 * _GRID, axis=2) * kernel, 2 * _GRID, axis=2)
    trace = _TRACE * number / smaller
    return np.asarray(np.maximum(smooth[:, :, :_GRID], 0.0) + trace[:, :, None])
