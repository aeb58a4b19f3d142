"""A digest changes with whatever a training is made of, and with nothing else."""

from __future__ import annotations

import functools
import importlib.metadata
import os
import subprocess
import sys
import threading
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType

import fleets
import numpy as np
import pytest
import torch

from canary.errors import InputError
from canary.fleet.torch_training import TorchTraining
from canary.workers.digests import library
from canary.workers.naming import check_importable, described, imported

ROOT = Path(__file__).parents[2]

HEAD = """
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property, lru_cache, partial, wraps
from pathlib import Path
import math
import numpy as np
import torch
"""

IN_A_CLASS = """
class Base:
    def __call__(self, task): return self.rate
@dataclass(frozen=True)
class Kind(Base):
    name: str = "a"
    rate = {}
train = Kind()
"""
NET = "(torch.manual_seed({}), torch.nn.Linear(2, 2))[1]"
MEMBERS = [
    ("1", "2"),
    ("np.ones(2)", "np.array([1.0, 2.0])"),
    ("staticmethod(lambda: 1)", "staticmethod(lambda: 2)"),
    ("classmethod(lambda cls: 1)", "classmethod(lambda cls: 2)"),
    ("property(lambda self: 1)", "property(lambda self: 2)"),
    ("cached_property(lambda self: 1)", "cached_property(lambda self: 2)"),
    ("lambda *_: 1", "staticmethod(lambda *_: 1)"),
    (NET.format(0), NET.format(1)),
]
DEFAULTS = [
    ("1", "2"),
    ("np.ones(3)", "np.zeros(3)"),
    ("np.ones((2, 3))", "np.ones((3, 2))"),
    ("np.zeros(2, 'f4')", "np.zeros(2, 'i4')"),
    ("np.arange(5000)", "np.where(np.arange(5000) == 2500, 0, np.arange(5000))"),
    ("np.array(['a', None], object)", "np.array(['b', None], object)"),
    ("np.float32(1)", "np.float64(1)"),
    ("[0.0]", "[-0.0]"),
    ("torch.ones(2)", "torch.zeros(2)"),
    ("torch.float32", "torch.float64"),
    ("[1, 2]", "(1, 2)"),
    ("[True]", "[1]"),
    ("dict(a=1, b=2)", "dict(b=2, a=1)"),
    ("{1, (2, 3)}", "{1, (2, 4)}"),
    ("partial(max, 1)", "partial(max, 2)"),
    ("Path('a')", "Path('b')"),
    ("[1].index", "[2].index"),
]
MADE_OF = {
    "method two classes up": "class First:\n    def rate(self): return {}\n"
    "class Base(First): pass\n@dataclass(frozen=True)\nclass Kind(Base):\n    name: str = 'a'\n"
    "    def __call__(self, task): return self.rate()\ntrain = Kind()",
    "default factory": "@dataclass\nclass Held:\n"
    "    rates: list = field(default_factory=lambda: [{}])\ndef train(task): return Held()",
    "member of an enum": "class Way(Enum):\n    SGD = {}\ndef train(task): return Way.SGD.value",
    "method of an enum": "class Way(Enum):\n    SGD = 1\n    def rate(self): return {}\n"
    "def train(task): return Way.SGD.rate()",
    "constant": "def train(task): return {}",
    "constant of an inner function": "def train(task): return [a + {} for a in task]",
    "field of a value": "@dataclass\nclass Held:\n    rate: float\n"
    "def train(task, z=Held({})): return z",
    "class of a value": "class Held:\n    def rate(self): return {}\n"
    "def train(task, z=Held()): return z.rate()",
    "slots": "class Held:\n    __slots__ = ('a',)\n    def __init__(self, a): self.a = a\n"
    "def train(task, z=Held({})): return z",
    "bound method": "class Held:\n    def __init__(self, a): self.a = a\n"
    "    def rate(self): return self.a\ndef train(task, z=Held({}).rate): return z()",
    "keyword default": "def train(task, *, z={}): return z",
    "function attribute": "def train(task): return 1\ntrain.rate = {}",
    "what is captured": "def make(rate):\n    def train(task): return rate\n    return train\n"
    "train = make({})",
    "called function": "def fit(task): return {}\ndef train(task): return fit(task)",
    "called by what is called": "def deep(): return {}\ndef fit(): return deep()\n"
    "def train(task): return fit()",
    "called by an inner function": "def fit(): return {}\n"
    "def train(task): return [fit() for _ in task.x]",
    "called in a circle": "def even(n): return n == {} or odd(n - 1)\n"
    "def odd(n): return n != 0 and even(n - 1)\ndef train(task): return odd(3)",
    "constant of the module": "RATE = {}\ndef train(task): return RATE",
    "class that is used": "class Net(torch.nn.Module):\n    def forward(self, x): return x + {}\n"
    "def train(task): return Net()",
    "lambda of the module": "act = lambda x: x + {}\ndef train(task): return act(1)",
    "decorated function": "def twice(f):\n    @wraps(f)\n    def inner(task): return f(task) * 2\n"
    "    return inner\n@twice\ndef train(task): return {}",
    "decorator": "def times(f):\n    @wraps(f)\n    def inner(task): return f(task) * {}\n"
    "    return inner\n@times\ndef train(task): return 1",
    "cached function": "@lru_cache\ndef fit(): return {}\ndef train(task): return fit()",
}
CHANGED = [
    *((IN_A_CLASS, *pair) for pair in MEMBERS),
    *(("def train(task, z={}): return z", *pair) for pair in DEFAULTS),
    *((source, "1", "2") for source in MADE_OF.values()),
    (
        "def train(task):\n    {}\n    except ValueError: return 2\n    return b",
        "a = 0\n    try: b = task.x",
        "try: a = 0; b = task.x",
    ),
    ("def train({}): return task", "task, rate", "task, *, rate"),
    ("from math import {} as f\ndef train(t): return f(t)", "sin", "cos"),
]


