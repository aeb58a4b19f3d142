"""The bag of words: finds what differs, finds nothing in nothing, and judges no text by itself."""

from __future__ import annotations

import numpy as np
import pytest
from texts_and_models import random_words

from canary.errors import EstimationError
from canary.membership.words import FOLDS, _fitted, word_scores, words_alone

HALF = np.arange(200) < 100


def test_one_word_that_differs_is_found_theory():
    """A word that stands in half of the members and in no nonmember: AUC 3/4 at best."""
    texts = random_words(np.random.default_rng(0), 200)
    told = [f"{text} zeta" if at < 100 and at % 2 else text for at, text in enumerate(texts)]
    found = words_alone(told, HALF, seed=0)
    assert 0.65 < found.value < 0.85
    assert found.lower > 0.5


def test_texts_of_one_source_are_not_told_apart_coverage():
    """Of 40 draws the 95 % interval misses 0.5 in few, and on neither side only."""
    below = above = 0
    rng = np.random.default_rng(5)
    texts = random_words(rng, 60, vocabulary=60)
    for seed in range(40):
        member = rng.permutation(60) < 30
        found = words_alone(texts, member, seed=seed)
        below += found.upper < 0.5
        above += found.lower > 0.5
    assert above <= 4
    assert below <= 6


def test_equal_texts_do_not_teach_each_other_regression():
    """Each text stands five times on its side; if its copies taught, the AUC would be 1."""
    texts = [text for text in random_words(np.random.default_rng(1), 40) for _ in range(5)]
    found = words_alone(texts, HALF, seed=0)
    assert found.value < 0.75


def test_scores_do_not_depend_on_the_order_of_fits_and_are_ranks():
    texts = random_words(np.random.default_rng(2), 200)
    told = [f"{text} zeta" if at < 100 else text for at, text in enumerate(texts)]
    counted = []
    scores = word_scores(told, HALF, seed=0, done=counted.append)
    assert counted == [1] * FOLDS
    np.testing.assert_array_equal(scores, word_scores(told, HALF, seed=0))
    assert (scores > 0).all()
    assert (scores < 1).all()
    assert scores[HALF].min() > scores[~HALF].max()


def test_fit_is_the_minimum_theory():
    """One word, in both texts of one side and in neither of the other. By symmetry the bias is
    -w/2, and the loss 4 log(1 + exp(-w/2)) + w**2 / 20 has its minimum where w = 20 s(-w/2)
    with s the logistic function."""
    from scipy.optimize import brentq
    from scipy.sparse import csr_array
    from scipy.special import expit

    weights, bias = _fitted(csr_array([[1.0], [1.0], [0.0], [0.0]]), np.arange(4) < 2)
    expected = brentq(lambda w: w - 20 * expit(-w / 2), 0, 20)
    assert weights[0] == pytest.approx(expected, rel=1e-4)
    assert bias == pytest.approx(-expected / 2, rel=1e-3)


@pytest.mark.parametrize(("inside", "kind"), [(9, "members"), (51, "nonmembers")])
def test_too_few_texts(inside, kind):
    texts = random_words(np.random.default_rng(0), 60)
    with pytest.raises(EstimationError, match=f"9 different {kind} are too few"):
        words_alone(texts, np.arange(60) < inside, seed=0)
