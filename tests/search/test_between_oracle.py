"""Ranks of a model that bounds some probabilities, beside those of the whole model."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from small_models import table_model

from canary.formats.format import Format
from canary.models.language_model import Children
from canary.scoring.batcher import Batcher
from canary.search.pricing import Pricer, price_rows
from canary.search.ranking import rank_by_bounds
from canary.tokens.candidates import CandidateEncoder
from canary.tokens.tree import compile_tree

FORMAT = Format("abc {digit:2}")


class Hushed:
    """A table that tells the likeliest tokens of each node, and bounds for the others."""

    def __init__(self, table, top):
        self.table, self.top = table, top
        self.tokenizer, self.memory = table.tokenizer, table.memory
        self.facts = replace(table.facts, capabilities=("expand",))

    def open(self, context, *, memory_bytes):
        return Below(self, self.table.open(context, memory_bytes=memory_bytes))


class Below:
    room = 0

    def __init__(self, model, walker):
        self.model, self.walker = model, walker
        self.context_log_probs = walker.context_log_probs

    def expand(self, nodes, tokens, *, keep=True):
        nodes = replace(nodes, handles=np.full(len(nodes), -1))
        everything = Children(np.arange(self.model.facts.vocabulary, dtype=np.int32))
        whole = self.walker.expand(nodes, everything, keep=False).log_probs.astype(np.float64)
        told = np.argsort(np.argsort(-whole, axis=1), axis=1) < self.model.top
        left = np.log1p(-np.minimum(np.exp(np.where(told, whole, -np.inf)).sum(1), 1 - 1e-6))
        bound = np.minimum(left + 1e-5, np.where(told, whole, np.inf).min(axis=1))
        given = np.where(told, whole, bound[:, None]).astype(np.float32)
        found = self.walker.expand(nodes, tokens, keep=False)
        assert tokens.offsets is None
        return replace(found, log_probs=given[:, tokens.tokens], exact=told[:, tokens.tokens])

    def release(self, handles):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None


def between(table, fills, *, top, budget):
    model = Hushed(table, top)
    encoder = CandidateEncoder(model.tokenizer, None, "")
    tree = compile_tree(FORMAT, encoder, among=fills)
    with Pricer(model, FORMAT, encoder, tree) as pricer:
        return rank_by_bounds(pricer, Batcher(model), fills, budget=budget)


@pytest.mark.parametrize("top", [1, 6, 9, 14, 45])
@pytest.mark.parametrize("budget", [4, 10**6])
def test_every_rank_lies_between_its_bounds_oracle(top, budget):
    seen = 0
    for seed in range(5):
        table, fills = table_model(seed), list(FORMAT)
        encoder = CandidateEncoder(table.tokenizer, None, "")
        px = price_rows(Batcher(table), FORMAT, encoder, fills)[0].px_bits
        ranks = (px[:, None] >= px).sum(axis=1)
        found = between(table, fills, top=top, budget=budget)
        bounds = found.bounds
        assert (bounds.lower <= ranks).all()
        assert (ranks <= bounds.upper).all()
        np.testing.assert_array_equal(bounds.rank[bounds.exact], ranks[bounds.exact])
        assert not bounds.exact[~found.known].any()
        assert (found.px_bits <= px + 1e-4).all()
        np.testing.assert_allclose(found.px_bits[found.known], px[found.known], atol=1e-4)
        if top == 45:
            assert found.known.all()
            assert bounds.exact.all() or budget == 4
        seen += int((found.known & ~bounds.exact).sum())
    # Some are known and yet not ranked exactly: bounded leaves are counted.
    assert seen > 10 or (top, budget) != (9, 10**6)
