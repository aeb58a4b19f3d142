"""A model that two workers of a Ray cluster keep, against the same model in this process.

    python tests/benchmarks/workers.py [--ray local] [--workers 2] [--rounds 5]

Three jobs, each in this process on one thread and with the workers on one thread each, in
turn: enumerating a format with the LSTM that the benchmarks of the walks share, the same with
a GPT-2 of four layers of 256, and scoring texts with that. Time on the clock, without loading:
work in other processes is waited for. `speedup` is the median of the ratios within a round.
Needs Ray; `--alone` leaves the workers out. One JSON line.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from character_lstm import CHARACTERS, digits_tree, gpt2, saved
from figures import Clock, options, over, show, spread
from transformers import PreTrainedTokenizerFast

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


def main() -> None:
    given = options(digits=[6, 4], texts=200, rounds=5, ray="local", workers=2, alone=False)
    torch.set_num_threads(1)
    workers = None if given.alone else RayWorkers(address=given.ray, workers=given.workers)
    with tempfile.TemporaryDirectory() as name:
        lstm, folder = Path(name, "lstm"), Path(name, "gpt2")
        lstm.mkdir()
        factory = saved(lstm)
        gpt2(8192, width=256, layers=4, positions=256).save_pretrained(folder)
        tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(lstm / "tokenizer.json"))
        tokenizer.save_pretrained(folder)
        of_lstm, of_gpt2 = (
            walked(n, size) for n, size in zip(given.digits, (2048, 512), strict=True)
        )
        jobs = {"enumerate": of_gpt2, "score": scored(given.texts)}
        show(
            "workers",
            workers=given.workers,
            lstm=_compared({"enumerate": of_lstm}, given.rounds, workers, lstm, factory=factory),
            gpt2=_compared(jobs, given.rounds, workers, folder),
        )


def _compared(jobs, rounds, workers, source, **named) -> dict[str, object]:
    with Clock() as clock:
        here = there = load(source, **named)
    told: dict[str, object] = {"loading_here": clock.wall}
    if workers is not None:
        with Clock() as clock:
            there = load(source, **named, workers=workers)
        told["loading_there"] = clock.wall
    for job, run in jobs.items():
        own, theirs, apart = [], [], 0.0
        for _ in range(rounds):
            with Clock() as clock:
                found = run(here)
            own.append(clock.wall)
            with Clock() as clock:
                apart = max(apart, float(np.abs(run(there) - found).max()))
            theirs.append(clock.wall)
        told[job] = {
            **spread("seconds_here", own),
            **spread("seconds_there", theirs),
            **spread("speedup", over(own, theirs)),
            "largest_difference": apart,
        }
    if there is not here:
        there.close()
    return told


if __name__ == "__main__":
    main()
