"""Formats: how long compiling and drawing take.

    python tests/benchmarks/formats.py [--fills 100000] [--rounds 3] [--words 267735]

One JSON line, processor seconds over the rounds: to make each format anew, and to
draw and spell so many different fills of it. `words` is eight words of a made-up list of so
many, of which a hundredth as many fills are drawn.
"""

from __future__ import annotations

import random
import resource

import numpy as np
from figures import options, show, spread, timed

from canary.formats.format import Format
from canary.formats.kinds import credit_card

FORMATS = {
    "digits": "The random number is {digit:9}",
    "card": "The card is {credit_card:visa}",
    "cards": "The card is {credit_card}",
    "uuid": "The key is {uuid}",
}


def vocabulary(count: int) -> list[str]:
    rng = random.Random(0)
    parts = [c + v for c in "bcdfghjklmnprstvwz" for v in "aeiou"]
    parts += ["er", "ing", "s", "ed", "an", "on"]
    words: set[str] = set()
    while len(words) < count:
        words.add("".join(rng.choices(parts, k=rng.randint(2, 5))))
    return sorted(words)


def measure(text: str, words: list[str] | None, fills: int) -> tuple[float, float, float, int]:
    credit_card.cache_clear()
    space, making = timed(lambda: Format(text, words=words))
    drawn, drawing = timed(lambda: space.sample(fills, rng=np.random.default_rng(0)))
    assert len(set(drawn)) == fills
    return making, drawing, space.bits, len(space.automaton.chars)


def main() -> None:
    given = options(fills=100_000, rounds=3, words=267_735)
    cases = [(name, text, None, given.fills) for name, text in FORMATS.items()]
    cases.append(("words", "The words are {word:8}.", vocabulary(given.words), given.fills // 100))
    result: dict[str, object] = {}
    for name, text, words, fills in cases:
        rounds = [measure(text, words, fills) for _ in range(given.rounds)]
        result[name] = {
            "bits": round(rounds[0][2], 1),
            "edges": rounds[0][3],
            **spread("compile_seconds", [r[0] for r in rounds], digits=4),
            "fills": fills,
            **spread("draw_seconds", [r[1] for r in rounds], digits=4),
        }
    result["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    show("formats", **result)


if __name__ == "__main__":
    main()
