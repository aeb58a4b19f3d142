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

__all__ = ["Association", "associated", "check_shadow", "shadow_is_blind"]

Flags = NDArray[np.bool_]

_CHANCE = 1e-3
"""Of a note about splits that have nothing to do with each other."""

_SURE = 1e-6
"""Chance that losses of other samples order alike, where labels alone do not decide."""

_ALIKE = 0.1
"""Least correlation of the losses that two models have on the same samples."""

_BITS = 64.0
"""Of labels in an order that does not come about twice."""

_LARGE = 500.0
"""Expected number from which on counts are taken for normal."""


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
            said = (
                f"How many of the {self.models:,} other models were trained on a sample goes with "
                "the flags of the target, as where each sample is in half of all models"
            )
        else:
            same = 2 * self.equal > self.samples
            most = self.equal if same else self.samples - self.equal
            kind, flag = ("members", "the same") if same else ("nonmembers", "the opposite")
            said = (
                f"The shadow was trained on much of the target's {kind}: {most:,} of "
                f"{plural(self.samples, 'sample')} have {flag} flag in both"
            )
        return (
            f"{said}. What the attacks learn knows something of the answers, so these are not the "
            "figures of an outsider, and no bound on epsilon follows. Train shadows on other "
            "samples, or on splits drawn without regard to the target's"
        )


def check_shadow(target: SignalTable, shadow: SignalTable, *, row: int = 0) -> tuple[str, ...]:
    """What a reader has to know of a shadow that is not blind to the target's members.

    Parameters
    ----------
    target, shadow : SignalTable
    row : int
        The model of `target` that is attacked.

    Raises
    ------
    InputError
        As `canary.membership.sharing.check_two_models`.
    """
    notes = check_two_models(target, shadow, row=row)
    found = associated(target, shadow, row=row)
    return notes if found is None else (*notes, found.note())


def shadow_is_blind(table: SignalTable, *, shadow: SignalTable | None, target: int) -> bool:
    """Whether what is learned on the shadow tells nothing of who is a member of the target."""
    if shadow is not None and shared_rows(table, shadow, row=target).sure:
        return False
    return associated(table, shadow, row=target) is None


def associated(
    target: SignalTable, shadow: SignalTable | None, *, row: int = 0
) -> Association | None:
    """The association of the target's flags with those of the shadow models, if there is one.

    Parameters
    ----------
    target : SignalTable
    shadow : SignalTable or None
        None for the other models of `target`.
    row : int
        The model of `target` that is attacked.

    Notes
    -----
    Tables are of the same samples if their labels agree in order, and if either that order is no
    pattern (sorted, or one class after the other in turn) or both models find the same samples
    hard. Flags are compared by Fisher's exact test for each shadow model, and by the number of
    shadow models that know a sample, at 0.1 % in all (Bonferroni). Halves drawn at random pass;
    complementary halves do not, nor do models of which each sample is in exactly half.
    """
    others = np.delete(target.member, row, axis=0) if shadow is None else shadow.member
    flags = target.member[row]
    if others.shape[1] != len(flags) or not len(others) or flags.all() or not flags.any():
        return None
    if shadow is not None and not np.array_equal(shadow.label, target.label):
        return None
    found = _of_flags(flags, others)
    if found is None or (shadow is not None and not _same_samples(target, shadow, row)):
        return None
    return found


def _of_flags(flags: Flags, others: Flags) -> Association | None:
    n, models, members = len(flags), len(others), int(flags.sum())
    known = others.sum(axis=1)
    both = others[:, flags].sum(axis=1)
    chances = [
        _fisher(int(hits), n, members, int(drawn)) for hits, drawn in zip(both, known, strict=True)
    ]
    least = int(np.argmin(chances))
    level = _CHANCE if models == 1 else _CHANCE / 2.0
    if chances[least] < level / models:
        hits, drawn = int(both[least]), int(known[least])
        return Association(n, n - members - drawn + 2 * hits, models)
    if models > 1 and _of_numbers(flags, others.sum(axis=0)) < level:
        return Association(n, None, models)
    return None


def _fisher(hits: int, samples: int, members: int, drawn: int) -> float:
    """Chance of a number of common members as far from the expected one, on either side."""
    from scipy.special import ndtr
    from scipy.stats import hypergeom

    expected = members * drawn / samples
    variance = expected * (samples - members) * (samples - drawn) / samples / max(samples - 1, 1)
    if variance <= 0.0:
        return 1.0
    if variance > _LARGE:
        return float(2.0 * ndtr(-abs(hits - expected) / math.sqrt(variance)))
    law = hypergeom(samples, members, drawn)
    return float(min(2.0 * min(law.cdf(hits), law.sf(hits - 1)), 1.0))


def _of_numbers(flags: Flags, numbers: NDArray[np.int64]) -> float:
    """Chance that numbers differ so much between members and nonmembers, flags dealt anew."""
    from scipy.special import ndtr

    n, members = len(flags), int(flags.sum())
    centred = numbers - numbers.mean()
    variance = members * (n - members) / (n * (n - 1.0)) * float(centred @ centred)
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
        _alike(ours, theirs, [target.label, target.member[row], member])
        for theirs, member in zip(shadow.signal("loss"), shadow.member, strict=True)
    )


def _no_pattern(label: NDArray[np.int64]) -> bool:
    """Whether a label hardly follows from the one before it, for enough labels."""
    if len(label) < 2:
        return False
    _, at = np.unique(label, return_inverse=True)
    classes = int(at.max()) + 1
    _, pairs = np.unique(at[:-1] * classes + at[1:], return_counts=True)
    alone = _entropy(np.bincount(at[:-1]))
    after = _entropy(pairs) - alone
    # Each pair that occurs is a parameter, so few samples of many classes look like a pattern.
    return (len(label) - 1) * after >= _BITS and after >= 0.5 * alone


def _entropy(counts: NDArray[np.int64]) -> float:
    """In bits."""
    share = counts[counts > 0] / counts.sum()
    return float(-(share @ np.log2(share)))


def _alike(
    ours: NDArray[np.float64], theirs: NDArray[np.float64], cells: list[NDArray[np.generic]]
) -> bool:
    """Whether two models' losses order samples alike among those of one label and flags."""
    from scipy.special import ndtri
    from scipy.stats import rankdata

    _, cell = np.unique(
        np.stack([np.asarray(c, np.int64) for c in cells]), axis=1, return_inverse=True
    )
    cell = cell.ravel()
    size = np.bincount(cell)
    ranks = []
    for losses in (ours, theirs):
        # Ranks within a cell, ties together, from 0 to 1 around 0.
        within = rankdata(cell * (len(cell) + 1.0) + rankdata(losses))
        within -= 1.0 + (np.cumsum(size) - size)[cell]
        within /= np.maximum(size - 1, 1)[cell]
        ranks.append(within - (np.bincount(cell, within) / size)[cell])
    one, other = ranks
    spread = [np.bincount(cell, rank * rank) for rank in ranks]
    variance = float((spread[0] * spread[1] / np.maximum(size - 1, 1)).sum())
    if variance <= 0.0:
        return False
    together = float(one @ other)
    z = together / math.sqrt(variance)
    correlation = together / math.sqrt(float(spread[0].sum() * spread[1].sum()))
    return z > -float(ndtri(_SURE)) and correlation >= _ALIKE
