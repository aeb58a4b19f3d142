"""Exposure of canaries, and passages that come out, while the Trainer of `transformers` trains."""

from __future__ import annotations

import inspect
import logging
import math
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from canary.audits.audit_setup import control_in
from canary.audits.history import History
from canary.corpus.canaries import CanarySet, canary_set
from canary.errors import InputError, RecordError
from canary.plugins.live import any_process, first_process
from canary.plugins.monitor import ExposureMonitor
from canary.plugins.preflight import preflight
from canary.plugins.training_log import Schedule, StopRule, TimeShare, unmeasured
from canary.plugins.verbatim_monitor import VerbatimMonitor
from canary.records.files import make_folder
from canary.records.sealing import sealed
from canary.scoring.run_options import RunOptions
from canary.tokens.fast import as_tokenizer

HISTORY_FILE = "canary_history.json"
"""Name of the history in the Trainer's output folder, and in each of its checkpoints."""

VERBATIM_FILE = "canary_verbatim.json"
"""Name of the last result of a `VerbatimCallback` in the Trainer's output folder."""

_log = logging.getLogger(__name__)


class _Attached(TrainerCallback):
    """What callbacks share that measure and log through the loggers of their Trainer."""

    def __init__(self, tokenizer: Any, options: dict[str, Any]) -> None:
        self._tokenizer, self._options = tokenizer, options
        self._trainer: Any = None

    def attach(self, trainer: Any) -> None:
        """Join a Trainer, and log through its loggers."""
        self._trainer = trainer
        if self not in trainer.callback_handler.callbacks:
            trainer.add_callback(self)

    def _begun(self, state: Any, given: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """The tokenizer of the training, and how it logs; errors of what cannot be measured."""
        if self._options.get("every") == "epoch":
            loader: Any = given.get("train_dataloader")
            try:
                len(loader)
            except (TypeError, NotImplementedError) as error:
                raise InputError(
                    "every epoch was asked for, and the training data has no length (it is a "
                    "stream), so the Trainer does not know its epochs",
                    cure="ask for a number of steps: every=100",
                ) from error
        tokenizer = self._tokenizer or given.get("processing_class")
        if tokenizer is None:
            raise InputError(
                "the Trainer has no tokenizer, and none was given",
                cure=f"{type(self).__name__}(..., tokenizer=...), or Trainer(processing_class=...)",
            )
        logs = self._trainer is not None and "log" not in self._options
        if not (logs or self._options.get("log")) and state.is_world_process_zero:
            _log.warning(
                "what is measured is not logged: a callback does not know its Trainer; call "
                "callback.attach(trainer) for that"
            )
        return tokenizer, {"log": self._through_trainer} if logs else {}

    def _through_trainer(self, numbers: dict[str, float], /, *, step: int) -> None:
        """Log through the Trainer, which knows the step; ``eval_`` names what is no loss there."""
        # Logging takes the turn of the step's own loss unless it is given back.
        turn = self._trainer.control.should_log
        self._trainer.log({f"eval_{name}": round(value, 4) for name, value in numbers.items()})
        self._trainer.control.should_log = turn

    def _left(self, state: Any) -> int:
        """How many measurements are asked for after this step."""
        every, done, last = self._options.get("every", 10), state.global_step, state.max_steps
        if every == "epoch":
            return max(math.ceil(float(state.num_train_epochs) - (state.epoch or 0.0)), 0)
        steps = {*range(0, last + 1, every), *self._options.get("steps", ()), last}
        return sum(done < step <= last for step in steps)


class VerbatimCallback(_Attached):
    """Measures which passages of texts a model repeats, before the training and at its epochs.

    Parameters
    ----------
    texts, controls : iterable of str
        As in `canary.verbatim`.
    tokenizer : tokenizer or path, optional
        The Trainer's `processing_class` unless given.
    **options
        As `canary.plugins.verbatim_monitor.VerbatimMonitor`: `every`, `steps`, `share`,
        `max_extractable` with `tries` and `chance`, `path`, `log` and those of `canary.verbatim`.

    Notes
    -----
    It logs as `ExposureCallback` does. The last result is written to ``canary_verbatim.json`` in
    the output folder (`path` unless given). Where `max_extractable` is exceeded, the training
    stops.
    """

    def __init__(
        self,
        texts: Iterable[str],
        controls: Iterable[str] | None = None,
        *,
        tokenizer: Any = None,
        **options: Any,
    ) -> None:
        super().__init__(tokenizer, {"every": "epoch", **options})
        self._given = (texts, controls)
        self._monitor: Any = None

    @property
    def monitor(self) -> VerbatimMonitor:
        """The monitor, with its `readings` and `result`; an InputError before the training."""
        if self._monitor is None:
            raise InputError("no training has begun", cure="call trainer.train() first")
        monitor: VerbatimMonitor = self._monitor
        return monitor

    @sealed
    def on_train_begin(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Measure the model before its training."""
        tokenizer, logs = self._begun(state, given)
        path = Path(self._options.get("path") or Path(args.output_dir or ".") / VERBATIM_FILE)
        if state.is_world_process_zero:
            make_folder(path.parent)
        options = {**self._options, "path": path, **logs}
        self._monitor = VerbatimMonitor(*self._given, tokenizer=tokenizer, **options)
        self._monitor.start(given["model"], step=state.global_step, epoch=state.epoch)
        self._monitor.say_time(self._left(state))

    @sealed
    def on_step_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Measure, log, and stop the training where the limit was exceeded."""
        step, last = state.global_step, state.global_step >= state.max_steps
        self._monitor.step(given["model"], step=step, epoch=state.epoch, last=last)
        if self._monitor.exceeded:
            control.should_training_stop = True

    @sealed
    def on_train_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Measure the end, if it was not."""
        self._monitor.finish(given["model"], epoch=state.epoch)


class ExposureCallback(_Attached):
    """Measures the exposure of every canary at chosen steps or epochs.

    Parameters
    ----------
    canaries : CanarySet
    tokenizer : tokenizer or path, optional
        The Trainer's `processing_class` unless given.
    preflight : bool
        Read the training data through the Trainer's collator before the first step, and raise an
        `InputError` if the canaries would not be learned as planned: see `canary.preflight`.
        Data without a length (a stream) is not read.
    **options
        As `canary.plugins.monitor.ExposureMonitor`: `every`, `steps`, `draws`, `share`,
        `seed`, `start_token`, `context`, `chat_template`, `batch_size`, `stop_above_bits`,
        `require_learned`, `marks`, `path`, `log` (in place of the Trainer's loggers), `log_all`,
        `strict`.

    Notes
    -----
    Given as ``Trainer(callbacks=[...])``, and not by `attach`, it measures and is not logged,
    unless there is a `log`, and looks for no canaries in evaluation data. The history is written to
    ``canary_history.json`` in the output folder (`path` unless given) and into every checkpoint; a
    training that is resumed goes on with it.

    Examples
    --------
    ::

        callback = ExposureCallback(canaries, every=50, stop_above_bits=6)
        callback.attach(trainer)
        trainer.train()
        canary.report(callback.history, "training.html")
    """

    def __init__(
        self,
        canaries: CanarySet,
        *,
        tokenizer: Any = None,
        preflight: bool = True,
        **options: Any,
    ) -> None:
        asked = inspect.signature(ExposureMonitor).bind(canaries, tokenizer=tokenizer, **options)
        asked.apply_defaults()  # refused now, and not when the training begins
        given = asked.arguments
        RunOptions(**given["run"])
        Schedule(given["every"], given["steps"])
        TimeShare(given["share"])
        control_in(canary_set(canaries), given["require_learned"])
        begun = unmeasured(canaries, given["draws"])
        StopRule.of(given["stop_above_bits"], begun, given["require_learned"] or 0)
        super().__init__(tokenizer, options)
        self._canaries, self._preflight = canaries, preflight
        self._monitor: Any = None

    @property
    def history(self) -> History:
        """What was measured; of several processes, in the first.

        Raises
        ------
        InputError
            If no training has begun.
        """
        if self._monitor is None:
            raise InputError("no training has begun", cure="call trainer.train() first")
        history: History = self._monitor.history
        return history

    @sealed
    def on_train_begin(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Draw, encode and try the model; go on with the history of a checkpoint."""
        tokenizer, logs = self._begun(state, given)
        self._check_tokenizer(given.get("processing_class"))
        output = Path(args.output_dir or ".")
        path = Path(self._options.get("path") or output / HISTORY_FILE)
        if state.is_world_process_zero:
            make_folder(path.parent)
        options = {**self._options, "path": path, **logs}
        self._monitor = ExposureMonitor(self._canaries, tokenizer=tokenizer, **options)
        if state.global_step and state.is_world_process_zero:
            for file in (_checkpoint(args, state) / HISTORY_FILE, path):
                if file.is_file():
                    history = History.load(file)
                    try:
                        self._monitor.resume(history, step=state.global_step, epoch=state.epoch)
                    except RecordError as error:
                        error.where = str(file)
                        raise
                    break
        self._monitor.start(given["model"])
        self._monitor.say_time(self._left(state))
        if self._preflight:
            self._inspect(tokenizer, args, given)

    def _inspect(self, tokenizer: Any, args: Any, given: Mapping[str, Any]) -> None:
        """Raise an error in all processes if the training would not learn the canaries."""
        loader = given.get("train_dataloader")
        if not _has_rows(getattr(loader, "dataset", None)):
            _log.warning(
                "the training data is a stream, and was not read before the first step: call "
                "canary.preflight with batches of a second one"
            )
            return
        found, kept = None, getattr(self._trainer, "eval_dataset", None)
        parts = [*kept.values()] if isinstance(kept, dict) else [] if kept is None else [kept]
        loaders = [self._trainer.get_eval_dataloader(part) for part in parts if _has_rows(part)]
        if first_process():
            names = ("start_token", "context", "chat_template")
            known = {name: self._options[name] for name in names if name in self._options}
            batches, *tested = (
                _Batches(each, args, given.get("optimizer")) for each in (loader, *loaders)
            )
            evaluation = chain.from_iterable(tested) if tested else None
            found = preflight(
                batches, self._canaries, tokenizer=tokenizer, model=given["model"],
                evaluation=evaluation, **known,
            )  # fmt: skip
            for finding in found.findings:
                if finding.verdict == "noted":
                    _log.warning("%s: %s", finding.figure, finding.cure)
            if found.sound:
                _log.info("canary: %s", found.summary().splitlines()[0])
        if any_process(found is not None and not found.sound):
            if found is not None:
                found.require()
            raise InputError(
                "the first process refused the data of the training",
                cure="see its error",
            )

    def _check_tokenizer(self, trainers: Any) -> None:
        """Whether canaries are the same tokens under the given tokenizer and the Trainer's."""
        # A Trainer of images has a processor that is no tokenizer.
        if self._tokenizer is None or not hasattr(trainers, "backend_tokenizer"):
            return
        texts = [self._canaries.text(canary) for canary in self._canaries]
        mine, theirs = (as_tokenizer(each).encode(texts) for each in (self._tokenizer, trainers))
        if [e.ids for e in mine] != [e.ids for e in theirs]:
            raise InputError(
                "the tokenizer that was given makes other tokens than the Trainer's of the "
                "canaries, so exposure would be of text that the model was not trained on",
                cure="leave tokenizer out, or give the one of the training to both",
            )

    @sealed
    def on_step_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Measure, log, and stop the training where a limit was exceeded."""
        step, last = state.global_step, state.global_step >= state.max_steps
        moment = self._monitor.step(given["model"], step=step, epoch=state.epoch, last=last)
        if moment is not None and moment.reason is not None:
            _log.warning("exposure was not measured at step %d: %s", moment.step, moment.reason)
        if moment is not None and len(self.history.moments) == 1:
            self._monitor.say_time(self._left(state))
        if self._monitor.exceeded:
            control.should_training_stop = True

    def on_log(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Keep the loss that the Trainer logs."""
        loss = (given.get("logs") or {}).get("loss")
        if self._monitor is not None and isinstance(loss, int | float):
            self._monitor.add_loss(loss, step=state.global_step)

    @sealed
    def on_save(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Save the history into the checkpoint."""
        folder = _checkpoint(args, state)
        if state.is_world_process_zero and folder.is_dir():
            self._monitor.state_dict()  # with the batches up to this step
            self.history.save(folder / HISTORY_FILE)

    @sealed
    def on_train_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Measure the end if it was not, and write the history."""
        self._monitor.finish()


class _Batches:
    """All rows of a loader's data in their order, by its collator; the loader does not notice.

    With the arguments and the optimizer of the Trainer.
    """

    def __init__(self, loader: Any, args: Any, optimizer: Any) -> None:
        self._loader, self.args, self.optimizer = loader, args, optimizer
        self._size = loader.batch_size or getattr(loader.batch_sampler, "batch_size", None) or 1

    def __len__(self) -> int:
        return math.ceil(len(self._loader.dataset) / self._size)

    def __iter__(self) -> Iterator[Any]:
        rows, size = self._loader.dataset, self._size
        for begin in range(0, len(rows), size):
            end = min(begin + size, len(rows))
            yield self._loader.collate_fn([rows[i] for i in range(begin, end)])


def _has_rows(data: Any) -> bool:
    """Whether data is no stream."""
    return hasattr(data, "__len__") and hasattr(data, "__getitem__")


def _checkpoint(args: Any, state: Any) -> Path:
    return Path(args.output_dir or ".") / f"checkpoint-{state.global_step}"
