"""Signals of classifiers against values that are derived by hand."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest

from canary.signals.class_signals import signals_of
from canary.signals.definitions import SIGNALS

LN = math.log


def of(kind, rows, labels):
    return signals_of(np.array(rows, np.float64), np.array(labels), kind)


def test_probabilities_by_hand():
    # p = (1/2, 1/4, 1/4), label 0:
    #   entropy 1/2 ln 2 + 2 * 1/4 ln 4 = 3/2 ln 2
    #   modified 1/2 ln 2 + 2 * 1/4 ln(4/3) = ln 2 / 2 + ln(4/3) / 2
    # The same, label 1: 3/4 ln 4 + 1/2 ln 2 + 1/4 ln(4/3).
    found = of("probs", [[0.5, 0.25, 0.25]] * 2, [0, 1])
    assert found["correctness"].tolist() == [1, 0]
    assert found["confidence"].tolist() == [0.5, 0.25]
    np.testing.assert_allclose(found["loss"], [LN(2), LN(4)], rtol=1e-15)
    np.testing.assert_allclose(found["logit-confidence"], [0, -LN(3)], atol=1e-15)
    np.testing.assert_allclose(found["entropy"], [1.5 * LN(2)] * 2, rtol=1e-15)
    expected = [LN(2) / 2 + LN(4 / 3) / 2, 0.75 * LN(4) + LN(2) / 2 + LN(4 / 3) / 4]
    np.testing.assert_allclose(found["modified-entropy"], expected, rtol=1e-15)


def test_right_and_wrong_with_probability_one():
    # The paper: 0 for a correct classification with probability 1, infinity for a wrong one.
    found = of("probs", [[1, 0], [0, 1]], [0, 0])
    assert found["modified-entropy"].tolist() == [0, math.inf]
    assert found["entropy"].tolist() == [0, 0]
    assert found["loss"].tolist() == [0, math.inf]
    assert found["logit-confidence"].tolist() == [math.inf, -math.inf]


def test_another_class_has_probability_one_as_far_as_it_was_stored():
    # The label's own 1e-12 is lost in the other's 1: infinite in the paper's formula.
    found = of("probs", [[1e-12, 1.0]], [0])
    assert found["modified-entropy"][0] == math.inf
    assert found["loss"][0] == pytest.approx(12 * LN(10))


def test_logits_of_known_probabilities():
    # exp of (ln 2, 0, 0) is (2, 1, 1): p = (1/2, 1/4, 1/4) as above.
    by_logits = of("logits", [[LN(2) + 7, 7, 7]] * 2, [0, 1])
    by_probs = of("probs", [[0.5, 0.25, 0.25]] * 2, [0, 1])
    for name in by_probs:
        np.testing.assert_allclose(by_logits[name], by_probs[name], rtol=1e-14, atol=1e-15)


def test_logits_that_probabilities_could_not_hold():
    # Two classes 1,000 apart: p = (1, e^-1000). Label 0: S = e^-1000, and the modified
    # entropy, 2 S^2, is below every float. Label 1: loss 1000, and (1 - p_y) 1000 for the
    # label and -p_0 log(1 - p_0) = 1000 for the other.
    found = of("logits", [[1000, 0], [1000, 0]], [0, 1])
    assert found["loss"].tolist() == [0, 1000]
    assert found["logit-confidence"].tolist() == [1000, -1000]
    assert found["modified-entropy"].tolist() == [0, 2000]
    assert np.isfinite(found["entropy"]).all()


def test_logits_of_minus_infinity_are_probability_zero():
    found = of("logits", [[3, -math.inf], [3, -math.inf], [0, 0]], [0, 1, 1])
    assert found["modified-entropy"].tolist()[:2] == [0, math.inf]
    assert found["loss"].tolist()[:2] == [0, math.inf]
    assert found["entropy"].tolist()[:2] == [0, 0]
    assert found["logit-confidence"].tolist() == [math.inf, -math.inf, 0]


def test_losses_by_hand():
    found = of("losses", [LN(4), 0, math.inf], [0, 0, 0])
    assert set(found) == {name for name, signal in SIGNALS.items() if signal.of_losses}
    np.testing.assert_allclose(found["confidence"], [0.25, 1, 0])
    np.testing.assert_allclose(found["logit-confidence"], [-LN(3), math.inf, -math.inf])


@pytest.mark.parametrize("spread", [1, 10, 40, 300])
def test_logits_against_fifty_digits(spread):
    rng = np.random.default_rng(spread)
    logits = rng.normal(0, spread, (60, 5))
    labels = rng.integers(0, 5, 60)
    found = signals_of(logits, labels, "logits")
    with mpmath.workdps(400):
        for row, label in enumerate(labels):
            e = [mpmath.exp(mpmath.mpf(float(v))) for v in logits[row]]
            p = [v / mpmath.fsum(e) for v in e]
            rest = [mpmath.fsum(p[:i] + p[i + 1 :]) for i in range(5)]  # 1 - p, exactly
            modified = -rest[label] * mpmath.log(p[label]) - mpmath.fsum(
                p[i] * mpmath.log(rest[i]) for i in range(5) if i != label
            )
            expected = {
                "confidence": p[label],
                "loss": -mpmath.log(p[label]),
                "logit-confidence": mpmath.log(p[label] / rest[label]),
                "entropy": -mpmath.fsum(v * mpmath.log(v) for v in p),
                "modified-entropy": modified,
            }
            for name, value in expected.items():
                if abs(value) > 1e-300:
                    assert found[name][row] == pytest.approx(
                        float(value), rel=1e-12, abs=1e-14 if name == "logit-confidence" else 0
                    ), name


def test_threads_and_blocks_change_nothing():
    from canary.signals.class_signals import working

    rng = np.random.default_rng(0)
    logits, labels = rng.normal(0, 5, (5000, 80)), rng.integers(0, 80, 5000)
    with working() as worker:
        many = signals_of(logits, labels, "logits", worker=worker)
    for name, value in signals_of(logits[4990:], labels[4990:], "logits").items():
        np.testing.assert_array_equal(many[name][4990:], value)
