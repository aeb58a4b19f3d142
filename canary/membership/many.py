"""Attacks that compare a target with many models, on one table, for all targets at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from canary.errors import InputError
from canary.membership.attacks import ATTACKS, Attack, Tuning, with_many_models
from canary.membership.references import ComparedWith, References, resolve
from canary.registry import called
from canary.signals.signal_table import SignalTable
from canary.statistics.numbers import Shown, plural
from canary.statistics.roc import Estimate, roc
from canary.statistics.tails import Rule, check_level, check_rule

Floats = NDArray[np.float64]

_FALSE_NOTES = 1e-4
"""How often the number of references may be said to reveal members where it does not."""


@dataclass(frozen=True, eq=False, repr=False)
class ManyScores(Shown):
    """What an attack says of each sample of each of its targets, which are rows of a table.

    Parameters
    ----------
    name : str
    scores : ndarray of float64 of shape (targets, samples)
        Higher for what looks more like a member. Of S, P, R, D, L and offline LiRA: evidence
        against "not a member" in bits, ``-log2`` of the least alpha at which it is rejected.
        Of online LiRA: log-likelihood ratios in nats. Of RMIA: shares from 0 to 1.
    member, judged : ndarray of bool of shape (targets, samples) and (samples,)
        The attack is evaluated on judged samples: not those set aside as population.
    targets : tuple of int
    models_trained : int
        What the attack costs: references that somebody has to train, for all targets
        together. Targets that are each other's references are among them.
    notes : tuple of str
    blind : bool
        Whether the scores were made without a look at who is a member of the targets, as a bound
        on epsilon needs: references by ``shadow=``, population points by ``population=``.
    """

    name: str
    scores: Floats
    member: NDArray[np.bool_]
    judged: NDArray[np.bool_]
    targets: tuple[int, ...]
    models_trained: int
    notes: tuple[str, ...]
    blind: bool

    def summary(self) -> str:
        """Its name, and how many samples of how many targets it scored."""
        samples, targets = self.scores.shape[1], plural(len(self.targets), "target")
        line = f"{self.name}: scores of {plural(samples, 'sample')} under {targets}"
        return "\n".join([line, *self.notes])

    def _table(self) -> dict[str, Any]:
        targets, samples = self.scores.shape
        return {
            "target": np.repeat(self.targets, samples),
            "sample": np.tile(np.arange(samples), targets),
            "member": self.member.ravel(),
            "score": self.scores.ravel(),
        }

    @property
    def signal(self) -> str:
        """What the attack reads of each model."""
        return ATTACKS[self.name].signal if self.name in ATTACKS else "token-losses"

    @property
    def calibrated(self) -> bool:
        """Whether scores have a threshold at each level."""
        return self.name in ATTACKS and ATTACKS[self.name].threshold is not None

    def threshold(self, alpha: float) -> float:
        """The score from which on a sample is called a member at level `alpha`, from 0 to 1.

        An InputError for online LiRA, whose paper leaves the threshold to the ROC, and for attacks
        on the losses of tokens.
        """
        where = f"attack {self.name}"
        check_level(alpha, where)
        of_level = ATTACKS[self.name].threshold if self.name in ATTACKS else None
        if of_level is None:
            raise InputError(
                "its scores have no threshold at a level: that is left to the ROC",
                cure="use lira-offline, or read tpr_at_fpr of its evaluation",
                where=where,
            )
        return of_level(alpha)

    def guess(self, alpha: float) -> NDArray[np.bool_]:
        """Who is called a member at level `alpha`, of shape (targets, samples)."""
        return self.scores >= self.threshold(alpha)


def attack_models(
    table: SignalTable,
    name: str,
    *,
    targets: ArrayLike | None = None,
    shadow: SignalTable | Sequence[SignalTable] | None = None,
    references: ArrayLike | None = None,
    population: ArrayLike | None = None,
    most: int | None = None,
    rule: Rule = "empirical",
    gamma: float = 2.0,
    a: float = 0.3,
) -> ManyScores:
    """Attack every model of a table, or some, by comparing it with others. O(nK log(nK)).

    Parameters
    ----------
    table : SignalTable
        With the signal ``loss``. LiRA reads ``logit-confidence`` and RMIA ``confidence`` where
        they are there, and derives them from losses otherwise.
    name : str
        One of `canary.membership.attacks.with_many_models`: S, P, R, D, L, lira-online,
        lira-online-fixed, lira-offline, lira-offline-fixed, rmia, rmia-offline.
    targets : array_like of int, optional
        Rows of `table` that are attacked; all unless given.
    shadow : SignalTable, or a sequence with one for each target, optional
        The reference models. D and L need models of their target's own: distilled from it, or
        trained on its data without one sample each. Elsewhere they are the other models of
        `table` unless given; S takes shadows that were asked for other samples.
    references : array_like of int, optional
        Rows of the shadow table, or of `table`, that serve as references; all unless given.
    population : array_like of int or bool, optional
        Samples of `table` that are set aside as population points for P, S and RMIA and not
        evaluated. Unless given, the non-members of a model are its population; for P and S each
        is judged without itself, and for P a member without one of an equal loss.
    most : int, optional
        Of R, D and L: each sample is compared with its first `most` references at most, so that
        leave-one-out models are as many for the sample that they left out as for a non-member.
    rule, gamma, a
        As in `canary.membership.attacks.Tuning`.

    Raises
    ------
    InputError
        If there is no such attack, model or signal, nothing to compare with, a loss is NaN, a
        judged sample is a member of every reference (for online attacks: or of none), a class
        has no shadow point, a target is among its references, or the tables do not fit.

    Notes
    -----
    Among the models of a table a target does without some references, so that members and
    non-members are compared with equally many (`canary.membership.references`). How many is decided
    by the flags of all samples that are judged, so select them first. Shadow tables serve as they
    are, and a note says where the number of references distinguishes members from non-members.
    """
    kind = _checked(name, rule)
    benches = _benches(
        table,
        kind,
        targets=targets,
        shadow=shadow,
        references=references,
        population=population,
        most=most,
    )
    assert kind.judge is not None
    scores = [
        called(
            f"attack {name!r}",
            kind.judge,
            *(bench, Tuning(rule, None, gamma, a)),
            shape=(len(bench.targets), bench.table.samples),
        )
        for bench in benches
    ]
    chosen = np.concatenate([bench.targets for bench in benches])
    repeats = dict.fromkeys(note for bench in benches for note in bench.repeats)
    telling = (*repeats, *_counts_that_tell(kind, benches))
    # Models of L exist for members only. S judges by the other models, P by the target alone.
    blind = not telling and name != "L"
    blind &= not kind.outside or all(bench.source is not table for bench in benches)
    blind &= not kind.points or population is not None
    sources = {id(source): source for source in (table, *(bench.source for bench in benches))}
    missing = [
        f"{plural(len(source.missing), 'model')} {'is' if len(source.missing) == 1 else 'are'} "
        f"missing from {source.source}: "
        + "; ".join(f"model {model}: {why}" for model, why in source.missing.items())
        for source in sources.values()
        if source.missing
    ]
    trained = 0
    for bench in benches if kind.others else ():
        # Less the one target that is none of its own.
        alone = len(bench.targets) == 1 and bench.source is table and bench.own[0] >= 0
        trained += len(bench.rows) - int(alone)
    return ManyScores(
        name=name,
        scores=scores[0] if len(scores) == 1 else np.concatenate(scores),
        member=table.member[chosen],
        judged=benches[0].judged,
        targets=tuple(chosen.tolist()),
        models_trained=trained,
        notes=(*missing, *telling),
        blind=blind,
    )


def loss_thresholds(
    table: SignalTable,
    name: str,
    alpha: float,
    *,
    targets: ArrayLike | None = None,
    shadow: SignalTable | Sequence[SignalTable] | None = None,
    rule: Rule = "empirical",
    **compared: Unpack[ComparedWith],
) -> Floats:
    """The losses ``c_alpha`` at and below which S, P, R, D or L calls samples members.

    Parameters
    ----------
    table, name, targets, shadow, rule, **compared
        As for `attack_models`, and so are the errors.
    alpha : float
        The false positive rate that is allowed.

    Returns
    -------
    float64 array of shape (targets, samples)
        In nats; minus infinity where nothing would be a member.
    """
    check_level(alpha, "loss_thresholds")
    kind = _checked(name, rule)
    if kind.signal != "loss" or kind.judge is None:
        able = [name for name, one in with_many_models().items() if one.signal == "loss"]
        raise InputError(
            f"{name!r} has no threshold in units of loss",
            cure=f"name one of {', '.join(able)}",
            where="loss_thresholds",
        )
    benches = _benches(table, kind, targets=targets, shadow=shadow, **compared)
    return np.concatenate([kind.judge(bench, Tuning(rule, alpha)) for bench in benches])


def _checked(name: str, rule: Rule) -> Attack:
    kind = ATTACKS[name]
    if kind.judge is None:
        raise InputError(
            f"the attack {name} is by a shadow, and not by many models",
            cure=f"use canary.attack, or name one of {', '.join(with_many_models())}",
            where="attack",
        )
    check_rule(rule, "attack")
    return kind


def _benches(
    table: SignalTable,
    kind: Attack,
    *,
    targets: Any,
    shadow: SignalTable | Sequence[SignalTable] | None,
    **compared: Unpack[ComparedWith],
) -> list[References]:
    """What all targets together are compared with, or each with its own shadow."""
    if shadow is None and kind.own:
        raise InputError(
            f"attack {kind.name} needs {kind.own}",
            cure="give their table by shadow=",
            where=table.source,
        )
    rows: list[Any] = [targets]
    shadows: list[SignalTable | None] = []
    if shadow is None or isinstance(shadow, SignalTable):
        shadows = [shadow]
    else:
        shadows += shadow
        rows = [[row] for row in (range(table.models) if targets is None else targets)]
        if len(rows) != len(shadows):
            raise InputError(
                f"{len(shadows)} shadow tables for {len(rows)} targets",
                cure="give one for each target, or one for all",
                where=table.source,
            )
    benches = []
    for chosen, beside in zip(rows, shadows, strict=True):
        bench = resolve(
            table,
            kind.name,
            targets=chosen,
            shadow=beside,
            aligned=kind.outside,
            alone=not kind.others,
            **compared,
        )
        if beside is not None and kind.own and len(bench.targets) > 1:
            raise InputError(
                f"attack {kind.name} on {len(bench.targets)} targets with the models of one",
                cure="give a list with a table for each target",
                where=beside.source,
            )
        if kind.outside:
            bench.check(kind.name, inside=kind.inside)
        benches.append(bench)
    return benches


def _counts_that_tell(kind: Attack, benches: list[References]) -> tuple[str, ...]:
    """A note if the number of references alone tells members of a target from non-members."""
    worst: tuple[float, int, Estimate, float] | None = None
    targets = sum(len(bench.targets) for bench in benches)
    for bench in benches:
        if bench.source is bench.table or not kind.outside:
            continue
        counts = [bench.compared(part, "limited").count[0] for part in bench.parts()]
        count = np.concatenate(counts)[bench.judged]
        for row in bench.targets:
            member = bench.table.member[row, bench.judged]
            if member.all() or not member.any():
                continue
            auc = roc(count, member).auc(confidence=1.0 - _FALSE_NOTES / targets)
            off = abs(auc.value - 0.5)
            if not auc.lower <= 0.5 <= auc.upper and (worst is None or off > worst[0]):
                worst = off, int(row), auc, float(np.median(count))
    if worst is None:
        return ()
    _, row, auc, usual = worst
    return (
        f"The number of references (usually {usual:.0f}) alone separates members of model {row} "
        f"from non-members: AUC {auc.value:.2f} ({auc.lower:.2f} to {auc.upper:.2f}). Attacks on "
        "models that learned nothing would see some of it. Take references that were drawn without "
        "regard to the target, or equally many for each sample",
    )
