"""Rows that are probabilities where logits were announced: a softmax too many."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_TOLERANCE, _STRICT, _COARSE = 1e-3, 1e-5, 2e-2
_FEW_ROWS, _FEW_CLASSES = 3, 10


def softmaxed(rows: NDArray[Any], *, coarse: bool = False) -> bool:
    """Whether every row lies within [0, 1] and sums to 1.

    Logits do so by accident only where there are few of them, so that few rows of few classes
    must sum to 1 to within 1e-5.

    Parameters
    ----------
    rows : ndarray of shape (n, classes)
    coarse : bool
        They were computed in 16 bits.
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
