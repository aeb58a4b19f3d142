"""The tree walk against brute force: every candidate scored as a whole row."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from small_models import build
from walk_cases import Case

from canary.formats.format import Format
from canary.scoring.batcher import Batcher
from canary.search.enumerate import enumerate_leaves, leaf_costs
from canary.tokens.candidates import CandidateEncoder
from canary.tokens.tree import compile_tree

FORMATS = [
    "The code is {digit:3}",
    "a{digit:2}-{digit:1}.",
    "b {choice:aa|ab|ba} end",
    "{choice:ax|b|cyz}{digit:1}:{choice:p|q}..",
    "only {choice:one} fill",
    "a{digit:2}{choice:b|cd|ce}",  # leaves at two depths below one node
]


def case_of(name: str, text: str) -> Case:
    return Case(build(name), text, "\n" if text.startswith("{") else None)


def walk(case: Case, *, batch_size=None, memory_bytes=2**22, **options):
    """Cost of each leaf by its number, NaN where it did not come; and the queries."""
    costs, queries = np.full(case.format.size, np.nan), 0
    batcher = Batcher(case.model, batch_size=batch_size)
    with case.open(memory_bytes) as walker:
        room = walker.room
        for leaves, spent in enumerate_leaves(case.tree, walker, batcher, **options):
            index, (low, high) = leaves.index(), leaves.bounds()
            assert ((index >= low) & (index < high)).all()
            assert np.isnan(costs[index]).all(), "a leaf came twice"
            costs[index] = leaves.costs
            queries += spent
        assert walker.room == room, "a state was not let go"
    return costs, queries


@pytest.mark.parametrize("text", FORMATS)
@pytest.mark.parametrize("name", ["table", "lstm", "gpt2", "by_rows"])
def test_enumeration_oracle(name: str, text: str) -> None:
    """Each leaf once, in the format's own order, at the cost of its whole row."""
    case = case_of(name, text)
    costs, queries = walk(case)
    np.testing.assert_allclose(costs, case.costs, rtol=0, atol=case.noise)
    if "reuse" in case.model.facts.capabilities:
        assert queries == case.tree.queries()
    some = np.arange(0, case.format.size, max(1, case.format.size // 7))[::-1]
    with case.open() as walker:
        room = walker.room
        twice = np.concatenate([some, some[:1]])
        along, _, spent = leaf_costs(case.tree, walker, Batcher(case.model), twice)
        assert walker.room == room
    np.testing.assert_allclose(along, case.costs[twice], rtol=0, atol=case.noise)
    assert spent <= queries


@pytest.mark.parametrize("batch_size", [1, 7, 64, 5000])
def test_batch_size_does_not_matter_property(batch_size: int) -> None:
    case = case_of("table", FORMATS[3])
    costs, queries = walk(case, batch_size=batch_size)
    np.testing.assert_array_equal(costs, walk(case)[0])
    assert queries == case.tree.queries()


@pytest.mark.parametrize("name", ["table", "lstm", "gpt2"])
def test_little_memory_costs_queries_not_numbers_property(name: str) -> None:
    """With room for a dozen states the walk computes more, and finds the same."""
    case = case_of(name, "a{digit:3}.")
    costs, queries = walk(case, batch_size=16, memory_bytes=case.states(24))
    np.testing.assert_allclose(costs, case.costs, atol=1e-4)
    assert queries > case.tree.queries()


def test_queries_theory() -> None:
    """10^d candidates of d digits cost (10^d - 10) / 9 queries: one per inner node."""
    encoder = CandidateEncoder(build("table").tokenizer)
    for d in (1, 2, 5, 9):
        tree = compile_tree(Format(f"a{{digit:{d}}}"), encoder)
        assert tree.queries() == (10**d - 10) // 9
    # A fixed end of one character is one more query per candidate: it is scored below
    # the last digit's node.
    assert compile_tree(Format("a{digit:2}."), encoder).queries() == 10 + 100
    assert compile_tree(Format("a{digit:2}.."), encoder).queries() == 10 + 200


@pytest.mark.parametrize("text", FORMATS)
def test_ranges_side_by_side_are_the_whole(text: str) -> None:
    """Every leaf once, whatever the cuts; and hardly a query more."""
    case, rng = case_of("table", text), np.random.default_rng(1)
    whole, queries = walk(case, batch_size=7)
    for cuts in range(0, 6, 2):
        at = np.sort(rng.integers(0, case.format.size + 1, cuts))
        ends = [0, *at.tolist(), case.format.size]
        spent = 0
        for start, stop in itertools.pairwise(ends):
            part, more = walk(case, batch_size=7, start=start, stop=stop)
            np.testing.assert_array_equal(part[start:stop], whole[start:stop])
            assert np.isnan(np.delete(part, np.s_[start:stop])).all()
            spent += more
        assert spent <= queries + cuts * 8
