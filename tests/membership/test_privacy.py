"""A bound on epsilon from attack scores: by randomized response, and what it refuses."""

from __future__ import annotations

import math

import numpy as np
import pytest
from many_models import halves, random_table, table_of

import canary
from canary.errors import EstimationError
from canary.membership.attacks import with_many_models
from canary.membership.many import attack_models
from canary.membership.privacy import attack_epsilon
from canary.signals.definitions import SIGNALS
from canary.statistics.epsilon import epsilon_lower_bound

MANY = [name for name, one in with_many_models().items() if SIGNALS[one.signal].of_losses]


def test_by_hand_golden():
    member = np.array([1, 1, 1, 1, 0, 0, 0, 0, 0], bool)
    scores = [9, 8, 7, 1, 6, 5, 4, 3, 2]  # 9 guesses: five in (3 right), four out (3 right)
    found = attack_epsilon(scores, member, coins=True)
    assert (found.correct, found.guesses, found.coins, found.notes) == (6, 9, 9, ())
    assert found.epsilon == epsilon_lower_bound(6, guesses=9, coins=9)
    assert found.largest_possible == epsilon_lower_bound(9, guesses=9, coins=9)
    assert attack_epsilon(scores, member, coins=True, guesses=4).correct == 3


def test_the_choice_among_attacks_is_paid_for_golden():
    member = np.arange(200) % 2 < 1
    scores = np.random.default_rng(0).normal(size=200) + 2 * member
    alone, of_four = (attack_epsilon(scores, member, coins=True, attacks=k) for k in (1, 4))
    numbers = {"guesses": 200, "coins": 200, "confidence": 0.9875}
    assert of_four.epsilon == epsilon_lower_bound(of_four.correct, **numbers) < alone.epsilon
    assert of_four.largest_possible == epsilon_lower_bound(200, **numbers)
    (note,) = of_four.notes
    assert "Exactly half of 200 samples are members" in note
    given = of_four.to_dict()
    assert (given.pop("confidence_of_each"), alone.confidence_of_each) == (0.9875, 0.95)
    assert given == {**vars(of_four), "notes": [note], "confidence": 0.95, "attacks": 4}


def test_normal_noise_gives_the_larger_bound():
    """Of 1,000 coins and 200 guesses, all right; as `epsilon_lower_bound` says."""
    rng = np.random.default_rng(1)
    member = rng.random(1000) < 0.5
    scores = member + 0.6 * rng.normal(size=1000)
    given = {"coins": True, "guesses": 200, "delta": 1e-5}
    plain, normal = (
        attack_epsilon(scores, member, **given, mechanism=m) for m in ("any", "gaussian")
    )
    seen = {"guesses": 200, "coins": 1000, "delta": 1e-5}
    assert normal.epsilon == epsilon_lower_bound(normal.correct, **seen, mechanism="gaussian")
    assert normal.largest_possible == epsilon_lower_bound(200, **seen, mechanism="gaussian")
    assert normal.epsilon > 1.4 * normal.epsilon_any == 1.4 * plain.epsilon > 0
    assert "presumes a Gaussian mechanism" in normal.summary()
    assert "presumes" not in plain.summary()
    with pytest.raises(EstimationError, match="finite epsilon at delta 0"):
        attack_epsilon(scores, member, coins=True, mechanism="gaussian")


def test_randomized_response_coverage():
    # Each coin is told rightly with probability e^eps / (1 + e^eps): eps-private, and tight.
    rng, above, bounds, runs = np.random.default_rng(0), 0, [], 60
    for _ in range(runs):
        member = rng.random(301) < 0.5
        told = member ^ (rng.random(301) < 1 / (1 + math.e))
        found = attack_epsilon(told + 0.1 * rng.random(301), member, coins=True)
        above += found.epsilon > 1.0
        bounds.append(found.epsilon)
    assert above <= 0.05 * runs + 5
    assert np.mean(bounds) > 0.6


@pytest.fixture
def table():
    """The first twenty samples are non-members of model 0; the others' split is their own."""
    made = random_table(np.random.default_rng(0), models=9, samples=60)
    made.member[1:] = halves(np.random.default_rng(1), 8, 60)
    made.member[0, :20] = False
    return made


def alone(table, name, **options):
    """Model 0 by the others, given as models of their own."""
    others = table.select(models=range(1, table.models))
    return attack_models(table.select(models=[0]), name, shadow=others, **options)


@pytest.mark.parametrize("name", [name for name in MANY if name != "L"])
def test_blind_scores_do_not_know_the_members_property(table, name):
    """They stay the same, whoever is said to be a member of the target."""
    aside, found = np.arange(60) < 20, []
    for seed in (2, 3):
        table.member[0, ~aside] = np.random.default_rng(seed).random(40) < 0.5
        scores = alone(table, name, population=aside)
        assert scores.blind
        assert attack_epsilon(scores, table.member[0], coins=True).coins == 40
        found.append(scores.scores[0, ~aside])
    np.testing.assert_array_equal(*found)


def test_what_is_blind(table):
    aside = np.arange(20)
    assert canary.attack(table, "S").blind
    assert canary.attack(table, "loss").blind
    assert attack_models(table, "P", population=aside).blind
    assert not attack_models(table, "rmia", population=aside).blind
    assert not alone(table, "rmia").blind
    assert not alone(table, "L").blind
    assert alone(table, "lira-online").notes == ()
    # Of nine models on halves the other eight tell who is a member of the first.
    telling = alone(table_of(table.signal("loss"), halves(np.random.default_rng(3), 9, 60)), "R")
    assert not telling.blind
    assert "references (usually 4) alone separates members of model 0 from non" in telling.notes[0]
    assert "AUC 1.00 (0." in telling.notes[0]


@pytest.mark.parametrize(
    ("name", "rule", "equal"), [("R", "linear", False), ("lira-online", "empirical", True)]
)
def test_nothing_learned_is_no_epsilon_coverage(name, rule, equal):
    """At 5 % a bound above 0 in 3 of 60 runs is usual; in more than 7 it has a chance of 1 %."""
    above, runs = 0, 60
    for seed in range(runs):
        rng = np.random.default_rng([seed, 8])
        member = rng.random((8, 1000)) < 0.5
        known = member[1:].sum(axis=0)  # of the others alone
        member = member[:, (known >= 2) & (known <= 5)]
        loss = np.full(member.shape, 0.3) if equal else rng.exponential(1, member.shape)
        found = alone(table_of(loss, member), name, rule=rule)
        above += attack_epsilon(found, member[0], coins=True).epsilon > 0
    assert above <= 0.05 * runs + 4


def test_refused_input():
    for options, words in (
        ({"coins": False}, "no coin decided which samples went in"),
        ({"coins": 1}, "no coin decided"),
        ({"member": np.arange(100) < 90}, "90 of 100 samples are members; fair coins"),
        ({"guesses": 101}, "101 guesses for 100 coins"),
        ({"attacks": 0}, "attacks must be a positive integer"),
        ({"guesses": 0}, "guesses must be a positive integer"),
        ({"delta": 1.0}, "delta must be"),
        ({"scores": np.arange(9)}, "scores of shape"),
    ):
        given = {"scores": np.arange(100), "member": np.arange(100) % 2 < 1, "coins": True}
        with pytest.raises(EstimationError, match=words):
            attack_epsilon(**(given | options))
