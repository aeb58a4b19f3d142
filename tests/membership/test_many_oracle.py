"""Every attack on many models against plain loops, samples and models one by one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from many_models import halves, null_of, random_table, slow_lira, slow_rmia, slow_tests, table_of

from canary.errors import InputError
from canary.membership.diagnostics import null_losses
from canary.membership.many import attack_models, loss_thresholds
from canary.statistics.tails import bits_needed

ALPHAS = (0.001, 0.05, 0.1, 1 / 3, 0.5, 0.7, 0.75, 0.9, 0.999)
RULES = ("empirical", "linear", "gaussian")

LIRA = {
    f"lira-{'online' if online else 'offline'}{'-fixed' * fixed}": (online, fixed)
    for online in (True, False)
    for fixed in (True, False)
}


def close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-9)


def random_like(table, rng):
    return table_of(rng.exponential(1, table.member.shape), table.member, table.label)


def reference_table(rng, target, models=6):
    """Other models asked for the same samples, each out of some model."""
    member = halves(rng, models, target.samples)
    loss = np.round(rng.exponential(1, member.shape), 1)
    return table_of(loss, member, target.label)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("name", list("SPRDL"))
def test_scores_and_thresholds_oracle(name, rule, ties):
    """The scores are those of loops; score >= t(alpha) is loss <= c_alpha, on the whole grid."""
    rng = np.random.default_rng(1)
    table = random_table(rng, models=1 if name in "DL" else 8, ties=ties)
    shadow = reference_table(rng, table) if name in "DL" else None
    scores = attack_models(table, name, shadow=shadow, rule=rule)
    close(scores.scores, slow_tests(table, name, rule, shadow=shadow))
    for alpha in ALPHAS:
        at = loss_thresholds(table, name, alpha, shadow=shadow, rule=rule)
        np.testing.assert_array_equal(scores.guess(alpha), table.signal("loss") <= at)
        assert scores.threshold(alpha) == bits_needed(alpha)
    assert scores.guess(0.999).any()


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", ["S", "R"])
def test_models_of_another_table_oracle(name, rule):
    rng = np.random.default_rng(2)
    table = random_table(rng, models=1, ties=True)
    shadow = reference_table(rng, table)
    found = attack_models(table, name, shadow=shadow, rule=rule).scores
    close(found, slow_tests(table, name, rule, shadow=shadow))


def uneven_table(rng):
    """By coins that are not fair, and of every sample at least two models in and out."""
    table = random_table(rng, models=9, samples=36, ties=True)
    table.member[:] = rng.random((9, 36)) < rng.choice([0.3, 0.6], 36)
    known = table.member.sum(axis=0)
    return table.select(samples=(known >= 2) & (known <= 7))


@pytest.mark.parametrize("kind", ["coins", "one model missing"])
def test_uneven_splits_oracle(kind):
    """Targets do without one, two or more of the others, so that both kinds have as many."""
    rng = np.random.default_rng(20)
    table = uneven_table(rng)
    if kind == "one model missing":
        table = random_table(rng, models=8, samples=24).select(models=range(7))
    for rule in RULES:
        found = attack_models(table, "R", rule=rule)
        close(found.scores, slow_tests(table, "R", rule))
        for alpha in (0.05, 1 / 3, 0.75) if rule != "gaussian" else ():
            at = loss_thresholds(table, "R", alpha, rule=rule)
            np.testing.assert_array_equal(found.guess(alpha), table.signal("loss") <= at)
    close(attack_models(table, "lira-online").scores, slow_lira(table, online=True, fixed=False))
    close(attack_models(table, "rmia").scores, slow_rmia(table, online=True, gamma=2, a=0.3))
    for sample in range(10):
        losses = null_losses(table, "R", target=2, sample=sample).losses
        np.testing.assert_array_equal(losses, np.sort(null_of(table, "R", 2, sample)))


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", ["S", "P"])
def test_population_that_is_set_aside_oracle(name, rule):
    rng = np.random.default_rng(3)
    table = random_table(rng, models=4, samples=40)
    aside = np.arange(40) < 20
    table.member[:, aside] = False
    found = attack_models(table, name, population=aside, rule=rule)
    np.testing.assert_array_equal(found.judged, ~aside)
    close(found.scores, slow_tests(table, name, rule, population=aside))


def test_population_that_no_model_was_trained_on_golden():
    """The usual probability of such a point is that of the models without it alone."""
    rng = np.random.default_rng(3)
    member = halves(rng, 8, 40) & (np.arange(40) >= 20)
    table = table_of(np.full((8, 40), np.log(2)), member)
    found = attack_models(table, "rmia", population=range(20), gamma=1.0)
    assert (found.scores[:, found.judged] == 1.0).all()  # all ratios are 1, and ties count
    online = attack_models(random_like(table, rng), "lira-online", population=range(20)).scores
    assert (online[:, :20] == -np.inf).all()
    assert np.isfinite(online[:, 20:]).all()


@pytest.mark.parametrize("name", LIRA)
def test_lira_oracle(name):
    online, fixed = LIRA[name]
    table = random_table(np.random.default_rng(4), ties=fixed)
    close(attack_models(table, name).scores, slow_lira(table, online=online, fixed=fixed))


@pytest.mark.parametrize(("online", "gamma"), [(True, 0.5), (False, 1.0), (True, 2.0)])
def test_rmia_oracle(online, gamma):
    table = random_table(np.random.default_rng(5))
    found = attack_models(table, "rmia" if online else "rmia-offline", gamma=gamma, a=0.4).scores
    close(found, slow_rmia(table, online=online, gamma=gamma, a=0.4))


def test_parts_of_samples_do_not_matter_property(monkeypatch):
    table = random_table(np.random.default_rng(6), samples=50)
    names = ("R", "lira-online", "rmia", "lira-offline-fixed")
    whole = {name: attack_models(table, name).scores for name in names}
    monkeypatch.setattr("canary.membership.references._NUMBERS", 7 * table.models)
    for name, expected in whole.items():
        np.testing.assert_allclose(attack_models(table, name).scores, expected, rtol=1e-12)


def test_targets_and_references_are_rows_property():
    rng = np.random.default_rng(8)
    table = random_table(rng, models=12)
    for name in ("S", "P", "R", "lira-online", "rmia"):
        whole = attack_models(table, name)
        some = attack_models(table, name, targets=[7, 2])
        np.testing.assert_allclose(some.scores, whole.scores[[7, 2]], rtol=1e-9)
        assert some.targets == (7, 2)
    # Others that each know a sample in five of eleven cases need no matching.
    table.member[1:] = halves(rng, 11, table.samples)
    few = attack_models(table, "R", targets=[0], references=range(1, 12))
    moved = table.select(models=[0]), table.select(models=range(1, 12))
    alike = attack_models(moved[0], "R", shadow=moved[1])
    np.testing.assert_array_equal(few.scores, alike.scores)
    assert few.models_trained == alike.models_trained == 11


def test_infinite_losses_oracle():
    rng = np.random.default_rng(9)
    table = random_table(rng)
    table.values["loss"][rng.random((8, 24)) < 0.2] = np.inf
    table.values["loss"][rng.random((8, 24)) < 0.2] = 0.0
    for rule in RULES:
        for name in "SPR":
            found = attack_models(table, name, rule=rule)
            close(found.scores, slow_tests(table, name, rule))
            for alpha in ALPHAS if rule != "gaussian" else ():
                at = loss_thresholds(table, name, alpha, rule=rule)
                np.testing.assert_array_equal(found.guess(alpha), table.signal("loss") <= at)
    assert not np.isnan(loss_thresholds(table, "R", 0.1, rule="gaussian")).any()
    close(attack_models(table, "lira-online").scores, slow_lira(table, online=True, fixed=False))


def test_signals_that_are_there_are_read():
    """From losses the same numbers follow, as far as losses have the digits."""
    table = random_table(np.random.default_rng(10))
    loss = table.signal("loss")
    logits = -loss - np.log(-np.expm1(-loss))
    values = {"loss": loss, "confidence": np.exp(-loss), "logit-confidence": logits}
    known = replace(table, values=values)
    for name in ("lira-online", "lira-offline-fixed", "rmia", "rmia-offline"):
        close(attack_models(known, name).scores, attack_models(table, name).scores)
    # A probability that rounds to 1 has the loss 0; the logit knows more, up to 104 nats.
    loss[:, 0] = 0
    known.values["logit-confidence"][:, 0] = 40 + np.arange(8)
    known.values["logit-confidence"][:, 1] = [-np.inf, np.inf, *range(6)]
    found = attack_models(known, "lira-offline").scores
    assert len(set(found[:, 0])) == 8
    assert np.isfinite(found).all()
    loss[:, 1] = [np.inf, 0, *np.logaddexp(0, -np.arange(6.0))]
    close(attack_models(table, "lira-offline").scores[:, 1], found[:, 1])


@pytest.mark.parametrize("rule", RULES)
def test_as_many_references_for_all_oracle(rule):
    """Models that left a member out are few; the others of it serve its non-members only."""
    rng = np.random.default_rng(11)
    target = random_table(rng, models=2).select(models=[0])
    loss = rng.exponential(1, (12, target.samples))
    left_out = np.ones(loss.shape, np.bool_)
    members = np.flatnonzero(target.member[0])
    left_out[np.arange(12), members[np.arange(12) // 3]] = False
    left_out[:, ~target.member[0]] = False
    judged = ~left_out.all(axis=0)
    shadow = table_of(loss, left_out, target.label).select(samples=judged)
    target = target.select(samples=judged)
    found = attack_models(target, "L", shadow=shadow, most=3, rule=rule)
    limited = shadow.member.copy()
    limited[3:, ~target.member[0]] = True
    few = replace(shadow, member=limited)
    close(found.scores, attack_models(target, "L", shadow=few, rule=rule).scores)
    losses = null_losses(target, "L", target=0, sample=0, shadow=shadow, most=3, rule=rule)
    assert losses.losses.tolist() == sorted(shadow.signal("loss")[~limited[:, 0], 0])
    with pytest.raises(InputError, match="most is 0, expected 1 or more"):
        attack_models(target, "L", shadow=shadow, most=0)
