"""Exposure of canaries, from exact ranks, from certain bounds, and from uniform draws.

The exposure of a canary is ``log2|R| - log2 rank`` bits, with the rank being the number of
candidates whose log-perplexity is at most the canary's. Ties count and so does the canary
itself: the rank is at least 1 and the exposure lies in ``[0, log2|R|]``. For a canary that
was not learned, ``Pr[exposure >= t] <= 2**-t``; its median is 1 bit and its mean
``1 / ln 2 = 1.44`` bits.
"""

from __future__ import annotations

import math
import operator
import sys
from dataclasses import dataclass, replace
from typing import Annotated, SupportsIndex

import numpy as np
from numpy.typing import ArrayLike

from canary.errors import EstimationError
from canary.records.fields import brief
from canary.records.record import Infinite, Record
from canary.statistics.number_checks import LARGEST_BITS, check_confidence, exact_size, finite_array
from canary.statistics.shares import clopper_pearson

ENUMERATION = "enumeration"
"""The method that prices every candidate of the space."""

RANK = "rank"
"""The method that prices all candidates that may count, or bounds the rank where it cannot."""

RANK_AND_DRAWS = "rank and draws"
"""The method in which such bounds cut the interval of uniform draws."""

UNIFORM_DRAWS = "uniform draws"
"""The method whose exposures rest on draws alone."""

IMPORTANCE = "importance draws"
"""The method that draws what is likely more often, and weights it."""

SKEW_NORMAL = "skew-normal"
"""The method whose exposures are unbounded and have no p-value."""


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
        Confidence of the interval; None where it is certain, to within the noise of the
        model's arithmetic.
    method : str
        `ENUMERATION`, `RANK`, `RANK_AND_DRAWS`, `UNIFORM_DRAWS`, `IMPORTANCE` or
        `SKEW_NORMAL`.
    space_bits : float
        log2|R|, the largest exposure that there is; a skew-normal estimate may exceed it.
    p_value : float or None
        Probability of an exposure at least as large if the canary was not learned. None
        for a skew-normal estimate: it is read off a curve that was fitted, and nothing
        bounds how often it is too high.
    rank, rank_lower, rank_upper : int or None
        Candidates with Px <= Px(canary), the canary included, and its bounds; None for
        an estimate from draws. Where only the bounds are known, `rank` is None.
    draws, hits : int or None
        Candidates drawn uniformly, and those among them with Px <= Px(canary); None where neither
        the interval nor the p-value rests on draws.
    tail_bits : float or None
        Of a skew-normal estimate, the whole tail of the curve: ``-log2 F(Px)`` beside the
        ``-log2 (F(Px) - F(0))`` of `bits`. None if the curve has nothing there at all.
    effective_draws : float or None
        Of importance draws: how many uniform hits would tell as much of the rank. None
        where all that count were found, or where the sample tells nothing of it.
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
        """Whether only bounds are known: no draw was as likely, or the search did not end."""
        return self.bits is None

    @property
    def exact(self) -> bool:
        """Whether the rank was counted, to within the noise of the model's arithmetic."""
        return self.rank is not None

    @property
    def unbounded(self) -> bool:
        """Whether it may exceed log2|R|: it is read off a curve, not counted."""
        return self.method == SKEW_NORMAL

    def _check(self) -> None:
        if self.unbounded != (self.p_value is None):
            raise ValueError("p_value does not go with the method")
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
            "ranks": ranks == sorted(ranks)
            and all(n >= 1 and math.log2(n) <= self.space_bits + _ROUNDING_BITS for n in ranks),
            "draws and hits": 0 <= (self.hits or 0) <= (self.draws or 0),
            "confidence": self.confidence is None or 0.0 < self.confidence < 1.0,
        }
        for name, holds in sound.items():
            if not holds:
                raise ValueError(f"{name} cannot be")


def exposure_by_rank(
    rank: SupportsIndex, *, lower: SupportsIndex, upper: SupportsIndex, space_size: SupportsIndex
) -> Exposure:
    """Exposure of one canary whose rank was counted over the whole space.

    Parameters
    ----------
    rank : int
        Candidates with Px <= Px(canary), the canary included.
    lower, upper : int
        The ranks that the noise of the model's arithmetic leaves possible:
        ``1 + others below Px(canary) - noise`` and ``1 + others up to Px(canary) + noise``.
    space_size : int
        Exact size of the space, of any magnitude.

    Returns
    -------
    Exposure
        Its interval comes from `lower` and `upper` and is certain, so it has no confidence.
        Its p-value is ``upper / space_size``, the largest that the noise allows.

    Raises
    ------
    EstimationError
        Unless ``1 <= lower <= rank <= upper <= space_size``, all integers.

    References
    ----------
    .. [1] Carlini et al., The Secret Sharer, USENIX Security 2019, sections 4.2 and 4.3.

    Examples
    --------
    >>> exposure_by_rank(250_000, lower=250_000, upper=250_000, space_size=1_000_000).bits
    2.0
    """
    where = "exposure_by_rank"
    size = exact_size(space_size, where)
    low, middle, high = _ranks(size, where, lower=lower, rank=rank, upper=upper)
    return _counted(ENUMERATION, low, middle, high, size)


