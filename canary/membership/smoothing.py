"""Privacy risk scores without bins: kernel densities of the modified entropy."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from canary.errors import EstimationError
from canary.membership.metric import shadow_samples
from canary.membership.risk import (
    BINS,
    RISK_SIGNAL,
    RiskScores,
    Scale,
    check_risk_options,
    check_two_kinds,
    class_ends,
    homes,
    risk_scores,
    scaled,
)
from canary.signals.signal_table import SignalTable

__all__ = ["chosen_risk_scores", "smooth_risk_scores"]

Floats = NDArray[np.float64]

_GRID = 512
_SILVERMAN = 0.9
_QUARTILES = 1.349  # quartile distance of a normal distribution, in standard deviations
_TRACE = 0.01


def smooth_risk_scores(
    table: SignalTable,
    *,
    shadow: SignalTable | None = None,
    target: int = 0,
    prior: float = 0.5,
    scale: Scale = "log",
    least: int = 10,
) -> RiskScores:
    """The privacy risk score of every sample, by kernel densities instead of histograms.

    Parameters
    ----------
    table, shadow, target, prior
        As in `canary.membership.risk.risk_scores`.
    scale : {"log", "linear"}
        Where the kernel has the same width everywhere.
    least : int
        Members and nonmembers that a class needs for densities of its own.

    Returns
    -------
    RiskScores
        Without a number of bins.

    Raises
    ------
    InputError, EstimationError
        As `canary.membership.risk.risk_scores`.

    Notes
    -----
    Equation 12 of Song and Mittal [1]_ with the densities of the shadow's members and
    nonmembers of the class in the place of shares of bins. Both have a Gaussian kernel of
    one width, so that the score is a weighted share of members among the samples nearby:
    Silverman's ``0.9 s n^(-1/5)``, with ``n`` the smaller number of the two kinds and
    ``s^2`` the mean of their squared spreads, each the smaller of standard deviation and
    quartile distance / 1.349.

    What lies outside of the class's finite shadow values counts as the nearest of them. A
    hundredth of a sample of each kind lies everywhere, so that in a gap without any the
    score is the prior. Infinity is apart, as is done for histograms; where the shadow has
    none, it counts as the largest value. Densities are taken on 512 points between the
    extremes of the class and interpolated: O(samples + classes).

    References
    ----------
    .. [1] Song and Mittal, Systematic Evaluation of Privacy Risks of Machine Learning
       Models, USENIX Security 2021, section 4.1.
    """
    where = "smooth_risk_scores"
    check_risk_options(prior, scale, least, where)
    values, member, label = shadow_samples(table, RISK_SIGNAL, shadow=shadow, target=target)
    check_two_kinds(member, where)
    classes = table.classes
    home, pooled = homes(member, label, classes, least)
    logs, queries = (scaled(v, scale) for v in (values, table.signal(RISK_SIGNAL)[target]))
    low, high = class_ends(logs, label, classes)
    step = np.where(high > low, high - low, 1.0) / (_GRID - 1)
    finite = np.isfinite(logs)
    counts = np.zeros((2, classes + 1, _GRID))
    endless = np.zeros((2, classes + 1))
    for kind, chosen in enumerate((~member, member)):
        for rows in (label, np.full(len(label), classes)):
            here = chosen & finite
            counts[kind] += _spread(logs[here], rows[here], low, step)
            endless[kind] += np.bincount(rows[chosen & ~finite], minlength=classes + 1)
    densities = _smoothed(counts)
    totals = counts.sum(axis=2) + endless
    divisor = np.maximum(totals, 1.0)
    # 0 / 0 belongs to classes that no sample uses.
    posterior = _posterior(densities / divisor[:, :, None], prior)
    beyond = np.where(
        endless.sum(axis=0) > 0, _posterior(endless / divisor, prior), posterior[:, -1]
    )
    rows = home[table.label]
    scores = np.where(
        np.isfinite(queries),
        _between(posterior, queries, rows, low, step),
        beyond[rows],
    )
    return RiskScores(scores, prior, None, scale, pooled)


def chosen_risk_scores(
    table: SignalTable,
    *,
    shadow: SignalTable,
    prior: float = 0.5,
    bins: int | None = None,
    scale: Scale = "log",
    least: int = 10,
    smooth: bool = False,
) -> RiskScores:
    """`smooth_risk_scores` or `risk_scores`, as was asked for.

    Parameters
    ----------
    table, shadow, prior, scale, least
        As in `canary.membership.risk.risk_scores`.
    bins : int, optional
        `BINS` unless given.
    smooth : bool

    Raises
    ------
    EstimationError
        If both bins and a smoothed estimate were asked for, which has none; or as theirs.
    """
    if not smooth:
        return risk_scores(
            table,
            shadow=shadow,
            prior=prior,
            bins=BINS if bins is None else bins,
            scale=scale,
            least=least,
        )
    if bins is not None:
        raise EstimationError(
            f"bins={bins} and smooth were both given, and smoothed risk scores have no bins",
            cure="leave one of them out (--bins, --smooth)",
            where="risk scores",
        )
    return smooth_risk_scores(table, shadow=shadow, prior=prior, scale=scale, least=least)


def _posterior(shares: Floats, prior: float) -> Floats:
    inside, outside = prior * shares[1], (1.0 - prior) * shares[0]
    with np.errstate(invalid="ignore"):
        return np.asarray(inside / (inside + outside))


def _place(
    values: Floats, rows: NDArray[np.int64], low: Floats, step: Floats
) -> tuple[NDArray[np.int64], Floats]:
    """The grid point at or below each value, and how far on to the next it lies."""
    inside = np.clip(values, low[rows], (low + (_GRID - 1) * step)[rows])
    at = (inside - low[rows]) / step[rows]
    point = np.minimum(at.astype(np.int64), _GRID - 2)
    return point, at - point


def _spread(values: Floats, rows: NDArray[np.int64], low: Floats, step: Floats) -> Floats:
    """Samples on the grid of their row, each shared by the two points beside it."""
    point, part = _place(values, rows, low, step)
    flat = rows * _GRID + point
    size = len(low) * _GRID
    found = np.bincount(flat, 1.0 - part, size) + np.bincount(flat + 1, part, size)
    return np.asarray(found.reshape(len(low), _GRID), np.float64)


def _between(
    grid: Floats, values: Floats, rows: NDArray[np.int64], low: Floats, step: Floats
) -> Floats:
    """The grid of each row, interpolated at the values; an infinite value is the last."""
    point, part = _place(values, rows, low, step)
    return grid[rows, point] * (1.0 - part) + grid[rows, point + 1] * part


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
    found = np.fft.irfft(np.fft.rfft(counts, 2 * _GRID, axis=2) * kernel, 2 * _GRID, axis=2)
    trace = _TRACE * number / smaller
    return np.asarray(np.maximum(found[:, :, :_GRID], 0.0) + trace[:, :, None])
