"""Ranks by branch and bound against brute force: every candidate scored as a whole row."""

from __future__ import annotations

import math

import numpy as np
import pytest
from small_models import CHARACTERS, character_tokenizer
from walk_cases import Case, cases, count_tokens, told

from canary.audits.extracting import extract
from canary.models.table_model import TableModel
from canary.scoring.batcher import Batcher
from canary.search.bounded import BoundedWalk
from canary.search.enumerate import leaf_costs
from canary.search.node_sampling import sample_nodes
from canary.search.rank_counter import bounds_by_place, most_leaves
from canary.search.step import context_nats
from canary.tokens.fast import as_tokenizer

LITTLE = 600  # bytes for states


def some_of(case, seed, most=5):
    """Canaries of a case, the most likely candidate among them and two that are the same."""
    possible = np.flatnonzero(np.isfinite(case.costs))
    chosen = np.random.default_rng(seed).choice(possible, min(most, len(possible)), replace=False)
    if len(chosen):
        chosen = np.append(chosen, [possible[np.argmin(case.costs[possible])], chosen[0]])
    return chosen, (case.costs <= case.costs[chosen][:, None]).sum(axis=1)


def opened(case, numbers, *, memory_bytes=2**18, batch_size=None, **options):
    """A walk over some leaves, its walker, and what the model computes for it."""
    batcher, walker = Batcher(case.model, batch_size=batch_size), case.open(memory_bytes)
    options["costs"], *_ = leaf_costs(case.tree, walker, batcher, numbers)
    computed = count_tokens(walker)
    walk = BoundedWalk(case.tree, walker, batcher, numbers=numbers, noise_bits=0.0, **options)
    return walk, walker, computed


@pytest.mark.parametrize(
    ("options", "seeds"),
    [
        ({}, 28),
        ({"most_parked": 3}, 28),
        ({"memory_bytes": LITTLE}, 14),
        ({"batch_size": 1}, 14),
    ],
    ids=["roomy", "frontier forgotten", "little memory", "one by one"],
)
def test_rank_oracle(options, seeds) -> None:
    """Ties included, with one format after another."""
    for seed, case in cases(seeds):
        numbers, ranks = some_of(case, seed)
        walk, walker, computed = opened(case, numbers, **options)
        room = walker.room
        assert walk.run()
        found = walk.bounds()
        for values in (found.rank, found.lower, found.upper):
            np.testing.assert_array_equal(values, ranks)
        assert found.exact.all()
        assert found.queries == sum(computed)
        assert walker.room == room, "a state was not let go"
        if "most_parked" not in options and "memory_bytes" not in options:
            assert found.queries <= case.tree.queries()


def test_the_interval_holds_at_every_budget_oracle() -> None:
    """From nothing spent to the last query, and it only ever gets narrower."""
    for seed, case in cases(21):
        numbers, ranks = some_of(case, seed)
        tight = ({"most_parked": 2}, {"memory_bytes": LITTLE})
        for options in ({}, *(tight if seed < 7 else ())):
            walk, _, computed = opened(case, numbers, **options)
            before, spent = walk.bounds(), 0
            assert before.queries == 0
            for step in range(3000):
                found = walk.bounds()
                assert (found.lower <= ranks).all()
                assert (ranks <= found.upper).all()
                assert (before.lower <= found.lower).all()
                assert (found.upper <= before.upper).all()
                assert (found.rank[found.exact] == ranks[found.exact]).all()
                assert found.queries == sum(computed)
                if found.exact.all():
                    break
                # One query at a time; more where the next node needs more at once.
                allowed = 1 + (found.queries == spent and step > 0) * 20
                spent = found.queries
                walk.run(budget=allowed)
                assert sum(computed) <= spent + allowed
                before = found
            assert found.exact.all(), "it did not close"


def test_a_canary_is_none_of_the_others_that_may_be_as_likely_oracle() -> None:
    """Before anything is spent at most 2^B are, the canary included."""
    for _, case in cases(21):
        numbers = np.flatnonzero(np.isfinite(case.costs))
        walk, walker, _ = opened(case, numbers)
        bits = (case.costs[numbers] - context_nats(walker)) / math.log(2) + 1e-6
        every = np.full(len(numbers), case.tree.size)
        free = most_leaves(bits, every, excess_bits=walk.excess_bits)
        assert (walk.bounds().upper <= free).all()


