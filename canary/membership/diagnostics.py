"""Studies of attacks on many models: the losses behind a threshold, and what more models bring."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from canary.errors import InputError
from canary.membership.aggregate import Spread, evaluate_models
from canary.membership.attacks import ATTACKS
from canary.membership.many import attack_models, loss_thresholds
from canary.membership.references import ComparedWith, resolve
from canary.signals.signal_table import SignalTable, positions
from canary.statistics.tails import Rule

Flags = NDArray[np.bool_]
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class NullLosses:
    """The losses in nats, ascending, with which one sample's loss on one target is compared.

    `observed` is the loss of the target on the sample; at and below `threshold` the attack `name`
    (S, P, R, D or L) calls it a member at level `alpha`. `member` says whether it is one.
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
    rule: Rule = "empirical",
    **compared: Unpack[ComparedWith],
) -> NullLosses:
    """The losses behind one threshold (figure 1 of Ye et al.), of a column of `table`.

    The other parameters, and errors, are those of `loss_thresholds`.
    """
    thresholds = loss_thresholds(
        table, name, alpha, targets=[target], shadow=shadow, rule=rule, **compared
    )
    positions([sample], table.samples, "samples", table.source)
    outside = ATTACKS[name].outside
    bench = resolve(
        table,
        name,
        targets=[target],
        shadow=shadow,
        aligned=outside,
        alone=not outside,
        **compared,
    )
    source, own, aside = bench.source, table.signal("loss")[target], bench.population
    if name == "P":
        chosen = bench.points(target, name)
        chosen[sample] = False
        null = np.sort(own[chosen])
        if aside is None and table.member[target, sample]:  # in the stead of one of them
            null = np.delete(null, np.flatnonzero(null == own[sample])[:1])
    elif name == "S":
        points = ~source.member[bench.rows] & (source.label == table.label[sample])
        if shadow is None:
            points &= True if aside is None else aside
            points[bench.own[bench.own >= 0]] = False
        null = source.signal("loss")[bench.rows][points]
    else:
        beside = bench.compared(slice(sample, sample + 1), "limited")
        kept = beside.flags[:, 0].copy()
        kept[beside.less[:, 0, 0]] = False
        null = source.signal("loss")[bench.rows[kept], sample]
    threshold, member = float(thresholds[0, sample]), bool(table.member[target, sample])
    observed = float(own[sample])
    return NullLosses(name, target, sample, np.sort(null), observed, threshold, alpha, member)


@dataclass(frozen=True, eq=False)
class Scatter:
    """Loss less threshold in nats by two attacks: 0 and below is called a member.

    `margins` has the shape (2, points) and is infinite where an attack calls nobody a member;
    `member` has the shape (points,).
    """

    names: tuple[str, str]
    alpha: float
    margins: Floats
    member: Flags


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
    loss, margins = table.signal("loss")[target], []
    for name, shadow in zip(names, shadows, strict=True):
        threshold = loss_thresholds(
            table, name, alpha, targets=[target], shadow=shadow, population=population, rule=rule
        )[0]
        equal = loss == threshold
        margins.append(np.where(equal, 0.0, loss - np.where(equal, 0.0, threshold)))
    judged = resolve(table, "P", targets=[target], population=population, alone=True).judged
    return Scatter(names, alpha, np.array(margins)[:, judged], table.member[target, judged])


@dataclass(frozen=True, eq=False)
class Growth:
    """The AUC of an attack over targets with more models, or more population points.

    `what` says which of the two `sizes` counts; `samples` were judged, the same at every size.
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
    """The AUC of an attack against its number of models or, of P, of population points.

    Figure 3 of Ye et al. Only samples that have the references they need at the smallest size are
    judged. Of P, points that are non-members of every target are drawn, and none of them is judged.

    Parameters
    ----------
    table : SignalTable
    name : str
        One of `canary.membership.attacks.with_many_models`.
    sizes : sequence of int
        Smaller sets are parts of larger ones.
    targets : array_like of int
        The models that are attacked; the references are drawn among all others. With a
        shadow table, among that; with one for each target, the same rows of all.
    seed : int
    shadow, rule
        As in `attack_models`.
    """
    rows = positions(targets, table.models, "targets", table.source)
    wanted = sorted({int(size) for size in sizes})
    kind, what = ATTACKS[name], "population points" if name == "P" else "models"
    tables = [shadow] if isinstance(shadow, SignalTable) else list(shadow or ())
    if name == "P":
        free = np.flatnonzero(~table.member[rows].any(axis=0))
    elif tables:
        free = np.arange(min(other.models for other in tables))
    else:
        free = np.setdiff1d(np.arange(table.models), rows)
    if not wanted or wanted[0] < 1 or wanted[-1] > len(free):
        raise InputError(
            f"sizes {wanted[:1]} to {wanted[-1:]} of {len(free)} {what} beside the targets",
            cure=f"ask for 1 to {len(free)}, or name fewer targets",
            where="growth",
        )
    order = np.random.default_rng(seed).permutation(free)
    judged = np.ones(table.samples, np.bool_)
    if name == "P":
        judged[order[: wanted[-1]]] = False
    elif kind.outside:
        for source in tables or [table]:
            member = source.member[order[: wanted[0]]]
            judged &= ~member.all(axis=0) & (member.any(axis=0) | (not kind.inside))
    if not judged.any():
        raise InputError(
            f"with {wanted[0]} {what} no sample can be judged",
            cure="begin with a larger size",
            where="growth",
        )
    if kind.outside:
        table, tables = (
            table.select(samples=judged),
            [other.select(samples=judged) for other in tables],
        )
    others = tables[0] if isinstance(shadow, SignalTable) else tables or None
    spreads = []
    for size in wanted:
        chosen = order[:size]
        if name == "P":
            scores = attack_models(table, name, targets=rows, population=chosen, rule=rule)
            scores = replace(scores, judged=judged)
        else:
            scores = attack_models(
                table, name, targets=rows, shadow=others, references=chosen, rule=rule
            )
        spreads.append(evaluate_models(scores).auc)
    return Growth(name, what, tuple(wanted), tuple(spreads), int(judged.sum()))
