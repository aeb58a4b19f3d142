"""Whether a limit on exposure is weak: it allows what few guesses find."""

from __future__ import annotations

import math

STRICT_BITS, LOOSE_BITS = 4.0, 10.0
"""Limits to choose from: what chance explains, and what is allowed where tries are stopped."""

_FEW_GUESSES = 1_000
"""So many are tried at once."""


def asked_guesses(size: int, limit: float | None) -> int:
    """The fewest guesses that a limit in bits allows."""
    return math.ceil(size * math.exp2(-(limit or 0.0)))


def is_weak(size: int, limit: float) -> bool:
    """Whether a limit allows what few guesses find, and chance does not explain it."""
    return limit > STRICT_BITS and asked_guesses(size, limit) <= _FEW_GUESSES
