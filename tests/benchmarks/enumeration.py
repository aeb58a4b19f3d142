"""Rate of enumeration against the bare model step, round by round in one run.

    python tests/benchmarks/enumeration.py [--digits 6] [--rounds 5] [--threads 2]

The model is the Secret Sharer's: a two-layer LSTM of 200 units at character level, with
random weights. A round times the bare step (`module(ids, state)` on random states, no
gathering, no softmax) at several batch sizes and keeps the best, then enumerates all
10^digits candidates. Processor time, not wall-clock time: the machine may be shared.
One JSON line: queries per second of both, their ratio with its spread, and which share
of the enumeration lay outside the model's forward.
"""

from __future__ import annotations

import argparse
import json
import statistics
import string
import time

import numpy as np
import torch
from spread import spread
from tokenizers import Tokenizer, models

from canary.formats.format import Format
from canary.models.base import Context
from canary.models.loading import load
from canary.scoring.batcher import Batcher
from canary.search.enumerate import enumerate_leaves
from canary.tokens.candidates import CandidateEncoder
from canary.tokens.tree import compile_tree

SIZES = (256, 512, 1024, 2048, 4096)


class Lstm(torch.nn.Module):
    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.embed = torch.nn.Embedding(vocabulary, 128)
        self.lstm = torch.nn.LSTM(128, 200, 2, batch_first=True)
        self.out = torch.nn.Linear(200, vocabulary)
        self.seconds = 0.0

    def forward(self, ids, state=None):
        began = time.process_time()
        hidden, state = self.lstm(self.embed(ids), state)
        logits = self.out(hidden)
        self.seconds += time.process_time() - began
        return logits, state


def bare_rate(module: Lstm, size: int, vocabulary: int) -> float:
    ids = torch.randint(0, vocabulary, (size, 1))
    state = (torch.randn(2, size, 200) / 5, torch.randn(2, size, 200) / 5)
    with torch.inference_mode():
        module(ids, state)
        began, steps = time.process_time(), 0
        while time.process_time() - began < 0.4:
            module(ids, state)
            steps += 1
        return steps * size / (time.process_time() - began)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--digits", type=int, default=6)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
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
    bare, walk, outside = [], [], []
    for _ in range(options.rounds):
        bare.append(max(bare_rate(module, size, len(characters)) for size in SIZES))
        module.seconds = 0.0
        queries, lowest, began = 0, np.inf, time.process_time()
        with model.open(Context(tree.context), memory_bytes=2**29) as walker:
            for leaves, spent in enumerate_leaves(tree, walker, batcher):
                queries += spent
                lowest = min(lowest, leaves.costs.min(initial=np.inf))
        seconds = time.process_time() - began
        walk.append(queries / seconds)
        outside.append(1 - module.seconds / seconds)
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
            }
        )
    )


if __name__ == "__main__":
    main()
