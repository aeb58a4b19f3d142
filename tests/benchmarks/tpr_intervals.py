"""How often the interval of a TPR at an FPR holds the population's: canary's, and others'.

    python tests/benchmarks/tpr_intervals.py [--runs 1000] [--samples 200 1000 5000]

Draws scores of as many members as non-members, again and again, of three families: normal,
Student's t with two degrees of freedom, and normal in steps of 0.25, where members are 0, 1 or 2
higher. For each false positive rate of at least one non-member it counts the intervals that hold
the true positive rate of the population at that rate: of canary (`canary`), of Clopper and Pearson
for the threshold that the samples chose (`chosen`), of Clopper and Pearson at the two non-members
between which the threshold lies with half of the error (`bonferroni`), and, in `--bootstrap` runs,
of percentiles of 400 stratified resamples (`bootstrap`). One JSON line; shares in percent, and
the mean width of canary's interval in points.
"""

from __future__ import annotations

import math

import numpy as np
from figures import options, show
from scipy.stats import binom, norm
from scipy.stats import t as student

from canary.statistics.resampling import resampled
from canary.statistics.roc import roc
from canary.statistics.shares import clopper_pearson

RATES = (0.001, 0.01, 0.1)
STEP = 0.25
FAMILIES = {"normal": (norm, None), "heavy": (student(2), None), "steps": (norm, STEP)}


def truth_of(family, shift, fpr):
    noise, step = FAMILIES[family]
    cut = noise.isf(fpr) if step is None else step * math.ceil(noise.isf(fpr) / step)
    return noise.sf(cut - shift)


def drawn(family, shift, member, rng):
    noise, step = FAMILIES[family]
    scores = noise.rvs(size=len(member), random_state=rng) + shift * member
    return scores if step is None else np.floor(scores / step) * step


def bonferroni(scores, member, fpr):
    inside, outside = scores[member], np.sort(scores[~member])[::-1]
    edges = np.concatenate([[np.inf], outside, [-np.inf]])
    first, last = (int(k) for k in binom.ppf([0.0125, 0.9875], len(outside), fpr))
    hits = [int((inside > edges[at]).sum()) for at in (first, last + 1)]
    ends = clopper_pearson(hits, len(inside), 0.0125)
    return float(ends[0][0]), float(ends[1][1])


def row(family, shift, each, fpr, *, runs, again):
    rng = np.random.default_rng([each, shift])
    member = np.arange(2 * each) < each
    truth = truth_of(family, shift, fpr)
    held = {"canary": [], "chosen": [], "bonferroni": [], "bootstrap": []}
    widths = []
    for run in range(runs):
        scores = drawn(family, shift, member, rng)
        found = roc(scores, member).tpr_at_fpr(fpr)
        chosen = clopper_pearson(found.true_positives, each, 0.025)
        ends = {
            "canary": (found.tpr.lower, found.tpr.upper),
            "chosen": chosen,
            "bonferroni": bonferroni(scores, member, fpr),
        }
        if run < again:
            one = resampled(scores, member, fprs=[fpr], replicates=400, seed=run).tpr[0]
            ends["bootstrap"] = one.lower, one.upper
        for name, (low, high) in ends.items():
            held[name].append(low <= truth <= high)
        widths.append(found.tpr.upper - found.tpr.lower)
    shares = {name: round(100 * np.mean(hits), 1) for name, hits in held.items() if hits}
    return {
        "family": family,
        "shift": shift,
        "each": each,
        "fpr": fpr,
        "tpr": round(float(truth), 4),
        **shares,
        "width": round(100 * float(np.mean(widths)), 1),
    }


def main() -> None:
    given = options(runs=1000, bootstrap=0, samples=[200, 1000, 5000], families=(*FAMILIES,))
    rows = [
        row(family, shift, each, fpr, runs=given.runs, again=given.bootstrap)
        for family in given.families
        for shift in (0, 1, 2)
        for each in given.samples
        for fpr in RATES
        if fpr * each >= 1
    ]
    show("tpr_intervals", runs=given.runs, rows=rows)


if __name__ == "__main__":
    main()
