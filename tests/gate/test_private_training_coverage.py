"""The bound on epsilon against models trained with differential privacy of a known epsilon.

Training is gradient descent on records whose gradients are clipped to norm 1, with normal
noise: the model is a table of digit log-odds behind each pair of digits, small enough for
hundreds of runs. With whole batches, T steps at noise s are one Gaussian mechanism of
sensitivity sqrt(T)/s, whose epsilon is known exactly (Balle and Wang, 2018, theorem 8). With
batches drawn by coins the accountant of opacus says it, where that is installed.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from gate_audits import SIZE, assembled, space
from scipy import stats
from scipy.optimize import brentq

from canary.audits.audit_result import CanaryResult
from canary.corpus.canaries import generate
from canary.gate.coins import epsilon_bound
from canary.statistics.exposures import UNIFORM_DRAWS, exposure_by_draws

DELTA = 1e-5
STEPS = 12
COINS = 120
DIGITS = 9
DRAWS = 500
RATE = 3.0


def delta_of(epsilon, noise, steps):
    mu = math.sqrt(steps) / noise
    tail = stats.norm.cdf(-epsilon / mu - mu / 2)
    return stats.norm.cdf(-epsilon / mu + mu / 2) - math.exp(epsilon) * tail


def noise_for(epsilon):
    return brentq(lambda noise: delta_of(epsilon, noise, STEPS) - DELTA, 0.3, 500)


def places(fills):
    """Where each digit of each fill stands in the flat table; shape (n, 9)."""
    digits = np.array([[int(c) for c in fill] for fill in fills])
    before = np.pad(digits, ((0, 0), (2, 0)))
    position = np.arange(DIGITS)
    context = (position * 10 + before[:, :-2]) * 10 + before[:, 1:-1]
    return context * 10 + digits


def costs(table, at):
    """Log-perplexities in bits."""
    logs = table - np.log(np.exp(table).sum(axis=1, keepdims=True))
    return -logs.ravel()[at].sum(axis=1) / math.log(2)


def trained(at, rng, *, noise, share=1.0):
    """A table trained on records, each clipped; a share of them in each step, by coins."""
    table = np.zeros((DIGITS * 100, 10))
    for _ in range(STEPS):
        chosen = at if share == 1.0 else at[rng.random(len(at)) < share]
        odds = np.exp(table)
        odds /= odds.sum(axis=1, keepdims=True)
        rows = chosen // 10
        gradient = -odds[rows]
        np.put_along_axis(
            gradient, (chosen % 10)[..., None],
            1 + np.take_along_axis(gradient, (chosen % 10)[..., None], 2), 2,
        )  # fmt: skip
        norms = np.sqrt((gradient**2).sum(axis=(1, 2), keepdims=True))
        gradient /= np.maximum(norms, 1.0)
        total = rng.normal(0, noise, table.shape) if noise else np.zeros_like(table)
        np.add.at(total, rows.ravel(), gradient.reshape(-1, 10))
        table += RATE / STEPS * total
    return table


def bound(seed, *, noise, share=1.0, guesses=60):
    """Set, training, audit and bound of one run."""
    canaries = generate(
        "The random number is {digit:9}", repetitions=[1], per_repetition=COINS, controls=1,
        seed=seed, coin_flips=True,
    )  # fmt: skip
    rng = np.random.default_rng([seed, 77])
    table = trained(places([c.fill for c in canaries.injected]), rng, noise=noise, share=share)
    others = [f"{n:09d}" for n in rng.integers(SIZE, size=DRAWS)]
    px = costs(table, places([c.fill for c in canaries]))
    found = exposure_by_draws(px, costs(table, places(others)), space_size=SIZE)
    results = [
        CanaryResult(c.id, 0, c.repetitions, float(p), 0.0, e, None)
        for c, p, e in zip(canaries, px, found, strict=True)
    ]
    drawn = space(method=UNIFORM_DRAWS, draws=DRAWS)
    audit = assembled(results, [drawn], canary_set=canaries.fingerprint)
    return epsilon_bound(audit, canaries, guesses=guesses, delta=DELTA, mechanism="gaussian")


@pytest.mark.parametrize("epsilon", [0.5, 8.0])
def test_never_above_the_truth(epsilon):
    runs = 40
    noise = noise_for(epsilon)
    bounds = [bound(seed, noise=noise) for seed in range(runs)]
    assert np.mean([found.epsilon_any > epsilon for found in bounds]) <= 0.05
    assert np.mean([found.epsilon > epsilon for found in bounds]) <= 0.05


def test_training_without_noise_is_caught():
    """All guesses are right, so the bound is the largest there is: 2.97 of 60 guesses.

    That presumes no mechanism; for a Gaussian one it is more than twice as large.
    """
    found = [bound(seed, noise=0.0) for seed in range(5)]
    assert [f.correct for f in found] == [60] * 5
    assert all(f.epsilon == f.largest_possible > 2 * f.epsilon_any > 5.8 for f in found)
    # Noise for an epsilon of 8 leaves something to see, noise for 0.5 next to nothing.
    some = np.median([bound(seed, noise=noise_for(8.0)).epsilon_any for seed in range(9)])
    none = np.median([bound(seed, noise=noise_for(0.5)).epsilon_any for seed in range(9)])
    assert none < 0.3 < some < 2.9


def test_the_known_epsilon_golden():
    # One step at noise 1 is the Gaussian mechanism of sensitivity 1: at epsilon 0 delta is the
    # distance of two normals one apart, 2 Phi(1/2) - 1.
    assert delta_of(0.0, 1.0, 1) == pytest.approx(2 * stats.norm.cdf(0.5) - 1)
    # Four steps at noise 2 are one at noise 1.
    assert delta_of(1.5, 2.0, 4) == pytest.approx(delta_of(1.5, 1.0, 1))


@pytest.mark.slow
@pytest.mark.parametrize("noise", [0.5, 1.0, 4.0])
def test_sampled_batches_against_the_accountant_of_opacus(noise):
    """Poisson batches of a quarter; skipped without opacus."""
    accountants = pytest.importorskip("opacus.accountants")
    accountant = accountants.RDPAccountant()
    for _ in range(STEPS):
        accountant.step(noise_multiplier=noise, sample_rate=0.25)
    epsilon = accountant.get_epsilon(delta=DELTA)
    bounds = np.array([bound(s, noise=noise, share=0.25).epsilon_any for s in range(100)])
    assert np.mean(bounds > epsilon) <= 0.05
