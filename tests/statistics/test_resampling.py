"""Bootstrap intervals: against closed ones, by simulation, and one replicate by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import norm

from canary.errors import EstimationError
from canary.statistics.resampling import _Model, resampled
from canary.statistics.roc import balanced_accuracy, roc


def drawn(rng, models, samples, shifts=None):
    member = rng.random((models, samples)) < 0.5
    shift = np.ones(models) if shifts is None else shifts
    return rng.normal(size=(models, samples)) + shift[:, None] * member, member


def test_weights_are_repeated_samples_oracle():
    rng = np.random.default_rng(0)
    for _ in range(30):
        scores = rng.integers(0, 8, 40).astype(float)
        member, guess = rng.random(40) < 0.5, rng.random(40) < 0.5
        weight = rng.integers(0, 4, 40)
        found = _Model(scores, member, guess, (0.25, 0.5)).reached(weight)
        rows = np.repeat(np.arange(40), weight)
        curve = roc(scores[rows], member[rows])
        assert found == pytest.approx(
            [
                curve.auc().value,
                balanced_accuracy(guess[rows], member[rows]).value,
                *(curve.tpr_at_fpr(f).tpr.value for f in (0.25, 0.5)),
            ]
        )


def test_near_the_closed_intervals_theory():
    scores, member = drawn(np.random.default_rng(1), 1, 2000)
    guess = scores > 0.5
    found = resampled(scores[0], member[0], guess=guess[0], fprs=[0.1], replicates=600)
    curve = roc(scores[0], member[0])
    closed = (curve.auc(), balanced_accuracy(guess[0], member[0]), curve.tpr_at_fpr(0.1).tpr)
    for ours, theirs in zip((found.auc, found.accuracy, *found.tpr), closed, strict=True):
        assert ours.value == pytest.approx(theirs.value)
    for ours, theirs in zip((found.auc, found.accuracy, *found.tpr), closed, strict=True):
        assert (ours.lower, ours.upper) == pytest.approx((theirs.lower, theirs.upper), abs=0.006)


@pytest.mark.parametrize("over", ["models", "both"])
def test_new_models_coverage(over):
    # Shifts of models are N(1, 0.5): a new model has an AUC of Phi(shift / sqrt 2), and the
    # mean over models is Phi(1 / sqrt(2 + 0.25)).
    rng, runs, missed = np.random.default_rng(2), 50, 0
    truth = norm.cdf(1 / math.sqrt(2.25))
    for _ in range(runs):
        scores, member = drawn(rng, 15, 60, rng.normal(1, 0.5, 15))
        found = resampled(scores, member, over=over, replicates=40, confidence=0.9).auc
        missed += not found.lower <= truth <= found.upper
    assert missed <= 0.14 * runs + 6  # percentiles of 15 models are a little narrow


def test_interval_of_samples_alone_is_blind_to_models():
    shifts = np.array([0.0, 2.0, 0.0, 2.0])
    scores, member = drawn(np.random.default_rng(3), 4, 2000, shifts)
    width = {}
    for over in ("samples", "models", "both"):
        found = resampled(scores, member, over=over, replicates=100)
        width[over] = found.auc.upper - found.auc.lower
    assert width["samples"] < 0.3 * width["models"]
    assert width["both"] > 0.8 * width["models"]
    assert (found.models, found.replicates, found.accuracy, found.tpr) == (4, 100, None, ())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"over": "both"}, "one model tells nothing"),
        ({"over": "rows"}, "no resampling over 'rows'"),
        ({"replicates": 0}, "replicates must be a positive integer"),
        ({"fprs": [0.001]}, "a false positive rate of 0.001 cannot be seen"),
        ({"guess": [True]}, r"guesses of \(1, 1\)"),
        ({"member": np.arange(40) < 5}, "model 0 has 5 samples of one kind"),
    ],
)
def test_refused_input(options, words):
    given = {"scores": np.arange(40), "member": np.arange(40) < 20, **options}
    with pytest.raises(EstimationError, match=words):
        resampled(**given)
