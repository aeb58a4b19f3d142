"""Every estimator of exposure on a few canaries of one model, with its cost: one table.

Usage, for an epoch of `studies.py` or `run.py`::

    python estimators.py EPOCH --canaries canaries.json --id canary-23 --id canary-1 \\
        --id control-4 --out estimators.json

Each canary is measured alone, so that the queries are its own. `--whole` prices the whole space
as well, once for all of them.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from corpus import written
from model import build
from run import canaries_for

import canary
from canary.cli.options import unescaped
from canary.statistics.exposures import Exposure

CURVE = "skew-normal curve of these draws"


def kept(exposure: Exposure, queries: int) -> dict[str, Any]:
    """What the table shows of one canary."""
    ends = {"lower_bits": exposure.lower_bits, "upper_bits": exposure.upper_bits}
    return {"bits": exposure.bits, **ends, "queries": queries}


def alone(canaries: canary.CanarySet, ids: Sequence[str]) -> canary.CanarySet:
    """The canaries of these ids, in the format that they share."""
    there = {one.id: one for one in canaries}
    if missing := [wanted for wanted in ids if wanted not in there]:
        raise SystemExit(f"{', '.join(missing)}: not in the canary file; it has {', '.join(there)}")
    formats = {there[wanted].format for wanted in ids}
    if len(formats) > 1:
        raise SystemExit("the canaries are of several formats: give those of one")
    own = tuple(replace(there[wanted], format=0) for wanted in ids)
    return replace(canaries, formats=(canaries.formats[formats.pop()],), canaries=own)


def measured(
    model: Any,
    canaries: canary.CanarySet,
    *,
    start: str,
    budget: int,
    draws: int,
    nodes: int,
    whole: bool,
) -> Iterator[dict[str, Any]]:
    """Exposure and queries of each canary by each estimator; once more after each of them.

    Parameters
    ----------
    canaries : CanarySet
        Of one format.
    start : str
        The token before each line.
    budget : int
        Queries that branch and bound may make.
    draws, nodes : int
        Uniform draws, and the most nodes a level of importance draws.
    whole : bool
        Whether all candidates are priced, too.
    """
    found: dict[str, list[dict[str, Any]]] = {}
    about = {
        "ids": [one.id for one in canaries],
        "copies": [one.repetitions for one in canaries],
        "ways": found,
    }
    if whole:
        audit = canary.audit(model, canaries, start_token=start, method="enumeration", budget=10**9)
        queries = audit.formats[0].queries
        found["enumeration, for all canaries"] = [
            kept(one.exposure, queries) for one in audit.canaries
        ]
        yield about
    bounded = {"method": "rank", "budget": budget, "draws": 1}
    ways: dict[str, dict[str, Any]] = {
        f"branch and bound, up to {budget:,} queries": bounded,
        f"importance draws, up to {nodes:,} nodes a level": {
            "method": "importance",
            "draws": nodes,
        },
        f"{draws:,} uniform draws": {"method": "sampling", "draws": draws},
    }
    for name, options in ways.items():
        for wanted in about["ids"]:
            audit = canary.audit(model, alone(canaries, [wanted]), start_token=start, **options)
            (one,), (of_format,) = audit.canaries, audit.formats
            found.setdefault(name, []).append(kept(one.exposure, of_format.queries))
            if options["method"] == "sampling" and one.skew_normal is not None:
                assert of_format.skew_normal is not None
                p = {"p_value": of_format.skew_normal.ks_p_value}
                row = kept(one.skew_normal, of_format.queries) | p
                found.setdefault(CURVE, []).append(row)
        yield about


def table(found: Mapping[str, Any]) -> str:
    """A row for each estimator: exposure in bits, its interval, and the queries."""
    names = {0: "control", 1: "1 copy"}
    heads = [
        f"{own}, {names.get(copies, f'{copies} copies')}"
        for own, copies in zip(found["ids"], found["copies"], strict=True)
    ]
    lines = [f"| estimator | {' | '.join(heads)} |", "| --- " * (1 + len(heads)) + "|"]
    for name, row in found["ways"].items():
        cells = [f"{shown(one)}; {one['queries']:,} queries" for one in row]
        if name == CURVE:
            cells = [f"{shown(one)}; its test: p = {one['p_value']:.2g}" for one in row]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def shown(one: Mapping[str, Any]) -> str:
    """Bits, and the interval where there is one."""
    ends = f"{one['lower_bits']:.2f} to {one['upper_bits']:.2f}"
    if one["bits"] is None:
        return ends
    bits = f"{one['bits']:.2f}"
    return bits if ends == f"{bits} to {bits}" else f"{bits} ({ends})"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--canaries", type=Path, required=True)
    parser.add_argument("--id", dest="ids", action="append", required=True)
    parser.add_argument("--start-token", type=unescaped, default="\n")
    parser.add_argument("--budget", type=int, default=1_000_000)
    parser.add_argument("--draws", type=int, default=20_000)
    parser.add_argument("--nodes", type=int, default=4_000)
    parser.add_argument(
        "--whole", action="store_true", help="enumerate too: a quarter of an hour or more"
    )
    parser.add_argument("--out", type=Path, required=True, help="for the numbers, no secrets")
    args = parser.parse_args()
    if not args.out.resolve().parent.is_dir():
        parser.error(f"--out {args.out}: make its folder first")
    canaries = alone(canaries_for(args.model, args.canaries), args.ids)
    for found in measured(
        canary.load(args.model, factory=build),
        canaries,
        start=args.start_token,
        budget=args.budget,
        draws=args.draws,
        nodes=args.nodes,
        whole=args.whole,
    ):
        written(args.out, found)
    print(table(json.loads(args.out.read_text())))


if __name__ == "__main__":
    main()
