"""No walk takes more queries than its budget, whatever states its walker stands on."""

import numpy as np
import pytest
from small_models import CHARACTERS, ByRows, build, character_tokenizer

from canary.formats.format import Format
from canary.models.by_scoring import RowWalker
from canary.models.language_model import Context
from canary.models.table_model import TableModel
from canary.scoring.batcher import Batcher
from canary.search.bounded import BoundedWalk
from canary.search.enumerate import leaf_costs
from canary.search.shortest import shortest_leaves
from canary.tokens.candidates import CandidateEncoder
from canary.tokens.fast import as_tokenizer
from canary.tokens.tree import compile_tree

TOKENIZER = as_tokenizer(character_tokenizer())


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
    return kind(np.zeros((1, len(CHARACTERS)), int), logs[None], TOKENIZER)


MODELS = {
    "held": flat(TableModel),
    "held within": flat(Windowed),
    "whole rows": ByRows(flat(TableModel)),
    "window": build("mistral"),
}


@pytest.mark.parametrize("budget", [0, 10, 100, 1000, 5000])
@pytest.mark.parametrize("batch_size", [64, 512, None])
@pytest.mark.parametrize("name", MODELS)
def test_queries_stay_within_the_budget(name, batch_size, budget):
    model = MODELS[name]
    tree = compile_tree(Format("a{digit:6}"), CandidateEncoder(model.tokenizer))
    with model.open(Context(tree.context), memory_bytes=2**24) as walker:
        batcher, one = Batcher(model, batch_size=batch_size), np.array([123456])
        costs, _ = leaf_costs(tree, walker, batcher, one)
        walk = BoundedWalk(tree, walker, batcher, numbers=one, costs=costs, noise_bits=0.0)
        walk.run(budget=budget)
        spent = walk.bounds().queries
    with model.open(Context(tree.context), memory_bytes=2**24) as walker:
        found = shortest_leaves(
            tree, walker, Batcher(model, batch_size=batch_size), budget=budget
        ).queries
    # What is left would not pay for the dearest node: ten rows of six tokens.
    assert max(0, budget - 60) <= spent <= budget
    assert max(0, budget - 60) <= found <= budget