def of(source, held=None):
    held = {"__name__": "somewhere"} if held is None else held
    exec(compile(HEAD + source, "<made>", "exec", dont_inherit=True), held)
    return described(held["train"], "train")


@pytest.mark.parametrize(("source", "one", "two"), CHANGED)
def test_what_changes_something_changes_the_digest(source, one, two):
    first = of(source.replace("{}", one))
    assert first["code"] != of(source.replace("{}", two))["code"]
    assert first == of(source.replace("{}", one))  # nothing of it is by chance


SAME = {
    "not a number": "def train(task, z=(float('nan'), np.nan)): return z",
    "a value by itself": "class Held: pass\ndef train(task, z=object()): return Held()",
    "logger": "import logging\nlog = logging.getLogger('a')\ndef train(task): log.info('x')",
    "missing": "def train(task): return never_defined",
    "missing import": "def train(task):\n    import no_such_module\n    return no_such_module.x",
    "ufunc": "def train(task, f=np.add, g=np.mean, h=torch.relu): return f",
    "settings": "import argparse, collections, datetime, decimal, re, types\n"
    "A = argparse.Namespace(lr=1)\nB = types.SimpleNamespace(lr=A)\nC = re.compile('a')\n"
    "D = datetime.datetime(2020, 1, 1), decimal.Decimal('1.5'), range(3), slice(1, 2), np.s_[1:]\n"
    "E = collections.OrderedDict(a=1), collections.Counter('a'), collections.deque([1], 3)\n"
    "F = collections.defaultdict(list, a=[1]), torch.device('cpu'), np.dtype('f4'), np.array([])\n"
    "G = np.array('2020', 'M8[D]'), np.array(['a']), np.array([(1, 2.0)], 'i4,f8')\n"
    "def train(task): return A, B, C, D, E, F, G, torch.nn.functional.relu, np.linalg.norm",
    "constants of libraries": "from scipy.stats import norm\nfrom random import random as draw\n"
    "from numpy.random import normal\nfrom scipy.special import expit\n"
    "from os import environ\nfrom sklearn.svm import SVC\n"
    "def train(task, f=norm.ppf): return norm, draw, normal, expit, environ, SVC",
    "generic": "def train(task, kind=list[int], other=int | None): return kind",
}


