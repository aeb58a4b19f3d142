"""Canary sets: how long drawing, writing and reading them takes.

    python tests/benchmarks/generation.py [--canaries 100000] [--rounds 3]

The format is a card number of 16 digits in a sentence. One JSON line, processor seconds over
the rounds: `generate` with its checks, `CanarySet.save` with the flush to disk, and
`CanarySet.load`. It should take less than 2 s to draw 10^5.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

from spread import spread

from canary.corpus.canaries import CanarySet, generate

FORMAT = "My card is {credit_card:visa}."


def measure(count: int, path: Path) -> tuple[float, float, float]:
    began = time.process_time()
    made = generate(FORMAT, repetitions=[1], per_repetition=count, controls=0, seed=0)
    drawn = time.process_time()
    made.save(path)
    saved = time.process_time()
    read = CanarySet.load(path)
    ended = time.process_time()
    assert len({c.fill for c in read}) == count
    return drawn - began, saved - drawn, ended - saved


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--canaries", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "canaries.json")
        rounds = [measure(options.canaries, path) for _ in range(options.rounds)]
    figures = {"benchmark": "generation", "canaries": options.canaries}
    for at, name in enumerate(("generate", "save", "load")):
        figures |= spread(f"{name}_cpu_seconds", [r[at] for r in rounds])
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
