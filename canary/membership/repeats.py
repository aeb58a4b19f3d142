"""Was one model given as two? By what it said of the samples, to the last bit."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Repeat", "repeated_models"]

_GRADED = 8
"""Different losses, neither 0 nor infinite, that two models do not share at all samples."""


@dataclass(frozen=True)
class Repeat:
    """Two models with the same losses.

    Parameters
    ----------
    first, second : (str, int)
        The place of each, and its number there.
    certain : bool
        Whether there are so many different losses that they are one model. Hard labels, or
        probabilities that all round to 1, may be equal for two.
    """

    first: tuple[str, int]
    second: tuple[str, int]
    certain: bool


def repeated_models(
    losses: Mapping[str, NDArray[np.float64]],
    *,
    may_be_one: Collection[tuple[str, str]] = frozenset(),
) -> list[Repeat]:
    """Models that stand twice in one place, or in two that have to differ.

    Parameters
    ----------
    losses : mapping of str to float64 array of shape (models, samples)
        By place, all on the same samples.
    may_be_one : collection of (str, str)
        Pairs of places, the earlier first, that may hold the same model.

    Notes
    -----
    O(models samples).
    """
    known: dict[bytes, list[tuple[str, int]]] = {}
    found = []
    for name, rows in losses.items():
        for at, row in enumerate(rows):
            earlier = known.setdefault(row.tobytes(), [])
            clash = [place for place in earlier if (place[0], name) not in may_be_one]
            if clash:
                different = np.unique(row[(row > 0) & np.isfinite(row)])
                found.append(Repeat(clash[0], (name, at), len(different) >= _GRADED))
            earlier.append((name, at))
    return found
