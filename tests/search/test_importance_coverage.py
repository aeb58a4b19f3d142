"""How widely importance draws vary, and how often their intervals hold the true rank."""

from __future__ import annotations

import json

import numpy as np
import pytest
from synthetic_trees import HashedTree, SyntheticTree

from canary.scoring.batcher import Batcher
from canary.search.node_sampling import importance_sample

SPREADS = (0.3, 1.0, 3.2)
SHARES = (0.5, 0.1, 0.01, 0.001)
TAILS = ("exponential", "student", "cauchy", "pareto", "pareto costs")
HEAVY = [(kind, sd) for kind in TAILS for sd in (0.3, 1.0)]


def study(kind, sd_bits, *, trees, runs, ranks, width, depth=6):
    """Per tree and rank: relative standard deviation; in all: coverage and mean width in bits.

    Counts for the deviation hold the canary's own leaf; intervals are of the others.
    """
    deviations, covered, wide, given = [], [], [], []
    for tree in range(trees):
        synthetic = SyntheticTree(sd_bits, 100 + tree, kind=kind, depth=depth)
        batcher = Batcher(synthetic, batch_size=8192)
        canaries = np.argsort(synthetic.costs)[np.asarray(ranks) - 1]
        totals = []
        for run in range(runs):
            rng = np.random.default_rng([tree, run])
            sample = importance_sample(synthetic.tree, synthetic, batcher, width=width, rng=rng)
            limits = synthetic.costs[canaries]
            totals.append([sample.count(limit).total for limit in limits])
            ends = [
                sample.count(limit, known=np.array([c])).interval(0.95)
                for limit, c in zip(limits, canaries, strict=True)
            ]
            given.append([e is not None for e in ends])
            low, high = np.array([e or (0, 10**depth) for e in ends], float).T
            covered.append((low < ranks) & (ranks <= high + 1))
            wide.append(np.log2((1 + high) / (1 + low)))
        deviations.append(np.std(totals, axis=0) / ranks)
    return {
        "kind": kind,
        "sd_bits": sd_bits,
        "width": width,
        "ranks": list(ranks),
        "median_deviation": np.median(deviations, axis=0).round(3).tolist(),
        "largest_deviation": np.max(deviations, axis=0).round(3).tolist(),
        "coverage": np.mean(covered, axis=0).round(3).tolist(),
        "interval_bits": np.mean(wide, axis=0).round(2).tolist(),
        "given": np.mean(given, axis=0).round(3).tolist(),
    }


def test_deviation_and_coverage_in_small() -> None:
    """10,000 leaves, a fifth of the nodes above them: 60 runs on 3 trees."""
    found = study("normal", 1.0, trees=3, runs=20, ranks=(1, 10, 100, 1000), width=200, depth=4)
    assert found["median_deviation"][0] <= 0.45
    assert found["median_deviation"][1] <= 0.45
    assert max(found["largest_deviation"][2:]) <= 0.35
    assert min(found["coverage"]) >= 0.93
    assert min(found["given"]) == 1.0


def test_likely_leaves_that_stand_together_in_small() -> None:
    """Siblings that cost much make all others likely: a missed node is several leaves."""
    ranks = (1, 10, 30, 100, 300, 1000, 10_000)
    found = study("pareto costs", 0.3, trees=4, runs=25, ranks=ranks, width=200, depth=5)
    assert min(found["coverage"]) >= 0.93


def deep_samples(width, runs):
    """Samples of a tree of 10^18, and the costs at shares of its space, by uniform draws."""
    synthetic, digits = HashedTree(3.2, 7, depth=18), 10
    rng, n = np.random.default_rng(0), 100_000
    costs, at = np.zeros(n), np.zeros(n, np.int64)
    for level in range(synthetic.depth):
        choices = rng.integers(0, digits, n)
        costs -= synthetic._scores(level, at)[np.arange(n), choices]
        at = digits * at + choices
    limits = np.quantile(costs, SHARES)
    batcher = Batcher(synthetic, batch_size=8192)
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        options = {"width": width, "rng": rng, "ceiling": float(limits[0])}
        yield importance_sample(synthetic.tree, synthetic, batcher, **options), limits


def test_few_draws_in_a_deep_tree_carry_no_interval() -> None:
    """Ten uniform draws on each of 18 levels: totals drift by factors, without a trace."""
    for sample, limits in deep_samples(100, 3):
        assert [sample.count(limit).interval(0.95) for limit in limits] == [None] * len(SHARES)
        assert np.isfinite(sample.count(limits[0]).total)


@pytest.mark.slow
def test_coverage_in_a_deep_tree() -> None:
    """200 runs; the ranks are known to a tenth."""
    held = []
    for sample, limits in deep_samples(800, 200):
        ends = [sample.count(limit).interval(0.95) for limit in limits]
        ranks = np.array(SHARES) * 10**18
        held.append([a / 1.1 <= r <= 1.1 * b for (a, b), r in zip(ends, ranks, strict=True)])
    print(np.mean(held, axis=0))  # noqa: T201
    assert np.mean(held, axis=0).min() >= 0.93


@pytest.mark.slow
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("width", [800, 4_000])
@pytest.mark.parametrize(("kind", "sd_bits"), [*(("normal", sd) for sd in SPREADS), *HEAVY])
def test_deviation_and_coverage(kind: str, sd_bits: float, width: int) -> None:
    """1,000 runs on trees of a million: 20 trees, 50 runs each.

    Heavy tails may widen intervals; they must hold the rank as often all the same.
    """
    ranks = (1, 2, 10, 30, 100, 300, 1_000, 10_000, 100_000)
    found = study(kind, sd_bits, trees=20, runs=50, ranks=ranks, width=width)
    print(json.dumps(found))  # noqa: T201
    assert min(found["coverage"]) >= 0.93
    if kind == "normal" and width == 4_000:
        assert max(found["median_deviation"][:3]) <= 0.45
        assert max(found["largest_deviation"][4:]) <= 0.2
