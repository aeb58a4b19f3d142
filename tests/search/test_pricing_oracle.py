"""Candidates priced along the tree, below a context of any length, against whole rows."""

from __future__ import annotations

import numpy as np
import pytest
from small_models import Cramped, build
from trained import KINDS, trained

from canary.errors import CanaryError, ModelError
from canary.formats.format import Format
from canary.scoring.batcher import Batcher
from canary.search.pricing import ListedRows, Pricer, price_rows
from canary.search.ranking import draw
from canary.tokens import tree as trees
from canary.tokens.candidates import CandidateEncoder
from canary.tokens.fast import as_tokenizer
from canary.tokens.tree import MISSING, compile_tree, leaf_numbers

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


def together(model, format, encoder, count):
    """Draws along the tree and by rows, and how far they may differ."""
    rng = np.random.default_rng(0)
    fills = format.sample(min(count, format.size), rng=rng)
    by_rows, _ = price_rows(Batcher(model), format, encoder, fills)
    return fills, by_rows.px_bits, model.facts.noise_bits(200)


@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize("name", ["table", "lstm", "gpt2", "mistral", "by_rows"])
def test_prices_are_those_of_whole_rows(name, context):
    model = build(name)
    encoder = CandidateEncoder(model.tokenizer, None, context)
    limit = model.facts.length_limit
    if limit is not None and limit < len(context) + 8:
        pytest.skip("longer than the model takes")
    fills, wanted, noise = together(model, FORMAT, encoder, 200)
    tree = compile_tree(FORMAT, encoder)
    with Pricer(model, FORMAT, encoder, tree, noise) as pricer:
        priced, queries = pricer.canaries(Batcher(model), fills)
        np.testing.assert_allclose(priced.px_bits, wanted, rtol=0, atol=noise)
        assert pricer.walks == (name != "by_rows" and (name, context) != ("mistral", CONTEXTS[1]))
        if pricer.walks:  # each node above them once, whatever the context
            checked, below = min(200, max(4, 4096 // len(tree.context))), 4
            assert queries - checked * below <= 10 + 100 + 200
            assert priced.context_bits == pytest.approx(pricer.context_bits)
    listed = ListedRows(encoder.candidates(FORMAT, fills)).price(Batcher(model))
    np.testing.assert_allclose(listed, wanted, rtol=0, atol=noise)


@pytest.mark.parametrize("context", CONTEXTS)
def test_draws_are_the_same_along_the_tree(context):
    model = build("lstm")
    encoder = CandidateEncoder(model.tokenizer, None, context)
    tree, noise = compile_tree(FORMAT, encoder), model.facts.noise_bits(200)
    found = []
    for each in (tree, None):
        with Pricer(model, FORMAT, encoder, each, noise) as pricer:
            rng = np.random.default_rng(7)
            found.append(draw(pricer, Batcher(model), ["123", "777"], count=300, rng=rng))
    walked, rows = found
    np.testing.assert_allclose(np.sort(walked.px_bits), np.sort(rows.px_bits), atol=noise)
    assert walked.others.sum() == rows.others.sum()
    assert walked.queries < rows.queries / 2


def test_states_that_do_not_carry_the_context_are_found_out():
    """Ranks are refused; where no tree is needed, whole rows are priced instead."""
    model = Forgetful(build("lstm"))
    encoder = CandidateEncoder(model.tokenizer, None, "abc 12 ")
    fills, wanted, noise = together(model, FORMAT, encoder, 20)
    pricer = Pricer(model, FORMAT, encoder, compile_tree(FORMAT, encoder), noise)
    with pricer, pytest.raises(ModelError, match="below held states than as a whole row"):
        pricer.canaries(Batcher(model), fills)
    listed = ListedRows(encoder.candidates(FORMAT, fills)).price(Batcher(model))
    np.testing.assert_allclose(listed, wanted, rtol=0, atol=noise)


def test_little_memory_costs_queries_and_not_numbers():
    model = build("gpt2")
    encoder = CandidateEncoder(model.tokenizer, None, "abc 12 ")
    fills, wanted, noise = together(model, FORMAT, encoder, 50)
    tree = compile_tree(FORMAT, encoder)
    with Pricer(model, FORMAT, encoder, tree, noise, memory_bytes=2**12) as pricer:
        priced, _ = pricer.price(Batcher(Cramped(model, 3)), fills)
    np.testing.assert_allclose(priced.px_bits, wanted, rtol=0, atol=noise)


@pytest.mark.parametrize("name", KINDS)
def test_leaves_by_the_ends_of_texts_are_those_of_whole_texts(name):
    """However long the context; and most of them need no whole text."""
    tokenizer = as_tokenizer(trained(name))
    for text, context in (
        ("The code is {re:[0-9][0-3]{2}}", "code: 12 the " * 9),
        ("is{choice: 28| 5| 123| a|b}.", "the secret number is red and the mail " * 4),
        ("mail {re:[0-2]}-{digit:1}", "code: 12 the " * 9),
    ):
        format = Format(text)
        try:
            encoder = CandidateEncoder(tokenizer, None, context)
            tree, fills = compile_tree(format, encoder), list(format)
        except CanaryError:
            continue  # a tokenizer that does not know some character
        whole = tree.numbers([e.ids for e in encoder.candidates(format, fills)])
        by_tails = trees._numbers_by_tails(tree, format, encoder, fills)
        there = by_tails != MISSING
        np.testing.assert_array_equal(by_tails[there], whole[there])
        np.testing.assert_array_equal(leaf_numbers(tree, format, encoder, fills), whole)
        if tree.canonical and len(tree.context) >= 48:
            tried.append((name, there.mean()))


tried: list[tuple[str, float]] = []


def test_most_tokenizers_are_spared_the_context():
    assert len(tried) > 10
    assert np.mean([share for _, share in tried]) > 0.5
