"""Privacy risk scores: the chance that a sample is a member, given what the model says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from canary.errors import EstimationError
from canary.membership.association import blind_shadows, check_both_kinds, warn_of_flags
from canary.membership.singled_out import with_ranks
from canary.records.validation import one_of
from canary.signals.signal_table import SignalTable
from canary.statistics.number_checks import check_confidence, check_prior, positive_integer
from canary.statistics.numbers import Shown, plural
from canary.statistics.roc import Estimate, scored_members

Flags = NDArray[np.bool_]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Scale = Literal["log", "linear"]

BINS = 5
"""Of the histogram of a class, unless others are asked for."""

RISK_SIGNAL = "modified-entropy"
"""The signal whose distribution gives the risk."""

LEAST_ENTROPY = 1e-10
"""Lower values count as this where logarithms are taken."""

_DRAWS = 10_000
_CELLS = 1 << 23
"""Most bins of all histograms together: about half a gigabyte while they are filled."""

_GRID = 512
_SILVERMAN = 0.9
_QUARTILES = 1.349  # quartile distance of a normal distribution, in standard deviations
_TRACE, _FEW = 0.01, 10


@dataclass(frozen=True, eq=False, repr=False)
class RiskScores(Shown):
    """The privacy risk score of each sample of a target.

    `scores` of shape (samples,) are posterior probabilities of being a member, which is `prior`
    before anything is known. `bins` is None for the smoothed estimate. `pooled` flags the classes
    of too few shadow samples, which use the histogram of all classes. `support` of shape
    (samples,) is the number of shadow samples in the bin that a score is read from; None for the
    smoothed estimate. `samples` are columns of the table: id, if the samples have names, label,
    member and modified entropy.
    """

    scores: Floats
    prior: float
    bins: int | None
    scale: Scale
    pooled: Flags
    support: Ints | None = None
    samples: Mapping[str, NDArray[Any]] = field(default_factory=dict)

    @property
    def thin(self) -> Flags:
        """Which scores rest on fewer than ten shadow samples, and so mean little."""
        return np.broadcast_to(self.support is not None and self.support < _FEW, self.scores.shape)

    def summary(self) -> str:
        """How the scores are spread."""
        low, middle, high = np.quantile(self.scores, [0.25, 0.5, 0.75])
        return (
            f"risk scores of {plural(len(self.scores), 'sample')}: median {middle:.2f}, half of "
            f"them from {low:.2f} to {high:.2f}; prior {self.prior:g}"
        )

    def _table(self) -> dict[str, Any]:
        rests = {} if self.support is None else {"support": self.support, "thin": self.thin * 1}
        place = np.arange(len(self.scores))
        return with_ranks({"sample": place, **self.samples, "risk": self.scores, **rests})


def risk_scores(
    table: SignalTable,
    *,
    shadow: SignalTable | None = None,
    target: int = 0,
    prior: float = 0.5,
    bins: int | None = None,
    scale: Scale = "log",
    least: int = 10,
    smooth: bool = False,
) -> RiskScores:
    """The privacy risk score of every sample, by a shadow's modified entropy.

    Parameters
    ----------
    table, shadow, target
        As in `canary.attack`.
    prior : float
        Between 0 and 1.
    bins : int, optional
        Of the histogram of a class, besides one for infinity; with the classes at most about
        eight million in all. 5 unless given.
    scale : {"log", "linear"}
        Bins of equal width, or a kernel of one width, in the logarithm (values below 1e-10 count as
        that) or in the modified entropy itself.
    least : int
        Members and non-members that a class needs for a histogram or densities of its own.
    smooth : bool
        Kernel densities in place of histograms.

    Warns
    -----
    UserWarning
        As `canary.attack`.

    Raises
    ------
    InputError
        As `canary.attack`.
    EstimationError
        If an option is out of range, bins are given for a smoothed estimate, or the shadow has
        no members or no non-members.

    Notes
    -----
    Song and Mittal, USENIX Security 2021, section 4.1: with ``a`` and ``b`` the shares
    of the shadow's members and non-members of the class that fall in the bin of the sample's
    modified entropy (equation 15), or their densities there, the score is
    ``prior a / (prior a + (1 - prior) b)``.

    Bins span the finite shadow values of a class. What is outside belongs to the nearest bin, and a
    bin without shadow samples takes the shares of the nearest that has some; of two as near, of the
    lower. Kernels are Gaussians of one width for both kinds: Silverman's ``0.9 s n^(-1/5)``, with
    ``n`` the smaller number of the two kinds and ``s^2`` the mean of their squared spreads. A
    hundredth of a sample of each kind is added everywhere, so that in a gap the score is the prior.
    """
    where = "risk scores"
    check_prior(prior, where)
    positive_integer(least, "least", where, cure="10 samples are usual")
    one_of(scale, "scale", get_args(Scale), error=EstimationError, where=where)
    if smooth and bins is not None:
        raise EstimationError(
            f"bins={bins} and smooth were both given, and smoothed risk scores have no bins",
            cure="leave one of them out (--bins, --smooth)",
            where=where,
        )
    positive_integer(made := BINS if bins is None else bins, "bins", where, cure="5 are usual")
    most = _CELLS // (table.classes + 1) - 1
    if made > most:
        raise EstimationError(
            f"bins={made:,} for each of {table.classes:,} classes",
            cure=f"give at most {most:,}; 5 are usual, and more bins than samples say nothing",
            where=where,
        )
    shadows = blind_shadows(table, shadow=shadow, target=target)
    warn_of_flags(table, shadow, row=target)
    values, member, label = shadows.samples(RISK_SIGNAL, table.classes)
    check_both_kinds(member, where)
    members = np.bincount(label[member], minlength=table.classes)
    both = np.minimum(members, np.bincount(label, minlength=table.classes) - members)
    pooled = both < least
    rows = np.where(pooled, table.classes, np.arange(table.classes))[table.label]
    queries = table.signal(RISK_SIGNAL)[target]
    if scale == "log":
        values, queries = (np.log(np.maximum(some, LEAST_ENTROPY)) for some in (values, queries))
    known = _Known(values, member, label, table.classes)
    samples = {} if table.ids is None else {"id": table.ids}
    samples |= {"label": table.label, "member": table.member[target].astype(np.int8)}
    samples["modified_entropy"] = table.signal(RISK_SIGNAL)[target]
    if smooth:
        posterior = known.by_kernels(queries, rows, prior=prior)
        return RiskScores(posterior, prior, None, scale, pooled, samples=samples)
    scores, support = known.by_histograms(queries, rows, prior=prior, bins=made)
    return RiskScores(scores, prior, made, scale, pooled, support, samples)


class _Known:
    """Posterior probabilities of queries, by the row of their class; the last is of all classes."""

    def __init__(self, values: Floats, member: Flags, label: Ints, classes: int) -> None:
        self.values, self.rows = values, classes + 1
        everyone = np.full(len(label), classes)
        # Number and flags of both kinds, with the row of each sample: its own, and that of all.
        flags = (~member, member)
        self.kinds = [(kind, flags[kind], rows) for kind in (0, 1) for rows in (label, everyone)]
        # Least and largest finite value of each class, and of all after them.
        finite = np.isfinite(values)
        low, high = np.full((2, self.rows), np.inf)
        high = -high
        np.minimum.at(low, label[finite], values[finite])
        np.maximum.at(high, label[finite], values[finite])
        low[-1], high[-1] = low.min(), high.max()
        none = ~np.isfinite(low)
        low[none] = high[none] = 0.0
        self.low, self.high = low, high

    def by_histograms(
        self, queries: Floats, rows: Ints, *, prior: float, bins: int
    ) -> tuple[Floats, Ints]:
        """By bins of equal width between the ends of each row, and one for infinity.

        Beside the posteriors, the number of samples in the bin that each was read from.
        """
        width = self.high - self.low
        steps = bins / np.where(width > 0, width, np.inf)

        def place(values: Floats, rows: Ints) -> Ints:
            finite = values < np.inf
            inside = (np.where(finite, values, 0.0) - self.low[rows]) * steps[rows]
            return np.where(finite, np.clip(inside, 0, bins - 1), bins).astype(np.int64)

        shares = np.zeros((2, self.rows, bins + 1))
        for kind, flags, of in self.kinds:
            points = place(self.values[flags], of[flags])
            shares[kind] += _counted(of[flags], points, shares[kind])
        counts = shares.sum(axis=0)
        nearest, asked = nearest_filled(counts > 0), place(queries, rows)
        shares /= np.maximum(shares.sum(axis=2, keepdims=True), 1.0)
        shares = np.take_along_axis(shares, nearest[None], axis=2)
        support = counts[rows, nearest[rows, asked]].astype(np.int64)
        return np.asarray(_posterior(shares, prior)[rows, asked]), support

    def by_kernels(self, queries: Floats, rows: Ints, *, prior: float) -> Floats:
        """By Gaussian kernels on a grid between the ends of each row; infinity is apart."""
        low = self.low
        step = np.where(self.high > low, self.high - low, 1.0) / (_GRID - 1)

        def place(values: Floats, rows: Ints) -> tuple[Ints, Floats]:
            """The grid point at or below each value, and how far it is on to the next."""
            inside = np.clip(values, low[rows], (low + (_GRID - 1) * step)[rows])
            along = (inside - low[rows]) / step[rows]
            point = np.minimum(along.astype(np.int64), _GRID - 2)
            return point, along - point

        finite = np.isfinite(self.values)
        counts, endless = np.zeros((2, self.rows, _GRID)), np.zeros((2, self.rows))
        for kind, flags, of in self.kinds:
            here = flags & finite
            point, part = place(self.values[here], of[here])
            counts[kind] += _counted(of[here], point, counts[kind], 1.0 - part)
            counts[kind] += _counted(of[here], point + 1, counts[kind], part)
            endless[kind] += np.bincount(of[flags & ~finite], minlength=self.rows)
        divisor = np.maximum(counts.sum(axis=2) + endless, 1.0)
        posterior = _posterior(_smoothed(counts) / divisor[:, :, None], prior)
        known = endless.sum(axis=0) > 0
        beyond = np.where(known, _posterior(endless / divisor, prior), posterior[:, -1])
        point, part = place(queries, rows)
        between = posterior[rows, point] * (1.0 - part) + posterior[rows, point + 1] * part
        return np.where(np.isfinite(queries), between, beyond[rows])


def nearest_filled(filled: Flags) -> Ints:
    """For each bin the nearest one of its row with samples; of two the lower."""
    places = np.arange(filled.shape[1])
    far = 3 * len(places)
    below = np.maximum.accumulate(np.where(filled, places, -far), axis=1)
    above = np.minimum.accumulate(np.where(filled, places, far)[:, ::-1], axis=1)[:, ::-1]
    nearest = np.where(places - below <= above - places, below, above)
    return np.where(filled.any(axis=1, keepdims=True), nearest, places)


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


@dataclass(frozen=True, eq=False)
class Reliability:
    """Scores beside the share of members among samples of such scores.

    Arrays have the shape (bins,), of bins with samples; `score` is their mean score, and `share`
    that of members, weighted to the prior. `rmse` is the root of the mean of
    ``(score - share)^2`` over the bins, `calibration_error` the mean of ``|score - share|`` over
    the samples, weighted to the prior.
    """

    score: Floats
    share: Floats
    members: Ints
    nonmembers: Ints
    rmse: float
    calibration_error: Estimate


def reliability(
    risks: RiskScores | ArrayLike,
    member: Flags,
    *,
    prior: float | None = None,
    bins: int = 10,
    confidence: float = 0.95,
) -> Reliability:
    """Whether samples of a score are members as often as it says.

    Parameters
    ----------
    risks : RiskScores, or array_like of shape (samples,)
        Or any other scores from 0 to 1, such as the outputs of an attack network.
    member : ndarray of bool of shape (samples,)
        Of both kinds.
    prior : float, optional
        How common members are, where the scores are to hold. Unless given, that of the risk
        scores, or 0.5.
    bins : int
        Of equal width from 0 to 1.
    confidence : float

    Notes
    -----
    Song and Mittal, section 4.2.1. The calibration error is ``sum_b |d_b|``, where
    ``d_b`` is the sum over bin b of weight times (score - member), with normal errors ``e``. As
    ``sum |d + e| <= sum |d| + sum |e|``, the lower end takes the quantile of the last sum off
    (10,000 seeded draws). As ``sum |d| <= sum |d + e| - sum sign(d_b) e_b``, whose variance is at
    most the sum of the uncentred second moments, these give the upper end, with one sample more in
    the middle of each bin.
    """
    from scipy.special import ndtri

    where = "reliability"
    check_confidence(confidence, where)
    positive_integer(bins, "bins", where, cure="10 bins are usual")
    own = risks.scores if isinstance(risks, RiskScores) else risks
    scores, flags = scored_members(own, member, where)
    if not ((scores >= 0.0) & (scores <= 1.0)).all():
        raise EstimationError(
            f"scores lie from {scores.min():g} to {scores.max():g}",
            cure="give probabilities of being a member, from 0 to 1",
            where=where,
        )
    if prior is None:
        prior = risks.prior if isinstance(risks, RiskScores) else 0.5
    check_prior(prior, where)
    at = np.minimum((scores * bins).astype(np.int64), bins - 1)
    inside = np.bincount(at[flags], minlength=bins)
    outside = np.bincount(at[~flags], minlength=bins)
    weigh_in = prior / inside.sum()
    weigh_out = (1.0 - prior) / outside.sum()
    weight = weigh_in * inside + weigh_out * outside
    there = weight > 0
    weights = np.where(flags, weigh_in, weigh_out)
    mean = np.bincount(at, weights * scores, minlength=bins)[there] / weight[there]
    share = (weigh_in * inside)[there] / weight[there]
    off = np.abs(mean - share)
    error = float(weight[there] @ off)
    # Uncentred variances of the sum of each bin, and covariance of all sums, of both kinds.
    square, covariance = np.zeros(int(there.sum())), np.zeros((int(there.sum()),) * 2)
    for kind, weigh, truth in ((flags, weigh_in, 1.0), (~flags, weigh_out, 0.0)):
        away = scores[kind] - truth
        middle = (np.arange(bins) + 0.5) / bins - truth
        squares = weigh**2 * (np.bincount(at[kind], away**2, bins) + middle**2)[there]
        total = weigh * np.bincount(at[kind], away, bins)[there]
        square += squares
        covariance += np.diag(squares) - np.outer(total, total) / len(away)
    tail = (1.0 - confidence) / 2.0
    values, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    drawn = np.random.default_rng(0).standard_normal((_DRAWS, len(root))) @ root.T
    low = float(np.quantile(np.abs(drawn).sum(axis=1), 1.0 - tail))
    high = -float(ndtri(tail)) * float(np.sqrt(square.sum()))
    return Reliability(
        mean,
        share,
        inside[there],
        outside[there],
        float(np.sqrt(np.mean(off**2))),
        Estimate(error, max(error - low, 0.0), min(error + high, 1.0)),
    )
