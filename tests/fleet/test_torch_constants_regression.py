"""Modules that differ in more than weights and buffers are not trained as one."""

from __future__ import annotations

import math
import threading
from functools import partial

import fleets
import numpy as np
import pytest
import torch

from canary.errors import UnsupportedError
from canary.fleet.torch_modules import difference
from canary.fleet.torch_training import TorchTraining
from canary.fleet.training import TrainingTask

X, Y = fleets.made(samples=90)


class Scaled(torch.nn.Module):
    """Scales by whatever it is given, a number, a tensor or a function."""

    def __init__(self, held):
        super().__init__()
        self.held = held
        self.last = torch.nn.Linear(4, 3)

    def forward(self, x):
        return self.last(self.held(x) if callable(self.held) else x * self.held)


def drawn():
    return float(torch.rand(()))


def capturing(rate):
    return lambda x: x * rate


def registered(value):
    module = Scaled(1.0)
    module.register_buffer("mask", value)
    return module


def hooked(rate):
    module = Scaled(1.0)
    module.register_forward_pre_hook(lambda _, given: (given[0] * rate,))
    return module


def several(*more):
    return torch.nn.Sequential(torch.nn.Linear(4, 3), *more)


DIFFERENT = {
    "held": lambda: Scaled(torch.randn(4)),
    "held ": lambda: Scaled(drawn()),
    "held  ": lambda: Scaled(capturing(drawn())),
    "held   ": lambda: Scaled(partial(torch.mul, drawn())),
    "1.p": lambda: several(torch.nn.Dropout(0.9 * drawn())),
    "1": lambda: several([torch.nn.Tanh, torch.nn.ReLU][int(torch.randint(9, ())) % 2]()),
    "_forward_pre_hooks": lambda: hooked(drawn()),
    "0.weight": lambda: torch.nn.Sequential(torch.nn.Linear(4, int(torch.randint(3, 99, ())))),
    "mask": lambda: registered(None if drawn() < 0.5 else torch.ones(4)),
}


def made(build, seed):
    torch.manual_seed(seed)
    return build()


@pytest.mark.parametrize("name", DIFFERENT)
def test_what_differs_is_named(name):
    one, *others = (made(DIFFERENT[name], seed) for seed in range(12))
    assert {difference(one, other) for other in others} - {""} == {name.strip()}
    assert difference(one, made(DIFFERENT[name], 0)) == ""


ALIKE = {
    "weights": lambda: several(torch.nn.Tanh(), torch.nn.BatchNorm1d(3), torch.nn.Dropout(0.3)),
    "buffer": lambda: registered(torch.randn(4)),
    "function": lambda: Scaled(capturing(2.0)),
    "not a number": lambda: Scaled([math.nan, np.full(2, np.nan), torch.full((2,), math.nan)]),
    "lock": lambda: Scaled({"lock": threading.Lock()}),
    "hook": lambda: hooked(2.0),
    "spectral norm": lambda: torch.nn.utils.parametrizations.spectral_norm(torch.nn.Linear(4, 3)),
    "tied": fleets.Tied,
    "attention": lambda: torch.nn.TransformerEncoderLayer(4, 2),
}


@pytest.mark.parametrize("name", ALIKE)
def test_weights_and_buffers_may_differ(name):
    assert difference(made(ALIKE[name], 0), made(ALIKE[name], 1)) == ""


def test_a_module_in_a_list_is_told_by_its_place():
    def build():
        module = several(torch.nn.Linear(3, 3))
        module.order = [module[1], module[0]]
        return module

    one, two = made(build, 0), made(build, 1)
    assert difference(one, two) == ""
    two.order = [two[0], two[1]]
    assert difference(one, two) == "order"


def test_models_at_once_are_refused_with_advice_and_trained_one_by_one():
    train = TorchTraining(build=lambda: Scaled(drawn()), epochs=1)
    tasks = [TrainingTask(X, Y, np.arange(45), 7 + k, k, 3) for k in range(3)]
    with pytest.raises(UnsupportedError, match="held differs from model to model") as caught:
        train.together(tasks)
    assert "register_buffer" in caught.value.cure
    assert "one by one" in caught.value.cure
    assert len([train(task) for task in tasks]) == 3
