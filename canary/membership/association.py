"""The shadows of a target: which models they are, what they teach, and whether they are blind.

A shadow that was trained on the target's own members, or on the target's non-members, reveals to
an attack who is a member: what chance made of the two kinds, thresholds learn on the shadow and
find again in the target.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

import numpy as np
from numpy.typing import NDArray

from canary.errors import EstimationError, InputError
from canary.membership.doubts import SURE, TOLD, View, percent_of_pairs, shadow_views, swapped_flags
from canary.membership.sharing import Marks, check_references, check_two_models, row_marks
from canary.membership.unlike import together
from canary.signals.signal_table import SignalTable
from canary.statistics.numbers import plural

Flags = NDArray[np.bool_]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_CHANCE = 1e-3
"""Of a note about splits that have nothing to do with each other."""

_STEEP, _ALIKE = 4.75, 0.1
"""Standard errors of the correlation (one in a million), and its least size, from which on two
models find the same samples hard."""

_BITS = 64.0
"""Of labels in an order that does not come about twice."""

_TRAINED_ON = "The {} show that the shadow was trained on"
_NON_MEMBERS_TOO = "The {} show that among the shadow's non-members are"

_MARKS: WeakKeyDictionary[SignalTable, Marks] = WeakKeyDictionary()


@dataclass(frozen=True, eq=False)
class Shadows:
    """Models that teach an attack on one target: `rows` of `source`.

    `blind` says whether what is learned on them is independent of who is a member of the target.
    """

    source: SignalTable
    rows: list[int]
    notes: tuple[str, ...]
    blind: bool

    def samples(self, signal: str, classes: int) -> tuple[Floats, Flags, Ints]:
        """Signal, member and label of all samples of all models, those of further classes left out.

        Losses do not say how many classes there are.
        """
        label = np.tile(self.source.label, len(self.rows))
        kept = label < classes
        values, member = self.source.signal(signal)[self.rows], self.source.member[self.rows]
        return values.ravel()[kept], member.ravel()[kept], label[kept]


def shadows_of(table: SignalTable, *, shadow: SignalTable | None, target: int) -> Shadows:
    """The models of a shadow table, or else the other models of the target's table.

    An InputError if there is none, the two tables do not fit, or the target is among them.
    """
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
    notes: tuple[str, ...]
    if shadow is not None:
        notes = check_shadow(table, shadow, row=target)
        return Shadows(shadow, list(range(shadow.models)), notes, blind=not notes)
    rows = [row for row in range(table.models) if row != target]
    if not rows:
        raise InputError(
            "there is no shadow: the table has one model",
            cure="give a table of shadow models by shadow=",
            where=table.source,
        )
    together = associated(table, None, row=target)
    notes = () if together is None else (together,)
    if "loss" in table.values:
        notes += check_references(table, np.array([target]), None, np.array(rows))
    return Shadows(table, rows, notes, blind=together is None)


def blind_shadows(table: SignalTable, *, shadow: SignalTable | None, target: int) -> Shadows:
    """As `shadows_of`; an InputError if a `shadow` shares samples or splits with the target."""
    shadows = shadows_of(table, shadow=shadow, target=target)
    if shadow is not None and not shadows.blind:
        raise knows_answers("the risk scores", shadows.notes)
    return shadows


def knows_answers(what: str, notes: tuple[str, ...]) -> InputError:
    """The error of `what` by a shadow that shares samples or splits with the target."""
    why = " ".join(notes).partition(". Give shadows")[0]
    return InputError(
        f"{what} would learn answers from the shadow. {why}",
        cure="give a shadow of other samples, or of a split drawn without regard to the "
        "target's (canary.survey says of such files that the test is void)",
        where=what.removeprefix("the "),
    )


def check_both_kinds(member: Flags, where: str) -> None:
    """An EstimationError if the samples of a shadow are all members, or none is."""
    if member.all() or not member.any():
        raise EstimationError(
            f"all {len(member)} shadow samples are of one kind",
            cure="give members and non-members of the shadow model",
            where=where,
        )


def check_shadow(target: SignalTable, shadow: SignalTable, *, row: int = 0) -> tuple[str, ...]:
    """Notes on a shadow that is not blind to the members of a `row`; none if it is blind.

    An InputError as of `canary.membership.sharing.check_two_models`.
    """
    notes = check_two_models(target, shadow, row=row)
    together = associated(target, shadow, row=row)
    return notes if together is None else (*notes, together)


def associated(target: SignalTable, shadow: SignalTable | None, *, row: int = 0) -> str | None:
    """A note, if the split of a shadow goes with that of the target; None if it does not.

    Without a `shadow` the other models of `target` are compared; `row` is the model that is
    attacked. Where both tables have inputs, samples with equal inputs are the same, in any order,
    and else those with equal ids; what the shadow was trained on and what its other samples are is
    then compared. Without either, tables are of the same samples if their labels agree in order.
    Of ids and labels, either that order is no pattern (sorted, or one class after the other in
    turn) or both models find the same samples hard. Flags are compared by the hypergeometric law
    for each shadow model, and by the number of shadow models that know a sample, at 0.1 % in all
    (Bonferroni). Halves drawn at random pass; complementary halves do not, nor do models of which
    each sample is in exactly half.
    """
    flags = target.member[row]
    if shadow is None:
        how = _together(flags, np.delete(target.member, row, axis=0))
    elif (matched := _matched(target, shadow, row)) is not None:
        by, places, trained, others = matched
        how = _together(flags[places], trained, _TRAINED_ON.format(by))
        how = how or _together(flags[places], others, _NON_MEMBERS_TOO.format(by))
    elif np.array_equal(shadow.label, target.label):
        how = _together(flags, shadow.member)
        how = how if how and _same_samples(target, shadow, row) else None
    else:
        return None
    return how and (
        f"{how}. What the attacks learn knows something of the answers, so these are not the "
        "figures of an outsider, and no bound on epsilon follows. Give shadows other "
        "samples, or splits drawn without regard to the target's"
    )


def _together(flags: Flags, others: Flags, said: str = "") -> str | None:
    """How flags of the target go with those of `others` (models, samples); None if they do not."""
    from scipy.stats import hypergeom

    if not len(others) or flags.all() or not flags.any():
        return None
    samples, models, members = len(flags), len(others), int(flags.sum())
    known, both = others.sum(axis=1), others[:, flags].sum(axis=1)
    law = hypergeom(samples, members, known)
    chances = 2.0 * np.minimum(law.cdf(both), law.sf(both - 1))
    level = _CHANCE if models == 1 else _CHANCE / 2.0
    least = int(np.argmin(chances))
    if chances[least] < level / models:
        inside, outside = int(both[least]), int(known[least] - both[least])
        rest = samples - members
        if said:
            found, more = plural(members, "member"), plural(rest, "non-member")
            return f"{said} {inside:,} of the target's {found} and {outside:,} of its {more}"
        equal = rest - outside + inside
        same = 2 * equal > samples
        most = equal if same else samples - equal
        kind, flag = ("members", "the same") if same else ("non-members", "the opposite")
        return (
            f"The shadow was trained on much of the target's {kind}: {most:,} of "
            f"{plural(samples, 'sample')} have {flag} flag in both"
        )
    if models > 1 and _chance_of_numbers(flags, others.sum(axis=0)) < level:
        return (
            f"How many of the {models:,} other models were trained on a sample goes with "
            "the flags of the target, as where each sample is in half of all models"
        )
    return None


def _matched(
    target: SignalTable, shadow: SignalTable, row: int
) -> tuple[str, Ints, Flags, Flags] | None:
    """Which samples of the target the shadows have, by inputs or ids: members, and non-members.

    The places of what occurs once in the target, and flags of shape (shadows, places) for either
    kind. None where the two have neither, or none in common.
    """
    ours: NDArray[Any]
    theirs: NDArray[Any]
    if target.inputs is not None and shadow.inputs is not None:
        by, ours, theirs = "inputs", _input_marks(target), _input_marks(shadow)
    elif target.ids is not None and shadow.ids is not None:
        by, ours, theirs = "ids", target.ids.astype(str), shadow.ids.astype(str)
        if not _names_of_samples(target, shadow, ours, theirs, row):
            return None
    else:
        return None
    once, places, counts = np.unique(ours, return_index=True, return_counts=True)
    once, places = once[counts == 1], places[counts == 1]
    trained, others = (
        np.array([np.isin(once, theirs[flags]) for flags in kinds])
        for kinds in (shadow.member, ~shadow.member)
    )
    return (by, places, trained, others) if (trained | others).any() else None


def unmatched(target: SignalTable, shadow: SignalTable) -> list[str]:
    """A note if nothing in the files names samples, so that shared ones are not seen."""
    pairs = ((target.inputs, shadow.inputs), (target.ids, shadow.ids))
    if any(ours is not None and theirs is not None for ours, theirs in pairs):
        return []
    return [
        "The two files have neither id nor inputs in common: it was not checked whether the shadow "
        "was trained on samples of the target. Save id"
    ]


def _names_of_samples(
    target: SignalTable, shadow: SignalTable, ours: NDArray[Any], theirs: NDArray[Any], row: int
) -> bool:
    """Whether equal ids are of one sample, and no numbers that each file gave its own."""
    _, first, second = np.intersect1d(ours, theirs, return_indices=True)
    order = np.argsort(second)
    if not len(order):
        return False
    both = target.select(samples=first[order]), shadow.select(samples=second[order])
    return np.array_equal(both[0].label, both[1].label) and _same_samples(*both, row)


def _input_marks(table: SignalTable) -> Marks:
    """A number for each sample, equal for equal inputs of whatever type; each attack asks again."""
    if table not in _MARKS:
        assert table.inputs is not None
        columns = table.inputs.reshape(table.samples, -1).T
        marks = row_marks((one.astype(np.float64) for one in columns), np.zeros_like(table.label))
        _MARKS[table] = marks
    return _MARKS[table]


def _chance_of_numbers(flags: Flags, numbers: Ints) -> float:
    """Chance that numbers differ so much between members and non-members, flags dealt anew."""
    from scipy.special import ndtr

    samples, members = len(flags), int(flags.sum())
    centred = numbers - numbers.mean()
    share = members * (samples - members) / (samples * (samples - 1.0))
    variance = share * float(centred @ centred)
    if variance <= 0.0:
        return 1.0
    return float(2.0 * ndtr(-abs(float(centred[flags].sum())) / math.sqrt(variance)))


def _same_samples(target: SignalTable, shadow: SignalTable, row: int) -> bool:
    """Whether two tables with the same labels in order are of the same samples."""
    label = target.label
    if len(label) >= 2:
        # Labels whose order is no pattern: one hardly follows from the one before it.
        _, classes = np.unique(label, return_inverse=True)
        _, pairs = np.unique(np.stack([classes[:-1], classes[1:]]), axis=1, return_counts=True)
        alone = _entropy(np.bincount(classes[:-1]))
        after = _entropy(pairs) - alone
        # Each pair that occurs is a parameter, so few samples of many classes look like a pattern.
        if (len(label) - 1) * after >= _BITS and after >= 0.5 * alone:
            return True
    if not ("loss" in target.values and "loss" in shadow.values):
        return False
    ours = target.signal("loss")[row]
    return any(
        _alike(ours, theirs, np.stack([label, target.member[row], member]))
        for theirs, member in zip(shadow.signal("loss"), shadow.member, strict=True)
    )


def _entropy(counts: Ints) -> float:
    """In bits."""
    share = counts[counts > 0] / counts.sum()
    return float(-(share @ np.log2(share)))


def _alike(ours: Floats, theirs: Floats, kinds: Ints) -> bool:
    """Whether two models' losses order samples alike among those of one label and flags."""
    from scipy.stats import rankdata

    _, cell = np.unique(kinds, axis=1, return_inverse=True)
    cell = cell.ravel()
    size = np.bincount(cell)
    ranks = [rankdata(losses) for losses in (ours, theirs)]
    one, other = (rank - (np.bincount(cell, rank) / size)[cell] for rank in ranks)
    spread = np.bincount(cell, one * one), np.bincount(cell, other * other)
    variance = float((spread[0] * spread[1] / np.maximum(size - 1, 1)).sum())
    together = float(one @ other)
    if together <= _STEEP * math.sqrt(variance):
        return False
    return together >= _ALIKE * math.sqrt(float(spread[0].sum() * spread[1].sum()))


