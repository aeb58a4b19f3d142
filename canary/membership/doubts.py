"""What speaks against the files themselves, before any attack: labels, classes, copies, shadows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from canary.membership.flags import swapped_flags
from canary.membership.sharing import row_marks
from canary.signals.table import SignalTable
from canary.statistics.numbers import plural
from canary.statistics.shares import clopper_pearson, difference_interval

__all__ = ["doubts", "doubts_of_pair"]

_SURE = 0.999
"""Confidence with which a note is given."""

_CLASSES = 1e-6
"""Chance that classes of members and nonmembers differ so much if both are drawn alike."""

_COPIES = 0.005
"""Share of samples that have a copy of the other kind, from which on it is said."""

_DISTINCT = 0.9
"""Share of different rows below which equal outputs are no sign of equal samples."""

_EACH = 10
"""Samples for each class of the outputs from which on classes without any are said to lack."""

_APART = 0.1
"""Difference of accuracies from which on a shadow is another kind of model."""


def doubts(table: SignalTable, what: str, *, row: int = 0) -> tuple[str, ...]:
    """What a reader has to know of how a table was put together.

    Parameters
    ----------
    table : SignalTable
        Of samples of both kinds, by a classifier; of texts nothing is said.
    what : str
        What the table is called in the notes: target or shadow.
    row : int
        The model that is looked at.

    Returns
    -------
    tuple of str

    Notes
    -----
    Flags that may be swapped (`canary.membership.flags`); labels that name few of the classes; a
    model that is no better on its members than one that names the most common class; classes
    that differ between members and nonmembers (chi-squared at 1e-6); and samples of equal
    outputs and label with both flags. A table that is as it should be has none in 499 of 500.
    """
    if table.of_texts:
        return ()
    member = table.member[row]
    return (
        *swapped_flags(table, what),
        *_few_classes(table, what),
        *_guessing(table, what, row),
        *_other_classes(table, what, member),
        *_copies(table, what, row),
    )


def doubts_of_pair(target: SignalTable, shadow: SignalTable) -> tuple[str, ...]:
    """`doubts` of target and shadow, and whether the shadow is as accurate as the target.

    Thresholds of a shadow that does much better or worse on its nonmembers do not fit.
    """
    notes = (*doubts(target, "target"), *doubts(shadow, "shadow"))
    if not all("correctness" in table.values for table in (target, shadow)):
        return notes
    right = [table.values["correctness"][~table.member] for table in (target, shadow)]
    counts = [number for one in right for number in (int(one.sum()), len(one))]
    low, high = difference_interval(*counts, confidence=_SURE)
    ours, theirs = (float(one.mean()) for one in right)
    if low <= 0.0 <= high or abs(ours - theirs) < _APART:
        return notes
    return (
        *notes,
        f"The target is right on {100 * ours:.1f} % of its nonmembers and the shadow on "
        f"{100 * theirs:.1f} % of its own: what is learned on so different a model may not fit, "
        "and the figures may be too low. Train the shadow as the target was, on as many samples "
        "of the same source",
    )


def _few_classes(table: SignalTable, what: str) -> tuple[str, ...]:
    named = len(np.unique(table.label))
    if "correctness" not in table.values or 2 * named > table.classes or table.classes <= 2:
        return ()
    if table.samples < _EACH * table.classes:
        return ()
    return (
        f"The labels of the {what} name {named} of {table.classes} classes. Check that they are "
        "the numbers of the classes and not an answer to another question, as right or wrong",
    )


def _guessing(table: SignalTable, what: str, row: int) -> tuple[str, ...]:
    if "correctness" not in table.values:
        return ()
    member = table.member[row]
    right = int(table.values["correctness"][row][member].sum())
    members = int(member.sum())
    if not members:
        return ()
    common = int(np.bincount(table.label[member]).max())
    if float(clopper_pearson(right, members, (1.0 - _SURE) / 2.0)[0]) > common / members:
        return ()
    return (
        f"The {what} is right on {100 * right / members:.1f} % of its members, and naming the most "
        f"common class would be on {100 * common / members:.1f} %: it learned nothing, or the "
        "labels are of other samples, in another order, or numbered otherwise than the outputs. "
        "Then attacks find nothing, whatever the model remembers",
    )


def _other_classes(table: SignalTable, what: str, member: NDArray[np.bool_]) -> tuple[str, ...]:
    from scipy.special import chdtrc

    classes = np.unique(table.label, return_inverse=True)[1]
    inside = np.bincount(classes, member)
    every = np.bincount(classes).astype(np.float64)
    share = inside.sum() / every.sum()
    if len(every) < 2 or not 0.0 < share < 1.0:
        return ()
    excess = float(((inside - every * share) ** 2 / (every * share * (1.0 - share))).sum())
    if chdtrc(len(every) - 1, excess) >= _CLASSES or every.mean() * min(share, 1 - share) < 5.0:
        return ()
    gap = inside / inside.sum() - (every - inside) / (every.sum() - inside.sum())
    most = int(np.abs(gap).argmax())
    shares = inside[most] / inside.sum(), (every - inside)[most] / (every.sum() - inside.sum())
    return (
        f"Members and nonmembers of the {what} are not of the same classes: class "
        f"{np.unique(table.label)[most]} is {100 * shares[0]:.1f} % of members and "
        f"{100 * shares[1]:.1f} % of nonmembers. Attacks may see that, and not who was trained on. "
        "Draw both at random from one source",
    )


def _copies(table: SignalTable, what: str, row: int) -> tuple[str, ...]:
    marks = row_marks(table, row)
    different, at = np.unique(marks, return_inverse=True)
    if len(different) < _DISTINCT * table.samples:
        return ()
    inside = np.bincount(at, table.member[row])
    every = np.bincount(at)
    both = (inside > 0) & (inside < every)
    copies = int(every[both].sum())
    if copies < max(_COPIES * table.samples, 3):
        return ()
    return (
        f"{plural(copies, 'sample')} of the {what} have the outputs and the label of a sample of "
        "the other kind, as copies have: a copy of a member is no nonmember. Leave copies out",
    )