def exposure_by_bounds(
    *,
    lower: SupportsIndex,
    upper: SupportsIndex,
    space_size: SupportsIndex,
    rank: SupportsIndex | None = None,
) -> Exposure:
    """Exposure of one canary whose rank lies between two bounds for certain.

    Parameters
    ----------
    lower, upper : int
        The rank is one of these or between them, whatever the noise of the model's
        arithmetic did.
    space_size : int
        Exact size of the space, of any magnitude.
    rank : int, optional
        Where all candidates that may count were priced.

    Returns
    -------
    Exposure
        Its interval is certain, so it has no confidence; without `rank` it has no estimate
        either. Its p-value is ``upper / space_size``: never less than ``rank / space_size``,
        and so valid wherever the search stopped.

    Raises
    ------
    EstimationError
        Unless ``1 <= lower <= rank <= upper <= space_size``, all integers.

    Examples
    --------
    >>> exposure_by_bounds(lower=10, upper=1_000, space_size=1_024_000).lower_bits
    10.0
    """
    where = "exposure_by_bounds"
    size = exact_size(space_size, where)
    if rank is None:
        low, _, high = _ranks(size, where, lower=lower, rank=lower, upper=upper)
        return _counted(RANK, low, None, high, size)
    low, middle, high = _ranks(size, where, lower=lower, rank=rank, upper=upper)
    return _counted(RANK, low, middle, high, size)


