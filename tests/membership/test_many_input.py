"""What attacks on many models refuse, and what they say then."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from many_models import random_table, table_of

import canary
from canary.errors import EstimationError, InputError
from canary.membership.aggregate import agreement, evaluate_models, over_fleets, sample_auc
from canary.membership.diagnostics import growth, null_losses, scatter
from canary.membership.many import attack_models, loss_thresholds


@pytest.fixture
def table():
    return random_table(np.random.default_rng(0), samples=30)


@pytest.mark.parametrize("alpha", [0.0, 1.0, -0.1, 1.5, float("nan")])
def test_levels(table, alpha):
    scores = attack_models(table, "P")
    for ask in (
        partial(loss_thresholds, table, "P", alpha),
        partial(scores.guess, alpha),
        partial(canary.attack, table, "P", alpha=alpha),
        partial(agreement, [scores], alpha=alpha),
    ):
        with pytest.raises(EstimationError, match="alpha must be between 0 and 1, got .* share"):
            ask()


def test_samples_that_are_never_out(table):
    def refused(match, name, given=table, **options):
        with pytest.raises(InputError, match=match):
            attack_models(given, name, **options)

    table.member[:, [3, 7]] = True
    refused(r"attack R: 2 of 30 samples \(3, 7\) are members .*train more models without", "R")
    # Beside the target nobody is without it.
    table.member[1:, 5] = True
    refused(r"samples \(3, 5, 7\) are", "lira-offline")
    few = table.select(samples=np.delete(np.arange(30), [3, 7]))
    few.member[0, 4] = False  # sample 5 of before: model 0 is the one that is without it
    refused(r"1 of 28 samples \(4\) are", "R", few, targets=[0])
    assert attack_models(few, "R", targets=[1]).scores.shape == (1, 28)
    five = random_table(np.random.default_rng(0), models=5, samples=30)
    five.member[:] = (np.arange(5)[:, None] + np.arange(30)) % 2
    five.member[:, 3] = True
    refused("5 are too few; or omit these samples by table.select", "R", five)
    with pytest.raises(InputError, match="omit these samples by least=2"):
        canary.survey_models(five, attacks="R")
    left = np.delete(np.arange(30), [3, 5, 7])
    assert attack_models(table.select(samples=left), "R").scores.shape == (8, 27)


def test_a_table_of_models_for_each_target(table):
    distilled = table_of(1.1 * table.signal("loss")[:3], np.zeros((3, 30)))
    two = attack_models(table, "D", targets=[4, 1], shadow=[distilled] * 2)
    assert (two.targets, two.models_trained) == ((4, 1), 6)


def test_numbers_of_references_that_tell_are_said():
    """Few models left a member out, and all are without a non-member."""
    rng = np.random.default_rng(0)
    member = np.arange(60) < 30
    left_out = np.repeat(member[None, :], 60, axis=0)
    left_out[np.arange(60), np.repeat(np.arange(30), 2)] = False
    target = table_of(rng.exponential(1, (1, 60)), member[None, :])
    shadow = table_of(rng.exponential(1, (60, 60)), left_out)
    assert attack_models(target, "L", shadow=shadow, most=2).notes == ()
    (note,) = attack_models(target, "L", shadow=shadow).notes
    assert note.startswith(
        "The number of references (usually 31) alone separates members of model 0"
    )
    assert "AUC 0.00 (0.00 to 0.2" in note


def test_refused_input(table):
    attack = partial(attack_models, table)
    all_r, one_s = attack("R"), attack("S", targets=[0])
    whole = replace(all_r, member=np.ones((8, 30), bool))
    six, four = (random_table(np.random.default_rng(0), models=models) for models in (6, 4))
    others = random_table(np.random.default_rng(9), samples=30)
    losses, grown = partial(null_losses, table, "R", target=0), partial(growth, table)
    for error, words, ask, options in (
        (InputError, "attack D needs models that were distilled", partial(attack, "D"), {}),
        (InputError, "attack L needs models that were trained on", partial(attack, "L"), {}),
        (InputError, "8 targets with the models of one", partial(attack, "D"), {"shadow": others}),
        (InputError, "2 shadow tables for 8", partial(attack, "D"), {"shadow": [table] * 2}),
        (InputError, "unknown attack 'Q'.*rmia-offline", partial(canary.attack, table, "Q"), {}),
        (InputError, "the attack loss is by a shadow", partial(attack, "loss"), {}),
        (InputError, "targets .8. of a table that has 8", partial(attack, "R"), {"targets": [8]}),
        (InputError, "targets name a model twice", partial(attack, "R"), {"targets": [1, 1]}),
        (InputError, "models .* of a table that has 8", table.select, {"models": []}),
        (InputError, "samples .*flags", table.select, {"samples": np.zeros(30, bool)}),
        (
            EstimationError,
            "unknown rule 'median'; .*empirical",
            partial(attack, "R"),
            {"rule": "median"},
        ),
        (InputError, "no threshold in units", partial(loss_thresholds, table, "rmia", 0.1), {}),
        (InputError, "gamma must be above 0", partial(attack, "rmia"), {"gamma": 0}),
        (InputError, "a must be from 0 to 1", partial(attack, "rmia-offline"), {"a": 1.5}),
        (InputError, "no attack was given", partial(agreement, []), {"alpha": 0.1}),
        (InputError, "R and S are of other", partial(agreement, [all_r, one_s]), {"alpha": 0.1}),
        (InputError, "a member of some of the 1 targets", partial(sample_auc, one_s), {}),
        (EstimationError, "all 30 samples are members", partial(evaluate_models, whole), {}),
        (InputError, "sizes .* of 7 models beside", partial(grown, "R", [1, 8]), {}),
        (InputError, "unknown attack 'Q'", partial(grown, "Q", [1]), {}),
        (InputError, "with 1 models no sample can be judged", partial(grown, "rmia", [1]), {}),
        (InputError, "samples .*30.* of a table", losses, {"sample": 30}),
        (InputError, "'rmia' has no", partial(scatter, table, ("R", "rmia")), {"alpha": 0.1}),
        (InputError, "7 groups of 6 models; ask for 2 to 6", over_fleets, {"groups": 7}),
        (InputError, "1 groups of 6 models", over_fleets, {"groups": 1}),
        (InputError, "attack D needs models that were distilled", over_fleets, {"name": "D"}),
        (InputError, "3 mod.*; train 4", over_fleets, {"table": six.select(models=range(3))}),
        # Of four models on halves, three leave samples that one of them is out of.
        (InputError, "members of every model that they could", over_fleets, {"table": four}),
        (EstimationError, "groups must be a positive integer", over_fleets, {"groups": 0}),
    ):
        defaults = {"table": six, "name": "R"} if ask is over_fleets else {}
        if getattr(ask, "func", None) is growth:
            defaults = {"targets": [0], "seed": 0}
        with pytest.raises(error, match=words):
            ask(**{**defaults, **options})
