"""The median of a population of canaries, from some of them whose exposures have intervals.

Canaries of one number of copies are a sample: other fills at other places would have been
learned more or less. A limit on their exposure speaks of the median of all of them. Two kinds
of luck are between the sample and that median, and both are counted:

1. *which canaries were drawn*. At most half of all lie above the median, so among k of them
   the number above it is at most binomial with share 1/2. This asks nothing of how exposures
   are spread, and gives the order statistics as ends of an interval;
2. *which candidates were drawn* to compare with. A canary counts as above a value only if
   its whole interval is. All canaries of one format were compared with the same draws, and
   less likely canaries never have fewer hits. So whether any of them is put on the wrong
   side of a given value hangs on one canary alone, the one next to that value, and happens
   with the chance that one interval misses at one end, however many canaries there are.
   Then all of the format may be on the wrong side; in other formats, with draws of their
   own, independently.

Intervals of exact ranks do not miss. Those of censored canaries reach up to the size of the
space, and so never count as below a limit within it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from canary.errors import EstimationError
from canary.statistics.number_checks import LN2, check_confidence, real_array

_MOST_CANARIES = 4_096


@dataclass(frozen=True)
class MedianInterval:
    """What some canaries say of the median of all like them.

    Parameters
    ----------
    lower_bits, upper_bits : float or None
        The median is at least, and at most, this; each for itself with the confidence. None
        where there are too few canaries to say.
    needed : int or None
        Canaries that have to agree for either end; None if no number of them would do.
    """

    lower_bits: float | None
    upper_bits: float | None
    needed: int | None


def median_interval(
    lower_bits: ArrayLike,
    upper_bits: ArrayLike,
    *,
    formats: Sequence[int] | None = None,
    misses: Sequence[float] | None = None,
    confidence: float = 0.9,
) -> MedianInterval:
    """Interval of the median exposure of all canaries like these.

    Its ends are the c-th greatest of the lower ends and the c-th smallest of the upper ends, c
    being what `agreeing` gives.

    Parameters
    ----------
    lower_bits, upper_bits : array_like of shape (k,)
        Ends of the interval of each canary's exposure.
    formats : sequence of int, optional
        To which format each belongs, from 0. All to one unless given.
    misses : sequence of float, optional
        For each format, the chance that an interval ends too far in on one side: 0 for exact
        ranks, 0.025 for draws at 95 %. 0 unless given.
    confidence : float
        Of either end alone. Both ends hold together with 1 - 2 (1 - confidence): ask for 0.95 for
        a two-sided interval of 90 %, and for 0.975 for one of 95 %.

    Raises
    ------
    EstimationError
        If the arrays do not fit each other, are empty, hold NaN, or an option is out of range.

    Notes
    -----
    Canaries are taken to be independent of each other: fills that are drawn without replacement
    are slightly less than that, to the safe side. O(k**2).

    Examples
    --------
    >>> exact = [3.0, 14.0, 15.0, 16.0, 17.0, 18.0, 19.0, 20.0]
    >>> median_interval(exact, exact)
    MedianInterval(lower_bits=14.0, upper_bits=19.0, needed=7)
    """
    where = "median_interval"
    check_confidence(confidence, where)
    cure = "give both ends of each canary's interval"
    low = real_array(lower_bits, "lower_bits", where, cure=cure)
    high = real_array(upper_bits, "upper_bits", where, cure=cure)
    homes = [0] * len(low) if formats is None else list(formats)
    fit = low.ndim == 1 and low.shape == high.shape == (len(homes),) and len(low) > 0
    if not fit or not bool(np.all(low <= high)):
        raise EstimationError(
            f"the ends of the intervals do not fit (shapes {low.shape} and {high.shape})",
            cure=cure,
            where=where,
        )
    sizes = tuple(homes.count(home) for home in range(max(homes) + 1))
    chances = (0.0,) * len(sizes) if misses is None else tuple(misses)
    needed = agreeing(sizes, chances, confidence=confidence)
    if needed is None or needed > len(low):
        return MedianInterval(None, None, needed)
    ends = float(np.sort(low)[-needed]), float(np.sort(high)[needed - 1])
    return MedianInterval(*ends, needed)


def agreeing(sizes: Sequence[int], misses: Sequence[float], *, confidence: float) -> int | None:
    """How many canaries must be on one side of a limit, so that the median surely is.

    Where there are too few, how many it would take, all agreeing; None if no number would do.
    `sizes` are the canaries of each format, `misses` the chances that all of a format are on that
    side, whatever is true.
    """
    chances = np.cumsum(_counts(tuple(sizes), tuple(misses))[::-1])[::-1]
    enough = np.flatnonzero(chances <= 1.0 - confidence)
    if len(enough):
        return int(enough[0])
    return canaries_to_decide(1.0, at_least=sum(sizes) + 1, miss=max(misses), confidence=confidence)


def canaries_to_decide(
    share: float, *, at_least: int, miss: float, confidence: float
) -> int | None:
    """How many canaries decide, if this share of them is on one side of a limit.

    The smallest number from `at_least` on; None if more than 4,096 would be needed. `miss` is
    as in `agreeing`, for all of them together.
    """
    level = 1.0 - confidence
    if not share > 0.5 or miss >= level:
        return None
    from scipy.special import bdtrc

    numbers = np.arange(max(at_least, 1), _MOST_CANARIES + 1)
    agree = np.floor(share * numbers + 1e-9)
    chances = miss + (1.0 - miss) * bdtrc(agree - 1, numbers, 0.5)
    enough = np.flatnonzero((agree >= 1) & (chances <= level))
    return int(numbers[enough[0]]) if len(enough) else None


@lru_cache(maxsize=512)
def _counts(sizes: tuple[int, ...], misses: tuple[float, ...]) -> NDArray[np.float64]:
    """Distribution of the number on the wrong side, from 0 to all; not to be written to."""
    from scipy.special import gammaln

    distribution = np.ones(1)
    for size, miss in zip(sizes, misses, strict=True):
        hits = np.arange(size + 1)
        ways = gammaln(size + 1) - gammaln(hits + 1) - gammaln(size - hits + 1)
        own = (1.0 - miss) * np.exp(ways - size * LN2)
        own[-1] += miss
        distribution = np.convolve(distribution, own)
    return distribution
