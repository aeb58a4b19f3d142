"""The end of a training that a limit watches: measured whatever it takes, or an error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from canary.errors import InputError, ModelError
from canary.plugins.live import any_process, unwrapped
from canary.plugins.moment_taker import MomentTaker
from canary.plugins.stopping import StopRule


@dataclass(frozen=True, eq=False)
class SafetyStop:
    """Makes sure that a training whose limit was never passed was really watched."""

    rule: StopRule
    taker: MomentTaker

    def at_the_end(self, model: Any, step: int) -> str | None:
        """Measure the last step, if it was not; which canaries are above the limit there.

        Raises
        ------
        InputError, ModelError
            If that cannot be done, or says nothing of the model that was trained.
        """
        taker, above = self.taker, None
        done = taker.log.history.moments[-1:]
        if not (done and done[0].step == step and done[0].reason is None):
            if model is None:
                raise InputError(
                    f"{self._asked} no step of the training was measured at its end: step was "
                    "not called since the start or the last pause",
                    cure="call step(model) behind every step of the optimizer, and then finish",
                )
            with taker.time.own():
                moment, above = taker.take(unwrapped(model), step, None, whatever=True)
                assert moment is not None
                taker.log.keep(moment, taker.start.to_dict(), save=False)
            if moment.reason is not None:
                raise ModelError(
                    f"{self._asked} exposure could not be measured at the last step ({step}): "
                    f"{moment.reason}",
                    cure="audit the model before it is used (canary audit)",
                )
        measured = taker.log.history.measured
        if len(measured) > 1 and len({moment.px_bits for moment in measured}) == 1:
            raise ModelError(
                f"{self._asked} the model gave the same numbers at all {len(measured)} "
                "measurements, as a copy of the trained model would",
                cure="give step the model that is trained, not a copy of it",
            )
        return above

    def unseen(self) -> ModelError | None:
        """The error of a training without canaries; to be asked in all processes."""
        reader, log = self.taker.start.reader, self.taker.log
        read = any_process(reader.findable and reader.batches > 0)
        seen = any_process(reader.injected or log.seen_before)
        if seen or not read or log.passed:
            return None
        return ModelError(
            f"{self._asked} no injected canary was seen whole in any batch of the training that "
            "was read",
            cure="train on the output of canary inject with this set, give the tokenizer of the "
            "training, and let no length limit cut canaries",
        )

    @property
    def _asked(self) -> str:
        return f"stop_above_bits={self.rule.bits:g} was given, and"