def test_open_nodes_theory() -> None:
    """At most 2^B at any depth; beyond the fill's own bits, only as far as a suffix loosens."""
    for seed, case in cases(28):
        numbers, ranks = (values[:1] for values in some_of(case, seed))
        if not len(numbers):
            continue
        walk, walker, _ = opened(case, numbers)
        lengths = []
        note = lambda nodes, *_, into=lengths, **__: into.extend(nodes.lengths)  # noqa: E731
        walker.expand = told(walker.expand, note)
        assert walk.run()
        bits = (float(case.costs[numbers[0]]) - context_nats(walker)) / math.log(2)
        assert np.bincount(lengths)[1:].max(initial=0) <= 2 ** (bits + 1e-4)
        free = most_leaves(np.array([bits]), np.array([case.tree.size]), excess_bits=1e-3)[0]
        assert ranks[0] <= free <= 2 ** (bits + 0.01)


def test_bounds_are_exact_on_one_node_golden() -> None:
    """3 bits: at most 8 leaves; 2.9: 7; more bits than there are leaves: all leaves."""
    bits, leaves = np.array([3.0, 2.9, 0.0, 70.0, 62.5]), np.array([100, 100, 5, 9, 2**62])
    found = most_leaves(bits, leaves, excess_bits=1e-3)
    np.testing.assert_array_equal(found, [8, 7, 1, 9, 2**62])


@pytest.mark.parametrize(
    ("px", "rest", "noise", "most"),
    [
        (1.0, 1.5, 0.0, 1),  # it is the only one found, and all others cost more
        (1.0, 1.0, 0.0, 2),  # another may cost as much
        (1.0, 1.1, 0.2, 2),  # or no more, as far as the noise goes
        (2.9, 2.9, 0.0, 7),
        (2.9, 2.9, 0.2, 8),  # of 3.1 bits there are eight
    ],
)
def test_what_is_left_may_be_as_likely_golden(px, rest, noise, most) -> None:
    options = {"size": 100, "context_bits": 0.0, "noise_bits": noise, "excess_bits": 0.0}
    found = bounds_by_place(np.array([px]), np.array([3]), rest, **options)
    assert [int(end[0]) for end in found] == [1, most]


def test_a_softmax_that_sums_to_more_than_1_theory() -> None:
    """Ten digits of (1 + 1e-6) / 10 each, in float32: a hundred leaves below 2 log2(10) bits."""
    digits = np.full(10, (1 + 1e-6) / 10, np.float32)
    assert float(digits.astype(np.float64).sum()) > 1 + 5e-7
    logs = np.full(len(CHARACTERS), -np.inf)
    logs[:10] = np.log(digits.astype(np.float64))
    case = Case(TableModel.ngram({(): logs}, as_tokenizer(character_tokenizer())), "0{digit:2}")
    walk, walker, _ = opened(case, np.arange(100))
    assert (walk.bounds().upper == 100).all()
    assert np.exp(case.costs[0] - context_nats(walker)) < 100, "the bound would hold without slack"
    found = extract(case.model, case.format, top=3, most_open=1, batch_size=1)
    assert [c.exposure_lower_bits for c in found.candidates] == [0.0] * 3
    with case.open() as walker:
        given = case.tree, walker, Batcher(case.model)
        sample = sample_nodes(*given, width=1, rng=np.random.default_rng(0))
    count = sample.count(float(case.costs[0]) + 1e-12)
    assert count.found + count.unseen >= 100


def test_parked_nodes_leave_half_of_the_room() -> None:
    """So that a pass can hold the states of its own nodes, one for each level here."""
    for seed, case in cases(14):
        least, memory = 10**6, case.states(16)
        walk, walker, _ = opened(case, some_of(case, seed)[0], batch_size=1, memory_bytes=memory)
        whole = walker.room
        while not walk.run(budget=8):
            least = min(least, walker.room)
        assert least >= whole // 2 - 3
        assert walker.room == whole
