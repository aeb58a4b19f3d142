"""Shortest paths against brute force: what is best, what is proven, what it cost."""

from __future__ import annotations

import numpy as np
import pytest
from small_models import CHARACTERS, build, character_tokenizer
from walk_cases import Case, cases, count_tokens, ctrl_c, told

from canary.formats.format import Format
from canary.models.language_model import Context
from canary.models.table_model import TableModel
from canary.scoring.batcher import Batcher
from canary.search.buckets import WIDTH_NATS, OpenNodes
from canary.search.shortest import shortest_leaves
from canary.tokens.candidates import CandidateEncoder
from canary.tokens.fast import as_tokenizer
from canary.tokens.tree import compile_tree

SIZES = (1, 7, 4096)


def walk(case, *, batch_size=None, memory_bytes=2**22, noise=0.0, stop_at=None, **options):
    """Walk, and check whatever must hold however the walk ended."""
    with case.open(memory_bytes) as walker:
        computed, room = count_tokens(walker), walker.room
        if stop_at is not None:
            walker._step = told(walker._step, ctrl_c(stop_at))
        batcher = Batcher(case.model, batch_size=batch_size)
        found = shortest_leaves(case.tree, walker, batcher, **options)
        if found.stopped != "interrupted":
            assert found.queries == sum(computed)
        if found.stopped in ("proof", "memory"):
            assert walker.room == room, "a state was not let go"
    assert found.queries <= options.get("budget", np.inf)
    assert len(set(found.leaves.tolist())) == len(found.leaves) <= options.get("top", 1)
    assert (np.diff(found.costs) >= 0).all()
    np.testing.assert_allclose(found.costs, case.costs[found.leaves], rtol=0, atol=noise)
    others = np.delete(case.costs, found.leaves)
    assert others.min(initial=np.inf) >= found.rest - noise
    best = np.sort(case.costs)[: found.proven]
    np.testing.assert_allclose(found.costs[: found.proven], best, rtol=0, atol=2 * noise)
    if found.stopped == "proof":
        possible = int(np.isfinite(case.costs).sum())
        assert found.proven == len(found.costs) == min(options.get("top", 1), possible)
    return found


