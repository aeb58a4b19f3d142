"""What a model may take: the tightest of its devices, and what torch keeps unused is free."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from small_models import build

from canary.models.torch_support import devices_of, free_bytes

GIB = 2**30


@pytest.fixture
def gpus(monkeypatch):
    """Two devices: 1 GiB free and 6 kept for nothing; 3 GiB free and nothing kept."""
    of = lambda device: torch.device(device).index or 0  # noqa: E731
    free, reserved, allocated = (1, 3), (10, 20), (4, 20)
    cuda = torch.cuda
    monkeypatch.setattr(cuda, "mem_get_info", lambda device: (free[of(device)] * GIB, 80 * GIB))
    monkeypatch.setattr(cuda, "memory_reserved", lambda device: reserved[of(device)] * GIB)
    monkeypatch.setattr(cuda, "memory_allocated", lambda device: allocated[of(device)] * GIB)
    return [torch.device("cuda", 0), torch.device("cuda", 1)]


def test_cached_blocks_of_torch_are_free_and_the_tightest_device_counts(gpus, monkeypatch) -> None:
    assert free_bytes(gpus[0]) == int(0.9 * 7 * GIB)
    assert free_bytes(*gpus) == free_bytes(*gpus[::-1]) == int(0.9 * 3 * GIB)
    assert build("gpt2")._devices == [torch.device("cpu")]
    monkeypatch.setattr(build("gpt2"), "_devices", gpus)
    assert build("gpt2").memory().free_bytes == int(0.9 * 3 * GIB)


def test_every_device_of_a_spread_model_is_asked(gpus) -> None:
    """Parts that accelerate dispatched, alone or in a sequence of hooks, and offloaded ones."""
    module = torch.nn.Sequential(*(torch.nn.Linear(2, 2) for _ in range(3)))
    module[0]._hf_hook = SimpleNamespace(execution_device="cuda:0")
    second = SimpleNamespace(execution_device="cuda:1")
    module[1]._hf_hook = SimpleNamespace(hooks=(SimpleNamespace(), second))
    module[2].to("meta")
    assert set(devices_of(module)) == {torch.device("cpu"), *gpus}
