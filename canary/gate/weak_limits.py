"""Whether a limit on exposure makes sense, and whether it is weak: few guesses find what passes."""

from __future__ import annotations

import math

from canary.errors import InputError
from canary.records.validation import as_real

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


def check_limit(limit: float, *, most: float = math.inf) -> float:
    """A limit in bits from 1 on that some exposure could exceed; an `InputError` otherwise.

    `most` is the largest exposure that there can be.
    """
    value, cure = as_real(limit), "lower the limit, or take a format with more candidates"
    problem = f"no exposure could exceed the limit of {value:g} bits: the largest space "
    problem += f"holds {most:.4g}"
    if not 1.0 <= value < math.inf:
        problem = f"a limit of {limit!r} bits makes no sense"
        cure = "give a number from 1 on, which is what chance gives; 4 is usual"
    elif value < most:
        return value
    raise InputError(problem, cure=cure, where="max_exposure_bits")
