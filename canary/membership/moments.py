"""Means and variances of logit-scaled losses over reference models, the target left out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from canary.errors import InputError
from canary.membership.references import Compared, Kind, References
from canary.signals.signal_table import SignalTable

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

MOST = 104.0
"""Nats. Logit-scaled losses beyond are taken as this: the probability or its complement is
below the least number of float32, and what is infinite has to stand somewhere."""

_ROUNDING = 1e-12
"""Share of the squares below which their spread is rounding."""

LEAST_VARIANCE = 1e-24
"""Where nothing varies at all."""


@dataclass(frozen=True, eq=False)
class Moments:
    """Of each target and sample, over references; arrays of shape (targets, part).

    Parameters
    ----------
    count : ndarray of int64
    mean : ndarray of float64
        Anything where the count is 0.
    squares : ndarray of float64
        Sum of squared deviations from the mean; exactly 0 where it is below a millionth of
        the numbers' size, squared.
    """

    count: NDArray[np.int64]
    mean: Floats
    squares: Floats

    def variance(self, common: Callable[[], Floats]) -> tuple[Floats, Flags]:
        """Variances, and where they are the common one.

        Parameters
        ----------
        common : callable
            Gives an array of shape (targets,), which takes the place of variances that cannot
            be estimated: of fewer than two numbers, or of numbers that are all equal. It is
            only called if there are such.
        """
        own = self.squares / np.maximum(self.count - 1, 1)
        poor = (self.count < 2) | (self.squares == 0)
        return (np.where(poor, common()[:, None], own) if poor.any() else own), poor


def logits_of(table: SignalTable, rows: NDArray[np.intp], part: slice | NDArray[np.intp]) -> Floats:
    """``log(p / (1 - p))`` of the label, shape (rows, part), within `MOST`.

    From the table's own signal, which may have digits that losses have lost; or of losses.
    """
    known = table.values.get("logit-confidence")
    values = table.signal("loss") if known is None else known
    found = values[:, part][rows] if isinstance(part, slice) else values[np.ix_(rows, part)]
    if known is not None:
        return np.clip(found, -MOST, MOST)
    with np.errstate(divide="ignore"):
        return np.clip(-found - np.log(-np.expm1(-found)), -MOST, MOST)


def loss_of_logit(logit: Floats) -> Floats:
    """``-log p`` of ``log(p / (1 - p))``."""
    return np.logaddexp(0.0, -logit)


def moments(logits: Floats, compared: Compared) -> Moments:
    """Moments of the references of each sample, for every target without those it lacks.

    Parameters
    ----------
    logits : ndarray of float64 of shape (references, part)
    compared : Compared
    """
    flags, left = compared.flags, compared.count
    count, mask = flags.sum(axis=0), flags.astype(np.float64)
    centre = np.einsum("ij,ij->j", logits, mask) / np.maximum(count, 1)
    apart = logits - centre
    apart *= mask
    own, inner = compared.left_out(apart, 0.0), np.einsum("ij,ij->j", apart, apart)
    first = apart.sum(axis=0) - own.sum(axis=0)
    second = inner - np.einsum("kij,kij->ij", own, own)
    shift = first / np.maximum(left, 1)
    squares = second - left * shift * shift
    whole = inner + count * centre * centre
    return Moments(left, centre + shift, without_rounding(squares, whole))


def without_rounding(squares: Floats, size: Floats | float) -> Floats:
    """Sums of squared deviations, 0 where they are rounding of numbers of this square `size`."""
    return np.where(squares <= _ROUNDING * size, 0.0, squares)


def pooled_variance(squares: Floats, freedom: Floats, where: str) -> Floats:
    """Squared deviations over degrees of freedom, at least `LEAST_VARIANCE`.

    Raises
    ------
    InputError
        If there are no degrees of freedom: each number is compared with one other.
    """
    if (freedom < 1).any():
        raise InputError(
            "no sample has two references: one number has no variance",
            cure="train more models, or take an attack without Gaussians: R by the empirical "
            "rule, rmia-offline",
            where=where,
        )
    return np.asarray(np.maximum(squares / freedom, LEAST_VARIANCE))


def common_variance(bench: References, kind: Kind) -> Callable[[], Floats]:
    """What gives, once asked, the variance within samples of all samples; shape (targets,).

    Notes
    -----
    ``sum_z S_z / sum_z (m_z - 1)`` with ``S_z`` the squared deviations of the ``m_z``
    references of sample z from their own mean. It is `LEAST_VARIANCE` where nothing varies.
    """

    @cache
    def common() -> Floats:
        squares = np.zeros(len(bench.targets))
        freedom = np.zeros(len(bench.targets))
        for part in bench.parts():
            logits = logits_of(bench.source, bench.rows, part)
            found = moments(logits, bench.compared(part, kind))
            squares += np.where(found.count > 0, found.squares, 0.0).sum(axis=1)
            freedom += np.maximum(found.count - 1, 0).sum(axis=1)
        return pooled_variance(squares, freedom, bench.source.source)

    return common
