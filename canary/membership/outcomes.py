"""What speaks against an answer: thresholds that do not fit, attacks upside down, no control."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from canary.membership.attacks import AttackScores
from canary.membership.doubts import SURE, View
from canary.signals.definitions import SIGNALS
from canary.signals.signal_table import SignalTable
from canary.statistics.roc import Estimate, Roc


def unfit_thresholds(
    attacked: Sequence[tuple[AttackScores, Roc]], shadow: SignalTable
) -> tuple[str, ...]:
    """A note if the thresholds of a shadow do not fit the target.

    That is where an attack calls nearly all samples of the target alike and those of the shadow
    not, its AUC is surely off 50 %, and another threshold would reach twice as much.
    """
    sure = 1.0 - (1.0 - SURE) / max(len(attacked), 1)
    off = []
    for attack, curve in attacked:
        if attack.guess is None or attack.thresholds is None:
            continue
        share = float(attack.guess.mean())
        rarer = min(share, 1.0 - share)
        if rarer >= 0.02 or not 0.1 <= _called(attack, shadow) <= 0.9:
            continue
        auc = curve.auc(confidence=sure)
        # So few of one kind cannot be farther from chance: TPR - FPR is at most their share of
        # the samples by the share of the kind that is rarer.
        kind = min(curve.members, curve.nonmembers) / (curve.members + curve.nonmembers)
        reach = float(np.abs(curve.tpr - curve.fpr).max())
        if not auc.lower <= 0.5 <= auc.upper and 2.0 * rarer / kind < reach:
            off.append((attack.name, share, auc.value))
    if not off:
        return ()
    name, share, value = max(off, key=lambda one: abs(one[2] - 0.5))
    return (
        f"The attack {name} calls {100 * share:.1f} % of the target's samples members, and its "
        f"AUC is {100 * value:.1f} %: the thresholds of the shadow do not fit the target, and its "
        "accuracy says nothing. Check that the outputs of both are in the same units: logits, "
        "probabilities or losses, on the same scale",
    )


def _called(attack: AttackScores, table: SignalTable) -> float:
    """Share of the samples of a table that the thresholds of an attack call members."""
    assert attack.thresholds is not None
    learned = attack.thresholds
    least = learned[table.label.clip(max=len(learned) - 1)] if len(learned) > 1 else learned
    sign = SIGNALS[attack.signal].sign
    return float((sign * table.signal(attack.signal) >= sign * least).mean())


def upside_down(aucs: Mapping[str, Callable[[float], Estimate]], what: str) -> tuple[str, ...]:
    """A note if attacks are surely worse than a coin: by chance in 1 of 2,000 (Bonferroni).

    Parameters
    ----------
    aucs : mapping of str to callable
        By the name of each attack, its AUC with an interval of a given confidence. Attacks
        that look for low losses of members, no others.
    what : str
        What may be swapped: flags, files.
    """
    confidence = 1.0 - (1.0 - SURE) / max(len(aucs), 1)
    reached = {name: auc(confidence) for name, auc in aucs.items()}
    below = [name for name, auc in reached.items() if auc.upper < 0.5]
    if not below:
        return ()
    name = min(below, key=lambda name: reached[name].value)
    return (
        f"The attack {name} is right on only {100 * reached[name].value:.1f} % of pairs of a "
        f"member and a nonmember, where chance is 50 %. Training makes no model so: the {what} of "
        "members and nonmembers may be swapped. If they are right, members and nonmembers are not "
        "from the same source",
    )


def positive_control(of: str) -> str:
    """What a reader has to know where nothing was found in models of which nothing is found."""
    return (
        f"The losses of members and nonmembers are alike in {of}, as they would be if the flags "
        "were of other samples or in another order. To rule that out, train a model for many "
        "epochs on a few samples, and save its outputs in the same way: the attacks must find its "
        "members"
    )


def contrast(target: SignalTable, shadow: SignalTable) -> tuple[str | None, str | None]:
    """Are the members of target and shadow found alike? Asked where those of the target are not.

    Returns
    -------
    doubt : str or None
        Why that decides nothing: the members of one are surely found better than those of the
        other, where chance explains the other.
    note : str or None
        `positive_control`, where neither's members are found.
    """
    if not all("loss" in table.values for table in (target, shadow)):
        return None, None
    ours = View(target, 0, "target").auc(SURE)
    theirs = [View(shadow, row, "shadow").auc(SURE) for row in range(shadow.models)]
    best = max(theirs, key=lambda auc: auc.lower)
    for there, here, one, other in (
        (best, ours, "shadow", "target"),
        (ours, best, "target", "shadow"),
    ):
        if here.lower <= 0.5 and here.upper < there.lower and there.lower > 0.5:
            return (
                f"The loss of the member is lower in {_percent(there)} of pairs of a member and a "
                f"nonmember of the {one} and in {_percent(here)} of the {other}'s, where chance is "
                f"50 %. If both were trained alike, the flags or the outputs of the {other} are of "
                "other samples or in another order. If not, train the shadow as the target was",
                None,
            )
    return None, positive_control("target and shadow") if best.lower <= 0.5 else None


def odd_models(table: SignalTable, names: Sequence[str]) -> tuple[str, ...]:
    """A note on a model whose members are not found where others' are.

    By the AUC of the loss, each with an interval of 99.9 % for all together (Bonferroni). A model
    is odd if its interval holds chance and is below that of the middle one of all models.
    """
    if "loss" not in table.values or table.models < 3:
        return ()
    views = [View(table, row, name, table.models) for row, name in enumerate(names)]
    aucs = {view.what: view.auc(SURE) for view in views if view.both}
    if not aucs:
        return ()
    middle = sorted(aucs.values(), key=lambda auc: auc.value)[len(aucs) // 2]
    odd = [name for name, auc in aucs.items() if auc.lower <= 0.5 and auc.upper < middle.lower]
    if not odd or middle.lower <= 0.5:
        return ()
    also = f". That holds for {len(odd)} of {table.models} models" * (len(odd) > 1)
    return (
        f"The loss of the member is lower in {_percent(aucs[odd[0]])} of pairs of a member and a "
        f"nonmember of model {odd[0]}, and in {_percent(middle)} of the middle model's. If "
        "all were trained alike, its flags or outputs are of other samples or in another order"
        f"{also}",
    )


def _percent(auc: Estimate) -> str:
    return f"{100 * auc.value:.1f} % ({100 * auc.lower:.1f} to {100 * auc.upper:.1f})"
