"""Canary sets: how long drawing, writing and reading them takes.

    python tests/benchmarks/generation.py [--canaries 100000] [--rounds 3]

The format is a card number of 16 digits in a sentence. One JSON line, processor seconds over
the rounds: `generate` with its checks, `CanarySet.save` with the flush to disk, and
`CanarySet.load`. It should take less than 2 s to draw 10^5.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from figures import options, show, spread, timed

from canary.corpus.canaries import CanarySet, generate

FORMAT = "My card is {credit_card:visa}."


def measure(count: int, path: Path) -> tuple[float, float, float]:
    made, drawing = timed(
        lambda: generate(FORMAT, repetitions=[1], per_repetition=count, controls=0, seed=0)
    )
    _, saving = timed(lambda: made.save(path))
    read, loading = timed(lambda: CanarySet.load(path))
    assert len({c.fill for c in read}) == count
    return drawing, saving, loading


def main() -> None:
    given = options(canaries=100_000, rounds=3)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "canaries.json")
        rounds = [measure(given.canaries, path) for _ in range(given.rounds)]
    figures = {}
    for at, name in enumerate(("generate", "save", "load")):
        figures |= spread(f"{name}_cpu_seconds", [r[at] for r in rounds])
    show("generation", canaries=given.canaries, **figures)


if __name__ == "__main__":
    main()
