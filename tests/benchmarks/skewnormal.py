"""The skew-normal fit against scipy's, round by round in one run.

    python tests/benchmarks/skewnormal.py [--draws 1000000] [--rounds 3]

Both fit the same draws from a skew-normal curve of shape 2. Processor time, not wall-clock
time: the machine may be shared. One JSON line: seconds of both, the ratio with its spread,
and by how many nats our log-likelihood over all draws is above scipy's (more is better).
"""

from __future__ import annotations

import numpy as np
from figures import middle, options, over, show, spread, timed
from scipy.stats import skewnorm

from canary.statistics.skewfit import fit_skew_normal
from canary.statistics.skewnormal import SkewNormal


def main() -> None:
    given = options(draws=1_000_000, rounds=3)
    ours, theirs, gains = [], [], []
    for seed in range(given.rounds):
        px = skewnorm.rvs(2.0, 30.0, 2.0, given.draws, random_state=np.random.default_rng(seed))
        fitted, seconds = timed(lambda px=px: fit_skew_normal(px))
        ours.append(seconds)
        (shape, location, scale), seconds = timed(lambda px=px: skewnorm.fit(px))
        theirs.append(seconds)
        reference = SkewNormal(float(location), float(scale), float(shape))
        gains.append(float(np.sum(fitted.log_density(px) - reference.log_density(px))))
    show(
        "skewnormal",
        draws=given.draws,
        **spread("canary_cpu_seconds", ours),
        scipy_cpu_seconds=middle(theirs, 3),
        **spread("ratio", over(theirs, ours), digits=1),
        gain_nats_least=float(f"{min(gains):.3g}"),
    )


if __name__ == "__main__":
    main()
