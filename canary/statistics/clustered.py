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

Counts = tuple[ArrayLike, ArrayLike] | tuple[ArrayLike, ArrayLike, ArrayLike | None]

_FEW = 5
"""Documents with a hit (or a miss) below which their spread cannot be estimated.

With weights each counts as much as its weight is of the largest.
"""

_AT_ONCE = 1 << 22


@dataclass(frozen=True)
class ClusteredShare(Record):
    """A share of windows, and its interval over documents.

    Parameters
    ----------
    value, lower, upper : float
        ``value`` is that of the windows at hand, weighted if documents have weights. Where it is
        0, `upper` is what can be said.
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
    hits: ArrayLike,
    sizes: ArrayLike,
    weights: ArrayLike | None = None,
    *,
    confidence: float = 0.95,
) -> ClusteredShare:
    """Interval of a share of windows of which several come from each document.

    Parameters
    ----------
    hits, sizes : array_like of int of shape (documents,)
        Windows that count, and all windows, of each document; documents without any do not count.
    weights : array_like of float of shape (documents,), optional
        How many documents of the source each one stands for: one over its chance to be drawn, up
        to a factor. The share is then that of the source (Horvitz and Thompson's totals of hits
        and of windows, one over the other).
    confidence : float
        Half of what is left goes to either end.

    Raises
    ------
    EstimationError
        If there is no window, a document has more hits than windows, or a weight is not above 0.

    Notes
    -----
    Korn and Graubard's interval [1]_: that of Clopper and Pearson for as many independent windows
    as would give the variance between documents, ``v = D / (D - 1) sum(e**2) / sum(m)**2`` with
    ``e = y - share * m``, corrected for the D documents by which it is known. Where fewer than
    five documents have a hit (or a miss), their spread is not known: the end that is farther from
    0 (or 1) is then at least that of no hit in ``sum(m)**2 / sum(m**2)`` independent windows, the
    number of documents if they are equally long. So "none found" and "one found" do not contradict
    each other.

    With weights, ``w * y`` and ``w * m`` take the places of y and m: that is the variance of
    draws with unequal chances, and not below that of a stratified sample. Many hits among
    documents of small weight do not show that few are missing among those of large weight. So
    where the hits (or misses) weigh less than five documents of the largest weight, the farther
    end is at least that with one more hit: in a document of that weight and of typical length, by
    the gamma distribution of Fay and Feuer [2]_.

    References
    ----------
    .. [1] Korn and Graubard, Confidence intervals for proportions with small expected number of
       positive counts estimated from survey data, Survey Methodology 24(2), 1998.
    .. [2] Fay and Feuer, Confidence intervals for directly standardized rates, Statistics in
       Medicine 16, 1997.

    Examples
    --------
    >>> found = clustered_share([0] * 100, [4] * 100)
    >>> found.value, round(found.upper, 3)
    (0.0, 0.036)
    """
    check_confidence(confidence, "clustered_share")
    y, m, w = _counted(hits, sizes, weights)
    windows, documents = float(m.sum()), len(m)
    total, tail = float(w @ m), (1.0 - confidence) / 2.0
    share = float(w @ y) / total
    # The share that one document has, of the largest weight and a length of typical windows: with
    # equal weights one over what documents count as if each is all alike.
    one = float(w @ m**2) / total**2  # weights are shares of the largest
    independent, variance = 1.0 / one, 0.0
    if 0.0 < share < 1.0 and documents > 1:
        squares = (w * (y - share * m)) ** 2
        variance = documents / (documents - 1) * float(squares.sum()) / total**2
        if variance > 0.0:
            freedom = max(float(squares.sum() ** 2 / (squares**2).sum()) - 1.0, 4.0)
            independent = min(share * (1.0 - share) / variance, windows)
            independent *= (_student(windows - 1, tail) / _student(freedom, tail)) ** 2
    lower, upper = _beta_ends(share, independent, tail)
    equal = bool(w.min() == 1.0)
    if w @ (y > 0) < _FEW:
        upper = max(upper, _missed(share, variance, one, tail, equal=equal))
    if w @ (y < m) < _FEW:
        missed = _missed(1.0 - share, variance, one, tail, equal=equal)
        lower = min(lower, 1.0 - missed)
    if documents == 1:  # nothing is known of how documents differ
        lower, upper = 0.0, 1.0
    return ClusteredShare(share, lower, upper, int(y.sum()), int(windows), documents, confidence)


def clustered_difference(
    first: Counts,
    second: Counts,
    *,
    confidence: float = 0.95,
    permutations: int = 9_999,
    seed: int = 0,
) -> ShareDifference:
    """The share of windows of a first kind of documents less that of a second.

    Parameters
    ----------
    first, second : pair of array_like, or three
        Hits, sizes and weights, as of `clustered_share`.
    confidence : float
    permutations, seed : int

    Notes
    -----
    The ends combine those of both shares, as in Newcombe's hybrid interval. p is one-sided: how
    often the lead of the first is as large where the kinds are dealt to the documents anew,
    ``(1 + count) / (1 + permutations)``. It is exact if both kinds are drawn from one source. With
    weights, which stay where they are, leads are compared in units of the standard deviation that
    documents of one share would give. Then p is right even if the weights go with what comes out:
    in simulations 0.01 to 0.08 of null comparisons had 0.05 or less. Standard deviations from the
    documents' spread gave up to 0.39, where neither kind has hits among large weights.
    """
    (y1, m1, w1), (y2, m2, w2) = _counted(*first), _counted(*second)
    one = clustered_share(y1, m1, w1, confidence=confidence)
    other = clustered_share(y2, m2, w2, confidence=confidence)
    lead = one.value - other.value
    y, m = np.concatenate([y1, y2]), np.concatenate([m1, m2])
    weighted = bool(np.ptp(w1) or np.ptp(w2))
    seen = _standard_lead((y1, m1, w1), (y2, m2, w2)) if weighted else lead
    rng, count, done = np.random.default_rng(seed), 0, 0
    if y.sum() in (0.0, m.sum()):  # every document is alike, so each lead is 0
        count = done = permutations
    rounds = max(_AT_ONCE // len(y), 1)
    while done < permutations:
        part = min(rounds, permutations - done)
        order = rng.permuted(np.tile(np.arange(len(y)), (part, 1)), axis=1)
        mine, theirs = order[:, : len(y1)], order[:, len(y1) :]
        if weighted:
            leads = _standard_lead((y[mine], m[mine], w1), (y[theirs], m[theirs], w2))
        else:
            hits, sizes = y[mine].sum(axis=1), m[mine].sum(axis=1)
            leads = hits / sizes - (y.sum() - hits) / (m.sum() - sizes)
        count += int((leads >= seen - 1e-12).sum())  # a tie must not hang on rounding
        done += part
    return ShareDifference(
        lead,
        max(lead - math.hypot(one.value - one.lower, other.upper - other.value), -1.0),
        min(lead + math.hypot(one.upper - one.value, other.value - other.lower), 1.0),
        (1 + count) / (1 + permutations),
        permutations,
        confidence,
    )


def _standard_lead(*kinds: tuple[Floats, Floats, Floats]) -> Floats:
    """Leads of the weighted shares of two kinds over what documents that are alike would give.

    Each kind is hits, sizes and weights of its documents, which are the last axis. One over the
    variance counts each document of a kind as all alike, with the share of both kinds.
    """
    shares, numbers = list[Floats](), list[Floats]()
    for y, m, w in kinds:
        shares.append((y @ w) / (m @ w))
        numbers.append((m @ w) ** 2 / (m**2 @ w**2))
    lead, total = shares[0] - shares[1], numbers[0] + numbers[1]
    both = (shares[0] * numbers[0] + shares[1] * numbers[1]) / total
    variance = both * (1.0 - both) * total / (numbers[0] * numbers[1])
    with np.errstate(divide="ignore", invalid="ignore"):
        standard: Floats = np.where(lead == 0.0, 0.0, lead / np.sqrt(variance))
    return standard


def _counted(
    hits: ArrayLike, sizes: ArrayLike, weights: ArrayLike | None = None
) -> tuple[Floats, Floats, Floats]:
    """Hits, sizes and weights (the largest is 1) of the documents that have a window."""
    y, m = np.asarray(hits, np.float64), np.asarray(sizes, np.float64)
    w = np.ones(m.shape) if weights is None else np.asarray(weights, np.float64)
    if y.ndim != 1 or y.shape != m.shape or not (m > 0).any() or not ((y >= 0) & (y <= m)).all():
        raise EstimationError(
            "hits and sizes are no counts of the windows of documents",
            cure="give one number of hits, at most its size, for each document, and one window or "
            "more in all",
            where="clustered_share",
        )
    if w.shape != m.shape or not (np.isfinite(w) & (w > 0)).all():
        raise EstimationError(
            "weights are not one number above 0 for each document",
            cure="give for each document how many of the source it stands for",
            where="clustered_share",
        )
    there = m > 0
    return y[there], m[there], w[there] / w[there].max()


def _missed(share: float, variance: float, one: float, tail: float, *, equal: bool) -> float:
    """The upper end of a share if one more document, of this share, might have had a hit."""
    if equal:
        return float(1.0 - tail**one)
    from scipy.special import gammaincinv

    mean, spread = share + one, variance + one**2
    return min(float(gammaincinv(mean**2 / spread, 1.0 - tail)) * spread / mean, 1.0)


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
