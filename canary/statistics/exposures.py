"""Exposure of canaries, from exact ranks, from certain bounds, and from uniform draws.

The exposure of a canary is ``log2|R| - log2 rank`` bits, with the rank being the number of
candidates whose log-perplexity is at most the canary's. Ties count and so does the canary
itself: the rank is at least 1 and the exposure lies in ``[0, log2|R|]``. For a canary that
was not learned, ``Pr[exposure >= t] <= 2**-t``; its median is 1 bit.
"""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Annotated, SupportsIndex

import numpy as np
from numpy.typing import ArrayLike

from canary.errors import EstimationError
from canary.records.record import Infinite, Record
from canary.records.validation import brief
from canary.statistics.number_checks import check_confidence, check_draws, checked_px, exact_size
from canary.statistics.shares import clopper_pearson

# How exposures come about, in words for the reader. What they rest on, their numbers say.
ENUMERATION = "enumeration"  # every candidate of the space is scored
RANK = "rank"  # all candidates that may count are scored, or the rank is bounded
RANK_AND_DRAWS = "rank and draws"  # such bounds cut the interval of uniform draws
UNIFORM_DRAWS = "uniform draws"
IMPORTANCE = "importance draws"  # what is likely is drawn more often, and weighted
SKEW_NORMAL = "skew-normal"  # read off a curve: unbounded, and without a p-value

MOST_BITS = 1e15
"""Beyond it no exposure is one, and no figure could show it."""

_ROUNDING_BITS = 1e-6


@dataclass(frozen=True)
class Exposure(Record):
    """Exposure of one canary: log2|R| - log2 rank, in bits.

    Parameters
    ----------
    bits : float or None
        The estimate; None where only a bound is known (`censored`).
    lower_bits, upper_bits : float
        The interval. Only that of a skew-normal estimate may have no upper end (infinity).
    confidence : float or None
        Confidence of the interval, each end missing as often as the other; None where it
        is certain, to within the noise of the model, or that of a curve's fit alone.
    method : str
        `ENUMERATION`, `RANK`, `RANK_AND_DRAWS`, `UNIFORM_DRAWS`, `IMPORTANCE`,
        `SKEW_NORMAL`, or what another method calls it; nothing else depends on it.
    space_bits : float
        log2|R|, the largest exposure that there is; a skew-normal estimate may exceed it.
    p_value : float or None
        Probability of an exposure at least as large if the canary was not learned. None
        for a skew-normal estimate: nothing bounds how often a fitted curve is too high.
    rank, rank_lower, rank_upper : int or None
        Candidates with Px <= Px(canary), the canary included, and its certain bounds; None
        for an estimate from draws. Where only the bounds are known, `rank` is None.
    draws, hits : int or None
        Candidates drawn uniformly, and those among them with Px <= Px(canary); None where
        neither the interval nor the p-value rests on draws.
    tail_bits : float or None
        Of a skew-normal estimate, the whole tail of the curve: ``-log2 F(Px)`` beside the
        ``-log2 (F(Px) - F(0))`` of `bits`. None if the curve has nothing there at all.
    effective_draws : float or None
        Of importance draws: how many uniform hits would say as much of the rank. None
        where all that count were found, or where the sample says nothing of it.
    """

    bits: float | None
    lower_bits: float
    upper_bits: Annotated[float, Infinite(up=None)]
    confidence: float | None
    method: str
    space_bits: float
    p_value: float | None
    rank: int | None = None
    rank_lower: int | None = None
    rank_upper: int | None = None
    draws: int | None = None
    hits: int | None = None
    tail_bits: float | None = None
    effective_draws: float | None = None

    @property
    def censored(self) -> bool:
        """Whether nothing is known but the interval, since no draw was as likely.

        Where a search ended before the rank, so it is with few such draws.
        """
        return self.bits is None

    @property
    def place_bits(self) -> float:
        """Where it is among others, for lines and trackers: no more likely canary is below it.

        The estimate; without one, that of a single hit if there were draws, within the interval.
        """
        if self.bits is not None:
            return self.bits
        return min(max(math.log2(self.draws or 1), self.lower_bits), self.upper_bits)

    @property
    def exact(self) -> bool:
        """Whether the rank was counted, to within the noise of the model's arithmetic."""
        return self.rank is not None

    @property
    def unbounded(self) -> bool:
        """Whether it may exceed log2|R|: it is read off a curve, and has no p-value."""
        return self.p_value is None

    @property
    def miss(self) -> float:
        """Chance that one end of the interval is too far in; 1 where nothing bounds it."""
        if self.confidence is None or self.unbounded:
            return float(self.unbounded or self.rank_upper is None)
        return (1.0 - self.confidence) / 2.0

    @property
    def only_draws(self) -> int | None:
        """The number of draws, if nothing else could have said how likely the canary is."""
        return self.draws if self.rank_upper is None else None

    def _check(self) -> None:
        most = MOST_BITS if self.unbounded else self.space_bits + _ROUNDING_BITS
        low, high = self.lower_bits, self.upper_bits
        middle = low if self.bits is None else self.bits
        ranks = [n for n in (self.rank_lower, self.rank, self.rank_upper) if n is not None]
        open_ended = self.unbounded and high == math.inf
        sound = {
            "space_bits": 0.0 <= self.space_bits <= MOST_BITS,
            "lower_bits or upper_bits": -_ROUNDING_BITS <= low <= most
            and (open_ended or -_ROUNDING_BITS <= high <= most),
            "bits outside of the interval": middle <= most
            and low - _ROUNDING_BITS <= middle <= high + _ROUNDING_BITS,
            "p_value": not (self.unbounded and ranks),
            "ranks": ranks == sorted(ranks)
            and (self.rank_lower is None) == (self.rank_upper is None)
            and all(n >= 1 and math.log2(n) <= self.space_bits + _ROUNDING_BITS for n in ranks),
            "draws and hits": 0 <= (self.hits or 0) <= (self.draws or 0),
            "confidence": 0.0 < self.confidence < 1.0
            if self.confidence is not None
            else self.unbounded or self.rank_upper is not None,
        }
        for name, holds in sound.items():
            if not holds:
                raise ValueError(f"{name} cannot be")


