"""Every estimator of exposure on a few canaries of one model, with its cost: one table.

Usage, for an epoch of `studies.py` or `run.py`::

    python estimators.py EPOCH --canaries canaries.json --id canary-23 --id canary-1 \\
        --id control-4 --out estimators.json

Each canary is measured alone, so that the queries are its own. `--whole` prices the whole space
as well, once for all of them.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from model import build
from study import written

import canary
from canary.statistics.exposures import Exposure

CURVE = "skew-normal curve of these draws"


def kept(exposure: Exposure, queries: int) -> dict[str, Any]:
    """What the table shows of one canary."""
    ends = {"lower_bits": exposure.lower_bits, "upper_bits": exposure.upper_bits}
    return {"bits": exposure.bits, **ends, "queries": queries}


def measured(
    model: Any,
    canaries: canary.CanarySet,
    ids: Sequence[str],
    *,
    start: str,
    budget: int,
    draws: int,
    nodes: int,
    whole: bool,
) -> dict[str, Any]:
    """Exposure and queries of each canary by each estimator.

    Parameters
    ----------
    start : str
        The token before each line.
    budget : int
        Queries that branch and bound may make.
    draws, nodes : int
        Uniform draws, and nodes a level of importance draws.
    whole : bool
        Whether all candidates are priced, too.
    """
    there = {one.id: one for one in canaries}
    if missing := [wanted for wanted in ids if wanted not in there]:
        raise SystemExit(f"{', '.join(missing)}: not in the canary file; it has {', '.join(there)}")
    if len({there[wanted].format for wanted in ids}) > 1:
        raise SystemExit("the canaries are of several formats: give those of one")
    found: dict[str, list[dict[str, Any]]] = {}
    if whole:
        together = replace(canaries, canaries=tuple(there[wanted] for wanted in ids))
        audit = canary.audit(model, together, start_token=start, method="enumeration", budget=10**9)
        found["enumeration, for all canaries"] = [
            kept(one.exposure, audit.formats[0].queries) for one in audit.canaries
        ]
    bounded = {"method": "rank", "budget": budget, "draws": 1}
    ways: dict[str, dict[str, Any]] = {
        f"branch and bound, up to {budget:,} queries": bounded,
        f"importance draws, {nodes:,} nodes a level": {"method": "importance", "draws": nodes},
        f"{draws:,} uniform draws": {"method": "sampling", "draws": draws},
    }
    for wanted in ids:
        alone = replace(canaries, canaries=(there[wanted],))
        for name, options in ways.items():
            audit = canary.audit(model, alone, start_token=start, **options)
            (one,), (about,) = audit.canaries, audit.formats
            found.setdefault(name, []).append(kept(one.exposure, about.queries))
            if options["method"] == "sampling" and one.skew_normal is not None:
                assert about.skew_normal is not None
                p = {"p_value": about.skew_normal.ks_p_value}
                found.setdefault(CURVE, []).append(kept(one.skew_normal, about.queries) | p)
    return {"copies": [there[wanted].repetitions for wanted in ids], "ways": found}


def table(found: Mapping[str, Any]) -> str:
    """A row for each estimator: exposure in bits, its interval, and the queries."""
    names = {0: "control", 1: "1 copy"}
    heads = [names.get(copies, f"{copies} copies") for copies in found["copies"]]
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
    parser.add_argument("--start-token", default="\n")
    parser.add_argument("--budget", type=int, default=1_000_000)
    parser.add_argument("--draws", type=int, default=20_000)
    parser.add_argument("--nodes", type=int, default=4_000)
    parser.add_argument("--whole", action="store_true", help="enumerate too: half an hour")
    parser.add_argument("--out", type=Path, required=True, help="for the numbers, no secrets")
    args = parser.parse_args()
    found = measured(
        canary.load(args.model, factory=build),
        canary.CanarySet.load(args.canaries),
        args.ids,
        start=args.start_token,
        budget=args.budget,
        draws=args.draws,
        nodes=args.nodes,
        whole=args.whole,
    )
    written(args.out, found)
    print(table(found))


if __name__ == "__main__":
    main()
