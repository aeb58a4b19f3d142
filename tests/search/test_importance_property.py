"""Importance draws: unbiased at every cost, exact where they can be, and valid bounds."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from small_models import CHARACTERS, build, character_tokenizer
from synthetic_trees import SyntheticTree
from walk_cases import Case

from canary.formats.format import Format
from canary.models.language_model import Context
from canary.models.table_model import TableModel
from canary.scoring.batcher import Batcher
from canary.search.enumerate import leaf_costs
from canary.search.node_sample import Guide
from canary.search.node_sampling import _chances, _Children, importance_sample, sample_nodes
from canary.search.pricing import Pricer
from canary.search.ranking import rank_by_importance
from canary.statistics.exposures import exposure_by_draws
from canary.statistics.importance import exposure_by_importance
from canary.tokens.candidates import CandidateEncoder
from canary.tokens.fast import as_tokenizer
from canary.tokens.tree import compile_tree

RAGGED = "a{digit:2}{choice:b|cd|ce}"  # leaves at two depths below one node
FORMATS = ["a{digit:3}", RAGGED, "x{choice:1}{digit:2}.", "b {choice:aa|ab|ba} end"]


def samples(synthetic: SyntheticTree, width: int, runs: int):
    batcher = Batcher(synthetic, batch_size=512)
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        yield importance_sample(synthetic.tree, synthetic, batcher, width=width, rng=rng)


def check_mean(totals, wanted) -> None:
    """Means within 4 standard errors: of 100 runs, one in 16,000 is not where all is right."""
    error = np.std(totals, axis=0) / np.sqrt(len(totals))
    assert (np.abs(np.mean(totals, axis=0) - wanted) <= 4 * error + 1e-9).all()


@pytest.mark.parametrize("kind", ["normal", "student"])
def test_counts_are_unbiased_at_every_cost_theory(kind: str) -> None:
    """Their variance is as estimated."""
    synthetic = SyntheticTree(2.0, 1, kind=kind, depth=5, degree=6)  # two levels are wider
    ranks = np.array([1, 6, 36, 216, 7776])
    limits = np.sort(synthetic.costs)[ranks - 1]
    counts = [[s.count(limit) for limit in limits] for s in samples(synthetic, 130, 100)]
    totals = np.array([[count.total for count in row] for row in counts])
    check_mean(totals, ranks)
    assert totals.std(axis=0)[2:].min() > 0.0
    # Draws on a grid vary at most as much as independent ones, for which the estimate is made.
    estimated = np.array([[count.deviation**2 for count in row] for row in counts]).mean(axis=0)
    assert (estimated >= 0.7 * totals.var(axis=0)).all()


def test_any_guide_leaves_counts_unbiased_theory() -> None:
    """Even one that prefers what is dear: only the variance is larger."""
    synthetic = SyntheticTree(1.0, 2, depth=3, degree=8)
    limit = np.sort(synthetic.costs)[19]
    wrong = Guide(np.array([2.0]), np.array([0.0]), 0.01, np.linspace(0, 8, 1500)[None])
    rng, batcher = np.random.default_rng(0), Batcher(synthetic, batch_size=64)
    totals = [
        sample_nodes(synthetic.tree, synthetic, batcher, width=6, rng=rng, guide=wrong)
        .count(limit)
        .total
        for _ in range(400)
    ]
    check_mean(totals, 20)


@pytest.mark.parametrize("nats", [1.0, 740.0, 5_000.0])
def test_chances_fill_the_width_however_small_the_worths_are(nats: float) -> None:
    """50 children are certain, and 5,000 far behind them share the other 50 nodes alike."""

    class Steep(Guide):
        def log_worth(self, costs, leaves):
            return -costs

    count = 5_050
    costs = np.where(np.arange(count) < 50, 0.0, nats + 10.0)
    ones, places = np.ones(count), np.arange(count)
    children = _Children(costs, ones.astype(int), places, places, places, ones, -1e3 * ones)
    steep = Steep(np.zeros(1), np.zeros(1), 1.0, np.zeros((1, 2)))
    chances = _chances(children, 100, 10**12, steep)
    assert (chances[:50] == 1.0).all()
    assert chances[50:] == pytest.approx(np.full(5_000, 0.01))


def test_a_wide_sample_is_the_whole_tree() -> None:
    synthetic = SyntheticTree(1.0, 3, depth=4, degree=5)
    (sample,) = samples(synthetic, 400, 1)
    assert (sample.weights == 1.0).all()
    np.testing.assert_array_equal(np.sort(sample.numbers), np.arange(625))
    np.testing.assert_allclose(sample.costs, np.sort(synthetic.costs))
    np.testing.assert_allclose(synthetic.costs[sample.numbers], sample.costs)
    for rank in (1, 7, 625):
        count = sample.count(sample.costs[rank - 1])
        assert (count.total, count.deviation, count.unseen) == (rank, 0.0, 0)
        assert count.exact
        assert count.effective is None
        assert count.interval(0.95) == (rank, rank)


def test_what_the_model_holds_likely_is_found_for_certain() -> None:
    """A path of 4 bits, hidden below dear edges, whatever the draws: 2^-4 > 1 / (0.1 * 500)."""
    synthetic = SyntheticTree(0.3, 4, depth=5, degree=10)
    hidden = 73_512
    for level, scores in enumerate(synthetic.edges):
        node, choice = divmod(hidden // 10 ** (4 - level), 10)
        p = 0.16 if level == 0 else 0.8
        row = np.full(10, (1 - p) / 9)
        row[choice] = p
        scores[node] = np.log(row)
    for sample in samples(synthetic, 600, 20):
        (at,) = np.flatnonzero(sample.numbers == hidden)
        assert sample.weights[sample.nodes[at]] == 1.0
        assert sample.count(synthetic.costs[hidden]).exact


@pytest.mark.parametrize("kind", ["normal", "student", "cauchy"])
def test_certain_bounds_and_weights_hold_at_every_width(kind: str) -> None:
    """Uniform draws and the model's own bound every weight, whatever the guide."""
    synthetic = SyntheticTree(3.0, 5, kind=kind, depth=4, degree=6)
    ordered = np.sort(synthetic.costs)
    narrow = 0
    for width in (70, 100, 200):
        for sample in samples(synthetic, width, 5):
            for rank in (1, 5, 30, 200, 1296):
                count = sample.count(ordered[rank - 1])
                assert count.found <= rank <= count.found + count.unseen
                narrow += count.unseen < 50
            share = np.maximum(np.exp(-sample.costs), 1 / synthetic.tree.size)
            floor = np.minimum(1.0, 0.1 * (width - min(64, width // 2)) * share)
            assert (1 / sample.weights[sample.nodes] >= floor * (1 - 1e-9)).all()
    assert narrow > 30


@pytest.mark.parametrize(
    ("name", "text"),
    [*(("table", text) for text in FORMATS), ("lstm", FORMATS[2]), ("gpt2", RAGGED)],
)
def test_leaves_and_costs_oracle(name: str, text: str) -> None:
    """Each leaf has the cost of its whole row and is below one node; no state is kept."""
    case = Case(build(name), text)
    batcher = Batcher(case.model, batch_size=7)
    with case.open(case.states(64)) as walker:
        room = walker.room
        for width in (1, 5, 30):
            rng = np.random.default_rng(width)
            sample = sample_nodes(case.tree, walker, batcher, width=width, rng=rng)
            assert walker.room == room
            assert len(np.unique(sample.numbers)) == len(sample.numbers)
            np.testing.assert_allclose(sample.costs, case.costs[sample.numbers], atol=1e-4)
            assert all(n <= width for n in sample.levels[1:])


@pytest.mark.parametrize("text", FORMATS)
def test_unguided_counts_of_any_format_theory(text: str) -> None:
    """Leaves at several depths, forced tokens and fixed ends: all are counted, in the mean."""
    case, rng = Case(build("table"), text), np.random.default_rng(0)
    batcher = Batcher(case.model, batch_size=64)
    with case.open() as walker:
        totals = [
            sample_nodes(case.tree, walker, batcher, width=5, rng=rng).count(np.inf).total
            for _ in range(100)
        ]
    check_mean(totals, case.format.size)


def test_batch_size_does_not_matter_property() -> None:
    """The same draws from the same seed, one node at a time or all at once."""
    case, found = Case(build("table"), "a{digit:3}"), []
    for batch_size in (1, 7, 4096):
        batcher, rng = Batcher(case.model, batch_size=batch_size), np.random.default_rng(1)
        with case.open() as walker:
            found.append(importance_sample(case.tree, walker, batcher, width=90, rng=rng))
    for sample in found[1:]:
        np.testing.assert_array_equal(sample.numbers, found[0].numbers)
        np.testing.assert_allclose(sample.weights, found[0].weights)
        assert sample.queries == found[0].queries


class Numbers(Pricer):
    """Leaves below an open walker, by their numbers instead of their fills."""

    def leaves(self, fills):
        return np.asarray(fills)


def pricing(model, tree, walker, noise_bits=0.0):
    pricer = Numbers(model, None, None, tree, noise_bits)
    vars(pricer)["walker"] = walker
    return pricer


def ranked(synthetic: SyntheticTree, numbers, *, width=300, seed=0, rng=None, noise_bits=0.0):
    pricer = pricing(synthetic, synthetic.tree, synthetic, noise_bits)
    rng = rng or np.random.default_rng(seed)
    batcher = Batcher(synthetic, batch_size=512)
    return rank_by_importance(pricer, batcher, numbers, width=width, rng=rng)


def test_canaries_are_counted_one_by_one() -> None:
    """A canary's own leaf and those of others never stand in a weighted count."""
    synthetic = SyntheticTree(1.0, 7, depth=4, degree=8)
    order = np.argsort(synthetic.costs)
    likeliest = order[:12]
    for seed in range(10):
        found = ranked(synthetic, likeliest, width=200, seed=seed)
        for at, count in enumerate(found.counts):
            assert count.known == at + 1
            assert count.point.total == 0.0
            assert count.interval(0.95)[0] == at + 1
    np.testing.assert_allclose(found.costs_bits * np.log(2), synthetic.costs[likeliest])
    twice = ranked(synthetic, np.array([order[3], order[3]]), width=10_000)
    assert [count.known + count.point.total for count in twice.counts] == [4.0, 4.0]


def test_noise_makes_ties_of_unknown_order() -> None:
    synthetic = SyntheticTree(1.0, 8, depth=3, degree=8)
    ordered = np.sort(synthetic.costs) / np.log(2)
    number = np.argsort(synthetic.costs)[40]
    found = ranked(synthetic, [number], width=5_000, noise_bits=0.25).counts[0]
    low = 1 + np.count_nonzero(ordered < ordered[40] - 0.25)
    high = np.count_nonzero(ordered <= ordered[40] + 0.25)
    assert low < 41 < high
    assert found.interval(0.95) == (low, high) == found.certain
    assert found.known + found.point.total == 41


class Small(TableModel):
    """One state of digits that hardly differ, with memory for so many states of a walk."""

    def __init__(self, room: int | None) -> None:
        tokenizer = as_tokenizer(character_tokenizer())
        scores = np.random.default_rng(0).normal(0, 0.3, len(CHARACTERS))
        logs = scores - np.log(np.exp(scores).sum())
        super().__init__(np.zeros((1, len(CHARACTERS)), int), logs[None], tokenizer)
        self.room = room

    def opened(self, tree):
        memory = 2**30 if self.room is None else self.room * self.memory().bytes_per_held_token
        return self.open(Context(tree.context), memory_bytes=memory)


@pytest.mark.parametrize("room", [50, None])
def test_a_budget_holds_however_little_room_there_is(room) -> None:
    model, budget = Small(room), 6_000
    tree = compile_tree(Format("a{digit:8}"), CandidateEncoder(model.tokenizer))
    numbers, batcher = np.array([7, 12_345_678]), Batcher(model, batch_size=64)
    width = budget // 8 - len(numbers) - 1

    def ranked_within(budget):
        rng = np.random.default_rng(0)
        with model.opened(tree) as walker:
            pricer = pricing(model, tree, walker)
            return rank_by_importance(pricer, batcher, numbers, width=width, rng=rng, budget=budget)

    ranks = ranked_within(budget)
    assert budget / 5 <= ranks.queries <= budget
    if room is None:  # nothing was given up for it
        free = ranked_within(None)
        assert free.queries == ranks.queries
        assert free.counts == ranks.counts


def test_levels_made_narrow_by_a_budget_leave_counts_unbiased_theory() -> None:
    """Widths follow from what was paid above, not from what is drawn."""
    model = Small(20)
    tree = compile_tree(Format("a{digit:4}"), CandidateEncoder(model.tokenizer))
    batcher = Batcher(model, batch_size=64)
    with model.opened(tree) as walker:
        costs = np.sort(leaf_costs(tree, walker, batcher, np.arange(tree.size))[0])
    ranks = np.array([30, 300, 3_000])
    limits, totals = (costs[ranks - 1] + costs[ranks]) / 2, []
    for seed in range(100):
        with model.opened(tree) as walker:
            sample = importance_sample(
                tree, walker, batcher, width=80, rng=np.random.default_rng(seed), budget=250
            )
        assert sample.queries <= 250
        assert max(sample.levels) < 72  # narrower than was asked for, the pilot left aside
        totals.append([sample.count(limit).total for limit in limits])
    assert np.std(totals, axis=0).min() > 0.0
    # Leaves of equal digits tie; the limits stand between costs that differ.
    check_mean(totals, np.searchsorted(costs, limits, side="right"))


@pytest.mark.parametrize("kind", ["flat", "one"])
def test_degenerate_trees(kind: str) -> None:
    """All candidates alike: all of them are ties. Impossible ones are no candidates at all."""
    synthetic = SyntheticTree(1.0, 1, depth=4, degree=6)
    for scores in synthetic.edges:
        scores[:] = -np.log(6) if kind == "flat" else -np.inf
        if kind == "one":
            scores[:, 2] = 0.0
    for seed in range(5):
        number = 0 if kind == "flat" else 2 * (1 + 6 + 36 + 216)
        count = ranked(synthetic, [number], width=100, seed=seed).counts[0]
        assert count.known == 1
        low, high = count.interval(0.95)
        assert low <= (1296 if kind == "flat" else 1) <= high
        if kind == "one":
            assert count.up_to.exact


@pytest.mark.parametrize("width", [1, 2, 3, 10, 40])
def test_a_pilot_that_sees_next_to_nothing_degenerate(width) -> None:
    """Edges that hardly differ but for one that costs much: no table grows without end."""
    synthetic = SyntheticTree(1e-9, 3, depth=4, degree=3)
    for scores in synthetic.edges:
        scores[:, 0] = -200.0
    number = int(np.argsort(synthetic.costs)[3])
    tracemalloc.start()
    for seed in range(5):
        count = ranked(synthetic, [number], width=width, seed=seed).counts[0]
        assert count.certain[0] <= int((synthetic.costs <= synthetic.costs[number]).sum())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5e7


@pytest.mark.parametrize(
    ("kind", "width", "noise_bits"),
    [("student", 150, 0.0), ("student", 150, 0.3), ("cauchy", 300, 0.0), ("cauchy", 300, 0.3)],
)
def test_a_rank_called_exact_is_the_rank_oracle(kind: str, width: int, noise_bits: float) -> None:
    """Nodes that were entered by chance weigh more than one, and all may be found even so."""
    exact, lucky = 0, 0
    for number in range(4):
        synthetic = SyntheticTree(2.0, number, kind=kind, depth=5, degree=6)
        order, size = np.argsort(synthetic.costs), len(synthetic.costs)
        places = [0, 4, 20]
        for seed in range(6):
            rng = np.random.default_rng(seed)
            found = ranked(synthetic, order[places], width=width, rng=rng, noise_bits=noise_bits)
            draws = synthetic.costs[rng.integers(0, size, 300)] / np.log(2)
            uniform = exposure_by_draws(found.costs_bits, draws, space_size=size)
            exposures = exposure_by_importance(found.counts, uniform, space_size=size)
            for place, count, exposure in zip(places, found.counts, exposures, strict=True):
                if exposure.exact:
                    assert exposure.rank == place + 1
                    exact += 1
                    lucky += abs(count.known + count.point.total - place - 1) > 1e-6
    assert exact > 20
    assert lucky > 0
