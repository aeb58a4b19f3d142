"""Was one model given as target and shadow? By the samples of which both say the same."""

from __future__ import annotations

from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from canary.errors import InputError
from canary.signals.table import SignalTable
from canary.statistics.numbers import plural

__all__ = ["SharedRows", "check_two_models", "shared_rows"]

_SURE = 1e-3
"""Chance of so many rows in both files, if they repeat as those within the files do."""


@dataclass(frozen=True)
class SharedRows:
    """Samples of target and shadow with the same outputs and label.

    Parameters
    ----------
    shared : int
        Rows that stand once in the target and once in the shadow.
    target, shadow : int
        Rows that stand once in the one, and in the other.
    sure : bool
        Whether so many are not by chance: as rows repeat within either, fewer would stand
        in both.
    """

    shared: int
    target: int
    shadow: int
    sure: bool

    @property
    def one_model(self) -> bool:
        """Whether most rows of one of the two are in the other."""
        return self.sure and 2 * self.shared > min(self.target, self.shadow)


_KNOWN: WeakKeyDictionary[SignalTable, WeakKeyDictionary[SignalTable, dict[int, SharedRows]]] = (
    WeakKeyDictionary()
)


def check_two_models(target: SignalTable, shadow: SignalTable, *, row: int = 0) -> tuple[str, ...]:
    """What a reader has to know of samples that target and shadow share.

    Parameters
    ----------
    target, shadow : SignalTable
    row : int
        The model of `target` that is attacked.

    Raises
    ------
    InputError
        If most samples of one are in the other, as the same model said of them: an attack
        would learn the flags that it is judged by.
    """
    found = shared_rows(target, shadow, row=row)
    if found.one_model:
        raise InputError(
            f"{plural(found.shared, 'sample')} of the shadow have the outputs and the label of "
            f"samples of the target, of {found.target:,} and {found.shadow:,} that could: they "
            "are of one model, and an attack would learn the answers that it is asked for",
            cure="give outputs of another model, trained on other data, as the shadow",
            where=shadow.source,
        )
    if not found.sure:
        return ()
    return (
        f"{plural(found.shared, 'sample')} of the shadow have the outputs and the label of samples "
        "of the target, as if one model had said them: of these the attacks know the answer. "
        "Leave them out of one of the two",
    )


def shared_rows(target: SignalTable, shadow: SignalTable, *, row: int = 0) -> SharedRows:
    """How many samples of a shadow have the outputs of samples of the target.

    Rows are compared by all signals that both tables have, and the label. Two models seldom
    say the same to the last bit, but they do where probabilities are 0 and 1, constant, or
    rounded, and samples of equal features repeat in a file. So only rows count that stand
    once in their own file. And of rows that stand just twice in both files together, those
    that stand once in each should be no more than the two files' sizes make of them by
    chance: ``2 n m / ((n + m)(n + m - 1))``, a binomial test.

    Parameters
    ----------
    target, shadow : SignalTable
    row : int

    Notes
    -----
    O(n log n) for n samples of both; remembered for the row and the pair of tables while they
    live.
    """
    known = _KNOWN.setdefault(target, WeakKeyDictionary()).setdefault(shadow, {})
    if row not in known:
        known[row] = _compared(target, shadow, row)
    return known[row]


def _compared(target: SignalTable, shadow: SignalTable, row: int) -> SharedRows:
    from scipy.special import bdtrc

    names = sorted(set(target.values) & set(shadow.values))
    ours = _marks([target.values[name][row] for name in names], target.label)
    theirs = np.concatenate(
        [
            _marks([shadow.values[name][model] for name in names], shadow.label)
            for model in range(shadow.models)
        ]
    )
    (a, in_a), (b, in_b) = (np.unique(marks, return_counts=True) for marks in (ours, theirs))
    shared = len(np.intersect1d(a[in_a == 1], b[in_b == 1], assume_unique=True))
    within = len(np.setdiff1d(a[in_a == 2], b, assume_unique=True)) + len(
        np.setdiff1d(b[in_b == 2], a, assume_unique=True)
    )
    n, m = len(ours), len(theirs)
    chance = 2.0 * n * m / ((n + m) * (n + m - 1.0))
    sure = shared > 0 and float(bdtrc(shared - 1, shared + within, chance)) < _SURE
    return SharedRows(shared, int((in_a == 1).sum()), int((in_b == 1).sum()), sure)


def _marks(columns: list[NDArray[np.float64]], label: NDArray[np.int64]) -> NDArray[np.uint64]:
    """A number of 64 bits for each sample: equal for equal rows, and hardly for others."""
    found = label.astype(np.uint64)
    for column in columns:
        # Multiplying and shifting as in splitmix64; + 0.0 makes one zero of two.
        found = (found ^ (np.ascontiguousarray(column) + 0.0).view(np.uint64)) * np.uint64(
            0x9E3779B97F4A7C15
        )
        found ^= found >> np.uint64(29)
        found *= np.uint64(0xBF58476D1CE4E5B9)
        found ^= found >> np.uint64(32)
    return found
