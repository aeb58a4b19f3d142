"""Are flags those of the samples? By whom a model knows better: swapped ones, and moved ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from canary.signals.signal_table import SignalTable
from canary.statistics.numbers import plural
from canary.statistics.roc import Estimate, roc
from canary.statistics.shares import clopper_pearson, difference_interval

__all__ = ["SURE", "moved_flags", "swapped_flags", "upside_down"]

SURE = 0.999
"""Confidence of the interval that has to lie below chance, for all models of a table together."""

_MOVED = 1e-6
"""Chance that losses of other samples fit flags so well at some distance."""

_IN_ORDER = 6.0
"""Standard errors from which on flags depend on each other at some distance."""

_FEWEST = 64
"""Samples below which no distance is looked at."""


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
    By the accuracy on both, with `difference_interval`. Where that does not decide, or the
    table has no correctness, by the AUC of the loss: not of a model that is no better than one
    that names the most common class, as with labels of other samples, where the surer model has
    the higher losses. With flags as they should be, one table in
    2,000 is noted by chance at the most: the level is shared among its models and the two
    questions (Bonferroni), and one side of it counts.
    """
    if table.of_texts:
        return ()
    right, loss = table.values.get("correctness"), table.values.get("loss")
    questions = (right is not None) + (loss is not None)
    confidence = 1.0 - (1.0 - SURE) / (table.models * max(questions, 1))
    found = []
    for row, inside in enumerate(table.member):
        if inside.all() or not inside.any():
            continue
        better, said = None, ""
        if right is not None:
            better, said = _by_accuracy(right[row].astype(np.bool_), inside, confidence)
        if better is None and loss is not None and _learned(right, row, table):
            better, said = _by_loss(loss[row], inside, confidence, bare=right is None)
        if better is False:
            found.append(said)
    if not found:
        return ()
    by_accuracy = found[0].startswith("right")
    which = "is" if table.models == 1 else f"has {len(found)} of {table.models} models that are"
    return (
        f"The {what} {which} {'better' if by_accuracy else 'surer'} on nonmembers than on members "
        f"({found[0]}), and training makes no model so: the flags member may be swapped. They are "
        "1 for samples that the model was trained on and 0 for others. If they are right, members "
        "and nonmembers are not from the same source",
    )


def moved_flags(table: SignalTable, what: str) -> tuple[str, ...]:
    """What a reader has to know of flags that are those of the samples some places before.

    Parameters
    ----------
    table : SignalTable
    what : str
        What the table is called in the note: target or shadow.

    Returns
    -------
    tuple of str
        A note, or nothing: of flags as they should be in one table in a million.

    Notes
    -----
    The ranks of the losses are correlated with the flags at every distance around the file
    (Bonferroni). Only of flags in random order: in blocks or in turn they fit whatever depends on
    the place in the file. O(n log n) for each model.
    """
    from scipy.special import ndtri
    from scipy.stats import rankdata

    n, level = table.samples, float(ndtri(_MOVED / (table.models * table.samples)))
    if "loss" not in table.values or n < _FEWEST:
        return ()
    found: list[int] = []
    for loss, inside in zip(table.signal("loss"), table.member, strict=True):
        both = np.stack([inside.astype(np.float64), rankdata(loss)])
        both -= both.mean(axis=1, keepdims=True)
        spread = np.sqrt((both * both).sum(axis=1))
        if not spread.all():
            continue
        flags, ranks = np.fft.rfft(both / spread[:, None])
        along, fit = np.fft.irfft([np.abs(flags) ** 2, np.conj(flags) * ranks], n) * np.sqrt(n)
        if np.abs(along[1:]).max() < _IN_ORDER and fit.min() < level < fit[0]:
            found.append(int(fit.argmin()))
    if not found:
        return ()
    by = min(found[0], n - found[0])
    of = f" in {len(found)} of {table.models} models" * (table.models > 1)
    return (
        f"The flags member of the {what} fit its losses if they are moved by "
        f"{plural(by, 'sample')}{of}, and as they are they do not: they are of other samples. Save "
        "flags, labels and outputs of each sample together",
    )


def _learned(right: NDArray[np.float64] | None, row: int, table: SignalTable) -> bool:
    """Whether a model is surely better than one that names the most common class, if known."""
    if right is None:
        return True
    low = clopper_pearson(int(right[row].sum()), table.samples, (1.0 - SURE) / 2.0)[0]
    return float(low) > float(np.unique(table.label, return_counts=True)[1].max()) / table.samples


def upside_down(aucs: Mapping[str, Callable[[float], Estimate]], what: str) -> tuple[str, ...]:
    """What a reader has to know of attacks that are surely worse than a coin.

    Parameters
    ----------
    aucs : mapping of str to callable
        By the name of each attack, its AUC with an interval of a given confidence. Attacks
        that look for low losses of members, no others.
    what : str
        What may be swapped: flags, files.

    Returns
    -------
    tuple of str
        A note, or nothing: by chance in 1 of 2,000 at the most (Bonferroni).
    """
    confidence = 1.0 - (1.0 - SURE) / max(len(aucs), 1)
    found = {name: auc(confidence) for name, auc in aucs.items()}
    below = {name: auc for name, auc in found.items() if auc.upper < 0.5}
    if not below:
        return ()
    name = min(below, key=lambda name: below[name].value)
    return (
        f"The attack {name} is right on only {100 * below[name].value:.1f} % of pairs of a member "
        f"and a nonmember, where chance is 50 %. Training makes no model so: the {what} of members "
        "and nonmembers may be swapped. If they are right, members and nonmembers are not from "
        "the same source",
    )


def _by_accuracy(
    right: NDArray[np.bool_], inside: NDArray[np.bool_], confidence: float
) -> tuple[bool | None, str]:
    """Whether a model is right on members more often; None where that is not decided."""
    ours, theirs = right[inside], right[~inside]
    counts = int(ours.sum()), len(ours), int(theirs.sum()), len(theirs)
    low, high = difference_interval(*counts, confidence=confidence)
    said = (
        f"right on {100 * ours.mean():.1f} % of members and {100 * theirs.mean():.1f} "
        "% of nonmembers"
    )
    return (None if low <= 0.0 <= high else low > 0.0), said


def _by_loss(
    loss: NDArray[np.float64], inside: NDArray[np.bool_], confidence: float, *, bare: bool
) -> tuple[bool | None, str]:
    """Whether losses are lower on members; None where that is not decided."""
    auc = roc(-loss, inside).auc(confidence=confidence)
    said = (
        f"a higher loss on members than on nonmembers in {100 * (1 - auc.value):.1f} % of pairs"
        f"{', as confidences in place of losses have, too' * bare}"
    )
    return (None if auc.lower <= 0.5 <= auc.upper else auc.lower > 0.5), said
