"""The bag of words: finds what differs, finds nothing in nothing, and judges no text by itself."""

from __future__ import annotations

import numpy as np
import pytest
from texts_and_models import random_words

from canary.errors import EstimationError
from canary.membership.words_alone import FOLDS, LEVEL, _Texts, words_alone

HALF = np.arange(200) < 100


def test_one_word_that_differs_is_found_theory():
    """A word that stands in half of the members and in no non-member: AUC 3/4 at best."""
    texts = random_words(np.random.default_rng(0), 200)
    told = [f"{text} zeta" if at < 100 and at % 2 else text for at, text in enumerate(texts)]
    found = words_alone(told, HALF, seed=0, permutations=99)
    assert 0.65 < found.auc.value < 0.85
    assert found.auc.lower > 0.5
    assert found.p == 0.01
    assert found.differ


def test_texts_without_a_common_word_have_no_evidence_degenerate():
    found = words_alone([f"w{at}" for at in range(200)], HALF, seed=0, permutations=9)
    assert (found.auc.value, found.p) == (0.5, 1.0)


def drawn(count, texts, *, permutations, words=20):
    """Of texts of one source what words alone reach, with flags by chance."""
    found = []
    for seed in range(count):
        rng = np.random.default_rng([seed, 11])
        made = random_words(rng, texts, words=words, vocabulary=150)
        member = rng.permutation(texts) < texts // 2
        found.append(words_alone(made, member, seed=seed, permutations=permutations))
    return found


def missed(found, truth=0.5):
    """How many intervals lie above the truth, and below: the widened ones, and DeLong's."""
    return [
        (sum(one.lower > truth for one in kind), sum(one.upper < truth for one in kind))
        for kind in ([one.auc for one in found], [one.roc.auc() for one in found])
    ]


def test_texts_of_one_source_are_told_apart_as_seldom_as_p_says_coverage():
    """Of 80 draws p is uniform over 40 values, and the interval misses 0.5 in 5 % or so.

    Binomial: p <= 0.1 in more than 19 of 80 by chance in 1 of 10,000 runs, and p <= 0.5 in
    fewer than 24 or more than 56. DeLong's interval misses in some 16 %.
    """
    found = drawn(80, 50, permutations=39)
    p = np.array([one.p for one in found])
    assert sum(p <= 0.1) <= 19
    assert 24 <= sum(p <= 0.5) <= 56
    widened, plain = missed(found)
    assert sum(widened) <= 11
    assert sum(plain) >= sum(widened) + 4


def few_members(seed, members, nonmembers=200):
    texts = random_words(np.random.default_rng([seed, 14]), members + nonmembers, words=20)
    return words_alone(texts, np.arange(members + nonmembers) < members, seed=seed, permutations=39)


@pytest.mark.parametrize("members", [10, 20])
def test_few_members_widen_the_interval_as_students_law_says_oracle(members):
    """By Welch's degrees of freedom; with the normal quantile it missed 0.5 in 8.6 %."""
    from scipy.stats import t

    found = few_members(0, members)
    freedom = (members + 200) ** 2 / (200**2 / (members - 1) + members**2 / 199)
    free = np.sqrt((members + 201) / (12 * members * 200))
    plain = found.roc.auc()
    half = [
        np.log(one.upper / (1 - one.upper) / one.lower * (1 - one.lower))
        for one in (found.auc, plain)
    ]
    expected = max(found.spread / free, 1.0) * t.ppf(0.975, freedom) / 1.959963984540054
    assert half[0] / half[1] == pytest.approx(expected)


@pytest.mark.slow
@pytest.mark.parametrize("members", [10, 20])
def test_intervals_of_few_members_without_a_difference_coverage(members):
    widened, _ = missed([few_members(seed, members) for seed in range(400)])
    assert sum(widened) <= 20 + 4 * np.sqrt(20)


