"""Rate of exact rank against the bare model step, round by round in one run.

    python tests/benchmarks/rank.py [--digits 9] [--queries 400000] [--rounds 5] [--threads 1]

The model, the bare step and the clock are those of `enumeration.py`: an LSTM of 600,000
parameters with random weights, so that nothing is learned and the walk is as broad as it
can be. A round times the bare step at several batch sizes and keeps the best, then ranks
canaries among 10^digits candidates until so many queries are spent; nodes are parked for
the dearer ones. One JSON line: queries per second of both, their ratio with its spread,
and which share of the walk lay outside the model's forward.
"""

from __future__ import annotations

import argparse
import json
import statistics
import string
import time

import numpy as np
import torch
from enumeration import SIZES, Lstm, bare_rate
from tokenizers import Tokenizer, models

from canary.formats.format import Format
from canary.models.base import Context
from canary.models.loading import load
from canary.scoring.batcher import Batcher
from canary.search.bounded import BoundedWalk
from canary.search.enumerate import leaf_costs
from canary.tokens.candidates import CandidateEncoder
from canary.tokens.tree import compile_tree


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--digits", type=int, default=9)
    parser.add_argument("--queries", type=int, default=400_000)
    parser.add_argument("--canaries", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    characters = sorted(set("The random number is" + string.digits + string.ascii_lowercase))
    tokenizer = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(characters)}, merges=[]))
    module = Lstm(len(characters)).eval()
    model = load(module, tokenizer=tokenizer)
    format = Format(f"The random number is {{digit:{options.digits}}}")
    tree = compile_tree(format, CandidateEncoder(model.tokenizer))
    batcher = Batcher(model)
    numbers = np.random.default_rng(0).integers(0, format.size, options.canaries)
    bare, walk, outside = [], [], []
    for _ in range(options.rounds):
        bare.append(max(bare_rate(module, size, len(characters)) for size in SIZES))
        with model.open(Context(tree.context), memory_bytes=2**29) as walker:
            costs, _ = leaf_costs(tree, walker, batcher, numbers)
            ranking = BoundedWalk(
                tree, walker, batcher, numbers=numbers, costs=costs, noise_bits=1e-3
            )
            module.seconds, began = 0.0, time.process_time()
            ranking.run(budget=options.queries)
            found = ranking.bounds()
            seconds = time.process_time() - began
        walk.append(found.queries / seconds)
        outside.append(1 - module.seconds / seconds)
    ratios = [w / b for w, b in zip(walk, bare, strict=True)]
    print(
        json.dumps(
            {
                "benchmark": "rank",
                "queries": found.queries,
                "canaries": options.canaries,
                "passes": found.passes,
                "exact": int(found.exact.sum()),
                "threads": options.threads,
                "bare_per_cpu_second": round(statistics.median(bare)),
                "walk_per_cpu_second": round(statistics.median(walk)),
                "ratio": round(statistics.median(ratios), 3),
                "ratio_least": round(min(ratios), 3),
                "ratio_most": round(max(ratios), 3),
                "outside_model": round(statistics.median(outside), 3),
            }
        )
    )


if __name__ == "__main__":
    main()
