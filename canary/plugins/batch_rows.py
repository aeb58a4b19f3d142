"""The rows of a batch: whole numbers, and where what is in them begins and ends."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]


def begin_of(attended: NDArray[np.bool_], positions: Ids | None, row: int, at: int) -> int:
    """Where what a token belongs to begins: its row, or its part of a packed row."""
    hidden = np.flatnonzero(~attended[row, :at]) + 1
    anew = np.zeros(0, int)
    if positions is not None:
        anew = np.flatnonzero(positions[row, : at + 1] == 0)
    return int(max([0, *hidden[-1:], *anew[-1:]]))


def ends_of(attended: NDArray[np.bool_], positions: Ids | None) -> Any:
    """Where what each token belongs to ends: its row, or its part of a packed row."""
    width = attended.shape[1]
    ends = np.where(attended, np.arange(1, width + 1), 0).max(axis=1, initial=0, keepdims=True)
    if positions is None:
        return np.broadcast_to(ends, attended.shape)
    begins = np.where(positions == 0, np.arange(width), width)[:, ::-1]
    following = np.minimum.accumulate(begins, axis=1)[:, ::-1]
    return np.minimum(ends, np.concatenate([following[:, 1:], ends], axis=1))


def pair_key(first: Any, second: Any) -> Any:
    """One number for two tokens."""
    return first * 2**31 + second


def array_of(value: Any, shape: tuple[int, ...] | None) -> Ids | None:
    """Whole numbers of two dimensions, of this shape if one is given; else None."""
    if value is None:
        return None
    if hasattr(value, "detach"):
        value = value.detach().to("cpu").numpy()
    array = np.asarray(value)
    if array.ndim != 2 or array.dtype.kind not in "iub" or (shape and array.shape != shape):
        return None
    return array.astype(np.int64)
