"""What speaks against the files themselves: flags, losses, labels, classes, inputs, copies.

A check looks at one model of a table and gives a note, or nothing; `CHECKS` lists them. Of files
that are as they should be one table in 499 has a note.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from weakref import WeakKeyDictionary, WeakSet

import numpy as np

from canary.membership import inputs_alone
from canary.membership.fleet_doubts import RARE, fleet_doubts, in_other_units, other_factor
from canary.membership.inputs_alone import exact_copies, near_copies, other_source
from canary.membership.own_labels import never_wrong, too_flat
from canary.membership.sharing import row_marks
from canary.membership.unlike import (
    PAIR,
    only_hides,
    right_of,
    together,
    unlike_accuracy,
    unlike_others,
)
from canary.signals.signal_table import SignalTable
from canary.statistics.numbers import percent_of, plural
from canary.statistics.roc import Estimate, roc
from canary.statistics.shares import clopper_pearson, difference_interval

SURE = 0.999
"""Confidence with which a note is given, for all models of a table together."""

_FLOAT32 = 2.0**-23
"""Between losses near 0 in float32, as the logarithm of a number near 1 has them."""

_NEVER, _KNOWS = 0.1, 0.9
"""Of its own members a model names more rightly, of a class that it learned, and of all learned."""

_LEARNED = 0.01
"""A model learned something if naming the most common class were so right by this chance."""

TOLD: WeakKeyDictionary[SignalTable, WeakSet[SignalTable]] = WeakKeyDictionary()
"""The shadows of each target whose doubts were told."""


class View:
    """One model of a table, as a check looks at it.

    `what` is what it is called in notes (target, shadow, model 3), `models` how many are looked at,
    which share the chance of a note; `right` and `loss` of each sample are None if not known.
    """

    def __init__(self, table: SignalTable, row: int, what: str, models: int = 1) -> None:
        self.table, self.row, self.what, self.models = table, row, what, models
        self.member = table.member[row]
        self.both = bool(self.member.any() and not self.member.all())
        right, loss = table.values.get("correctness"), table.values.get("loss")
        self.right = None if right is None else right[row].astype(np.bool_)
        self.loss = None if loss is None else loss[row]

    def auc(self, confidence: float) -> Estimate:
        """How often the loss of a member is lower than that of a non-member."""
        curve = roc(-self.table.signal("loss")[self.row], self.member)
        return curve.auc(confidence=1.0 - (1.0 - confidence) / self.models)


def doubts(table: SignalTable, what: str, *, row: int = 0) -> tuple[str, ...]:
    """Notes on how the file of one model (`what`: target or shadow) was put together."""
    return _of_views([View(table, row, what)])


def doubts_of_pair(target: SignalTable, shadow: SignalTable) -> tuple[str, ...]:
    """`doubts` of both, and whether the shadow is as accurate as the target, in the same units."""
    TOLD.setdefault(target, WeakSet()).add(shadow)
    tables = (target, shadow)
    notes = (*doubts(target, "target"), *_of_views(shadow_views(shadow)), *never_wrong(tables))
    if not all("correctness" in table.values for table in tables):
        ours, theirs = (table.signal("loss")[~table.member] for table in tables)
        units = other_factor(ours, theirs)
        return notes if units is None else (*notes, in_other_units(units, "target", "shadow"))
    first, second = (right_of(t.values["correctness"].astype(np.bool_), t.member) for t in tables)
    unlike = unlike_accuracy(first, second, PAIR, sure=SURE)
    return notes if unlike is None else (*notes, unlike)


def shadow_views(shadow: SignalTable) -> list[View]:
    """All models of a shadow."""
    name = "shadow model {}" if shadow.models > 1 else "shadow"
    return [View(shadow, row, name.format(row), shadow.models) for row in range(shadow.models)]


def doubts_of_models(
    table: SignalTable, names: Sequence[str], targets: Sequence[int]
) -> tuple[str, ...]:
    """`doubts` of each model of one table; losses in other units, odd models, unlike targets."""
    views = [View(table, row, f"model {name}", table.models) for row, name in enumerate(names)]
    notes = _of_views(views)
    moved = any("if they are moved by" in note for note in notes)
    notes += fleet_doubts(table, [view.what for view in views], moved=moved)
    kinds = [(view.loss is not None and view.both, row) for row, view in enumerate(views)]
    aucs = {row: views[row].auc(SURE) for able, row in kinds if able}
    counts = [right_of(view.right, view.member) for view in views if view.right is not None]
    unlike = unlike_others(names, targets, counts, aucs, table, sure=SURE)
    unlike.sort(key=lambda note: note is not None and only_hides(note))  # the graver one is said
    return notes + _odd_models(views, aucs) + together(unlike)


def _odd_models(views: Sequence[View], found: Mapping[int, Estimate]) -> tuple[str, ...]:
    """A note on a model whose AUC of the loss holds chance, and is below the middle one's."""
    aucs = {views[row].what: auc for row, auc in found.items()}
    if not aucs or len(views) < 3:
        return ()
    middle = sorted(aucs.values(), key=lambda auc: auc.value)[len(aucs) // 2]
    odd = [name for name, auc in aucs.items() if auc.lower <= 0.5 and auc.upper < middle.lower]
    if not odd or middle.lower <= 0.5:
        return ()
    also = f". That holds for {len(odd)} of {len(views)} models" * (len(odd) > 1)
    return (
        f"The loss of the member is lower in {percent_of_pairs(aucs[odd[0]])} of pairs of a member "
        f"and a non-member of {odd[0]}, and in {percent_of_pairs(middle)} of the middle model's. "
        "If all were trained alike, its flags or outputs are of other samples or in another order"
        f"{also}",
    )


def _of_views(views: Sequence[View]) -> tuple[str, ...]:
    if views[0].table.of_texts:
        return ()
    return tuple(note for check in CHECKS for note in together([check(view) for view in views]))


def swapped_flags(view: View) -> str | None:
    """Worse on members, by accuracy or loss; not of models that name the commonest class."""
    if not view.both:
        return None
    inside, right = view.member, view.right
    confidence = 1.0 - (1.0 - SURE) / (view.models * 2)
    low, high, better, how, learned = 0.0, 0.0, "better", "", True
    if right is not None:
        ours, theirs = right[inside], right[~inside]
        low, high = difference_interval(
            int(ours.sum()), len(ours), int(theirs.sum()), len(theirs), confidence=confidence
        )
        how = (
            f"right on {percent_of(ours.mean())} of members and {percent_of(theirs.mean())} of "
            "non-members"
        )
        least = clopper_pearson(int(right.sum()), len(right), (1.0 - SURE) / 2.0)[0]
        learned = least > np.unique(view.table.label, return_counts=True)[1].max() / len(right)
        if not learned and 2 * theirs.sum() <= len(theirs):
            return None  # labels numbered differently, or a model that learned nothing
    if low <= 0.0 <= high and view.loss is not None and learned:
        auc = view.auc(1.0 - (1.0 - SURE) / 2)
        low, high, better = auc.lower - 0.5, auc.upper - 0.5, "surer"
        how = (
            f"a higher loss on members than on non-members in {percent_of(1 - auc.value)} of pairs"
            f"{', as confidences in place of losses have, too' * (right is None)}"
        )
    if high >= 0.0:
        return None
    return (
        f"The {view.what} is {better} on non-members than on members ({how}), which training never "
        "causes: the flags member may be swapped. They are 1 for samples that the model was "
        "trained on and 0 for others. If the flags are right, members and non-members are not "
        "from the same source"
    )


def _moved_flags(view: View) -> str | None:
    """Flags that are those of the samples some places before; of flags in random order alone."""
    from scipy.special import ndtri
    from scipy.stats import rankdata

    samples = view.table.samples
    if view.loss is None or samples < 64:
        return None
    both = np.stack([view.member.astype(np.float64), rankdata(view.loss)])
    both -= both.mean(axis=1, keepdims=True)
    spread = np.sqrt((both * both).sum(axis=1))
    if not spread.all():
        return None
    flags, ranks = np.fft.rfft(both / spread[:, None])
    power = [np.abs(flags) ** 2, np.conj(flags) * ranks]
    along, fit = np.fft.irfft(power, samples) * np.sqrt(samples)
    level = float(ndtri(RARE / (view.models * samples)))
    if np.abs(along[1:]).max() >= 6.0 or not fit.min() < level < fit[0]:
        return None
    by = int(min(fit.argmin(), samples - fit.argmin()))
    return (
        f"The flags member of the {view.what} fit its losses if they are moved by "
        f"{plural(by, 'sample')}, and as they are they do not: they are of other samples. Save "
        "flags, labels and outputs of each sample together"
    )


def _odd_losses(view: View) -> str | None:
    """Losses that are means of batches, or probabilities, or of which most are one number."""
    from scipy.special import gammaln

    loss, samples = view.loss, view.table.samples
    if loss is None or samples < 10:
        return None
    values, often = np.unique(loss, return_counts=True)
    if view.right is None:
        runs = 1 + int((loss[1:] != loss[:-1]).sum())
        # Of all orders of these losses, the share in which equal ones are neighbours.
        chance = gammaln(runs + 1) + gammaln(often + 1).sum() - gammaln(samples + 1)
        rare = runs == 1 or chance < np.log(1e-4 / view.models)
        if runs == len(values) and 2 * runs <= samples and rare:
            losses = "the same loss" if runs == 1 else f"only {runs:,} different losses"
            return (
                f"The {samples:,} samples of the {view.what} have {losses}, as means of batches "
                "have: save one loss for each sample (reduction='none' in PyTorch). Attacks need "
                "those"
            )
        # Of losses, most are near 0, and few near the largest.
        if samples >= 50 and loss.max() <= 1.0 and (loss > 0.9).mean() >= 0.05:
            return (
                f"No loss of the {view.what} is above 1, and many are near 1: these are "
                "probabilities and not losses. Save -log of the probability of each sample's "
                "class, or logits"
            )
    if len(values) == 1 or 2 * often.max() < samples:
        return None
    return (
        f"{percent_of(often.max() / samples)} of the samples of the {view.what} have the same "
        "loss, as hard labels, rounded probabilities and probabilities of 1 have: that hides what "
        "attacks look for. Save logits, with all digits"
    )


def _few_classes(view: View) -> str | None:
    samples, classes = view.table.samples, view.table.classes
    named = len(np.unique(view.table.label))
    if view.right is None or classes <= 2 or 2 * named > classes or samples < 10 * classes:
        return None
    return (
        f"The labels of the {view.what} name {named} of {classes} classes. Check that they "
        "are the numbers of the classes and not an answer to another question, as right or wrong"
    )


def _guessing(view: View) -> str | None:
    from scipy.special import bdtrc

    if view.right is None or not view.member.any():
        return None
    right, members = int(view.right[view.member].sum()), int(view.member.sum())
    common = int(np.bincount(view.table.label[view.member]).max())
    # Of labels of other samples, fewer are right than by the most common class.
    chance = float(bdtrc(right - 1, members, common / members)) if right else 1.0
    # Of few members, many that are right are no sign of a model that learned nothing.
    if chance <= _LEARNED or 2 * right > members + common:
        return None
    return (
        f"The {view.what} is right on {percent_of(right / members)} of its members, and naming the "
        f"most common class would be on {percent_of(common / members)}: it learned nothing, or the "
        "labels are of other samples, in another order, or numbered differently from the outputs. "
        "Then attacks find nothing, whatever the model remembers. Leave out a model that learned "
        "nothing"
    )


def _other_classes(view: View) -> str | None:
    from scipy.special import chdtrc

    labels, classes = np.unique(view.table.label, return_inverse=True)
    inside = np.bincount(classes, view.member)
    every = np.bincount(classes).astype(np.float64)
    share = inside.sum() / every.sum()
    if len(every) < 2 or not view.both or every.mean() * min(share, 1 - share) < 5.0:
        return None
    excess = float(((inside - every * share) ** 2 / (every * share * (1.0 - share))).sum())
    if chdtrc(len(every) - 1, excess) >= RARE:
        return None
    shares = np.stack([inside / inside.sum(), (every - inside) / (every - inside).sum()])
    most = int(np.abs(shares[0] - shares[1]).argmax())
    return (
        f"Members and non-members of the {view.what} are not of the same classes: class "
        f"{labels[most]} is {percent_of(shares[0, most])} of members and "
        f"{percent_of(shares[1, most])} of non-members. Attacks may see that, and not who was "
        "trained on. Draw both at random from one source"
    )


def _copies(view: View) -> str | None:
    """Samples of equal inputs and label with both flags; without inputs, of equal outputs."""
    from scipy.special import bdtrc

    samples, values = view.table.samples, view.table.values
    if view.table.inputs is not None:
        return exact_copies(view.table.inputs, view.table.label, view.member, view.what)
    marks = row_marks([values[name][view.row] for name in sorted(values)], view.table.label)
    different, which = np.unique(marks, return_inverse=True)
    # Of more than two of a kind it may be that probabilities are 0 and 1.
    inside = np.bincount(which, view.member)[np.bincount(which) == 2]
    both, share = int((inside == 1).sum()), float(view.member.mean())
    if 2 * both < max(0.005 * samples, 3):
        return None
    if "entropy" not in values and view.loss is not None:
        # In float32 the losses of samples that are sure are so far apart, and meet by chance.
        ordered = np.sort(view.loss)
        near = np.maximum(ordered[10:] - ordered[:-10], 10 * _FLOAT32)
        if both <= 2.0 * float((10 * _FLOAT32 / near).sum()):
            return None
    # Where many outputs are equal, as hard labels are, chance makes as many of both kinds.
    chance = float(bdtrc(both - 1, len(inside), 2.0 * share * (1.0 - share)))
    if len(different) < 0.9 * samples and chance > RARE:
        return None
    return (
        f"{plural(2 * both, 'sample')} of the {view.what} have the outputs and the label of a "
        "sample of the other kind, as copies have: a copy of a member is no non-member. Leave "
        "copies out. If there are none, save the inputs as well (inputs), which decides it"
    )


def _by_inputs(
    check: Callable[..., str | None],
) -> Callable[[View], str | None]:
    """A check of the inputs, where a table has them."""
    return lambda view: (
        None
        if view.table.inputs is None
        else check(view.table.inputs, view.member, view.what, level=RARE / view.models)
    )


def _exchanged_classes(view: View) -> str | None:
    """Classes that a model which knows the others never names rightly, even among its members."""
    if view.right is None:
        return None
    classes, which = np.unique(view.table.label[view.member], return_inverse=True)
    every = np.bincount(which)
    right = np.bincount(which, view.right[view.member])
    lost = (right < _NEVER * every) & (every >= np.maximum(20, 0.02 * view.member.sum()))
    rest = ~lost & (every > 0)
    known = right[rest].sum() / max(every[rest].sum(), 1)
    if lost.sum() < 2 or rest.sum() < 2 or known < 0.5:  # one class alone is a guess
        return None
    names = " and ".join(str(int(one)) for one in classes[lost][:2])
    young = "" if known >= _KNOWS else "its training was probably too short. If it was not, "
    return (
        f"The {view.what} is right on {percent_of(right[lost].sum() / every[lost].sum())} of its "
        f"own members of the classes {names}, and on {percent_of(known)} of the others: {young}"
        "the labels of these classes may be exchanged, in this file or by one table of labels for "
        "all files. Attacks then find too little"
    )


CHECKS: tuple[Callable[[View], str | None], ...] = (
    swapped_flags,
    _exchanged_classes,
    _moved_flags,
    _odd_losses,
    lambda view: too_flat(view.table, view.row, view.what),
    _few_classes,
    _guessing,
    _other_classes,
    _copies,
    lambda view: inputs_alone.names_on_both_sides(view.table.ids, view.member, view.what),
    _by_inputs(other_source),
    _by_inputs(near_copies),
)
"""What is looked at in each file."""


def upside_down(aucs: Mapping[str, Callable[[float], Estimate]], what: str) -> tuple[str, ...]:
    """A note if attacks that look for low losses of members are surely worse than a coin.

    `aucs` gives the AUC of each with an interval of a confidence; `what` may be swapped.
    """
    confidence = 1.0 - (1.0 - SURE) / max(len(aucs), 1)
    reached = {name: auc(confidence) for name, auc in aucs.items()}
    below = [name for name, auc in reached.items() if auc.upper < 0.5]
    if not below:
        return ()
    name = min(below, key=lambda name: reached[name].value)
    return (
        f"The attack \N{LEFT DOUBLE QUOTATION MARK}{name}\N{RIGHT DOUBLE QUOTATION MARK} is right "
        f"on only {percent_of(reached[name].value)} of pairs of a "
        "member and a non-member, where chance is 50 %. Training never causes that: the "
        f"{what} of members and non-members may be swapped. If they are not, members and "
        "non-members are not from the same source",
    )


POSITIVE_CONTROL = (
    "That nothing was found says as much about the files as about the model. It would be so, too, "
    "if the flags were of other samples, if the model was never trained on the members, or if the "
    "non-members were near copies of them. Make a positive control: train a model for many epochs "
    "on a few samples, and test it in the same way; its members must be found"
)
"""A note on a test in which nothing was found."""


def percent_of_pairs(auc: Estimate) -> str:
    """An AUC in percent, with its interval."""
    return f"{percent_of(auc.value)} ({100 * auc.lower:.1f} to {100 * auc.upper:.1f})"
