"""Who hears of verdicts, such as a test run that shows all of them. It imports next to nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from canary.gate.verdict import Verdict

LISTENERS: list[Callable[[Verdict], object]] = []
"""Called with every verdict of `canary.check`."""


@contextmanager
def listening(listener: Callable[[Verdict], object]) -> Iterator[None]:
    """Have `listener` called with every verdict of `canary.check` until the block ends."""
    LISTENERS.append(listener)
    try:
        yield
    finally:
        LISTENERS.remove(listener)
