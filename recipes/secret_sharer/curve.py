"""Figure 3 at a million draws: does the skew-normal curve fit, and do its exposures hold?

Usage, for a training of `studies.py` and its `exposures.json` (ranks by importance draws)::

    canary audit EPOCH --factory model.py:build --canaries company.json --method sampling \\
        --draws 1000000 --start-token '\\n' --out AUDIT
    python curve.py AUDIT/audit.json EPOCH/exposures.json --out curve.json
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from corpus import written

from canary.audits.audit_result import Audit
from canary.records.weight_files import FILES, digest_of_files

BANDS = ((0, 5), (5, 10), (10, 15), (15, 20), (20, 25), (25, 30))


def compared(audit: Audit, kept: list[Mapping[str, Any]]) -> dict[str, Any]:
    """The test of each format's curve; of each canary its exposure by rank and by the curve.

    The canaries of the audit are the last ones of those that are kept.
    """
    formats = []
    for one in audit.formats:
        curve = one.skew_normal
        if curve is None:
            raise SystemExit("the audit has no curve: make it with --method sampling")
        formats.append(
            {"draws": one.draws, "distance": curve.ks_distance, "p_value": curve.ks_p_value}
        )
    ranked = kept[len(kept) - len(audit.canaries) :]
    canaries = []
    for found, rank in zip(audit.canaries, ranked, strict=True):
        if (found.id, found.repetitions) != (rank["id"], rank["copies"]):
            raise SystemExit("the audit and the exposures are not of the same canaries")
        assert found.skew_normal is not None  # its format has a curve
        canaries.append(
            {
                "copies": rank["copies"],
                "rank": rank["bits"],
                "curve": found.skew_normal.bits,
                "most": found.skew_normal.space_bits,
            }
        )
    return {"formats": formats, "canaries": canaries}


def summary(found: Mapping[str, Any]) -> str:
    """By bands of the exposure by rank: how far the curve's exposures are from it."""
    lines = [
        "| exposure by rank, bits | canaries | by the curve, more than by rank: median, bits "
        "| least and most |",
        "| --- | ---: | ---: | --- |",
    ]
    for low, high in BANDS:
        more = [c["curve"] - c["rank"] for c in found["canaries"] if low <= c["rank"] < high]
        if more:
            lines.append(
                f"| {low} to {high} | {len(more)} | {np.median(more):+.1f} "
                f"| {min(more):+.1f} to {max(more):+.1f} |"
            )
    tests = "; ".join(
        f"{one['draws']:,} draws, distance {one['distance']:.4f}, p = {one['p_value']:.2g}"
        for one in found["formats"]
    )
    above = sum(one["curve"] > one["most"] for one in found["canaries"])
    lines += [
        "",
        f"Kolmogorov-Smirnov test of each format: {tests}. By the curve, {above} of "
        f"{len(found['canaries'])} canaries have more bits than their space.",
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("audit", type=Path, help="audit.json of uniform draws")
    parser.add_argument("exposures", type=Path, help="exposures.json of the same epoch")
    parser.add_argument("--out", type=Path, required=True, help="for the numbers, no secrets")
    args = parser.parse_args()
    audit = Audit.load(args.audit)
    if audit.settings.get(FILES) != digest_of_files(args.exposures.parent):
        sys.exit(
            f"{args.exposures}: its folder has not the model of {args.audit}; audit that epoch"
        )
    found = compared(audit, json.loads(args.exposures.read_text())["canaries"])
    written(args.out, found)
    print(summary(found))


if __name__ == "__main__":
    main()
