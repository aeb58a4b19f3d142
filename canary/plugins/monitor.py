"""Exposure of canaries while a model is trained, for any training loop."""

from __future__ import annotations

import logging
import os
import time
import warnings
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Unpack

from canary.audits.audit_setup import CONTROL_COPIES, control_in, tokenizer_of
from canary.audits.history import History, Moment
from canary.corpus.canaries import CanarySet, canary_set
from canary.errors import (
    CanaryError,
    ModelError,
    NotFiniteError,
    OutputError,
    RecordError,
)
from canary.plugins.live import any_process, finish_queued, first_process, undisturbed, unwrapped
from canary.plugins.moment_taker import MomentTaker
from canary.plugins.training_batches import TrainingBatches
from canary.plugins.training_log import (
    Log,
    Schedule,
    StopRule,
    TimeShare,
    TrainingLog,
    number_of,
    steps_of,
    unfinished,
    unmeasured,
)
from canary.records.sealing import sealed
from canary.records.validation import AUTO, built, file_path, flag, function, versions
from canary.scoring.run_options import Running, RunOptions
from canary.tokens.candidates import CandidateEncoder, misread
from canary.tokens.fast import as_tokenizer

_log = logging.getLogger(__name__)


class ExposureMonitor:
    """Measures the exposure of every canary at chosen steps of a training.

    Call `step` behind every step of the optimizer, and `finish` when they are done. The
    training goes on as it would have without: modes of modules, their buffers and all random
    states are restored, to the last bit, also where an error ends a measurement.

    Parameters
    ----------
    canaries : CanarySet
    tokenizer : tokenizer or path
        That of the training.
    every : int or "epoch"
        Steps between two measurements, or the end of each epoch.
    steps : collection of int
        More steps to measure at.
    draws : int
        Candidates drawn from each format, once, so that curves compare. 1,000 of them can show
        8 bits for certain.
    share : float or None
        What measuring may take of the training's time, if that is more than ten seconds; steps
        are left out to stay below, but never the last one. None measures at every step that is
        asked for.
    stop_above_bits : float, optional
        Set `exceeded` when canaries with some number of copies are exposed more than this:
        when the median of the lower ends of their intervals is above it. `finish` then
        raises an error if it cannot measure the last step.
    require_learned : int, optional
        Copies of the positive control, as in `canary.check`: it never sets `exceeded`.
    marks : collection of int
        Steps to be marked in figures, such as those whose batch held a canary.
    path : path-like, optional
        Where the history is saved after every measurement, and by `finish`.
    log : callable, optional
        Called as ``log(history.main_metrics(), step=step)`` after every measurement, in the first
        process: ``wandb.log``, ``mlflow.log_metrics``, ``accelerator.log``. What it raises is
        raised.
    log_all : bool
        Log all of ``history.metrics()``: ends of intervals, curves and seconds as well.
    strict : bool
        Raise an error where the model's numbers are not finite, memory runs out or the history
        cannot be saved. Else the reason is recorded or warned of, and the training goes on.
    clock : callable
        Seconds, for tests.
    **run
        `seed`, `start_token`, `context`, `chat_template` and `batch_size`, as in
        `canary.scoring.run_options.RunOptions`. ``"auto"`` reads the start token off the
        batches; where no canary was seen in them, it is chosen as in `canary.audit`.

    Raises
    ------
    InputError
        If an option does not serve, the draws cannot show `stop_above_bits`, or no canary of
        the set was injected and it was given.
    FormatError, ModelError
        If a format cannot be ranked under this tokenizer.

    Notes
    -----
    Of several processes that train in parallel only the first measures. With `stop_above_bits`
    all must call `step` at the same steps, and `finish`.
    """

    @sealed
    def __init__(
        self,
        canaries: CanarySet,
        *,
        tokenizer: Any,
        every: int | Literal["epoch"] = 10,
        steps: Collection[int] = (),
        draws: int = 1_000,
        share: float | None = 0.05,
        stop_above_bits: float | None = None,
        require_learned: int | None = None,
        marks: Collection[int] = (),
        path: str | os.PathLike[str] | None = None,
        log: Log | None = None,
        log_all: bool = False,
        strict: bool = False,
        clock: Callable[[], float] = time.perf_counter,
        **run: Unpack[Running],
    ) -> None:
        control_in(canary_set(canaries), require_learned)
        function(log, "log")
        self._log, self._logged, self._log_all = log, -1, flag(log_all, "log_all")
        self._schedule = Schedule(every, steps)
        options = built(RunOptions, run, "ExposureMonitor")
        begun = unmeasured(canaries, draws)
        rule = StopRule.of(stop_above_bits, begun, require_learned or 0)
        self._time = TimeShare(share, clock)
        tokenizer = as_tokenizer(tokenizer)
        options = options.in_chat(tokenizer, canaries.formats, canaries.role)
        named = None if options.start_token == AUTO else options.start_token
        encoder = CandidateEncoder(tokenizer, named, options.context)
        for note in dict.fromkeys(n for f in canaries.formats for n in misread(encoder, f)):
            _log.warning("%s", note)
        settings = {
            **begun.settings,
            **tokenizer_of(tokenizer),
            "seed": options.seed,
            "start_token": options.start_token,
            "context": options.context,
            "every": self._schedule.every,
            "steps": self._schedule.steps,
            "share": share,
            "stop_above_bits": rule and rule.bits,
            **({CONTROL_COPIES: require_learned} if require_learned else {}),
            "marks": steps_of(marks, "marks"),
            "versions": versions(),
        }
        cure = "give the file that the history is to be in, or leave it out"
        place = None if path is None else Path(file_path(path, "path", cure=cure))
        self._kept = TrainingLog(replace(begun, settings=settings), self._time, rule, place)
        self._batches = TrainingBatches(canaries, tokenizer, options, self._kept.say)
        self._taker = MomentTaker(
            canaries, tokenizer, options, self._batches, self._kept, strict=strict
        )
        self._stops, self._strict = rule is not None, strict
        self._latest: Any = None
        self._epoch: float | None = None
        self._unfinished = unfinished(self, "stop_above_bits", "audit the model (canary audit)")
        if rule is None:
            self._unfinished.detach()

    @property
    def history(self) -> History:
        """What was measured so far; of several processes, in the first."""
        return self._kept.history

    @property
    def exceeded(self) -> bool:
        """Whether `stop_above_bits` was exceeded; the same in all processes."""
        return self.history.stopped_at is not None

    @sealed
    def start(self, model: Any) -> None:
        """Begin to count the training's time, and find out whether the model can be measured.

        Optional: `step` does so at its first call, and the step before it is not timed.

        Raises
        ------
        ModelError
            If a canary is longer than the model takes, or the tokenizer has more tokens than
            the model.
        UnsupportedError
            If the parameters are parted over several processes, or are on several devices
            and nothing moves what goes through them.
        """
        module = unwrapped(model)
        if first_process():
            self._latest = model
            # What is not finite is told at each moment.
            with self._time.own(), undisturbed(module), suppress(NotFiniteError):
                self._taker.prepare(module)
        self._listen(model)

    def say_time(self, asked: int) -> None:
        """Log what this number of measurements will take; a warning if more than a minute."""
        if first_process():
            self._time.say(asked)

    def see(self, batch: Any, *, training: bool = True) -> None:
        """Read a batch, and no forwards any more: those of a compiled model are not heard.

        `batch` is an array or tensor of int of shape (rows, tokens), or a mapping of such with
        ``input_ids``; `training` says whether it is trained on.
        """
        self._batches.listener.stop()
        if first_process() or self._stops:
            self._batches.see(batch, training=training)

    @sealed
    def step(
        self,
        model: Any,
        *,
        step: int | None = None,
        epoch: float | None = None,
        loss: float | None = None,
        last: bool = False,
    ) -> Moment | None:
        """Measure, if this step is one of those asked for and the share of time allows it.

        Parameters
        ----------
        model : torch module, or what `canary.load` takes
            As it is now; wrapped for data parallelism or compiled as it may be.
        step, epoch : int and float, optional
            Steps done, counted by calls unless given; and epochs, needed where every epoch was
            asked for.
        loss : float, optional
            Of this step; the mean since the last asked step is kept.
        last : bool
            Measure whatever step it is, and whatever the share of time allows.

        Returns
        -------
        Moment or None
            None where nothing was measured.

        Raises
        ------
        InputError
            If every epoch was asked for and the epoch is not given, or the step, the epoch or
            the loss is no number. Nothing is kept of a call that is refused so.
        ModelError, UnsupportedError
            As `start`; for numbers that are not finite only where `strict`.
        """
        losses = [] if loss is None else [number_of(loss)]
        due = self._schedule.due(step, epoch) or last
        self._batches.at_epoch(epoch)
        self._kept.losses += losses
        moment, above, failure = None, None, None
        if first_process():
            self._latest, self._epoch = model, epoch
            if due:
                finish_queued()
            with self._time.own():
                if due:
                    try:  # an error is raised when the other processes no longer wait
                        done, module = self._schedule.step, unwrapped(model)
                        moment, above = self._taker.take(module, done, epoch, whatever=last)
                        if moment is not None:
                            self._kept.save()
                    except CanaryError as error:
                        failure = error
        self._listen(model)
        if due:
            self._agree(above, ended=last)
        if failure is not None:
            if self._strict or not isinstance(failure, OutputError):
                raise failure
            warnings.warn(f"the history was not saved: {failure}", stacklevel=2)
        self._send()
        return moment

    def _send(self) -> None:
        """Log the last measurement, if it was not; when no other process waits for this one."""
        measured = self.history.measured
        if self._log is None or not measured or measured[-1].step <= self._logged:
            return
        self._logged = measured[-1].step
        numbers = self.history.metrics() if self._log_all else self.history.main_metrics()
        self._log(numbers, step=self._logged)

    def _listen(self, model: Any) -> None:
        if first_process() or self._stops:
            self._batches.listener.listen(model)

    def add_loss(self, loss: float, *, step: int) -> None:
        """Keep a loss that was logged at a step."""
        self._kept.add_loss(loss, step=step)

    def pause(self) -> None:
        """The time until the next call is not the training's; the model is let go."""
        self._time.pause()
        self._latest = None
        self._taker.release()
        self._batches.listener.stop(let_go=True)

    @sealed
    def finish(self) -> History:
        """Measure the last step if it was not, let the model go and save the history.

        The `share` does not limit that measurement. What was not measured is warned of. Of several
        processes only the first saves and warns. A training that goes on may be measured further.

        Raises
        ------
        OutputError
            If the history cannot be saved.
        CanaryError
            With `strict`, if the last step could not be measured. With `stop_above_bits`, in all
            processes: also if `step` was never called, the model never changed, or batches were
            seen and no injected canary in any of them.
        """
        self._unfinished.detach()
        above, failure = None, None
        if first_process():
            done = self._schedule.step
            try:
                above = self._taker.take_last(self._latest, done, self._epoch)
            except CanaryError as error:
                if self._stops or self._strict:
                    failure = error
                else:
                    _log.warning("exposure was not measured at step %d: %s", done, error)
        self._agree(above, ended=True)
        if self._stops:
            unseen = self._taker.unseen()  # asked in all processes, whatever failed in one
            failure = failure or unseen
        self.pause()
        self._kept.see(self._batches.to_dict())
        if first_process():
            try:
                self._kept.save()
            except OutputError as error:
                failure = failure or error
            self._kept.say_what_is_missing()
            self._kept.say(self._batches.findings)
        if self._stops and any_process(failure is not None) and failure is None:
            failure = ModelError(
                "the first process could not measure the end of the training",
                cure="see its error",
            )
        if failure is not None:
            raise failure
        self._send()
        return self.history

    def _agree(self, above: str | None, *, ended: bool) -> None:
        """Stop in all processes if the limit was exceeded in the first."""
        if not self._stops or not any_process(above is not None) or self.exceeded:
            return
        self._unfinished.detach()
        self._kept.stop(self._schedule.step, above, ended=ended)

    def state_dict(self) -> dict[str, Any]:
        """Plain data for a checkpoint, with which a later training goes on."""
        self._kept.see(self._batches.to_dict())
        return {
            "step": self._schedule.step,
            "epoch": self._schedule.epoch,
            "losses": list(self._kept.losses),
            "history": self.history.to_dict(),
        }

    @sealed
    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a checkpoint; what was measured behind its step is dropped.

        A `RecordError` if the state is damaged, or of other canaries, draws or start tokens.
        """
        try:
            step, epoch, history = int(state["step"]), float(state["epoch"]), state["history"]
            losses = [float(loss) for loss in state["losses"]]
        except (KeyError, TypeError, ValueError) as error:
            raise RecordError(
                f"is no state of a monitor ({type(error).__name__}: {error})",
                cure="give what state_dict returned",
            ) from error
        self.resume(History.from_dict(history), step=step, epoch=epoch)
        self._kept.losses = losses

    @sealed
    def resume(self, history: History, *, step: int, epoch: float | None = None) -> None:
        """Go on from a history at a step; as `load_state_dict`."""
        self._kept.resume(history, step=step)
        self._batches.resume(history.batches)
        self._schedule.step, self._schedule.epoch = step, epoch or 0.0
        self._logged = step
