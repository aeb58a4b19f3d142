"""Metric attacks: a signal, and thresholds learned on a shadow model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from canary.errors import InputError
from canary.membership.association import associated, check_shadow, shadow_is_blind
from canary.membership.many import attack_models
from canary.membership.many_attacks import MANY
from canary.membership.repeats import check_references
from canary.membership.thresholds import learn_thresholds
from canary.signals.definitions import SIGNALS
from canary.signals.signal_table import SignalTable
from canary.signals.text import TEXT_SIGNALS
from canary.statistics.tails import check_level

__all__ = [
    "ATTACKS",
    "NEURAL",
    "TEXT_ATTACKS",
    "AttackScores",
    "Thresholding",
    "applicable",
    "attack",
    "shadow_rows",
    "shadow_samples",
]

Thresholding = Literal["class", "one"]
"""A threshold for each class, or one for all."""

_EACH: tuple[tuple[str, Thresholding], ...] = (("", "class"), ("-one-threshold", "one"))

ATTACKS: dict[str, tuple[str, Thresholding | None]] = {
    "correctness": ("correctness", None),
    **{
        f"{signal}{suffix}": (signal, how)
        for signal in SIGNALS
        if signal != "correctness"
        for suffix, how in _EACH
    },
}
"""The attacks on classifiers by name: their signal, and how many thresholds they learn."""

TEXT_ATTACKS: dict[str, tuple[str, Thresholding | None]] = {
    signal: (signal, "one") for signal in TEXT_SIGNALS
}
"""The attacks on texts, which have no classes."""

NEURAL = ("neural", "neural-per-class")
"""Attacks by networks that read all outputs; `canary.membership.neural` has them."""


@dataclass(frozen=True, eq=False)
class AttackScores:
    """What an attack says of each sample of its target.

    Parameters
    ----------
    name, signal : str
    scores : ndarray of float64 of shape (samples,)
        Higher for what looks more like a member.
    guess : ndarray of bool of shape (samples,), or None
        Whether the attack calls the sample a member, by what it learned on the shadow. None
        where there was none to learn from.
    thresholds : ndarray of float64 of shape (classes,) or (1,), or None
        In units of the signal; NaN calls nobody a member. None for an attack that has
        none.
    notes : tuple of str
        What a reader has to know.
    blind : bool
        Whether the scores were made without a look at who is a member of the target: not by
        a shadow that holds samples of the target, or whose split goes with the target's.
    """

    name: str
    signal: str
    scores: NDArray[np.float64]
    guess: NDArray[np.bool_] | None
    thresholds: NDArray[np.float64] | None
    notes: tuple[str, ...]
    blind: bool


def applicable(table: SignalTable) -> list[str]:
    """Names of the attacks whose signal the table has; the neural ones where it has outputs."""
    there = [name for name, (signal, _) in ATTACKS.items() if signal in table.values]
    return there if table.outputs is None else [*there, *NEURAL]


def attack(
    table: SignalTable,
    name: str,
    *,
    shadow: SignalTable | None = None,
    target: int = 0,
    alpha: float = 0.1,
    seed: int = 0,
) -> AttackScores:
    """Say of each sample how much it looks like a member of the target model.

    Parameters
    ----------
    table : SignalTable
    name : str
        One of `ATTACKS`: a signal with a threshold for each class (``modified-entropy``),
        or with one for all (``modified-entropy-one-threshold``), or ``correctness``; or one
        of `NEURAL`, for tables with outputs. Or one of those that compare with many models,
        ``S`` to ``rmia-offline``: see `canary.membership.many.attack_models`, which has their
        options and takes all targets at once. On a table of texts one of `TEXT_ATTACKS`,
        which has one threshold for all.
    shadow : SignalTable, optional
        Models whose members the attacker knows, all of which serve as shadows. Unless
        given, these are the other models of `table`. A table of texts needs none; without
        one there are scores and no guesses.
    target : int
        The model of `table` that is attacked.
    alpha : float
        Of attacks that compare with many models: the share of nonmembers that they may call
        members by mistake. Online LiRA calls a sample a member where that is the likelier.
    seed : int
        Of the neural attacks; the others draw nothing.

    Returns
    -------
    AttackScores
        With class-dependent thresholds the score of a sample is its margin, the distance
        of its signal above the threshold of its class: 0 and more is a guess of "member".
        Otherwise it is the signal itself, turned so that members are high.

    Raises
    ------
    InputError
        If there is no such attack, signal, target or shadow, the shadow has another number
        of classes, or it is the target itself (`canary.membership.sharing.shared_rows`).
    EstimationError
        If the shadow has no members or no nonmembers.

    Notes
    -----
    Song and Mittal [1]_, sections 3.1.1 to 3.1.3: thresholds maximise the balanced accuracy
    on the shadow, per class; equations 5, 6, 7 and 9. Class-independent ones are those of
    the earlier work that they improve on. They never look at the members of the target;
    attacks that compare with many models may, and their scores say so (`blind`).

    References
    ----------
    .. [1] Song and Mittal, Systematic Evaluation of Privacy Risks of Machine Learning
       Models, USENIX Security 2021.
    """
    where = "attack"
    attacks = TEXT_ATTACKS if table.of_texts else ATTACKS
    named = [*attacks] if table.of_texts else [*attacks, *NEURAL, *MANY]
    if name not in named:
        raise InputError(
            f"there is no attack {name!r}{' on texts' * table.of_texts}",
            cure=f"name one of {', '.join(named)}",
            where=where,
        )
    if not 0 <= target < table.models:
        raise InputError(
            f"there is no model {target} in a table of {table.models}",
            cure="count them from 0",
            where=where,
        )
    if name in MANY:
        return _of_many(table, name, shadow=shadow, target=target, alpha=alpha)
    if name in NEURAL:
        from canary.membership.neural import neural_attack  # which builds on this module

        return neural_attack(table, name, shadow=shadow, target=target, seed=seed)
    signal, how = attacks[name]
    sign = (TEXT_SIGNALS if table.of_texts else SIGNALS)[signal].sign
    scores = sign * table.signal(signal)[target]
    if how is None:
        return AttackScores(name, signal, scores, scores > 0, None, (), blind=True)
    if table.of_texts and shadow is None and table.models == 1:
        return AttackScores(name, signal, scores, None, None, (), blind=True)
    source, rows, notes = shadow_rows(table, shadow=shadow, target=target)
    values, member, label = _samples(source, rows, signal, table.classes)
    per_class = how == "class"
    learned = learn_thresholds(
        sign * values,
        member,
        label if per_class else np.zeros_like(label),
        classes=table.classes if per_class else 1,
    )
    at = learned.values[table.label if per_class else np.zeros_like(table.label)]
    margin = _margin(scores, at)
    seen = np.zeros(len(learned.pooled), np.bool_)
    seen[table.label if per_class else 0] = True
    return AttackScores(
        name,
        signal,
        margin if per_class else scores,
        margin >= 0,
        sign * learned.values,
        notes + _notes(np.flatnonzero(learned.pooled & seen)),
        blind=shadow_is_blind(table, shadow=shadow, target=target),
    )


def _of_many(
    table: SignalTable, name: str, *, shadow: SignalTable | None, target: int, alpha: float
) -> AttackScores:
    check_level(alpha, "attack")
    found = attack_models(table, name, shadow=shadow, targets=[target])
    scores = found.scores[0]
    guess = found.guess(alpha)[0] if found.calibrated else scores >= 0
    return AttackScores(name, found.signal, scores, guess, None, found.notes, found.blind)


def shadow_samples(
    table: SignalTable, signal: str, *, shadow: SignalTable | None, target: int
) -> tuple[NDArray[np.float64], NDArray[np.bool_], NDArray[np.int64]]:
    """Signal, member and label of all samples of all shadow models, behind each other."""
    source, rows, _ = shadow_rows(table, shadow=shadow, target=target)
    return _samples(source, rows, signal, table.classes)


def _samples(
    source: SignalTable, rows: list[int], signal: str, classes: int
) -> tuple[NDArray[np.float64], NDArray[np.bool_], NDArray[np.int64]]:
    values = source.signal(signal)[rows].ravel()
    label = np.tile(source.label, len(rows))
    if label.max() >= classes:  # of losses, which do not tell their classes
        keep = label < classes
        return values[keep], source.member[rows].ravel()[keep], label[keep]
    return values, source.member[rows].ravel(), label


def shadow_rows(
    table: SignalTable, *, shadow: SignalTable | None, target: int
) -> tuple[SignalTable, list[int], tuple[str, ...]]:
    """The table of the shadows, which of its models they are, and what to say of them."""
    source = table if shadow is None else shadow
    if source.of_texts != table.of_texts:
        raise InputError(
            "one of target and shadow is a table of texts, the other of a classifier's samples",
            cure="measure both alike",
            where=source.source,
        )
    if source.classes != table.classes and "entropy" in source.values:
        raise InputError(
            f"the target has {table.classes} classes and the shadow {source.classes}",
            cure="train the shadow on the target's classes, numbered alike",
            where=source.source,
        )
    if shadow is not None:
        return shadow, list(range(shadow.models)), check_shadow(table, shadow, row=target)
    rows = [row for row in range(table.models) if row != target]
    if not rows:
        raise InputError(
            "there is no shadow: the table has one model",
            cure="give a table of shadow models by shadow=",
            where=table.source,
        )
    found = associated(table, None, row=target)
    notes: tuple[str, ...] = () if found is None else (found.note(),)
    if "loss" in table.values:
        notes += check_references(table, np.array([target]), None, np.array(rows))
    return table, rows, notes


def _margin(scores: NDArray[np.float64], at: NDArray[np.float64]) -> NDArray[np.float64]:
    """How far scores are above thresholds; infinities that are equal are 0 apart."""
    with np.errstate(invalid="ignore"):
        margin = np.where(scores == at, 0.0, scores - at)
    return np.where(np.isnan(at), -np.inf, margin)


def _notes(pooled: NDArray[np.intp]) -> tuple[str, ...]:
    if not len(pooled):
        return ()
    shown = ", ".join(map(str, pooled[:10])) + (" and more" if len(pooled) > 10 else "")
    return (
        f"The shadow lacks members or nonmembers of {len(pooled)} "
        f"class{'es' if len(pooled) > 1 else ''} ({shown}): the threshold of all classes "
        "together serves there",
    )
