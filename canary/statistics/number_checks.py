"""What estimators are given, checked; the unit that log-perplexities are in; and a search."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from numbers import Real
from typing import Any, SupportsIndex

import numpy as np
from numpy.typing import ArrayLike, NDArray

from canary.errors import EstimationError
from canary.records.validation import brief

LN2 = math.log(2.0)
"""Nats in a bit: natural logarithms within, bits at the edge."""

LARGEST_BITS = 1e100
"""Beyond it no log-perplexity is one, and squares and sums would leave float64."""

_ROUNDING_BITS = 0.01
"""How far below 0 the arithmetic of a model may put the log-perplexity of a certain text."""

_SAME_BITS = 1e-3  # between scores of one candidate, whose rounding nobody stated
_FEW_DRAWS, _MANY = 10, 100  # draws, and canaries: probably given in the wrong order
_SURE_COPIES = 40  # of so many numbers, chance makes all even once in 2**40 times

# How far probabilities may be from 1 in sum: usually, in a few rows, and in 16 bits.
_TOLERANCE, _STRICT, _COARSE = 1e-3, 1e-5, 2e-2
_FEW_ROWS, _FEW_CLASSES = 3, 10


def check_confidence(confidence: float, where: str) -> None:
    """An EstimationError unless it lies between 0.5 and 1: below is that of an error."""
    check_chance(confidence, where, name="confidence")
    if confidence < 0.5:
        raise EstimationError(
            f"confidence must be 0.5 or more, got {confidence!r}",
            cure=f"for an alpha of {confidence:g}, give {1.0 - confidence:g}; 0.95 is usual",
            where=where,
        )


def check_chance(chance: float, where: str, *, name: str) -> None:
    """An EstimationError unless it lies between 0 and 1."""
    real = isinstance(chance, Real) and not isinstance(chance, bool)
    if not (real and 0.0 < chance < 1.0 and 1.0 - chance < 1.0):  # 1e-20 is as 0
        raise EstimationError(
            f"{name} must be between 0 and 1, got {chance!r}",
            cure="0.95 is usual" if name == "confidence" else "give a probability",
            where=where,
        )


def exact_size(space_size: SupportsIndex, where: str) -> int:
    """The size of a space as a Python integer, 1 or more."""
    cure = "give the exact size of the format's space"
    return positive_integer(space_size, "space_size", where, cure=cure)


def positive_integer(value: SupportsIndex, name: str, where: str, *, cure: str) -> int:
    """A Python integer of any magnitude, 1 or more."""
    try:
        number = 0 if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = 0
    if number < 1:
        raise EstimationError(
            f"{name} must be a positive integer, got {brief(value)}", cure=cure, where=where
        )
    return number


def real_array(values: ArrayLike, name: str, where: str, *, cure: str) -> NDArray[np.float64]:
    """Real numbers of any shape, as float64; those that it cannot hold are infinite."""
    try:
        given = np.asarray(values)
        if given.dtype.kind not in "biuf":
            # A list of ints beyond int64 and None has the type object, and may be numbers.
            given = np.asarray(values, None if given.dtype.kind in "cmMSUV" else np.float64)
        if given.dtype.kind not in "biuf":
            raise TypeError(f"got the type {given.dtype}")
        with np.errstate(over="ignore"):
            return given.astype(np.float64, copy=False)
    except (TypeError, ValueError, OverflowError) as error:
        raise EstimationError(
            f"{name} must hold numbers ({error})", cure=cure, where=where
        ) from error


def finite_array(values: ArrayLike, name: str, where: str) -> NDArray[np.float64]:
    """One-dimensional finite numbers."""
    array = real_array(values, name, where, cure="give log-perplexities in bits")
    if array.ndim != 1:
        raise EstimationError(
            f"{name} must have one dimension, got shape {array.shape}",
            cure="give one log-perplexity per candidate",
            where=where,
        )
    bad = np.flatnonzero(~(np.abs(array) <= LARGEST_BITS))
    if len(bad) and (array[bad] == np.inf).all():
        raise EstimationError(
            f"{len(bad)} of {len(array)} values of {name} are infinite: the model gives these "
            "candidates probability 0, and no curve goes through them",
            cure="use another method (enumeration, rank or sampling), or a format without the "
            "tokens that the model forbids",
            where=where,
        )
    if len(bad):
        raise EstimationError(
            f"{name} must be finite, got {array[bad[0]]} at position {bad[0]} "
            f"({len(bad)} of {len(array)} values are not finite, or beyond {LARGEST_BITS:g})",
            cure="look for NaN or infinite logits in the model",
            where=where,
        )
    return array


def checked_px(values: ArrayLike, name: str, where: str) -> NDArray[np.float64]:
    """One-dimensional finite numbers, none negative but for rounding."""
    array = finite_array(values, name, where)
    below = np.flatnonzero(array < -_ROUNDING_BITS)
    if len(below):
        raise EstimationError(
            f"{name} must not be negative, got {array[below[0]]} at position {below[0]} "
            f"({len(below)} of {len(array)}); log-likelihoods have the other sign",
            cure="give -log2 P of each whole text, which is 0 or more",
            where=where,
        )
    return array


def halved(
    holds: Callable[[float], bool], start: float, end: float, *, steps: int = 60
) -> tuple[float, float]:
    """On the way from `start`, where something holds, to `end`: where it last does, and no more."""
    for _ in range(steps):
        middle = (start + end) / 2.0
        start, end = (middle, end) if holds(middle) else (start, middle)
    return start, end


UNITS = {"nats": 1.0, "bits": LN2, "decimal logarithms": math.log(10.0)}
"""The nats in each unit that log-probabilities may have."""


def log_softmaxed(rows: NDArray[Any], *, coarse: bool = False) -> str:
    """The unit in which every row is log-probabilities of everything, as `softmaxed`; or none."""
    with np.errstate(over="ignore", invalid="ignore"):
        powers = ((unit, np.exp(rows.astype(np.float64) * nats)) for unit, nats in UNITS.items())
        return next((unit for unit, some in powers if softmaxed(some, coarse=coarse)), "")


def softmaxed(rows: NDArray[Any], *, coarse: bool = False) -> bool:
    """Whether every row, of shape (n, classes), lies within [0, 1] and sums to 1.

    Then it is probabilities where logits were announced: a softmax too many. Few rows of few
    classes must sum to 1 more closely, for logits may do so by accident; rows that were computed
    in 16 bits (`coarse`) less closely.
    """
    if not rows.size or rows.shape[1] < 2:
        return False
    values = rows.astype(np.float64)
    coarse = coarse or rows.dtype == np.float16
    few = len(rows) < _FEW_ROWS and rows.shape[1] <= _FEW_CLASSES
    tolerance = _COARSE if coarse else _STRICT if few else _TOLERANCE
    with np.errstate(invalid="ignore"):
        within = bool(((values >= 0) & (values <= 1)).all())
        return within and bool((np.abs(values.sum(axis=1) - 1.0) <= tolerance).all())


def check_prior(prior: float, where: str) -> None:
    """An EstimationError unless it lies between 0 and 1."""
    if not 0.0 < prior < 1.0:
        raise EstimationError(
            f"prior must be between 0 and 1, got {prior!r}",
            cure="0.5 says that members are as common as non-members",
            where=where,
        )


def check_draws(
    draws: NDArray[np.float64], size: int, noise_bits: float, where: str, *, canaries: int = 0
) -> None:
    """Refuse no draws, more values than candidates, or draws that are all there equally often.

    They are sorted. Values within noise, or a thousandth of a bit, may be of one candidate.
    """
    counts = np.diff(np.flatnonzero(np.r_[True, draws[1:] != draws[:-1], True]))
    times, problem, cure = int(np.gcd.reduce(counts)) if len(draws) else 0, "", ""
    if not 0.0 <= noise_bits <= LARGEST_BITS:
        problem = f"noise_bits must be finite and not negative, got {noise_bits!r}"
        cure = "give what the model's facts say"
    elif not len(draws):
        problem, cure = "draws_px is empty", "draw at least one candidate"
    elif len(draws) < _FEW_DRAWS and canaries >= _MANY:
        problem = f"draws_px has length {len(draws)}, and canary_px {canaries:,}"
        cure = "give canary_px first and draws_px second; or draw more candidates"
    elif times > 1 and len(counts) >= _SURE_COPIES and len(draws) < size:
        problem = f"every value of draws_px is there {times} times, or a multiple of it"
        cure = "give each draw once, and draw more candidates if these are too few"
    elif size <= np.count_nonzero(np.diff(draws) > max(2.0 * noise_bits, _SAME_BITS)):
        problem = f"draws_px has more different values than the space has candidates ({size:,})"
        cure = "give the number of candidates, and noise_bits if repeated scores differ"
    if problem:
        raise EstimationError(problem, cure=cure, where=where)
