"""Smoothed risk scores: where the posterior is known, and at the edges of their rules."""

from __future__ import annotations

import math

import numpy as np
import pytest

from canary.membership.risk import reliability, risk_scores
from canary.signals.signal_table import SignalTable


def table(values, member, label=None, classes=1):
    values = np.asarray(values, float)[None]
    label = np.zeros(values.shape[1], int) if label is None else np.asarray(label)
    return SignalTable({"modified-entropy": values}, np.asarray(member, bool)[None], label, classes)


def known(rng, each, *, wide=1.0):
    """log Mentr: N(-1, 1) of members, N(0, wide) of nonmembers; the table and its posterior."""
    member = np.arange(2 * each) < each
    x = np.where(member, rng.normal(-1, 1, 2 * each), rng.normal(0, wide, 2 * each))
    odds = -((x + 1) ** 2) / 2 + (x / wide) ** 2 / 2 + math.log(wide)
    return table(np.exp(x), member), 1 / (1 + np.exp(-odds))


@pytest.mark.parametrize("wide", [1.0, 2.0])
def test_nearer_to_the_known_posterior_than_histograms_theory(wide):
    rng = np.random.default_rng(0)
    ours, histograms = [], []
    for _ in range(10):
        shadow, _ = known(rng, 100, wide=wide)
        target, posterior = known(rng, 2000, wide=wide)
        found = risk_scores(target, shadow=shadow, smooth=True)
        ours.append(np.abs(found.scores - posterior).mean())
        histograms.append(np.abs(risk_scores(target, shadow=shadow).scores - posterior).mean())
    assert np.mean(ours) < 0.05
    assert np.mean(ours) < 0.7 * np.mean(histograms)


def test_calibrated_where_the_posterior_is_known_theory():
    rng = np.random.default_rng(1)
    shadow, _ = known(rng, 50_000, wide=2.0)
    target, posterior = known(rng, 50_000, wide=2.0)
    risks = risk_scores(target, shadow=shadow, smooth=True)
    assert np.abs(risks.scores - posterior).mean() < 0.01
    found = reliability(risks, target.member[0])
    assert found.rmse < 0.03
    assert found.calibration_error.value < 0.01


def slow(target, shadow, row, prior):
    """The rule for one sample of the only class, by sums over all shadow samples."""
    logs = np.log(np.maximum(shadow.values["modified-entropy"][0], 1e-10))
    finite, inside = np.isfinite(logs), shadow.member[0]
    at = np.clip(
        np.log(max(target.values["modified-entropy"][0, row], 1e-10)),
        logs[finite].min(),
        logs[finite].max(),
    )
    kinds = [logs[finite & (inside == kind)] for kind in (True, False)]
    spreads = []
    for one in kinds:
        low, high = np.percentile(one, [25, 75])
        spreads.append(min(one.std(), (high - low) / 1.349))
    n = min(map(len, kinds))
    width = 0.9 * math.sqrt(np.mean(np.square(spreads))) * n**-0.2
    a, b = (
        (np.exp(-((one - at) ** 2) / 2 / width**2).sum() + 0.01 * len(one) / n) / count
        for one, count in zip(kinds, (inside.sum(), (~inside).sum()), strict=True)
    )
    return prior * a / (prior * a + (1 - prior) * b)


@pytest.mark.parametrize("prior", [0.5, 0.1])
def test_the_grid_against_sums_over_all_samples_oracle(prior):
    rng = np.random.default_rng(2)
    shadow, _ = known(rng, 200, wide=2.0)
    shadow.values["modified-entropy"][0, :300:50] = math.inf
    target, _ = known(rng, 50, wide=4.0)
    found = risk_scores(target, shadow=shadow, prior=prior, smooth=True)
    expected = [slow(target, shadow, row, prior) for row in range(100)]
    np.testing.assert_allclose(found.scores, expected, atol=0.01)


def test_infinity_and_gaps_golden():
    # Of twelve members one is infinite, of twelve nonmembers three: 1 / (1 + 3). Between
    # members at log 0 and nonmembers at log 100 there is nobody: the prior.
    values = [*np.exp(np.linspace(0, 0.1, 11)), math.inf, *np.exp(np.linspace(99.9, 100, 9))]
    shadow = table([*values, *[math.inf] * 3], np.arange(24) < 12)
    target = table([math.inf, math.exp(50), 1e-5, 1e200], [1, 0, 1, 0])
    found = risk_scores(target, shadow=shadow, prior=0.5, smooth=True).scores
    np.testing.assert_allclose(found[:2], [0.25, 11 / 20], atol=0.01)
    assert found[2] > 0.99
    assert found[3] < 0.01
    # Without infinite ones in the shadow, infinity is the largest value.
    shadow = table(np.exp(np.arange(24.0)), np.arange(24) < 12)
    target = table([math.inf, math.exp(23)], [1, 0])
    found = risk_scores(target, shadow=shadow, smooth=True).scores
    assert found[0] == found[1] < 0.1
