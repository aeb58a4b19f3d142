"""Verdicts are told to whoever listens, such as a test run that shows all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from canary.gate.verdict import Verdict

_LISTENERS: list[Callable[[Verdict], object]] = []


@contextmanager
def listening(listener: Callable[[Verdict], object]) -> Iterator[None]:
    """Have `listener` told of every verdict of `canary.check` until the block ends."""
    _LISTENERS.append(listener)
    try:
        yield
    finally:
        _LISTENERS.remove(listener)


def tell(verdict: Verdict) -> Verdict:
    """Tell all listeners of a verdict, and return it."""
    for listener in _LISTENERS:
        listener(verdict)
    return verdict
