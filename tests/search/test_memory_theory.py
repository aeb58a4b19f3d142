"""No walk's memory grows with the space: a digit more is a level of nodes and a token a path."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from small_models import build

from canary.formats.format import Format
from canary.models.language_model import Context
from canary.scoring.batcher import Batcher
from canary.search.bounded import BoundedWalk
from canary.search.enumerate import enumerate_leaves, leaf_costs
from canary.search.node_sampling import importance_sample
from canary.search.shortest import shortest_leaves
from canary.tokens.candidates import CandidateEncoder
from canary.tokens.tree import compile_tree


def everything(tree, walker, batcher):
    for _ in enumerate_leaves(tree, walker, batcher):
        pass


def likeliest(tree, walker, batcher):
    limits = {"top": 2_000, "budget": 20_000, "most_open": 4_000}
    assert shortest_leaves(tree, walker, batcher, **limits).dropped > 0


def bounded(tree, walker, batcher):
    """With as many queries, and more nodes than are parked."""
    numbers = np.linspace(0, tree.size - 1, 7).astype(np.int64)
    costs, _ = leaf_costs(tree, walker, batcher, numbers)
    options = {"numbers": numbers, "costs": costs, "noise_bits": 0.0, "most_parked": 5_000}
    walk = BoundedWalk(tree, walker, batcher, **options)
    walk.run(budget=40_000)
    assert walk.bounds().queries > 39_000


def sampled(tree, walker, batcher):
    importance_sample(tree, walker, batcher, width=500, rng=np.random.default_rng(0))


@pytest.mark.parametrize(
    ("walk", "digits", "times"),
    [
        (everything, (5, 6), 1.5),
        (likeliest, (8, 10), 1.1),
        (bounded, (7, 9), 1.5),
        (sampled, (7, 9), 1.5),
    ],
)
def test_memory_does_not_grow_with_the_space(walk, digits, times):
    model, peaks = build("table"), []
    for count in (3, *digits):  # the first imports what is needed, and fills caches
        tree = compile_tree(Format(f"a{{digit:{count}}}"), CandidateEncoder(model.tokenizer))
        with model.open(Context(tree.context), memory_bytes=2**20) as walker:
            tracemalloc.start()
            try:
                walk(tree, walker, Batcher(model, batch_size=256))
            except AssertionError:
                assert count == 3
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
    assert peaks[2] < times * peaks[1]
