"""A lower bound on epsilon from one training run whose canaries went in by the toss of a coin."""

from __future__ import annotations

import math
from typing import SupportsIndex

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


def epsilon_lower_bound(
    correct: SupportsIndex,
    *,
    guesses: SupportsIndex,
    coins: SupportsIndex,
    delta: float = 0.0,
    confidence: float = 0.95,
) -> float:
    """The largest epsilon that the correct guesses rule out; 0 if they rule out none.

    It is above the true epsilon in at most ``1 - confidence`` of training runs.

    Parameters
    ----------
    correct, guesses, coins : int
        Correct guesses among those made, and coins tossed: ``correct <= guesses <= coins``, or
        an EstimationError is raised. How many guesses are made, and for which canaries, is laid
        down before anything is known of the coins.
    delta : float
        From 0 to below 1.
    confidence : float

    Examples
    --------
    >>> round(epsilon_lower_bound(100, guesses=100, coins=100), 2)
    3.49
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

    def excluded(epsilon: float) -> bool:
        chance = guessing_p_value(right, guesses=made, coins=tossed, epsilon=epsilon, delta=delta)
        return chance <= 1.0 - confidence

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