def check_exposures(exposures: Iterable[Exposure], *, p_values: bool, where: str) -> None:
    """Refuse what a method gave if its parts contradict each other, or if nothing bounds it.

    An interval needs a confidence or certain ranks, and `p_values` says whether an exposure
    has a p-value. An EstimationError names the method by `where`.
    """
    for exposure in exposures:
        try:
            exposure._check()
            if exposure.unbounded == p_values:
                raise ValueError(f"p_value cannot be {brief(exposure.p_value)}")
        except ValueError as error:
            raise EstimationError(
                f"a method gave an invalid exposure: {error}",
                cure="mend the method; an interval has a confidence or certain ranks",
                where=where,
            ) from error


def exposure_by_rank(
    rank: SupportsIndex, *, lower: SupportsIndex, upper: SupportsIndex, space_size: SupportsIndex
) -> Exposure:
    """Exposure of one canary whose rank was counted over the whole space.

    The interval is certain, so it has no confidence. The p-value is ``upper / space_size``, the
    largest that the noise allows (Carlini et al., The Secret Sharer, 2019, sections 4.2 and 4.3).

    Parameters
    ----------
    rank : int
        Candidates with Px <= Px(canary), the canary included.
    lower, upper : int
        The ranks that the noise of the model's arithmetic leaves possible:
        ``1 + others below Px(canary) - noise`` and ``1 + others up to Px(canary) + noise``.
    space_size : int
        Of any magnitude. Unless ``1 <= lower <= rank <= upper <= space_size``, all integers, an
        EstimationError is raised.

    Examples
    --------
    >>> exposure_by_rank(250_000, lower=250_000, upper=250_000, space_size=1_000_000).bits
    2.0
    """
    return _counted((lower, rank, upper), space_size, ENUMERATION, "exposure_by_rank")


