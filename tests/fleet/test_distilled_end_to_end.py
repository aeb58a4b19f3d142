"""From targets to attack D: models distilled from one of a fleet, on digits."""

from __future__ import annotations

from functools import cache

import fleets
import numpy as np
import pytest
import torch
from listening import Listening

import canary
from canary.errors import InputError
from canary.fleet.running import Fleet
from canary.fleet.splits import halves, soft_labelled, subsets
from canary.fleet.torch_training import TorchTraining
from canary.membership.many import attack_models
from canary.workers.local import Here

POOL, POPULATION = np.arange(200), np.arange(400, 1200)


@cache
def digits():
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    return (x[:1200] / 16).astype(np.float32), y[:1200]


def network():
    return torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10))


def targets():
    train = TorchTraining(build=network, epochs=25, batch_size=25, learning_rate=0.1)
    return Fleet(train, digits(), halves(among=POOL), 2, 0, outputs="logits", keep_outputs=True)


def test_attack_d_finds_the_members_of_its_own_target(tmp_path):
    fleet, six = targets(), Here(at_once=6)
    table = fleet.run(folder=tmp_path, workers=six)
    split = subsets(100, among=POPULATION)
    imitators = [
        fleet.distilled(table, row, split, n_models=6, seed=1).run(folder=tmp_path, workers=six)
        for row in (0, 1)
    ]
    for row, one in enumerate(imitators):
        assert one.origin.target == table.origin.models[row]
        assert not one.member[:, POOL].any()
    # Two targets, two sets of models, though split and seed are the same.
    assert not set(imitators[0].origin.models) & set(imitators[1].origin.models)

    said = table.outputs[:, POPULATION].argmax(axis=2)
    heard = [one.signal("loss")[:, POPULATION].mean() for one in imitators]
    assert max(heard) < 1.0  # they learned
    assert (said == digits()[1][POPULATION]).mean() > 0.7

    judged = table.select(samples=POOL)
    shadows = [one.select(samples=POOL) for one in imitators]
    scores = attack_models(judged, "D", shadow=shadows, rule="gaussian")
    for row in (0, 1):
        found = canary.evaluate(scores.scores[row], judged.member[row])
        assert found.auc.lower > 0.5
    with pytest.raises(InputError, match="were made for the target"):
        attack_models(judged, "D", shadow=shadows[::-1])


def means(task):
    """As `fleets.means`, of soft labels, too."""
    weights = task.y if task.y.ndim > 1 else np.eye(3)[task.y]
    centres = (weights.T @ task.x) / weights.sum(axis=0)[:, None]
    return lambda x: -((x[:, None, :] - centres) ** 2).sum(axis=2)


def plain(split=None, seed=0, **options):
    split = halves() if split is None else split
    return Fleet(means, fleets.made(), split, 2, seed, outputs="logits", **options)


def test_the_target_is_part_of_what_a_result_is_kept_under():
    """Two targets may say the same."""
    said = np.full((60, 3), 1 / 3)
    one, two = (plain(soft_labelled(halves(), said, target=name)).keys for name in ("a", "b"))
    assert not set(one) & set(two)


def test_outputs_are_added_to_a_fleet_that_was_run_without(tmp_path):
    asked = plain(keep_outputs=True)
    one, two = plain().run(folder=tmp_path), asked.run(folder=tmp_path)
    assert one.outputs is None
    assert two.outputs.shape == (2, 60, 3)
    np.testing.assert_allclose(np.exp(two.outputs).sum(axis=2), 1, rtol=1e-5)
    assert one.origin == two.origin
    assert (asked.run(folder=tmp_path).outputs == two.outputs).all()


def test_a_distilled_fleet_that_was_stopped_goes_on(tmp_path):
    table = plain(keep_outputs=True).run(folder=tmp_path)

    class Stopped(BaseException):
        pass

    def stop(done, _):
        if done == 2:
            raise Stopped

    def distilled(table):
        return plain(keep_outputs=True).distilled(table, 1, subsets(30), n_models=4, seed=1)

    with pytest.raises(Stopped):
        distilled(table).run(folder=tmp_path, progress=Listening(stop))
    told = Listening()
    again = plain(keep_outputs=True).run(folder=tmp_path)  # the targets and their outputs are there
    assert (again.outputs == table.outputs).all()
    fleet = distilled(again)
    whole = fleet.run(folder=tmp_path, progress=told)
    assert [done for done, _ in told.reached] == [2, 3, 4]
    assert (whole.signal("loss") == fleet.run().signal("loss")).all()


WRONG = {
    "row 2 of a table of 2 models; give a row from 0 to 1": lambda made, table: (made, table, 2),
    "with all samples": lambda made, table: (made, table.select(samples=range(30)), 0),
    "model 0 of the table is not of this fleet": lambda made, table: (
        plain(seed=9, keep_outputs=True),
        table,
        0,
    ),
    "keep_outputs=True": lambda made, table: (plain(), plain().run(), 0),
}


@pytest.mark.parametrize("told", WRONG)
def test_refused(told):
    made = plain(keep_outputs=True)
    fleet, table, row = WRONG[told](made, made.run())
    with pytest.raises(InputError, match=told):
        fleet.distilled(table, row, halves(), n_models=2, seed=0)
