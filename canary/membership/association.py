"""Were target and shadow trained on splits of the same samples that go together?

A shadow that was trained on the target's own members, or on the target's nonmembers, tells an
attack who is a member: what chance made of the two kinds, thresholds learn on the shadow and find
again in the target. Its flags are compared with the target's wherever both are of the same samples.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from canary.membership.sharing import check_two_models, shared_rows
from canary.signals.signal_table import SignalTable
from canary.statistics.numbers import plural

Flags = NDArray[np.bool_]

_CHANCE = 1e-3
"""Of a note about splits that have nothing to do with each other."""

_STEEP, _ALIKE = 4.75, 0.1
"""Standard errors of the correlation (one in a million), and its least size, from which on two
models find the same samples hard."""

_BITS = 64.0
"""Of labels in an order that does not come about twice."""


@dataclass(frozen=True)
class Association:
    """Splits of the same samples that go together.

    Parameters
    ----------
    samples : int
    equal : int or None
        Samples with the same flag in the target and in the shadow model that goes with it most;
        None if no single one does, but the number of models that know a sample.
    models : int
        Shadow models.
    """

    samples: int
    equal: int | None
    models: int

    def note(self) -> str:
        """What a reader has to know of it."""
        if self.equal is None:
            how = (
                f"How many of the {self.models:,} other models were trained on a sample goes with "
                "the flags of the target, as where each sample is in half of all models"
            )
        else:
            same = 2 * self.equal > self.samples
            most = self.equal if same else self.samples - self.equal
            kind, flag = ("members", "the same") if same else ("nonmembers", "the opposite")
            how = (
                f"The shadow was trained on much of the target's {kind}: {most:,} of "
                f"{plural(self.samples, 'sample')} have {flag} flag in both"
            )
        return (
            f"{how}. What the attacks learn knows something of the answers, so these are not the "
            "figures of an outsider, and no bound on epsilon follows. Train shadows on other "
            "samples, or on splits drawn without regard to the target's"
        )


def check_shadow(target: SignalTable, shadow: SignalTable, *, row: int = 0) -> tuple[str, ...]:
    """What a reader has to know of a shadow that is not blind to the members of a `row`.

    Raises
    ------
    InputError
        As `canary.membership.sharing.check_two_models`.
    """
    notes = check_two_models(target, shadow, row=row)
    together = associated(target, shadow, row=row)
    return notes if together is None else (*notes, together.note())


def shadow_is_blind(table: SignalTable, *, shadow: SignalTable | None, target: int) -> bool:
    """Whether what is learned on the shadow tells nothing of who is a member of the target."""
    if shadow is not None and shared_rows(table, shadow, row=target).sure:
        return False
    return associated(table, shadow, row=target) is None


def associated(
    target: SignalTable, shadow: SignalTable | None, *, row: int = 0
) -> Association | None:
    """The association of the target's flags with those of the shadow models, if there is one.

    Without a `shadow` these are the other models of `target`; `row` is the model that is attacked.
    Tables are of the same samples if their labels agree in order, and if either that order is no
    pattern (sorted, or one class after the other in turn) or both models find the same samples
    hard. Flags are compared by the hypergeometric law for each shadow model, and by the number of
    shadow models that know a sample, at 0.1 % in all (Bonferroni). Halves drawn at random pass;
    complementary halves do not, nor do models of which each sample is in exactly half.
    """
    others = np.delete(target.member, row, axis=0) if shadow is None else shadow.member
    flags = target.member[row]
    if others.shape[1] != len(flags) or not len(others) or flags.all() or not flags.any():
        return None
    if shadow is not None and not np.array_equal(shadow.label, target.label):
        return None
    together = _of_flags(flags, others)
    if together is None or (shadow is not None and not _same_samples(target, shadow, row)):
        return None
    return together


def _of_flags(flags: Flags, others: Flags) -> Association | None:
    from scipy.stats import hypergeom

    samples, models, members = len(flags), len(others), int(flags.sum())
    known, both = others.sum(axis=1), others[:, flags].sum(axis=1)
    law = hypergeom(samples, members, known)
    chances = 2.0 * np.minimum(law.cdf(both), law.sf(both - 1))
    level = _CHANCE if models == 1 else _CHANCE / 2.0
    least = int(np.argmin(chances))
    if chances[least] < level / models:
        equal = samples - members - int(known[least]) + 2 * int(both[least])
        return Association(samples, equal, models)
    if models > 1 and _of_numbers(flags, others.sum(axis=0)) < level:
        return Association(samples, None, models)
    return None


def _of_numbers(flags: Flags, numbers: NDArray[np.int64]) -> float:
    """Chance that numbers differ so much between members and nonmembers, flags dealt anew."""
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
    if _no_pattern(target.label):
        return True
    if not ("loss" in target.values and "loss" in shadow.values):
        return False
    ours = target.signal("loss")[row]
    return any(
        _alike(ours, theirs, np.stack([target.label, target.member[row], member]))
        for theirs, member in zip(shadow.signal("loss"), shadow.member, strict=True)
    )


def _no_pattern(label: NDArray[np.int64]) -> bool:
    """Whether a label hardly follows from the one before it, for enough labels."""
    if len(label) < 2:
        return False
    _, classes = np.unique(label, return_inverse=True)
    _, pairs = np.unique(np.stack([classes[:-1], classes[1:]]), axis=1, return_counts=True)
    alone = _entropy(np.bincount(classes[:-1]))
    after = _entropy(pairs) - alone
    # Each pair that occurs is a parameter, so few samples of many classes look like a pattern.
    return (len(label) - 1) * after >= _BITS and after >= 0.5 * alone


def _entropy(counts: NDArray[np.int64]) -> float:
    """In bits."""
    share = counts[counts > 0] / counts.sum()
    return float(-(share @ np.log2(share)))


def _alike(
    ours: NDArray[np.float64], theirs: NDArray[np.float64], kinds: NDArray[np.int64]
) -> bool:
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
