"""What a test of canaries can see, before anything is trained.

Log-perplexities of candidates are about normal. So a canary that was learned is thought of as
one whose log-perplexity moved to the left by `d` standard deviations: the share of the space
that is as likely as it is ``Phi(z - d)`` with z standard normal, and its exposure the negative
logarithm of that. `d` is named by the median exposure that it gives, ``-log2 Phi(-d)``; 1 bit
is a canary that was not learned.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import SupportsIndex

import numpy as np
from numpy.typing import NDArray

from canary.errors import EstimationError
from canary.statistics.medians import agreeing
from canary.statistics.number_checks import (
    LN2,
    check_chance,
    check_confidence,
    exact_size,
    halved,
    positive_integer,
)
from canary.statistics.pvalues import MOST, MOST_DRAWS, urn_critical

Floats = NDArray[np.float64]

_REACH = 8.0
_NODES = 801
_BINS = 4_096
_LONGEST = 1 << 20
_EXACT_HITS = 64
_MOST_CANARIES = 4_096
_MOST_DRAWS = 10**12
_DENSE_BITS = 50  # beyond it ranks are as good as continuous
_TAIL = 0.025  # what the interval of a canary's draws misses at one end


def shift_of(median_bits: float) -> float:
    """By how many standard deviations log-perplexities moved, to give this median exposure."""
    from scipy.special import ndtri_exp

    return -float(ndtri_exp(-median_bits * LN2))


def evidence_power(
    median_bits: float,
    *,
    canaries: SupportsIndex,
    space_size: SupportsIndex,
    draws: SupportsIndex | None = None,
    level: float = 0.01,
) -> float:
    """Chance that Fisher's p-value of a group is at most `level`.

    Parameters
    ----------
    median_bits : float
        Median exposure of canaries like these, 1 or more.
    canaries, space_size : int
        Canaries in the group, and candidates.
    draws : int, optional
        With which all are compared; exact ranks unless given.
    level : float

    Notes
    -----
    The distribution of ``-ln p`` of one canary, on a grid, folded with itself by FFT. That
    canaries share their draws enters the critical value, not the spread. Right to about one
    in a hundred, by simulations.

    Examples
    --------
    >>> round(evidence_power(1.0, canaries=8, space_size=10**9), 3)
    0.01
    """
    from scipy.special import gammainccinv

    where = "evidence_power"
    k, size, drawn = _checked(median_bits, canaries, space_size, draws, where)
    check_chance(level, where, name="level")
    critical = float(gammainccinv(k, level))  # in nats, of the sum of -ln p
    if drawn is not None and k <= MOST and drawn <= MOST_DRAWS:
        critical = urn_critical(drawn, k, level)
    elif drawn is not None:
        scale = math.sqrt(1.0 + k / drawn)
        critical = critical * scale - k * (scale - 1.0)
    values, weights = _minus_log_p(median_bits, size, drawn)
    bins = min(_BINS, max(_LONGEST // k, 16))
    # Split between two neighbours, so that the mean stays.
    places = np.minimum(values / critical, 1.0) * bins
    lower = np.minimum(np.floor(places).astype(np.int64), bins - 1)
    part = places - lower
    one = np.bincount(lower, weights * (1.0 - part), bins + 1)
    one += np.bincount(lower + 1, weights * part, bins + 1)
    length = 1 << math.ceil(math.log2(k * bins + 1))
    summed = np.fft.irfft(np.fft.rfft(one, length) ** k, length)
    return min(max(float(summed[bins : k * bins + 1].sum()), 0.0), 1.0)


def limit_power(
    median_bits: float,
    limit_bits: float,
    *,
    canaries: SupportsIndex,
    space_size: SupportsIndex,
    draws: SupportsIndex | None = None,
    confidence: float = 0.9,
) -> tuple[float, float]:
    """Chances that the median is found above a limit for sure, and at most the limit for sure.

    Parameters are those of `evidence_power`; `confidence` is that of
    `canary.statistics.medians.median_interval`.

    Notes
    -----
    By exact ranks canaries count independently. Draws are shared, and a less likely canary
    never has fewer hits. So c of k canaries surely exceed the limit if and only if the c-th
    most exposed of them does: the chance is an average over that order statistic, whose share
    is ``Phi(z - d)`` with ``Phi(z)`` of the beta distribution (c, k - c + 1).

    Examples
    --------
    >>> above, below = limit_power(18.0, 10.0, canaries=8, space_size=10**9)
    >>> round(above, 2), below < 1e-3
    (0.86, True)
    """
    from scipy.special import bdtr, bdtrc, betainccinv, betaincinv, ndtr
    from scipy.stats import binom

    where = "limit_power"
    k, size, drawn = _checked(median_bits, canaries, space_size, draws, where)
    check_confidence(confidence, where)
    shift = shift_of(median_bits)
    miss = 0.0 if drawn is None else _TAIL
    needed = agreeing((k,), (miss,), confidence=confidence)
    if needed is None or needed > k:
        return 0.0, 0.0
    bits, share = math.log2(size), 2.0**-limit_bits
    if drawn is None:
        least = limit_bits  # exposure above the limit that a whole rank has
        if limit_bits >= bits:
            least = math.inf
        elif bits < _DENSE_BITS:
            least = bits - math.log2(max(math.ceil(size * share) - 1, 1))
        above = float(ndtr(shift - shift_of(least)))
        return (
            float(binom.sf(needed - 1, k, above)),
            float(binom.sf(needed - 1, k, 1.0 - above)),
        )
    # The most hits whose whole interval lies above the limit, and the fewest at or below it.
    middle = drawn * share
    hits = np.arange(min(drawn, math.ceil(middle + 10.0 * math.sqrt(middle) + 20.0)) + 1)
    few = hits[betainccinv(hits + 1, np.maximum(drawn - hits, 0.5), _TAIL) < share]
    many = hits[1:][betaincinv(hits[1:], drawn - hits[1:] + 1, _TAIL) >= share]
    z = _ordered_normal(needed, k)
    over = float(bdtr(few.max(), drawn, ndtr(z - shift)).mean()) if len(few) else 0.0
    under = float(bdtrc(many.min() - 1, drawn, ndtr(-z - shift)).mean()) if len(many) else 0.0
    return over, 1.0 if limit_bits >= bits else under


@lru_cache(maxsize=512)
def _ordered_normal(place: int, number: int) -> Floats:
    """Quantiles in the middle of equal shares of the place-th smallest of so many normals."""
    from scipy.special import betaincinv, ndtri

    middle = (np.arange(_NODES) + 0.5) / _NODES
    return np.asarray(ndtri(betaincinv(place, number - place + 1, middle)))


def smallest_seen(
    power_at: Callable[[float], float], wanted: float, *, low: float, high: float
) -> float | None:
    """The smallest median exposure at which `power_at` reaches what is wanted, in bits.

    None if it does not at `high`. The power has to grow from `low` to `high`.
    """
    if power_at(high) < wanted:
        return None
    return halved(lambda bits: power_at(bits) < wanted, low, high, steps=24)[1]


def canaries_for(power_of: Callable[[int], float], wanted: float) -> int | None:
    """The smallest number of canaries with which `power_of` reaches what is wanted.

    None if 4,096 are too few. Powers of whole numbers of canaries rise in steps with small
    falls between them; a number is found below which none, or next to none, would do.
    """
    high = 1
    while power_of(high) < wanted:
        high *= 2
        if high > _MOST_CANARIES:
            return None
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        if power_of(middle) >= wanted:
            high = middle
        else:
            low = middle
    while high > 1 and power_of(high - 1) >= wanted:
        high -= 1
    return high


def draws_to_tell(bits: float | None, limit_bits: float, *, tail: float) -> int | None:
    """About how many draws distinguish an exposure from a limit.

    Enough that the interval around the expected hits, which misses with the chance `tail` at
    either end, leaves out the limit. None if a million millions would not do. `bits` is None for an
    exposure beyond what was drawn.
    """
    from scipy.special import betainccinv, betaincinv

    share = 2.0**-limit_bits
    if bits is None:
        needed = math.ceil(math.log(tail) / math.log1p(-share))
        return needed if needed <= _MOST_DRAWS else None

    def told(draws: float) -> bool:
        hits = draws * 2.0**-bits
        if bits > limit_bits:
            return bool(betainccinv(hits + 1, draws - hits, tail) < share)
        return hits >= 1 and bool(betaincinv(hits, draws - hits + 1, tail) >= share)

    draws: float = 1.0 + 2.0**bits
    while not told(draws):
        draws *= 1.25
        if draws > _MOST_DRAWS:
            return None
    return math.ceil(draws)


def _checked(
    median_bits: float,
    canaries: SupportsIndex,
    space_size: SupportsIndex,
    draws: SupportsIndex | None,
    where: str,
) -> tuple[int, int, int | None]:
    size = exact_size(space_size, where)
    if not 1.0 <= median_bits <= max(math.log2(size), 1.0):
        raise EstimationError(
            f"a median exposure is between 1 bit, which is not learned, and the "
            f"{math.log2(size):.4g} bits of the space, got {median_bits!r}",
            cure="give one in between, or a larger space",
            where=where,
        )
    k = positive_integer(canaries, "canaries", where, cure="plan at least one")
    drawn = None
    if draws is not None:
        drawn = positive_integer(draws, "draws", where, cure="give None for exact ranks")
    return k, size, drawn


@lru_cache(maxsize=8)
def _minus_log_p(median_bits: float, size: int, draws: int | None) -> tuple[Floats, Floats]:
    """Values of ``-ln p`` of one canary, in nats, and their weights; not to be written to."""
    from scipy.special import ndtr
    from scipy.stats import binom

    z = np.linspace(-_REACH, _REACH, _NODES)
    weights = np.exp(-z * z / 2.0)
    weights /= weights.sum()
    share = ndtr(z - shift_of(median_bits))
    if draws is None:
        bits = math.log2(size)
        if bits < _DENSE_BITS:  # the share of the space, counted up to a whole candidate
            return (bits - np.log2(np.maximum(np.ceil(share * size), 1.0))) * LN2, weights
        with np.errstate(divide="ignore"):
            return np.minimum(-np.log2(share), bits) * LN2, weights
    few = min(_EXACT_HITS, draws)
    hits = np.arange(few + 1)
    chances = binom.pmf(hits[:, None], draws, share)
    rest = np.maximum(1.0 - chances.sum(axis=0), 0.0)
    many = np.maximum(share * draws, few) + 1.0  # so many hits are as good as their mean
    values = -np.log(np.concatenate([1.0 + hits, many]) / (1.0 + draws))
    return np.maximum(values, 0.0), np.concatenate([chances @ weights, weights * rest])