@pytest.mark.parametrize("case", SAME)
def test_the_same_twice_has_one_digest(case):
    assert of(SAME[case]) == of("\n\n# why\n" + SAME[case])


REFUSED = {
    "lock": ("z=threading.Lock()", "a default .*lock"),
    "by name alone": ("z=np.frompyfunc(abs, 1, 1)", "a default .*ufunc"),
    "generator": ("z=(n for n in [1])", "a default .*generator"),
    "random generator": ("z=np.random.default_rng(0)", "a random generator that all models share"),
    "random of torch": ("z=torch.Generator()", "from task.seed"),
    "called": ("z=lambda: LOCK", "LOCK .*lock"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_told_apart_is_refused_with_the_way_to_it(case):
    given, told = REFUSED[case]
    with pytest.raises(InputError, match=f"train: .*{told}"):
        of(f"import threading\nLOCK = threading.Lock()\ndef train(task, {given}): return 1")


@pytest.mark.parametrize("fault", ["raise ValueError('odd')", "raise SystemExit(2)"])
def test_a_module_that_fails_when_it_is_imported_is_refused(fault, tmp_path, monkeypatch):
    (tmp_path / "faulty.py").write_text(f"{fault}\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(InputError, match="faulty"):
        of("def train(task):\n    import faulty\n")


HELPERS = """
RATES = {"one", "two", "three", "four", "five"}
TABLE = frozenset({("a", 1), ("b", 2), ("c", 3)})
def scale(x): return x * 2
class Base:
    rate = 1
    def fit(self, task): return scale(task) if "one" in {"one", "two", "three", "x"} else TABLE
    def again(self): return RATES
"""
TRAINING = """
import helpers
from helpers import Base
class Kind(Base):
    def first(self): return 1
    def second(self): return self.first()
def fit(task): return helpers.scale(task), Kind().second(), train
def train(task):
    from helpers import RATES
    import helpers as all_of_them
    return fit(task), RATES
"""
REORDERED = """
# Another place for everything.
from helpers import Base
import helpers
def train(task):

    from helpers import RATES
    import helpers as all_of_them
    return fit(task), RATES
class Kind(Base):
    def second(self): return self.first()
    def first(self): return 1
def fit(task): return helpers.scale(task), Kind().second(), train
"""


def in_a_process(folder, seed, training, helpers=HELPERS):
    folder.mkdir()
    (folder / "training.py").write_text(training)
    (folder / "helpers.py").write_text(helpers)
    script = (
        "import training; from canary.workers.naming import described;"
        "print(described(training.train, ''))"
    )
    return subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}"},
    ).stdout


def test_processes_folders_and_orders_do_not_count_and_imported_modules_do(tmp_path):
    first = in_a_process(tmp_path / "a", "1", TRAINING)
    assert in_a_process(tmp_path / "b", "2", REORDERED) == first
    other = HELPERS.replace("x * 2", "x * 3")
    assert in_a_process(tmp_path / "c", "1", TRAINING, other) != first


def test_comments_docstrings_and_the_order_of_a_set_change_nothing():
    base = "def train(a, b=1):\n    'why'\n    return a + 2 if a in {'x', 'y', 'z'} else b"
    for old, new in (("\n", "\n    # why\n\n"), ("why", "because"), ("'x', 'y'", "'y', 'x'")):
        assert of(base.replace(old, new)) == of(base)


def test_a_function_of_a_module_is_told_by_what_it_is_now(monkeypatch):
    """Importable functions are digested once and referred to by name; nothing is kept of it."""
    before = described(calling, "train")
    monkeypatch.setattr(sys.modules[__name__], "called", lambda: 2)
    assert described(calling, "train")["code"] != before["code"]


def called():
    return 1


def calling(task):
    return called()


def test_libraries_count_by_their_version(monkeypatch):
    def train(task):
        return np.mean(task.x), torch.nn.Linear, functools.reduce, threading.Lock

    def digest():
        library.cache_clear()
        return described(train, "train")["code"]

    before, version = digest(), importlib.metadata.version
    assert digest() == before
    monkeypatch.setattr(
        importlib.metadata, "version", lambda name: "9" if name == "numpy" else version(name)
    )
    assert digest() != before
    monkeypatch.undo()
    assert digest() == before


WRAPPING = """
import contextlib
import functools
import threadpoolctl
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
    "torch.compile",
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


WRAPPED = {
    **{
        wrapper: [HELPER.format(*of) for of in ((1, wrapper, 1), (1, wrapper, 2), (2, wrapper, 1))]
        for wrapper in WRAPPERS
    },
    "a method": [METHOD.format("torch.no_grad()", rate) for rate in (1, 2)],
    "a member": [MEMBER.format("torch.no_grad()", rate) for rate in (1, 2)],
    "what the wrapper is given": [SETTING.format(value) for value in (True, False)],
    "what is registered": [REGISTERED.format(value) for value in (1, 2)],
}
SLOW = ("torch.compile",)


def of_module(source, monkeypatch):
    """The digest where names lead to what the module holds."""
    module = ModuleType("somewhere")
    monkeypatch.setitem(sys.modules, "somewhere", module)
    return of(WRAPPING + source, module.__dict__)["code"]


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")  # as torch.compile is imported
@pytest.mark.parametrize(
    "case", [pytest.param(c, marks=pytest.mark.slow if c in SLOW else ()) for c in WRAPPED]
)
def test_what_a_wrapped_helper_does_counts(case, monkeypatch):
    sources = WRAPPED[case]
    found = [of_module(source, monkeypatch) for source in sources]
    assert len(set(found)) == len(found)
    assert found[0] == of_module(sources[0], monkeypatch)  # nothing of it is by chance


def test_a_dispatcher_that_was_used_is_the_same(monkeypatch):
    before = of_module(REGISTERED.format(1), monkeypatch)
    module = sys.modules["somewhere"]
    assert module.train(3) == 1
    assert described(module.train, "train")["code"] == before


SETTINGS = "import os, threading\nRATE = 1\nLOCK = threading.Lock()\ndef of(): return RATE\n"

READERS = {
    "imported when it runs": "def train(task):\n    import settings\n    return settings.RATE",
    "under another name": "import settings\ndef train(task):\n    s = settings\n    return s.RATE",
    "by its attribute": "import settings\ndef train(task): return settings.RATE",
}


@pytest.fixture
def made(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def make(source):
        (tmp_path / "settings.py").write_text(SETTINGS)
        (tmp_path / "reading.py").write_text(source)
        return import_module("reading").train, import_module("settings")

    yield make
    for name in ("settings", "reading"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize("reader", READERS)
def test_values_that_are_set_when_it_runs_count(reader, made):
    train, settings = made(READERS[reader])
    found = [described(train, "train")["code"]]
    for value in (2, [1, {"a": (2.0, None)}], np.arange(3), torch.ones(2)):
        settings.RATE = value
        found.append(described(train, "train")["code"])
    settings.RATE = 1
    assert len(set(found)) == len(found)
    assert described(train, "train")["code"] == found[0]


def test_a_described_training_comes_back_equal():
    train = TorchTraining(build=fleets.small_net, epochs=3, learning_rate=0.5)
    about = described(train, "train")
    check_importable(about, "train")
    assert imported(about) == train
    assert imported(described(fleets.means, "train")) is fleets.means


@dataclass(frozen=True)
class Holding:
    inner: object


def test_what_a_field_holds_must_be_importable_too():
    with pytest.raises(InputError, match="cannot be imported elsewhere"):
        check_importable(described(Holding(lambda: None), "train"), "train")
