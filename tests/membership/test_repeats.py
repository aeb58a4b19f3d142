"""Models with the same losses are found, but where two places may hold one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from many_models import halves, table_of

import canary
from canary.errors import EstimationError, InputError
from canary.membership.attacks import with_many_models
from canary.membership.many import attack_models
from canary.membership.privacy import attack_epsilon
from canary.membership.sharing import Repeat, repeated_models
from canary.signals.signal_table import Origin

MANY = tuple(with_many_models())

A, B, C = np.random.default_rng(0).exponential(size=(3, 50))


def test_a_model_that_stands_twice_is_found_in_one_place_and_in_two():
    assert repeated_models({"models": np.stack([A, B, C])}) == []
    (found,) = repeated_models({"models": np.stack([A, B, A])})
    assert found == Repeat(("models", 0), ("models", 2), certain=True)
    (found,) = repeated_models({"query": np.stack([A, B]), "calibration": np.stack([C, B])})
    assert found == Repeat(("query", 1), ("calibration", 1), certain=True)


def test_few_different_losses_leave_it_open():
    hard = np.where(A > 1, np.inf, 0.0)
    (found,) = repeated_models({"models": np.stack([hard, hard])})
    assert not found.certain


def noise(models=8, samples=300, *, decimals=None):
    """Losses that know nothing; samples that are members of two models or more, and not of two."""
    rng = np.random.default_rng(0)
    loss = rng.exponential(1, (models, samples))
    loss = loss if decimals is None else np.round(loss, decimals)
    return table_of(loss, halves(rng, models, samples))


def alone(table, row=0):
    return table.select(models=[row]), table.select(models=np.delete(np.arange(8), row))


@pytest.mark.parametrize("name", MANY)
def test_every_attack_by_references_that_hold_the_target_is_refused(name):
    table = noise()
    one, others = alone(table, row=2)
    again = table.select()  # read again: another object
    for targets, rows, words in (
        ([2], None, "model 2 of the references and model 2 of the targets are one model"),
        ([2], [1, 2, 3], "model 2 of the references"),
    ):
        with pytest.raises(InputError, match=words):
            attack_models(table, name, targets=targets, shadow=again, references=rows)
    with pytest.raises(InputError, match="model 2 of the references and model 0"):
        canary.attack(one, name, shadow=again)
    with pytest.raises(InputError, match="it says the same of every sample"):
        attack_models(table, name, targets=[2], shadow=table)
    if name not in "LD":
        with pytest.raises(InputError, match="model 5 of the references and model 5"):
            attack_models(table, name, shadow=table.select(models=range(6)), targets=[7, 5])
    found = attack_models(one, name, shadow=others)
    assert not any("said of every sample" in note for note in found.notes)
    many = attack_models(table, name, targets=[2], shadow=again, references=[0, 1, 3, 4, 5, 6, 7])
    np.testing.assert_array_equal(found.scores, many.scores)


@pytest.mark.parametrize("name", [name for name in MANY if name not in "LD"])
def test_a_model_that_stands_twice_in_a_table_is_no_reference_to_itself(name):
    table = noise()
    twice = table.select(models=[0, 1, 2, 3, 4, 5, 6, 7, 3])
    for targets in (None, [3], [8]):
        with pytest.raises(InputError, match="are one model"):
            attack_models(twice, name, targets=targets)
    assert attack_models(twice, name, targets=[0], references=range(8)).notes == ()
    with pytest.raises(InputError, match="are one model"):
        canary.attack(twice, "loss", target=3)


def test_a_target_is_known_by_its_fingerprint():
    table = replace(noise(), origin=Origin("data", tuple("abcdefgh")))
    other = replace(noise(samples=300), values={"loss": 2 * noise().signal("loss")})
    other = replace(other, origin=Origin("data", tuple("ijklmnca")))
    for targets, words in (([0], "model 7 .* model 0 .*by its fing"), ([2], "model 6 .* model 2")):
        with pytest.raises(InputError, match=words):
            attack_models(table, "R", targets=targets, shadow=other)
    assert attack_models(table, "R", targets=[1], shadow=other).notes == ()


def test_no_bound_follows_from_a_shadow_that_may_hold_the_target():
    """Two models of hard labels may be equal, or be one: then the scores are not blind."""
    table = noise()
    hard = replace(table, values={"loss": np.where(table.signal("loss") < 1, 0.1, 3.0)})
    one, others = alone(hard)
    assert attack_models(one, "S", shadow=others).blind
    found = attack_models(one, "S", shadow=hard.select())
    assert not found.blind
    assert found.notes[0].startswith("1 reference said of every sample what a target said, in too")
    with pytest.raises(EstimationError, match="no bound on epsilon follows"):
        attack_epsilon(found, one.member[0], coins=True)
    equal = replace(table, values={"loss": np.full((8, 300), 0.3)})
    assert attack_models(equal.select(models=[0]), "S", shadow=equal.select()).notes == ()
