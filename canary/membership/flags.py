"""Are members marked as nonmembers? By whom a model knows better."""

from __future__ import annotations

import numpy as np

from canary.signals.table import SignalTable
from canary.statistics.roc import roc
from canary.statistics.shares import difference_interval

__all__ = ["SURE", "swapped_flags"]

SURE = 0.999
"""Confidence of the interval that has to lie below chance, for all models of a table together."""


def swapped_flags(table: SignalTable, what: str) -> tuple[str, ...]:
    """What a reader has to know of models that do better on nonmembers than on members.

    Training makes no model worse on what it was trained on. One that is clearly worse there has
    flags that are swapped, or members that are harder than nonmembers by themselves.

    Parameters
    ----------
    table : SignalTable
    what : str
        What the table is called in the note: target or shadow.

    Returns
    -------
    tuple of str
        A note, or nothing.

    Notes
    -----
    By the accuracy on both, with `difference_interval`; by the AUC of the loss where the table
    has no correctness. With flags as they should be, one table in 2,000 is noted by chance at
    the most: the level is shared among its models (Bonferroni), and one side of it counts.
    """
    if table.of_texts:
        return ()
    confidence = 1.0 - (1.0 - SURE) / table.models
    by_accuracy = "correctness" in table.values
    values = table.signal("correctness" if by_accuracy else "loss")
    found = []
    for row, inside in zip(values, table.member, strict=True):
        if inside.all() or not inside.any():
            continue
        if by_accuracy:
            right = row.astype(np.bool_)
            ours, theirs = right[inside], right[~inside]
            counts = int(ours.sum()), len(ours), int(theirs.sum()), len(theirs)
            if difference_interval(*counts, confidence=confidence)[1] < 0.0:
                found.append(
                    f"right on {100 * ours.mean():.1f} % of members and {100 * theirs.mean():.1f} "
                    "% of nonmembers"
                )
        elif roc(-row, inside).auc(confidence=confidence).upper < 0.5:
            found.append(
                "a higher loss on members than on nonmembers, as confidences in place of losses "
                "have, too"
            )
    if not found:
        return ()
    which = "is" if table.models == 1 else f"has {len(found)} of {table.models} models that are"
    return (
        f"The {what} {which} {'better' if by_accuracy else 'surer'} on nonmembers than on members "
        f"({found[0]}), and training makes no model so: the flags member may be swapped. They are "
        "1 for samples that the model was trained on and 0 for others. If they are right, members "
        "and nonmembers are not from the same source",
    )
