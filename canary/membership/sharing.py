"""Was one model given as target and shadow? By the samples of which both say the same.

A model that was saved with fewer digits says nearly the same. So samples are compared to the
last bit first, and where that finds nothing, by signals in steps of `_STEPS`.
"""

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

_FINE = 2e-5
_STEPS = ((_FINE, 1e-3), (2e-3, 1e-2), (3e-2, 1e-2))
"""Relative steps of signals, and the size below which they count as one: for numbers of 32
bits, and twice for numbers of 16 bits or three decimals, as the more samples, the finer."""

_SURE_NEARLY = 1e-6
"""As `_SURE`, of rows in steps: a copy has most of them."""

_AGREE = 0.9
"""Share of equal flags, of rows nearly equal, from which on they are of one training set."""

_ROWS = 200_000
"""So many rows, and up to twice as many, are compared in steps."""

_TOLD_BY_LOSS = ("confidence", "logit-confidence")
_ELSEWHERE = "gradient-norm"  # another machine, other sums


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
    step : float
        How far equal outputs may be apart, as a share of their signals: 0 if not at all.
    told : bool
        Whether to be so close takes one model, or one training set. If not, two models that
        always learn much the same may be that close too.
    """

    shared: int
    target: int
    shadow: int
    sure: bool
    step: float = 0.0
    told: bool = True

    @property
    def most(self) -> bool:
        """Whether most rows of one of the two are in the other."""
        return self.sure and 2 * self.shared > min(self.target, self.shadow)

    @property
    def one_model(self) -> bool:
        """Whether most rows of one of the two are in the other, as only one model's are."""
        return self.most and self.told


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
    nearly = "but for rounding " * (found.step > 0)
    if found.one_model:
        raise InputError(
            f"{plural(found.shared, 'sample')} of the shadow have {nearly}the outputs and the "
            f"label of samples of the target, of {found.target:,} and {found.shadow:,} that "
            f"could: they are of one model{' or one training set' * (found.step > _FINE)}, and "
            "an attack would learn the answers that it is asked for",
            cure="give outputs of another model, trained on other data, as the shadow",
            where=shadow.source,
        )
    if not found.sure:
        return ()
    return (
        f"{plural(found.shared, 'sample')} of the shadow have {nearly}the outputs and the label "
        "of samples of the target, as if one model had said them: of these the attacks know the "
        "answer. Leave them out of one of the two",
    )


def shared_rows(target: SignalTable, shadow: SignalTable, *, row: int = 0) -> SharedRows:
    """How many samples of a shadow have the outputs of samples of the target.

    Rows are compared by all signals that both tables have, and the label. Two models seldom
    say the same to the last bit, but they do where probabilities are 0 and 1, constant, or
    rounded, and samples of equal features repeat in a file. So only rows count that stand
    once in their own file. And of rows that stand just twice in both files together, those
    that stand once in each should be no more than the two files' sizes make of them by
    chance: ``2 n m / ((n + m)(n + m - 1))``, a binomial test.

    If the last bit finds nothing, the same is asked of loss, entropies and label in steps:
    then of most rows, and by a rarer chance. As close as numbers of 32 bits are no two models.
    As close as numbers of 16 bits or three decimals are two that were asked the same samples,
    if what they learn hardly depends on their training sets. There the flags decide. If they
    have nothing to do with each other the rows give no answer away, and nothing is said; if
    `_AGREE` of them are equal it is one model, or one training set; else it is left open.

    Parameters
    ----------
    target, shadow : SignalTable
    row : int

    Notes
    -----
    O(n log n) for n samples of both; remembered for the row and the pair of tables while they
    live. In steps of many samples only some hundred thousand are sorted: those of some marks,
    the same in both files.
    """
    known = _KNOWN.setdefault(target, WeakKeyDictionary()).setdefault(shadow, {})
    if row not in known:
        known[row] = _compared(target, shadow, row)
    return known[row]


