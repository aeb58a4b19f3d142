"""Ranks by branch and bound against brute force: every candidate scored as a whole row."""

from __future__ import annotations

import functools
import math
import sys
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from small_models import CHARACTERS, character_tokenizer

from canary.audits.extracting import extract
from canary.formats.format import Format
from canary.models.language_model import Context
from canary.models.table_model import TableModel
from canary.scoring.batcher import Batcher
from canary.scoring.texts import score
from canary.search import bounded
from canary.search.bounded import BoundedWalk
from canary.search.enumerate import leaf_costs
from canary.search.node_sampling import sample_nodes
from canary.search.rank_counter import most_leaves
from canary.search.step import context_nats
from canary.tokens.candidates import CandidateEncoder
from canary.tokens.fast import as_tokenizer
from canary.tokens.tree import compile_tree

TOKENIZER = as_tokenizer(character_tokenizer())
FORMATS = [
    "a{digit:3}",
    "a{digit:1}-{digit:1}.",
    "b {choice:aa|ab|ba} end",
    "a{choice:ax|b|cyz}{digit:1}:{choice:p|q}..",
    "a{digit:1}{choice:b|cd|ce}{digit:1}",
    "only {choice:one} fill",
]
SEEDS = range(36)  # each format six times, half of them with ties


@dataclass
class Watched:
    """A walker whose tokens and expanded nodes are counted from outside."""

    walker: object
    tokens: int = 0
    begun: int = 0
    depths: Counter = field(default_factory=Counter)
    interrupt_after: int | None = None

    def __post_init__(self):
        below, step = self, self.walker._step

        def counted(parents, depth, tokens, into):
            below.begun += len(tokens)
            return step(parents, depth, tokens, into)

        self.walker._step = counted

    @property
    def room(self):
        return self.walker.room

    @property
    def context_log_probs(self):
        return self.walker.context_log_probs

    def release(self, handles):
        self.walker.release(handles)

    def expand(self, nodes, tokens, *, keep=True):
        if self.interrupt_after is not None:
            self.interrupt_after -= 1
            if self.interrupt_after < 0:
                raise KeyboardInterrupt
        self.depths.update(np.asarray(nodes.lengths).tolist())
        self.begun = 0
        found = self.walker.expand(nodes, tokens, keep=keep)
        self.tokens += self.begun  # what ran out of memory is not counted, it is done again
        return found


def random_model(seed: int) -> TableModel:
    """An n-gram table; every second one prices so coarsely that ties abound."""
    rng = np.random.default_rng(seed)
    keys = [(), *((int(t),) for t in range(20)), *map(tuple, rng.integers(0, 45, (30, 2)).tolist())]
    logits = rng.normal(0, rng.choice([0.3, 2.0, 5.0]), (len(keys), len(CHARACTERS)))
    if seed % 2:  # and forbids a digit after some
        logits = np.round(logits)
        logits[rng.integers(0, len(keys), 9), rng.integers(0, 10, 9)] = -np.inf
    logs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    if seed % 2:  # equal powers of two, so that sums tie to the last bit
        logs = np.floor(logs / np.log(2)) * np.float64(np.float32(np.log(2)))
    return TableModel.ngram(dict(zip(keys, logs, strict=True)), TOKENIZER)


