"""Exposure of canaries while a model is trained, for any training loop."""

from __future__ import annotations

import logging
import math
import os
import statistics
import time
import warnings
import weakref
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, Literal, SupportsFloat

from canary.audits.history import PASSED_AT_THE_END, History, Loss, Moment
from canary.corpus.canaries import CanarySet, canary_set
from canary.errors import (
    CanaryError,
    InputError,
    ModelError,
    NotFiniteError,
    OutOfMemory,
    OutputError,
    RecordError,
)
from canary.plugins.coverage_notes import why_fewer, why_never
from canary.plugins.live import (
    Listener,
    any_process,
    finish_queued,
    first_process,
    undisturbed,
    unwrapped,
)
from canary.plugins.live_pricing import LivePricer
from canary.plugins.share import TimeShare
from canary.plugins.shared_draws import Measured
from canary.plugins.starting import MomentStart, WatchedStart
from canary.plugins.stopping import StopRule
from canary.records.fields import brief
from canary.records.sealing import sealed
from canary.records.validation import (
    AUTO,
    check_running,
    file_path,
    named_start,
    real_number,
    some,
    whole_number,
)
from canary.records.versions import versions
from canary.tokens.candidates import CandidateEncoder
from canary.tokens.fast import as_tokenizer
from canary.tokens.misread import misread
from canary.tokens.starts import shown_start

__all__ = ["Every", "ExposureMonitor"]

Every = int | Literal["epoch"]
"""Steps between two measurements, or the end of each epoch."""

_log = logging.getLogger(__name__)