def exposure_by_bounds(
    *,
    lower: SupportsIndex,
    upper: SupportsIndex,
    space_size: SupportsIndex,
    rank: SupportsIndex | None = None,
) -> Exposure:
    """Exposure of one canary whose rank is between two bounds for certain.

    As `exposure_by_rank`; without `rank` it has no estimate. The p-value, ``upper /
    space_size``, is valid wherever the search stopped.

    Examples
    --------
    >>> exposure_by_bounds(lower=10, upper=1_000, space_size=1_024_000).lower_bits
    10.0
    """
    return _counted((lower, rank, upper), space_size, RANK, "exposure_by_bounds")


def _counted(
    ranks: tuple[SupportsIndex, SupportsIndex | None, SupportsIndex],
    space_size: SupportsIndex,
    method: str,
    where: str,
) -> Exposure:
    size = exact_size(space_size, where)
    lower, rank, upper = ranks
    middle = lower if rank is None else rank
    try:
        low, counted, high = (operator.index(value) for value in (lower, middle, upper))
    except TypeError as error:
        raise EstimationError(
            f"ranks must be integers, got lower={brief(lower)}, rank={brief(middle)}, "
            f"upper={brief(upper)}",
            cure="count candidates, the canary included",
            where=where,
        ) from error
    if not 1 <= low <= counted <= high <= size:
        raise EstimationError(
            "expected 1 <= lower <= rank <= upper <= space_size, "
            f"got lower={brief(low)}, rank={brief(counted)}, upper={brief(high)}, "
            f"space_size={brief(size)}",
            cure="count the canary itself, and each candidate of the space once",
            where=where,
        )
    return Exposure(
        bits=None if rank is None else _log2_ratio(size, counted),
        lower_bits=_log2_ratio(size, high),
        upper_bits=_log2_ratio(size, low),
        confidence=None,
        method=method,
        space_bits=math.log2(size),
        # Rounded up where a float would underflow to an impossible p-value of 0.
        p_value=max(high / size, sys.float_info.min),
        rank=None if rank is None else counted,
        rank_lower=low,
        rank_upper=high,
    )


def _log2_ratio(size: int, rank: int) -> float:
    """``log2(size / rank)`` of integers of any magnitude, rank <= size."""
    try:
        # Division of Python integers rounds once, correctly, however large they are.
        return math.log2(size / rank)
    except OverflowError:
        return math.log2(size) - math.log2(rank)


def exposure_by_bounds_and_draws(certain: Exposure, drawn: Exposure) -> Exposure:
    """Exposure of one canary from bounds of its rank and from uniform draws together.

    `certain` is of `exposure_by_bounds`, `drawn` of `exposure_by_draws`. Estimate and interval
    are those of `certain` where it has the rank; elsewhere what the two intervals have in common,
    with the confidence and the estimate of the draws; the bounds alone where they have nothing in
    common. The p-value is `certain`'s where that is at most ``1 / (1 + draws)``, and ``(2 + hits)
    / (1 + draws)`` elsewhere.

    Notes
    -----
    The smaller of two p-values is none. Let ``s = 1 / (1 + draws)``, fixed beforehand, and
    S be the canaries with ``upper / |R| <= s``. If the canary was not learned, ``Pr[S] <= s``,
    for ``upper`` is never below the rank. On S the p-value is ``upper / |R|``, elsewhere that
    of the draws plus s. So for ``u < s``, ``Pr[p <= u] <= Pr[rank / |R| <= u] <= u``, and for
    ``u >= s``, ``Pr[p <= u] <= Pr[S] + Pr[(1 + hits) / (1 + draws) <= u - s] <= u``.
    """
    if drawn.draws is None or drawn.hits is None or certain.p_value is None:
        raise EstimationError(
            "the exposures are not one of bounds and one of draws",
            cure="give those of exposure_by_bounds and exposure_by_draws",
            where="exposure_by_bounds_and_draws",
        )
    with_draws = replace(certain, draws=drawn.draws, hits=drawn.hits)
    least = 1.0 / (1 + drawn.draws)
    by_draws = certain.p_value > least
    if by_draws:
        with_draws = replace(with_draws, p_value=min(1.0, (2 + drawn.hits) * least))
    if certain.bits is not None:
        return with_draws if by_draws else certain
    with_draws = replace(with_draws, method=RANK_AND_DRAWS)
    lower = max(certain.lower_bits, drawn.lower_bits)
    upper = min(certain.upper_bits, drawn.upper_bits)
    if lower > upper:
        return with_draws
    bits = None if drawn.bits is None else min(max(drawn.bits, lower), upper)
    return replace(
        with_draws, bits=bits, lower_bits=lower, upper_bits=upper, confidence=drawn.confidence
    )


