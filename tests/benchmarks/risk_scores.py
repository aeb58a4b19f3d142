"""How far risk scores lie from the truth, where the posterior is known in closed form.

    python tests/benchmarks/risk_scores.py [--each 100] [--runs 40]

Seven pairs of distributions of the logarithm of the modified entropy: normal ones a little and
far apart, of other widths (so that the posterior falls and rises again), equal ones, two humps
of other weights, and log-gamma ones. A shadow of so many members and non-members of one class
gives the scores of 4,000 further samples, by histograms of 5, 10 and 20 bins, by kernel
densities, and by isotonic regression (which takes for granted that the posterior falls). For
each the mean distance from the true posterior, over all pairs and in the worst. One JSON line.
"""

from __future__ import annotations

import numpy as np
from figures import options, show
from scipy.optimize import isotonic_regression
from scipy.stats import loggamma, norm

from canary.membership.risk import risk_scores
from canary.signals.signal_table import SignalTable


class Humps:
    """Two normal distributions, of which the lower has the weight `low`."""

    def __init__(self, low):
        self.low = low

    def rvs(self, size, random_state):
        centre = np.where(random_state.random(size) < self.low, -4, 2)
        return centre + random_state.standard_normal(size)

    def pdf(self, x):
        return self.low * norm.pdf(x, -4) + (1 - self.low) * norm.pdf(x, 2)


PAIRS = {
    "near": (norm(-1, 1), norm(0, 1)),
    "far": (norm(-3, 1), norm(0, 1)),
    "wide": (norm(-1, 1), norm(0, 2)),
    "narrow": (norm(-0.5, 2), norm(0.5, 1)),
    "equal": (norm(0, 1), norm(0, 1)),
    "humps": (Humps(0.8), Humps(0.5)),
    "log-gamma": (loggamma(0.5), loggamma(1.5)),
}


def drawn(pair, each, rng):
    """A table of so many members and non-members, and their logarithms."""
    x = np.concatenate([one.rvs(size=each, random_state=rng) for one in pair])
    member = np.arange(2 * each) < each
    values = {"modified-entropy": np.exp(x)[None]}
    return SignalTable(values, member[None], np.zeros(2 * each, np.int64), 1), x


def isotonic(target, shadow):
    """Falling scores, fitted to the members among the shadow's samples by least squares."""
    x, at = (t.values["modified-entropy"][0] for t in (shadow, target))
    order = np.argsort(x)
    found = isotonic_regression(shadow.member[0][order].astype(float), increasing=False)
    return np.interp(at, x[order], found.x)


METHODS = {
    **{
        f"bins_{bins}": lambda target, shadow, bins=bins: (
            risk_scores(target, shadow=shadow, bins=bins, least=1).scores
        )
        for bins in (5, 10, 20)
    },
    "kernel": lambda target, shadow: (
        risk_scores(target, shadow=shadow, least=1, smooth=True).scores
    ),
    "isotonic": isotonic,
}


def main() -> None:
    given = options(each=100, runs=40)
    off = {name: {pair: [] for pair in PAIRS} for name in METHODS}
    rng = np.random.default_rng(0)
    for name, pair in PAIRS.items():
        for _ in range(given.runs):
            shadow, _ = drawn(pair, given.each, rng)
            target, x = drawn(pair, 2000, rng)
            inside, outside = (one.pdf(x) for one in pair)
            truth = inside / (inside + outside)
            for method, score in METHODS.items():
                off[method][name].append(np.abs(score(target, shadow) - truth).mean())
    means = {m: [float(np.mean(v)) for v in found.values()] for m, found in off.items()}
    show(
        "risk_scores",
        each=given.each,
        **{f"{m}_mean": round(float(np.mean(v)), 4) for m, v in means.items()},
        **{f"{m}_worst": round(max(v), 4) for m, v in means.items()},
    )


if __name__ == "__main__":
    main()
