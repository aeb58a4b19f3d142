"""Can members be told from nonmembers without any model? By their words alone.

A membership attack on texts is worth nothing if members and nonmembers come from different
sources: whoever reads them then tells them apart, and so does an attack that looks at what
a model finds easy. A bag of words shows such differences of topic, time and style.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from canary.errors import EstimationError
from canary.statistics.roc import Estimate, roc

__all__ = ["FOLDS", "word_scores", "words_alone"]

FOLDS = 5
"""Parts of the texts, each of which is judged by what the others teach."""

_WORD = re.compile(r"\w+")
_LEAST_TEXTS = 2
_STRENGTH = 10.0


def words_alone(
    texts: Sequence[str],
    member: NDArray[np.bool_],
    *,
    seed: int,
    confidence: float = 0.95,
    done: Callable[[int], object] = lambda folds: None,
) -> Estimate:
    """AUC of a bag-of-words classifier that tells members from nonmembers.

    Parameters
    ----------
    texts, member, seed, done
        As in `word_scores`.
    confidence : float

    Returns
    -------
    Estimate
        The AUC of `word_scores`, with the interval of `Roc.auc`. That takes the scores as
        given; it leaves out that another draw of texts would have taught other weights.

    Raises
    ------
    EstimationError
        As `word_scores`.
    """
    scores = word_scores(texts, member, seed=seed, done=done)
    return roc(scores, member).auc(confidence=confidence)


def word_scores(
    texts: Sequence[str],
    member: NDArray[np.bool_],
    *,
    seed: int,
    done: Callable[[int], object] = lambda folds: None,
) -> NDArray[np.float64]:
    """How much each text looks like a member by its words; each judged by other texts.

    Parameters
    ----------
    texts : sequence of str
    member : ndarray of bool of shape (texts,)
    seed : int
        Of the folds.
    done : callable
        Told of each fold that is done.

    Returns
    -------
    float64 array of shape (texts,)
        Rank within its fold, from 0 to 1: scores of different folds are of different
        classifiers and are not compared as they are.

    Raises
    ------
    EstimationError
        If there are fewer than two different members or nonmembers for each fold.

    Notes
    -----
    Words (letters, digits and underscores, in lower case) that stand in two texts at least;
    ``1 + log(count)`` of each, rows of length 1; logistic regression with an L2 penalty of
    ``|w|**2 / 20``, members and nonmembers of equal weight, `FOLDS`-fold cross-validation.
    Equal texts are in one fold. Words are not weighted by their rarity: what tells two
    sources apart is often common.
    """
    from scipy.stats import rankdata

    fold = _folds(texts, member, seed)
    counts = [Counter(_WORD.findall(text.lower())) for text in texts]
    ranks = np.empty(len(texts))
    for number in range(FOLDS):
        inside = fold == number
        learned, judged = _features(counts, ~inside)
        weights, bias = _fitted(learned, member[~inside])
        found = rankdata(judged @ weights + bias)
        ranks[inside] = (found - 0.5) / len(found)
        done(1)
    return ranks


def _folds(texts: Sequence[str], member: NDArray[np.bool_], seed: int) -> NDArray[np.int64]:
    """The fold of each text: members and nonmembers evenly, equal texts together."""
    rng = np.random.default_rng(seed)
    fold = np.empty(len(texts), np.int64)
    known: dict[str, int] = {}
    for kind, flag in (("members", True), ("nonmembers", False)):
        at = np.flatnonzero(member == flag)
        different = list(dict.fromkeys(texts[i] for i in at.tolist()))
        if len(different) < 2 * FOLDS:
            raise EstimationError(
                f"{len(different)} different {kind} are too few to compare words in {FOLDS} parts",
                cure=f"give at least {2 * FOLDS} of either kind",
                where="words_alone",
            )
        order = rng.permutation(len(different))
        for place, number in enumerate(order.tolist()):
            known.setdefault(different[number], place % FOLDS)
        fold[at] = [known[texts[i]] for i in at.tolist()]
    return fold


def _features(counts: list[Counter[str]], learned: NDArray[np.bool_]) -> tuple[Any, Any]:
    """Sparse rows of the texts that teach, and of those that are judged."""
    from scipy.sparse import csr_array

    teaching = [counts[at] for at in np.flatnonzero(learned)]
    judged = [counts[at] for at in np.flatnonzero(~learned)]
    spread = Counter(word for bag in teaching for word in bag)
    columns = {
        word: number
        for number, word in enumerate(
            word for word, texts in spread.items() if texts >= _LEAST_TEXTS
        )
    }

    def rows(bags: list[Counter[str]]) -> Any:
        at: list[int] = []
        values: list[float] = []
        ends = [0]
        for bag in bags:
            known = [(columns[word], count) for word, count in bag.items() if word in columns]
            weights = np.array([1.0 + np.log(n) for _, n in known])
            at += [k for k, _ in known]
            values += (weights / max(float(np.linalg.norm(weights)), 1e-300)).tolist()
            ends.append(len(at))
        return csr_array((values, at, ends), shape=(len(bags), len(columns)))

    return rows(teaching), rows(judged)


def _fitted(rows: Any, member: NDArray[np.bool_]) -> tuple[NDArray[np.float64], float]:
    """Weights and bias of the logistic regression: a convex function, minimised."""
    from scipy.optimize import minimize
    from scipy.special import expit

    sign = np.where(member, 1.0, -1.0)
    balance = np.where(member, 0.5 / member.mean(), 0.5 / (1.0 - member.mean()))

    def loss(given: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        weights, bias = given[:-1], given[-1]
        margin = sign * (rows @ weights + bias)
        slope = -balance * sign * expit(-margin)
        value = float(balance @ np.logaddexp(0.0, -margin)) + 0.5 / _STRENGTH * float(
            weights @ weights
        )
        return value, np.append(rows.T @ slope + weights / _STRENGTH, slope.sum())

    found = minimize(loss, np.zeros(rows.shape[1] + 1), jac=True, method="L-BFGS-B")
    return found.x[:-1], float(found.x[-1])
