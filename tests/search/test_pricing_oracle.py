"""Candidates scored along the tree, below a context of any length, against whole rows."""

from __future__ import annotations

import numpy as np
import pytest
from small_models import Cramped, build

from canary.errors import ModelError
from canary.formats.format import Format
from canary.scoring.batcher import Batcher
from canary.search import pricing
from canary.search.pricing import ListedRows, Pricer, price_rows, rows_compared
from canary.search.ranking import draw
from canary.tokens.candidates import CandidateEncoder
from canary.tokens.tree import compile_tree

CONTEXTS = ["", "abc 12 ", "the code of mail is 5 - " * 6]
FORMAT = Format("ab {digit:3}.")


class Forgetful:
    """A model whose walks price another context than its rows."""

    def __init__(self, model):
        self._model = model

    def __getattr__(self, name):
        return getattr(self._model, name)

    def open(self, context, *, memory_bytes):
        other = type(context)(np.roll(context.ids, 1))
        return self._model.open(other, memory_bytes=memory_bytes)


class Counting:
    """A model that notes how many whole rows it is asked for at a time."""

    def __init__(self, model):
        self._model, self.rows = model, []

    def __getattr__(self, name):
        return getattr(self._model, name)

    def score(self, rows):
        self.rows.append(len(rows))
        return self._model.score(rows)


class Below:
    """The format below a context of a model: some fills, what they cost as rows, the noise."""

    def __init__(self, name, context, count=100):
        self.model = build(name)
        self.encoder = CandidateEncoder(self.model.tokenizer, None, context)
        self.tree = compile_tree(FORMAT, self.encoder)
        self.noise = self.model.facts.noise_bits(200)
        self.fills = FORMAT.sample(count, rng=np.random.default_rng(0))
        self.wanted = self.rows(self.model)

    def rows(self, model):
        priced, _ = price_rows(Batcher(model), FORMAT, self.encoder, self.fills)
        return priced.px_bits

    def pricer(self, model=None, **options):
        given = {"tree": self.tree, "noise_bits": self.noise} | options
        return Pricer(model or self.model, FORMAT, self.encoder, **given)

    def check(self, bits):
        np.testing.assert_allclose(bits, self.wanted, rtol=0, atol=self.noise)

    def check_listed(self, model):
        listed = ListedRows(self.encoder.candidates(FORMAT, self.fills))
        self.check(listed.price(Batcher(model)))


@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize("name", ["table", "lstm", "gpt2", "mistral", "by_rows"])
def test_prices_are_those_of_whole_rows(name, context):
    limit = build(name).facts.length_limit
    if limit is not None and limit < len(context) + 8:
        pytest.skip("longer than the model takes")
    below = Below(name, context)
    with below.pricer() as pricer:
        priced, queries = pricer.canaries(Batcher(below.model), below.fills)
        below.check(priced.px_bits)
        assert pricer.walks == (name != "by_rows" and (name, context) != ("mistral", CONTEXTS[1]))
        if pricer.walks:  # each node above them once, whatever the context
            checked = min(100, max(4, 4096 // len(below.tree.context)))
            assert queries - checked * 4 <= 10 + 100 + 100
            assert priced.context_bits == pytest.approx(pricer.context_bits)
    below.check_listed(below.model)


@pytest.mark.parametrize("context", CONTEXTS)
def test_draws_are_the_same_along_the_tree(context):
    below = Below("lstm", context)
    found = []
    for tree in (below.tree, None):
        with below.pricer(tree=tree) as pricer:
            rng, batcher = np.random.default_rng(7), Batcher(below.model)
            found.append(draw(pricer, batcher, ["123", "777"], count=200, rng=rng))
    walked, rows = found
    np.testing.assert_allclose(np.sort(walked.px_bits), np.sort(rows.px_bits), atol=below.noise)
    assert walked.others.sum() == rows.others.sum()
    assert walked.queries < rows.queries / 2


def test_states_that_do_not_carry_the_context_are_found_out():
    """Ranks are refused; where no tree is needed, whole rows are scored instead."""
    below = Below("lstm", CONTEXTS[1], 20)
    model = Forgetful(below.model)
    match = "below cached states than as a whole row"
    with below.pricer(model) as pricer, pytest.raises(ModelError, match=match):
        pricer.canaries(Batcher(model), below.fills)
    below.check_listed(model)


def test_little_memory_costs_queries_and_not_numbers():
    below = Below("gpt2", CONTEXTS[1], 50)
    with below.pricer(memory_bytes=2**12) as pricer:
        priced, _ = pricer.price(Batcher(Cramped(below.model, 3)), below.fills)
    below.check(priced.px_bits)


def test_below_a_long_context_few_whole_rows_are_compared_and_never_none(monkeypatch):
    numbers = {tokens: rows_compared(tokens) for tokens in (8, 1_024, 2_048, 2_049, 4_097, 128_000)}
    assert numbers == {8: 512, 1_024: 4, 2_048: 4, 2_049: 3, 4_097: 1, 128_000: 1}
    assert [rows_compared(tokens, 0) for tokens in (8, 4_096, 128_000)] == [4, 2, 1]
    monkeypatch.setattr(pricing, "_CHECKED_TOKENS", 64)  # as if 152 tokens were many
    monkeypatch.setattr(pricing, "_MOST_TOKENS", 128)
    below = Below("lstm", CONTEXTS[2], 5)
    whole = Counting(below.model)
    with below.pricer(whole) as pricer:
        priced, _ = pricer.canaries(Batcher(whole), below.fills)
    below.check(priced.px_bits)
    below.check_listed(whole)
    assert whole.rows == [1, 1]
    wrong = Counting(Forgetful(below.model))
    with below.pricer(wrong) as pricer, pytest.raises(ModelError, match="than as a whole row"):
        pricer.canaries(Batcher(wrong), below.fills)
    below.check_listed(wrong)
    assert sum(wrong.rows) == 1 + 1 + 5  # all, since the one that was compared differs
