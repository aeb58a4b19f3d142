"""Uniform draws of indices from spaces of any size."""

from __future__ import annotations

import numpy as np


def draw_indices(size: int, count: int, *, rng: np.random.Generator) -> list[int]:
    """Draw `count` different integers from ``0 .. size - 1``, uniformly.

    The order is the order of drawing: every sequence of different indices is equally
    likely, so any part of the result is a uniform sample too.

    Parameters
    ----------
    size : int
        Size of the space; any Python integer.
    count : int
        At most `size`.
    rng : numpy.random.Generator

    Notes
    -----
    Time and memory are O(count), whatever the size.
    """
    if 2 * count >= size:
        shuffled: list[int] = rng.permutation(size)[:count].tolist()
        return shuffled
    # Independent draws with repeats passed over. Each round draws no more than are still
    # missing, so that nothing is ever drawn and then cut off.
    drawn: dict[int, None] = {}
    while len(drawn) < count:
        drawn.update(dict.fromkeys(_uniform(size, count - len(drawn), rng)))
    return list(drawn)


def _uniform(size: int, count: int, rng: np.random.Generator) -> list[int]:
    """At most `count` (at least 0) independent uniform integers below `size`."""
    if size <= 2**63:
        numbers: list[int] = rng.integers(size, size=count).tolist()
        return numbers
    bits = (size - 1).bit_length()
    width, surplus = (bits + 7) // 8, -bits % 8
    data = rng.bytes(width * count)
    candidates = (
        int.from_bytes(data[at : at + width], "big") >> surplus for at in range(0, len(data), width)
    )
    return [number for number in candidates if number < size]