@dataclass
class Case:
    """A space with its brute-force ranks, and canaries in it."""

    model: object
    tree: object
    px: np.ndarray
    numbers: np.ndarray

    @classmethod
    @functools.cache
    def of(cls, seed: int, canaries: int = 5) -> Case:
        format = Format(FORMATS[seed // 2 % len(FORMATS)])
        model = random_model(seed)
        px = np.array(score(model, [format.candidate(fill) for fill in format]))
        possible = np.flatnonzero(np.isfinite(px))
        rng = np.random.default_rng(seed)
        # The likeliest among them, and two that are the same.
        numbers = rng.choice(possible, min(canaries, len(possible)), replace=False)
        if len(possible):
            numbers = np.append(numbers, [possible[np.argmin(px[possible])], numbers[0]])
        return cls(model, compile_tree(format, CandidateEncoder(TOKENIZER)), px, numbers)

    def ranks(self) -> np.ndarray:
        return np.array([(self.px <= self.px[n]).sum() for n in self.numbers])

    def open(self, **options):
        """A walk over it, with a batcher and a walker that are watched."""
        batch_size = options.pop("batch_size", None)
        memory = options.pop("memory_bytes", 2**18)
        batcher = Batcher(self.model, batch_size=batch_size)
        context = Context(self.tree.context)
        walker = self.model.open(context, memory_bytes=memory)
        costs, _ = leaf_costs(self.tree, walker, batcher, self.numbers)
        watched = Watched(walker)
        return watched, BoundedWalk(
            self.tree,
            watched,
            batcher,
            numbers=self.numbers,
            costs=costs,
            noise_bits=0.0,
            **options,
        )


@pytest.mark.parametrize(
    ("options", "seeds"),
    [
        ({}, SEEDS),
        ({"most_parked": 3}, SEEDS),
        ({"memory_bytes": 600}, SEEDS[:24]),
        ({"batch_size": 1}, SEEDS[:24]),
    ],
    ids=["roomy", "frontier forgotten", "little memory", "one by one"],
)
def test_rank_oracle(options, seeds) -> None:
    """Ties included, with one format after another."""
    for seed in seeds:
        case = Case.of(seed)
        room_before = case.open(**options)[0].room
        watched, walk = case.open(**options)
        assert walk.run()
        found = walk.bounds()
        for values in (found.rank, found.lower, found.upper):
            np.testing.assert_array_equal(values, case.ranks())
        assert found.exact.all()
        assert found.queries == watched.tokens
        assert watched.room == room_before, "a state was not let go"
        if "most_parked" not in options and "memory_bytes" not in options:
            assert found.queries <= case.tree.queries()


def test_the_interval_holds_at_every_budget_oracle() -> None:
    """From nothing spent to the last query, and it only ever gets narrower."""
    for seed in SEEDS:
        case = Case.of(seed)
        ranks = case.ranks()
        tight = ({"most_parked": 2}, {"memory_bytes": 600})
        for options in ({}, *(tight if seed < 12 else ())):
            watched, walk = case.open(**options)
            before, spent = walk.bounds(), 0
            assert before.queries == 0
            for step in range(3000):
                found = walk.bounds()
                assert (found.lower <= ranks).all()
                assert (ranks <= found.upper).all()
                assert (before.lower <= found.lower).all()
                assert (found.upper <= before.upper).all()
                assert (found.rank[found.exact] == ranks[found.exact]).all()
                assert found.queries == watched.tokens
                if found.exact.all():
                    break
                # One query at a time; more where the next node needs more at once.
                allowed = 1 + (found.queries == spent and step > 0) * 20
                spent = found.queries
                walk.run(budget=allowed)
                assert watched.tokens <= spent + allowed
                before = found
            assert found.exact.all(), "it did not close"


def test_open_nodes_theory() -> None:
    """At most 2^B at any depth; beyond the fill's own bits, only as far as a suffix loosens."""
    for seed in SEEDS:
        case = replace(Case.of(seed), numbers=Case.of(seed).numbers[:1])
        watched, walk = case.open()
        context = -float(watched.context_log_probs.sum()) / math.log(2)
        assert walk.run()
        bits = float(case.px[case.numbers[0]]) - context
        most = max((count for depth, count in watched.depths.items() if depth), default=0)
        assert most <= 2 ** (bits + 1e-4)
        free = most_leaves(np.array([bits]), np.array([case.tree.size]), excess_bits=1e-3)[0]
        assert case.ranks()[0] <= free <= 2 ** (bits + 0.01)


def test_bounds_are_exact_on_one_node_golden() -> None:
    """3 bits: at most 8 leaves; 2.9: 7; more bits than there are leaves: all leaves."""
    bits, leaves = np.array([3.0, 2.9, 0.0, 70.0, 62.5]), np.array([100, 100, 5, 9, 2**62])
    found = most_leaves(bits, leaves, excess_bits=1e-3)
    np.testing.assert_array_equal(found, [8, 7, 1, 9, 2**62])


def test_a_softmax_that_sums_to_more_than_1_theory() -> None:
    """Ten digits of (1 + 1e-6) / 10 each, in float32: a hundred leaves below 2 log2(10) bits."""
    digits = np.full(10, (1 + 1e-6) / 10, np.float32)
    assert float(digits.astype(np.float64).sum()) > 1 + 5e-7
    logs = np.full(len(CHARACTERS), -np.inf)
    logs[:10] = np.log(digits.astype(np.float64))
    model, format = TableModel.ngram({(): logs}, TOKENIZER), Format("0{digit:2}")
    tree = compile_tree(format, CandidateEncoder(TOKENIZER))
    px, numbers = np.array(score(model, list(map(format.candidate, format)))), np.arange(100)
    case = Case(model, tree, px, numbers)
    assert (case.ranks() == 100).all()
    watched, walk = case.open()
    assert (walk.bounds().upper == 100).all()
    context = context_nats(watched) / math.log(2)
    assert 2 ** (px[0] - context) < 100, "the bound would hold without slack"

    found = extract(model, format, top=3, most_open=1, batch_size=1)
    assert [c.exposure_lower_bits for c in found.candidates] == [0.0] * 3
    with model.open(Context(tree.context), memory_bytes=2**18) as walker:
        sample = sample_nodes(
            tree, walker, Batcher(model), width=1, rng=np.random.default_rng(0)
        ).count(float(px[0]) * math.log(2) + 1e-12)
    assert sample.found + sample.unseen >= 100


def test_parked_nodes_leave_half_of_the_room() -> None:
    """So that a pass can hold the states of its own nodes, one for each level here."""
    for seed in SEEDS[:40:4]:
        case = Case.of(seed)
        model, least = case.model, 10**6
        memory = 16 * model.memory().bytes_per_held_token
        watched, walk = case.open(batch_size=1, memory_bytes=memory)
        whole = watched.room
        while not walk.run(budget=8):
            least = min(least, watched.room)
        assert least >= whole // 2 - 3
        assert watched.room == whole


@pytest.mark.parametrize("seed", [3, 24])
def test_an_interrupted_walk_tells_what_is_certain_and_goes_on(seed) -> None:
    """Ctrl-C between any two lines of the walk, and in the model."""
    case = Case.of(seed)
    ranks = case.ranks()
    options = {"batch_size": 4, "most_parked": 12}
    for line in range(1, 4000, 151):
        watched, walk = case.open(**options)
        interrupted = True
        with interruption(line):
            try:
                walk.run()
                interrupted = False
            except KeyboardInterrupt:
                pass
        found = walk.bounds()
        assert (found.lower <= ranks).all()
        assert (ranks <= found.upper).all()
        assert walk.run()
        np.testing.assert_array_equal(walk.bounds().rank, ranks)
        if not interrupted:
            break
    assert line > 300
    watched, walk = case.open(**options)
    watched.interrupt_after = 3
    with pytest.raises(KeyboardInterrupt):
        walk.run()
    watched.interrupt_after = None
    assert walk.run()
    np.testing.assert_array_equal(walk.bounds().rank, ranks)


@contextmanager
def interruption(after: int):
    """A KeyboardInterrupt before a line of the walk, that many lines on."""
    left = after

    def trace(frame, event, _argument):
        nonlocal left
        if frame.f_code.co_filename != bounded.__file__:
            return None
        if event == "line":
            left -= 1
            if left == 0:
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)
