"""What a monitor keeps of a training: its steps, its time, its history and the limit."""

from __future__ import annotations

import logging
import math
import statistics
import time
import weakref
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Protocol, SupportsFloat

import numpy as np

from canary.audits.audit_result import CANARY_SET
from canary.audits.history import AT_THE_END, History, Loss, Moment, WatchedCanary, WatchedFormat
from canary.corpus.canaries import CanarySet
from canary.errors import InputError, OutputError, RecordError
from canary.records.validation import brief, real_number, some, whole_number
from canary.statistics.exposures import Exposure, exposure_by_draws
from canary.statistics.numbers import count, duration, plural

_log = logging.getLogger("canary.plugins.monitor")

_FREE = 10.0  # seconds of measuring that every training can spare
_LONG = 60.0  # seconds of measuring from which on it is warned of
_REMEMBERED = 3  # measurements, of which the longest is expected next
_SAME_SETTINGS = ("draws", "seed", "start_token", "context")


class Log(Protocol):
    """What takes numbers by name, and the step that they are of: ``wandb.log`` and its like."""

    def __call__(self, numbers: dict[str, float], /, *, step: int) -> object: ...  # noqa: D102


def unfinished(owner: object, limit: str, instead: str) -> weakref.finalize[..., object]:
    """Warn when a monitor with a limit is gone, at the end of the process too, if not detached."""
    return weakref.finalize(
        owner,
        _log.warning,
        "%s was given, and finish was never called: the end of the training was not measured; "
        "call finish behind the last step, or %s",
        *(limit, instead),
    )


