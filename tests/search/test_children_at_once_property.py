"""However large a batch is, no step of a walk has more children than memory is meant for."""

from __future__ import annotations

import numpy as np
import pytest
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit

from canary.formats.format import Format
from canary.models.language_model import Context
from canary.models.table_model import TableModel
from canary.scoring.batcher import Batcher
from canary.search import enumerate as enumerating
from canary.search import step as stepping
from canary.search.bounded import BoundedWalk
from canary.search.completion import complete
from canary.search.enumerate import enumerate_leaves, leaf_costs
from canary.search.node_sampling import importance_sample
from canary.search.shortest import shortest_leaves
from canary.tokens.candidates import CandidateEncoder
from canary.tokens.fast import as_tokenizer
from canary.tokens.tree import compile_tree

WORDS, MOST = 12, 50  # children of a node, and of a step: four nodes
SOME = np.arange(0, WORDS**3, 11)


@pytest.fixture(scope="module")
def model():
    words = [f"w{number}" for number in range(WORDS)]
    vocabulary = {word: at for at, word in enumerate(["code", ".", "?", *words])}
    tokenizer = Tokenizer(WordLevel(vocabulary, unk_token="?"))
    tokenizer.pre_tokenizer = WhitespaceSplit()
    size = len(vocabulary)
    logits = np.random.default_rng(0).normal(0, 1, (size, size))
    logs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    # The state is the last token, so that costs differ.
    return TableModel(np.tile(np.arange(size), (size, 1)), logs, as_tokenizer(tokenizer))


@pytest.fixture(scope="module")
def tree(model):
    words = [f"w{number}" for number in range(WORDS)]
    return compile_tree(Format("code {word:3} .", words=words), CandidateEncoder(model.tokenizer))


def enumerated(tree, walker, batcher):
    found = [
        (leaves.index(), leaves.costs) for leaves, _ in enumerate_leaves(tree, walker, batcher)
    ]
    numbers, costs = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return costs[np.argsort(numbers)]


def bounded(tree, walker, batcher):
    numbers = SOME[::20]
    costs, _ = leaf_costs(tree, walker, batcher, numbers)
    walk = BoundedWalk(tree, walker, batcher, numbers=numbers, costs=costs, noise_bits=0.0)
    walk.run()
    return walk.bounds().rank


def sampled(tree, walker, batcher):
    rng = np.random.default_rng(0)
    return importance_sample(tree, walker, batcher, width=60, rng=rng).weights


WALKS = {
    "enumeration": enumerated,
    "costs of some": lambda *given: leaf_costs(*given, SOME)[0],
    "rank": bounded,
    "draws": sampled,
    "shortest path": lambda *given: shortest_leaves(*given, top=30).costs,
    "beam": lambda *given: np.array([complete(*given, width=50).cost]),
}


@pytest.mark.parametrize("walk", WALKS)
def test_a_step_has_no_more_children_than_are_meant(walk, model, tree, monkeypatch) -> None:
    def run():
        most = 0
        with model.open(Context(tree.context), memory_bytes=2**24) as walker:
            expand = walker.expand

            def counted(nodes, tokens, *, keep=True):
                nonlocal most
                alike = tokens.offsets is None
                most = max(most, len(tokens.tokens) * (len(nodes) if alike else 1))
                return expand(nodes, tokens, keep=keep)

            walker.expand = counted
            return WALKS[walk](tree, walker, Batcher(model, batch_size=4096)), most

    free, wide = run()
    assert wide > MOST
    for room in (stepping, enumerating):
        monkeypatch.setattr(room, "MOST_CHILDREN", MOST)
    held, narrow = run()
    assert MOST - WORDS < narrow <= MOST
    np.testing.assert_array_equal(held, free)
    monkeypatch.setattr(stepping, "MOST_CHILDREN", 1)  # a node goes alone, and does go
    alone, narrow = run()
    assert narrow == WORDS
    np.testing.assert_array_equal(alone, free)
