"""The tables of the README, from an experiment's `results.json`.

Usage::

    python table.py results.json
"""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path

from figure import grouped, median_bound


def main() -> None:
    results = json.loads(Path(sys.argv[1]).read_text())
    last = grouped(results["epochs"][-1]["canaries"])
    print("| copies | by draws, median | enumerated, median | lowest to highest | first of all |")
    print("| ---: | ---: | ---: | ---: | ---: |")
    for copies, canaries in grouped(results["enumeration"]["canaries"]).items():
        value, censored = median_bound(last[copies])
        bits = [c["bits"] for c in canaries]
        first = sum(c["rank"] == 1 for c in canaries)
        print(
            f"| {copies or 'control'} | {'≥ ' if censored else ''}{value:.1f} "
            f"| {statistics.median(bits):.1f} | {min(bits):.1f} to {max(bits):.1f} "
            f"| {first} of {len(bits)} |"
        )

    groups = list(last)
    names = " | ".join(str(n or "control") for n in groups)
    print(f"\n| epoch | test, nats/char | {names} |")
    print("| ---: " * (2 + len(groups)) + "|")
    for epoch in results["epochs"]:
        medians = [median_bound(grouped(epoch["canaries"])[n]) for n in groups]
        shown = " | ".join(f"{'≥ ' if censored else ''}{value:.1f}" for value, censored in medians)
        print(f"| {epoch['epoch']} | {epoch['test_nats']:.3f} | {shown} |")

    whole = results["enumeration"]
    print(f"\n{whole['candidates']:,} candidates, {whole['queries']:,} queries", end=", ")
    print(f"{whole['seconds']:,.0f} s, noise {whole['noise_bits']:.1e} bits;", end=" ")
    print(f"p of the injected {whole['injected_p']['p_value']:.1e}", end=", ")
    print(f"of the controls {whole['controls_p']['p_value']:.2f}")


if __name__ == "__main__":
    main()
