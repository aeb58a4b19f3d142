"""A lower bound on epsilon from the scores of an attack on samples that coins chose."""

from __future__ import annotations

from dataclasses import dataclass
from typing import SupportsIndex

import numpy as np
from numpy.typing import ArrayLike

from canary.errors import EstimationError
from canary.membership.metric import AttackScores
from canary.statistics.checks import check_confidence, positive_integer
from canary.statistics.epsilon import correct_guesses, epsilon_lower_bound
from canary.statistics.numbers import plural
from canary.statistics.roc import scored_members

__all__ = ["AttackEpsilon", "attack_epsilon"]

_UNBELIEVABLE = 1e-6


@dataclass(frozen=True)
class AttackEpsilon:
    """A lower bound on the epsilon of the training of a model that was attacked.

    Parameters
    ----------
    epsilon : float
        Training is not (epsilon', delta)-private for any epsilon' below this.
    delta, confidence : float
        The bound lies above the truth in at most ``1 - confidence`` of training runs.
    coins, guesses, correct : int
        Samples for which a coin was tossed, guesses made, and how many were right.
    most : float
        What the bound would be if every guess were right.
    notes : tuple of str
        What a reader has to know.
    """

    epsilon: float
    delta: float
    confidence: float
    coins: int
    guesses: int
    correct: int
    most: float
    notes: tuple[str, ...]


def attack_epsilon(
    scores: AttackScores | ArrayLike,
    member: ArrayLike,
    *,
    coins: bool,
    guesses: SupportsIndex | None = None,
    delta: float = 0.0,
    confidence: float = 0.95,
) -> AttackEpsilon:
    """A lower bound on epsilon, from one training run and an attack on it.

    The highest scores are guessed to be members, the lowest nonmembers; the more guesses are
    right, the less private the training was.

    Parameters
    ----------
    scores : AttackScores, or array_like of shape (samples,)
        Higher for what looks like a member. They come from models alone, not from who is a
        member of the target.
    member : array_like of bool of shape (samples,)
    coins : bool
        Whether for each of these samples by itself a fair coin decided, before training, if
        it went in. Only whoever trained the model can tell; the data do not.
    guesses : int, optional
        How many are guessed, half for either side. All unless given. Fix it before you see
        the scores, or the bound is none.
    delta : float
    confidence : float

    Raises
    ------
    EstimationError
        If no coins were tossed, or the members are too many or too few for fair coins; if
        an option is out of range or scores and members do not fit.

    Notes
    -----
    Steinke, Nasr and Jagielski [1]_; `canary.statistics.epsilon` has the bound. It rests on
    the coins: members and nonmembers that differ by anything else, such as a date, let an
    attack guess what the model does not tell, and the bound is then none. A split into
    halves of fixed size is no set of independent coins either; where exactly half are
    members a note says so.

    References
    ----------
    .. [1] Steinke, Nasr and Jagielski, Privacy Auditing with One (1) Training Run, NeurIPS
       2023, arXiv:2305.08846.
    """
    from scipy.stats import binomtest

    where = "attack_epsilon"
    check_confidence(confidence, where)
    if coins is not True:
        raise EstimationError(
            "no coin decided which samples went in, and without that scores bound no epsilon",
            cure="toss a fair coin for each sample, train on those that fell heads, and say "
            "coins=True",
            where=where,
        )
    values, flags = scored_members(
        scores.scores if isinstance(scores, AttackScores) else scores, member, where
    )
    n, members = len(flags), int(np.count_nonzero(flags))
    if binomtest(members, n, 0.5).pvalue < _UNBELIEVABLE:
        raise EstimationError(
            f"{members} of {n} samples are members; fair coins fall so in less than one of a "
            "million cases",
            cure="give all samples for which a coin was tossed, and only those",
            where=where,
        )
    made = n
    if guesses is not None:
        made = positive_integer(guesses, "guesses", where, cure="guess at least one coin")
    right = correct_guesses(values, flags, guesses=made)
    numbers = {"guesses": made, "coins": n}
    notes = []
    if 2 * members == n:
        notes.append(
            f"Exactly half of {plural(n, 'sample')} are members, as in a split into halves: such "
            "a split is no set of independent coins, and then the bound is not proven"
        )
    return AttackEpsilon(
        epsilon_lower_bound(right, **numbers, delta=delta, confidence=confidence),
        delta,
        confidence,
        n,
        made,
        right,
        epsilon_lower_bound(made, **numbers, delta=delta, confidence=confidence),
        tuple(notes),
    )
