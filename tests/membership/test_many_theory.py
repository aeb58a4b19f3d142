"""Attacks on a Gaussian toy, where the best test is known in closed form.

Losses are ``20 - (m_z + d member + s noise)`` with ``m_z`` normal of deviation t: at such losses
the logit-scaled loss is minus the loss. Of one sample the likelihood ratio rises with
``-loss``, so the best test has an AUC of ``Phi(d / (s sqrt 2))``; whoever does not know ``m_z``
reaches ``Phi(d / sqrt(2 (s^2 + t^2)))``.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from many_models import halves, table_of
from scipy.integrate import quad
from scipy.stats import binom, norm

import canary
from canary.errors import InputError
from canary.membership.aggregate import Spread, evaluate_models, rates, sample_auc
from canary.membership.attacks import with_many_models
from canary.membership.diagnostics import growth
from canary.membership.many import attack_models
from canary.signals.definitions import SIGNALS

MANY = [name for name, one in with_many_models().items() if SIGNALS[one.signal].of_losses]

D, S, T = 1.5, 1.0, 2.0
RULES = ("empirical", "linear", "gaussian")
BEST = norm.cdf(D / (S * math.sqrt(2)))
POOLED = norm.cdf(D / math.sqrt(2 * (S * S + T * T)))


def toy(rng, ease, member, *, d=D, s=S, classes=4):
    logit = ease + d * member + s * rng.normal(size=member.shape)
    return table_of(20 - logit, member, np.arange(len(ease)) % classes)


@pytest.fixture(scope="module")
def world():
    """Two targets, and a thousand others; every sample in half of all."""
    rng = np.random.default_rng(0)
    ease = T * rng.normal(size=3000)
    return toy(rng, ease, rng.random((2, 3000)) < 0.5), toy(rng, ease, halves(rng, 1000, 3000))


def auc(target, name, shadow, **options):
    return evaluate_models(attack_models(target, name, shadow=shadow, **options)).auc.mean


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", ["R", "S", "P"])
def test_thresholds_reach_what_they_can_theory(world, name, rule):
    """Those of a sample the best test; of 6,000 scores the AUC has a deviation of 0.005."""
    target, shadow = world
    shadow = shadow if name == "R" else shadow.select(models=range(20))
    best, slack = (BEST, 0.015) if name == "R" else (POOLED, 0.02)
    assert auc(target, name, shadow, rule=rule) == pytest.approx(best, abs=slack)


@pytest.mark.parametrize("fixed", ["", "-fixed"])
def test_lira_is_the_likelihood_ratio_theory(world, fixed):
    target, shadow = world
    found = attack_models(target, f"lira-online{fixed}", shadow=shadow)
    assert evaluate_models(found).auc.mean == pytest.approx(BEST, abs=0.015)
    # log N(x; m + d, s) - log N(x; m, s) = d (x - m - d / 2) / s^2, m the mean over OUT models.
    logit, outside = 20 - target.signal("loss"), ~shadow.member
    mean = np.sum(outside * (20 - shadow.signal("loss")), axis=0) / outside.sum(axis=0)
    exact = D * (logit - mean - D / 2) / S**2
    assert np.sqrt(np.mean((found.scores - exact) ** 2)) < (0.1 if fixed else 0.35)
    offline = auc(target, f"lira-offline{fixed}", shadow)
    assert offline == pytest.approx(BEST, abs=0.015)


@pytest.mark.parametrize("name", ["rmia-offline", "rmia"])
def test_rmia_by_hand_theory(name):
    # With a = 1, Pr(x) = E exp(m_x + s noise) = exp(m_x + s^2 / 2); online it is that times
    # (1 + e^d) / 2. The factor cancels against the population, whose ratios are lognormal: the
    # share of them at most ratio(x) / gamma is Phi((log Pr(x | target) - m_x - log gamma) / s).
    rng = np.random.default_rng(1)
    d, s = 0.5, 0.5
    ease = T * rng.normal(size=3000)
    target = toy(rng, ease, rng.random((1, 3000)) < 0.5, d=d, s=s)
    shadow = toy(rng, ease, halves(rng, 400, 3000), d=d, s=s)
    found = attack_models(target, name, shadow=shadow, gamma=1.5, a=1.0).scores[0]
    expected = norm.cdf((20 - target.signal("loss")[0] - ease - math.log(1.5)) / s)
    assert np.sqrt(np.mean((found - expected) ** 2)) < 0.03
    found = auc(target, name, shadow, gamma=1.0, a=1.0)
    assert found == pytest.approx(norm.cdf(d / (s * math.sqrt(2))), abs=0.03)


def auc_with(m):
    """Of the empirical rule with m references: how many of them lie below is all that is seen."""

    def share(k, shift):
        return quad(lambda u: binom.pmf(k, m, norm.cdf(u)) * norm.pdf(u - shift), -9, 11)[0]

    inside, outside = ([share(k, shift) for k in range(m + 1)] for shift in (D / S, 0.0))
    below = np.cumsum(outside) - np.array(outside) / 2
    return float(np.dot(inside, below))


@pytest.mark.parametrize("m", [1, 2, 5])
def test_few_reference_models_theory(m):
    rng = np.random.default_rng(m)
    ease = T * rng.normal(size=20_000)
    target = toy(rng, ease, rng.random((1, 20_000)) < 0.5)
    shadow = toy(rng, ease, np.zeros((m, 20_000)))
    assert auc(target, "R", shadow) == pytest.approx(auc_with(m), abs=0.015)
    if m == 1:
        for name in ("lira-offline", "lira-offline-fixed"):
            with pytest.raises(InputError, match="no sample has two references.*rmia-offline"):
                attack_models(target, name, shadow=shadow)
        return
    # One variance for all, and the mean of m for the mean.
    fixed = norm.cdf(D / (S * math.sqrt(1 + 1 / m)) / math.sqrt(2))
    assert auc(target, "lira-offline-fixed", shadow) == pytest.approx(fixed, abs=0.015)
    assert auc(target, "lira-offline", shadow) <= fixed + 0.01


@pytest.mark.parametrize("m", [1, 9])
@pytest.mark.parametrize("rule", RULES)
def test_false_positives_are_alpha_coverage(rule, m):
    rng = np.random.default_rng(10 * m)
    samples = 20_000
    ease = T * rng.normal(size=samples)
    member = rng.random((1, samples)) < 0.5
    target, shadow = toy(rng, ease, member), toy(rng, ease, np.zeros((m, samples)))
    alphas = (0.05, 0.1, 0.3, 0.5, 0.85)
    if m == 1 and rule == "gaussian":
        with pytest.raises(InputError, match="no sample has two references"):
            attack_models(target, "R", shadow=shadow, rule=rule)
        return
    found = rates(attack_models(target, "R", shadow=shadow, rule=rule), alphas=alphas)
    slack = 4 * np.sqrt(0.25 / (samples / 2))
    on_grid = np.floor(np.array(alphas) * (m + 1) * (1 + 1e-12)) / (m + 1)
    if rule == "empirical":  # exactly the next level that m references have
        np.testing.assert_allclose(found.fpr, on_grid, atol=slack)
    elif rule == "linear":
        assert (found.fpr >= on_grid - slack).all()
        assert (found.fpr <= on_grid + 1 / (m + 1) + slack).all()
    else:
        np.testing.assert_allclose(found.fpr, alphas, atol=slack)


@pytest.mark.parametrize("name", ["S", "P", "rmia-offline"])
def test_pooled_false_positives_are_alpha_coverage(world, name):
    few = world[1].select(models=range(64))
    found = rates(
        attack_models(world[0], name, shadow=few, gamma=1.0), alphas=(0.01, 0.1, 0.5, 0.9)
    )
    np.testing.assert_allclose(found.fpr, found.alphas, atol=0.03)


def test_equal_losses_tell_nothing_degenerate():
    for loss in (0.0, 0.7, np.inf):
        table = table_of(np.full((8, 40), loss), halves(np.random.default_rng(2), 8, 40))
        for name in MANY:
            one = table.select(models=[0]) if name in "DL" else table
            found = attack_models(one, name, shadow=table if name in "DL" else None)
            assert evaluate_models(found).auc == Spread(0.5, 0.0, 0.5, 0.5, one.models)
            assert name not in "SPRDL" or not found.guess(0.999).any()


@pytest.mark.parametrize("models", [4, 6])
def test_noise_is_no_signal_whatever_the_split_theory(models):
    """Every sample is in half of the models: a member has one more of the others to compare
    with, and a non-member would find itself in its null. Neither may tell."""
    rng = np.random.default_rng(3)
    table = table_of(rng.exponential(1, (models, 20_000)), halves(rng, models, 20_000))
    for name in MANY:
        # Of four, nobody has the two references that a Gaussian needs.
        if name not in ("D", "L") and not (models == 4 and name.startswith("lira")):
            across = evaluate_models(attack_models(table, name))
            assert across.auc.mean == pytest.approx(0.5, abs=0.01), name
    if models == 4:
        return
    for rule in ("empirical", "gaussian"):
        # Of 6 models on halves the members of a target have more of the others to compare with.
        for one in growth(table, "R", [3, 5], targets=[0], seed=0, rule=rule).auc:
            assert one.mean == pytest.approx(0.5, abs=0.01)


def test_single_target_entry_property(world):
    target, shadow = (one.select(samples=range(100)) for one in world)
    shadow = shadow.select(models=range(200))
    for name in MANY:
        one = canary.attack(target.select(models=[1]), name, shadow=shadow, alpha=0.2)
        many = attack_models(target.select(models=[1]), name, shadow=shadow)
        np.testing.assert_array_equal(one.scores, many.scores[0])
        decision = many.guess(0.2)[0] if many.calibrated else one.scores >= 0
        np.testing.assert_array_equal(one.guess, decision)
        assert canary.evaluate(one, target.member[1]).accuracy is not None


def test_vulnerable_samples_are_found_theory():
    rng = np.random.default_rng(4)
    member = halves(rng, 200, 60)
    d = np.where(np.arange(60) < 10, 3.0, 0.0)
    logit = d * member + rng.normal(size=member.shape)
    found = sample_auc(attack_models(table_of(20 - logit, member), "R"))
    assert set(found.most_vulnerable(10)) == set(range(10))
    assert np.mean(found.auc[10:]) == pytest.approx(0.5, abs=0.02)
    best = norm.cdf(3 / math.sqrt(2))
    assert np.mean(found.auc[:10]) == pytest.approx(best, abs=0.02)


def test_more_models_find_more_theory(world):
    target, shadow = world
    found = growth(target, "R", [1, 2, 100], targets=[0, 1], shadow=shadow, seed=0)
    values = [one.mean for one in found.auc]
    assert values == sorted(values)
    assert values[-1] == pytest.approx(BEST, abs=0.03)
    assert found.samples == (~shadow.member[np.random.default_rng(0).permutation(1000)[0]]).sum()
    points = growth(target, "P", [20, 1000], targets=[0], seed=0)
    assert points.what == "population points"
    assert points.samples == 2000  # none of the points is judged, at any size
    assert points.auc[1].mean == pytest.approx(POOLED, abs=0.03)
