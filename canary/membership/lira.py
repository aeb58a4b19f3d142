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
from functools import partial

import numpy as np
from numpy.typing import NDArray

from canary.membership.attacks import Attack, Tuning
from canary.membership.moments import Moments, common_variance, logits_of, moments
from canary.membership.references import References
from canary.statistics.tails import bits_needed, gaussian_evidence

Floats = NDArray[np.float64]


def lira(bench: References, _tuning: Tuning | None = None, *, online: bool, fixed: bool) -> Floats:
    """Scores of shape (targets, samples); see the module. O(nK).

    Parameters
    ----------
    bench : References
        Checked to have references of the kinds that are needed for each judged sample.
    online : bool
        Whether members are modelled too.
    fixed : bool
        Whether one variance serves all samples. Where a sample has fewer than two references
        of a kind, or all of them agree, that one serves in any case.
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


ATTACKS = tuple(
    Attack(
        name=f"lira-{when}{'-fixed' * fixed}",
        help=f"the likelihood ratio attack, {when}{', one variance for all samples' * fixed}",
        signal="logit-confidence",
        judge=partial(lira, online=when == "online", fixed=fixed),
        inside=when == "online",
        # The paper leaves the threshold of the online attack to the ROC.
        threshold=None if when == "online" else bits_needed,
    )
    for when in ("online", "offline")
    for fixed in (False, True)
)
"""The likelihood ratio attacks, for `canary.membership.attacks.ATTACKS`."""
