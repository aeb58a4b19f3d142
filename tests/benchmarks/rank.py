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

import numpy as np
from character_lstm import TimedWalker, WalkTimes, bare_rate, character_lstm, digits_tree
from figures import options, show

from canary.models.language_model import Context
from canary.scoring.batcher import Batcher
from canary.search.bounded import BoundedWalk
from canary.search.enumerate import leaf_costs


def main() -> None:
    given = options(bare=0.4, digits=9, queries=400_000, canaries=2, rounds=5, threads=1)
    module, model = character_lstm(threads=given.threads)
    tree, batcher, times = digits_tree(model, given.digits), Batcher(model), WalkTimes(module)
    numbers = np.random.default_rng(0).integers(0, tree.size, given.canaries)
    for _ in range(given.rounds):
        times.bare.append(bare_rate(module, given.bare))
        with model.open(Context(tree.context), memory_bytes=2**29) as opened:
            walker = TimedWalker(opened)
            costs, *_ = leaf_costs(tree, walker, batcher, numbers)
            ranking = BoundedWalk(
                tree, walker, batcher, numbers=numbers, costs=costs, noise_bits=1e-3
            )
            with times.of(walker) as clock:
                ranking.run(budget=given.queries)
                found = ranking.bounds()
        times.rates.append(found.queries / clock.cpu)
    show(
        "rank",
        queries=found.queries,
        canaries=given.canaries,
        exact=int(found.exact.sum()),
        threads=given.threads,
        **times.beside_bare(),
    )


if __name__ == "__main__":
    main()
