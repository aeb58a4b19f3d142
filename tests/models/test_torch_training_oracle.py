"""Models trained at once are those trained one by one."""

from __future__ import annotations

import fleets
import numpy as np
import pytest
import torch

from canary.errors import InputError, OutOfMemory, UnsupportedError
from canary.fleet.running import Fleet
from canary.fleet.splits import halves, soft_labelled, subsets
from canary.models.torch_training import TorchTraining, trained_module
from canary.models.training import TrainingTask
from canary.workers.here import Here

X, Y = fleets.made(samples=90)
SETTINGS = {
    "sgd": {"momentum": 0.9, "weight_decay": 1e-3, "learning_rate": 0.05},
    "adam": {"learning_rate": 0.01},
}


def tasks(sizes, labels=Y):
    rng = np.random.default_rng(0)
    return [
        TrainingTask(X, labels, np.sort(rng.choice(90, size, replace=False)), 7 + k, k, 3)
        for k, size in enumerate(sizes)
    ]


def apart(one, two):
    return max(np.abs(one.weights[name] - two.weights[name]).max() for name in one.weights)


@pytest.mark.parametrize("optimizer", SETTINGS)
@pytest.mark.parametrize("soft", [False, True])
def test_weights_agree_after_fifty_steps(optimizer, soft):
    """45 samples in batches of 9 are 5 steps an epoch; ten epochs."""
    train = TorchTraining(
        build=fleets.small_net, epochs=10, batch_size=9, optimizer=optimizer, **SETTINGS[optimizer]
    )
    labels = np.random.default_rng(1).dirichlet([1, 1, 1], 90).astype("f4") if soft else Y
    given = tasks([45] * 6, labels)
    alone, many = [train(task) for task in given], train.together(given)
    assert max(map(apart, alone, many)) < 1e-4
    assert apart(alone[0], alone[1]) > 0.01  # each has its own start, and its own samples
    start = train._built(given[0].seed).state_dict()["0.weight"].numpy()
    assert np.abs(start - alone[0].weights["0.weight"]).max() > 0.01
    np.testing.assert_allclose(many[3].predict(X), alone[3].predict(X), atol=1e-4)


def test_sizes_that_differ_agree_too():
    """45 and 46 samples have batches of unlike sizes, 40 fewer of them."""
    train = TorchTraining(build=fleets.small_net, epochs=4, batch_size=9)
    given = tasks([45, 46, 50, 40, 45])
    alone, many = [train(task) for task in given], train.together(given)
    assert max(map(apart, alone, many)) < 1e-4


def test_fleets_at_once_and_one_by_one_give_one_table(tmp_path):
    def run(workers, folder):
        train = TorchTraining(build=fleets.small_net, epochs=5, batch_size=8)
        fleet = Fleet(train, (X, Y), halves(), 10, 0, outputs="logits", checkpoints=True)
        return fleet, fleet.run(workers=workers, folder=folder)

    _, alone = run(None, tmp_path / "alone")
    fleet, many = run(Here(at_once=4), tmp_path / "many")
    assert alone.origin == many.origin
    np.testing.assert_allclose(many.signal("loss"), alone.signal("loss"), atol=1e-4)
    assert (many.signal("correctness") == alone.signal("correctness")).all()
    from safetensors.numpy import load_file

    kept = load_file(fleet.checkpoint(tmp_path / "many", 3))
    module = fleets.small_net()
    module.load_state_dict({name: torch.from_numpy(value) for name, value in kept.items()})
    logits = module(torch.from_numpy(X.astype("f4"))).detach()
    loss = torch.nn.functional.cross_entropy(logits, torch.from_numpy(Y), reduction="none")
    np.testing.assert_allclose(loss.numpy(), many.signal("loss")[3], atol=1e-5)


def test_a_removed_checkpoint_is_made_again(tmp_path):
    train = TorchTraining(build=fleets.small_net, epochs=1)
    fleet = Fleet(train, (X, Y), halves(), 2, 0, outputs="logits", checkpoints=True)
    one = fleet.run(folder=tmp_path)
    fleet.checkpoint(tmp_path, 1).unlink()
    two = fleet.run(folder=tmp_path)
    assert fleet.checkpoint(tmp_path, 1).is_file()
    assert (one.signal("loss") == two.signal("loss")).all()


