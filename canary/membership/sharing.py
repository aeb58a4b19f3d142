"""Was one model given as two? By the samples, or the losses, of which both say the same.

Rows of samples are compared to the last bit first. A model that was saved with fewer digits says
nearly the same: where the last bit finds nothing, signals are compared in steps of `_STEPS`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from canary.errors import InputError
from canary.signals.signal_table import SignalTable
from canary.statistics.numbers import plural

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Marks = NDArray[np.uint64]

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

_TOLD_BY_LOSS = {"confidence", "logit-confidence"}
_COMPARED = {"correctness", "loss", "entropy", "modified-entropy", *_TOLD_BY_LOSS}
"""Others may change by more than a step where outputs are rounded, or on another machine."""

_GRADED = 8
"""Different losses, neither 0 nor infinite, that two models do not share at all samples."""


@dataclass(frozen=True)
class SharedRows:
    """Samples of target and shadow with the same outputs and label.

    `shared` rows occur once in the target and once in the shadow; `target` and `shadow` once in
    these. `sure` says whether chance is ruled out: as rows repeat within either, fewer would
    be in both. `step` is how far equal outputs may be apart, as a share of their signals; `told`
    says whether to be so close takes one model, or one training set.
    """

    shared: int
    target: int
    shadow: int
    sure: bool
    step: float = 0.0
    told: bool = True

    @property
    def one_model(self) -> bool:
        """Whether most rows of one of the two are in the other, as only one model's are."""
        return self.sure and self.told and 2 * self.shared > min(self.target, self.shadow)


_KNOWN: WeakKeyDictionary[SignalTable, WeakKeyDictionary[SignalTable, dict[int, SharedRows]]] = (
    WeakKeyDictionary()
)