@pytest.mark.parametrize("batch_size", SIZES)
def test_minimum_and_top_oracle(batch_size):
    """Every format with ties, with zeros, with both, with neither: the walk ends with the proof."""
    for seed, case in cases(35):
        top = (1, 3, case.format.size + 2)[seed % 3 if seed % 2 else (seed // 7) % 3]
        assert walk(case, batch_size=batch_size, top=top).stopped == "proof"


@pytest.mark.parametrize("batch_size", [2, 7])
def test_proven_up_to_is_right_at_every_budget_oracle(batch_size):
    for seed, case in cases(7):
        top = (1, 4)[seed % 2]
        whole = walk(case, batch_size=batch_size, top=top)
        last = max(whole.queries, 1)
        budgets = {*np.geomspace(1, last, 25, dtype=int).tolist(), max(last - 1, 1)}
        bounds = []
        for budget in sorted(budgets):
            found = walk(case, batch_size=batch_size, top=top, budget=budget)
            bounds.append(found.rest)
            assert found.stopped in ("budget", "proof")
        assert found.stopped == "proof"
        assert found.rest == whole.rest
        assert bounds[0] <= bounds[-1]


@pytest.mark.parametrize("batch_size", SIZES)
def test_proven_up_to_is_right_under_a_dropped_frontier_oracle(batch_size):
    ends = set()
    for seed, case in cases(14):
        for most_open in (1, 2, 5, 11):
            for options in ({}, {"budget": 1 + seed % 13}):
                options |= {"top": 1 + seed % 3, "most_open": most_open}
                found = walk(case, batch_size=batch_size, **options)
                ends.add(found.stopped)
                assert (found.stopped == "memory") <= (found.dropped > 0)
    assert ends == {"proof", "memory", "budget"}


@pytest.mark.parametrize("batch_size", SIZES)
def test_little_room_for_states_costs_queries_not_the_answer_oracle(batch_size):
    more = 0
    for seed, case in cases(14):
        roomy = walk(case, batch_size=batch_size, top=3)
        little = {"batch_size": batch_size, "top": 3, "memory_bytes": case.states(8)}
        tight = walk(case, **little)
        np.testing.assert_array_equal(tight.costs, roomy.costs)
        more += tight.queries - roomy.queries
        walk(case, **little, budget=1 + seed)
    assert more > 0


@pytest.mark.parametrize("batch_size", [1, 64])
def test_an_interruption_anywhere_leaves_a_valid_answer_oracle(batch_size, monkeypatch):
    """Ctrl-C in each of the model's steps, and in the bookkeeping after each of them."""
    for _, case in cases(7):
        steps = walk(case, batch_size=batch_size, top=2).batches
        for at in range(0, steps, 1 + steps // 8):
            found = walk(case, batch_size=batch_size, top=2, stop_at=at)
            assert found.stopped in ("interrupted", "proof")
        for name in ("add", "close", "drop_from", "hold"):
            for at in range(min(steps, 3)):
                with monkeypatch.context() as patch:
                    after = at + (name == "add")  # the root comes first
                    patch.setattr(OpenNodes, name, told(getattr(OpenNodes, name), ctrl_c(after)))
                    walk(case, batch_size=batch_size, top=2)


def test_the_rule_of_the_paper_stops_earlier_and_says_what_is_proven_oracle():
    """It is valid like any other end, and now and then not the best: that is its weakness."""
    stopped, wrong = 0, 0
    for _, case in cases(35):
        for batch_size in (1, 5):
            found = walk(case, batch_size=batch_size, stop="paper")
            stopped += found.stopped == "paper"
            wrong += bool(len(found.costs) and found.costs[0] > case.costs.min())
            whole = walk(case, batch_size=batch_size)
            assert found.queries <= whole.queries
    assert stopped > 10
    assert wrong > 0


@pytest.mark.parametrize(("name", "batch_size"), [("lstm", 3), ("gpt2", 64), ("gpt2", None)])
def test_neural_models_agree_within_their_noise_oracle(name, batch_size):
    case = Case(build(name), "The code is {re:[0-2][0-9]{2}}.")
    for options in ({}, {"budget": 40}, {"most_open": 30}):
        walk(case, batch_size=batch_size, top=5, noise=case.noise, **options)


def test_whole_rows_serve_too_and_keep_to_the_budget_oracle():
    """A model that reuses no states: each child is a row; the budget holds all the same."""
    case = Case(build("by_rows"), "a{digit:2}")
    for budget in (9, 10, 60, 10_000):
        with case.open(0) as walker:
            batcher = Batcher(case.model, batch_size=8)
            found = shortest_leaves(case.tree, walker, batcher, top=2, budget=budget)
        assert found.queries <= budget
        assert np.delete(case.costs, found.leaves).min() >= found.rest - case.noise
    assert found.stopped == "proof"
    np.testing.assert_allclose(found.costs, np.sort(case.costs)[:2], atol=case.noise)


DIGITS = "31415926"


def memorized(*, stop_at=None):
    """A walk for digits each of which has probability 0.91, and each other one 0.01."""
    tables = {(): np.full(len(CHARACTERS), -np.log(len(CHARACTERS)))}
    for at, digit in enumerate(map(int, DIGITS)):
        table = np.full(len(CHARACTERS), -np.inf)
        table[:10] = np.log(0.01)
        table[digit] = np.log(0.91)
        tables[CHARACTERS.index("a"), *map(int, DIGITS[:at])] = table
    model = TableModel.ngram(tables, as_tokenizer(character_tokenizer()))
    tree = compile_tree(Format("a{digit:8}"), CandidateEncoder(model.tokenizer))
    with model.open(Context(tree.context), memory_bytes=2**22) as walker:
        if stop_at is not None:
            walker._step = told(walker._step, ctrl_c(stop_at))
        return shortest_leaves(tree, walker, Batcher(model, batch_size=1))


def test_a_memorized_candidate_costs_its_own_tokens_golden():
    """One node per digit, and the root's distribution is free."""
    found = memorized()
    assert found.leaves.tolist() == [int(DIGITS)]
    assert found.queries == found.found_after[0] == 7
    assert found.costs[0] == pytest.approx(-8 * np.log(0.91))
    assert found.rest == pytest.approx(-np.log(0.01))  # the cheapest sibling
    assert found.stopped == "proof"
    # The leaf costs 0.75 nats, hardly more than the nodes above it: no bound may pass it.
    for at in range(7):
        found = memorized(stop_at=at)
        assert found.stopped == "interrupted"
        assert not len(found.costs)
        assert found.rest <= -8 * np.log(0.91)
        floor = -(at + 1) * np.log(0.91) // WIDTH_NATS * WIDTH_NATS
        assert found.rest == pytest.approx(floor)
