"""Importance draws against uniform draws that would give the same intervals.

    python tests/benchmarks/importance.py [--width 4000] [--runs 10] [--digits 9] [--rounds 5]

The first part draws from a synthetic tree of 10^9 leaves (normal edges, 1 bit of spread)
and takes the mean width of the 95 % intervals at the ranks 1, 10, ..., 10^8. So many uniform
draws give an interval of the same width by the variance of a binomial share p = rank / 10^9:
(1 - p) / p / v with v the variance of the logarithm that the width stands for. The ranks are
those of a sample forty times as wide. The second part draws from all candidates of so many
digits under the model of `character_lstm.py`, and tells which share of the time lay outside
the model's forward, and outside of the model and the gathering of its states. One JSON line;
null where an interval has no width.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from character_lstm import TimedWalker, WalkTimes, character_lstm, digits_tree
from figures import middle, options, show

from canary.models.language_model import Context
from canary.scoring.batcher import Batcher
from canary.search.node_sampling import importance_sample

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
from synthetic_trees import HashedTree


def against_uniform(width: int, runs: int) -> dict[str, object]:
    synthetic = HashedTree(1.0, 1)
    batcher = Batcher(synthetic, batch_size=8192)

    def draw(width: int, seed: int):
        rng = np.random.default_rng(seed)
        return importance_sample(synthetic.tree, synthetic, batcher, width=width, rng=rng)

    wide = draw(40 * width, 0)
    weights = np.cumsum(wide.weights[wide.nodes])
    ranks = 10.0 ** np.arange(9)
    limits = wide.costs[np.minimum(np.searchsorted(weights, ranks), len(weights) - 1)]
    bits, queries = [], []
    for seed in range(1, runs + 1):
        sample = draw(width, seed)
        queries.append(sample.queries)
        bits.append([])
        for limit in limits:
            # The leaf at the limit is the canary's.
            own = wide.numbers[wide.costs == limit]
            low, high = sample.count(limit, known=own).interval(0.95)
            bits[-1].append(np.log2((1 + high) / (1 + low)))
    widths = np.mean(bits, axis=0)
    shares = ranks / synthetic.tree.size
    with np.errstate(divide="ignore"):
        variances = (widths * np.log(2) / (2 * 1.96)) ** 2
        uniform = (1 - shares) / shares / variances
    return {
        "leaves": synthetic.tree.size,
        "width": width,
        "queries": round(float(np.mean(queries))),
        "ranks": [int(rank) for rank in ranks],
        "interval_bits": widths.round(3).tolist(),
        "uniform_draws": [float(f"{n:.2g}") if np.isfinite(n) else None for n in uniform],
        "ratio": [float(f"{n / width:.2g}") if np.isfinite(n) else None for n in uniform],
    }


def outside_model(width: int, digits: int, *, threads: int, rounds: int) -> dict[str, object]:
    module, model = character_lstm(threads=threads)
    tree, batcher = digits_tree(model, digits), Batcher(model)
    for seed in range(rounds + 1):
        if seed < 2:  # the first round finds the batch size
            times = WalkTimes(module)
        with model.open(Context(tree.context), memory_bytes=2**28) as opened:
            walker, rng = TimedWalker(opened), np.random.default_rng(seed)
            with times.of(walker) as clock:
                sample = importance_sample(tree, walker, batcher, width=width, rng=rng)
        times.rates.append(sample.queries / clock.cpu)
    return {
        "lstm_queries": sample.queries,
        "lstm_queries_per_cpu_second": middle(times.rates),
        **times.shares(),
    }


def main() -> None:
    given = options(width=4_000, runs=10, digits=9, rounds=5, threads=1)
    show(
        "importance",
        **against_uniform(given.width, given.runs),
        digits=given.digits,
        **outside_model(20_000, given.digits, threads=given.threads, rounds=given.rounds),
    )


if __name__ == "__main__":
    main()
