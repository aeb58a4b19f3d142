"""What the estimators refuse: an EstimationError with the place, the words, and a cure."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from canary.errors import EstimationError
from canary.statistics.distances import correlation, ks_distance
from canary.statistics.epsilon import correct_guesses, epsilon_lower_bound
from canary.statistics.exposures import (
    exposure_by_bounds,
    exposure_by_bounds_and_draws,
    exposure_by_draws,
    exposure_by_rank,
)
from canary.statistics.extrapolation import exposure_by_skew_normal
from canary.statistics.histogram import Histogram, HistogramBuilder
from canary.statistics.importance import ImportanceCount, RankCount, exposure_by_importance
from canary.statistics.medians import median_interval
from canary.statistics.power import evidence_power, limit_power
from canary.statistics.pvalues import fisher, holm
from canary.statistics.resampling import larger_in_groups, larger_in_pairs, resampled
from canary.statistics.roc import balanced_accuracy, roc
from canary.statistics.skewfit import fit_skew_normal
from canary.statistics.tails import check_level, check_rule

BOUNDS = exposure_by_bounds(lower=1, upper=5, space_size=10)
NO_P_VALUE = replace(BOUNDS, p_value=None)
(DRAWN,) = exposure_by_draws([1.0], [1.0, 2.0], space_size=10)
COUNT = ImportanceCount(50.0, 10.0, 20, 8.0, 10**6)
NORMAL = np.random.default_rng(1).normal(30, 2, 100)
CURVE = roc([3.0, 1.0, 2.0, 0.0], [True, True, False, False])
BUILDER = HistogramBuilder()

GOOD = {
    exposure_by_draws: {"canary_px": [1.0], "draws_px": [1.0, 2.0], "space_size": 10},
    exposure_by_rank: {"rank": 2, "lower": 1, "upper": 3, "space_size": 10},
    exposure_by_bounds: {"lower": 1, "upper": 5, "space_size": 10},
    exposure_by_bounds_and_draws: {"certain": BOUNDS, "drawn": DRAWN},
    exposure_by_importance: {
        "counts": [RankCount(COUNT, COUNT, COUNT, 1, 1, 1)], "uniform": [DRAWN], "space_size": 10**6
    },
    exposure_by_skew_normal: {
        "canary_px": [25.0], "draws_px": NORMAL, "space_size": 10**9,
        "rng": np.random.default_rng(0), "replicates": 20,
    },
    fit_skew_normal: {"px_bits": NORMAL},
    fisher: {"p_values": [0.1]},
    holm: {"p_values": [0.1]},
    median_interval: {"lower_bits": [1], "upper_bits": [1]},
    evidence_power: {"median_bits": 2.0, "canaries": 8, "space_size": 10**9},
    limit_power: {"median_bits": 2.0, "limit_bits": 1.0, "canaries": 3, "space_size": 10**9},
    epsilon_lower_bound: {"correct": 1, "guesses": 2, "coins": 5},
    correct_guesses: {"scores": [1.0], "heads": [True], "guesses": 1},
    correlation: {"x": [1, 2, 3, 4], "y": [1, 2, 3, 4]},
    ks_distance: {"first": [1.0], "second": [1.0]},
    larger_in_pairs: {"first": [2.0], "second": [1.0]},
    larger_in_groups: {"first": [[2.0]], "second": [[1.0]]},
    resampled: {"scores": np.arange(40), "member": np.arange(40) < 20, "replicates": 2},
    roc: {"scores": [1, 2], "member": [1, 0]},
    balanced_accuracy: {"guess": [1, 0], "member": [1, 0]},
    CURVE.tpr_at_fpr: {"fpr": 0.5},
    HistogramBuilder: {"width_bits": 0.125},
    BUILDER.add: {"values_bits": np.array([3.0])},
    BUILDER.merge: {"histogram": Histogram(0.0, 0.125, (1,))},
    check_level: {"alpha": 0.1, "where": "check_level"},
    check_rule: {"rule": "linear", "where": "check_rule"},
}  # fmt: skip
"""What each takes, of which a case below changes a part."""

REFUSED = [
    (exposure_by_draws, {"draws_px": []}, "draws_px is empty; draw at least one"),
    (exposure_by_draws, {"draws_px": [1.0, math.nan]}, r"finite, got nan at position 1 \(1 of 2"),
    (exposure_by_draws, {"draws_px": [math.inf, 1.0]}, "1 of 2 values of draws_px are infinite"),
    (exposure_by_draws, {"canary_px": [-math.inf]}, "canary_px must be finite, got -inf"),
    (exposure_by_draws, {"canary_px": [[1.0]]}, r"must have one dimension, got shape \(1, 1\)"),
    (exposure_by_draws, {"canary_px": ["one"]}, "canary_px must hold numbers"),
    (exposure_by_draws, {"space_size": 0}, "space_size must be a positive integer, got 0"),
    (exposure_by_draws, {"space_size": 1e9}, "must be a positive integer, got 1000000000.0"),
    (exposure_by_draws, {"confidence": 1.0}, "confidence must be between 0 and 1, got 1.0"),
    (exposure_by_draws, {"confidence": 0.05}, "0.5 or more, got 0.05; for .* 0.05, give 0.95"),
    (exposure_by_draws, {"canary_px": [-1.0]}, "-1.0 at position 0 .*; give -log2 P of each"),
    (exposure_by_draws, {"draws_px": [1.0, -2.0]}, "draws_px must not be negative, got -2.0 at"),
    (exposure_by_skew_normal, {"draws_px": -NORMAL}, "draws_px must not be negative"),
    (exposure_by_skew_normal, {"canary_px": [-25.0]}, "canary_px must not be negative"),
    (exposure_by_draws, {"confidence": 95}, "confidence must be between 0 and 1, got 95"),
    (exposure_by_draws, {"noise_bits": -1.0}, "must be finite and not negative, got -1.0"),
    (exposure_by_draws, {"noise_bits": math.nan}, "must be finite and not negative, got nan"),
    (exposure_by_rank, {"rank": 0, "lower": 0, "upper": 0}, "expected 1 <= lower"),
    (exposure_by_rank, {"rank": 11, "upper": 11}, "rank=11, upper=11, space_size=10"),
    (exposure_by_rank, {"lower": 3}, "expected 1 <= lower"),
    (exposure_by_rank, {"rank": 4}, "expected 1 <= lower"),
    (exposure_by_rank, {"space_size": 0}, "space_size must be a positive integer"),
    (exposure_by_rank, {"rank": 1.5}, "ranks must be integers"),
    (exposure_by_bounds, {"lower": 0}, "expected 1 <= lower"),
    (exposure_by_bounds, {"lower": 6}, "expected 1 <= lower"),
    (exposure_by_bounds, {"upper": 11}, "expected 1 <= lower"),
    (exposure_by_bounds, {"rank": 6}, "expected 1 <= lower"),
    (exposure_by_bounds, {"lower": 1.5}, "ranks must be integers"),
    (exposure_by_bounds_and_draws, {"drawn": BOUNDS}, "not one of bounds and one of draws"),
    (exposure_by_bounds_and_draws, {"certain": NO_P_VALUE}, "not one of bounds and one of draws"),
    (exposure_by_importance, {"uniform": []}, "1 counts and 0 exposures"),
    (exposure_by_importance, {"confidence": 1.0}, "confidence must be between"),
    (exposure_by_importance, {"space_size": 0}, "space_size must be a positive integer"),
    (exposure_by_skew_normal, {"draws_px": [1.0] * 39}, "39 draws are too few"),
    (exposure_by_skew_normal, {"draws_px": [1.0] * 40 + [math.nan]}, "draws_px must be finite"),
    (exposure_by_skew_normal, {"canary_px": [math.inf]}, "1 of 1 values of canary_px are infinite"),
    (exposure_by_skew_normal, {"confidence": 1.0}, "confidence must be between 0 and 1"),
    (exposure_by_skew_normal, {"replicates": 19}, "replicates=19, at least 20"),
    (exposure_by_skew_normal, {"space_size": 0}, "space_size must be a positive integer"),
    (fit_skew_normal, {"noise_bits": 5.0}, "no more than the noise of the model, 5 bits"),
    (fit_skew_normal, {"px_bits": [1.0] * 19}, "19 log-perplexities are too few .*, 20 are the"),
    (fit_skew_normal, {"px_bits": [3.5] * 40}, "all 40 log-perplexities are equal to within"),
    (fit_skew_normal, {"px_bits": [0.0] * 40}, "all 40 log-perplexities are equal"),
    (fit_skew_normal, {"px_bits": [1e9 + 1e-7] * 20 + [1e9] * 20}, "log-perplexities are equal"),
    (fit_skew_normal, {"px_bits": 5.0 + 1e-12 * NORMAL}, "equal to within rounding"),
    (fit_skew_normal, {"px_bits": [0.0] * 10 + [1.0] * 30}, "only 2 different values"),
    (fit_skew_normal, {"px_bits": [30.0] * 39 + [31.0]}, "only 2 different values"),
    (fit_skew_normal, {"px_bits": [1.0, 2.0] * 20 + [30.0, 1e90]}, "only 2 different values"),
    (fit_skew_normal, {"px_bits": [1.0] * 30 + [math.inf]}, "1 of 31 values of px_bits are inf"),
    (fit_skew_normal, {"px_bits": [[1.0]]}, "one dimension"),
    (fit_skew_normal, {"px_bits": ["x"]}, "must hold numbers"),
    (fisher, {"p_values": []}, r"at least one number in one dimension, got shape \(0,\)"),
    (fisher, {"p_values": [[0.1]]}, r"got shape \(1, 1\)"),
    (fisher, {"p_values": 0.1}, r"got shape \(\)"),
    (fisher, {"p_values": [0.5, 0.0]}, "got 0.0 at position 1; count the canary itself"),
    (fisher, {"p_values": [1.1]}, "got 1.1 at position 0"),
    (fisher, {"p_values": [0.5, None]}, "got nan at position 1.* off a curve has no p-value"),
    (fisher, {"p_values": ["a"]}, "p_values must hold numbers"),
    (fisher, {"shared_draws": 0}, "shared_draws must be a positive integer, got 0"),
    (fisher, {"shared_draws": 2.5}, "shared_draws must be a positive integer, got 2.5"),
    (holm, {"p_values": [0.0]}, "got 0.0 at position 0"),
    (median_interval, {"lower_bits": [], "upper_bits": []}, "do not fit"),
    (median_interval, {"upper_bits": [1, 2]}, "do not fit"),
    (median_interval, {"lower_bits": [2]}, "do not fit"),
    (median_interval, {"lower_bits": [math.nan]}, "do not fit"),
    (median_interval, {"formats": [0, 0]}, "do not fit"),
    (median_interval, {"confidence": 1.0}, "confidence"),
    (evidence_power, {"median_bits": 0.5}, "between 1 bit, which is not learned"),
    (evidence_power, {"median_bits": 31.0}, "between 1 bit, which is not learned"),
    (evidence_power, {"median_bits": math.nan}, "between 1 bit, which is not learned"),
    (limit_power, {"canaries": 0}, "canaries must be a positive"),
    (limit_power, {"draws": 0}, "draws must be a positive"),
    (epsilon_lower_bound, {"correct": 3}, "expected 0 <= correct <= guesses <= coins"),
    (epsilon_lower_bound, {"coins": 1}, "got 1, 2 and 1"),
    (epsilon_lower_bound, {"correct": 0, "guesses": 0}, "guesses must be a positive integer"),
    (epsilon_lower_bound, {"delta": 1.0}, "delta must be"),
    (epsilon_lower_bound, {"delta": math.nan}, "delta must be"),
    (epsilon_lower_bound, {"confidence": 0.0}, "confidence"),
    (correct_guesses, {"guesses": 2}, "2 guesses for 1 coins"),
    (correct_guesses, {"scores": [1.0, 2.0]}, r"scores of shape \(2,\) for coins of shape \(1,\)"),
    (correct_guesses, {"scores": [math.nan]}, "or one is NaN"),
    (correlation, {"x": [1, 2, 3], "y": [1, 2, 3]}, "3 pairs of numbers"),
    (correlation, {"x": [1, 1, 1, 1]}, "one side is constant"),
    (correlation, {"y": [1, 2, 3]}, "shapes"),
    (correlation, {"x": [1, 2, 3, math.nan]}, "or one is NaN"),
    (ks_distance, {"first": []}, r"a sample of shape \(0,\)"),
    (ks_distance, {"first": [math.nan]}, "with NaN"),
    (ks_distance, {"first": [[1.0]]}, r"shape \(1, 1\)"),
    (ks_distance, {"first": ["a"]}, "a sample must hold numbers"),
    (ks_distance, {"first": None}, "a sample of shape"),
    (larger_in_pairs, {"first": [1.0, 2.0]}, "2 numbers and 1 make no pairs"),
    (larger_in_pairs, {"first": [], "second": []}, "expected finite numbers"),
    (larger_in_pairs, {"first": [math.nan]}, "expected finite numbers"),
    (larger_in_groups, {"first": [], "second": []}, "there is no group"),
    (larger_in_groups, {"second": [[]]}, "expected finite numbers"),
    (larger_in_groups, {"first": [[math.inf]]}, "expected finite numbers"),
    (resampled, {"over": "both"}, "one model says nothing"),
    (resampled, {"over": "rows"}, "unknown over 'rows'; use one of samples"),
    (resampled, {"replicates": 0}, "replicates must be a positive integer"),
    (resampled, {"guess": [True]}, r"guesses of \(1, 1\)"),
    (resampled, {"member": np.arange(40) < 5}, "model 0 has 5 samples of one kind"),
    (roc, {"scores": [1, math.nan]}, "1 of 2 scores are NaN"),
    (roc, {"member": [1, 1]}, "all 2 samples are members"),
    (roc, {"member": [0, 0]}, "all 2 samples are non-members"),
    (roc, {"scores": [1, 2, 3]}, r"shape \(3,\) for members of shape \(2,\)"),
    (roc, {"member": [1, 2]}, "must hold true and false"),
    (roc, {"scores": [], "member": []}, "all 0 samples"),
    (balanced_accuracy, {"confidence": 0.0}, "confidence"),
    (CURVE.tpr_at_fpr, {"fpr": 0.1}, "rate of 0.1 cannot be seen with 2 non-members"),
    (CURVE.tpr_at_fpr, {"fpr": 1.1}, "ask for 0.5 to 1"),
    # With 0.1, 0.7 / 0.1 is 6.999... and 7 * 0.1 is 0.7000...1: edges that do not agree.
    (HistogramBuilder, {"width_bits": 0.1}, "the width .* power of two"),
    (HistogramBuilder, {"width_bits": 0.0}, "the width .* power of two"),
    (HistogramBuilder, {"width_bits": -0.5}, "the width .* power of two"),
    (HistogramBuilder, {"width_bits": math.nan}, "the width .* power of two"),
    (HistogramBuilder, {"width_bits": math.inf}, "the width .* power of two"),
    (BUILDER.add, {"values_bits": np.array([1e101])}, "is no log-perplexity in bits"),
    (BUILDER.add, {"values_bits": np.array([3.0, -1e300])}, "is no log-perplexity in bits"),
    (BUILDER.merge, {"histogram": Histogram(0.0, 0.3, (1,))}, "do not fit bins of 0.125 bits"),
    (BUILDER.merge, {"histogram": Histogram(0.1, 0.125, (1,))}, "do not fit bins of 0.125 bits"),
    *((check_level, {"alpha": at}, "between 0 and 1") for at in (0, 1, -1, 2, math.nan)),
    (check_rule, {"rule": "mean"}, "unknown rule 'mean'; use one of empirical"),
]


@pytest.mark.parametrize("function", GOOD, ids=lambda function: function.__name__)
def test_what_is_changed_below_is_taken_as_it_is(function):
    function(**GOOD[function])


@pytest.mark.parametrize(("function", "change", "words"), REFUSED)
def test_refused_input(function, change, words):
    with pytest.raises(EstimationError, match=f"{function.__name__}: .*{words}") as caught:
        function(**GOOD[function] | change)
    assert caught.value.cure


def test_rates_that_resamples_cannot_see_input():
    with pytest.raises(EstimationError, match=r"a false positive rate of 0\.001 cannot be seen"):
        resampled(**GOOD[resampled], fprs=[0.001])


def test_more_values_than_candidates():
    """As where the bits of a space are given as its size; scores that vary a little may repeat."""
    rng = np.random.default_rng(0)
    many = rng.normal(40.0, 3.0, 20_000)
    with pytest.raises(EstimationError, match="more different values than the space has") as raised:
        exposure_by_draws([38.0], many, space_size=30)
    assert "number of candidates" in str(raised.value)
    few = rng.choice(rng.normal(40.0, 3.0, 30), 20_000)
    for noise, told in ((0.0, 0.0), (1e-5, 0.0), (0.01, 0.02)):
        draws = few + noise * rng.uniform(-1.0, 1.0, few.size)
        exposure_by_draws([38.0], draws, space_size=30, noise_bits=told)
    exposure_by_draws([38.0], many[:1000], space_size=1000)
