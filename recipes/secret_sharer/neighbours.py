"""Table 1 of the paper: all candidates within two substitutions of a canary, in order.

Usage::

    python neighbours.py MODEL --canaries canaries.json --id canary-1 --out neighbours.json

Beside them are the most likely of all candidates, which a search finds and proves. Digits
that agree with the canary's are shown as dots, so the table shows how the model treats a
canary's neighbours, and not the canary; of those that are no neighbours only the
number of other digits is shown.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
from corpus import written
from model import build
from run import canaries_for

import canary
from canary.cli.options import unescaped

DIGITS = "0123456789"
SUBSTITUTIONS = 2


def within(fill: str, substitutions: int) -> Iterator[str]:
    """`fill` and all strings of digits at this Hamming distance or nearer, each once."""
    for distance in range(substitutions + 1):
        for places in combinations(range(len(fill)), distance):
            others = [[d for d in DIGITS if d != fill[at]] for at in places]
            for digits in product(*others):
                changed = list(fill)
                for at, digit in zip(places, digits, strict=True):
                    changed[at] = digit
                yield "".join(changed)


def masked(candidate: str, fill: str) -> str:
    """`candidate` with a dot for every digit that is the canary's own."""
    shown = "".join("." if a == b else a for a, b in zip(candidate, fill, strict=True))
    others = len(shown) - shown.count(".")
    return shown if others <= SUBSTITUTIONS else f"{others} other digits"


def table(found: Mapping[str, Any]) -> str:
    """The nearest neighbours and the most likely of all, side by side."""
    lines = [
        f"| within {SUBSTITUTIONS} substitutions | Px, bits | of all | Px, bits |",
        "| --- | ---: | --- | ---: |",
    ]
    for near, best in zip(found["top"], found["of_all"], strict=True):
        cells = (f"{one['shown']} | {one['px_bits']:.2f}" for one in (near, best))
        lines.append(f"| {' | '.join(cells)} |")
    proven = sum(one["proven"] for one in found["of_all"])
    lines.append(
        f"\n{found['copies']} copies; the canary is number {found['rank_within']:,} of "
        f"{found['candidates']:,} within {SUBSTITUTIONS} substitutions; {proven} of the "
        f"most likely of all proven by {found['queries']:,} queries."
    )
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--canaries", type=Path, required=True)
    parser.add_argument("--id", default="canary-1")
    parser.add_argument("--top", type=int, default=10)
    parser.add_argument("--budget", type=int, default=1_000_000, help="queries of the search")
    parser.add_argument("--start-token", type=unescaped, default="\n")
    parser.add_argument("--out", type=Path, required=True, help="for the numbers, no secrets")
    args = parser.parse_args()
    canaries = canaries_for(args.model, args.canaries)
    chosen = next((c for c in canaries if c.id == args.id), None)
    if chosen is None:
        parser.error(f"--id {args.id}: not in {args.canaries}")
    format = canaries.formats[chosen.format]
    fills = list(within(chosen.fill, SUBSTITUTIONS))
    model = canary.load(args.model, factory=build)
    px = canary.score(
        model, [format.candidate(fill) for fill in fills], start_token=args.start_token
    )
    order = np.argsort(px, kind="stable")
    search = canary.extract(
        model, format, top=args.top, budget=args.budget, start_token=args.start_token
    )
    if len(search.candidates) < args.top:
        sys.exit(f"the search found {len(search.candidates)} of {args.top}; give a larger --budget")
    found = {
        "canary": chosen.id,
        "copies": chosen.repetitions,
        "candidates": len(fills),
        "rank_within": 1 + int((px[1:] <= px[0]).sum()),
        "px_bits": float(px[0]),
        "top": [
            {"shown": masked(fills[i], chosen.fill), "px_bits": float(px[i])}
            for i in order[: args.top]
        ],
        "of_all": [
            {"shown": masked(c.fill or "", chosen.fill), "px_bits": c.px_bits, "proven": c.proven}
            for c in search.candidates
        ],
        "queries": search.queries,
    }
    written(args.out, found)
    print(table(found))


if __name__ == "__main__":
    main()
