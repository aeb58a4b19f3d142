"""Which passages of its training text a model repeats while it is trained, for any loop."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Any, Literal, NamedTuple

from canary.errors import CanaryError, InputError, ModelError, NotFiniteError, OutOfMemory
from canary.gate.check_audit import check
from canary.models.loading import load
from canary.passages.extractable import Extractable
from canary.passages.result import Verbatim
from canary.passages.verbatim import verbatim
from canary.plugins.live import any_process, finish_queued, first_process, undisturbed, unwrapped
from canary.plugins.training_log import Log, Schedule, TimeShare, unfinished
from canary.records.sealing import sealed
from canary.records.validation import file_path, function, some
from canary.tokens.fast import as_tokenizer

_log = logging.getLogger(__name__)


class Reading(NamedTuple):
    """What came out at one step by greedy decoding, and the seconds that it took to measure."""

    step: int
    epoch: float | None
    seconds: float
    greedy: Extractable


class VerbatimMonitor:
    """Measures which passages a model repeats, before a training and at chosen steps of it.

    Call `start` before the first step, `step` behind every step of the optimizer, and `finish`
    when they are done. The training goes on as it would have without, as with
    `canary.plugins.monitor.ExposureMonitor`.

    Parameters
    ----------
    texts, controls : iterable of str
        As in `canary.verbatim`; some hundred texts of the training data are enough.
    tokenizer, every, steps, share, log, clock
        As in `ExposureMonitor`; the measurement of `start` is not counted in the share.
    max_extractable : float, optional
        Set `exceeded` when `canary.check` finds that more than this share is memorized, which
        takes `controls`. `finish` then raises an error if it cannot measure the last step.
    tries, chance
        Of the limit, as in `canary.check`.
    path : path-like, optional
        Where the last result is saved, as `Verbatim.save` does it.
    **options
        As in `canary.verbatim`: `schemes`, `prefix`, `suffix`, `stride`, `copies`, `weights`,
        `near`, `near_width`, `confidence`, `start_token`, `context` and `batch_size`.

    Raises
    ------
    InputError
        If an option does not serve, or `max_extractable` is given without controls.

    Notes
    -----
    Of several processes that train in parallel only the first measures. With `max_extractable`
    all must call `step` at the same steps, and `finish`.
    """

    @sealed
    def __init__(
        self,
        texts: Iterable[str],
        controls: Iterable[str] | None = None,
        *,
        tokenizer: Any,
        every: int | Literal["epoch"] = "epoch",
        steps: Collection[int] = (),
        share: float | None = 0.05,
        max_extractable: float | None = None,
        tries: int = 1,
        chance: float = 0.5,
        path: str | os.PathLike[str] | None = None,
        log: Log | None = None,
        clock: Callable[[], float] = time.perf_counter,
        **options: Any,
    ) -> None:
        cure = "give a list of texts, such as [text] for one"
        self._texts = some(texts, "texts", cure=cure)
        self._controls = None if controls is None else some(controls, "controls", cure=cure)
        if max_extractable is not None and controls is None:
            raise InputError(
                "a limit was given without controls, so nothing could ever exceed it",
                cure="give texts from the same source that the model never sees",
                where="controls",
            )
        function(log, "log")
        self._tokenizer, self._options, self._log = as_tokenizer(tokenizer), options, log
        self._schedule, self._time = Schedule(every, steps), TimeShare(share, clock)
        self._limit, self._tries, self._chance = max_extractable, tries, chance
        cure = "give the file that the result is to be in, or leave it out"
        self._path = None if path is None else Path(file_path(path, "path", cure=cure))
        self.readings: list[Reading] = []
        self._numbers: set[int] = set()  # one for each model that was seen
        self.result: Verbatim | None = None
        self.exceeded = self._left_out = False
        self._unfinished = unfinished(self, "max_extractable", "test the model (canary verbatim)")
        if max_extractable is None:
            self._unfinished.detach()

    @sealed
    def start(self, model: Any, *, step: int = 0, epoch: float | None = None) -> Verbatim | None:
        """Measure the model before it is trained further, at a `step` and `epoch` of its training.

        That finds whatever `canary.verbatim` refuses, shows what the model repeats already, and
        says what a measurement will take. None in all processes but the first.
        """
        self._schedule.step, self._schedule.epoch = step, epoch or 0.0
        found = self._measure(model, epoch) if first_process() else None
        with self._time.own():
            self._log_last(found)
        self._time.own_seconds = 0.0
        return found

    def say_time(self, asked: int) -> None:
        """Log what this number of measurements will take; a warning if more than a minute."""
        if first_process():
            self._time.say(asked)

    @sealed
    def step(
        self,
        model: Any,
        *,
        step: int | None = None,
        epoch: float | None = None,
        last: bool = False,
    ) -> Verbatim | None:
        """Measure, if this step is one of those asked for and the share of time allows it.

        The arguments are those of `ExposureMonitor.step`. None where nothing was measured: the
        share is spent, the model's numbers are not finite, or memory ran out. A warning says so,
        of the share the first time.
        """
        due, found = self._schedule.due(step, epoch) or last, None
        if first_process():
            if due:
                finish_queued()
            with self._time.own():
                if due and (last or self._time.allows):
                    found = self._tried(model, epoch)
                elif due and not self._left_out:
                    self._left_out = True
                    why = self._time.why_not(self._schedule.step)
                    _log.warning("canary: passages, %s", why)
        if due:
            self._agree()
        self._log_last(found)
        return found

    @sealed
    def finish(self, model: Any, *, epoch: float | None = None) -> Verbatim | None:
        """The result of the last step, measured now if it was not, whatever `share` says.

        Raises
        ------
        ModelError, OutOfMemory
            If there is a limit, and the last step cannot be measured or the model never changed.
        """
        self._unfinished.detach()
        limited = self._limit is not None
        measured = self.readings and self.readings[-1].step == self._schedule.step
        failure: CanaryError | None = None
        found = None
        if first_process() and not measured and (limited or self._schedule.step):
            try:
                found = self._measure(model, epoch)
            except CanaryError as error:
                if limited:
                    failure = error  # raised when the other processes no longer wait
                else:
                    self._warn(error)
        failure = failure or self._unchanged()
        self._agree()
        if failure is not None:
            raise failure
        self._log_last(found)
        return self.result

    def _unchanged(self) -> ModelError | None:
        """The error of a training with a limit of which all measurements were of one model."""
        steps = {one.step for one in self.readings}
        if self._limit is None or self.exceeded or len(steps) < 2 or len(self._numbers) > 1:
            return None
        return ModelError(
            f"max_extractable={self._limit:g} was given, and the model gave the same numbers at "
            f"all {len(self.readings)} measurements, as a copy of the trained model would",
            cure="give step the model that is trained, not a copy of it",
        )

    def _tried(self, model: Any, epoch: float | None) -> Verbatim | None:
        try:
            return self._measure(model, epoch)
        except (NotFiniteError, OutOfMemory) as error:
            self._warn(error)
            return None

    def _warn(self, error: CanaryError) -> None:
        step = self._schedule.step
        _log.warning("passages were not measured at step %d: %s", step, error.problem)

    def _measure(self, model: Any, epoch: float | None) -> Verbatim:
        """The result for the model as it is now, which is kept, and compared with the limit."""
        module, began = unwrapped(model), self._time.now()
        with undisturbed(module), self._time.measurement():
            seam = load(module, tokenizer=self._tokenizer)
            found = verbatim(seam, self._texts, self._controls, **self._options)
            reading = found.greedy_rate()
            if self._limit is not None:
                verdict = check(
                    found, max_extractable=self._limit, tries=self._tries, chance=self._chance
                )
                self.exceeded |= verdict.outcome == "failed"
        seconds = self._time.now() - began
        self.readings.append(Reading(self._schedule.step, epoch, seconds, reading))
        self._numbers.add(hash(found.texts.log_probs))
        self.result = found
        if self._path is not None:
            found.save(self._path)
        return found

    def _agree(self) -> None:
        if self._limit is not None:
            self.exceeded = any_process(self.exceeded)
            if self.exceeded:  # whatever comes after is no longer measured against the limit
                self._unfinished.detach()

    def _log_last(self, found: Verbatim | None) -> None:
        if self._log is not None and found is not None:
            self._log(found.metrics(), step=self.readings[-1].step)
