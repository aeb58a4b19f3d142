"""What attacks on many models refuse, and what they say then."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from many_models import random_table, table_of

import canary
from canary.errors import EstimationError, InputError
from canary.membership.aggregate import agreement, evaluate_models, sample_auc
from canary.membership.diagnostics import growth, null_losses, scatter
from canary.membership.many import attack_models, loss_thresholds


@pytest.fixture
def table():
    return random_table(np.random.default_rng(0), samples=30)


def refused(match, function, *given, error=InputError, **options):
    with pytest.raises(error, match=match):
        function(*given, **options)


@pytest.mark.parametrize("alpha", [0.0, 1.0, -0.1, 1.5, float("nan")])
def test_levels_input(table, alpha):
    match = r"alpha must lie between 0 and 1, got .*; it is the share of nonmembers"
    scores = attack_models(table, "P")
    refused(match, loss_thresholds, table, "P", alpha, error=EstimationError)
    refused(match, scores.guess, alpha, error=EstimationError)
    refused(match, canary.attack, table, "P", alpha=alpha, error=EstimationError)
    refused(match, agreement, [scores], alpha=alpha, error=EstimationError)


def test_samples_never_out_input(table):
    table.member[:, [3, 7]] = True
    match = r"attack R: 2 of 30 samples \(3, 7\) are members of every .*train more models without"
    refused(match, attack_models, table, "R")
    # Beside the target nobody is without it.
    table.member[1:, 5] = True
    refused(r"samples \(3, 5, 7\) are", attack_models, table, "lira-offline")
    few = table.select(samples=np.delete(np.arange(30), [3, 7]))
    few.member[0, 4] = False  # sample 5 of before: model 0 is the one that is without it
    refused(r"1 of 28 samples \(4\) are", attack_models, few, "R", targets=[0])
    assert attack_models(few, "R", targets=[1]).scores.shape == (1, 28)
    left = np.delete(np.arange(30), [3, 5, 7])
    assert attack_models(table.select(samples=left), "R").scores.shape == (8, 27)


def test_models_of_a_target_input(table):
    refused("attack D needs models that were distilled from the target", attack_models, table, "D")
    refused("attack L needs models that were trained on", attack_models, table, "L")
    refused(
        "8 targets with the models of one",
        attack_models,
        table,
        "D",
        shadow=random_table(np.random.default_rng(9), samples=30),
    )
    refused("2 shadow tables for 8 targets", attack_models, table, "D", shadow=[table] * 2)
    distilled = table_of(1.1 * table.signal("loss")[:3], np.zeros((3, 30)))
    two = attack_models(table, "D", targets=[4, 1], shadow=[distilled] * 2)
    assert (two.targets, two.models_trained) == ((4, 1), 6)


def test_names_and_rows_input(table):
    refused("there is no attack 'Q'.*rmia-offline", canary.attack, table, "Q")
    refused("the attack loss is by a shadow", attack_models, table, "loss")
    refused("targets \\[8\\] of a table that has 8", attack_models, table, "R", targets=[8])
    refused("targets name a model twice", attack_models, table, "R", targets=[1, 1])
    refused("models .* of a table that has 8", table.select, models=[])
    refused("samples .*flags", table.select, samples=np.zeros(30, bool))
    match = "there is no rule 'median'; name one of empirical"
    refused(match, attack_models, table, "R", rule="median", error=EstimationError)
    refused("'rmia' has no threshold in units of loss", loss_thresholds, table, "rmia", 0.1)
    refused("gamma must be above 0", attack_models, table, "rmia", gamma=0)
    refused("a must be from 0 to 1", attack_models, table, "rmia-offline", a=1.5)


def test_numbers_of_references_that_tell_are_said():
    """Few models left a member out, and all are without a nonmember."""
    rng = np.random.default_rng(0)
    member = np.arange(60) < 30
    left_out = np.repeat(member[None, :], 60, axis=0)
    left_out[np.arange(60), np.repeat(np.arange(30), 2)] = False
    target = table_of(rng.exponential(1, (1, 60)), member[None, :])
    shadow = table_of(rng.exponential(1, (60, 60)), left_out)
    assert attack_models(target, "L", shadow=shadow, most=2).notes == ()
    (note,) = attack_models(target, "L", shadow=shadow).notes
    assert note.startswith("The number of references (usually 31) alone tells members of model 0")
    assert "AUC 0.00 (0.00 to 0.2" in note


def test_comparisons_input(table):
    first = attack_models(table, "R")
    refused("no attack was given", agreement, [], alpha=0.1)
    other = attack_models(table, "S", targets=[0])
    refused("R and S are of other targets or samples", agreement, [first, other], alpha=0.1)
    refused("no sample is a member of some of the 1 targets", sample_auc, other)
    same = table_of(table.signal("loss"), np.ones((8, 30)))
    whole = replace(first, member=same.member)
    refused("all 30 samples are members", evaluate_models, whole, error=EstimationError)


def test_studies_input(table):
    refused("sizes .* of 7 models beside", growth, table, "R", [1, 8], targets=[0], seed=0)
    refused("there is no attack 'Q'", growth, table, "Q", [1], targets=[0], seed=0)
    match = "with 1 models no sample can be judged"
    refused(match, growth, table, "rmia", [1], targets=[0], seed=0)
    refused("samples .*30.* of a table", null_losses, table, "R", target=0, sample=30)
    refused("'rmia' has no threshold", scatter, table, ("R", "rmia"), alpha=0.1)
