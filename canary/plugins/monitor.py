"""Exposure of canaries while a model is trained, for any training loop."""

from __future__ import annotations

import logging
import math
import os
import statistics
import time
import warnings
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import replace
from typing import Any, Literal, SupportsFloat

from canary.audits.history import History, Loss, Moment
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
from canary.models.base import LanguageModel
from canary.models.loading import load
from canary.models.noise import remeasure_noise
from canary.plugins.live import (
    any_process,
    finish_queued,
    first_process,
    undisturbed,
    unwrapped,
)
from canary.plugins.share import TimeShare
from canary.plugins.shared_draws import SharedDraws
from canary.records.fields import brief
from canary.records.given import check_running, file_path, real_number, some, whole_number
from canary.records.sealing import sealed
from canary.records.versions import versions
from canary.scoring.batcher import Batcher
from canary.scoring.texts import score_encodings
from canary.tokens.candidates import CandidateEncoder
from canary.tokens.fast import as_tokenizer
from canary.tokens.misread import misread

__all__ = ["Every", "ExposureMonitor"]

Every = int | Literal["epoch"]
"""Steps between two measurements, or the end of each epoch."""

_log = logging.getLogger(__name__)

_COARSE = ("bfloat16", "float16")  # arithmetic whose noise is measured at every moment
_TRIED = 16  # rows by which the first measurement is estimated


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
    start_token, context : str
        As in `canary.audit`.
    batch_size : int, optional
        Rows at once; found by trial unless given.
    stop_above_bits : float, optional
        Raise `passed` when canaries with some number of copies are exposed more than this:
        when the median of the lower ends of their intervals is above it.
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
        If an option does not serve, or the draws cannot show `stop_above_bits`.
    FormatError, ModelError
        If a format cannot be ranked under this tokenizer.

    Notes
    -----
    Of several processes that train in parallel only the first measures. With
    `stop_above_bits` all must call `step` at the same steps, since they must agree.

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
        start_token: str | None = None,
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
        self._batch_size, self._strict = batch_size, strict
        self._stop_above_bits = stop_above_bits
        cure = "give the file that the history is to be in, or leave it out"
        self._path = None if path is None else file_path(path, "path", cure=cure)
        self._tokenizer = as_tokenizer(tokenizer)
        encoder = CandidateEncoder(self._tokenizer, start_token, context)
        for note in dict.fromkeys(n for f in canaries.formats for n in misread(encoder, f)):
            _log.warning("%s", note)
        self._draws = SharedDraws.of(canaries, encoder, draws=draws, seed=seed)
        if stop_above_bits is not None:
            _check_limit(stop_above_bits, self._draws.most_certain_bits())
        self._module: Any = None
        self._model: LanguageModel | None = None
        self._step, self._epoch = 0, 0.0
        self._losses: list[float] = []
        self._history = History(
            canaries=self._draws.canaries,
            formats=self._draws.formats,
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
            return
        with self._time.own(), undisturbed(module), suppress(NotFiniteError):  # told at each moment
            self._prepare(module)

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
        moment, failure = None, None
        if first_process():
            if due:
                finish_queued()
            with self._time.own():
                if due:
                    try:
                        moment = self._measure(unwrapped(model), epoch)
                        self._keep(moment)
                    except CanaryError as error:  # told when the others no longer wait
                        failure = error
        if due and self._stop_above_bits is not None:
            above = moment is not None and self._above(moment, self._stop_above_bits)
            if any_process(above):
                self._history = replace(self._history, stopped_at=self._step)
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
        self._module = self._model = None

    @sealed
    def finish(self) -> History:
        """Let the model go and save the history; warn if the training was never measured.

        Call it when the training is over. A training that goes on after all may be measured
        further.

        Returns
        -------
        History
            As the property; of several processes only the first saves and warns.
        """
        self.pause()
        history = self.history
        if first_process():
            if self._path is not None:
                history.save(self._path)
            if not history.measured:
                _log.warning("exposure was never measured: %s", self._why_never(history))
        return history

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
        self._history = replace(history.until(step), settings=self._history.settings)

    def _due(self, epoch: float | None) -> bool:
        named = self._step in self._steps
        if self._every != "epoch":
            return named or self._step % self._every == 0
        before, self._epoch = math.floor(self._epoch + 1e-6), epoch or 0.0
        return named or math.floor(self._epoch + 1e-6) > before

    def _measure(self, module: Any, epoch: float | None) -> Moment | None:
        """The moment; None where the share of time does not allow one."""
        if self._losses:
            self.add_loss(statistics.fmean(self._losses), step=self._step)
            self._losses = []
        self._history = replace(self._history, asked=self._history.asked + 1)
        began = self._time.now()
        try:
            with undisturbed(module):
                self._prepare(module)
                if self._model is None or not self._time.allows:
                    return None
                with self._time.measurement():
                    reason = self._follow_noise(self._model)
                    if reason is not None:
                        return self._unmeasured(epoch, began, reason)
                    found = self._draws.measure(self._model, batch_size=self._batch_size)
        except (NotFiniteError, OutOfMemory) as error:
            if self._strict:
                raise
            return self._unmeasured(epoch, began, error.problem)
        return Moment(
            self._step,
            epoch,
            self._time.now() - began,
            found.px_bits,
            found.exposures,
            found.curve_bits,
        )

    def _unmeasured(self, epoch: float | None, began: float, reason: str) -> Moment:
        return Moment(self._step, epoch, self._time.now() - began, reason=reason)

    def _follow_noise(self, model: LanguageModel) -> str | None:
        """Measure the noise of 16-bit arithmetic anew: it moves with the weights.

        That of finer arithmetic stays far below the distances of candidates. Returns why
        nothing can be measured, if the differences are no rounding.
        """
        if model.facts.dtype not in _COARSE:
            return None
        try:
            remeasure_noise(model)
        except NotFiniteError:
            raise
        except ModelError as error:
            if self._strict:
                raise
            return error.problem
        noise = {"noise_bits_per_token": model.facts.noise_bits_per_token}
        self._history = replace(self._history, model={**self._history.model, **noise})
        return None

    def _prepare(self, module: Any) -> None:
        """The model behind the seam, and what a measurement will take; done once."""
        if self._module is module:
            return
        model = load(module, tokenizer=self._tokenizer)
        batcher = Batcher(model, batch_size=self._batch_size)
        batcher.check_length(self._draws.longest)
        some = self._draws.some(_TRIED)
        began = self._time.now()
        score_encodings(batcher, some)
        tokens = sum(len(row.ids) for row in some)
        cost = (self._time.now() - began) * self._draws.tokens / tokens
        if model.facts.dtype in _COARSE:
            began = self._time.now()
            remeasure_noise(model)
            cost += self._time.now() - began
        self._time.expect(cost)
        self._module, self._model = module, model
        facts = model.facts.to_dict()
        del facts["fingerprint"]  # of a moment that nobody will see again
        self._history = replace(self._history, model=facts)

    def _keep(self, moment: Moment | None) -> None:
        if moment is None:
            return
        earlier = (kept for kept in self._history.moments if kept.step < moment.step)
        self._history = replace(self._history, moments=(*earlier, moment))
        if self._path is not None:
            self.history.save(self._path)

    def _why_never(self, history: History) -> str:
        if history.moments:
            return f"{history.moments[-1].reason}"
        if not history.asked:
            return (
                f"the training ended at step {self._step}, before any that was asked for; "
                "give a smaller every, or steps"
            )
        return (
            f"getting ready took {history.own_seconds:.2g} s and one measurement takes about "
            f"{self.expected_seconds or 0.0:.2g} s, but its share of the training is "
            f"{(self._time.share or 0.0) * history.training_seconds:.2g} s; give fewer draws, "
            "or a larger share (None for as long as it takes)"
        )

    def _above(self, moment: Moment, limit: float) -> bool:
        if moment.reason is not None:
            return False
        return any(
            statistics.median(moment.exposures[at].lower_bits for at in places) > limit
            for copies, places in self._history.groups().items()
            if copies
        )


def _check_limit(limit: float, most: float) -> None:
    if not 0.0 <= limit < most:
        raise InputError(
            f"stop_above_bits={limit}, and the draws can show {most:.1f} bits at most",
            cure="give a limit from 0 up to that, or more draws: every doubling shows 1 bit more",
        )


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
