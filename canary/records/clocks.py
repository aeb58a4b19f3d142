"""Readings that decide how work is divided: alike in all processes that compute one model.

Batch sizes follow from seconds and from free memory. Where each process holds a part of every
layer, all must decide the same, or they wait for each other for ever.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

_AGREED: list[Callable[[float], float]] = []
"""How the processes agree on a number, if there are several."""


def alike(value: float) -> float:
    """A number that this process read, or the one that all processes take in its place."""
    return _AGREED[-1](value) if _AGREED else value


def seconds(clock: Callable[[], float] = time.perf_counter) -> float:
    """What a clock shows, alike in all processes."""
    return alike(clock())


def deadline(limit: float | None) -> float:
    """When that number of seconds will be over; never if there is no limit."""
    return math.inf if limit is None else seconds(time.monotonic) + limit


def is_over(when: float) -> bool:
    """Whether a `deadline` has passed."""
    return when < math.inf and seconds(time.monotonic) >= when


def agree(how: Callable[[float], float]) -> Callable[[], None]:
    """Let all processes take what `how` gives for a number of each; undone by what is returned."""
    _AGREED.append(how)
    return lambda: _AGREED.remove(how)
