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

import argparse
import json
import statistics
import sys
import time
from pathlib import Path

import numpy as np
from character_lstm import TimedWalker, character_lstm, digits_tree
from spread import spread

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
    rates, outside, outside_both = [], [], []
    for seed in range(rounds + 1):  # the first one finds the batch size
        with model.open(Context(tree.context), memory_bytes=2**28) as opened:
            walker, module.seconds = TimedWalker(opened), 0.0
            began = time.process_time()
            rng = np.random.default_rng(seed)
            sample = importance_sample(tree, walker, batcher, width=width, rng=rng)
            seconds = time.process_time() - began
        rates.append(sample.queries / seconds)
        outside.append(1 - module.seconds / seconds)
        outside_both.append(1 - walker.seconds / seconds)
    return {
        "lstm_queries": sample.queries,
        "lstm_queries_per_cpu_second": round(statistics.median(rates[1:])),
        "outside_model": round(statistics.median(outside[1:]), 3),
        **spread("outside_model_and_gathering", outside_both[1:]),
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--width", type=int, default=4_000)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--digits", type=int, default=9)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    found = against_uniform(options.width, options.runs)
    print(
        json.dumps(
            {
                "benchmark": "importance",
                **found,
                "digits": options.digits,
                **outside_model(
                    20_000, options.digits, threads=options.threads, rounds=options.rounds
                ),
            }
        )
    )


if __name__ == "__main__":
    main()
