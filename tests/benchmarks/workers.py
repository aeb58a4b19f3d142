"""A model that two workers of a Ray cluster keep, against the same model in this process.

    python tests/benchmarks/workers.py [--ray local] [--workers 2] [--rounds 5]

Three jobs, each in this process on one thread and with the workers on one thread each, in
turn: enumerating a format with the LSTM that the benchmarks of the walks share, the same with
a GPT-2 of four layers of 256, and scoring texts with that. Time on the clock, without loading:
work in other processes is waited for. `speedup` is the median of the ratios within a round.
Needs Ray; `--alone` leaves the workers out. One JSON line.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from character_lstm import CHARACTERS, digits_tree, saved
from spread import spread
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

from canary.models.language_model import Context, LanguageModel
from canary.models.loading import load
from canary.scoring.batcher import Batcher
from canary.scoring.texts import score
from canary.search.enumerate import enumerate_leaves
from canary.workers.cluster import RayWorkers

_MEMORY = 2**28


def walked(digits: int, batch: int) -> Callable[[LanguageModel], np.ndarray]:
    """Enumerates all numbers of so many digits; their costs."""

    def job(model: LanguageModel) -> np.ndarray:
        tree, batcher = digits_tree(model, digits), Batcher(model, batch_size=batch)
        costs = np.empty(tree.size)
        with model.open(Context(tree.context), memory_bytes=_MEMORY) as walker:
            for leaves, _ in enumerate_leaves(tree, walker, batcher):
                costs[leaves.index()] = leaves.costs
        return costs

    return job


def scored(count: int) -> Callable[[LanguageModel], np.ndarray]:
    """Scores so many texts of 20 to 240 characters."""
    rng = random.Random(0)
    texts = ["".join(rng.choices(CHARACTERS, k=rng.randrange(20, 240))) for _ in range(count)]
    return lambda model: score(model, texts, batch_size=32)


def save_gpt2(folder: Path) -> None:
    torch.manual_seed(0)
    sizes = {"n_embd": 256, "n_layer": 4, "n_head": 4, "n_positions": 256}
    special = {"bos_token_id": None, "eos_token_id": None}
    GPT2LMHeadModel(GPT2Config(vocab_size=8192, **sizes, **special)).save_pretrained(folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--digits", type=int, nargs=2, default=(6, 4), help="LSTM, GPT-2")
    parser.add_argument("--texts", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--ray", default="local")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--alone", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    workers = RayWorkers(address=options.ray, workers=options.workers)
    found: dict[str, object] = {"benchmark": "workers", "workers": options.workers}
    with tempfile.TemporaryDirectory() as name:
        lstm, gpt2 = Path(name, "lstm"), Path(name, "gpt2")
        lstm.mkdir()
        factory = saved(lstm)
        save_gpt2(gpt2)
        tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(lstm / "tokenizer.json"))
        tokenizer.save_pretrained(gpt2)
        jobs = {"enumerate": walked(options.digits[0], 2048)}
        found["lstm"] = _compared(options, jobs, workers, source=lstm, factory=factory)
        jobs = {"enumerate": walked(options.digits[1], 512), "score": scored(options.texts)}
        found["gpt2"] = _compared(options, jobs, workers, source=gpt2)
    print(json.dumps(found))


def _compared(options, jobs, workers, **named) -> dict[str, dict[str, float]]:
    began = time.perf_counter()
    here = load(**named)
    told: dict[str, dict[str, float]] = {"loading_here": time.perf_counter() - began}
    there = here
    if not options.alone:
        began = time.perf_counter()
        there = load(**named, workers=workers)
        told["loading_there"] = time.perf_counter() - began
    for job, run in jobs.items():
        rounds = [(_timed(run, here), _timed(run, there)) for _ in range(options.rounds)]
        difference = max(float(np.abs(b - a).max()) for (a, _), (b, _) in rounds)
        told[job] = {
            **spread("seconds_here", [own for (_, own), _ in rounds]),
            **spread("seconds_there", [theirs for _, (_, theirs) in rounds]),
            **spread("speedup", [own / theirs for (_, own), (_, theirs) in rounds]),
            "largest_difference": difference,
        }
    if there is not here:
        there.close()
    return told


def _timed(run, model) -> tuple[np.ndarray, float]:
    began = time.perf_counter()
    found = run(model)
    return found, time.perf_counter() - began


if __name__ == "__main__":
    main()
