"""A module that is reached as a whole counts with what its variables are now."""

from __future__ import annotations

import sys
import threading
from importlib import import_module

import numpy as np
import pytest
import torch

from canary.workers.naming import described

SETTINGS = "import os, threading\nRATE = 1\nLOCK = threading.Lock()\ndef of(): return RATE\n"

READERS = {
    "imported when it runs": "def train(task):\n    import settings\n    return settings.RATE",
    "under another name": "import settings\ndef train(task):\n    s = settings\n    return s.RATE",
    "passed on": "import settings\ndef train(task): return task(settings)",
    "in a mapping": "import settings\nheld = {'a': settings}\ndef train(task): return held",
    "by its attribute": "import settings\ndef train(task): return settings.RATE",
}

VALUES = [2, [1, {"a": (2.0, None)}], np.arange(3), np.float32(3), torch.ones(2)]


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
    for value in VALUES:
        settings.RATE = value
        found.append(described(train, "train")["code"])
    settings.RATE = 1
    assert len(set(found)) == len(found)
    assert described(train, "train")["code"] == found[0]


def test_what_has_no_value_there_does_not_count(made):
    train, settings = made(READERS["passed on"])
    before = described(train, "train")
    settings.LOCK = threading.Lock()
    settings.around = settings.__dict__
    settings.circle = circle = []
    circle.append(circle)
    settings.held = np.array([threading.Lock()], object)
    settings.meta = torch.ones(2, device="meta")
    assert described(train, "train") == before
