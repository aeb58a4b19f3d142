"""The history of a training as it grows, the file that it is kept in, and what was told."""

from __future__ import annotations

import logging
import math
import statistics
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from canary.audits.history import PASSED_AT_THE_END, History, Loss, Moment
from canary.errors import OutputError, RecordError
from canary.plugins.share import TimeShare

_log = logging.getLogger("canary.plugins.monitor")

_SAME_SETTINGS = ("draws", "seed", "start_token", "context")


class HistoryLog:
    """A history that grows by moments and losses.

    Parameters
    ----------
    history : History
        What is known before the first moment.
    time : TimeShare
        Its seconds are those of the history.
    path : Path, optional
        Where the history is saved.
    """

    def __init__(self, history: History, time: TimeShare, path: Path | None) -> None:
        self._history, self._time, self._path = history, time, path
        self._told: set[str] = set()
        self._earlier: dict[str, Any] = {}  # batches before a checkpoint
        self.losses: list[float] = []  # since the last asked step

    @property
    def history(self) -> History:
        """What was measured so far."""
        return replace(
            self._history,
            training_seconds=self._history.training_seconds + self._time.training_seconds,
            own_seconds=self._history.own_seconds + self._time.own_seconds,
        )

    @property
    def passed(self) -> bool:
        """Whether the training was asked to stop."""
        return self._history.stopped_at is not None

    @property
    def seen_before(self) -> bool:
        """Whether canaries were seen in batches before a checkpoint."""
        return bool(self._earlier.get("canaries"))

    def change(self, **changes: Any) -> None:
        """Replace fields of the history."""
        self._history = replace(self._history, **changes)

    def ask(self, step: int, *, again: bool) -> None:
        """A measurement is asked for: the mean of the losses so far is that of this step."""
        if self.losses:
            self.add_loss(statistics.fmean(self.losses), step=step)
            self.losses = []
        if not again:
            self.change(asked=self._history.asked + 1)

    def add_loss(self, loss: float, *, step: int) -> None:
        """Keep a loss, if it is finite."""
        if math.isfinite(loss):
            losses = [kept for kept in self._history.losses if kept.step < step]
            self.change(losses=(*losses, Loss(step, float(loss))))

    def keep(self, moment: Moment, batches: Mapping[str, Any], *, save: bool = True) -> None:
        """Keep a moment, in place of what was measured at its step or later."""
        earlier = (kept for kept in self._history.moments if kept.step < moment.step)
        self.change(moments=(*earlier, moment))
        self.see(batches)
        if save:
            self.save()

    def see(self, batches: Mapping[str, Any]) -> None:
        """Keep what was seen of batches; of those before a checkpoint, if no canary was since."""
        kept = {} if batches["canaries"] else self._earlier
        more = {name: kept[name] for name in ("canaries", "after") if name in kept}
        self.change(batches={**batches, **more})

    def save(self) -> None:
        """Write the file, if there is one."""
        if self._path is not None:
            self.history.save(self._path)

    def stop(self, step: int, above: str | None, *, ended: bool) -> None:
        """The limit was passed at a step; `above` is known in the first process only."""
        reason, said = above, f"the training is stopped at step {step}: {above}"
        if ended and above is not None:
            reason = said = f"{PASSED_AT_THE_END}, at step {step}: nothing was stopped; {above}"
        self.change(stopped_at=step, stop_reason=reason)
        if above is not None:
            _log.warning("canary: %s", said)
            with suppress(OutputError):  # told by who saved it before, or by finish
                self.save()

    def tell(self, findings: Mapping[str, str]) -> None:
        """Warn of what was not told yet."""
        for kind, sentence in findings.items():
            if kind not in self._told:
                self._told.add(kind)
                _log.warning("canary: %s", sentence)

    def resume(self, history: History, *, step: int) -> None:
        """Go on from a history at a step.

        Raises
        ------
        RecordError
            If it is one of other canaries, draws or tokens before them.
        """
        mine = self._history
        settings = [n for n in _SAME_SETTINGS if history.settings.get(n) != mine.settings[n]]
        parts = [n for n in ("canaries", "formats") if getattr(history, n) != getattr(mine, n)]
        for name in settings + parts:
            raise RecordError(
                f"the history is one of other {name.replace('_', ' ')} than this training's",
                cure="go on with the canaries and settings it was begun with, or begin a new "
                "history",
            )
        self._earlier = dict(history.batches)
        self._history = replace(history.until(step), settings=mine.settings)
