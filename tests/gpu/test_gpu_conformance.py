"""On a GPU: a batch that really does not fit is halved, and every check holds in each dtype."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from small_models import causal_module, character_tokenizer, recurrent_module

from canary.models import conformance
from canary.models.language_model import Children, Context, Nodes, Rows
from canary.models.loading import load
from canary.models.torch_support import free_bytes
from canary.scoring.batcher import Batcher

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(300)]

MODULES = {
    "gpt2": lambda: causal_module("gpt2"),
    "llama": lambda: causal_module("llama"),
    "mistral": lambda: causal_module("mistral"),
    "lstm": lambda: recurrent_module("LSTM"),
}


def on_gpu(name: str, dtype: torch.dtype):
    torch.manual_seed(3)
    module = MODULES[name]().to(device="cuda", dtype=dtype)
    return load(module, tokenizer=character_tokenizer())


@pytest.mark.parametrize("check", conformance.CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", MODULES)
def test_conformance_on_a_gpu(name: str, dtype: torch.dtype, check) -> None:
    check(on_gpu(name, dtype))


class Greedy(torch.nn.Module):
    """Takes `per_row` bytes for each row beside what its net takes."""

    def __init__(self, per_row: int) -> None:
        super().__init__()
        self.net, self.per_row = recurrent_module("GRU"), 0
        self.asked = per_row

    def forward(self, ids, state=None):
        rows = torch.empty(len(ids), self.per_row, dtype=torch.uint8, device=ids.device)
        logits, state = self.net(ids, state)
        return logits + rows[:, :0].sum(), state


@pytest.fixture
def greedy():
    """A model of which about 10 rows fit, within a tenth of the device's memory."""
    torch.cuda.empty_cache()
    torch.cuda.set_per_process_memory_fraction(0.1)
    total = torch.cuda.get_device_properties(0).total_memory
    module = Greedy(per_row=int(0.1 * total) // 10).to("cuda")
    model = load(module, tokenizer=character_tokenizer())
    module.per_row = module.asked
    yield model
    module.per_row = 0
    torch.cuda.set_per_process_memory_fraction(1.0)
    torch.cuda.empty_cache()


def test_rows_that_do_not_fit_are_halved(greedy) -> None:
    rows = Rows.of(np.random.default_rng(0).integers(0, 45, (64, 6)).tolist())
    found = Batcher(greedy, batch_size=64).score(rows)
    greedy.module.per_row = 0
    np.testing.assert_allclose(found, greedy.score(rows), atol=1e-4)


def test_nodes_that_do_not_fit_are_halved(greedy) -> None:
    paths = np.random.default_rng(0).integers(0, 45, (64, 2)).astype(np.int32)
    two, none = np.full(64, 2), np.full(64, -1)
    nodes, tokens = Nodes(paths, two, two, none), Children(np.arange(9, dtype=np.int32))
    context = Context(np.array([1, 2], np.int32))
    with greedy.open(context, memory_bytes=2**24) as walker:
        found = Batcher(greedy, batch_size=64).expand(walker, nodes, tokens, keep=False)
        greedy.module.per_row = 0
        wanted = walker.expand(nodes, tokens, keep=False)
    np.testing.assert_allclose(found.log_probs, wanted.log_probs, atol=1e-4)


def test_cached_blocks_are_free() -> None:
    device = torch.device("cuda", 0)
    torch.cuda.empty_cache()
    before = free_bytes(device)
    held = torch.empty(2**30, dtype=torch.uint8, device=device)
    assert free_bytes(device) < before - 2**29
    del held  # kept by torch, and free to it
    assert free_bytes(device) > before - 2**28
