"""How long the passages of a run take, said after its first batches."""

from __future__ import annotations

from time import perf_counter

from canary.records.progress import Advance, Progress, remark
from canary.statistics.numbers import duration

_LOOK = 3.0  # seconds from the first batch that its pace is taken from
_LONG = 60.0  # seconds from which on it is said


class Announced:
    """Says how long all passes of a run take, once, if that is more than a minute.

    Parameters
    ----------
    progress : Progress
        Where it is said; nothing is said where there is no place for lines.
    what : str
        What is computed, such as ``"98 windows of 50 texts"``.
    tokens : int
        That are scored in all passes together.
    """

    def __init__(self, progress: Progress, what: str, tokens: int) -> None:
        self._progress, self._what, self._tokens = progress, what, tokens
        self._began: float | None = None
        self._done = 0
        self.seconds: float | None = None

    def after(self, advance: Advance) -> Advance:
        """`advance`, from which the pace of the passes is learned.

        The first batch, which is small and begins when memory is cold, does not count.
        """

        def step(done: int) -> None:
            advance(done)
            if self.seconds is not None:
                return
            now = perf_counter()
            if self._began is None:
                self._began = now
                return
            self._done += done
            if now - self._began < _LOOK or not self._done:
                return
            self.seconds = self._tokens * (now - self._began) / self._done
            if self.seconds >= _LONG:
                remark(
                    self._progress,
                    f"Scoring {self._what}, {self._tokens:,} tokens, takes about "
                    f"{duration(self.seconds)} here",
                )

        return step