def warn_of_flags(target: SignalTable, shadow: SignalTable | None, *, row: int) -> None:
    """Warn if flags look swapped, once for a pair and not where its doubts are told anyway."""
    if shadow is None or target.of_texts or shadow in TOLD.setdefault(target, WeakSet()):
        return
    TOLD[target].add(shadow)
    for views in ([View(target, row, "target")], shadow_views(shadow)):
        for note in together([swapped_flags(view) for view in views]):
            warnings.warn(note, stacklevel=3)


def contrast(target: SignalTable, shadow: SignalTable) -> str | None:
    """A doubt if the members of one are found better than the other's."""
    if not all("loss" in table.values for table in (target, shadow)):
        return None
    ours = View(target, 0, "target").auc(SURE)
    theirs = [View(shadow, row, "shadow").auc(SURE) for row in range(shadow.models)]
    best = max(theirs, key=lambda auc: auc.lower)
    pairs = ((best, ours, "shadow", "target"), (ours, best, "target", "shadow"))
    for there, here, one, other in pairs:
        if here.lower <= 0.5 and here.upper < there.lower and there.lower > 0.5:
            return (
                f"The loss of the member is lower in {percent_of_pairs(there)} of pairs of a "
                f"member and a non-member of the {one} and in {percent_of_pairs(here)} of the "
                f"{other}'s, where chance is 50 %. If both were trained alike, the flags or the "
                f"outputs of the {other} are of other samples or in another order. If not, train "
                "the shadow as the target was"
            )
    return None
