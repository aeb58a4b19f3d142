"""Whose time it is: the training's, or that of who watches it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from canary.errors import InputError
from canary.records.validation import real_number

_REMEMBERED = 3


class TimeShare:
    """Measures both times, and says what may be taken of the training's.

    Parameters
    ----------
    share : float or None
        The monitor's time may be this part of the training's; None: as long as it takes.
    clock : callable
        Seconds, never going back.

    Notes
    -----
    The training's time is what passes between two blocks of `own`. Before the first block,
    or after `pause`, no time is anybody's.

    A measurement begins only if own time with what it is expected to take, which is the
    longest of the last three, stays within the share. One that takes longer than expected
    goes beyond it, and nothing is begun until the training has made up for that.
    """

    def __init__(self, share: float | None, clock: Callable[[], float] = time.perf_counter) -> None:
        if share is not None:
            cure = (
                "give the part of the training's time that measuring may take, such as 0.05; "
                "or None, for as long as it takes"
            )
            share = real_number(share, "share", above=0, cure=cure)
            if share > 1.0:
                raise InputError(f"share must be a number of at most 1, got {share:g}", cure=cure)
        self.share = share
        self.training_seconds = 0.0
        self.own_seconds = 0.0
        self._clock = clock
        self._left: float | None = None
        self._costs: list[float] = []

    @contextmanager
    def own(self) -> Iterator[None]:
        """The time of the block is the monitor's, that since the last one the training's."""
        begin = self._clock()
        if self._left is not None:
            self.training_seconds += begin - self._left
        try:
            yield
        finally:
            self._left = self._clock()
            self.own_seconds += self._left - begin

    @contextmanager
    def measurement(self) -> Iterator[None]:
        """Within a block of `own`: what is done here will take as long the next time."""
        begin = self._clock()
        yield
        self._costs = [*self._costs, self._clock() - begin][-_REMEMBERED:]

    def now(self) -> float:
        """The clock."""
        return self._clock()

    def pause(self) -> None:
        """The time until the next block is nobody's."""
        self._left = None

    def expect(self, seconds: float) -> None:
        """What a measurement will take, before there was one."""
        self._costs = self._costs or [seconds]

    @property
    def cost(self) -> float | None:
        """Seconds that the next measurement is expected to take; None if nothing is known."""
        return max(self._costs, default=None)

    @property
    def allows(self) -> bool:
        """Whether one more measurement stays within the share; called in a block of `own`."""
        if self.share is None:
            return True
        spent = self.own_seconds + (self.cost or 0.0)
        return spent <= self.share * self.training_seconds
