"""Coverage and width of several intervals for the weighted counts of importance draws.

    python tests/benchmarks/importance_intervals.py [--trees 6] [--runs 20] [--width 4000 800]

Trees of 10^6 leaves, the canary's own leaf left out. For each kind of interval: its coverage
over all settings and ranks, its coverage in the worst setting and rank, and its mean width in
bits on normal and on heavy-tailed edges. One JSON line.

normal, log-normal: total +- 1.96 standard errors, on either scale. hits: Garwood's interval of
as many Poisson hits as the effective sample size. bernstein: empirical Bernstein with the
heaviest weight found. fay-feuer: the gamma interval with the heaviest weight found. leaf: with
the heaviest weight h of the leaves beyond as well. trials: with -1 / log(1 - 1/h) in its place.
chosen: what `ImportanceCount` gives, with h for each of the leaves of a node, and at the upper
end a quantile of an even mixture with the interval that misses none (mid-p).
"""

from __future__ import annotations

import math
import sys
from collections import defaultdict
from itertools import product
from pathlib import Path

import numpy as np
from figures import options, show
from scipy.stats import gamma

from canary.scoring.batcher import Batcher
from canary.search.node_sample import NodeSample
from canary.search.node_sampling import importance_sample

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
from synthetic_trees import SyntheticTree

SETTINGS = [
    ("normal", 0.3),
    ("normal", 3.2),
    ("exponential", 0.3),
    ("student", 0.3),
    ("cauchy", 0.3),
    ("pareto costs", 0.3),
]
RANKS = (1, 2, 10, 30, 100, 300, 1_000, 10_000, 100_000)


def gamma_ends(mean: float, variance: float) -> tuple[float, float]:
    if variance <= 0.0:
        return mean, mean
    low, high = gamma.ppf([0.025, 0.975], mean**2 / variance, scale=variance / mean)
    return float(low), float(high)


def intervals(sample: NodeSample, limit: float, own: int) -> dict[str, tuple[float, float]]:
    count = sample.count(limit, known=np.array([own]))
    total, variance = count.total, count.deviation**2
    error = 1.96 * math.sqrt(variance)
    found = sample.nodes[: np.searchsorted(sample.costs, limit, side="right")]
    heavy = float(sample.weights[found].max(initial=1.0))
    factor = math.exp(error / total) if total else 1.0
    hits = total**2 / variance if variance else math.inf
    bound = math.log(2 / 0.05)
    low = gamma_ends(total, variance)[0]
    near = heavy
    if count.heaviest is not None:
        leaves = sample.nodes[: np.searchsorted(sample.costs, limit, side="right") + 100]
        per_node = sample.weights[leaves].sum() / sample.weights[np.unique(leaves)].sum()
        near = count.heaviest / float(per_node)
    missed = -1 / math.log1p(-1 / near) if near > 1 else 0.0
    return {
        "normal": (total - error, total + error),
        "log-normal": (total / factor, total * factor),
        "hits": (low, gamma_ends(hits + 1, hits + 1)[1] * total / hits if variance else total),
        "bernstein": (
            total - math.sqrt(2 * variance * bound) - heavy * bound / 3,
            total + math.sqrt(2 * variance * bound) + heavy * bound / 3,
        ),
        "fay-feuer": (low, gamma_ends(total + heavy, variance + heavy**2)[1]),
        "leaf": (low, gamma_ends(total + near, variance + near**2)[1]),
        "trials": (low, gamma_ends(total + missed, variance + missed**2)[1]),
        "chosen": count.interval(0.95) or (0.0, math.inf),
    }


def main() -> None:
    given = options(trees=6, runs=20, width=[4_000, 800])
    covered: defaultdict[str, defaultdict[tuple, list[bool]]] = defaultdict(
        lambda: defaultdict(list)
    )
    wide: defaultdict[str, defaultdict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for (kind, sd_bits), tree in product(SETTINGS, range(given.trees)):
        synthetic = SyntheticTree(sd_bits, 500 + tree, kind=kind)
        batcher = Batcher(synthetic, batch_size=8192)
        canaries = np.argsort(synthetic.costs)[np.array(RANKS) - 1]
        edges = "normal" if kind == "normal" else "heavy"
        for width, run in product(given.width, range(given.runs)):
            rng = np.random.default_rng([tree, run])
            sample = importance_sample(synthetic.tree, synthetic, batcher, width=width, rng=rng)
            for rank, own in zip(RANKS, canaries.tolist(), strict=True):
                found = intervals(sample, synthetic.costs[own], own)
                for name, (low, high) in found.items():
                    held = low - 1e-9 <= rank - 1 <= high + 1e-9
                    covered[name][kind, sd_bits, width, rank].append(held)
                    wide[name][edges].append(math.log2((1 + high) / (1 + max(low, 0.0))))
    table = {}
    for name, cells in covered.items():
        shares = [float(np.mean(cell)) for cell in cells.values()]
        table[name] = {
            "coverage": round(float(np.mean(shares)), 3),
            "worst": round(min(shares), 3),
            "below_93": sum(share < 0.93 for share in shares),
            "bits": {edges: round(float(np.mean(b)), 2) for edges, b in wide[name].items()},
        }
    cells = len(SETTINGS) * len(given.width) * len(RANKS)
    show("importance_intervals", cells=cells, **table)


if __name__ == "__main__":
    main()