class TimeShare:
    """Limits the monitor's time to a share of the training's; None for as long as it takes.

    Ten seconds in all are free: of a short training the share is too little for anything. The
    last step is measured in any case.

    The training's time is what passes between two blocks of `own`; before the first, and after
    `pause`, time is nobody's. A measurement that takes longer than the last three goes beyond
    the share, and none is allowed until the training has made up for that.
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
        self.share, self.now = share, clock
        self.training_seconds = 0.0
        self.own_seconds = 0.0
        self._left: float | None = None
        self._costs: list[float] = []

    @contextmanager
    def own(self) -> Iterator[None]:
        """The time of the block is the monitor's, that since the last one the training's."""
        begin = self.now()
        if self._left is not None:
            self.training_seconds += begin - self._left
        try:
            yield
        finally:
            self._left = self.now()
            self.own_seconds += self._left - begin

    @contextmanager
    def measurement(self) -> Iterator[None]:
        """Within a block of `own`: what is done here will take as long the next time."""
        begin = self.now()
        yield
        self._costs = [*self._costs, self.now() - begin][-_REMEMBERED:]

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

    def say(self, asked: int) -> None:
        """Log what this number of measurements takes, and which the share allows besides the last.

        A warning if what is sure to be measured takes more than a minute.
        """
        if not self._costs or asked < 1:
            return
        cost, total = self._costs[-1], asked * self._costs[-1]
        more = plural(asked, "more is", "more are")
        told = f"a measurement takes about {duration(cost)}, and {more} asked for, which take "
        told += f"{duration(total)} in all"
        if self.share is not None:
            told += f"; the last step is always measured{self._of_the_others(asked - 1, cost)}"
        elif total > _LONG:
            told += "; share=0.05 limits that to 5 % of the training's time"
        sure = total if self.share is None else cost
        _log.log(logging.WARNING if sure > _LONG else logging.INFO, "canary: %s", told)

    def _of_the_others(self, asked: int, cost: float) -> str:
        """When the share allows the measurements before the last one; empty if always."""
        share, spare = self.share or 1.0, _FREE - self.own_seconds
        if asked < 1 or asked * cost <= spare:
            return ""
        told = f", and share={share:g} limits the others: "
        free = max(int(spare / cost), 0) if cost else 0
        first = (self.own_seconds + (free + 1) * cost) / share
        told += f"{count(free)} at any time, then " if free else ""
        told += f"one after {duration(first)} of training"
        if asked > free + 1:
            told += f" and one in every {duration(cost / share)} from then on"
        return f"{told}; share=None measures at every step that is asked for"

    @property
    def allows(self) -> bool:
        """Whether one more measurement stays within the share; asked in a block of `own`."""
        spent = self.own_seconds + (self.cost or 0.0)
        return self.share is None or spent <= max(self.share * self.training_seconds, _FREE)

    def why_not(self, step: int) -> str:
        """Why a measurement at a step was left out, and how to have all of them."""
        share = self.share or 0.0
        return (
            f"no measurement at step {step}: it takes about {self.cost or 0.0:.2g} s, and "
            f"share={share:g} allows {max(share * self.training_seconds, _FREE):.2g} s in all so "
            f"far, of which {self.own_seconds:.2g} s are spent; share=None measures at every step "
            "that is asked for"
        )


class Schedule:
    """Counts steps and epochs, and says at which a measurement is asked for."""

    def __init__(self, every: int | Literal["epoch"], steps: Collection[int]) -> None:
        if not isinstance(every, str) or every != "epoch":
            cure = "give a number of steps, or 'epoch'"
            every = whole_number(every, "every", at_least=1, cure=cure)
        self.every, self.steps = every, steps_of(steps, "steps")
        self.step, self.epoch = 0, 0.0

    def due(self, step: int | None, epoch: float | None) -> bool:
        """Count a step, the next one unless given; whether a measurement is asked for at it."""
        if step is not None:
            step = whole_number(step, "step", at_least=0, cure="give the steps done, or leave out")
        if epoch is not None:
            epoch = real_number(epoch, "epoch", cure="give the epochs done, or leave it out")
        elif self.every == "epoch":
            raise InputError(
                "every epoch was asked for, and the epoch is not known",
                cure="give it with each step (epoch=), or ask for a number of steps",
            )
        self.step = self.step + 1 if step is None else step
        if self.every != "epoch":
            return self.step in self.steps or self.step % self.every == 0
        before, self.epoch = math.floor(self.epoch + 1e-6), epoch or 0.0
        return self.step in self.steps or math.floor(self.epoch + 1e-6) > before


def steps_of(given: Collection[int], name: str) -> list[int]:
    """Numbers of steps, ascending."""
    steps = some(given, name, cure="give a list of steps, such as [100, 200]")
    return sorted(whole_number(step, f"each of {name}", at_least=0) for step in steps)


def number_of(loss: object) -> float:
    """A loss as a float, NaN where the training diverged; a tensor of one number is welcome."""
    if isinstance(loss, SupportsFloat) and not isinstance(loss, bool):
        with suppress(TypeError, ValueError, RuntimeError, OverflowError):
            return float(loss)
    raise InputError(
        f"loss must be a number, got {brief(loss)}",
        cure="give the loss of this step, or leave it out",
    )


@dataclass(frozen=True)
class StopRule:
    """Stops where, in a group, the median of the lower ends of exposures is above `bits`.

    `groups` are the places of the injected canaries by number of copies.
    """

    bits: float
    groups: Mapping[int, tuple[int, ...]]

    @classmethod
    def of(cls, bits: float | None, history: History, control: int = 0) -> StopRule | None:
        """The rule, if the draws of a history can show that it is broken; None without a limit."""
        if bits is None:
            return None
        bits = real_number(bits, "stop_above_bits", cure="give bits, or leave it out")
        groups = {n: places for n, places in history.places().items() if n not in (0, control)}
        if not groups:
            raise InputError(
                "stop_above_bits was given, and the set has no injected canary, so nothing could "
                "ever stop the training",
                cure="give the set that was injected into the training data",
            )
        # No draw is as likely: the largest exposure that draws can show.
        certain = [
            exposure_by_draws([0.0], np.ones(f.draws), space_size=f.space_size)[0].lower_bits
            for f in history.formats
        ]
        most = max(
            statistics.median(certain[history.canaries[place].format] for place in places)
            for places in groups.values()
        )
        if not 0.0 <= bits < most:
            cure = f"give a limit from 0 to below {most:.1f}"
            smallest = min(f.space_size for f in history.formats)
            if most <= bits < 50.0:  # n draws and no hit show -log2(1 - 0.025 ** (1 / n))
                needed = math.floor(math.log(0.025) / math.log1p(-(2.0**-bits))) + 1
                cure += f", or draws={needed} or more" if needed < smallest else ""
            problem = f"stop_above_bits={bits:g}, and the draws can show {most:.1f} bits at most"
            raise InputError(problem, cure=cure)
        return cls(bits, groups)

    def broken(self, exposures: Sequence[Exposure]) -> str | None:
        """Which group is above the limit, in words; None if none is."""
        median, copies = max(
            (statistics.median(exposures[i].lower_bits for i in places), copies)
            for copies, places in self.groups.items()
        )
        if median <= self.bits:
            return None
        return (
            f"canaries with {plural(copies, 'copy', 'copies')} have a median exposure of at "
            f"least {median:.1f} bits, above the limit of {self.bits:g}"
        )


def unmeasured(canaries: CanarySet, draws: int) -> History:
    """The history of a training that has not begun."""
    draws = whole_number(draws, "draws", at_least=1)
    watched = tuple(WatchedCanary(c.id, c.format, c.repetitions) for c in canaries)
    formats = tuple(
        WatchedFormat(format.text, format.masked, format.size, min(draws, format.size))
        for format in canaries.formats
    )
    settings = {"draws": draws, CANARY_SET: canaries.fingerprint}
    return History(watched, formats, (), (), {}, settings, 0.0, 0.0, 0)


class TrainingLog:
    """A history that grows by moments and losses, the file it is kept in, and what was said."""

    def __init__(
        self, history: History, time: TimeShare, rule: StopRule | None, path: Path | None
    ) -> None:
        self._history, self._path = history, path
        self.time, self.rule = time, rule
        self._said: set[str] = set()
        self._earlier: Mapping[str, Any] = {}  # batches before a checkpoint
        self._asked_at: int | None = None
        self.losses: list[float] = []  # since the last asked step

    @property
    def history(self) -> History:
        """What was measured so far."""
        return replace(
            self._history,
            training_seconds=self._history.training_seconds + self.time.training_seconds,
            own_seconds=self._history.own_seconds + self.time.own_seconds,
        )

    @property
    def seen_before(self) -> bool:
        """Whether canaries were seen in batches before a checkpoint."""
        return bool(self._earlier.get("canaries"))

    def change(self, **changes: Any) -> None:
        """Replace fields of the history."""
        self._history = replace(self._history, **changes)

    def ask(self, step: int) -> None:
        """A measurement is asked for: the mean of the losses so far is that of this step."""
        if self.losses:
            self.add_loss(statistics.fmean(self.losses), step=step)
            self.losses = []
        if step != self._asked_at:
            self.change(asked=self._history.asked + 1)
        self._asked_at = step

    def add_loss(self, loss: float, *, step: int) -> None:
        """Keep a loss, if it is finite."""
        if math.isfinite(loss):
            earlier = [kept for kept in self._history.losses if kept.step < step]
            self.change(losses=(*earlier, Loss(step, float(loss))))

    def keep(self, moment: Moment, batches: Mapping[str, Any]) -> None:
        """Keep a moment, in place of what was measured at its step or later."""
        earlier = (kept for kept in self._history.moments if kept.step < moment.step)
        self.change(moments=(*earlier, moment))
        _log.info("canary: %s", self._history.line(moment))
        self.see(batches)

    def see(self, batches: Mapping[str, Any]) -> None:
        """Keep what was seen of batches; of those before a checkpoint, if no canary was since."""
        seen = {n: self._earlier[n] for n in ("canaries", "after") if n in self._earlier}
        self.change(batches={**batches, **{n: was for n, was in seen.items() if not batches[n]}})

    def save(self) -> None:
        """Write the file, if there is one."""
        if self._path is not None:
            self.history.save(self._path)

    def stop(self, step: int, above: str | None, *, ended: bool) -> None:
        """The limit was exceeded at a step; `above` is known in the first process only."""
        reason, said = above, f"the training is stopped at step {step}: {above}"
        if ended and above is not None:
            reason = said = (
                f"the limit was exceeded {AT_THE_END}, at step {step}: nothing was stopped; {above}"
            )
        self.change(stopped_at=step, stop_reason=reason)
        if above is not None:
            _log.warning("canary: %s", said)
            with suppress(OutputError):  # told by who saved it before, or by finish
                self.save()

    def say(self, findings: Mapping[str, str]) -> None:
        """Warn of what was not said yet."""
        for kind, sentence in findings.items():
            if kind not in self._said:
                self._said.add(kind)
                _log.warning("canary: %s", sentence)

    def say_what_is_missing(self) -> None:
        """Warn of measurements that were asked for and not made by the end."""
        history, watch = self.history, self.time
        made, tried = len(history.measured), len(history.moments)
        asked, cost = plural(history.asked, "measurement"), f"about {watch.cost or 0.0:.2g} s"
        if not made:
            none = (
                f"of {asked} that were asked for none was made; finish measures the last step "
                "if step(model) was called since the start, or since the last pause"
            )
            why = history.moments[-1].reason if tried else none
            _log.warning("exposure was never measured: %s", why)
        elif made < history.asked:
            reasons = []
            if history.asked > tried and watch.share is None:
                reasons.append("the others were of steps that had been measured before")
            elif history.asked > tried:
                reasons.append(
                    f"share={watch.share:g} of the training's time allowed no more (one takes "
                    f"{cost}); give a larger share, None for as long as it takes, or a larger every"
                )
            failed = [moment for moment in history.moments if moment.reason is not None]
            if failed:
                last = failed[-1]
                reasons.append(f"{len(failed)} failed, the last at step {last.step}: {last.reason}")
            _log.warning("canary: asked for %s, made %d: %s", asked, made, "; ".join(reasons))

    def resume(self, history: History, *, step: int, file: Path | None = None) -> None:
        """Go on from a history at a step; a `RecordError` if it is of another training."""
        mine = self._history
        settings = [n for n in _SAME_SETTINGS if history.settings.get(n) != mine.settings[n]]
        parts = [n for n in ("canaries", "formats") if getattr(history, n) != getattr(mine, n)]
        for name in settings + parts:
            then, now = (one.settings.get(name) for one in (history, mine))
            values = f" ({brief(then)} then, {brief(now)} now)" if name in settings else ""
            problem = f"the history is one of other {name.replace('_', ' ')} than this training's"
            anew = "remove its files" if file is None else f"--force, or remove {file}"
            raise RecordError(
                f"{problem}{values}",
                cure="go on with the canaries and settings it was begun with; or begin a new "
                f"history: {anew}",
                where=str(file or ""),
            )
        self._earlier = dict(history.batches)
        self._history = replace(history.until(step), settings=mine.settings)
