"""The skew-normal fit against scipy's, round by round in one run.

    python tests/benchmarks/skewnormal.py [--draws 1000000] [--rounds 3]

Both fit the same draws from a skew-normal curve of shape 2. Processor time, not wall-clock
time: the machine may be shared. One JSON line: seconds of both, the ratio with its spread,
and by how many nats our log-likelihood over all draws is above scipy's (more is better).
"""

from __future__ import annotations

import argparse
import json
import statistics
import time

import numpy as np
from scipy.stats import skewnorm
from spread import spread

from canary.statistics.skewfit import fit_skew_normal
from canary.statistics.skewnormal import SkewNormal


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--draws", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    ours, theirs, gains = [], [], []
    for seed in range(options.rounds):
        rng = np.random.default_rng(seed)
        px = skewnorm.rvs(2.0, 30.0, 2.0, options.draws, random_state=rng)
        began = time.process_time()
        fitted = fit_skew_normal(px)
        ours.append(time.process_time() - began)
        began = time.process_time()
        shape, location, scale = skewnorm.fit(px)
        theirs.append(time.process_time() - began)
        reference = SkewNormal(float(location), float(scale), float(shape))
        gains.append(float(np.sum(fitted.log_density(px) - reference.log_density(px))))
    ratios = [t / o for t, o in zip(theirs, ours, strict=True)]
    print(
        json.dumps(
            {
                "benchmark": "skewnormal",
                "draws": options.draws,
                **spread("canary_cpu_seconds", ours),
                "scipy_cpu_seconds": round(statistics.median(theirs), 3),
                **spread("ratio", ratios, digits=1),
                "gain_nats_least": float(f"{min(gains):.3g}"),
            }
        )
    )


if __name__ == "__main__":
    main()
