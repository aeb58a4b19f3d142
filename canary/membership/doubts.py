"""What speaks against the files themselves, before any attack: labels, classes, copies, shadows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from canary.membership.flags import moved_flags, swapped_flags
from canary.membership.loss_units import confidences, other_units
from canary.membership.metric import AttackScores
from canary.membership.sharing import row_marks
from canary.signals.definitions import SIGNALS
from canary.signals.signal_table import SignalTable
from canary.statistics.numbers import plural
from canary.statistics.roc import Roc
from canary.statistics.shares import clopper_pearson, difference_interval

__all__ = ["doubts", "doubts_of_attacks", "doubts_of_models", "doubts_of_pair"]

_SURE = 0.999
"""Confidence with which a note is given."""

_CLASSES = 1e-6
"""Chance that classes of members and nonmembers differ so much if both are drawn alike."""

_COPIES = 0.005
"""Share of samples that have a copy of the other kind, from which on it is said."""

_FLOAT32 = 2.0**-23
"""Between losses near 0 in float32, as the logarithm of a number near 1 has them."""

_DISTINCT = 0.9
"""Share of different rows below which equal outputs are no sign of equal samples: if those of
both kinds are no more than chance makes of them."""

_TIED = 0.5
"""Share of samples with one loss from which on the outputs have lost what attacks look for."""

_EACH = 10
"""Samples for each class of the outputs from which on classes without any are said to lack."""

_APART = 0.1
"""Difference of accuracies from which on a shadow is another kind of model."""

_MEANS = 1e-4
"""Chance of runs of equal losses as batches have, if losses were in random order."""

_ALIKE = 0.02
"""Share of guesses of the rarer kind below which an attack calls nearly all samples alike."""

_MIXED = 0.1
"""The same share of the shadow, from which on the thresholds did not call all alike there."""

_FEWEST = 10
"""Losses below which nothing is said of how few are different."""


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
    Flags that may be swapped or moved (`canary.membership.flags`); losses that are means of
    batches, or probabilities (`canary.membership.loss_units`), where the table has nothing else;
    labels that name few of the classes; a model that is no better on its members than one that
    names the most common class; classes that differ between members and nonmembers (chi-squared
    at 1e-6);
    and samples of equal outputs and label with both flags. A table that is as it should be has
    none in 499 of 500.
    """
    if table.of_texts:
        return ()
    member = table.member[row]
    return (
        *swapped_flags(table, what),
        *moved_flags(table, what),
        *(_means(table, what) or confidences(table, what) or _tied(table, what)),
        *_few_classes(table, what),
        *_guessing(table, what, row),
        *_other_classes(table, what, member),
        *_copies(table, what, row),
    )


def doubts_of_pair(target: SignalTable, shadow: SignalTable) -> tuple[str, ...]:
    """`doubts` of both, and whether the shadow is as accurate as the target, in the same units.

    Thresholds of a shadow that does much better or worse on its nonmembers do not fit.
    """
    notes = (*doubts(target, "target"), *doubts(shadow, "shadow"))
    tables = (target, shadow)
    if not all("correctness" in table.values for table in tables):
        losses = [table.signal("loss")[~table.member] for table in tables]
        return (*notes, *other_units(losses[0], losses[1], "target", "shadow"))
    right = [table.values["correctness"][~table.member] for table in tables]
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


