"""Models trained at once are those trained one by one."""

from __future__ import annotations

import math
import subprocess
import sys
from dataclasses import replace
from typing import ClassVar

import fleets
import numpy as np
import pytest
import torch
from rounding import REPEATS, assert_within_rounding, nudged, trained_nudged

from canary.errors import OutOfMemory, UnsupportedError
from canary.fleet import torch_training
from canary.fleet.running import Fleet
from canary.fleet.splits import halves
from canary.fleet.torch_modules import predictor, with_own_dropout
from canary.fleet.torch_training import TorchTraining
from canary.fleet.training import TrainingTask
from canary.workers.local import Here

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


def plain(train, given):
    """Each model by the plain loop, and what that loop makes of values nudged by their last bit."""
    return [(train(task), trained_nudged(train, task)) for task in given]


def assert_agree(loops, many):
    """Weights and outputs are those of the plain loop, but for rounding."""
    for (one, near), two in zip(loops, many, strict=True):
        assert one.weights.keys() == two.weights.keys()
        for name, wanted in one.weights.items():
            again = [other.weights[name] for other in near]
            assert_within_rounding(two.weights[name], wanted, again, name)
        again = [other.predict(X) for other in near]
        assert_within_rounding(two.predict(X), one.predict(X), again, "outputs")


@pytest.mark.parametrize(("optimizer", "soft"), [("sgd", True), ("adam", False)])
def test_weights_agree_after_fifty_steps(optimizer, soft):
    """45 samples in batches of 9 are 5 steps an epoch; ten epochs."""
    train = TorchTraining(
        build=fleets.small_net, epochs=10, batch_size=9, optimizer=optimizer, **SETTINGS[optimizer]
    )
    labels = np.random.default_rng(1).dirichlet([1, 1, 1], 90).astype("f4") if soft else Y
    given = tasks([45] * 4, labels)
    loops = plain(train, given)
    assert_agree(loops, train.together(given))
    one, two = loops[0][0], loops[1][0]
    assert apart(one, two) > 0.01  # each has its own start, and its own samples
    start = train._built(given[0].seed).state_dict()["0.weight"].numpy()
    assert np.abs(start - one.weights["0.weight"]).max() > 0.01


def test_sizes_that_differ_and_schedules_agree_too():
    """45 and 46 samples have batches of unlike sizes, 40 fewer of them."""
    train = TorchTraining(build=fleets.small_net, epochs=4, batch_size=9, schedule=fleets.halved)
    given = tasks([45, 46, 50, 40, 45])
    loops = plain(train, given)
    assert_agree(loops, train.together(given))
    assert apart(loops[0][0], replace(train, schedule=None)(given[0])) > 1e-3


@pytest.mark.parametrize("build", [fleets.small_net, fleets.Tied])
def test_each_model_has_its_own_gradient_clipped(build):
    """At a norm that some batches have and others do not."""
    train = TorchTraining(build=build, epochs=4, batch_size=9, learning_rate=0.05, clip=0.5)
    given = tasks([45, 40, 45])
    loops = plain(train, given)
    assert_agree(loops, train.together(given))
    for task, (one, _) in zip(given, loops, strict=True):
        others = [replace(train, clip=clip)(task) for clip in (None, 0.05)]
        assert min(apart(one, other) for other in others) > 1e-3


def test_fleets_at_once_and_one_by_one_give_one_table(tmp_path):
    def run(workers, folder=None, x=X):
        train = TorchTraining(build=fleets.small_net, epochs=5, batch_size=8)
        fleet = Fleet(train, (x, Y), halves(), 6, 0, outputs="logits", checkpoints=bool(folder))
        return fleet, fleet.run(workers=workers, folder=folder)

    _, alone = run(None, tmp_path / "alone")
    fleet, many = run(Here(at_once=4), tmp_path / "many")
    assert alone.origin == many.origin
    near = [run(None, x=nudged(X, seed))[1].signal("loss") for seed in range(REPEATS)]
    assert_within_rounding(many.signal("loss"), alone.signal("loss"), near)
    assert (many.signal("correctness") == alone.signal("correctness")).all()
    from safetensors.numpy import load_file

    kept = load_file(fleet.checkpoint(tmp_path / "many", 3))
    module = fleets.small_net()
    module.load_state_dict({name: torch.from_numpy(value) for name, value in kept.items()})
    logits = module(torch.from_numpy(X.astype("f4"))).detach()
    loss = torch.nn.functional.cross_entropy(logits, torch.from_numpy(Y), reduction="none")
    np.testing.assert_allclose(loss.numpy(), many.signal("loss")[3], atol=1e-5)
    fleet.checkpoint(tmp_path / "many", 3).unlink()  # it is made again
    again = fleet.run(folder=tmp_path / "many", workers=Here(at_once=4))
    assert fleet.checkpoint(tmp_path / "many", 3).is_file()
    np.testing.assert_allclose(again.signal("loss"), many.signal("loss"), atol=1e-5)