def _compared(target: SignalTable, shadow: SignalTable, row: int) -> SharedRows:
    names = sorted(set(target.values) & set(shadow.values))
    ours, theirs = (
        [[table.values[name][model] for name in names] for model in models]
        for table, models in ((target, [row]), (shadow, range(shadow.models)))
    )
    exact = _found(
        _marks(ours[0], target.label),
        np.concatenate([_marks(columns, shadow.label) for columns in theirs]),
        _SURE,
    )[0]
    if exact.one_model:
        return exact
    kept = [
        at
        for at, name in enumerate(names)
        if name != _ELSEWHERE and not (name in _TOLD_BY_LOSS and "loss" in names)
    ]
    sizes = [[_sizes(columns[at]) for at in kept] for columns in [*ours, *theirs]]
    flags = target.member[row], shadow.member.ravel()
    for step, least in _STEPS:
        marks = [
            _marks([_in_steps(one, step, least) for one in columns], label)
            for columns, label in zip(
                sizes, [target.label, *[shadow.label] * shadow.models], strict=True
            )
        ]
        found = _nearly(marks[0], np.concatenate(marks[1:]), flags, step)
        if found is not None:
            return found
    return exact


def _nearly(
    ours: NDArray[np.uint64],
    theirs: NDArray[np.uint64],
    flags: tuple[NDArray[np.bool_], NDArray[np.bool_]],
    step: float,
) -> SharedRows | None:
    """Rows that are equal in steps, if they are most and tell of the flags."""
    from scipy.special import bdtr, bdtrc

    every = np.uint64(max(1, min(len(ours), len(theirs)) // _ROWS))
    chosen = [np.flatnonzero(marks % every == 0) for marks in (ours, theirs)]
    found, first, second = _found(ours[chosen[0]], theirs[chosen[1]], _SURE_NEARLY)
    if not found.most:
        return None
    one, two = flags[0][chosen[0][first]], flags[1][chosen[1][second]]
    equal, p, q = int((one == two).sum()), one.mean(), two.mean()
    agree = float(np.clip(p * q + (1 - p) * (1 - q), 0.0, 1.0))
    more = bdtrc(equal - 1, len(one), agree) if equal else 1.0
    bound = bool(min(more, bdtr(equal, len(one), agree)) < _SURE_NEARLY)
    if step > _FINE and not bound:
        return None
    told = step <= _FINE or equal >= _AGREE * len(one)
    if every > 1:  # to count them all
        found = _found(ours, theirs, _SURE_NEARLY)[0]
    return SharedRows(found.shared, found.target, found.shadow, sure=True, step=step, told=told)


def _found(
    ours: NDArray[np.uint64], theirs: NDArray[np.uint64], sure: float
) -> tuple[SharedRows, NDArray[np.intp], NDArray[np.intp]]:
    """What two lists of marks share, and where those stand in the one and the other."""
    from scipy.special import bdtrc

    (a, at_a, in_a), (b, at_b, in_b) = (
        np.unique(marks, return_index=True, return_counts=True) for marks in (ours, theirs)
    )
    once_a, once_b = in_a == 1, in_b == 1
    both, first, second = np.intersect1d(
        a[once_a], b[once_b], assume_unique=True, return_indices=True
    )
    within = len(np.setdiff1d(a[in_a == 2], b, assume_unique=True)) + len(
        np.setdiff1d(b[in_b == 2], a, assume_unique=True)
    )
    n, m, shared = len(ours), len(theirs), len(both)
    chance = 2.0 * n * m / ((n + m) * (n + m - 1.0)) if shared else 1.0
    certain = shared > 0 and float(bdtrc(shared - 1, shared + within, chance)) < sure
    found = SharedRows(shared, int(once_a.sum()), int(once_b.sum()), certain)
    return found, at_a[once_a][first], at_b[once_b][second]


def row_marks(table: SignalTable, row: int) -> NDArray[np.uint64]:
    """A number for each sample by what a model said of it, and the label."""
    return _marks([table.values[name][row] for name in sorted(table.values)], table.label)


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


def _sizes(column: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Logarithms of sizes, and whether the numbers are negative."""
    with np.errstate(divide="ignore"):
        return np.log(np.minimum(np.abs(column), 1e300)), column < 0


def _in_steps(
    sized: tuple[NDArray[np.float64], NDArray[np.bool_]], step: float, least: float
) -> NDArray[np.float64]:
    """Whole numbers of relative steps above the least size, with the sign."""
    size, negative = sized
    found = np.ceil(np.maximum(size - np.log(least), 0.0) / step)
    return np.asarray(np.where(negative, -found, found))