def doubts_of_models(table: SignalTable, names: Sequence[str]) -> tuple[str, ...]:
    """`doubts` of each model of one table; of several models with the same doubt, the first.

    Copies are samples of which every model says the
    same, and of which only one was a member of some model.
    """
    if table.of_texts:
        return ()
    what = "model" if table.models == 1 else "table of models"
    notes = [
        *swapped_flags(table, what),
        *moved_flags(table, what),
        *(_means(table, what) or confidences(table, what) or _tied(table, what)),
        *_few_classes(table, what),
        *_copies_in_all(table, what),
    ]
    called = [f"model {name}" for name in names]
    rows = range(table.models)
    losses = []
    if "correctness" not in table.values:
        losses = [table.signal("loss")[row, ~table.member[row]] for row in rows]
    middle = sorted(rows, key=lambda row: np.median(losses[row]))[len(rows) // 2] if losses else 0
    for found in (
        [
            other_units(one, losses[middle], called[row], called[middle])
            for row, one in enumerate(losses)
        ],
        [_guessing(table, called[row], row) for row in rows],
        [_other_classes(table, called[row], table.member[row]) for row in rows],
    ):
        said = [note for one in found for note in one]
        if said:
            also = f". That holds for {len(said)} of {plural(table.models, 'model')}"
            notes.append(said[0] + also * (len(said) > 1))
    return tuple(notes)


def doubts_of_attacks(
    found: Sequence[tuple[AttackScores, Roc]], shadow: SignalTable
) -> tuple[str, ...]:
    """What a reader has to know of attacks whose thresholds do not fit the target.

    Parameters
    ----------
    found : sequence of (AttackScores, Roc)
        Of each attack on the target.
    shadow : SignalTable

    Returns
    -------
    tuple of str
        A note if an attack calls nearly all samples of the target alike and those of the shadow
        not, its AUC is surely off 50 %, and another threshold would reach twice as much.
    """
    sure = 1.0 - (1.0 - _SURE) / max(len(found), 1)
    off = []
    for attack, curve in found:
        if attack.guess is None or attack.thresholds is None:
            continue
        share = float(attack.guess.mean())
        rarer = min(share, 1.0 - share)
        if rarer >= _ALIKE or not _MIXED <= _called(attack, shadow) <= 1.0 - _MIXED:
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
    at = learned[table.label.clip(max=len(learned) - 1)] if len(learned) > 1 else learned
    sign = SIGNALS[attack.signal].sign
    return float((sign * table.signal(attack.signal) >= sign * at).mean())


def _means(table: SignalTable, what: str) -> tuple[str, ...]:
    """Losses that are one for all, or one for each run of neighbours."""
    from scipy.special import gammaln

    loss = table.values.get("loss")
    if loss is None or "correctness" in table.values or table.samples < _FEWEST:
        return ()
    found = []
    for row in loss:
        counts = np.unique(row, return_counts=True)[1]
        runs = 1 + int((row[1:] != row[:-1]).sum())
        if runs > len(counts) or 2 * runs > table.samples:
            continue
        # Of all orders of these losses, the share in which equal ones are neighbours.
        chance = gammaln(runs + 1) + gammaln(counts + 1).sum() - gammaln(table.samples + 1)
        if runs == 1 or chance < np.log(_MEANS / table.models):
            found.append(runs)
    if not found:
        return ()
    of = f" in {len(found)} of {table.models} models" * (table.models > 1)
    losses = "the same loss" if found[0] == 1 else f"only {found[0]:,} different losses"
    return (
        f"The {table.samples:,} samples of the {what} have {losses}{of}, as means of batches "
        "have: save one loss for each sample (reduction='none' in PyTorch). Attacks need those",
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
    sure = float(clopper_pearson(right, members, (1.0 - _SURE) / 2.0)[0])
    # Of few members, many that are right are no sign of a model that learned nothing.
    if sure > common / members or 2 * right > members + common:
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
    from scipy.special import bdtrc

    marks = row_marks(table, row)
    different, at = np.unique(marks, return_inverse=True)
    # Of more than two of a kind it may be that probabilities are 0 and 1.
    inside = np.bincount(at, table.member[row])[np.bincount(at) == 2]
    both, share = int((inside == 1).sum()), float(table.member[row].mean())
    chance = float(bdtrc(both - 1, len(inside), 2.0 * share * (1.0 - share))) if both else 1.0
    copies = 2 * both
    if "entropy" not in table.values:  # losses alone, and what follows from them
        # In float32 the losses of samples that are sure lie that far apart, and meet by chance.
        away = np.sort(table.signal("loss")[row])
        near = np.maximum(away[10:] - away[:-10], 10 * _FLOAT32)
        if both <= 2.0 * float((10 * _FLOAT32 / near).sum()):
            return ()
    if copies < max(_COPIES * table.samples, 3):
        return ()
    if len(different) < _DISTINCT * table.samples and chance > _CLASSES:
        return ()
    return (
        f"{plural(copies, 'sample')} of the {what} have the outputs and the label of a sample of "
        "the other kind, as copies have: a copy of a member is no nonmember. Leave copies out; if "
        "there are none, save more digits",
    )


def _tied(table: SignalTable, what: str) -> tuple[str, ...]:
    """Losses of which most are one number, as of hard labels."""
    if "loss" not in table.values or table.samples < _FEWEST:
        return ()
    for loss in table.signal("loss"):
        values, often = np.unique(loss, return_counts=True)
        most = int(often.argmax())
        if len(values) > 1 and often[most] >= _TIED * table.samples:
            return (
                f"{100 * often[most] / table.samples:.1f} % of the samples of the {what} have the "
                f"same loss, as hard labels, rounded probabilities and probabilities of 1 have: "
                "that hides what attacks look for. Save logits, with all digits",
            )
    return ()


def _copies_in_all(table: SignalTable, what: str) -> tuple[str, ...]:
    """As `_copies`, of samples that have the same outputs in every model."""
    marks = np.stack([row_marks(table, row) for row in range(table.models)])
    different, at = np.unique(marks, axis=1, return_inverse=True)
    at = at.reshape(-1)
    if different.shape[1] < _DISTINCT * table.samples:
        return ()
    every = np.bincount(at)
    both = np.zeros(len(every), np.bool_)
    for member in table.member:
        inside = np.bincount(at, member, len(every))
        both |= (inside > 0) & (inside < every)
    copies = int(every[both].sum())
    if copies < max(_COPIES * table.samples, 3):
        return ()
    return (
        f"{plural(copies, 'sample')} of the {what} have the outputs and the label of another "
        "sample in every model, as copies have, and not the same models were trained on both: a "
        "copy of a member is no nonmember. Leave copies out",
    )
