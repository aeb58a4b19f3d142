"""What speaks against the files of many models: flags of other models or samples, other units."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from canary.membership.unlike import together
from canary.signals.signal_table import SignalTable
from canary.statistics.distances import chance_distance, ks_distance
from canary.statistics.numbers import plural

Floats = NDArray[np.float64]

RARE = 1e-6
"""Chance, if files are as they should be, of what is noted without an interval."""

_FACTOR, _BETTER, _CLOSE = 1.2, 3.0, 0.03
"""Of losses in other units: the least factor, how many times closer it has to bring the
distributions, and the distance up to which those are alike."""

_CONSTANTS = tuple(
    ratio for one in (math.log(2.0), math.log(10.0), math.log2(10.0)) for ratio in (one, 1.0 / one)
)
_NEAR, _NEARLY = 0.03, 0.1
"""Of the losses of texts: the ratios of nats, bits and decimal logarithms, and how far those of
medians and of quartile ranges may be from them."""


_ROWS = "its flags are of another model. Save the flags and losses of each model together"


def fleet_doubts(
    table: SignalTable, names: Sequence[str], *, moved: bool = False
) -> tuple[str, ...]:
    """Notes on the losses of several models of one table beside each other, each by its name.

    With `moved`, flags that fit when they are moved were noted already.
    """
    if "loss" not in table.values:
        return ()
    notes = () if "correctness" in table.values else _units(table, names)
    if table.models < 3 or table.samples < 64 or not np.isfinite(table.values["loss"]).all():
        return notes
    easier, flags = _beside(table)
    others = _flags_of_others(easier, flags, names)
    if others or moved:
        return notes + others
    return notes + _moved_together(easier, flags, "text" if table.of_texts else "sample")


def _beside(table: SignalTable) -> tuple[Floats, Floats]:
    """Losses and flags less what all models have in common, both of shape (models, samples).

    Losses are ranks within a model; each row has mean 0 and length 1, or is 0.
    """
    from scipy.stats import rankdata

    losses, flags = table.signal("loss"), table.member.astype(np.float64)
    both = [rankdata(losses - losses.mean(axis=0), axis=1), flags - flags.mean(axis=0)]
    both = [each - each.mean(axis=1, keepdims=True) for each in both]
    lengths = [np.sqrt((each * each).sum(axis=1, keepdims=True)) for each in both]
    losses, flags = (
        np.where(length > 1e-9, each / np.maximum(length, 1e-9), 0.0)
        for each, length in zip(both, lengths, strict=True)
    )
    return losses, flags


def _flags_of_others(losses: Floats, flags: Floats, names: Sequence[str]) -> tuple[str, ...]:
    """Models whose losses fit the flags of another one, and not their own; or all, some on."""
    from scipy.special import ndtri

    models, samples = losses.shape
    fit = losses @ flags.T * math.sqrt(samples)
    level, own = float(ndtri(RARE / models**2)), fit.diagonal()
    rows = np.arange(models)
    on = np.array([fit[rows, (rows + by) % models].sum() for by in range(models)])
    on *= math.sqrt(models - 1) / models
    if on.min() < float(ndtri(RARE / models)) < on[0] < -on.min():  # else they are inverted
        by = int(on.argmin())
        better = fit[rows, (rows + by) % models] < own
        wrong, one = int(better.sum()), int(better.argmax())  # some may have their own flags
        return (
            f"The losses of {names[one]} fit the flags member of {names[int(fit[one].argmin())]}, "
            f"not its own, and so on for {'all ' if wrong == models else f'{wrong} of '}"
            f"{models} models: {_ROWS}",
        )
    return together([
        None
        if not fit[row].min() < level < own[row] < -fit[row].min()
        else f"The losses of {names[row]} fit the flags member of {names[int(fit[row].argmin())]}, "
        f"and not its own: {_ROWS}"
        for row in range(models)
    ])  # fmt: skip


def _moved_together(losses: Floats, flags: Floats, kind: str) -> tuple[str, ...]:
    """Flags of all models that are those of the samples some places before."""
    from scipy.special import ndtri

    models, samples = losses.shape
    # Rows sum to 0, so their sum varies more than that of independent ones.
    scale = math.sqrt(samples * (models - 1)) / models
    turned, ranks = np.fft.rfft(flags), np.fft.rfft(losses)
    along = np.fft.irfft((np.abs(turned) ** 2).sum(axis=0), samples) * scale
    fit = np.fft.irfft((np.conj(turned) * ranks).sum(axis=0), samples) * scale
    level = float(ndtri(RARE / samples))
    if np.abs(along[1:]).max() >= 6.0 or not fit.min() < level < fit[0]:
        return ()
    by = int(min(fit.argmin(), samples - fit.argmin()))
    return (
        f"The flags member of the models fit their losses if they are moved by {plural(by, kind)}, "
        f"and as they are they do not: they are of other {kind}s. Save flags and losses of each "
        f"{kind} together",
    )


def _units(table: SignalTable, names: Sequence[str]) -> tuple[str, ...]:
    """Models whose losses are in other units than those of the middle one."""
    losses = [table.signal("loss")[row, ~table.member[row]] for row in range(table.models)]
    if not all(map(len, losses)):
        return ()
    order = sorted(range(table.models), key=lambda row: np.median(losses[row]))
    middle = order[len(order) // 2]
    found: list[float | None]
    if table.of_texts:
        found = _factors_of_texts(table.signal("loss"), middle)
    else:
        found = [other_factor(own, losses[middle]) for own in losses]
    return together([
        None if factor is None else in_other_units(factor, name, names[middle])
        for factor, name in zip(found, names, strict=True)
    ])  # fmt: skip


def _factors_of_texts(losses: Floats, middle: int) -> list[float | None]:
    """By which constant the losses of the same texts are larger in each model, if one of units is.

    In a better model losses are lower, too, but not closer to each other by the same factor.
    """
    if losses.min() <= 0.0:
        return [None] * len(losses)
    usual = losses[middle] if len(losses) < 3 else np.median(losses, axis=0)
    low, high = np.quantile(losses, [0.25, 0.75], axis=1)
    factors, wide = np.median(losses / usual, axis=1), high - low
    factors, wide = factors / factors[middle], wide / max(float(np.median(wide)), 1e-12)
    near = np.abs(factors[:, None] / _CONSTANTS - 1.0).min(axis=1) < _NEAR
    near &= np.abs(wide / factors - 1.0) < _NEARLY
    return [float(one) if there else None for one, there in zip(factors, near, strict=True)]


def other_factor(ours: Floats, theirs: Floats) -> float | None:
    """That of losses that are alike those of another model but for a constant: of the medians."""
    if not len(ours) or not len(theirs):
        return None
    medians = float(np.median(ours)), float(np.median(theirs))
    if not all(0.0 < median < math.inf for median in medians):
        return None
    factor, sizes = medians[0] / medians[1], (len(ours), len(theirs))
    before, after = ks_distance(ours, theirs), ks_distance(ours / factor, theirs)
    if (
        max(factor, 1.0 / factor) < _FACTOR
        or before < chance_distance(*sizes, level=RARE)
        or after > min(before / _BETTER, max(_CLOSE, chance_distance(*sizes)))
    ):
        return None
    return factor


def in_other_units(factor: float, what: str, other: str) -> str:
    """A note on losses that are a constant times those of another model."""
    return (
        f"The losses of the {what} are {factor:.3g} times those of the {other}, and otherwise "
        "alike, as in other units: bits are 1.44 and decimal logarithms 0.43 times nats, sums are "
        "larger than means. What is learned on one does not fit the other. Save one loss in nats "
        "for each sample; if they are that, train both models alike"
    )
