"""Does it say anything that nothing was found? By models whose members should be found, too."""

from __future__ import annotations

from collections.abc import Sequence

from canary.membership.flags import SURE
from canary.signals.signal_table import SignalTable
from canary.statistics.roc import Estimate, roc

__all__ = ["contrast", "odd_models", "positive_control"]


def positive_control(of: str) -> str:
    """What a reader has to know where nothing was found in models of which nothing is found."""
    return (
        f"The losses of members and nonmembers are alike in {of}, as they would be if the flags "
        "were of other samples or in another order. To rule that out, train a model for many "
        "epochs on a few samples, and save its outputs in the same way: the attacks must find its "
        "members"
    )


def contrast(target: SignalTable, shadow: SignalTable) -> tuple[str | None, str | None]:
    """Are the members of target and shadow found alike?

    Parameters
    ----------
    target, shadow : SignalTable
        Of which the attacks did not tell members of the target.

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
    ours, theirs = _auc(target, 0), [_auc(shadow, row) for row in range(shadow.models)]
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
    if best.lower <= 0.5:
        return None, positive_control("target and shadow")
    return None, None


def odd_models(table: SignalTable, names: Sequence[str]) -> tuple[str, ...]:
    """What a reader has to know of a model whose members are not found where others' are.

    Parameters
    ----------
    table : SignalTable
        Of several models on the same samples.
    names : sequence of str
        What its models are called.

    Notes
    -----
    By the AUC of the loss, each with an interval of 99.9 % for all together (Bonferroni). A model
    is odd if its interval holds chance and is below that of the middle one of all models.
    """
    if "loss" not in table.values or table.models < 3:
        return ()
    rows = [row for row in range(table.models) if _both(table, row)]
    found = {row: _auc(table, row, models=table.models) for row in rows}
    if not found:
        return ()
    middle = sorted(found.values(), key=lambda auc: auc.value)[len(found) // 2]
    odd = [row for row, auc in found.items() if auc.lower <= 0.5 and auc.upper < middle.lower]
    if not odd or middle.lower <= 0.5:
        return ()
    also = f". That holds for {len(odd)} of {table.models} models" * (len(odd) > 1)
    return (
        f"The loss of the member is lower in {_percent(found[odd[0]])} of pairs of a member and a "
        f"nonmember of model {names[odd[0]]}, and in {_percent(middle)} of the middle model's. If "
        "all were trained alike, its flags or outputs are of other samples or in another order"
        f"{also}",
    )


def _both(table: SignalTable, row: int) -> bool:
    return bool(table.member[row].any() and not table.member[row].all())


def _auc(table: SignalTable, row: int, *, models: int = 1) -> Estimate:
    found = roc(-table.signal("loss")[row], table.member[row])
    return found.auc(confidence=1.0 - (1.0 - SURE) / models)


def _percent(auc: Estimate) -> str:
    return f"{100 * auc.value:.1f} % ({100 * auc.lower:.1f} to {100 * auc.upper:.1f})"
