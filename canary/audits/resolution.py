"""Whether an audit could see differences between candidates at all."""

from __future__ import annotations

import math
import statistics

import numpy as np

from canary.audits.audit_result import Audit

COARSE = 0.1
"""Noise from this share of the candidates' standard deviation on is too coarse for a verdict.

Where log-perplexities are about normal, a canary that stands z deviations before the mean
is moved by noise of d deviations by about ``d * z / ln 2`` bits of exposure. With d = 0.1
that is less than one bit up to z = 7, the first of 10**12 candidates; with more, what was
learned may look like luck.
"""

_FEW_BINS = 2


def spread_bits(audit: Audit, at: int) -> float:
    """Standard deviation of the log-perplexities of one format's candidates, in bits.

    It comes from the histogram; where all candidates lie in two neighbouring bins, which
    cannot tell a small spread from none, from the canaries. NaN if no candidate was priced.
    """
    histogram = audit.formats[at].histogram
    counts = np.asarray(histogram.counts, np.float64)
    if not counts.sum():
        return math.nan
    filled = np.flatnonzero(counts)
    if filled[-1] - filled[0] < _FEW_BINS:
        px = [c.px_bits for c in audit.canaries if c.format == at]
        return statistics.pstdev(px)
    middles = histogram.edges()[:-1] + histogram.width_bits / 2
    mean = np.average(middles, weights=counts)
    return math.sqrt(float(np.average((middles - mean) ** 2, weights=counts)))


def coarsest(audit: Audit) -> tuple[float, float] | None:
    """Noise and spread, in bits, of the injected format whose noise is largest for its spread.

    None if every format resolves its candidates: its noise is less than `COARSE` of their
    spread, and they are not all alike.
    """
    found = [
        (audit.formats[at].noise_bits, spread_bits(audit, at))
        for at in sorted({c.format for c in audit.injected})
    ]
    coarse = [(noise, spread) for noise, spread in found if noise >= COARSE * spread]
    return max(coarse, key=lambda pair: (pair[0] + 1e-300) / (pair[1] + 1e-300), default=None)
