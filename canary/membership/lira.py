"""The likelihood ratio attack (LiRA) on logit-scaled losses.

For each sample Carlini et al. [1]_ fit a Gaussian to ``log(p / (1 - p))`` over the references
that were trained on it, and one over those that were not. **Online**, the score is the
logarithm of the ratio of the two densities at the target's value (algorithm 1, in nats; 0 is
where both are as likely). **Offline** there is only the second, and the score is
``-log2 Pr[N(mean, variance) > value]`` bits, which orders samples as the paper's
``Pr[N <= value]`` does, and does not round to 1. Variances are those of each sample, or, where
references are few, **fixed**: one for all samples, within samples, for members and for
nonmembers each.

References
----------
.. [1] Carlini et al., Membership Inference Attacks From First Principles, IEEE Symposium on
   Security and Privacy 2022.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from canary.membership.moments import Moments, common_variance, logits_of, moments
from canary.membership.references import References
from canary.statistics.tails import gaussian_evidence

__all__ = ["lira"]

Floats = NDArray[np.float64]


def lira(bench: References, *, online: bool, fixed: bool) -> Floats:
    """Scores of shape (targets, samples); see the module.

    Parameters
    ----------
    bench : References
        Checked to have references of the kinds that are needed for each judged sample.
    online : bool
        Whether members are modelled too.
    fixed : bool
        Whether one variance serves all samples. Where a sample has fewer than two references
        of a kind, or all of them agree, that one serves in any case.

    Notes
    -----
    Variances are unbiased, ``m - 1`` in the denominator. A sample that is set aside and has no
    reference of a kind gets the score minus infinity. O(nK).
    """
    result = np.empty((len(bench.targets), bench.table.samples))
    out_variance = common_variance(bench, "outside")
    in_variance = common_variance(bench, "inside")
    for part in bench.parts():
        logits = logits_of(bench.source, bench.rows, part)
        seen = logits_of(bench.table, bench.targets, part)
        nonmembers = moments(logits, bench.compared(part, "outside"))
        z, scale = _standard(seen, nonmembers, out_variance, fixed=fixed)
        usable = nonmembers.count > 0
        if online:
            members = moments(logits, bench.compared(part, "inside"))
            inside, spread = _standard(seen, members, in_variance, fixed=fixed)
            # The densities' constants cancel.
            found = 0.5 * (z * z - inside * inside) + np.log(scale / spread)
            usable = usable & (members.count > 0)
        else:
            found = gaussian_evidence(z, np.full(z.shape, np.inf))
        result[:, part] = np.where(usable, found, -np.inf)
    return result


def _standard(
    seen: Floats, found: Moments, common: Callable[[], Floats], *, fixed: bool
) -> tuple[Floats, Floats]:
    """The target's values, standardised; and the standard deviations."""
    variance = common()[:, None] if fixed else found.variance(common)[0]
    scale = np.sqrt(np.broadcast_to(variance, seen.shape))
    return (seen - found.mean) / scale, scale
