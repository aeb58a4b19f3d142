"""Every estimator of exposure on a few canaries of one model, with its cost: one table.

Usage::

    python estimators.py MODEL --canaries canaries.json --id canary-23 --id canary-1 --id control-4

Each canary is measured alone, so that the queries are its own. Give `--whole` to price the
whole space as well.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from model import build

import canary
from canary.statistics.exposures import Exposure


def shown(exposure: Exposure) -> str:
    """Bits, and the interval where there is one."""
    ends = f"{exposure.lower_bits:.2f} to {exposure.upper_bits:.2f}"
    if exposure.bits is None:
        return ends
    bits = f"{exposure.bits:.2f}"
    return bits if ends == f"{bits} to {bits}" else f"{bits} ({ends})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--canaries", type=Path, required=True)
    parser.add_argument("--id", dest="ids", action="append", required=True)
    parser.add_argument("--start-token", default="\n")
    parser.add_argument("--budget", type=int, default=1_000_000)
    parser.add_argument("--whole", action="store_true", help="enumerate too: hours")
    args = parser.parse_args()
    model = canary.load(args.model, factory=build)
    canaries = canary.CanarySet.load(args.canaries)
    ways = {
        "branch and bound": {"method": "rank", "budget": args.budget, "draws": 1},
        "importance draws, 4,000 nodes a level": {"method": "importance", "draws": 4_000},
        "uniform draws, 20,000": {"method": "sampling", "draws": 20_000},
    }
    if args.whole:
        ways = {"enumeration": {"method": "enumeration", "budget": 10**9}, **ways}
    rows: dict[str, list[str]] = {}
    for wanted in args.ids:
        alone = replace(canaries, canaries=tuple(c for c in canaries if c.id == wanted))
        for name, options in ways.items():
            audit = canary.audit(model, alone, start_token=args.start_token, **options)
            (found,), (about,) = audit.canaries, audit.formats
            cost = f"{about.queries:,} queries"
            rows.setdefault(name, []).append(f"{shown(found.exposure)}; {cost}")
            if options["method"] == "sampling" and found.skew_normal is not None:
                curve = rows.setdefault("skew-normal curve of these draws", [])
                curve.append(f"{shown(found.skew_normal)}; {cost}")
    print("| estimator | " + " | ".join(args.ids) + " |")
    print("| --- " * (1 + len(args.ids)) + "|")
    for name, cells in rows.items():
        print(f"| {name} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
