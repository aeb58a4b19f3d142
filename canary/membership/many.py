"""Attacks that compare a target with many models, on one table, for all targets at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from canary.errors import InputError
from canary.membership.lira import lira
from canary.membership.losstests import by_class, by_model, by_sample
from canary.membership.many_attacks import MANY_ATTACKS, many_attack
from canary.membership.references import References, resolve
from canary.membership.rmia import rmia
from canary.signals.signal_table import SignalTable
from canary.statistics.numbers import plural
from canary.statistics.roc import Estimate, roc
from canary.statistics.tails import Rule, bits_needed, check_level, check_rule

__all__ = ["LOSS_TESTS", "ManyScores", "attack_models", "loss_thresholds"]

Floats = NDArray[np.float64]

LOSS_TESTS: dict[str, Callable[[References, Rule, float | None], Floats]] = {
    "S": by_class,
    "P": by_model,
    "R": by_sample,
    "D": by_sample,
    "L": by_sample,
}
"""The attacks of Ye et al. by name."""

_FALSE_NOTES = 1e-4
"""How often the number of references may be said to tell members where it does not."""


@dataclass(frozen=True, eq=False)
class ManyScores:
    """What an attack says of each sample of each of its targets.

    Parameters
    ----------
    name : str
    scores : ndarray of float64 of shape (targets, samples)
        Higher for what looks more like a member. Of S, P, R, D, L and offline LiRA: evidence
        against "not a member" in bits, ``-log2`` of the least alpha at which it is rejected.
        Of online LiRA: log-likelihood ratios in nats. Of RMIA: shares from 0 to 1.
    member : ndarray of bool of shape (targets, samples)
    judged : ndarray of bool of shape (samples,)
        The samples on which the attack is evaluated: not those set aside as population.
    targets : tuple of int
        Rows of the table.
    models_trained : int
        What the attack costs: references that somebody has to train, for all targets
        together. Targets that are each other's references are among them.
    notes : tuple of str
        What a reader has to know.
    blind : bool
        Whether the scores were made without a look at who is a member of the targets, as a
        bound on epsilon needs them: references by ``shadow=``, population points by
        ``population=``.
    """

    name: str
    scores: Floats
    member: NDArray[np.bool_]
    judged: NDArray[np.bool_]
    targets: tuple[int, ...]
    models_trained: int
    notes: tuple[str, ...]
    blind: bool

    @property
    def signal(self) -> str:
        """What the attack reads of each model."""
        return MANY_ATTACKS[self.name].signal

    @property
    def calibrated(self) -> bool:
        """Whether scores have a threshold at each level."""
        return MANY_ATTACKS[self.name].levels

    def threshold(self, alpha: float) -> float:
        """The score from which on a sample is called a member at level `alpha`.

        Raises
        ------
        EstimationError
            If alpha is not between 0 and 1.
        InputError
            For online LiRA, whose paper leaves the threshold to the ROC.
        """
        where = f"attack {self.name}"
        check_level(alpha, where)
        if not self.calibrated:
            raise InputError(
                "its scores have no threshold at a level: the paper leaves it to the ROC",
                cure="use lira-offline, or read tpr_at_fpr of its evaluation",
                where=where,
            )
        # Of shares, 1 - alpha of the population have to be dominated.
        return 1.0 - alpha - 1e-12 if self.signal == "confidence" else bits_needed(alpha)

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
    """Attack every model of a table, or some, by comparing it with others.

    Parameters
    ----------
    table : SignalTable
        With the signal ``loss``. LiRA reads ``logit-confidence`` and RMIA ``confidence`` where
        they are there, and derives them from losses otherwise.
    name : str
        One of `canary.membership.many_attacks.MANY`: S, P, R, D, L, lira-online,
        lira-online-fixed, lira-offline, lira-offline-fixed, rmia, rmia-offline.
    targets : array_like of int, optional
        Rows of `table` that are attacked; all unless given.
    shadow : SignalTable, or a sequence with one for each target, optional
        The reference models. D and L need models of their target's own: distilled from it, or
        trained on its data without one sample each. Elsewhere they are the other models of
        `table` unless given; S takes shadows that were asked for other samples.
    references : array_like of int, optional
        Rows of the shadow table, or of `table`, that serve as references; all unless given. A
        target is never its own reference.
    population : array_like of int or bool, optional
        Samples of `table` that are set aside as population points for P, S and RMIA and not
        evaluated. Unless given, the nonmembers of a model are its population; for P and S each
        is judged without itself, and for P a member without one of an equal loss.
    most : int, optional
        Of R, D and L: each sample is compared with so many references at most, the first ones.
        Leave-one-out models are few for the sample that they left out, and many for a
        nonmember; with as many for both, their levels mean the same.
    rule : {"empirical", "linear", "gaussian"}
        Of the quantile, for S, P, R, D and L; see `canary.statistics.tails`.
    gamma, a : float
        Of RMIA; see `canary.membership.rmia`.

    Returns
    -------
    ManyScores

    Raises
    ------
    InputError
        If there is no such attack, model or signal, nothing to compare with, a loss is NaN, a
        judged sample is a member of every reference (for online attacks: or of none), a class
        has no shadow point, a target is among its references under another name, or the tables
        do not fit.

    Notes
    -----
    Among the models of a table a target does without some references, so that members and
    nonmembers are compared with equally many, on every split; see `canary.membership.matching`,
    also for what that needs to make noise look alike. How many is decided by the flags of all
    samples that are judged, so select them first. Shadow tables serve as they are, and a note says
    where the number of references tells members from nonmembers.

    For K models and n samples O(nK log(nK)) time. Beside the table and the result memory is
    for some hundred thousand numbers, for S for one class, for P and RMIA for one model, and a
    byte or two for each score.
    """
    where = "attack"
    kind = many_attack(name, where)
    check_rule(rule, where)

    def judge(bench: References) -> Floats:
        if name in LOSS_TESTS:
            return LOSS_TESTS[name](bench, rule, None)
        if kind.signal == "logit-confidence":
            return lira(bench, online=kind.inside, fixed=kind.fixed)
        return rmia(bench, online=kind.inside, gamma=gamma, a=a)

    done = _each(
        table,
        name,
        judge,
        targets=targets,
        shadow=shadow,
        references=references,
        population=population,
        most=most,
    )
    benches = [bench for bench, _ in done]
    chosen = np.concatenate([bench.targets for bench in benches])
    repeats = tuple(dict.fromkeys(note for bench in benches for note in bench.repeats))
    telling = repeats + _counts_that_tell(name, benches)
    scores = done[0][1] if len(done) == 1 else np.concatenate([found for _, found in done])
    return ManyScores(
        name=name,
        scores=scores,
        member=table.member[chosen],
        judged=benches[0].judged,
        targets=tuple(chosen.tolist()),
        models_trained=sum(map(_trained, benches)) if kind.others else 0,
        notes=_notes(table, benches) + telling,
        blind=not telling
        and _blind(
            name,
            shadow=all(bench.source is not table for bench in benches),
            population=population is not None,
        ),
    )


def loss_thresholds(
    table: SignalTable,
    name: str,
    alpha: float,
    *,
    targets: ArrayLike | None = None,
    shadow: SignalTable | Sequence[SignalTable] | None = None,
    references: ArrayLike | None = None,
    population: ArrayLike | None = None,
    most: int | None = None,
    rule: Rule = "empirical",
) -> Floats:
    """The losses ``c_alpha`` at and below which S, P, R, D or L calls samples members.

    Parameters
    ----------
    alpha : float
        Between 0 and 1.

    Returns
    -------
    ndarray of float64 of shape (targets, samples)
        In nats. Minus infinity where nothing would be a member.

    Notes
    -----
    The other parameters, and errors, are those of `attack_models`.
    """
    check_level(alpha, "loss_thresholds")
    check_rule(rule, "loss_thresholds")
    if name not in LOSS_TESTS:
        raise InputError(
            f"{name!r} has no threshold in units of loss",
            cure=f"name one of {', '.join(LOSS_TESTS)}",
            where="loss_thresholds",
        )

    def judge(bench: References) -> Floats:
        return LOSS_TESTS[name](bench, rule, alpha)

    done = _each(
        table,
        name,
        judge,
        targets=targets,
        shadow=shadow,
        references=references,
        population=population,
        most=most,
    )
    return np.concatenate([found for _, found in done])


def _each(
    table: SignalTable,
    name: str,
    judge: Callable[[References], Floats],
    *,
    targets: Any,
    shadow: SignalTable | Sequence[SignalTable] | None,
    references: Any,
    population: Any,
    most: int | None,
) -> list[tuple[References, Floats]]:
    """The judgement of all targets together, or of each with its own shadow."""
    kind = MANY_ATTACKS[name]
    if shadow is None and kind.own:
        raise InputError(
            f"attack {name} needs {kind.own}",
            cure="give their table by shadow=",
            where=table.source,
        )
    rows: list[Any] = [targets]
    shadows: list[SignalTable | None] = []
    if shadow is None or isinstance(shadow, SignalTable):
        shadows = [shadow]
    else:
        shadows = list(shadow)
        rows = [[row] for row in (range(table.models) if targets is None else targets)]
        if len(rows) != len(shadows):
            raise InputError(
                f"{len(shadows)} shadow tables for {len(rows)} targets",
                cure="give one for each target, or one for all",
                where=table.source,
            )
    done = []
    for chosen, one in zip(rows, shadows, strict=True):
        bench = resolve(
            table,
            name,
            targets=chosen,
            shadow=one,
            references=references,
            population=population,
            most=most,
            aligned=kind.outside,
            alone=not kind.others,
        )
        if one is not None and kind.own and len(bench.targets) > 1:
            raise InputError(
                f"attack {name} on {len(bench.targets)} targets with the models of one",
                cure="give a list with a table for each target",
                where=one.source,
            )
        if kind.outside:
            bench.check(name, inside=kind.inside)
        done.append((bench, judge(bench)))
    return done


def _trained(bench: References) -> int:
    """How many references there are, less the one target that is none of its own."""
    if bench.source is bench.table:
        alone = len(bench.targets) == 1
        return len(bench.rows) - int(alone and bench.own[0] >= 0)
    return len(bench.rows)


def _notes(table: SignalTable, benches: list[References]) -> tuple[str, ...]:
    sources = {id(s): s for s in (table, *(bench.source for bench in benches))}
    return tuple(
        f"{plural(len(source.missing), 'model')} {'is' if len(source.missing) == 1 else 'are'} "
        f"missing from {source.source}: "
        + "; ".join(f"model {model}: {why}" for model, why in source.missing.items())
        for source in sources.values()
        if source.missing
    )


def _blind(name: str, *, shadow: bool, population: bool) -> bool:
    """Whether nothing of who is a member of the target can go into its scores.

    Models of L exist for members only. S judges by the other models, and P by the target alone.
    """
    if name == "L":
        return False
    kind = MANY_ATTACKS[name]
    return (shadow or not kind.outside) and (population or not kind.points)


def _counts_that_tell(name: str, benches: list[References]) -> tuple[str, ...]:
    """A note if the number of references alone tells members of a target from nonmembers."""
    found: list[tuple[float, int, Estimate, float]] = []
    targets = sum(len(bench.targets) for bench in benches)
    for bench in benches:
        if bench.source is bench.table or not MANY_ATTACKS[name].outside:
            continue
        count = np.concatenate([bench.counts(part) for part in bench.parts()])[bench.judged]
        if (count == count[0]).all():
            continue
        for row in bench.targets:
            member = bench.table.member[row, bench.judged]
            if member.all() or not member.any():
                continue
            auc = roc(count, member).auc(confidence=1.0 - _FALSE_NOTES / targets)
            if not auc.lower <= 0.5 <= auc.upper:
                found.append((abs(auc.value - 0.5), int(row), auc, float(np.median(count))))
    if not found:
        return ()
    _, row, auc, usual = max(found, key=lambda one: one[0])
    return (
        f"The number of references (usually {usual:.0f}) alone tells members of model {row} from "
        f"nonmembers: AUC {auc.value:.2f} ({auc.lower:.2f} to {auc.upper:.2f}). Attacks on models "
        "that learned nothing would see some of it. Take references that were drawn without "
        "regard to the target, or equally many for each sample",
    )