_UNFINISHED = (
    "stop_above_bits was given, and finish was never called: what the training came to at its "
    "end was not measured; call finish behind the last step, or audit the model (canary audit)"
)


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
        Candidates drawn from each format, once; they are priced at every moment, so that
        curves compare. 1,000 of them can show 8 bits for certain.
    share : float or None
        What measuring may take of the training's time. Steps are left out to stay below;
        `History.share` says what it was. None measures at every step that is asked for.
    seed : int
        Of the draws.
    start_token : str, optional
        What stood before each text in training: the name of a token, or None (or ``"none"``)
        for nothing. ``"auto"`` reads it off the batches; where no canary was seen in them, it
        is chosen as in `canary.audit`.
    context : str
        As in `canary.audit`.
    batch_size : int, optional
        Rows at once; found by trial unless given.
    stop_above_bits : float, optional
        Set `passed` when canaries with some number of copies are exposed more than this:
        when the median of the lower ends of their intervals is above it. `finish` then
        measures the last step whatever `share` says, and raises an error if it cannot.
    marks : collection of int
        Steps to be marked in figures, such as those whose batch held a canary.
    path : path-like, optional
        Where the history is saved after every measurement, and by `finish`.
    strict : bool
        Raise an error where the model's numbers are not finite, memory runs out or the history
        cannot be saved. Else the moment records the reason, or a warning tells it, and the
        training goes on.
    clock : callable
        Seconds, for tests.

    Raises
    ------
    InputError
        If an option does not serve, the draws cannot show `stop_above_bits`, or no canary of
        the set was injected and it was given.
    FormatError, ModelError
        If a format cannot be ranked under this tokenizer.

    Notes
    -----
    Of several processes that train in parallel only the first measures, and reads batches.
    With `stop_above_bits` all read their batches, and all must call `step` at the same steps,
    and `finish`, since they must agree.

    From `start` on (or else the first `step`), the batches are read off the forwards of the
    model that compute gradients, until 512 canaries were seen. A model that is compiled in
    place, or called by another object, is not heard: show its batches with `see`.

    One measurement prices canaries and draws as whole rows, in the arithmetic of the
    training (autocast included), without gradients. In 16 bits it measures the noise of that
    arithmetic first, about 3,000 tokens more, since it moves with the weights. Nothing is
    kept on the device between two of them.
    """

    @sealed
    def __init__(
        self,
        canaries: CanarySet,
        *,
        tokenizer: Any,
        every: Every = 10,
        steps: Collection[int] = (),
        draws: int = 1_000,
        share: float | None = 0.05,
        seed: int = 0,
        start_token: str | None = AUTO,
        context: str = "",
        batch_size: int | None = None,
        stop_above_bits: float | None = None,
        marks: Collection[int] = (),
        path: str | os.PathLike[str] | None = None,
        strict: bool = False,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        canary_set(canaries)
        if not isinstance(every, str) or every != "epoch":
            cure = "give a number of steps, or 'epoch'"
            every = whole_number(every, "every", at_least=1, cure=cure)
        steps, marks = _steps(steps, "steps"), _steps(marks, "marks")
        draws = whole_number(draws, "draws", at_least=1)
        seed = whole_number(seed, "seed", at_least=0, below=None)
        batch_size = check_running(start_token=start_token, context=context, batch_size=batch_size)
        if stop_above_bits is not None:
            cure = "give bits, or leave it out"
            stop_above_bits = real_number(stop_above_bits, "stop_above_bits", cure=cure)
        self._time = TimeShare(share, clock)
        self._every, self._steps = every, frozenset(steps)
        self._strict = strict
        cure = "give the file that the history is to be in, or leave it out"
        self._path = None if path is None else file_path(path, "path", cure=cure)
        self._tokenizer = as_tokenizer(tokenizer)
        named = None if start_token == AUTO else named_start(start_token)
        encoder = CandidateEncoder(self._tokenizer, named, context)
        for note in dict.fromkeys(n for f in canaries.formats for n in misread(encoder, f)):
            _log.warning("%s", note)
        self._start = WatchedStart(start_token, context, canaries, self._tokenizer)
        self._pricer = LivePricer(
            canaries,
            self._tokenizer,
            start_token=start_token,
            context=context,
            draws=draws,
            seed=seed,
            batch_size=batch_size,
        )
        drawn = self._pricer.draws
        self._rule = None if stop_above_bits is None else StopRule.of(stop_above_bits, drawn)
        # Also at the end of the process.
        self._unfinished = weakref.finalize(self, _log.warning, _UNFINISHED)
        if self._rule is None:
            self._unfinished.detach()
        self._listener: Listener | None = None
        self._busy = False  # forwards are the monitor's own
        self._told: set[str] = set()
        self._earlier: dict[str, Any] = {}  # batches before a checkpoint
        self._latest: Any = None
        self._tried_at: int | None = None  # the last step that a measurement was asked for at
        self._step, self._epoch = 0, 0.0
        self._losses: list[float] = []
        self._history = History(
            canaries=drawn.canaries,
            formats=drawn.formats,
            moments=(),
            losses=(),
            model={},
            settings={
                "draws": draws,
                "seed": seed,
                "start_token": start_token,
                "context": context,
                "every": every,
                "steps": steps,
                "share": share,
                "stop_above_bits": stop_above_bits,
                "marks": marks,
                "versions": versions(),
            },
            training_seconds=0.0,
            own_seconds=0.0,
            asked=0,
        )

    @property
    def history(self) -> History:
        """What was measured so far; of several processes, in the first."""
        return replace(
            self._history,
            training_seconds=self._history.training_seconds + self._time.training_seconds,
            own_seconds=self._history.own_seconds + self._time.own_seconds,
        )

    @property
    def passed(self) -> bool:
        """Whether `stop_above_bits` was passed; the same in all processes."""
        return self._history.stopped_at is not None

    @property
    def expected_seconds(self) -> float | None:
        """What the next measurement is expected to take; None before the first was tried."""
        return self._time.cost

    @sealed
    def start(self, model: Any) -> None:
        """Begin to count the training's time, and find out whether the model can be measured.

        Optional: `step` does so at its first call, so that the time of the step before it
        is not counted.

        Raises
        ------
        ModelError
            If a canary is longer than the model takes, or the tokenizer has more tokens than
            the model.
        UnsupportedError
            If the parameters are parted over several processes, or lie on several devices
            and nothing moves what goes through them.
        """
        module = unwrapped(model)
        if not first_process():
            if self._rule is not None:
                self._listen(model)
            return
        self._latest = model
        with self._time.own(), undisturbed(module), suppress(NotFiniteError):  # told at each moment
            self._prepare(module)
        self._listen(model)

    def see(self, batch: Any, *, training: bool = True) -> None:
        """Read a batch of the training: what stands before the canaries, and what is wrong.

        Only needed where the forwards of the model are not heard (see the notes above). The
        forwards are not read any more after the first call.

        Parameters
        ----------
        batch : Mapping, or array or tensor of int of shape (rows, tokens)
            As `canary.plugins.batches.BatchReader.see`.
        training : bool
            Whether the batch is trained on.
        """
        if self._listener is not None:
            self._listener.remove()
        if first_process() or self._rule is not None:
            self._start.reader.see(batch, training=training)

    def _listen(self, model: Any) -> None:
        """Hear the batches of the model that is trained; of another one, where it changed."""
        if self._listener is None or not self._listener.hears(model):
            if self._listener is not None:
                self._listener.remove()
            self._listener = Listener(model, self._hear)

    def _hear(self, batch: dict[str, Any], training: bool) -> None:  # noqa: FBT001
        reader = self._start.reader
        if self._busy or reader.enough:
            return
        try:
            reader.see(batch, training=training)
        except Exception as error:
            self._tell({"unread": f"a batch could not be read ({type(error).__name__})"})

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
        step : int, optional
            Steps done; counted by calls unless given.
        epoch : float, optional
            Epochs done; needed where every epoch was asked for.
        loss : float, optional
            Of this step; the mean since the last asked step is kept.
        last : bool
            Measure whatever step it is, if the share of time allows it.

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
        if step is not None:
            step = whole_number(step, "step", at_least=0, cure="give the steps done, or leave out")
        if epoch is not None:
            epoch = real_number(epoch, "epoch", cure="give the epochs done, or leave it out")
        elif self._every == "epoch":
            raise InputError(
                "every epoch was asked for, and the epoch is not known",
                cure="give it with each step (epoch=), or ask for every so many steps",
            )
        if loss is not None:
            self._losses.append(_number(loss))
        self._step = self._step + 1 if step is None else step
        due = self._due(epoch) or last
        moment, failure, above = None, None, None
        if first_process():
            self._latest = model
            if due:
                finish_queued()
            with self._time.own():
                if due:
                    try:
                        whatever = last and self._rule is not None
                        moment, above = self._measure(unwrapped(model), epoch, whatever=whatever)
                        self._keep(moment)
                    except CanaryError as error:  # told when the others no longer wait
                        failure = error
        if first_process() or self._rule is not None:
            self._listen(model)
        if due:
            self._agree(above, ended=last)
        if failure is not None:
            if self._strict or not isinstance(failure, OutputError):
                raise failure
            warnings.warn(f"the history was not saved: {failure}", stacklevel=2)
        return moment

    def add_loss(self, loss: float, *, step: int) -> None:
        """Keep a loss that was logged at a step."""
        if math.isfinite(loss):
            losses = [*(kept for kept in self._history.losses if kept.step < step)]
            self._history = replace(self._history, losses=(*losses, Loss(step, float(loss))))

    def pause(self) -> None:
        """The time until the next call is not the training's; the model is let go."""
        self._time.pause()
        self._latest = None
        self._pricer.release()
        if self._listener is not None:
            self._listener.remove()
            self._listener = None

    @sealed
    def finish(self) -> History:
        """Let the model go and save the history; say what was not measured, and why.

        With `stop_above_bits` the last step is measured first, if it was not, whatever `share`
        says. Call it when the training is over. A training that goes on after all may be
        measured further.

        Returns
        -------
        History
            As the property; of several processes only the first saves and warns.

        Raises
        ------
        CanaryError
            Only with `stop_above_bits`: if the last step could not be measured, `step` was
            never called, the model never changed, batches were seen and no injected canary
            in any of them, or the history cannot be saved. All processes raise it.
        OutputError
            If the history cannot be saved.
        """
        self._unfinished.detach()
        failure: CanaryError | None = None
        above = None
        if first_process() and self._rule is not None:
            try:
                above = self._measure_the_end()
            except CanaryError as error:
                failure = error
        self._agree(above, ended=True)
        if self._rule is not None:
            unseen = self._unseen()  # asked in all processes, whatever failed in the first
            failure = failure or unseen
        self.pause()
        self._history = replace(self._history, batches=self._batches())
        history = self.history
        if first_process():
            try:
                if self._path is not None:
                    history.save(self._path)
            except OutputError as error:
                failure = failure or error
            if not history.measured:
                _log.warning(
                    "exposure was never measured: %s",
                    why_never(history, self._time, step=self._step),
                )
            elif len(history.measured) < history.asked:
                _log.warning("%s", why_fewer(history, self._time))
            self._tell(self._start.findings)
        if self._rule is not None and any_process(failure is not None) and failure is None:
            failure = ModelError(
                "the first process could not measure the end of the training",
                cure="see its error",
            )
        if failure is not None:
            raise failure
        return history

    def _measure_the_end(self) -> str | None:
        """Measure the last step, if it was not; which canaries are above the limit there.

        Raises
        ------
        CanaryError
            If that cannot be done, or says nothing of the model that was trained.
        """
        asked = f"stop_above_bits={self._history.settings['stop_above_bits']:g} was given, and"
        cure = "audit the model before it is used (canary audit)"
        above = None
        done = self._history.moments[-1:]
        if not (done and done[0].step == self._step and done[0].reason is None):
            if self._latest is None:
                raise InputError(
                    f"{asked} no step of the training was measured at its end: step was not "
                    "called since the start or the last pause",
                    cure="call step(model) behind every step of the optimizer, and then finish",
                )
            with self._time.own():
                moment, above = self._measure(unwrapped(self._latest), None, whatever=True)
                assert moment is not None
                self._keep(moment, save=False)
            if moment.reason is not None:
                raise ModelError(
                    f"{asked} exposure could not be measured at the last step ({self._step}): "
                    f"{moment.reason}",
                    cure=cure,
                )
        if len(moments := self._history.measured) > 1 and len({m.px_bits for m in moments}) == 1:
            raise ModelError(
                f"{asked} the model gave the same numbers at all {len(moments)} measurements, as "
                "a copy of the trained model would",
                cure="give step the model that is trained, not a copy of it",
            )
        return above

    def _unseen(self) -> CanaryError | None:
        """The error of a stop that watched a training without canaries, in all processes."""
        reader = self._start.reader
        read = any_process(reader.findable and reader.batches > 0)
        seen = any_process(reader.injected or bool(self._earlier.get("canaries")))
        if seen or not read or self.passed:
            return None
        return ModelError(
            f"stop_above_bits={self._history.settings['stop_above_bits']:g} was given, and no "
            "injected canary was seen whole in any batch of the training that was read",
            cure="train on the output of canary inject with this set, give the tokenizer of the "
            "training, and let no length limit cut canaries",
        )

    def _batches(self) -> dict[str, Any]:
        """What was seen of batches; of those before a checkpoint, if no canary was since."""
        found = self._start.to_dict()
        kept = self._earlier if not found["canaries"] else {}
        return found | {name: kept[name] for name in ("canaries", "after") if name in kept}

    def _agree(self, above: str | None, *, ended: bool) -> None:
        """Stop in all processes if the limit was passed in the first."""
        if self._rule is None or not any_process(above is not None) or self.passed:
            return
        said = f"the training is stopped at step {self._step}: {above}"
        reason = above
        if ended and above is not None:
            said = f"{PASSED_AT_THE_END}, at step {self._step}: nothing was stopped; {above}"
            reason = said
        self._unfinished.detach()
        self._history = replace(self._history, stopped_at=self._step, stop_reason=reason)
        if above is not None:
            _log.warning("canary: %s", said)
            if self._path is not None:
                with suppress(OutputError):  # told by who saved it before, or by finish
                    self.history.save(self._path)

    def _tell(self, findings: Mapping[str, str]) -> None:
        """Warn of what was not told yet."""
        for kind, sentence in findings.items():
            if kind not in self._told:
                self._told.add(kind)
                _log.warning("canary: %s", sentence)

    def state_dict(self) -> dict[str, Any]:
        """Plain data for a checkpoint, with which a later training goes on."""
        return {
            "step": self._step,
            "epoch": self._epoch,
            "losses": list(self._losses),
            "history": self.history.to_dict(),
        }

    @sealed
    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a checkpoint; what was measured behind its step is dropped.

        Raises
        ------
        RecordError
            If the state is damaged, or of other canaries, draws or tokens before them.
        """
        try:
            step, epoch, kept = int(state["step"]), float(state["epoch"]), state["history"]
            losses = [float(loss) for loss in state["losses"]]
        except (KeyError, TypeError, ValueError) as error:
            raise RecordError(
                f"is no state of a monitor ({type(error).__name__}: {error})",
                cure="give what state_dict returned",
            ) from error
        self.resume(History.from_dict(kept), step=step, epoch=epoch)
        self._losses = losses

    @sealed
    def resume(self, history: History, *, step: int, epoch: float | None = None) -> None:
        """Go on from a history at a step; as `load_state_dict`."""
        for name in ("draws", "seed", "start_token", "context"):
            if history.settings.get(name) != self._history.settings[name]:
                raise _other(name)
        for name in ("canaries", "formats"):
            if getattr(history, name) != getattr(self._history, name):
                raise _other(name)
        self._step, self._epoch = step, epoch or 0.0
        self._earlier = dict(history.batches)
        self._history = replace(history.until(step), settings=self._history.settings)

    def _due(self, epoch: float | None) -> bool:
        named = self._step in self._steps
        if self._every != "epoch":
            return named or self._step % self._every == 0
        before, self._epoch = math.floor(self._epoch + 1e-6), epoch or 0.0
        return named or math.floor(self._epoch + 1e-6) > before

    def _measure(
        self, module: Any, epoch: float | None, *, whatever: bool
    ) -> tuple[Moment | None, str | None]:
        """The moment, and which canaries are above the limit.

        None where the share of time does not allow one, unless `whatever` is up.
        """
        if self._losses:
            self.add_loss(statistics.fmean(self._losses), step=self._step)
            self._losses = []
        if self._tried_at != self._step:
            self._history = replace(self._history, asked=self._history.asked + 1)
        self._tried_at = self._step
        began = self._time.now()
        self._busy = True
        try:
            with undisturbed(module):
                self._prepare(module)
                model = self._pricer.model
                if model is None or not (whatever or self._time.allows):
                    return None, None
                with self._time.measurement():
                    reason = self._pricer.follow_noise(strict=self._strict)
                    if reason is not None:
                        return self._unmeasured(epoch, began, reason), None
                    self._history = replace(self._history, model=self._pricer.facts())
                    start = self._start.now(model, batch_size=self._pricer.batch_size)
                    found = self._pricer.measure(start.token)
                    above = self._above(found, start)
        except (NotFiniteError, OutOfMemory) as error:
            if self._strict:
                raise
            return self._unmeasured(epoch, began, error.problem), None
        finally:
            self._busy = False
        self._tell(self._start.findings)
        moment = Moment(
            self._step,
            epoch,
            self._time.now() - began,
            found.px_bits,
            found.exposures,
            found.curve_bits,
            start_token=start.token,
        )
        return moment, above

    def _above(self, found: Measured, start: MomentStart) -> str | None:
        """Which canaries are above the limit, after any start that training may have used."""
        if self._rule is None:
            return None
        above = self._rule.broken(found.exposures)
        for token in start.others:
            if above is None:
                above = self._rule.broken(self._pricer.measure(token).exposures)
                above = above and f"priced after {shown_start(token)}, {above}"
        return above

    def _unmeasured(self, epoch: float | None, began: float, reason: str) -> Moment:
        return Moment(self._step, epoch, self._time.now() - began, reason=reason)

    def _prepare(self, module: Any) -> None:
        """The model behind the seam, and what a measurement will take; done once."""
        cost = self._pricer.prepare(module, self._time.now)
        if cost is not None:
            self._time.expect(cost)
            self._history = replace(self._history, model=self._pricer.facts())

    def _keep(self, moment: Moment | None, *, save: bool = True) -> None:
        if moment is None:
            return
        earlier = (kept for kept in self._history.moments if kept.step < moment.step)
        self._history = replace(self._history, moments=(*earlier, moment), batches=self._batches())
        if self._path is not None and save:
            self.history.save(self._path)


def _number(loss: object) -> float:
    """A loss as a float, NaN where the training diverged; a tensor of one number is welcome."""
    if isinstance(loss, SupportsFloat) and not isinstance(loss, bool):
        with suppress(TypeError, ValueError, RuntimeError, OverflowError):
            return float(loss)
    raise InputError(
        f"loss must be a number, got {brief(loss)}",
        cure="give the loss of this step, or leave it out",
    )


def _steps(given: Collection[int], name: str) -> list[int]:
    """Numbers of steps, ascending."""
    steps = some(given, name, cure="give a list of steps, such as [100, 200]")
    return sorted(whole_number(step, f"each of {name}", at_least=0) for step in steps)


def _other(name: str) -> RecordError:
    return RecordError(
        f"the history is one of other {name.replace('_', ' ')} than this training's",
        cure="go on with the canaries and settings it was begun with, or begin a new history",
    )
