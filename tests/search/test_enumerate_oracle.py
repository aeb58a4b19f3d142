"""The tree walk against brute force: every candidate scored as a whole row."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from small_models import build

from canary.formats.format import Format
from canary.models.language_model import Context, Rows
from canary.scoring.batcher import Batcher, row_sums
from canary.search.enumerate import enumerate_leaves, leaf_costs
from canary.tokens.candidates import CandidateEncoder
from canary.tokens.tree import compile_tree

FORMATS = [
    "The code is {digit:3}",
    "a{digit:2}",
    "a{digit:2}-{digit:1}.",
    "b {choice:aa|ab|ba} end",
    "{choice:ax|b|cyz}{digit:1}:{choice:p|q}..",
    "only {choice:one} fill",
    "x{choice:1}{digit:1}",
]
MIXED = "a{digit:2}{choice:b|cd|ce}"  # leaves at two depths below one node
MODELS = ["table", "lstm", "gpt2", "by_rows"]


def enumerate_all(model, text: str, *, batch_size=None, memory_bytes=2**22, start=None):
    format = Format(text)
    encoder = CandidateEncoder(model.tokenizer, start)
    tree = compile_tree(format, encoder)
    batcher = Batcher(model, batch_size=batch_size)
    costs = np.full(format.size, np.nan)
    queries = 0
    with model.open(Context(tree.context), memory_bytes=memory_bytes) as walker:
        room = walker.room
        for leaves, spent in enumerate_leaves(tree, walker, batcher):
            index = leaves.index()
            low, high = leaves.bounds()
            assert ((index >= low) & (index < high)).all()
            assert np.isnan(costs[index]).all(), "a leaf came twice"
            costs[index] = leaves.costs
            queries += spent
        some = np.arange(0, format.size, max(1, format.size // 7))[::-1]
        along, spent = leaf_costs(tree, walker, batcher, np.concatenate([some, some[:1]]))
        np.testing.assert_allclose(along, costs[[*some, some[0]]], atol=1e-4)
        assert spent <= queries
        assert walker.room == room, "a state was not let go"
    return format, encoder, tree, costs, queries


def brute_force(model, format: Format, encoder: CandidateEncoder):
    rows = Rows.of([e.ids for e in encoder.candidates(format, list(format))])
    return -row_sums(model.score(rows), rows), int(rows.lengths.max())


@pytest.mark.parametrize("text", FORMATS)
@pytest.mark.parametrize("name", MODELS)
def test_enumeration_oracle(name: str, text: str) -> None:
    """Each leaf once, in the format's own order, at the cost of its whole row."""
    model = build(name)
    start = "\n" if text.startswith("{") else None
    format, encoder, tree, costs, queries = enumerate_all(model, text, start=start)
    wanted, tokens = brute_force(model, format, encoder)
    noise = model.facts.noise_bits(tokens) * np.log(2)
    np.testing.assert_allclose(costs, wanted, rtol=0, atol=noise)
    if "reuse" in model.facts.capabilities:
        assert queries == tree.queries()


@pytest.mark.parametrize("batch_size", [1, 2, 7, 64, 5000])
def test_enumeration_property_batch_size_does_not_matter(batch_size: int) -> None:
    model = build("table")
    text = FORMATS[4]
    right = enumerate_all(model, text, start="\n")[3]
    found = enumerate_all(model, text, batch_size=batch_size, start="\n")
    np.testing.assert_array_equal(found[3], right)
    assert found[4] == found[2].queries()


@pytest.mark.parametrize("name", ["table", "lstm", "gpt2"])
def test_enumeration_property_little_memory_costs_queries_not_numbers(name: str) -> None:
    """With room for a dozen states the walk computes more, and finds the same."""
    model = build(name)
    roomy = enumerate_all(model, "a{digit:3}.", batch_size=16)
    tight = enumerate_all(
        model, "a{digit:3}.", batch_size=16, memory_bytes=24 * model.memory().bytes_per_held_token
    )
    np.testing.assert_allclose(tight[3], roomy[3], atol=1e-4)
    assert tight[4] > roomy[4] == roomy[2].queries()


def test_queries_theory() -> None:
    """10^d candidates of d digits cost (10^d - 10) / 9 queries: one per inner node."""
    encoder = CandidateEncoder(build("table").tokenizer)
    for d in (1, 2, 5, 9):
        tree = compile_tree(Format(f"a{{digit:{d}}}"), encoder)
        assert tree.queries() == (10**d - 10) // 9
    # A fixed end of one character is one more query per candidate: it is priced below
    # the last digit's node.
    assert compile_tree(Format("a{digit:2}."), encoder).queries() == 10 + 100
    assert compile_tree(Format("a{digit:2}.."), encoder).queries() == 10 + 200


@pytest.mark.parametrize("text", [MIXED, *(text for text in FORMATS if text[0] != "{")])
def test_ranges_side_by_side_are_the_whole(text: str) -> None:
    """Every leaf once, whatever the cuts; and hardly a query more."""
    model, format = build("table"), Format(text)
    tree = compile_tree(format, CandidateEncoder(model.tokenizer))
    whole, queries = walk(model, tree)
    rng = np.random.default_rng(1)
    for cuts in range(6):
        at = np.sort(rng.integers(0, format.size + 1, cuts))
        ends = [0, *at.tolist(), format.size]
        found: dict[int, float] = {}
        spent = 0
        for start, stop in itertools.pairwise(ends):
            part, more = walk(model, tree, start=start, stop=stop)
            assert all(start <= index < stop for index in part)
            found |= part
            spent += more
        assert found == whole
        assert spent <= queries + cuts * 8


def walk(model, tree, **options):
    """Cost of each leaf by its index, and the queries."""
    costs: dict[int, float] = {}
    queries = 0
    batcher = Batcher(model, batch_size=7)
    with model.open(Context(tree.context), memory_bytes=2**20) as walker:
        for leaves, spent in enumerate_leaves(tree, walker, batcher, **options):
            low, high = leaves.bounds()
            for index, cost in zip(leaves.index().tolist(), leaves.costs.tolist(), strict=True):
                assert index not in costs
                assert low <= index < high
                costs[index] = cost
            queries += spent
    return costs, queries
