"""Rate of exact rank against the bare model step, round by round in one run.

    python tests/benchmarks/rank.py [--digits 9] [--queries 400000] [--rounds 5] [--threads 1]

The model, the bare step and the clock are those of `character_lstm.py`. Its weights are
random, so that nothing is learned and the walk is as broad as it can be. A round times the
bare step at several batch sizes and keeps the best, then ranks canaries among 10^digits
candidates until so many queries are spent; nodes are parked for the dearer ones. One JSON
line: queries per second of both, their ratio with its spread, and which share of the walk
lay outside the model's forward, and outside of the model and the gathering of its states.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time

import numpy as np
from character_lstm import TimedWalker, bare_rate, character_lstm, digits_tree
from spread import spread

from canary.models.language_model import Context
from canary.scoring.batcher import Batcher
from canary.search.bounded import BoundedWalk
from canary.search.enumerate import leaf_costs


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--digits", type=int, default=9)
    parser.add_argument("--queries", type=int, default=400_000)
    parser.add_argument("--canaries", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    module, model = character_lstm(threads=options.threads)
    tree, batcher = digits_tree(model, options.digits), Batcher(model)
    numbers = np.random.default_rng(0).integers(0, tree.size, options.canaries)
    bare, walk, outside, outside_both = [], [], [], []
    for _ in range(options.rounds):
        bare.append(bare_rate(module))
        with model.open(Context(tree.context), memory_bytes=2**29) as opened:
            walker = TimedWalker(opened)
            costs, _ = leaf_costs(tree, walker, batcher, numbers)
            ranking = BoundedWalk(
                tree, walker, batcher, numbers=numbers, costs=costs, noise_bits=1e-3
            )
            module.seconds = walker.seconds = 0.0
            began = time.process_time()
            ranking.run(budget=options.queries)
            found = ranking.bounds()
            seconds = time.process_time() - began
        walk.append(found.queries / seconds)
        outside.append(1 - module.seconds / seconds)
        outside_both.append(1 - walker.seconds / seconds)
    ratios = [w / b for w, b in zip(walk, bare, strict=True)]
    print(
        json.dumps(
            {
                "benchmark": "rank",
                "queries": found.queries,
                "canaries": options.canaries,
                "exact": int(found.exact.sum()),
                "threads": options.threads,
                "bare_per_cpu_second": round(statistics.median(bare)),
                "walk_per_cpu_second": round(statistics.median(walk)),
                **spread("ratio", ratios),
                "outside_model": round(statistics.median(outside), 3),
                **spread("outside_model_and_gathering", outside_both),
            }
        )
    )


if __name__ == "__main__":
    main()
