"""Metric attacks: a signal, and thresholds learned on a shadow model."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from canary.membership.association import shadow_is_blind
from canary.membership.attacks import Attack, AttackScores
from canary.membership.shadows import samples_of, shadow_rows
from canary.membership.thresholds import learn_thresholds
from canary.signals.definitions import SIGNALS, Signal
from canary.signals.signal_table import SignalTable
from canary.signals.text import TEXT_SIGNALS


def attacks_by(signal: Signal) -> tuple[Attack, ...]:
    """The attacks by a signal: with a threshold for each class, and with one for all.

    Correctness needs none: it is its own guess.
    """
    if signal.name == "correctness":
        return (Attack(name=signal.name, help=signal.help, signal=signal.name, score=by_threshold),)
    names = {"class": signal.name, "one": f"{signal.name}-one-threshold"}
    return tuple(
        Attack(
            name=names[how],
            help=signal.help,
            signal=signal.name,
            score=by_threshold,
            thresholds=how,
        )
        for how in ("class", "one")
    )


def by_threshold(
    table: SignalTable,
    attack: Attack,
    *,
    shadow: SignalTable | None,
    target: int,
    **_options: object,
) -> AttackScores:
    """Scores of one target, with the thresholds that its shadow teaches.

    Notes
    -----
    With class-dependent thresholds the score of a sample is its margin: the distance of its
    signal above the threshold of its class. Otherwise it is the signal, members high.
    """
    name, signal, per_class = attack.name, attack.signal, attack.thresholds == "class"
    sign = (TEXT_SIGNALS if table.of_texts else SIGNALS)[signal].sign
    scores = sign * table.signal(signal)[target]
    if attack.thresholds is None:
        return AttackScores(name, signal, scores, scores > 0, None, (), blind=True)
    if table.of_texts and shadow is None and table.models == 1:
        return AttackScores(name, signal, scores, None, None, (), blind=True)
    source, rows, notes = shadow_rows(table, shadow=shadow, target=target)
    values, member, label = samples_of(source, rows, signal, table.classes)
    learned = learn_thresholds(
        sign * values,
        member,
        label if per_class else np.zeros_like(label),
        classes=table.classes if per_class else 1,
    )
    classes = table.label if per_class else np.zeros_like(table.label)
    at = learned.values[classes]
    with np.errstate(invalid="ignore"):
        margin = np.where(scores == at, 0.0, scores - at)  # equal infinities are 0 apart
    margin = np.where(np.isnan(at), -np.inf, margin)
    return AttackScores(
        name,
        signal,
        margin if per_class else scores,
        margin >= 0,
        sign * learned.values,
        notes + _pooled(np.intersect1d(np.flatnonzero(learned.pooled), classes)),
        blind=shadow_is_blind(table, shadow=shadow, target=target),
    )


def _pooled(classes: NDArray[np.intp]) -> tuple[str, ...]:
    if not len(classes):
        return ()
    shown = ", ".join(map(str, classes[:10])) + (" and more" if len(classes) > 10 else "")
    return (
        f"The shadow lacks members or nonmembers of {len(classes)} "
        f"class{'es' if len(classes) > 1 else ''} ({shown}): the threshold of all classes "
        "together serves there",
    )
