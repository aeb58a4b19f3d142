"""Rate of enumeration against the bare model step, round by round in one run.

    python tests/benchmarks/enumeration.py [--digits 6] [--rounds 5] [--threads 2]

The model, the bare step and the clock are those of `character_lstm.py`. A round times the
bare step at several batch sizes and keeps the best, then enumerates all 10^digits
candidates. One JSON line: queries per second of both, their ratio with its spread, and
which share of the enumeration lay outside the model's forward, and outside of the model and
the gathering of its states.
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
from canary.search.enumerate import enumerate_leaves


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--digits", type=int, default=6)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    module, model = character_lstm(threads=options.threads)
    tree, batcher = digits_tree(model, options.digits), Batcher(model)
    bare, walk, outside, outside_both = [], [], [], []
    for _ in range(options.rounds):
        bare.append(bare_rate(module))
        module.seconds = 0.0
        queries, lowest, began = 0, np.inf, time.process_time()
        with model.open(Context(tree.context), memory_bytes=2**29) as opened:
            walker = TimedWalker(opened)
            for leaves, spent in enumerate_leaves(tree, walker, batcher):
                queries += spent
                lowest = min(lowest, leaves.costs.min(initial=np.inf))
        seconds = time.process_time() - began
        walk.append(queries / seconds)
        outside.append(1 - module.seconds / seconds)
        outside_both.append(1 - walker.seconds / seconds)
    ratios = [w / b for w, b in zip(walk, bare, strict=True)]
    print(
        json.dumps(
            {
                "benchmark": "enumeration",
                "queries": queries,
                "threads": options.threads,
                "batch": batcher._nodes.size,
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
