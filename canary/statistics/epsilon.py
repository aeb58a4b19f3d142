"""A lower bound on epsilon from one training run whose canaries went in by the toss of a coin."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal, SupportsIndex, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from canary.errors import EstimationError
from canary.statistics.number_checks import (
    check_confidence,
    halved,
    positive_integer,
    real_array,
)

_MOST_EPSILON = 700.0

Mechanism = Literal["any", "gaussian"]
"""What training is presumed to be."""


def guessing_p_value(
    correct: int, *, guesses: int, coins: int, epsilon: float, delta: float = 0.0
) -> float:
    """At least the chance of this many correct guesses, if training is (epsilon, delta)-private.

    `epsilon` and `delta` are of adding or removing what one coin decides about; a guess may be
    withheld.

    Notes
    -----
    Each coin decides independently whether a canary goes in. Then the number of correct
    guesses is dominated by ``B ~ Binomial(guesses, e^epsilon / (1 + e^epsilon))``, up to

        Pr[correct >= v] <= Pr[B >= v] + 2 delta coins max over i of Pr[v > B >= v - i] / i

    (theorem 5.2 of Steinke, Nasr and Jagielski, Privacy Auditing with One (1) Training Run,
    NeurIPS 2023, arXiv:2305.08846). O(guesses).
    """
    from scipy.stats import binom

    share = 1.0 / (1.0 + math.exp(-epsilon))
    tail = float(binom.sf(correct - 1, guesses, share))
    if delta == 0.0 or correct == 0:
        return min(tail, 1.0)
    below = binom.pmf(np.arange(correct - 1, -1, -1), guesses, share)
    steepest = float((np.cumsum(below) / np.arange(1, correct + 1)).max())
    return min(tail + 2.0 * delta * coins * steepest, 1.0)


def too_many_for_gaussian(
    correct: int, *, guesses: int, coins: int, mu: float, level: float
) -> bool:
    """Whether a mu-Gaussian training has this many correct guesses in less than `level` of runs.

    `mu` is what one coin moves the output by, in standard deviations of the noise.

    Notes
    -----
    If the chance of v or more correct guesses were `level`, f-DP would bound from below the mean
    numbers of correct (r) and of wrong guesses (h), each per coin and over the runs that have i
    or more correct guesses, from i = v down to 0:

        h[i] = max(h[i+1], Phi(Phi^-1(r[i+1]) - mu)),  r[i] = r[i+1] + i/(guesses-i) (h[i]-h[i+1])

    There are ``guesses`` in all, so r[0] + h[0] must not exceed ``guesses / coins`` (algorithm 3
    of Mahloujifar, Melis and Chaudhuri, Auditing f-Differential Privacy in One Run, ICML 2025,
    arXiv:2410.22235). O(correct).
    """
    from scipy.special import ndtr, ndtri

    most = guesses / coins
    r, h = level * correct / coins, level * (guesses - correct) / coins
    for i in range(correct - 1, -1, -1):
        least = float(ndtr(ndtri(r) - mu))
        if least <= h:  # then neither changes any more
            break
        r, h = r + i / (guesses - i) * (least - h), least
        if r + h > most:
            return True
    return r + h > most


def gaussian_epsilon(mu: float, delta: float) -> float:
    """The least epsilon at which a mu-Gaussian mechanism is (epsilon, delta)-private.

    Balle and Wang, Improving the Gaussian Mechanism, ICML 2018, theorem 8; `delta` above 0.
    """
    from scipy.special import log_ndtr

    def short(epsilon: float) -> bool:
        above = float(log_ndtr(mu / 2.0 - epsilon / mu))
        below = epsilon + float(log_ndtr(-mu / 2.0 - epsilon / mu))
        return below < above and above + math.log1p(-math.exp(below - above)) > math.log(delta)

    return _last(short) if mu > 0.0 else 0.0


def epsilon_lower_bound(
    correct: SupportsIndex,
    *,
    guesses: SupportsIndex,
    coins: SupportsIndex,
    delta: float = 0.0,
    confidence: float = 0.95,
    mechanism: Mechanism = "any",
) -> float:
    """The largest epsilon that the correct guesses rule out; 0 if they rule out none.

    It is above the true epsilon in at most ``1 - confidence`` of training runs, if training is
    such a mechanism.

    Parameters
    ----------
    correct, guesses, coins : int
        Correct guesses among those made, and coins tossed: ``correct <= guesses <= coins``, or
        an EstimationError is raised. How many guesses are made, and for which canaries, is laid
        down before anything is known of the coins.
    delta : float
        From 0 to below 1; above 0 for a Gaussian mechanism.
    confidence : float
    mechanism : {"any", "gaussian"}
        "any" presumes nothing of the training (`guessing_p_value`). "gaussian" presumes that its
        privacy is that of normal noise added once, about as for DP-SGD of many steps. Then the
        bound is larger (`too_many_for_gaussian`), and void if training is something else.

    Examples
    --------
    >>> round(epsilon_lower_bound(100, guesses=100, coins=100), 2)
    3.49
    >>> seen = {"guesses": 200, "coins": 1000, "delta": 1e-5}
    >>> round(epsilon_lower_bound(178, **seen), 2)
    1.71
    >>> round(epsilon_lower_bound(178, **seen, mechanism="gaussian"), 2)
    2.75
    >>> epsilon_lower_bound(50, guesses=100, coins=100)
    0.0
    """
    where = "epsilon_lower_bound"
    check_confidence(confidence, where)
    tossed = positive_integer(coins, "coins", where, cure="toss at least one")
    made = positive_integer(guesses, "guesses", where, cure="guess at least one coin")
    right = int(correct)
    if not 0 <= right <= made <= tossed:
        raise EstimationError(
            f"expected 0 <= correct <= guesses <= coins, got {right}, {made} and {tossed}",
            cure="guess each coin at most once",
            where=where,
        )
    if not 0.0 <= delta < 1.0:
        raise EstimationError(
            f"delta must be at least 0 and below 1, got {delta!r}",
            cure="give the delta of the guarantee, or 0",
            where=where,
        )
    if mechanism not in get_args(Mechanism):
        raise EstimationError(
            f"there is no bound for the mechanism {mechanism!r}",
            cure='give "gaussian", or "any", whose bound presumes no mechanism',
            where=where,
        )
    counts = {"guesses": made, "coins": tossed}
    if mechanism == "gaussian":
        if delta == 0.0:
            raise EstimationError(
                "a Gaussian mechanism has no finite epsilon at delta 0",
                cure='give the delta of the guarantee, such as 1e-5, or take the mechanism "any"',
                where=where,
            )
        level = 1.0 - confidence
        mu = _last(lambda mu: too_many_for_gaussian(right, **counts, mu=mu, level=level))
        return gaussian_epsilon(mu, delta)

    def excluded(epsilon: float) -> bool:
        chance = guessing_p_value(right, **counts, epsilon=epsilon, delta=delta)
        return chance <= 1.0 - confidence

    return _last(excluded)


def _last(excluded: Callable[[float], bool]) -> float:
    """The largest number from 0 on that is excluded; 0 if none is."""
    if not excluded(0.0):
        return 0.0
    low, high = 0.0, 1.0
    while excluded(high) and high < _MOST_EPSILON:
        low, high = high, 2.0 * high
    return halved(excluded, low, high)[0]


def correct_guesses(scores: ArrayLike, heads: ArrayLike, *, guesses: SupportsIndex) -> int:
    """Correct guesses, if the highest scores are guessed to be in and the lowest to be out.

    Parameters
    ----------
    scores : array_like of shape (coins,)
        Higher for a canary that looks learned; from the model alone, not from the coins.
    heads : array_like of bool of shape (coins,)
        Whether the canary went in.
    guesses : int
        The larger half for the highest scores, the other for the lowest; the rest is withheld.
        Ties are broken by position.

    Raises
    ------
    EstimationError
        If there are more guesses than coins, the arrays do not fit or a score is NaN.
    """
    where = "correct_guesses"
    values = real_array(scores, "scores", where, cure="give one per canary")
    went_in: NDArray[np.bool_] = np.asarray(heads, np.bool_)
    made = positive_integer(guesses, "guesses", where, cure="guess at least one coin")
    if values.ndim != 1 or values.shape != went_in.shape or np.isnan(values).any():
        raise EstimationError(
            f"scores of shape {values.shape} for coins of shape {went_in.shape}, or one is NaN",
            cure="give one score for each coin",
            where=where,
        )
    if made > len(values):
        raise EstimationError(
            f"{made} guesses for {len(values)} coins",
            cure=f"make at most {len(values)}",
            where=where,
        )
    order = np.argsort(-values, kind="stable")
    inside, outside = order[: (made + 1) // 2], order[len(order) - made // 2 :]
    return int(went_in[inside].sum() + (~went_in[outside]).sum())


def bound_in_words(epsilon: float, delta: float, confidence: float) -> str:
    """``epsilon is at least 1.25 (delta 0, confidence 95 %)``."""
    return f"epsilon is at least {epsilon:.2f} (delta {delta:g}, confidence {100 * confidence:g} %)"


def presumed_in_words(mechanism: Mechanism, epsilon_any: float) -> str:
    """What a bound presumes, and the bound that presumes nothing; empty for that one."""
    if mechanism == "any":
        return ""
    return (
        f"; this presumes a {mechanism.capitalize()} mechanism, without which epsilon is at "
        f"least {epsilon_any:.2f}"
    )
