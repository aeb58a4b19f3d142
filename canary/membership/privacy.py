"""A lower bound on epsilon from the scores of an attack on samples that coins chose."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, SupportsIndex

import numpy as np
from numpy.typing import ArrayLike

from canary.errors import EstimationError
from canary.membership.attacks import AttackScores
from canary.membership.many import ManyScores
from canary.records.record import Record
from canary.statistics.epsilon import (
    Mechanism,
    bound_in_words,
    correct_guesses,
    epsilon_lower_bound,
    presumed_in_words,
)
from canary.statistics.number_checks import check_confidence, positive_integer
from canary.statistics.numbers import Shown, plural
from canary.statistics.roc import scored_members

_UNBELIEVABLE = 1e-6
_WRITTEN = ("epsilon", "delta", "confidence", "attacks", "confidence_of_each", ...)


@dataclass(frozen=True, repr=False)
class AttackEpsilon(Shown, Record, written=_WRITTEN):
    """A lower bound on the epsilon of the training of a model that was attacked.

    Training is not (epsilon', delta)-private for any epsilon' below `epsilon`. That is above the
    truth in at most ``1 - confidence`` of training runs, even if it is the largest of the bounds by
    `attacks` attacks. `correct` of the `guesses` were right, of samples for which one of the
    `coins` was tossed; `largest_possible` is the bound if every guess were right. All this presumes
    a training of this `mechanism`; `epsilon_any` presumes none.
    """

    epsilon: float
    delta: float
    confidence: float
    attacks: int
    coins: int
    guesses: int
    correct: int
    largest_possible: float
    notes: tuple[str, ...]
    epsilon_any: float
    mechanism: Mechanism = "any"

    def summary(self) -> str:
        """The bound, and the guesses that it rests on."""
        line = bound_in_words(self.epsilon, self.delta, self.confidence)
        presumed = presumed_in_words(self.mechanism, self.epsilon_any)
        right = f"{self.correct} of {self.guesses} guesses right{presumed}"
        return "\n".join([f"{line}: {right}", *self.notes])

    def _table(self) -> list[dict[str, Any]]:
        return [vars(self)]

    @property
    def confidence_of_each(self) -> float:
        """Of this bound alone: each of k attacks may miss by one k-th (Bonferroni)."""
        return 1.0 - (1.0 - self.confidence) / self.attacks


def attack_epsilon(
    scores: AttackScores | ManyScores | ArrayLike,
    member: ArrayLike,
    *,
    coins: bool,
    guesses: SupportsIndex | None = None,
    delta: float = 0.0,
    confidence: float = 0.95,
    attacks: SupportsIndex = 1,
    mechanism: Mechanism = "any",
) -> AttackEpsilon:
    """A lower bound on epsilon, from one training run and an attack on it.

    The highest scores are guessed to be members, the lowest non-members; the more guesses are
    right, the less private the training was.

    Parameters
    ----------
    scores : AttackScores, ManyScores of one target, or array_like of shape (samples,)
        Higher for what looks like a member. They come from models alone, not from who is a
        member of the target: `blind` says so of what `canary.attack` and `attack_models`
        give, of bare numbers you have to know it. Population samples are left out.
    member : array_like of bool of shape (samples,)
    coins : bool
        Whether for each of these samples a coin of its own decided, before training, if
        it went in; and whether the data of reference models were drawn without regard to
        these coins. Only those who trained the models know; the data do not show it.
    guesses : int, optional
        How many are guessed, half for either side. All unless given. Fix it before you see
        the scores, or the bound does not hold.
    delta, confidence : float
    attacks : int
        How many attacks are tried on these coins, if the largest of their bounds is reported: each
        bound is then taken at a confidence that allows for the choice (Bonferroni).
    mechanism : {"any", "gaussian"}
        What training is presumed to be, as in `canary.statistics.epsilon.epsilon_lower_bound`.

    Raises
    ------
    EstimationError
        If no coins were tossed, or the members are too many or too few for fair coins; if
        the scores are not blind; if an option is out of range or scores and members do not fit.

    Notes
    -----
    Steinke, Nasr and Jagielski, NeurIPS 2023, arXiv:2305.08846;
    `canary.statistics.epsilon` has the bound. A guess may rest on what the model says, on chance,
    and on other models whose data do not depend on the coins; not even on the coins of other
    samples. A split into halves of fixed size is no set of independent coins. Equal scores are
    guessed in a fixed random order.

    Examples
    --------
    Scores of a table with its target depend on who is a member: a member has other references
    than a non-member. So the target has a table of its own, and `shadow` gives the references.

    >>> import canary
    >>> from canary.membership.many import attack_models
    >>> rng = np.random.default_rng(0)
    >>> coins = rng.random((16, 2000)) < 0.5  # one per model and sample
    >>> known = coins[1:].sum(axis=0)  # without the target's coins
    >>> coins = coins[:, (known >= 2) & (known <= 13)]
    >>> logit = 2 * rng.normal(size=coins.shape[1]) + 1.5 * coins + rng.normal(size=coins.shape)
    >>> losses = np.logaddexp(0, -logit)
    >>> table = canary.measure(list(losses), y=coins[0] * 0, member=coins, outputs="losses")
    >>> target, others = table.select(models=[0]), table.select(models=range(1, 16))
    >>> blind = attack_models(target, "lira-online-fixed", shadow=others)
    >>> attack_epsilon(blind, target.member[0], coins=True).epsilon > 0.5
    True
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
    notes: list[str] = []
    bare: Any = scores
    judged: Any = slice(None)
    if isinstance(scores, AttackScores | ManyScores):
        if not scores.blind:
            raise EstimationError(
                f"who is a member of the target went into the scores of {scores.name}, and from "
                "such scores no bound on epsilon follows",
                cure="give reference models by shadow=, whose data were drawn without regard to "
                "the target's coins, and to P and RMIA population points by population= of "
                "attack_models; models that leave out one member each (L) never serve",
                where=where,
            )
        notes += scores.notes
        bare = scores.scores
    if isinstance(scores, ManyScores):
        if len(scores.targets) != 1:
            raise EstimationError(
                f"scores of {len(scores.targets)} targets",
                cure="attack one model, by targets=",
                where=where,
            )
        bare, judged = scores.scores[0], scores.judged
    values, flags = (column[judged] for column in scored_members(bare, member, where))
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
    tried = positive_integer(attacks, "attacks", where, cure="count this attack")
    level = 1.0 - (1.0 - confidence) / tried
    order = np.random.default_rng(0).permutation(n)
    right = correct_guesses(values[order], flags[order], guesses=made)
    if 2 * members == n:
        notes.append(
            f"Exactly half of {plural(n, 'sample')} are members, as in a split into halves: such "
            "a split is no set of independent coins, and then the bound is not proven"
        )
    bound = partial(epsilon_lower_bound, guesses=made, coins=n, delta=delta, confidence=level)
    return AttackEpsilon(
        epsilon=bound(right, mechanism=mechanism),
        delta=delta,
        confidence=confidence,
        attacks=tried,
        coins=n,
        guesses=made,
        correct=right,
        largest_possible=bound(made, mechanism=mechanism),
        notes=tuple(notes),
        epsilon_any=bound(right),
        mechanism=mechanism,
    )