def test_soft_labels_are_learned():
    """A target that swaps two classes is imitated."""
    swapped = np.eye(3, dtype="f4")[np.array([1, 0, 2])[Y]]
    train = TorchTraining(build=fleets.small_net, epochs=60, batch_size=16, learning_rate=0.1)
    split = soft_labelled(subsets(60), swapped)
    table = Fleet(train, (X, Y), split, 2, 0, outputs="logits").run(workers=Here(at_once=2))
    right = table.signal("correctness")
    assert right[:, Y == 2].mean() > 0.8
    assert right[:, Y != 2].mean() < 0.4


def module_of(task):
    torch.manual_seed(task.seed)
    return fleets.small_net()


def test_a_training_function_may_give_a_module():
    table = Fleet(module_of, (X, Y), halves(), 2, 0, outputs="logits").run()
    assert table.signal("loss").shape == (2, 90)


def test_one_model_that_diverges_spoils_no_other():
    wild = X.copy()
    wild[60] = np.nan
    given = [TrainingTask(wild, Y, rows, 1, 0, 3) for rows in np.arange(90).reshape(2, 45)]
    one, two = TorchTraining(build=fleets.small_net, epochs=2).together(given)
    assert np.isfinite(one.weights["0.weight"]).all()
    assert np.isnan(two.weights["0.weight"]).all()


@pytest.mark.parametrize("build", [fleets.dropping_net, fleets.norming_net])
def test_modules_that_differ_at_once_are_refused(build):
    fleet = Fleet(TorchTraining(build=build), (X, Y), halves(), 2, 0, outputs="logits")
    with pytest.raises(UnsupportedError, match="train them one by one"):
        fleet.run(workers=Here(at_once=2))


def test_modules_that_differ_at_once_train_one_by_one():
    train = TorchTraining(build=fleets.norming_net, epochs=1)
    assert Fleet(train, (X, Y), halves(), 2, 0, outputs="logits").run().models == 2


class Tight(TorchTraining):
    """Has room for two models at a time, and stumbles over the fourth."""

    def together(self, tasks):
        if len(tasks) > 2:
            raise OutOfMemory("full")
        if tasks[-1].number == 3:
            raise RuntimeError("what is this?")
        return super().together(tasks)


def test_too_many_at_once_are_halved_and_faults_are_found_one_by_one():
    train = Tight(build=fleets.small_net, epochs=2)
    table = Fleet(train, (X, Y), halves(), 6, 0, outputs="logits").run(workers=Here(at_once=6))
    alone = Fleet(train, (X, Y), halves(), 6, 0, outputs="logits").run()
    np.testing.assert_allclose(table.signal("loss"), alone.signal("loss"), atol=1e-4)


@pytest.mark.parametrize("wrong", [{"optimizer": "lbfgs"}, {"epochs": 0}, {"batch_size": 0}])
def test_settings_refused(wrong):
    with pytest.raises(InputError, match="at least 1"):
        TorchTraining(build=fleets.small_net, **wrong)


def test_many_samples_are_asked_for_in_parts():
    """600 samples in parts of 256 and fewer are what the module says of all; none is none."""
    widest = []

    def watched(module, given):
        widest.append(len(given[0]))

    train = TorchTraining(build=fleets.small_net, epochs=1)
    module = torch.nn.Sequential(fleets.small_net())
    module.register_forward_pre_hook(watched)
    x = np.random.default_rng(0).normal(size=(600, X.shape[1])).astype("f4")
    said = trained_module(module).predict(x)
    assert widest == [256, 256, 88]
    with torch.inference_mode():
        np.testing.assert_allclose(said, module(torch.from_numpy(x)).numpy(), atol=1e-6)
    assert train(tasks([45])[0]).predict(x[:0]).shape == (0, 3)
