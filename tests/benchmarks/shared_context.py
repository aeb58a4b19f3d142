"""Walks that share the context's keys and values against walks that copy them.

    python tests/benchmarks/shared_context.py [--nodes 512] [--rounds 7] [--threads 1]

The model is a GPT-2 of four layers, four heads and width 128, with random weights. A
round expands two levels of nodes below a context, once each way, in alternation.
Processor time, not wall-clock time: the machine may be shared. One JSON line: seconds of
both, their ratio with its spread, and the largest difference of a log-probability.
"""

from __future__ import annotations

import numpy as np
import torch
from character_lstm import gpt2, one_token_each
from figures import Clock, middle, options, over, show, spread

from canary.models.key_values import KeyValueWalker
from canary.models.language_model import Children, Context, Nodes
from canary.models.loading import load

VOCABULARY = 1000


def expand(walker: KeyValueWalker, nodes: int) -> tuple[float, np.ndarray]:
    """Processor seconds of two levels of `nodes` each, and what the second one gave."""
    tokens = Children(np.arange(10, dtype=np.int32))
    paths = np.stack([np.arange(nodes) % VOCABULARY, np.arange(nodes) // 7 % VOCABULARY], axis=1)
    handles, log_probs = np.full(nodes, -1), None
    with Clock() as clock:
        for depth in (1, 2):
            at = np.full(nodes, depth)
            found = walker.expand(Nodes(paths, at, at, handles), tokens, keep=depth == 1)
            handles, log_probs = found.handles, found.log_probs
    walker.release(np.unique(handles))
    assert log_probs is not None
    return clock.cpu, log_probs


def measure(context: int, *, nodes: int, rounds: int) -> dict[str, float]:
    ids = np.random.default_rng(0).integers(0, VOCABULARY, context).astype(np.int32)
    module = gpt2(VOCABULARY, width=128, layers=4, positions=512)
    loaded = load(module, tokenizer=one_token_each(map(str, range(VOCABULARY))))
    seconds: dict[bool, list[float]] = {True: [], False: []}
    error = 0.0
    for number in range(rounds + 1):
        results = []
        for shares in (True, False):
            walker = KeyValueWalker(loaded, Context(ids), 2**28, shares=shares)
            with walker:
                spent, log_probs = expand(walker, nodes)
            results.append(log_probs)
            if number:  # the first round warms up
                seconds[shares].append(spent)
        error = max(error, float(np.abs(results[0] - results[1]).max()))
    return {
        "context_tokens": context,
        "shared_s": middle(seconds[True], 4),
        "copied_s": middle(seconds[False], 4),
        **spread("ratio", over(seconds[False], seconds[True]), digits=2),
        "largest_difference_nats": error,
    }


def main() -> None:
    given = options(nodes=512, rounds=7, threads=1)
    torch.set_num_threads(given.threads)
    found = [measure(p, nodes=given.nodes, rounds=given.rounds) for p in (40, 256)]
    show("shared_context", nodes=given.nodes, threads=given.threads, contexts=found)


if __name__ == "__main__":
    main()
