"""Shares of windows that come from documents: intervals and tests over the documents.

Windows of one document are alike, so a document, not a window, is what was drawn from the source.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from canary.errors import EstimationError
from canary.records.record import Record
from canary.statistics.number_checks import check_confidence

Floats = NDArray[np.float64]

_FEW = 5
"""Documents with a hit (or a miss) below which their spread cannot be estimated."""

_AT_ONCE = 1 << 22


@dataclass(frozen=True)
class ClusteredShare(Record):
    """A share of windows, and its interval over documents.

    Parameters
    ----------
    value, lower, upper : float
        ``value`` is that of the windows at hand. Where it is 0, `upper` is what can be said.
    hits, windows, documents : int
        Windows that count, all windows, and documents with a window.
    confidence : float
    """

    value: float
    lower: float
    upper: float
    hits: int
    windows: int
    documents: int
    confidence: float


@dataclass(frozen=True)
class ShareDifference(Record):
    """The first share less the second, and the chance of such a lead if documents were alike."""

    value: float
    lower: float
    upper: float
    p: float
    permutations: int
    confidence: float


def clustered_share(
    hits: ArrayLike, sizes: ArrayLike, *, confidence: float = 0.95
) -> ClusteredShare:
    """Interval of a share of windows of which several come from each document.

    Parameters
    ----------
    hits, sizes : array_like of int of shape (documents,)
        Windows that count, and all windows, of each document; documents without any do not count.
    confidence : float
        Half of what is left goes to either end.

    Raises
    ------
    EstimationError
        If there is no window, or a document has more hits than windows.

    Notes
    -----
    Korn and Graubard's interval [1]_: that of Clopper and Pearson for as many independent windows
    as would give the variance between documents, ``v = D / (D - 1) sum(e**2) / sum(m)**2`` with
    ``e = y - share * m``, corrected for the D documents by which it is known. Where fewer than
    five documents have a hit (or a miss), their spread is not known: the end that is farther from
    0 (or 1) is then at least that of no hit in ``sum(m)**2 / sum(m**2)`` independent windows, the
    number of documents if they are equally long. So "none found" and "one found" do not contradict
    each other.

    References
    ----------
    .. [1] Korn and Graubard, Confidence intervals for proportions with small expected number of
       positive counts estimated from survey data, Survey Methodology 24(2), 1998.

    Examples
    --------
    >>> found = clustered_share([0] * 100, [4] * 100)
    >>> found.value, round(found.upper, 3)
    (0.0, 0.036)
    """
    check_confidence(confidence, "clustered_share")
    y, m = _counted(hits, sizes)
    total, documents = float(m.sum()), len(m)
    share, tail = float(y.sum() / total), (1.0 - confidence) / 2.0
    alone = total**2 / float((m * m).sum())  # what the documents count as if each is all alike
    independent = alone
    if 0.0 < share < 1.0 and documents > 1:
        squares = (y - share * m) ** 2
        variance = documents / (documents - 1) * float(squares.sum()) / total**2
        if variance > 0.0:
            freedom = max(float(squares.sum() ** 2 / (squares**2).sum()) - 1.0, 4.0)
            independent = min(share * (1.0 - share) / variance, total)
            independent *= (_student(total - 1, tail) / _student(freedom, tail)) ** 2
    lower, upper = _beta_ends(share, independent, tail)
    nothing = 1.0 - tail ** (1.0 / alone)
    if np.count_nonzero(y) < _FEW:
        upper = max(upper, nothing)
    if np.count_nonzero(y < m) < _FEW:
        lower = min(lower, 1.0 - nothing)
    if documents == 1:  # nothing is known of how documents differ
        lower, upper = 0.0, 1.0
    return ClusteredShare(share, lower, upper, int(y.sum()), int(total), documents, confidence)


def clustered_difference(
    first: tuple[ArrayLike, ArrayLike],
    second: tuple[ArrayLike, ArrayLike],
    *,
    confidence: float = 0.95,
    permutations: int = 9_999,
    seed: int = 0,
) -> ShareDifference:
    """The share of windows of a first kind of documents less that of a second.

    Parameters
    ----------
    first, second : pair of array_like
        Hits and sizes, as of `clustered_share`.
    confidence : float
    permutations, seed : int

    Notes
    -----
    The ends combine those of both shares, as in Newcombe's hybrid interval. p is one-sided: how
    often the lead of the first is as large where the kinds are dealt to the documents anew,
    ``(1 + count) / (1 + permutations)``. It is exact if both kinds are drawn from one source.
    """
    (y1, m1), (y2, m2) = _counted(*first), _counted(*second)
    one = clustered_share(y1, m1, confidence=confidence)
    other = clustered_share(y2, m2, confidence=confidence)
    lead = one.value - other.value
    y, m = np.concatenate([y1, y2]), np.concatenate([m1, m2])
    rng, count, done = np.random.default_rng(seed), 0, 0
    rounds = max(_AT_ONCE // len(y), 1)
    while done < permutations:
        part = min(rounds, permutations - done)
        order = rng.permuted(np.tile(np.arange(len(y)), (part, 1)), axis=1)
        mine = order[:, : len(y1)]
        hits, sizes = y[mine].sum(axis=1), m[mine].sum(axis=1)
        leads = hits / sizes - (y.sum() - hits) / (m.sum() - sizes)
        count += int((leads >= lead - 1e-12).sum())  # a tie must not hang on rounding
        done += part
    return ShareDifference(
        lead,
        max(lead - math.hypot(one.value - one.lower, other.upper - other.value), -1.0),
        min(lead + math.hypot(one.upper - one.value, other.value - other.lower), 1.0),
        (1 + count) / (1 + permutations),
        permutations,
        confidence,
    )


def _counted(hits: ArrayLike, sizes: ArrayLike) -> tuple[Floats, Floats]:
    """Hits and sizes of the documents that have a window."""
    y, m = np.asarray(hits, np.float64), np.asarray(sizes, np.float64)
    if y.ndim != 1 or y.shape != m.shape or not (m > 0).any() or not ((y >= 0) & (y <= m)).all():
        raise EstimationError(
            "hits and sizes are no counts of the windows of documents",
            cure="give one number of hits, at most its size, for each document, and one window or "
            "more in all",
            where="clustered_share",
        )
    return y[m > 0], m[m > 0]


def _student(freedom: float, tail: float) -> float:
    from scipy.special import stdtrit

    return float(stdtrit(max(freedom, 1.0), 1.0 - tail))


def _beta_ends(share: float, trials: float, tail: float) -> tuple[float, float]:
    """Clopper and Pearson's ends for a number of trials that need not be whole."""
    from scipy.special import betainccinv, betaincinv

    hits = share * trials
    lower = 0.0 if share == 0.0 else float(betaincinv(hits, trials - hits + 1.0, tail))
    upper = 1.0 if share == 1.0 else float(betainccinv(hits + 1.0, trials - hits, tail))
    return lower, upper
