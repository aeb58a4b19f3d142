"""Shortest paths in batches against one node at a time, round by round in one run.

    python tests/benchmarks/extraction.py [--digits 5] [--queries 200000] [--rounds 3]

The model and the clock are those of `character_lstm.py`, the output sharpened so that
candidates differ by a few bits. A round

1. brings the likeliest of 10^digits candidates out of it, with the proof: once by the
   textbook's Dijkstra, a sorted list and one node at a time, and once in batches;
2. spends `queries` on 10^9 candidates in batches, and takes the time within the model, the
   gathering of its states included, apart from the walk's own.

One thread. One JSON line: seconds and queries of both, the ratio with its spread, queries
per second, and the share of the time outside the model and the gathering.
"""

from __future__ import annotations

import numpy as np
from character_lstm import TimedWalker, character_lstm, digits_tree
from figures import Clock, middle, options, over, show, spread
from sortedcontainers import SortedKeyList

from canary.models.language_model import Context
from canary.scoring.batcher import Batcher
from canary.search.shortest import shortest_leaves
from canary.search.step import expand, root_frontier

SHARPER = 10.0


def one_by_one(tree, walker, batcher):
    """Dijkstra over a sorted list: the cheapest node, its children, and again."""
    nodes = SortedKeyList([(0.0, root_frontier(batcher, walker, tree))], key=lambda entry: entry[0])
    queries = 0
    while True:
        cost, node = nodes.pop(0)
        if isinstance(node, int):
            return node, cost, queries
        step = expand(batcher, walker, tree, node)
        queries += step.queries
        for at in range(len(step.edges)):
            leaf = bool(step.leaves[at])
            child = int(step.first_leaf[at]) if leaf else step.open_nodes(np.array([at]))
            nodes.add((float(step.costs[at]), child))


def main() -> None:
    given = options(digits=5, queries=200_000, rounds=3)
    _, model = character_lstm(threads=1, sharper=SHARPER)
    small, large = digits_tree(model, given.digits), digits_tree(model, 9)
    batcher, single = Batcher(model), Batcher(model, batch_size=1)

    def walk(tree, search, *more, **options):
        """What is found, its seconds, and those inside the model and the gathering."""
        with model.open(Context(tree.context), memory_bytes=2**31) as opened:
            walker = TimedWalker(opened)
            with Clock() as clock:
                found = search(tree, walker, *more, **options)
        return found, clock.cpu, walker.seconds

    singles, inside, batches, rates, outside = [], [], [], [], []
    for _ in range(given.rounds):
        (leaf, _, single_queries), seconds, model_seconds = walk(small, one_by_one, single)
        singles.append(seconds)
        inside.append(model_seconds)
        found, seconds, _ = walk(small, shortest_leaves, batcher)
        assert found.stopped == "proof"
        assert found.leaves.tolist() == [leaf]
        batches.append(seconds)
        spent, seconds, model_seconds = walk(large, shortest_leaves, batcher, budget=given.queries)
        rates.append(spent.queries / seconds)
        outside.append(1 - model_seconds / seconds)
    show(
        "extraction",
        digits=given.digits,
        one_by_one_seconds=middle(singles, 3),
        one_by_one_seconds_in_model=middle(inside, 3),
        one_by_one_queries=single_queries,
        batched_seconds=middle(batches, 3),
        batched_queries=found.queries,
        batches=found.batches,
        **spread("ratio", over(singles, batches), digits=1),
        queries_per_cpu_second=middle(rates),
        outside_model_and_gathering=middle(outside, 3),
    )


if __name__ == "__main__":
    main()
