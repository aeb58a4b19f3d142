"""The likelihood ratio attack (LiRA), and the Gaussians of logit-scaled losses that it takes.

For each sample Carlini et al. [1]_ fit a Gaussian to ``log(p / (1 - p))`` over the references
that were trained on it, and one over those that were not. **Online**, the score is the
logarithm of the ratio of the two densities at the target's value (algorithm 1, in nats; 0 is
where both are as likely). **Offline** there is only the second, and the score is
``-log2 Pr[N(mean, variance) > value]`` bits, which orders samples as the paper's
``Pr[N <= value]`` does, and does not round to 1. Variances are those of each sample, or, where
references are few, **fixed**: one for all samples, within samples, for members and for
non-members each.

References
----------
.. [1] Carlini et al., Membership Inference Attacks From First Principles, IEEE Symposium on
   Security and Privacy 2022.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial

import numpy as np
from numpy.typing import NDArray

from canary.errors import InputError
from canary.membership.attacks import ALWAYS, Attack, Tuning
from canary.membership.references import Compared, Kind, References
from canary.signals.signal_table import SignalTable
from canary.statistics.tails import bits_needed, gaussian_evidence

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

MOST = 104.0
"""Nats. Logit-scaled losses beyond are taken as this: the probability or its complement is
below the least number of float32, and what is infinite needs a place."""

LEAST_VARIANCE = 1e-24
"""Where nothing varies at all."""

_ROUNDING = 1e-12
"""Share of the squares below which their spread is rounding."""


def lira(bench: References, _tuning: Tuning | None = None, *, online: bool, fixed: bool) -> Floats:
    """Scores of shape (targets, samples); see the module. O(nK).

    Where a sample has fewer than two references of a kind, or all of them agree, the `fixed`
    variance serves in any case.
    """
    result = np.empty((len(bench.targets), bench.table.samples))
    out_variance = common_variance(bench, "outside")
    in_variance = common_variance(bench, "inside")

    def standard(own: Moments, common: Callable[[], Floats]) -> tuple[Floats, Floats]:
        """The target's values, standardised; and the standard deviations."""
        variance = common()[:, None] if fixed else own.variance(common)[0]
        scale = np.sqrt(np.broadcast_to(variance, seen.shape))
        return (seen - own.mean) / scale, scale

    for part in bench.parts():
        logits = logits_of(bench.source, bench.rows, part)
        seen = logits_of(bench.table, bench.targets, part)
        nonmembers = moments(logits, bench.compared(part, "outside"))
        z, scale = standard(nonmembers, out_variance)
        usable = nonmembers.count > 0
        if online:
            members = moments(logits, bench.compared(part, "inside"))
            inside, spread = standard(members, in_variance)
            # The densities' constants cancel.
            scores = 0.5 * (z * z - inside * inside) + np.log(scale / spread)
            usable = usable & (members.count > 0)
        else:
            scores = gaussian_evidence(z, np.full(z.shape, np.inf))
        result[:, part] = np.where(usable, scores, -np.inf)
    return result


@dataclass(frozen=True, eq=False)
class Moments:
    """Of each target and sample, over references; arrays of shape (targets, part).

    `squares` are those of deviations from the mean, exactly 0 where they are rounding.
    """

    count: NDArray[np.int64]
    mean: Floats
    squares: Floats

    @classmethod
    def around(
        cls, centre: Floats, count: NDArray[np.int64], first: Floats, second: Floats, size: Floats
    ) -> Moments:
        """From sums of deviations from a centre, and of their squares, of numbers of such size."""
        shift = first / np.maximum(count, 1)
        squares = second - count * shift * shift
        return cls(count, centre + shift, np.where(squares <= _ROUNDING * size, 0.0, squares))

    def variance(self, common: Callable[[], Floats]) -> tuple[Floats, Flags]:
        """Variances, and where they are the `common` one: of one number, or equal ones."""
        own = self.squares / np.maximum(self.count - 1, 1)
        poor = (self.count < 2) | (self.squares == 0)
        return (np.where(poor, common()[:, None], own) if poor.any() else own), poor


def logits_of(table: SignalTable, rows: NDArray[np.intp], part: slice | NDArray[np.intp]) -> Floats:
    """``log(p / (1 - p))`` of the label, shape (rows, part), within `MOST`."""
    known = table.values.get("logit-confidence")
    values = table.signal("loss") if known is None else known
    chosen = values[:, part][rows] if isinstance(part, slice) else values[np.ix_(rows, part)]
    if known is not None:
        return np.clip(chosen, -MOST, MOST)
    with np.errstate(divide="ignore"):
        return np.clip(-chosen - np.log(-np.expm1(-chosen)), -MOST, MOST)


def moments(logits: Floats, compared: Compared) -> Moments:
    """Moments of the references (references, part), for every target without those it lacks."""
    count, mask = compared.flags.sum(axis=0), compared.flags.astype(np.float64)
    centre = np.einsum("ij,ij->j", logits, mask) / np.maximum(count, 1)
    apart = logits - centre
    apart *= mask
    own, inner = compared.left_out(apart, 0.0), np.einsum("ij,ij->j", apart, apart)
    first = apart.sum(axis=0) - own.sum(axis=0)
    second = inner - np.einsum("kij,kij->ij", own, own)
    return Moments.around(centre, compared.count, first, second, inner + count * centre * centre)


def pooled_variance(squares: Floats, freedom: Floats, where: str) -> Floats:
    """Squared deviations over degrees of freedom; an InputError if there are none."""
    if (freedom < 1).any():
        raise InputError(
            "no sample has two references: one number has no variance",
            cure="train more models, or take an attack without Gaussians: R by the empirical "
            "rule, rmia-offline",
            where=where,
        )
    return np.asarray(np.maximum(squares / freedom, LEAST_VARIANCE))


def common_variance(bench: References, kind: Kind) -> Callable[[], Floats]:
    """What gives, once asked, the variance within samples of all samples; shape (targets,)."""

    @cache
    def common() -> Floats:
        squares, freedom = np.zeros((2, len(bench.targets)))
        for part in bench.parts():
            logits = logits_of(bench.source, bench.rows, part)
            own = moments(logits, bench.compared(part, kind))
            squares += np.where(own.count > 0, own.squares, 0.0).sum(axis=1)
            freedom += np.maximum(own.count - 1, 0).sum(axis=1)
        return pooled_variance(squares, freedom, bench.source.source)

    return common


BUILT_IN = tuple(
    Attack(
        name=f"lira-{when}{'-fixed' * fixed}",
        help=f"the likelihood ratio attack, {when}{', one variance for all samples' * fixed}",
        signal="logit-confidence",
        judge=partial(lira, online=when == "online", fixed=fixed),
        inside=when == "online",
        # The paper leaves the threshold of the online attack to the ROC.
        threshold=None if when == "online" else bits_needed,
        usual=("online",) if when == "online" else ALWAYS,
        few=fixed,
    )
    for when in ("online", "offline")
    for fixed in (False, True)
)
"""The likelihood ratio attacks, for `canary.membership.attacks.ATTACKS`."""
