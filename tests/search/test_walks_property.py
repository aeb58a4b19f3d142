"""Every walk: children of a step, memory and queries stay within what is meant."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from small_models import CHARACTERS, ByRows, build, character_tokenizer
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from walk_cases import told

from canary.formats.format import Format
from canary.models.by_scoring import RowWalker
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


def bounded(tree, walker, batcher, numbers, *, budget=None, **options):
    costs, *_ = leaf_costs(tree, walker, batcher, numbers)
    options |= {"numbers": numbers, "costs": costs, "noise_bits": 0.0}
    walk = BoundedWalk(tree, walker, batcher, **options)
    walk.run(budget=budget)
    return walk.bounds()


def enumerated(tree, walker, batcher):
    costs = np.zeros(tree.size)
    for leaves, _ in enumerate_leaves(tree, walker, batcher):
        costs[leaves.index()] = leaves.costs
    return costs


def sampled(*given, width):
    return importance_sample(*given, width=width, rng=np.random.default_rng(0))


STEPS = {
    "enumeration": enumerated,
    "costs of some": lambda *given: leaf_costs(*given, SOME)[0],
    "rank": lambda *given: bounded(*given, SOME[::20]).rank,
    "draws": lambda *given: sampled(*given, width=60).weights,
    "shortest path": lambda *given: shortest_leaves(*given, top=30).costs,
    "beam": lambda *given: np.array([complete(*given, width=50).cost]),
}


@pytest.fixture(scope="module")
def words():
    """A model of words, the state of which is the last token, and a tree of three of them."""
    words = [f"w{number}" for number in range(WORDS)]
    vocabulary = {word: at for at, word in enumerate(["code", ".", "?", *words])}
    tokenizer = Tokenizer(WordLevel(vocabulary, unk_token="?"))
    tokenizer.pre_tokenizer = WhitespaceSplit()
    size = len(vocabulary)
    logits = np.random.default_rng(0).normal(0, 1, (size, size))
    logs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    model = TableModel(np.tile(np.arange(size), (size, 1)), logs, as_tokenizer(tokenizer))
    encoder = CandidateEncoder(model.tokenizer)
    return model, compile_tree(Format("code {word:3} .", words=words), encoder)


@pytest.mark.parametrize("walk", STEPS)
def test_a_step_has_no_more_children_than_are_meant(walk, words, monkeypatch) -> None:
    model, tree = words

    def run():
        asked = []

        def count(nodes, tokens, *, keep=True):
            alike = tokens.offsets is None
            asked.append(len(tokens.tokens) * (len(nodes) if alike else 1))

        with model.open(Context(tree.context), memory_bytes=2**24) as walker:
            walker.expand = told(walker.expand, count)
            return STEPS[walk](tree, walker, Batcher(model, batch_size=4096)), max(asked)

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


def parked(tree, *given):
    numbers = np.linspace(0, tree.size - 1, 7).astype(np.int64)
    found = bounded(tree, *given, numbers, budget=20_000, most_parked=2_500)
    return found.queries > 19_000


MEMORY = {
    "enumeration": (lambda *given: any(1 for _ in enumerate_leaves(*given)), (4, 5), 1.5),
    "shortest path": (
        lambda *given: shortest_leaves(*given, top=1_000, budget=10_000, most_open=2_000).dropped,
        (8, 10),
        1.1,
    ),
    "rank": (parked, (7, 13), 1.5),  # of 7 to 9 digits arrays double once more, to 1.5 times
    "draws": (lambda *given: sampled(*given, width=500).queries, (7, 9), 1.5),
}


@pytest.mark.parametrize("walk", MEMORY)
def test_memory_does_not_grow_with_the_space_theory(walk):
    """A digit more is a level of nodes and a token a path."""
    model, peaks, (run, digits, times) = build("table"), [], MEMORY[walk]
    for count in (3, *digits):  # the first imports what is needed, and fills caches
        tree = compile_tree(Format(f"a{{digit:{count}}}"), CandidateEncoder(model.tokenizer))
        with model.open(Context(tree.context), memory_bytes=2**20) as walker:
            tracemalloc.start()
            large = run(tree, walker, Batcher(model, batch_size=256))
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
        assert large or count == 3
    assert peaks[2] < times * peaks[1]


class Windowed(TableModel):
    """States serve for three tokens; longer rows are computed whole, one for each child."""

    def open(self, context, *, memory_bytes):
        near, far = super().open(context, memory_bytes=memory_bytes), RowWalker(self, context)
        expand, deepest = near.expand, 3 - len(context.ids)

        def expanded(nodes, tokens, *, keep=True):
            beyond = nodes.lengths.max(initial=0) > deepest
            return far.expand(nodes, tokens) if beyond else expand(nodes, tokens, keep=keep)

        def most_queries(nodes, held, degrees):
            beyond = nodes.lengths.max(initial=0) > deepest
            return far.most_queries(nodes, held, degrees) if beyond else nodes.lengths - held

        near.expand, near.most_queries = expanded, most_queries
        return near


def flat(kind):
    logs = np.random.default_rng(0).normal(0, 0.3, len(CHARACTERS))
    logs -= np.log(np.exp(logs).sum())
    tokenizer = as_tokenizer(character_tokenizer())
    return kind(np.zeros((1, len(CHARACTERS)), int), logs[None], tokenizer)


MODELS = {
    "held": flat(TableModel),
    "held within": flat(Windowed),
    "whole rows": ByRows(flat(TableModel)),
    "window": build("mistral"),
}


@pytest.mark.parametrize("batch_size", [64, None])
@pytest.mark.parametrize("name", MODELS)
def test_no_walk_takes_more_queries_than_its_budget(name, batch_size):
    """Whatever states its walker stands on."""
    model, one = MODELS[name], np.array([123456])
    tree = compile_tree(Format("a{digit:6}"), CandidateEncoder(model.tokenizer))
    for budget in (0, 10, 100, 1000):
        spent = []
        for walk in (
            lambda *given: bounded(*given, one, budget=budget),  # noqa: B023
            lambda *given: shortest_leaves(*given, budget=budget),  # noqa: B023
        ):
            with model.open(Context(tree.context), memory_bytes=2**24) as walker:
                spent.append(walk(tree, walker, Batcher(model, batch_size=batch_size)).queries)
        # What is left would not pay for the dearest node: ten rows of six tokens.
        assert max(0, budget - 60) <= min(spent)
        assert max(spent) <= budget
