"""Studies of attacks on many models: the losses behind a threshold, and what more models bring."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from canary.errors import InputError
from canary.membership.aggregate import Spread, evaluate_models
from canary.membership.attacks import ATTACKS
from canary.membership.many import attack_models, loss_thresholds
from canary.membership.references import resolve
from canary.signals.signal_table import SignalTable, positions
from canary.statistics.tails import Rule

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class NullLosses:
    """The losses with which one sample's loss on one target is compared.

    Parameters
    ----------
    name : str
        S, P, R, D or L.
    target, sample : int
    losses : ndarray of float64
        Ascending, in nats: the null hypothesis.
    observed : float
        The loss of the target on the sample.
    threshold : float
        At and below which the sample is called a member.
    alpha : float
    member : bool
    """

    name: str
    target: int
    sample: int
    losses: Floats
    observed: float
    threshold: float
    alpha: float
    member: bool


def null_losses(
    table: SignalTable,
    name: str,
    *,
    target: int,
    sample: int,
    alpha: float = 0.1,
    shadow: SignalTable | None = None,
    population: ArrayLike | None = None,
    most: int | None = None,
    rule: Rule = "empirical",
) -> NullLosses:
    """The losses behind one threshold (figure 1 of Ye et al.).

    Parameters
    ----------
    sample : int
        A column of `table`.

    Notes
    -----
    The other parameters, and errors, are those of `loss_thresholds`.
    """
    thresholds = loss_thresholds(
        table,
        name,
        alpha,
        targets=[target],
        shadow=shadow,
        population=population,
        most=most,
        rule=rule,
    )
    positions([sample], table.samples, "samples", table.source)
    aside = np.ones(table.samples, np.bool_)
    if population is not None:
        aside[:] = False
        aside[positions(population, table.samples, "population", table.source)] = True
    source = table if shadow is None else shadow
    if name == "P":
        chosen = aside & ~table.member[target]
        chosen[sample] = False
        found = np.sort(table.signal("loss")[target, chosen])
        if population is None and table.member[target, sample]:  # in the stead of one of them
            tied = np.flatnonzero(found == table.signal("loss")[target, sample])
            found = np.delete(found, tied[:1])
    elif name == "S":
        points = source.label == table.label[sample]
        if shadow is None:
            points &= aside
        outside = ~source.member & points
        if shadow is None:
            outside[target] = False
        found = source.signal("loss")[outside]
    else:
        bench = resolve(
            table, name, targets=[target], shadow=shadow, population=population, most=most
        )
        compared = bench.compared(slice(sample, sample + 1), "limited")
        kept = compared.flags[:, 0].copy()
        kept[compared.less[:, 0, 0]] = False
        found = source.signal("loss")[kept, sample]
    return NullLosses(
        name,
        target,
        sample,
        np.sort(found),
        float(table.signal("loss")[target, sample]),
        float(thresholds[0, sample]),
        alpha,
        bool(table.member[target, sample]),
    )


@dataclass(frozen=True, eq=False)
class Scatter:
    """How far losses lie above the thresholds of two attacks.

    Parameters
    ----------
    names : tuple of two str
    alpha : float
    margins : ndarray of float64 of shape (2, points)
        Loss less threshold, in nats: 0 and below is called a member. Infinite where an attack
        calls nobody a member.
    member : ndarray of bool of shape (points,)
    """

    names: tuple[str, str]
    alpha: float
    margins: Floats
    member: NDArray[np.bool_]


def scatter(
    table: SignalTable,
    names: tuple[str, str],
    *,
    alpha: float,
    target: int = 0,
    shadows: tuple[SignalTable | None, SignalTable | None] = (None, None),
    population: ArrayLike | None = None,
    rule: Rule = "empirical",
) -> Scatter:
    """Loss less threshold of each sample by two of S, P, R, D and L (figure 4 of Ye et al.).

    `shadows` has the shadow table of each; the other parameters are those of `loss_thresholds`.
    """
    at = [
        loss_thresholds(
            table,
            name,
            alpha,
            targets=[target],
            shadow=shadow,
            population=population,
            rule=rule,
        )[0]
        for name, shadow in zip(names, shadows, strict=True)
    ]
    judged = np.ones(table.samples, np.bool_)
    if population is not None:
        judged[positions(population, table.samples, "population", table.source)] = False
    loss = table.signal("loss")[target]
    margins = np.array([np.where(loss == c, 0.0, loss - np.where(loss == c, 0.0, c)) for c in at])
    return Scatter(names, alpha, margins[:, judged], table.member[target, judged])


@dataclass(frozen=True, eq=False)
class Growth:
    """What an attack reaches with more models, or more population points.

    Parameters
    ----------
    name : str
    what : str
        ``models`` or ``population points``.
    sizes : tuple of int
        Ascending.
    auc : tuple of Spread
        Over targets.
    samples : int
        How many were judged, the same at every size.
    """

    name: str
    what: str
    sizes: tuple[int, ...]
    auc: tuple[Spread, ...]
    samples: int


def growth(
    table: SignalTable,
    name: str,
    sizes: Sequence[int],
    *,
    targets: ArrayLike,
    seed: int,
    shadow: SignalTable | Sequence[SignalTable] | None = None,
    rule: Rule = "empirical",
) -> Growth:
    """The AUC of an attack against its number of models or population points.

    Figure 3 of Ye et al. Only samples that have the references they need at the smallest size are
    judged. Of P, points that are nonmembers of every target are drawn, and none of them is judged.

    Parameters
    ----------
    table : SignalTable
    name : str
        One of `canary.membership.attacks.with_many_models`. Of P the population points are counted,
        of all others the models.
    sizes : sequence of int
        Smaller sets are parts of larger ones.
    targets : array_like of int
        The models that are attacked; the references are drawn among all others. With a
        shadow table, among that; with one for each target, the same rows of all.
    seed : int
    shadow, rule
        As in `attack_models`.

    Raises
    ------
    InputError
        If there are not so many, or no sample can be judged with the fewest.
    """
    rng = np.random.default_rng(seed)
    rows = positions(targets, table.models, "targets", table.source)
    wanted = sorted({int(size) for size in sizes})
    what = "population points" if name == "P" else "models"
    kind = ATTACKS[name]
    if name == "P":
        free = np.flatnonzero(~table.member[rows].any(axis=0))
    elif shadow is None:
        free = np.setdiff1d(np.arange(table.models), rows)
    else:
        free = np.arange(min(one.models for one in _all(shadow)))
    if not wanted or wanted[0] < 1 or wanted[-1] > len(free):
        raise InputError(
            f"sizes {wanted[:1]} to {wanted[-1:]} of {len(free)} {what} beside the targets",
            cure=f"ask for 1 to {len(free)}, or name fewer targets",
            where="growth",
        )
    order = rng.permutation(free)
    judged = np.ones(table.samples, np.bool_)
    if name == "P":
        judged[order[: wanted[-1]]] = False
    elif kind.outside:
        sources = [table] if shadow is None else _all(shadow)
        judged = np.logical_and.reduce(
            [
                _can_be_judged(source.member[order[: wanted[0]]], inside=kind.inside)
                for source in sources
            ]
        )
    if not judged.any():
        raise InputError(
            f"with {wanted[0]} {what} no sample can be judged",
            cure="begin with a larger size",
            where="growth",
        )
    few, others = table, shadow
    if kind.outside:
        few, others = table.select(samples=judged), _of_samples(shadow, judged)
    found = []
    for size in wanted:
        chosen = order[:size]
        if name == "P":
            scores = attack_models(table, name, targets=rows, population=chosen, rule=rule)
            scores = replace(scores, judged=judged)
        else:
            scores = attack_models(
                few, name, targets=rows, shadow=others, references=chosen, rule=rule
            )
        found.append(evaluate_models(scores).auc)
    return Growth(name, what, tuple(wanted), tuple(found), int(judged.sum()))


def _all(shadow: SignalTable | Sequence[SignalTable]) -> Sequence[SignalTable]:
    return [shadow] if isinstance(shadow, SignalTable) else shadow


def _of_samples(
    shadow: SignalTable | Sequence[SignalTable] | None, chosen: NDArray[np.bool_]
) -> SignalTable | list[SignalTable] | None:
    if shadow is None or isinstance(shadow, SignalTable):
        return shadow if shadow is None else shadow.select(samples=chosen)
    return [one.select(samples=chosen) for one in shadow]


def _can_be_judged(member: NDArray[np.bool_], *, inside: bool) -> NDArray[np.bool_]:
    outside = ~member.all(axis=0)
    return np.asarray(outside & member.any(axis=0) if inside else outside)