def check_two_models(target: SignalTable, shadow: SignalTable, *, row: int = 0) -> tuple[str, ...]:
    """A note on samples that a shadow shares with model `row` of the target; none without any.

    Raises
    ------
    InputError
        If most samples of one are in the other, as the same model said of them: an attack would
        learn the flags that it is judged by.
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
    """How many samples of a shadow have the outputs that model `row` of the target has.

    Rows are compared by the label and what both tables have of `_COMPARED`; by all that they
    have if that is nothing, and for texts. Two models say the same to the last bit where
    probabilities are 0 and 1, constant, or rounded, and samples of equal features repeat in a
    file. So only rows that occur once in their own file count. Of rows that occur twice in both
    files together, those that occur once in each are compared with what the sizes make of them by
    chance: ``2 n m / ((n + m)(n + m - 1))``, a binomial test.

    If that finds nothing, the same is asked of loss, entropies and label in steps. No two models
    are as close as numbers of 32 bits. Two that were asked the same samples may be as close as
    numbers of 16 bits or three decimals, and there the flags decide: nothing is said if they are
    independent, and if `_AGREE` of them are equal it is one model, or one training set; else it is
    left open.

    O(n log n) for n samples of both; remembered for the row and the pair of tables while they live.
    """
    known = _KNOWN.setdefault(target, WeakKeyDictionary()).setdefault(shadow, {})
    if row not in known:
        known[row] = _compared(target, shadow, row)
    return known[row]


def _compared(target: SignalTable, shadow: SignalTable, row: int) -> SharedRows:
    from scipy.special import bdtr, bdtrc

    both = set(target.values) & set(shadow.values)
    names = sorted(both if target.of_texts else both & _COMPARED or both)
    models = [(target, row), *((shadow, model) for model in range(shadow.models))]

    def marked(names: Sequence[str], step: float, least: float) -> tuple[Marks, Marks]:
        """Marks of the target's samples, and of the shadow's."""
        first, *others = (
            row_marks(
                [_in_steps(table.values[name][model], step, least) for name in names], table.label
            )
            for table, model in models
        )
        return first, np.concatenate(others)

    exact = _found(*marked(names, 0.0, 0.0), _SURE)[0]
    if exact.one_model:
        return exact
    names = [name for name in names if "loss" not in names or name not in _TOLD_BY_LOSS]
    for step, least in _STEPS:
        ours, theirs = marked(names, step, least)
        every = np.uint64(max(1, min(len(ours), len(theirs)) // _ROWS))
        chosen = [np.flatnonzero(marks % every == 0) for marks in (ours, theirs)]
        found, first, second = _found(ours[chosen[0]], theirs[chosen[1]], _SURE_NEARLY)
        if not found.one_model:
            continue
        one, two = target.member[row][chosen[0][first]], shadow.member.ravel()[chosen[1][second]]
        equal, p, q = int((one == two).sum()), one.mean(), two.mean()
        agree = float(np.clip(p * q + (1 - p) * (1 - q), 0.0, 1.0))
        more = bdtrc(equal - 1, len(one), agree) if equal else 1.0
        independent = min(more, bdtr(equal, len(one), agree)) >= _SURE_NEARLY
        if step > _FINE and independent:
            continue
        if every > 1:  # to count them all
            found = _found(ours, theirs, _SURE_NEARLY)[0]
        told = step <= _FINE or equal >= _AGREE * len(one)
        return replace(found, sure=True, step=step, told=told)
    return exact


def _found(
    ours: Marks, theirs: Marks, sure: float
) -> tuple[SharedRows, NDArray[np.intp], NDArray[np.intp]]:
    """What two lists of marks share, and the places of that in the one and the other."""
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


def row_marks(columns: Iterable[Floats], label: Ints) -> Marks:
    """A number of 64 bits for each sample: equal for equal rows, and hardly for others."""
    mark = label.astype(np.uint64)
    for column in columns:
        # Multiplying and shifting as in splitmix64; + 0.0 makes one zero of two.
        mark = (mark ^ (np.ascontiguousarray(column) + 0.0).view(np.uint64)) * np.uint64(
            0x9E3779B97F4A7C15
        )
        mark ^= mark >> np.uint64(29)
        mark *= np.uint64(0xBF58476D1CE4E5B9)
        mark ^= mark >> np.uint64(32)
    return mark


def _in_steps(column: Floats, step: float, least: float) -> Floats:
    """Whole numbers of relative steps above the least size, with the sign; of no step the same."""
    if not step:
        return column
    with np.errstate(divide="ignore"):
        size = np.log(np.minimum(np.abs(column), 1e300))
    steps = np.ceil(np.maximum(size - np.log(least), 0.0) / step)
    return np.asarray(np.where(column < 0, -steps, steps))


@dataclass(frozen=True)
class Repeat:
    """Two models with the same losses, each by its place and its number there.

    `certain` if there are enough different losses to say that they are one model. Hard labels, or
    probabilities that all round to 1, may be equal for two.
    """

    first: tuple[str, int]
    second: tuple[str, int]
    certain: bool


def repeated_models(
    losses: Mapping[str, Iterable[Floats]], *, may_be_one: Collection[tuple[str, str]] = frozenset()
) -> list[Repeat]:
    """Models with the losses of another to the last bit, in one place or in two.

    `losses` holds those of each model by place, of shape (samples,); `may_be_one` has pairs of
    places, the earlier first, that may hold the same model.
    """
    known: dict[bytes, list[tuple[str, int]]] = {}
    repeats: list[Repeat] = []
    for name, rows in losses.items():
        for number, row in enumerate(rows):
            earlier = known.setdefault(sha256(row.tobytes()).digest(), [])
            clash = [place for place in earlier if (place[0], name) not in may_be_one]
            if clash:
                different = np.unique(row[(row > 0) & np.isfinite(row)])
                repeats.append(Repeat(clash[0], (name, number), len(different) >= _GRADED))
            earlier.append((name, number))
    return repeats


def check_references(
    table: SignalTable,
    targets: NDArray[np.intp],
    shadow: SignalTable | None,
    references: NDArray[np.intp],
) -> tuple[str, ...]:
    """A note on references of `shadow`, or of `table`, that may be one of the targets.

    That is where one has the losses of a target, and too few different ones to decide. Models that
    give all samples one loss reveal no members. An InputError if a target is among the references,
    by its fingerprint or because they say the same of every sample: its loss would be compared with
    itself where it is a non-member alone, and an attack would find something in noise.
    """
    same, source = shadow is None, table if shadow is None else shadow
    others = references[~np.isin(references, targets)] if same else references

    def one_model(row: int, target: int, why: str) -> InputError:
        return InputError(
            f"model {row} of the references and model {target} of the targets are one model "
            f"({why}): an attack would compare the target with itself, and learn the flags it is "
            "judged by",
            cure="leave it out, by references= or table.select(models=...)",
            where=source.source,
        )

    if table.origin is not None and source.origin is not None:
        ours = {table.origin.models[row]: int(row) for row in targets}
        for row in others:
            if source.origin.models[row] in ours:
                target = ours[source.origin.models[row]]
                raise one_model(int(row), target, "by its fingerprint")
    if table.samples != source.samples:
        return ()
    theirs, loss = source.signal("loss"), table.signal("loss")
    doubted = 0
    for repeat in repeated_models(
        {"target": (loss[row] for row in targets), "reference": (theirs[row] for row in others)}
    ):
        if repeat.first[0] != "target" or (repeat.second[0] == "target" and not same):
            continue
        place = targets if repeat.second[0] == "target" else others
        row, target = int(place[repeat.second[1]]), int(targets[repeat.first[1]])
        if repeat.certain:
            raise one_model(row, target, "it says the same of every sample")
        doubted += bool(loss[target].min() < loss[target].max())
    if not doubted:
        return ()
    return (
        f"{plural(doubted, 'reference')} said of every sample what a target said, in too few "
        "different losses to say whether they are that target: if they are, an attack finds "
        "something in noise. Leave them out, or give probabilities in place of labels",
    )
