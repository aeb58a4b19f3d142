"""Was one model given as target and shadow? By the samples of which both say the same."""

from __future__ import annotations

from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from canary.errors import InputError
from canary.signals.signal_table import SignalTable
from canary.statistics.numbers import plural

_SURE = 1e-3
"""Chance of so many rows in both files, if they repeat as those within the files do."""

_STEP, _LEAST = 2e-5, 1e-4
"""Relative step up to which signals are equal, as those that were saved as float32 are, and the
size below which they count as one."""

_COMPARED = ("loss", "entropy", "modified-entropy")


@dataclass(frozen=True)
class SharedRows:
    """Samples of target and shadow with the same outputs and label.

    Parameters
    ----------
    shared : int
        Rows that are once in the target and once in the shadow.
    target, shadow : int
        Rows that are once in the one, and in the other.
    sure : bool
        Whether so many are not by chance: as rows repeat within either, fewer would be in both.
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
    """What a reader has to know of samples that a shadow shares with the model in a `row`.

    Raises
    ------
    InputError
        If most samples of one are in the other, as the same model said of them: an attack
        would learn the flags that it is judged by.
    """
    rows = shared_rows(target, shadow, row=row)
    if rows.one_model:
        raise InputError(
            f"{plural(rows.shared, 'sample')} of the shadow have the outputs and the label of "
            f"samples of the target, of {rows.target:,} and {rows.shadow:,} that could: they are "
            "of one model, and an attack would learn the answers that it is asked for",
            cure="give outputs of another model, trained on other data, as the shadow",
            where=shadow.source,
        )
    if not rows.sure:
        return ()
    return (
        f"{plural(rows.shared, 'sample')} of the shadow have the outputs and the label of samples "
        "of the target, as if one model had said them: of these the attacks know the answer. "
        "Leave them out of one of the two",
    )


def shared_rows(target: SignalTable, shadow: SignalTable, *, row: int = 0) -> SharedRows:
    """How many samples of a shadow have the outputs of samples of the model in a `row`.

    Notes
    -----
    Rows are compared by loss, entropies and label, to a relative step of 2e-5. Two models seldom
    say the same, but they do where probabilities are 0 and 1, constant, or rounded, and samples
    of equal features repeat in a file. So only rows count that are once in their own file. And
    of rows that are just twice in both files together, those that are once in each should be no
    more than the two files' sizes make of them by chance: ``2 n m / ((n + m)(n + m - 1))``, a
    binomial test. O(n log n); remembered for the row and the pair of tables while they live.
    """
    known = _KNOWN.setdefault(target, WeakKeyDictionary()).setdefault(shadow, {})
    if row not in known:
        known[row] = _compared(target, shadow, row)
    return known[row]


def _compared(target: SignalTable, shadow: SignalTable, row: int) -> SharedRows:
    from scipy.special import bdtrc

    both = set(target.values) & set(shadow.values)
    names = sorted(both & set(_COMPARED)) or sorted(both)

    def marks(table: SignalTable, model: int) -> NDArray[np.uint64]:
        return _marks([_in_steps(table.values[name][model]) for name in names], table.label)

    ours = marks(target, row)
    theirs = np.concatenate([marks(shadow, model) for model in range(shadow.models)])
    (a, in_a), (b, in_b) = (np.unique(given, return_counts=True) for given in (ours, theirs))
    once_a, once_b = a[in_a == 1], b[in_b == 1]
    shared = len(np.intersect1d(once_a, once_b, assume_unique=True))
    within = len(np.setdiff1d(a[in_a == 2], b)) + len(np.setdiff1d(b[in_b == 2], a))
    n, m = len(ours), len(theirs)
    chance = 2.0 * n * m / ((n + m) * (n + m - 1.0))
    sure = shared > 0 and float(bdtrc(shared - 1, shared + within, min(chance, 1.0))) < _SURE
    return SharedRows(shared, len(once_a), len(once_b), sure)


def row_marks(table: SignalTable, row: int) -> NDArray[np.uint64]:
    """A number for each sample by what a model said of it, to the last bit, and the label."""
    return _marks([table.values[name][row] for name in sorted(table.values)], table.label)


def _marks(columns: list[NDArray[np.float64]], label: NDArray[np.int64]) -> NDArray[np.uint64]:
    """A number of 64 bits for each sample: equal for equal rows, and hardly for others."""
    mixed = label.astype(np.uint64)
    for column in columns:
        # Multiplying and shifting as in splitmix64; + 0.0 makes one zero of two.
        bits = (np.ascontiguousarray(column) + 0.0).view(np.uint64)
        mixed = (mixed ^ bits) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(29)
        mixed *= np.uint64(0xBF58476D1CE4E5B9)
        mixed ^= mixed >> np.uint64(32)
    return mixed


def _in_steps(column: NDArray[np.float64]) -> NDArray[np.float64]:
    """Whole numbers of relative steps above the least size, with the sign."""
    size = np.clip(np.abs(column), _LEAST, 1e300)
    return np.asarray(np.sign(column) * np.ceil(np.log(size / _LEAST) / _STEP))
