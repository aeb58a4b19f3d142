"""Whether the noise of a model's arithmetic is small beside what its candidates differ by."""

from __future__ import annotations

import math
import statistics

import numpy as np

from canary.audits.audit_result import Audit

COARSE = 0.1
"""Noise from this share of the candidates' standard deviation on is too coarse for a verdict.

Where log-perplexities are about normal, noise of d deviations moves a canary z deviations before
the mean by about ``d * z / ln 2`` bits of exposure. With d = 0.1 that is less than one bit up to
z = 7, the first of 10**12 candidates.
"""

_FEW_BINS = 2


def spread_bits(audit: Audit, number: int) -> float:
    """Standard deviation of the log-perplexities of one format's candidates, in bits.

    From the histogram; where all are in two neighbouring bins, which cannot tell a small spread
    from none, from the canaries. NaN if no candidate was scored.
    """
    histogram = audit.formats[number].histogram
    counts = np.asarray(histogram.counts, np.float64)
    if not counts.sum():
        return math.nan
    filled = np.flatnonzero(counts)
    if filled[-1] - filled[0] < _FEW_BINS:
        return statistics.pstdev([c.px_bits for c in audit.canaries if c.format == number])
    middles = histogram.edges()[:-1] + histogram.width_bits / 2
    mean = np.average(middles, weights=counts)
    return math.sqrt(float(np.average((middles - mean) ** 2, weights=counts)))


def coarsest(audit: Audit) -> tuple[float, float] | None:
    """Noise and spread, in bits, of the injected format whose noise is largest for its spread.

    None if every format resolves its candidates: its noise is less than `COARSE` of their
    spread, and they are not all alike.
    """
    measured = [
        (audit.formats[number].noise_bits, spread_bits(audit, number))
        for number in sorted({c.format for c in audit.injected})
    ]
    coarse = [(noise, spread) for noise, spread in measured if noise >= COARSE * spread]
    return max(coarse, key=lambda pair: (pair[0] + 1e-300) / (pair[1] + 1e-300), default=None)