def exposure_by_bounds_and_draws(certain: Exposure, drawn: Exposure) -> Exposure:
    """Exposure of one canary from bounds of its rank and from uniform draws together.

    Parameters
    ----------
    certain, drawn : Exposure
        The same canary's, of `exposure_by_bounds` and of `exposure_by_draws`.

    Returns
    -------
    Exposure
        Estimate and interval of `certain` where it has the rank. Elsewhere what the two
        intervals have in common, with the confidence of the draws; their estimate, moved
        into it. The p-value is `certain`'s where that is at most ``1 / (1 + draws)``, and
        ``(2 + hits) / (1 + draws)`` elsewhere.

    Notes
    -----
    Certain bounds hold always, so what is left of an interval after they cut it covers the
    truth exactly when the interval did. Where nothing is left, the draws' interval missed,
    and the bounds stand alone.

    The smaller of two p-values is none. Let ``s = 1 / (1 + draws)``, fixed beforehand, and
    S be the canaries with ``upper / |R| <= s``. If the canary was not learned, ``Pr[S] <= s``,
    for ``upper`` is never below the rank. On S the p-value is ``upper / |R|``, elsewhere that
    of the draws plus s. So for ``u < s``, ``Pr[p <= u] <= Pr[rank / |R| <= u] <= u``, and for
    ``u >= s``, ``Pr[p <= u] <= Pr[S] + Pr[(1 + hits) / (1 + draws) <= u - s] <= u``. It holds
    however the search was cut short, even if the draws decided that.
    """
    if drawn.draws is None or drawn.hits is None or certain.p_value is None:
        raise EstimationError(
            "the exposures are not one of bounds and one of draws",
            cure="give those of exposure_by_bounds and exposure_by_draws",
            where="exposure_by_bounds_and_draws",
        )
    least = 1.0 / (1 + drawn.draws)
    found = certain
    if certain.p_value > least:
        p_value = min(1.0, (2 + drawn.hits) * least)
        found = replace(certain, p_value=p_value, draws=drawn.draws, hits=drawn.hits)
    if certain.bits is not None:
        return found
    lower = max(certain.lower_bits, drawn.lower_bits)
    upper = min(certain.upper_bits, drawn.upper_bits)
    found = replace(found, method=RANK_AND_DRAWS, draws=drawn.draws, hits=drawn.hits)
    if lower > upper:
        return found
    bits = None if drawn.bits is None else min(max(drawn.bits, lower), upper)
    return replace(
        found, bits=bits, lower_bits=lower, upper_bits=upper, confidence=drawn.confidence
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
    canary_px : array_like of shape (n_canaries,)
        Log-perplexity of each canary: total, in bits.
    draws_px : array_like of shape (n_draws,)
        The same, for candidates drawn uniformly from the space, with or without
        replacement and independently of the canaries.
    space_size : int
        Exact size of the space.
    confidence : float
        Of the intervals, between 0 and 1.
    noise_bits : float
        Log-perplexities closer than this count as ties of unknown order.

    Returns
    -------
    list of Exposure
        In the order of `canary_px`. ``hits`` are the draws with Px <= Px(canary), the
        estimate is ``log2(draws / hits)`` and the p-value ``(1 + hits) / (1 + draws)``.
        With no hit the estimate is None (censored): there is a lower bound, and the upper
        one is ``log2|R|``.

    Raises
    ------
    EstimationError
        If `draws_px` is empty, an array is not one-dimensional or holds a number that is
        not finite, or an option is out of range.

    Notes
    -----
    The share of the space that the canary's rank takes has the Clopper-Pearson interval
    [1]_ of the hits, which is conservative: it covers at least as often as it says, and
    more so for draws without replacement. Its two ends count different hits, so that
    noise and ties only ever widen it: the small end those strictly below
    ``Px(canary) - noise_bits``, the large end those up to ``Px(canary) + noise_bits``.
    A tie is thus a hit for the estimate and the p-value (an untrained model that prices
    everything alike gives exposure 0 and p = 1), and undecided for the interval. A canary
    that is itself among the draws is a tie with itself, which errs towards less exposure.

    With no hit, the lower bound is the same end of the same interval: ``-log2(1 - ((1 -
    confidence) / 2)**(1 / draws))``, about ``log2(draws / 3.7)`` bits at 95 %. A one-sided
    bound at full confidence there (``log2(draws / 3)``) would leave the procedure as a
    whole with a coverage of 93.8 % where about three hits are expected.

    Sorting and binary search: O((n_draws + n_canaries) log n_draws).

    References
    ----------
    .. [1] Clopper and Pearson, The use of confidence or fiducial limits illustrated in
       the case of the binomial, Biometrika 26, 1934.

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
    if not 0.0 <= noise_bits <= LARGEST_BITS:
        raise EstimationError(
            f"noise_bits must be finite and not negative, got {noise_bits!r}",
            cure="give what the model's facts say",
            where=where,
        )
    px = finite_array(canary_px, "canary_px", where)
    draws = np.sort(finite_array(draws_px, "draws_px", where))
    n = len(draws)
    if not n:
        raise EstimationError("draws_px is empty", cure="draw at least one candidate", where=where)

    hits = np.searchsorted(draws, px, side="right")
    fewest = np.searchsorted(draws, px - noise_bits, side="left")
    most = np.searchsorted(draws, px + noise_bits, side="right")
    tail = (1.0 - confidence) / 2.0
    small, _ = clopper_pearson(fewest, n, tail)
    _, large = clopper_pearson(most, n, tail)

    space_bits = math.log2(size)
    with np.errstate(divide="ignore"):
        # A share of 0 has infinitely many bits, of which the space holds only log2|R|;
        # adding 0 turns the -0.0 of a share of 1 into 0.
        bits, upper_bits, lower_bits = (
            np.clip(-np.log2(share), 0.0, space_bits) + 0.0 for share in (hits / n, small, large)
        )
    return [
        Exposure(
            bits=float(bits[i]) if hits[i] else None,
            lower_bits=float(lower_bits[i]),
            upper_bits=float(upper_bits[i]),
            confidence=confidence,
            method=UNIFORM_DRAWS,
            space_bits=space_bits,
            p_value=float((1 + hits[i]) / (1 + n)),
            draws=n,
            hits=int(hits[i]),
        )
        for i in range(len(px))
    ]


def _ranks(
    size: int,
    where: str,
    *,
    lower: SupportsIndex,
    rank: SupportsIndex,
    upper: SupportsIndex,
) -> tuple[int, int, int]:
    """Ranks as integers, in their order and within the space."""
    try:
        low, middle, high = (operator.index(value) for value in (lower, rank, upper))
    except TypeError as error:
        raise EstimationError(
            f"ranks must be integers, got lower={brief(lower)}, rank={brief(rank)}, "
            f"upper={brief(upper)}",
            cure="count candidates, the canary included",
            where=where,
        ) from error
    if not 1 <= low <= middle <= high <= size:
        raise EstimationError(
            "expected 1 <= lower <= rank <= upper <= space_size, "
            f"got lower={brief(low)}, rank={brief(middle)}, upper={brief(high)}, "
            f"space_size={brief(size)}",
            cure="count the canary itself, and each candidate of the space once",
            where=where,
        )
    return low, middle, high


def _counted(method: str, low: int, rank: int | None, high: int, size: int) -> Exposure:
    return Exposure(
        bits=None if rank is None else _log2_ratio(size, rank),
        lower_bits=_log2_ratio(size, high),
        upper_bits=_log2_ratio(size, low),
        confidence=None,
        method=method,
        space_bits=math.log2(size),
        # Rounded up where a float would underflow to an impossible p-value of 0.
        p_value=max(high / size, sys.float_info.min),
        rank=rank,
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