MODULES = {
    "dropout": fleets.dropping_net,
    "batch norm": fleets.norming_net,
    "images": fleets.Images,
    "tied and frozen": fleets.Tied,
    "a norm of one's own": fleets.Centred,
}


@pytest.mark.parametrize("build", MODULES.values(), ids=MODULES)
def test_weights_agree_whatever_the_module_is_made_of(build):
    """Five epochs of five steps; batches of unlike sizes where the module allows for it."""
    train = TorchTraining(build=build, epochs=5, batch_size=9, learning_rate=0.05)
    given = tasks([45, 40, 45])
    loops, many = plain(train, given), train.together(given)
    assert_agree(loops, many)
    assert apart(loops[0][0], loops[2][0]) > 0.01
    for two in many:
        build().load_state_dict({k: torch.from_numpy(v) for k, v in two.weights.items()})


MISTAKES = (
    {"momentum": 0.899},
    {"weight_decay": 1e-4},
    {"learning_rate": 0.0501},
    {"batch_size": 8},
    {"clip": 1.0},
)


def test_mistakes_are_no_rounding(monkeypatch):
    """The bound is narrow enough: what is trained otherwise, if only a little, is found."""
    train = TorchTraining(build=fleets.dropping_net, epochs=8, batch_size=9, learning_rate=0.05)
    given = tasks([45, 40])
    loops = plain(train, given)
    made = [replace(train, **mistake).together(given) for mistake in MISTAKES]
    monkeypatch.setattr(
        torch_training, "_masks_of", lambda task: np.random.default_rng([task.seed, 3])
    )
    made.append(train.together(given))
    for many in made:
        for loop, one in zip(loops, many, strict=True):
            with pytest.raises(AssertionError, match="of which rounding explains"):
                assert_agree([loop], [one])


def test_a_schedule_is_that_of_torch():
    """Against `torch.optim.lr_scheduler.LambdaLR` in a loop of its own."""
    train = TorchTraining(build=fleets.small_net, epochs=3, batch_size=9, schedule=fleets.warmed)
    (task,) = tasks([45])
    module = train._built(task.seed)
    step = torch.optim.SGD(module.parameters(), lr=0.01, momentum=0.9)
    paced = torch.optim.lr_scheduler.LambdaLR(step, lambda number: (number + 1) / 15)
    for rows in train._batches(task):
        step.zero_grad()
        x, y = torch.from_numpy(X[rows].astype("f4")), torch.from_numpy(Y[rows])
        torch.nn.functional.cross_entropy(module(x), y).backward()
        step.step()
        paced.step()
    given = train(task).weights["2.weight"]
    np.testing.assert_allclose(given, module[2].weight.detach().numpy(), atol=1e-6)


@pytest.mark.parametrize("build", [fleets.dropping_net, fleets.noisy_net])
def test_what_is_random_follows_from_the_seed_alone(build):
    """Not from what was drawn before, and it draws nothing that others would miss."""
    train = TorchTraining(build=build, epochs=2)
    one, two = tasks([45, 45])
    before = torch.random.get_rng_state()
    first = train(one)
    assert (torch.random.get_rng_state() == before).all()
    torch.rand(3)
    train(two)
    assert apart(train(one), first) == 0


@pytest.mark.parametrize("share", [0.0, 0.25, 1.0])
@pytest.mark.parametrize("kind", [torch.nn.Dropout, torch.nn.Dropout2d])
def test_dropout_is_that_of_torch_in_distribution(share, kind):
    """Values are 0 or 1 / (1 - p), the share of zeros p, and channels are dropped whole."""
    module = torch.nn.Sequential(kind(share))
    draws = with_own_dropout(module)
    x = torch.ones(50, 40, 3, 3)
    with draws.begun([np.random.default_rng(0)], [50]):
        said = module(x)
        again = module(x)
    torch.manual_seed(0)
    theirs = kind(share)(x)
    assert set(said.unique().tolist()) == set(theirs.unique().tolist())
    free = 50 * 40 * (9 if kind is torch.nn.Dropout else 1)
    deviation = 4 * math.sqrt(share * (1 - share) / free)
    assert abs((said == 0).float().mean() - share) <= deviation
    whole = (said == said[:, :, :1, :1]).all()
    assert bool(whole) == (kind is torch.nn.Dropout2d or share in (0, 1))
    assert share in (0, 1) or not torch.equal(said, again)
    assert module(x) is x
    module.eval()
    with draws.begun([np.random.default_rng(0)], [50]):
        assert module(x) is x


