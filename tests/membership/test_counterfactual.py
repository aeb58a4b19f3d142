"""Counterfactual memorization: as a loop says, with intervals that cover."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
from many_models import halves, random_table, table_of

from canary.errors import InputError
from canary.membership.counterfactual import counterfactual
from canary.signals.signal_table import SignalTable


def test_it_is_what_a_loop_over_samples_gives():
    table = random_table(np.random.default_rng(0), models=10, samples=15)
    found = counterfactual(table)
    for at in range(table.samples):
        inside = -table.values["loss"][table.member[:, at], at]
        outside = -table.values["loss"][~table.member[:, at], at]
        test = scipy.stats.ttest_ind(inside, outside, equal_var=False)
        low, high = test.confidence_interval(0.95)
        assert found.value[at] == pytest.approx(inside.mean() - outside.mean(), abs=1e-12)
        assert (found.lower[at], found.upper[at]) == pytest.approx((low, high), abs=1e-9)
        assert (found.trained[at], found.untrained[at]) == (5, 5)
    assert len(found.to_frame()) == 15
    assert (found.to_frame()["label"] == table.label).all()
    assert "counterfactual memorization by loss: mean" in found.summary()


@pytest.mark.parametrize("models", [4, 16])
@pytest.mark.parametrize("spread", [1.0, 3.0])
def test_its_intervals_cover(models, spread):
    rng, samples = np.random.default_rng(models), 20_000
    member = halves(rng, models, samples)
    truth = rng.exponential(1.0, samples)
    noise = rng.normal(0, 1, (models, samples)) * np.where(member, spread, 1.0)
    found = counterfactual(table_of(noise + 5 - truth * member, member))
    covered = np.mean((found.lower <= truth) & (truth <= found.upper))
    assert 0.945 <= covered <= 0.985  # few models make it wide
    null = counterfactual(table_of(noise, member))
    assert np.mean(null.lower > 0) <= 0.03


def test_right_answers_of_few_models_are_not_certain():
    rng, samples, models = np.random.default_rng(1), 5_000, 12
    member = halves(rng, models, samples)
    inside, outside = rng.uniform(0.5, 1.0, samples), rng.uniform(0.0, 0.6, samples)
    right = rng.random((models, samples)) < np.where(member, inside, outside)
    loss = np.where(right, 0.1, 2.0)
    label = np.arange(samples) % 2
    table = SignalTable({"loss": loss, "correctness": right.astype(float)}, member, label, 2)
    found = counterfactual(table, "correctness")
    truth = inside - outside
    assert 0.94 <= np.mean((found.lower <= truth) & (truth <= found.upper)) <= 0.98
    assert (found.upper - found.lower).min() > 0.3
    assert found.lower.min() >= -1
    assert found.upper.max() <= 1
    # The mirror image: what is lower for members.
    losses = SignalTable({"loss": 1.0 - right}, member, label, 2)
    mirrored = counterfactual(losses)
    np.testing.assert_allclose(mirrored.value, found.value, atol=1e-12)
    np.testing.assert_allclose(mirrored.lower, found.lower, atol=1e-12)
    np.testing.assert_allclose(mirrored.upper, found.upper, atol=1e-12)


def test_what_cannot_be_compared_is_left_out_or_refused():
    member = np.array([[1, 1, 0], [1, 0, 0], [0, 1, 1], [0, 0, 0]])
    found = counterfactual(table_of(np.arange(12.0).reshape(4, 3), member))
    assert np.isfinite(found.value).tolist() == [True, True, False]
    assert "1 sample without two models of either kind was left out" in found.summary()
    with pytest.raises(InputError, match="no sample has two models.*halves"):
        counterfactual(table_of(np.ones((2, 3)), [[1, 0, 1], [0, 1, 0]]))
    with pytest.raises(InputError, match="no signal 'speed'"):
        counterfactual(table_of(np.ones((4, 3)), member), "speed")
    with pytest.raises(InputError, match="not finite"):
        counterfactual(table_of(np.full((4, 3), np.inf), member))
