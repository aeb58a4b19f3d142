"""What several canaries of an audit say together."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from canary.audits.audit_result import Audit, CanaryResult
from canary.statistics.exposures import UNIFORM_DRAWS, Exposure
from canary.statistics.pvalues import CombinedP, fisher


def combined_p(group: Sequence[CanaryResult]) -> CombinedP | None:
    """Fisher's p-value over some canaries of one audit; None if there are none.

    Their p-values are dependent where they come from the same draws. Those of several
    formats are corrected as if all came from the smallest number of draws of any.
    """
    if not group:
        return None
    draws = [c.exposure.draws for c in group if c.exposure.draws is not None]
    p_values = [c.exposure.p_value for c in group if c.exposure.p_value is not None]
    return fisher(p_values, shared_draws=min(draws) if draws else None)


def least_p(audit: Audit, group: Sequence[CanaryResult]) -> float:
    """The smallest p-value that `combined_p` could have given, whatever the model did."""
    drawn = [only_draws(c.exposure) for c in group]
    best = [
        max(1 / audit.formats[c.format].space_size, sys.float_info.min)
        if draws is None
        else 1 / (1 + draws)
        for c, draws in zip(group, drawn, strict=True)
    ]
    shared = [c.exposure.draws for c in group if c.exposure.draws is not None]
    return fisher(best, shared_draws=min(shared) if shared else None).p_value


def only_draws(exposure: Exposure) -> int | None:
    """The number of draws where nothing else could have told how likely a canary is."""
    return exposure.draws if exposure.method == UNIFORM_DRAWS else None