UNSUPPORTED = {
    "function": (fleets.noisy_net, "it draws random numbers"),
    "alpha": (lambda: torch.nn.Sequential(torch.nn.AlphaDropout(0.5)), "AlphaDropout draws random"),
    "numpy": (lambda: fleets.Noise(np.random.default_rng(0).random), "it draws random numbers"),
    "average": (
        lambda: torch.nn.Sequential(torch.nn.BatchNorm1d(4, momentum=None)),
        "vmap: It looks like you're calling .item",
    ),
    "transposed": (
        lambda: fleets.Transposed(torch.nn.Dropout(0.5)),
        "keep the samples in the first dimension",
    ),
}


@pytest.mark.parametrize("case", UNSUPPORTED)
def test_modules_that_would_differ_at_once_are_refused(case):
    build, told = UNSUPPORTED[case]
    with pytest.raises(UnsupportedError, match=told) as caught:
        TorchTraining(build=build, batch_size=9).together(tasks([45, 45]))
    assert "one by one" in caught.value.cure or "function of your own" in caught.value.cure


def test_a_fleet_of_them_is_refused_at_once_and_trained_one_by_one():
    train = TorchTraining(build=fleets.noisy_net, epochs=1)
    fleet = Fleet(train, (X, Y), halves(), 2, 0, outputs="logits")
    with pytest.raises(UnsupportedError, match="train them one by one"):
        fleet.run(workers=Here(at_once=2))
    assert fleet.run().models == 2


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

    def loss(x, workers=None):
        fleet = Fleet(train, (x, Y), halves(), 6, 0, outputs="logits")
        return fleet.run(workers=workers).signal("loss")

    near = [loss(nudged(X, seed)) for seed in range(REPEATS)]
    assert_within_rounding(loss(X, Here(at_once=6)), loss(X), near)


def test_many_samples_are_asked_for_in_parts():
    """600 samples in parts of 256 and fewer are what the module says of all; none is none."""
    widest = []

    def watched(module, given):
        widest.append(len(given[0]))

    train = TorchTraining(build=fleets.small_net, epochs=1)
    module = torch.nn.Sequential(fleets.small_net())
    module.register_forward_pre_hook(watched)
    x = np.random.default_rng(0).normal(size=(600, X.shape[1])).astype("f4")
    said = predictor(module, dict(module.state_dict()))[0](x)
    assert widest == [256, 256, 88]
    with torch.inference_mode():
        np.testing.assert_allclose(said, module(torch.from_numpy(x)).numpy(), atol=1e-6)
    assert train(tasks([45])[0]).predict(x[:0]).shape == (0, 3)


class Halving(torch.nn.Linear):
    """Notes whether half of the smallest normal number is more than zero."""

    noted: ClassVar[list[bool]] = []

    def __init__(self):
        super().__init__(X.shape[1], 3)

    def forward(self, x):
        self.noted.append(half_is_there())
        return super().forward(x)


def half_is_there():
    return bool(torch.tensor(torch.finfo(torch.float32).tiny) / 2 > 0)


@pytest.mark.parametrize("flushed", [False, True])
def test_denormals_are_zero_in_training_and_outside_what_they_were(flushed):
    """A step of a network, 40 % of whose weights had decayed, took 434 ms with them, 91 without."""
    if not torch.set_flush_denormal(flushed):
        pytest.skip("this processor cannot")
    try:
        train = TorchTraining(build=Halving, epochs=2, batch_size=9)
        for run in (lambda: train(tasks([45])[0]), lambda: train.together(tasks([45, 45]))):
            Halving.noted.clear()
            run()
            assert half_is_there() is not flushed
            assert len(Halving.noted) >= 10
            assert not any(Halving.noted[-10:])  # some first calls may only ask about the module
    finally:
        torch.set_flush_denormal(False)


THREADS = """
import numpy, torch
from canary.fleet.torch_training import TorchTraining
from canary.fleet.training import TrainingTask

torch.set_num_threads(2)
x, y = numpy.ones((64, 4), "f4"), numpy.arange(64) % 2
train = TorchTraining(build=lambda: torch.nn.Linear(4, 2), epochs=1)
train(TrainingTask(x, y, numpy.arange(64), 0, 0, 2))
half = torch.full((1 << 22,), torch.finfo(torch.float32).tiny).div_(2)
print(int((half > 0).sum()))
"""


def test_other_threads_of_torch_keep_their_mode():
    """They would inherit that of the thread that begins them."""
    done = subprocess.run([sys.executable, "-c", THREADS], capture_output=True, text=True)
    assert done.stdout == f"{1 << 22}\n", done.stderr
