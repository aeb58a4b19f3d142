"""What did not fit is let go before the next try: no error keeps its tensors alive."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest
import torch
from small_models import build
from walk_cases import told

from canary.errors import OutOfMemory
from canary.models.language_model import Children, Context, Nodes, Rows
from canary.scoring.batcher import Batcher
from canary.scoring.samples import in_batches


class Counting:
    """Allocates a tensor for each call, keeps track of those alive, and fails above a size."""

    def __init__(self, most: int) -> None:
        self.most, self.alive, self.most_alive, self.failed = most, 0, 0, 0

    def allocate(self, count: int) -> None:
        tensor = torch.zeros(count)
        self.alive += 1
        self.most_alive = max(self.most_alive, self.alive)
        weakref.finalize(tensor, self._gone)
        if count > self.most:
            self.failed += 1
            error = RuntimeError("out of memory")
            raise OutOfMemory("does not fit") from error

    def _gone(self) -> None:
        self.alive -= 1


@pytest.fixture
def _no_collector():
    """Only reference counts free tensors, as where a GPU is full between two collections."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def through(method, counting):
    """The same work through one of the loops that try again."""
    model = build("table")
    rows = Rows.of(np.arange(64 * 5).reshape(64, 5) % 45)
    if method == "samples":

        def run(part):
            counting.allocate(part.stop - part.start)
            return part.stop - part.start

        return [done for _, done in in_batches(run, 64, batch_size=64)]

    class Model:
        tokenizer, facts, memory = model.tokenizer, model.facts, model.memory

        def score(self, given):
            counting.allocate(len(given))
            return model.score(given)

        def moments(self, given):
            counting.allocate(len(given))
            return model.moments(given)

    batcher = Batcher(Model(), batch_size=64)
    if method == "score":
        return batcher.score(rows)
    if method == "moments":
        return batcher.moments(rows).means
    nodes = Nodes(*([np.zeros((64, 1), np.int32)] + [np.ones(64, np.int64)] * 2), np.full(64, -1))
    with model.open(Context(np.array([1, 2], np.int32)), memory_bytes=2**16) as walker:
        walker.expand = told(walker.expand, lambda nodes, *_, **__: counting.allocate(len(nodes)))
        return batcher.expand(walker, nodes, Children(np.arange(3, dtype=np.int32))).log_probs


@pytest.mark.usefixtures("_no_collector")
@pytest.mark.parametrize("method", ["score", "moments", "expand", "samples"])
def test_one_batch_is_alive_at_a_time(method: str) -> None:
    """Its numbers are those of a batch that fits, or nothing fits."""
    counting = Counting(most=7)
    cramped = through(method, counting)
    assert counting.failed >= 4  # 64, 32, 16 and 8 do not fit
    assert counting.most_alive == 1
    assert counting.alive == 0
    assert np.array_equal(np.sum(cramped), np.sum(through(method, Counting(most=64))))
    with pytest.raises(OutOfMemory, match="does not fit"):
        through(method, Counting(most=0))
