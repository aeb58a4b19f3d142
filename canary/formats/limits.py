"""How much a format may ask for: its text may come from somebody else."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from canary.errors import FormatError

MAX_EDGES = 500_000
"""Edges that a hole may need."""

MAX_ALL_EDGES = 8_000_000
"""Edges of a whole format: eight words of a list of 267,735 need some 3,000,000, random
strings for words 5,400,000. They take some 50 bytes each."""

MAX_STEPS = 4_000_000
"""Steps of Python's that a whole format may take to be compiled: some seconds."""

MAX_BITS = 4096
"""log2 of the largest space: counts stay cheap, and can be written in decimal."""

MAX_HOLES = 1000

MAX_PATTERN = 10_000
"""Characters of a regular expression."""


def too_large(edges: int = MAX_EDGES) -> FormatError:
    """The error for an automaton of more than `edges`."""
    return FormatError(
        f"the format needs an automaton of more than {edges:,} edges",
        cure="use shorter holes, fewer alternatives or fewer words "
        "({digit:9} alone holds 10^9 secrets)",
    )


def check_size(size: int) -> None:
    """Refuse spaces that are larger than any use of them.

    Raises
    ------
    FormatError
        If `size` is 2^`MAX_BITS` or more.
    """
    if size.bit_length() > MAX_BITS:
        raise FormatError(
            f"the format has more than 2^{MAX_BITS} fills",
            cure="use shorter holes ({digit:9} alone holds 10^9 secrets)",
        )


class Meter:
    """Counts the steps of one piece of work, and of the format that it is a part of."""

    def __init__(self, limit: int = 2 * MAX_EDGES) -> None:
        self._left = limit
        self._whole = _whole.get()

    def spend(self, steps: int) -> None:
        """Count `steps`.

        Raises
        ------
        FormatError
            If there have been too many, here or in the format as a whole.
        """
        self._left -= steps
        if self._left < 0:
            raise too_large()
        if self._whole is not None:
            self._whole.spend(steps)


_whole: ContextVar[Meter | None] = ContextVar("whole", default=None)


@contextmanager
def in_all(steps: int = MAX_STEPS) -> Iterator[None]:
    """What is built within may take so many steps in all."""
    token = _whole.set(Meter(steps))
    try:
        yield
    finally:
        _whole.reset(token)
