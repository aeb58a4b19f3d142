"""Shortest paths in batches against one node at a time, round by round in one run.

    python tests/benchmarks/extraction.py [--digits 5] [--queries 200000] [--rounds 3]

The model is the Secret Sharer's: a two-layer LSTM of 200 units at character level, with
random weights, its output sharpened so that candidates differ by a few bits. A round

1. brings the likeliest of 10^digits candidates out of it, with the proof: once by the
   textbook's Dijkstra, a heap and one node at a time, and once in batches;
2. spends `queries` on 10^9 candidates in batches, and takes the time within the model, the
   gathering of its states included, apart from the walk's own.

One thread, and processor time, not wall-clock time: the machine may be shared. One JSON
line: seconds and queries of both, the ratio with its spread, queries per second, and the
share of the time outside the model and the gathering.
"""

from __future__ import annotations

import argparse
import heapq
import json
import statistics
import string
import time
from dataclasses import dataclass

import numpy as np
import torch
from enumeration import Lstm
from spread import spread
from tokenizers import Tokenizer, models

from canary.formats.format import Format
from canary.models.base import Context, Walker
from canary.models.loading import load
from canary.scoring.batcher import Batcher
from canary.search.shortest import shortest_leaves
from canary.search.step import expand, root_frontier
from canary.tokens.candidates import CandidateEncoder
from canary.tokens.tree import compile_tree

SHARPER = 10.0


@dataclass
class Timed:
    """A walker that takes the processor time spent in it."""

    walker: Walker
    seconds: float = 0.0

    @property
    def context_log_probs(self):
        return self.walker.context_log_probs

    @property
    def room(self):
        return self.walker.room

    def expand(self, nodes, tokens, *, keep=True):
        began = time.process_time()
        expansion = self.walker.expand(nodes, tokens, keep=keep)
        self.seconds += time.process_time() - began
        return expansion

    def release(self, handles):
        began = time.process_time()
        self.walker.release(handles)
        self.seconds += time.process_time() - began


def one_by_one(tree, walker, batcher):
    """Dijkstra with a heap: the cheapest node, its children, and again."""
    heap, order, queries = [(0.0, 0, root_frontier(batcher, walker, tree))], 1, 0
    while True:
        cost, _, node = heapq.heappop(heap)
        if isinstance(node, int):
            return node, cost, queries
        step = expand(batcher, walker, tree, node)
        queries += step.queries
        for at in range(len(step.edges)):
            leaf = bool(step.leaves[at])
            child = int(step.first_leaf[at]) if leaf else step.open_nodes(np.array([at]))
            heapq.heappush(heap, (float(step.costs[at]), order, child))
            order += 1


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--digits", type=int, default=5)
    parser.add_argument("--queries", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    characters = sorted(set("The random number is" + string.digits + string.ascii_lowercase))
    tokenizer = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(characters)}, merges=[]))
    module = Lstm(len(characters)).eval()
    with torch.no_grad():
        module.out.weight.mul_(SHARPER)
    model = load(module, tokenizer=tokenizer, device="cpu")
    encoder = CandidateEncoder(model.tokenizer)
    small = compile_tree(Format(f"The random number is {{digit:{options.digits}}}"), encoder)
    large = compile_tree(Format("The random number is {digit:9}"), encoder)
    batcher = Batcher(model)

    def timed(tree, search):
        with model.open(Context(tree.context), memory_bytes=2**31) as opened:
            walker, began = Timed(opened), time.process_time()
            found = search(tree, walker)
            seconds = time.process_time() - began
        return found, seconds, 1 - walker.seconds / seconds

    singles, inside, batches, rates, outside = [], [], [], [], []
    for _ in range(options.rounds):
        (leaf, _, single_queries), seconds, share = timed(
            small, lambda tree, walker: one_by_one(tree, walker, Batcher(model, batch_size=1))
        )
        singles.append(seconds)
        inside.append(seconds * (1 - share))
        found, seconds, _ = timed(
            small, lambda tree, walker: shortest_leaves(tree, walker, batcher)
        )
        assert found.stopped == "proof"
        assert found.leaves.tolist() == [leaf]
        batches.append(seconds)
        spent, seconds, share = timed(
            large,
            lambda tree, walker: shortest_leaves(tree, walker, batcher, budget=options.queries),
        )
        rates.append(spent.queries / seconds)
        outside.append(share)
    ratios = [one / many for one, many in zip(singles, batches, strict=True)]
    print(
        json.dumps(
            {
                "benchmark": "extraction",
                "digits": options.digits,
                "one_by_one_seconds": round(statistics.median(singles), 3),
                "one_by_one_seconds_in_model": round(statistics.median(inside), 3),
                "one_by_one_queries": single_queries,
                "batched_seconds": round(statistics.median(batches), 3),
                "batched_queries": found.queries,
                "batches": found.batches,
                **spread("ratio", ratios, digits=1),
                "queries_per_cpu_second": round(statistics.median(rates)),
                "outside_model_and_gathering": round(statistics.median(outside), 3),
            }
        )
    )


if __name__ == "__main__":
    main()
