"""What is drawn again: bootstrap intervals of attacks, and permutation tests of exposures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal, SupportsIndex

import numpy as np
from numpy.typing import ArrayLike, NDArray

from canary.errors import EstimationError
from canary.records.validation import brief, one_of
from canary.statistics.number_checks import check_confidence, positive_integer
from canary.statistics.roc import Estimate, roc, scored_members

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

Over = Literal["samples", "models", "both"]
"""What is drawn again."""

PERMUTATIONS = 99_999
"""Drawn where there are too many to try all; with the one seen that makes 100,000."""

_FEWEST, _FEWEST_MODELS = 10, 2
_ALL = 1 << 16
_AT_ONCE = 1 << 12
_BLOCKS = [min(_AT_ONCE, PERMUTATIONS - start) for start in range(0, PERMUTATIONS, _AT_ONCE)]
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Resampled:
    """Means over the models, with intervals by resampling.

    Parameters
    ----------
    auc : Estimate
    accuracy : Estimate or None
        Balanced accuracy of the guesses; None without guesses.
    tpr : tuple of Estimate
        At each false positive rate that was asked for.
    over, models, replicates
        What was drawn again, how many models there are, how often it was drawn.
    """

    auc: Estimate
    accuracy: Estimate | None
    tpr: tuple[Estimate, ...]
    over: Over
    models: int
    replicates: int


class _Model:
    """Scores of one model, sorted once for all replicates."""

    def __init__(
        self, scores: Floats, member: Flags, guess: Flags | None, fprs: Sequence[float]
    ) -> None:
        self.order = np.argsort(-scores)
        values = scores[self.order]
        self.last = np.flatnonzero(np.append(values[1:] != values[:-1], True))
        self.member = member[self.order]
        self.guess = None if guess is None else guess[self.order]
        self.fprs = fprs

    def reached(self, weight: NDArray[np.int64]) -> list[float]:
        """AUC, balanced accuracy where there are guesses, and the TPRs, of weighted samples."""
        w = weight[self.order]
        inside = np.where(self.member, w, 0)
        hits = np.cumsum(inside)[self.last]
        false = np.cumsum(w - inside)[self.last]
        members, nonmembers = int(hits[-1]), int(false[-1])
        middle = (hits + np.append(0, hits[:-1])) / 2.0
        reached = [float(np.diff(false, prepend=0) @ middle) / members / nonmembers]
        if self.guess is not None:
            right = int(inside[self.guess].sum())
            wrong = int(w[self.guess].sum()) - right
            reached.append((right / members + 1.0 - wrong / nonmembers) / 2.0)
        for fpr in self.fprs:  # as in `Roc.tpr_at_fpr`
            allowed = math.floor(fpr * nonmembers * (1.0 + 1e-12))
            place = int(np.searchsorted(false, allowed, side="right")) - 1
            reached.append(int(hits[place]) / members if place >= 0 else 0.0)
        return reached


def resampled(
    scores: ArrayLike,
    member: ArrayLike,
    *,
    guess: ArrayLike | None = None,
    fprs: Sequence[float] = (),
    over: Over = "samples",
    replicates: SupportsIndex = 1000,
    confidence: float = 0.95,
    seed: int = 0,
) -> Resampled:
    """AUC, balanced accuracy and TPR at FPR, means over the models, with bootstrap intervals.

    Parameters
    ----------
    scores : array_like of shape (samples,) or (models, samples)
        Higher for what looks like a member; of several models on the same samples.
    member, guess : array_like of bool of the same shape
        `guess` says whether the attack calls the sample a member.
    fprs : sequence of float
        From 1 / nonmembers to 1.
    over : {"samples", "models", "both"}
        Whether the interval speaks of new samples for these models, of new models for these
        samples, or of both.
    replicates : int
    confidence : float
    seed : int

    Raises
    ------
    EstimationError
        As `canary.statistics.roc.roc`; or if a model has fewer than 10 members or non-members,
        or there is one model to resample models.

    Notes
    -----
    Samples are drawn with replacement, the same for all models; members and non-members apart
    if all models have the same. Models are drawn with replacement. For both, each is drawn by
    itself, which errs on the wide side (Owen, Annals of Applied Statistics 1, 2007). The ends
    are percentiles: an interval where all replicates agree, as at an AUC of 1, has no width,
    and the closed intervals of `canary.statistics.roc` do. O(replicates models samples).

    Examples
    --------
    >>> import numpy as np
    >>> member = np.arange(400) < 200
    >>> scores = np.random.default_rng(0).normal(size=400) + member
    >>> found = resampled(scores, member, replicates=200)
    >>> found.auc.lower < 0.76 < found.auc.upper
    True
    """
    where = "resampled"
    check_confidence(confidence, where)
    rounds = positive_integer(replicates, "replicates", where, cure="1000 are usual")
    one_of(over, "over", ("samples", "models", "both"), error=EstimationError, where=where)
    models, member_rows = _models(scores, member, guess, fprs)
    if over != "samples" and len(models) < _FEWEST_MODELS:
        raise EstimationError(
            "one model says nothing about other models",
            cure='give scores of several, or say over="samples"',
            where=where,
        )
    rng = np.random.default_rng(seed)
    once = np.ones(member_rows.shape[1], np.int64)
    seen = np.array([model.reached(once) for model in models])
    if over == "models":
        rows = rng.integers(len(models), size=(rounds, len(models)))
        drawn = seen[rows].mean(axis=1)
    else:
        drawn = np.empty((rounds, seen.shape[1]))
        rows = np.arange(len(models))
        for replicate in range(rounds):
            weight = _weights(member_rows, rng)
            if over == "both":
                rows = rng.integers(len(models), size=len(models))
            different, place = np.unique(rows, return_inverse=True)
            reached = np.array([models[row].reached(weight) for row in different])
            drawn[replicate] = reached[place].mean(axis=0)
    tail = (1.0 - confidence) / 2.0
    low, high = np.quantile(drawn, [tail, 1.0 - tail], axis=0)
    ends = zip(seen.mean(axis=0).tolist(), low.tolist(), high.tolist(), strict=True)
    auc, *rates = (Estimate(*each) for each in ends)
    accuracy = None if guess is None else rates.pop(0)
    return Resampled(auc, accuracy, tuple(rates), over, len(models), rounds)


def _models(
    scores: ArrayLike, member: ArrayLike, guess: ArrayLike | None, fprs: Sequence[float]
) -> tuple[list[_Model], Flags]:
    where = "resampled"
    table, flags = np.atleast_2d(np.asarray(scores)), np.atleast_2d(np.asarray(member))
    guesses = None if guess is None else np.atleast_2d(np.asarray(guess))
    if table.shape != flags.shape or (guesses is not None and guesses.shape != table.shape):
        raise EstimationError(
            f"scores of shape {table.shape}, members of {flags.shape} and guesses of "
            f"{None if guesses is None else guesses.shape}",
            cure="give the same shape for all, (samples,) or (models, samples)",
            where=where,
        )
    models, rows = [], []
    for row in range(len(table)):
        values, inside = scored_members(table[row], flags[row], where)
        called = None if guesses is None else scored_members(guesses[row], inside, where)[0] == 1
        fewest = min(int(inside.sum()), int((~inside).sum()))
        if fewest < _FEWEST:
            raise EstimationError(
                f"model {row} has {fewest} samples of one kind",
                cure=f"resample {_FEWEST} or more of each; the closed intervals hold for fewer",
                where=where,
            )
        curve = roc(values, inside)
        for fpr in fprs:
            curve.tpr_value(fpr)  # refuses what cannot be seen
        models.append(_Model(values, inside, called, fprs))
        rows.append(inside)
    return models, np.array(rows)


def _weights(member: Flags, rng: np.random.Generator) -> NDArray[np.int64]:
    """How often each sample is drawn; every model keeps samples of both kinds."""
    n = member.shape[1]
    if (member == member[0]).all():
        weight = np.zeros(n, np.int64)
        for kind in (np.flatnonzero(member[0]), np.flatnonzero(~member[0])):
            weight[kind] = np.bincount(rng.integers(len(kind), size=len(kind)), minlength=len(kind))
        return weight
    while True:
        weight = np.bincount(rng.integers(n, size=n), minlength=n)
        inside = member @ weight
        if ((inside > 0) & (inside < n)).all():
            return weight


def larger_in_pairs(first: Sequence[float], second: Sequence[float], *, seed: int = 0) -> float:
    """p-value of "the first is not larger than the second", pair by pair.

    The share of all ways to swap within pairs in which the sum of differences is at least the one
    seen. From 17 pairs on, of a random 99,999 of them and the one seen (Phipson and Smyth,
    Statistical Applications in Genetics and Molecular Biology 9, 2010). An EstimationError says
    that there is no pair, a number is not finite, or the lengths differ.

    Examples
    --------
    >>> larger_in_pairs([3.0, 5.0, 9.0], [1.0, 2.0, 3.0])
    0.125
    """
    one, other = _numbers(first, "larger_in_pairs"), _numbers(second, "larger_in_pairs")
    if len(one) != len(other):
        raise EstimationError(
            f"{len(one)} numbers and {len(other)} make no pairs",
            cure="give two of each canary",
            where="larger_in_pairs",
        )
    differences = one - other
    k = len(differences)
    least = differences.sum() - _ROUNDING * (1.0 + np.abs(differences).sum())
    if 1 << k <= _ALL:
        flips = (np.arange(1 << k)[:, None] >> np.arange(k)) & 1
        return float(np.mean((1 - 2 * flips) @ differences >= least))
    rng, reached = np.random.default_rng([seed, k]), 1
    for rows in _BLOCKS:
        signs = 1 - 2 * rng.integers(2, size=(rows, k), dtype=np.int8)
        reached += int(np.count_nonzero(signs @ differences >= least))
    return reached / (1 + PERMUTATIONS)


def larger_in_groups(
    first: Sequence[Sequence[float]], second: Sequence[Sequence[float]], *, seed: int = 0
) -> float:
    """p-value of "the first are not larger than the second", group by group.

    The share of permutations within groups in which the sum over the groups of ``size of the
    first * difference of the means`` is at least the one seen. Where there are more than 65,536,
    of a random 99,999 of them and the one seen. An EstimationError says that there is no group,
    one is empty on a side, or a number is not finite.

    Examples
    --------
    >>> larger_in_groups([[7.0, 8.0, 9.0]], [[1.0, 2.0, 3.0]])
    0.05
    """
    where = "larger_in_groups"
    sides = [
        (_numbers(one, where), _numbers(other, where))
        for one, other in zip(first, second, strict=True)
    ]
    if not sides:
        raise EstimationError("there is no group", cure="give at least one", where=where)
    few = least_in_groups([(len(a), len(b)) for a, b in sides]) >= 1 / _ALL
    rng = np.random.default_rng([seed, *(len(a) for a, _ in sides)])
    sums, least = np.zeros(1 if few else PERMUTATIONS), 0.0
    for a, b in sides:
        both = np.concatenate([a, b])
        least += float(_lead(both, a.sum(keepdims=True), len(a))[0])
        least -= _ROUNDING * (1.0 + float(np.abs(both).sum()))
        if few:
            chosen = np.array(list(combinations(range(len(both)), len(a))))
            taken = both[chosen].sum(axis=1)
            sums = (sums[:, None] + _lead(both, taken, len(a))).ravel()
            continue
        for start, rows in zip(range(0, PERMUTATIONS, _AT_ONCE), _BLOCKS, strict=True):
            orders = rng.permuted(np.broadcast_to(both, (rows, len(both))), axis=1)
            taken = orders[:, : len(a)].sum(axis=1)
            sums[start : start + rows] += _lead(both, taken, len(a))
    reached = int(np.count_nonzero(sums >= least))
    return reached / len(sums) if few else (1 + reached) / (1 + PERMUTATIONS)


def least_in_pairs(pairs: int) -> float:
    """The smallest p-value that `larger_in_pairs` can give."""
    return 2.0**-pairs if 1 << pairs <= _ALL else 1 / (1 + PERMUTATIONS)


def least_in_groups(sizes: Sequence[tuple[int, int]]) -> float:
    """The smallest p-value that `larger_in_groups` can give for groups of these sizes."""
    ways = math.prod(math.comb(a + b, a) for a, b in sizes)
    return 1 / ways if ways <= _ALL else 1 / (1 + PERMUTATIONS)


def _lead(both: Floats, taken: Floats, size: int) -> Floats:
    """``size * (mean of the first - mean of the second)``, of the sums of the first."""
    return np.asarray(taken - (both.sum() - taken) * (size / (len(both) - size)))


def _numbers(given: Sequence[float], where: str) -> Floats:
    array = np.asarray(given, np.float64)
    if array.ndim != 1 or not len(array) or not np.isfinite(array).all():
        raise EstimationError(
            f"expected finite numbers in one dimension, got {brief(given)}",
            cure="give at least one number on each side",
            where=where,
        )
    return array
