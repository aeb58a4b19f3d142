"""A bound on epsilon from attack scores: by randomized response, and what it refuses."""

from __future__ import annotations

import math

import numpy as np
import pytest

from canary.errors import EstimationError
from canary.membership.privacy import attack_epsilon
from canary.statistics.epsilon import epsilon_lower_bound


def test_by_hand_golden():
    member = np.array([1, 1, 1, 1, 0, 0, 0, 0, 0], bool)
    scores = [9, 8, 7, 1, 6, 5, 4, 3, 2]  # 9 guesses: five in (3 right), four out (3 right)
    found = attack_epsilon(scores, member, coins=True)
    assert (found.correct, found.guesses, found.coins, found.notes) == (6, 9, 9, ())
    assert found.epsilon == epsilon_lower_bound(6, guesses=9, coins=9)
    assert found.most == epsilon_lower_bound(9, guesses=9, coins=9)
    assert attack_epsilon(scores, member, coins=True, guesses=4).correct == 3


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


def test_halves_are_flagged():
    member = np.arange(10) < 5
    found = attack_epsilon(member.astype(float), member, coins=True)
    assert len(found.notes) == 1
    assert "Exactly half of 10 samples are members" in found.notes[0]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"coins": False}, "no coin decided which samples went in"),
        ({"coins": 1}, "no coin decided"),
        ({"member": np.arange(100) < 90}, "90 of 100 samples are members; fair coins"),
        ({"guesses": 101}, "101 guesses for 100 coins"),
        ({"guesses": 0}, "guesses must be a positive integer"),
        ({"delta": 1.0}, "delta must lie from 0"),
        ({"scores": np.arange(9)}, "scores of shape"),
    ],
)
def test_refused_input(options, words):
    given = {"scores": np.arange(100), "member": np.arange(100) % 2 < 1, "coins": True, **options}
    with pytest.raises(EstimationError, match=words):
        attack_epsilon(**given)
