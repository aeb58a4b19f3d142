"""Walks that share the context's keys and values against walks that copy them.

    python tests/benchmarks/shared_context.py [--nodes 512] [--rounds 7] [--threads 1]

The model is a GPT-2 of four layers, four heads and width 128, with random weights. A
round expands two levels of nodes below a context, once each way, in alternation.
Processor time, not wall-clock time: the machine may be shared. One JSON line: seconds of
both, their ratio with its spread, and the largest difference of a log-probability.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time

import numpy as np
import torch
import transformers
from spread import spread
from tokenizers import Tokenizer
from tokenizers.models import BPE

from canary.models.key_values import KeyValueWalker
from canary.models.language_model import Children, Context, Nodes
from canary.models.loading import load

VOCABULARY = 1000


def model() -> transformers.GPT2LMHeadModel:
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=VOCABULARY,
        n_embd=128,
        n_layer=4,
        n_head=4,
        n_positions=512,
        bos_token_id=None,
        eos_token_id=None,
    )
    return transformers.GPT2LMHeadModel(config).eval()


def tokenizer() -> Tokenizer:
    return Tokenizer(BPE(vocab={str(k): k for k in range(VOCABULARY)}, merges=[]))


def expand(walker: KeyValueWalker, nodes: int) -> tuple[float, np.ndarray]:
    """Processor seconds of two levels of `nodes` each, and what the second one gave."""
    tokens = Children(np.arange(10, dtype=np.int32))
    paths = np.stack([np.arange(nodes) % VOCABULARY, np.arange(nodes) // 7 % VOCABULARY], axis=1)
    handles, log_probs = np.full(nodes, -1), None
    began = time.process_time()
    for depth in (1, 2):
        at = np.full(nodes, depth)
        found = walker.expand(Nodes(paths, at, at, handles), tokens, keep=depth == 1)
        handles, log_probs = found.handles, found.log_probs
    seconds = time.process_time() - began
    walker.release(np.unique(handles))
    assert log_probs is not None
    return seconds, log_probs


def measure(context: int, *, nodes: int, rounds: int) -> dict[str, float]:
    ids = np.random.default_rng(0).integers(0, VOCABULARY, context).astype(np.int32)
    loaded = load(model(), tokenizer=tokenizer())
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
    ratios = [a / b for a, b in zip(seconds[False], seconds[True], strict=True)]
    return {
        "context_tokens": context,
        "shared_s": round(statistics.median(seconds[True]), 4),
        "copied_s": round(statistics.median(seconds[False]), 4),
        **spread("ratio", ratios, digits=2),
        "largest_difference_nats": error,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    found = [measure(p, nodes=options.nodes, rounds=options.rounds) for p in (40, 256)]
    about = {"nodes": options.nodes, "threads": options.threads}
    print(json.dumps({"benchmark": "shared_context", **about, "contexts": found}))


if __name__ == "__main__":
    main()