def exposure_by_draws(
    canary_px: ArrayLike,
    draws_px: ArrayLike,
    *,
    space_size: SupportsIndex,
    confidence: float = 0.95,
    noise_bits: float = 0.0,
) -> list[Exposure]:
    """Exposure of each canary from its place among uniform draws from its space.

    Parameters
    ----------
    canary_px, draws_px : array_like of shape (n_canaries,) and (n_draws,)
        Log-perplexities in bits, of the canaries and of candidates drawn uniformly from the
        space, with or without replacement and independently of the canaries.
    space_size : int
    confidence : float
    noise_bits : float
        Log-perplexities closer than this count as ties of unknown order.

    Returns
    -------
    list of Exposure
        ``hits`` are the draws with Px <= Px(canary), the estimate is ``log2(draws / hits)`` and
        the p-value ``(1 + hits) / (1 + draws)``. With no hit the estimate is None (censored):
        there is a lower bound, and the upper one is ``log2|R|``.

    Raises
    ------
    EstimationError
        If there are no draws, or fewer than ten for 100 canaries or more, the same
        draws are given several times, an array is not one-dimensional or finite, or an option is
        out of range.

    Notes
    -----
    The interval of the rank's share of the space is that of Clopper and Pearson (Biometrika 26,
    1934). Its two ends count different hits, so that noise and ties only ever widen it: the
    small end those strictly below ``Px(canary) - noise_bits``, the large end those up to
    ``Px(canary) + noise_bits``. A tie is a hit for the estimate and the p-value, and undecided for
    the interval. O((n_draws + n_canaries) log n_draws).

    Examples
    --------
    >>> sure, lost = exposure_by_draws([3.0, 1.0], [2.0, 4.0, 5.0, 6.0], space_size=100)
    >>> sure.bits, sure.hits, sure.p_value
    (2.0, 1, 0.4)
    >>> lost.censored, lost.lower_bits < lost.upper_bits
    (True, True)
    """
    where = "exposure_by_draws"
    size = exact_size(space_size, where)
    check_confidence(confidence, where)
    px = checked_px(canary_px, "canary_px", where)
    draws = np.sort(checked_px(draws_px, "draws_px", where))
    n = len(draws)
    check_draws(draws, size, noise_bits, where, canaries=len(px))
    hits = np.searchsorted(draws, px, side="right")
    fewest = np.searchsorted(draws, px - noise_bits, side="left")
    most = np.searchsorted(draws, px + noise_bits, side="right")
    tail = (1.0 - confidence) / 2.0
    shares = hits / n, clopper_pearson(fewest, n, tail)[0], clopper_pearson(most, n, tail)[1]
    space_bits = math.log2(size)
    with np.errstate(divide="ignore"):
        # A share of 0 has infinitely many bits, of which the space holds only log2|R|;
        # adding 0 turns the -0.0 of a share of 1 into 0.
        bits, upper_bits, lower_bits = (
            (np.clip(-np.log2(share), 0.0, space_bits) + 0.0).tolist() for share in shares
        )
    return [
        Exposure(
            bits=bits[i] if hit else None,
            lower_bits=lower_bits[i],
            upper_bits=upper_bits[i],
            confidence=confidence,
            method=UNIFORM_DRAWS,
            space_bits=space_bits,
            p_value=(1 + hit) / (1 + n),
            draws=n,
            hits=hit,
        )
        for i, hit in enumerate(hits.tolist())
    ]
