"""Importance draws against uniform draws that would give the same intervals.

    python tests/benchmarks/importance.py [--width 4000] [--runs 10] [--digits 9]

The first part draws from a synthetic tree of 10^9 leaves (normal edges, 1 bit of spread)
and takes the mean width of the 95 % intervals at the ranks 1, 10, ..., 10^8. So many uniform
draws give an interval of the same width by the variance of a binomial share p = rank / 10^9:
(1 - p) / p / v with v the variance of the logarithm that the width stands for. The ranks are
those of a sample forty times as wide. The second part draws from all candidates of so many
digits under the Secret Sharer's LSTM with random weights, and tells which share of the
processor time lay outside the model's forward. One JSON line; null where an interval has no
width.
"""

from __future__ import annotations

import argparse
import json
import string
import sys
import time
from pathlib import Path

import numpy as np
import torch
from enumeration import Lstm
from tokenizers import Tokenizer, models

from canary.formats.format import Format
from canary.models.base import Context
from canary.models.loading import load
from canary.scoring.batcher import Batcher
from canary.search.importance import importance_sample
from canary.tokens.candidates import CandidateEncoder
from canary.tokens.tree import compile_tree

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


def outside_model(width: int, digits: int) -> dict[str, object]:
    letters = sorted(set(string.printable))
    tokenizer = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(letters)}, merges=[]))
    module = Lstm(len(letters)).eval()
    model = load(module, tokenizer=tokenizer)
    format = Format(f"The random number is {{digit:{digits}}}")
    tree = compile_tree(format, CandidateEncoder(model.tokenizer))
    batcher = Batcher(model)
    with model.open(Context(tree.context), memory_bytes=2**28) as walker:
        for seed in range(2):  # the first one finds the batch size
            module.seconds, began = 0.0, time.process_time()
            rng = np.random.default_rng(seed)
            sample = importance_sample(tree, walker, batcher, width=width, rng=rng)
            seconds = time.process_time() - began
    return {
        "lstm_queries_per_second": round(sample.queries / seconds),
        "outside_forward": round(1 - module.seconds / seconds, 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--width", type=int, default=4_000)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--digits", type=int, default=9)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(options.threads)
    found = against_uniform(options.width, options.runs)
    print(
        json.dumps(
            {
                "benchmark": "importance",
                **found,
                "digits": options.digits,
                **outside_model(20_000, options.digits),
            }
        )
    )


if __name__ == "__main__":
    main()