@pytest.mark.slow
@pytest.mark.parametrize(("texts", "count"), [(120, 400), (1000, 60)])
def test_level_and_coverage_without_a_difference_coverage(texts, count):
    found = drawn(count, texts, permutations=199)
    widened, _ = missed(found)
    allowed = LEVEL * count + 4 * np.sqrt(LEVEL * count)
    assert sum(one.differ for one in found) <= allowed
    assert max(widened) <= allowed
    spread = np.std([one.auc.value for one in found])
    assert np.mean([one.spread for one in found]) == pytest.approx(spread, rel=0.3)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("texts", "share", "count"), [(120, 0.3, 400), (120, 0.8, 400), (1000, 0.3, 60)]
)
def test_coverage_of_a_real_difference_coverage(texts, share, count):
    """A word in a share of the members and in no non-member; the truth is the mean of all draws."""
    found = []
    for seed in range(count):
        rng = np.random.default_rng([seed, 12])
        made = random_words(rng, texts, words=60, vocabulary=1000)
        marked = (np.arange(texts) < texts // 2) & (rng.random(texts) < share)
        told = [f"{text} zeta" if mark else text for text, mark in zip(made, marked, strict=True)]
        found.append(words_alone(told, np.arange(texts) < texts // 2, seed=seed, permutations=199))
    widened, _ = missed(found, np.mean([one.auc.value for one in found]))
    assert sum(widened) <= 0.05 * count + 4 * np.sqrt(0.05 * count)


def test_equal_texts_do_not_teach_each_other_regression():
    """Each text stands five times on its side; if its copies taught, the AUC would be 1."""
    texts = [text for text in random_words(np.random.default_rng(1), 40) for _ in range(5)]
    found = words_alone(texts, HALF, seed=0, permutations=99)
    assert found.auc.value < 0.75
    assert (found.roc.members, found.roc.nonmembers) == (20, 20)
    assert not found.differ


def test_each_fold_is_told_of():
    texts, counted = random_words(np.random.default_rng(2), 200), []
    told = [f"{text} zeta" if at < 100 else text for at, text in enumerate(texts)]
    found = words_alone(told, HALF, seed=0, permutations=1, done=counted.append)
    assert counted == [1] * FOLDS
    assert found.auc.value == 1.0


def ridge(rows, flags):
    """Weights of least squares with an unpenalised bias, by the normal equations of all columns."""
    x = np.column_stack([rows.toarray(), np.ones(rows.shape[0])])
    penalty = np.diag([1.0] * rows.shape[1] + [0.0])
    return np.linalg.solve(x.T @ x + penalty, x.T @ flags)[:-1]


@pytest.mark.parametrize("vocabulary", [20, 200], ids=["fewer words", "fewer texts"])
def test_auc_of_each_permutation_is_that_of_new_scores_oracle(vocabulary):
    """p by hand: the flags dealt anew as `words_alone` does, each scored from nothing."""
    texts = random_words(np.random.default_rng(8), 40, words=12, vocabulary=vocabulary)
    member = np.arange(40) < 20
    found = words_alone(texts, member, seed=5, permutations=19)
    given = _Texts.of(texts, member, 5)
    assert (given.rows.shape[1] < 32) == (vocabulary == 20)
    rng = np.random.default_rng([5, 2])
    flags = np.repeat(given.member[:, None], 20, axis=1)
    for fold in range(FOLDS):
        rows = np.flatnonzero(given.fold == fold)
        flags[rows, 1:] = rng.permuted(flags[rows, 1:], axis=0)
    areas = []
    for column in flags.T:
        won = pairs = 0.0
        for fold in range(FOLDS):
            inside = given.fold == fold
            scores = given.rows[inside] @ ridge(given.rows[~inside], column[~inside].astype(float))
            scores = scores.round(12)
            a, b = scores[column[inside]], scores[~column[inside]]
            won += (a[:, None] > b).sum() + (a[:, None] == b).sum() / 2
            pairs += len(a) * len(b)
        areas.append(won / pairs)
    assert found.p == sum(area >= areas[0] - 1e-9 for area in areas) / 20
    assert found.spread == pytest.approx(np.sqrt(np.mean((np.array(areas[1:]) - 0.5) ** 2)))


@pytest.mark.parametrize(("inside", "kind"), [(9, "members"), (51, "non-members")])
def test_too_few_texts(inside, kind):
    texts = random_words(np.random.default_rng(0), 60)
    with pytest.raises(EstimationError, match=f"9 different {kind} are too few"):
        words_alone(texts, np.arange(60) < inside, seed=0)
