"""How long the passes or the search of a run take, said after its first batches."""

from __future__ import annotations

from collections.abc import Callable
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
    told : callable
        The line, given the time in words such as ``"4 min"``.
    tokens : int
        That are computed in all passes together.
    grows : bool
        Whether batches are small at first: then the later half of twice the time gives the pace.
    """

    def __init__(
        self, progress: Progress, told: Callable[[str], str], tokens: int, *, grows: bool = False
    ) -> None:
        self._progress, self._told, self._tokens = progress, told, tokens
        self._look, self._later = (2 * _LOOK, 0.5) if grows else (_LOOK, 0.0)
        self._seen: list[tuple[float, int]] = []  # when batches ended, and the tokens until then
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
            self._seen.append((now, self._seen[-1][1] + done if self._seen else 0))
            began, total = self._seen[0][0], self._seen[-1][1]
            if now - began < self._look or not total:
                return
            half = began + self._later * (now - began)
            first = next(at for at in reversed(self._seen[:-1]) if at[0] <= half)
            self.seconds = self._tokens * (now - first[0]) / max(total - first[1], 1)
            self._seen.clear()
            if self.seconds >= _LONG:
                remark(self._progress, self._told(duration(self.seconds)))

        return step


def announced_passes(progress: Progress, what: str, tokens: int) -> Announced:
    """Of passes over `what`, such as ``"98 windows of 50 texts"``."""
    told = f"Scoring {what}, {tokens:,} tokens, takes about"
    return Announced(progress, lambda time: f"{told} {time} here", tokens)
