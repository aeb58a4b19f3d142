"""All members at once: the regression on signals, its p-value, and what the gate says of it."""

from __future__ import annotations

import json
from statistics import NormalDist

import numpy as np
import pytest
from html_pages import render
from scipy.stats import binom
from texts_and_models import random_words, trained_on

import canary
from canary.membership.text_survey import survey_texts
from canary.membership.words_alone import FOLDS, _Texts, by_columns
from canary.signals.text_measuring import measure_texts

N = 60
MEMBER = np.arange(2 * N) < N
TEXTS = random_words(np.random.default_rng(0), 3 * N, vocabulary=150)


def surveyed(model, texts=TEXTS[: 2 * N], **options):
    measured = measure_texts(model, texts, MEMBER, start_token="\n", signals="loss,min-k,zlib")
    return survey_texts(measured, texts, **options)


def test_it_is_what_a_slow_regression_reaches():
    """Ranks, normal scores, ridge regression and the AUC within folds, one number at a time."""
    rng = np.random.default_rng(4)
    texts = [f"text {at}" for at in range(40)]
    member = np.arange(40) < 20
    columns = rng.normal(size=(40, 3)) + 0.8 * member[:, None]
    columns[3, 1] = np.inf
    found = by_columns(texts, columns, member, seed=2, permutations=9)
    given = _Texts.of(texts, member, 2)
    order = np.unique(given.which, return_index=True)[1]
    scores = np.array([
        [NormalDist().inv_cdf((sum(column <= one) - 0.5) / 40) for one in column]
        for column in columns[order].T
    ]).T  # fmt: skip
    ranks = np.empty(40)
    for fold in range(FOLDS):
        here = given.fold == fold
        known, flags = scores[~here], given.member[~here].astype(float)
        centre, mean = known.mean(axis=0), flags.mean()
        gram = (known - centre).T @ (known - centre) + np.eye(3)
        judged = scores[here] @ np.linalg.solve(gram, (known - centre).T @ (flags - mean))
        ranks[here] = [(np.sum(judged <= one) - 0.5) / len(judged) for one in judged]
    pairs = [(a, b) for a in ranks[given.member] for b in ranks[~given.member]]
    assert found.auc.value == pytest.approx(np.mean([(a > b) + 0.5 * (a == b) for a, b in pairs]))


def test_false_alarms_are_at_the_level():
    """Heavy tails, dependent columns, 150 times with marks by chance."""
    p = []
    texts = [f"text {at}" for at in range(40)]
    for seed in range(150):
        rng = np.random.default_rng([seed, 3])
        columns = rng.standard_t(1, (40, 1)) + rng.normal(size=(40, 3))
        p.append(by_columns(texts, columns, np.arange(40) < 20, seed=seed, permutations=19).p)
    for level in (0.05, 0.2):
        assert binom.ppf(1e-4, 150, level) <= np.sum(np.array(p) <= level)
        assert np.sum(np.array(p) <= level) <= binom.ppf(1 - 1e-4, 150, level)


@pytest.fixture(scope="module")
def found():
    """By a model that read some of the members, one that read none; and of files that differ."""
    apart = [f"{text} zeta" if at < N else text for at, text in enumerate(TEXTS[: 2 * N])]
    return {
        "seen": surveyed(trained_on(TEXTS[:N])),
        "undecided": surveyed(trained_on(TEXTS[2 * N :])),
        "void": surveyed(trained_on(apart[:N]), apart),
    }


@pytest.mark.parametrize(
    ("kind", "outcome", "words"),
    [
        ("seen", "failed", "the model was trained on texts of this file"),
        ("undecided", "undecided", "never shows that texts were not in the training data"),
        ("void", "undecided", "differ without any model"),
    ],
)
def test_the_gate_fails_or_is_undecided(found, kind, outcome, words):
    survey = found[kind]
    assert survey.dataset() == kind
    body = survey.to_dict()
    assert body["dataset"]["outcome"] == kind
    verdict = canary.check(survey, max_p=0.01)
    assert verdict.outcome == outcome
    assert words in f"{verdict.findings[0].sentence} {verdict.findings[0].cure}"
    if kind == "void":  # also where the p-value alone would be above the limit
        least = canary.check(survey, max_p=max(survey.together.p / 2, 1e-6))
        assert least.outcome == "undecided"
        assert words in least.findings[0].sentence
        assert least.findings[0].cure.startswith("correct the input")
    assert json.loads(json.dumps(body))["dataset"]["p"] == survey.together.p
    assert "All members at once" in render(survey)
