"""What estimators are given, checked."""

from __future__ import annotations

import operator
from typing import SupportsIndex

import numpy as np
from numpy.typing import ArrayLike, NDArray

from canary.errors import EstimationError

__all__ = ["check_confidence", "exact_size", "finite_array"]


def check_confidence(confidence: float, where: str) -> None:
    """An EstimationError unless it lies between 0 and 1."""
    if not 0.0 < confidence < 1.0:
        raise EstimationError(
            f"confidence must lie between 0 and 1, got {confidence!r}",
            cure="0.95 is usual",
            where=where,
        )


def exact_size(space_size: SupportsIndex, where: str) -> int:
    """The size of a space as a Python integer, 1 or more."""
    try:
        size = operator.index(space_size)
    except TypeError:
        size = 0
    if size < 1:
        raise EstimationError(
            f"space_size must be a positive integer, got {space_size!r}",
            cure="give the exact size of the format's space",
            where=where,
        )
    return size


def finite_array(values: ArrayLike, name: str, where: str) -> NDArray[np.float64]:
    """One-dimensional finite numbers."""
    try:
        array = np.asarray(values, np.float64)
    except (TypeError, ValueError) as error:
        raise EstimationError(
            f"{name} must hold numbers ({error})",
            cure="give log-perplexities in bits",
            where=where,
        ) from error
    if array.ndim != 1:
        raise EstimationError(
            f"{name} must have one dimension, got shape {array.shape}",
            cure="give one log-perplexity per candidate",
            where=where,
        )
    bad = np.flatnonzero(~np.isfinite(array))
    if len(bad):
        raise EstimationError(
            f"{name} must be finite, got {array[bad[0]]} at position {bad[0]} "
            f"({len(bad)} of {len(array)} values are not finite)",
            cure="look for NaN or infinite logits in the model",
            where=where,
        )
    return array
