"""Functions of one's own that a library's decorator wraps count by what they do."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from canary.workers.naming import described

HEAD = """
import contextlib
import functools
from enum import Enum
import numpy as np
import threadpoolctl
import torch
class Timed(contextlib.ContextDecorator):
    def __enter__(self): return self
    def __exit__(self, *error): pass
"""

WRAPPERS = [
    "torch.no_grad()",
    "torch.inference_mode()",
    "torch.autocast('cpu')",
    "torch.func.vmap",
    "contextlib.contextmanager",
    "Timed()",
    "functools.singledispatch",
    "functools.lru_cache",
    "np.errstate(all='ignore')",
    "threadpoolctl.threadpool_limits.wrap(limits=1)",
    pytest.param("torch.compile", marks=pytest.mark.slow),
]

HELPER = "RATE = {}\n@{}\ndef helper(a): yield a * RATE + {}\ndef train(task): return helper(task)"
METHOD = (
    "class Kind:\n    @{}\n    def helper(self, a): return a * {}\n"
    "def train(task): return Kind().helper(task)"
)
MEMBER = METHOD.replace("Kind:", "Kind(Enum):\n    one = 1").replace("Kind()", "Kind.one")
SETTING = "@torch.autocast('cpu', enabled={})\ndef helper(a): return a\ntrain = lambda t: helper(t)"
REGISTERED = (
    "@functools.singledispatch\ndef helper(a): return 1\n@helper.register\n"
    "def _(a: int): return {}\ndef train(task): return helper(task)"
)


def of(source, monkeypatch):
    module = ModuleType("somewhere")  # where its names lead to what it holds
    monkeypatch.setitem(sys.modules, "somewhere", module)
    exec(compile(HEAD + source, "<made>", "exec", dont_inherit=True), module.__dict__)
    return described(module.train, "train")["code"]


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")  # as torch.compile is imported
@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_what_a_wrapped_helper_does_counts(wrapper, monkeypatch):
    kinds = [HELPER.format(*parts) for parts in ((1, wrapper, 1), (1, wrapper, 2), (2, wrapper, 1))]
    first, body, constant = (of(source, monkeypatch) for source in kinds)
    assert len({first, body, constant}) == 3
    assert first == of(kinds[0], monkeypatch)  # nothing of it is by chance


@pytest.mark.parametrize("source", [METHOD, MEMBER])
def test_what_a_wrapped_method_does_counts(source, monkeypatch):
    one, two = (of(source.format("torch.no_grad()", rate), monkeypatch) for rate in (1, 2))
    assert one != two


@pytest.mark.parametrize(("source", "values"), [(SETTING, (True, False)), (REGISTERED, (1, 2))])
def test_what_the_wrapper_is_given_counts(source, values, monkeypatch):
    one, two = (of(source.format(value), monkeypatch) for value in values)
    assert one != two


def test_a_dispatcher_that_was_used_is_the_same(monkeypatch):
    before = of(REGISTERED.format(1), monkeypatch)
    module = sys.modules["somewhere"]
    assert module.train(3) == 1
    assert described(module.train, "train")["code"] == before
