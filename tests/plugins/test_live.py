"""What must not move does not, and what wraps a model is taken off."""

from __future__ import annotations

import json
import random
from contextlib import nullcontext

import numpy as np
import pytest
import torch
from accelerate.hooks import AlignDevicesHook, add_hook_to_module
from watched import causal, monitor

from canary.errors import RecordError
from canary.plugins.live import undisturbed, unwrapped


def test_random_states_are_as_before_even_after_an_error():
    def numbers():
        return random.random(), float(np.random.random()), float(torch.rand(()))  # noqa: NPY002

    def seed():
        random.seed(1)
        np.random.seed(1)  # noqa: NPY002
        torch.manual_seed(1)

    def disturb():
        with undisturbed(None):
            numbers()
            raise ZeroDivisionError

    seed()
    expected = numbers()
    seed()
    with pytest.raises(ZeroDivisionError):
        disturb()
    assert numbers() == expected


def test_autocast_keeps_no_weights_meanwhile_and_is_as_before():
    with torch.autocast("cpu", torch.float16):
        with undisturbed(None):
            assert torch.is_autocast_enabled("cpu")
            assert torch.get_autocast_dtype("cpu") == torch.float16
            assert not torch.is_autocast_cache_enabled()
        assert torch.is_autocast_cache_enabled()
    with undisturbed(None):
        assert not torch.is_autocast_enabled("cpu")


@pytest.mark.parametrize("fails", [False, True])
def test_attributes_of_modules_are_as_before(fails):
    part = torch.nn.Linear(2, 2)
    module = torch.nn.Sequential(part)
    part.longest, part.gone, part.scale = 16, "here", torch.ones(2)
    part.rows, part.cache, part.names = [1], {"a": 1}, {"a"}
    own = {name: getattr(part, name) for name in ("scale", "rows", "cache", "names", "weight")}
    names = list(vars(part))

    def disturb():
        with undisturbed(module):
            assert part.weight is own["weight"]
            part.longest, part.made = 40, True
            del part.gone
            part.scale += 1
            part.rows.append(2)
            part.cache["a"] = 2
            part.names.add("b")
            if fails:
                raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) if fails else nullcontext():
        disturb()
    assert (part.longest, part.gone) == (16, "here")
    assert sorted(vars(part)) == sorted(names)
    assert all(getattr(part, name) is value for name, value in own.items())
    assert own["scale"].tolist() == [1, 1]
    assert (part.rows, part.cache, part.names) == ([1], {"a": 1}, {"a"})


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch.compile itself
def test_what_is_compiled_in_place_runs_uncompiled():
    runs = []

    def backend(graph, examples):
        def run(*inputs):
            runs.append(len(inputs))
            return graph.forward(*inputs)

        return run

    class Double(torch.nn.Module):
        def forward(self, x):
            return 2 * x

    class Outer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.part = Double()

        def forward(self, x):
            return self.part(x) + 1

    module = Outer()
    part = module.part
    for compiled in (module, part):
        compiled.compile(backend=backend)
        module(torch.ones(1, 2))
        assert runs
        runs.clear()
        with undisturbed(module):
            module(torch.ones(3, 2))
        assert not runs
        module._compiled_call_impl = None  # and then the part by itself


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")  # of torch.compile itself
def test_wrappers_are_taken_off_in_any_order():
    module, _ = causal()
    compiled = torch.compile(module)
    assert unwrapped(compiled) is module
    assert unwrapped(torch.nn.DataParallel(compiled)) is module
    assert unwrapped(torch.compile(torch.nn.DataParallel(module))) is module
    assert unwrapped(module) is module


def test_a_model_that_is_spread_with_hooks_is_taken():
    module, _ = causal()
    module.lm_head.to("meta")
    add_hook_to_module(module.transformer, AlignDevicesHook(execution_device="cpu"))
    assert unwrapped(module) is module


def test_a_state_goes_on_in_another_monitor_and_damage_is_told():
    module, tokenizer = causal()
    options = {"tokenizer": tokenizer, "every": 2, "draws": 40}
    whole, parts, again = (monitor(**options) for _ in range(3))
    for _ in range(3):
        whole.step(module, loss=1.0)
        parts.step(module, loss=1.0)
    state = json.loads(json.dumps(parts.state_dict()))
    parts.step(module)  # after the checkpoint, and lost with the process
    again.load_state_dict(state)
    for _ in range(3):
        whole.step(module)
        again.step(module)
    assert [m.step for m in again.history.moments] == [2, 4, 6]
    assert [m.exposures for m in again.history.moments] == [
        m.exposures for m in whole.history.moments
    ]
    assert again.history.losses == whole.history.losses
    with pytest.raises(RecordError, match="no state of a monitor.*state_dict returned"):
        again.load_state_dict({"step": 1})
    with pytest.raises(RecordError, match="is not a whole history"):
        again.load_state_dict({**state, "history": {}})
    with pytest.raises(RecordError, match="of other draws"):
        monitor(**options | {"draws": 41}).load_state_dict(state)
