"""Can members be told from non-members without any model? By their words alone.

A membership attack on texts is worth nothing if members and non-members come from different
sources: an attack that looks at what a model finds easy sees the sources. A bag of words shows
such differences of topic, time and style.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from canary.errors import EstimationError
from canary.statistics.number_checks import check_confidence, positive_integer
from canary.statistics.roc import Estimate, Roc, roc

FOLDS = 5
"""Parts of the texts, each of which is judged by what the others teach."""

PERMUTATIONS = 399
"""Times that the flags are dealt anew, unless it is said otherwise."""

LEVEL = 0.025
"""From this p-value down members and non-members differ."""

Flags = NDArray[np.bool_]
Floats = NDArray[np.float64]

_WORD = re.compile(r"\w+")
_LEAST_TEXTS = 2
_MOST_WORDS = 4096
_PENALTY = 1.0
_AT_ONCE = 50


@dataclass(frozen=True, eq=False)
class WordsAlone:
    """What a bag-of-words classifier reaches that sees no model; equal texts count once.

    `p` is the p-value of "texts got their flags by chance": of the AUC, among those of flags dealt
    anew, each with all classifiers learned anew. `spread` is the root mean square distance of those
    AUCs from 0.5.
    """

    roc: Roc
    auc: Estimate
    p: float
    permutations: int
    spread: float

    @property
    def differ(self) -> bool:
        """Whether words separate members from non-members, at the level `LEVEL`."""
        return self.p <= LEVEL


def words_alone(
    texts: Sequence[str],
    member: Flags,
    *,
    seed: int,
    confidence: float = 0.95,
    permutations: int = PERMUTATIONS,
    done: Callable[[int], object] = lambda folds: None,
) -> WordsAlone:
    """AUC of a bag-of-words classifier of members and non-members, and its p-value.

    `done` is called after each fold. An EstimationError if there are fewer than two different
    members or non-members for each fold, or there is no permutation.

    Notes
    -----
    Words (letters, digits and underscores, in lower case) that are in two texts at least, and of
    these the 4,096 that are in most; ties by digest. ``1 + log(count)`` of each, rows of length 1;
    ridge regression of the flag with a penalty of ``|w|**2``, `FOLDS`-fold cross-validation. Copies
    of a text teach once and are in one fold. The order of the texts has no influence. The
    regression is linear in the flags, so that one factorisation for each fold serves all
    permutations.

    p is ``(1 + #{as large or larger}) / (permutations + 1)`` (Phipson and Smyth 2010), flags dealt
    anew within the folds: exact whatever the classifier. DeLong's interval takes the scores as
    given, but other texts would have taught other weights. So its standard error is multiplied by
    the ratio of the spread of the dealt AUCs to what independent scores would have, ``sqrt((n + m +
    1) / (12 n m))``, where that is more than 1, and by Student's quantile over the normal one, with
    Welch's degrees of freedom for equal variances, as few texts of a kind show its variance badly.
    """
    given = _Texts.of(texts, member, seed)
    return _tested(given, seed, confidence, permutations, done)


def by_columns(
    texts: Sequence[str],
    columns: Floats,
    member: Flags,
    *,
    seed: int,
    confidence: float = 0.95,
    permutations: int = PERMUTATIONS,
    done: Callable[[int], object] = lambda folds: None,
) -> WordsAlone:
    """What the same regression reaches by some numbers of each text in place of its words.

    `columns` have the shape (texts, numbers); equal texts have equal numbers. Each column becomes
    normal scores of its ranks, so that no outlier and no infinity decides. All else is as in
    `words_alone`.
    """
    from scipy.sparse import csr_array
    from scipy.special import ndtri
    from scipy.stats import rankdata

    given = _Texts.of(texts, member, seed)
    first = np.unique(given.which, return_index=True)[1]
    ranks = rankdata(columns[first], axis=0)
    rows = csr_array(ndtri((ranks - 0.5) / len(first)))
    return _tested(replace(given, rows=rows), seed, confidence, permutations, done)


def _tested(
    given: _Texts,
    seed: int,
    confidence: float,
    permutations: int,
    done: Callable[[int], object],
) -> WordsAlone:
    """What the regression reaches, and among how many dealings of the flags."""
    from scipy.special import ndtri, stdtrit

    where = "words_alone"
    check_confidence(confidence, where)
    count = positive_integer(permutations, "permutations", where, cure="399 make p = 0.0025")
    rng = np.random.default_rng([seed, 2])
    flags = np.repeat(given.member[:, None], count + 1, axis=1)
    for fold in range(FOLDS):
        rows = np.flatnonzero(given.fold == fold)
        flags[rows, 1:] = rng.permuted(flags[rows, 1:], axis=0)
    ranks, areas = _judged(given, flags, done)
    dealt, curve = areas[1:], roc(ranks, given.member)
    spread = math.sqrt(float(np.mean((dealt - 0.5) ** 2)))
    n, m = curve.members, curve.nonmembers
    free = math.sqrt((n + m + 1) / (12 * n * m))
    freedom = (1 / n + 1 / m) ** 2 / sum(size**-2 / max(size - 1, 1) for size in (n, m))
    level = 0.5 + confidence / 2
    widening = max(spread / free, 1.0) * float(stdtrit(freedom, level) / ndtri(level))
    auc = curve.auc(confidence=confidence, widening=widening)
    p = (1 + int(np.count_nonzero(dealt >= areas[0] - 1e-12))) / (count + 1)
    return WordsAlone(curve, auc, p, count, spread)


def check_enough_texts(texts: Sequence[str], member: Flags) -> None:
    """An EstimationError if there are fewer than two different texts of a kind for each fold."""
    different = Counter(flag for _, flag in set(zip(texts, member.tolist(), strict=True)))
    for kind, flag in (("members", True), ("non-members", False)):
        if different[flag] < 2 * FOLDS:
            raise EstimationError(
                f"{different[flag]} different {kind} are too few to compare words in {FOLDS} parts",
                cure=f"give at least {2 * FOLDS} of either kind",
                where="the words of the texts",
            )


@dataclass(frozen=True, eq=False)
class _Texts:
    """Different texts, the fold and the flag of each, and which of them each given text is."""

    rows: Any = field(repr=False)
    fold: NDArray[np.int64]
    member: Flags
    which: NDArray[np.int64]

    @classmethod
    def of(cls, texts: Sequence[str], member: Flags, seed: int) -> _Texts:
        check_enough_texts(texts, member)
        given = list(zip(texts, member.tolist(), strict=True))
        known = {pair: number for number, pair in enumerate(sorted(set(given)))}
        different = [text for text, _ in known]
        flags = np.array([flag for _, flag in known])
        # Members and non-members evenly, equal texts together.
        rng, fold = np.random.default_rng(seed), np.empty(len(flags), np.int64)
        fold_of: dict[str, int] = {}
        for flag in (True, False):
            order = rng.permutation(np.flatnonzero(flags == flag))
            for place, number in enumerate(order.tolist()):
                fold[number] = fold_of.setdefault(different[number], place % FOLDS)
        counts = [Counter(_WORD.findall(text.lower())) for text in different]
        return cls(_features(counts), fold, flags, np.array([known[pair] for pair in given]))


def _features(counts: list[Counter[str]]) -> Any:
    """Sparse rows of the texts, of length 1, whose columns are the words that are in most texts."""
    from scipy.sparse import csr_array

    spread = Counter(word for bag in counts for word in bag)
    several = [word for word, texts in spread.items() if texts >= _LEAST_TEXTS]
    several.sort(key=lambda word: (-spread[word], blake2b(word.encode(), digest_size=8).digest()))
    # Other ties would keep words of members, whose texts come first.
    columns = {word: number for number, word in enumerate(several[:_MOST_WORDS])}
    places: list[int] = []
    values: list[float] = []
    ends = [0]
    for bag in counts:
        known = [(columns[word], count) for word, count in bag.items() if word in columns]
        weights = np.array([1.0 + math.log(count) for _, count in known])
        places += [column for column, _ in known]
        values += (weights / max(float(np.linalg.norm(weights)), 1e-300)).tolist()
        ends.append(len(places))
    return csr_array((values, places, ends), shape=(len(counts), len(columns)))


def _judged(given: _Texts, flags: Flags, done: Callable[[int], object]) -> tuple[Floats, Floats]:
    """Ranks of the texts for the first column of flags, and the AUC within folds of each."""
    from scipy.stats import rankdata

    ranks, above, pairs = np.empty(len(flags)), np.zeros(flags.shape[1]), 0
    for number in range(FOLDS):
        inside = given.fold == number
        solve = _solver(given.rows[~inside])
        for start in range(0, flags.shape[1], _AT_ONCE):
            some = slice(start, start + _AT_ONCE)
            weights = solve(flags[~inside, some].astype(np.float64))
            ranked = rankdata(given.rows[inside] @ weights, axis=0)
            above[some] += (ranked * flags[inside, some]).sum(axis=0)
            if start == 0:
                ranks[inside] = (ranked[:, 0] - 0.5) / len(ranked)
        members, texts = int(flags[inside, 0].sum()), int(inside.sum())
        above -= members * (members + 1) / 2
        pairs += members * (texts - members)
        done(1)
    return ranks, above / pairs


def _solver(rows: Any) -> Callable[[Floats], Floats]:
    """Flags of the texts that teach -> weights of the words: ridge regression with a bias.

    ``(X'X + c)^-1 X'Y`` of centred X and Y, or ``X'(XX' + c)^-1 Y``, whichever matrix is smaller.
    """
    from scipy.linalg import cho_factor, cho_solve

    texts, words = rows.shape
    mean = np.asarray(rows.mean(axis=0)).ravel()
    if words <= texts:
        gram = (rows.T @ rows).toarray() - texts * np.outer(mean, mean)
    else:
        gram = (rows @ rows.T).toarray()
        ends = gram.mean(axis=0)
        gram += ends.mean() - ends[:, None] - ends[None, :]
    gram[np.diag_indices_from(gram)] += _PENALTY
    factor = cho_factor(gram, lower=True, overwrite_a=True, check_finite=False)

    def solve(flags: Floats) -> Floats:
        centred = flags - flags.mean(axis=0)
        # Columns of `centred` sum to 0, so the rows' mean drops out of X'Y.
        if words <= texts:
            return np.asarray(cho_solve(factor, rows.T @ centred, check_finite=False))
        return np.asarray(rows.T @ cho_solve(factor, centred, check_finite=False))

    return solve
