"""One measurement of a model in the midst of its training."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from canary.audits.history import Moment
from canary.errors import NotFiniteError, OutOfMemory
from canary.plugins.history_log import HistoryLog
from canary.plugins.live import undisturbed
from canary.plugins.live_pricing import LivePricer, Measured
from canary.plugins.share import TimeShare
from canary.plugins.starting import MomentStart, WatchedStart
from canary.plugins.stopping import StopRule
from canary.tokens.starts import shown_start


@dataclass(eq=False)
class MomentTaker:
    """Takes moments, and leaves the training as it was.

    With `strict`, an error is raised where nothing can be measured.
    """

    pricer: LivePricer
    start: WatchedStart
    rule: StopRule | None
    time: TimeShare
    log: HistoryLog
    strict: bool
    _asked_at: int | None = field(default=None, init=False)

    def prepare(self, module: Any) -> None:
        """The model behind the seam, and what a measurement will take; done once."""
        cost = self.pricer.prepare(module, self.time.now)
        if cost is not None:
            self.time.expect(cost)
            self.log.change(model=self.pricer.facts())

    def take(
        self, module: Any, step: int, epoch: float | None, *, whatever: bool
    ) -> tuple[Moment | None, str | None]:
        """The moment, and which canaries are above the limit.

        None where the share of time does not allow one, unless `whatever` is up.
        """
        self.log.ask(step, again=self._asked_at == step)
        self._asked_at = step
        began = self.time.now()
        self.start.busy = True
        try:
            with undisturbed(module):
                self.prepare(module)
                model = self.pricer.model
                if model is None or not (whatever or self.time.allows):
                    return None, None
                with self.time.measurement():
                    reason = self.pricer.follow_noise(strict=self.strict)
                    if reason is not None:
                        return Moment(step, epoch, self.time.now() - began, reason=reason), None
                    self.log.change(model=self.pricer.facts())
                    start = self.start.now(model)
                    found = self.pricer.measure(start.token)
                    above = self._above(found, start)
        except (NotFiniteError, OutOfMemory) as error:
            if self.strict:
                raise
            return Moment(step, epoch, self.time.now() - began, reason=error.problem), None
        finally:
            self.start.busy = False
        self.log.tell(self.start.findings)
        moment = Moment(
            step,
            epoch,
            self.time.now() - began,
            found.px_bits,
            found.exposures,
            found.curve_bits,
            start_token=start.token,
        )
        return moment, above

    def _above(self, found: Measured, start: MomentStart) -> str | None:
        """Which canaries are above the limit, after any start that training may have used."""
        if self.rule is None:
            return None
        above = self.rule.broken(found.exposures)
        for token in start.others:
            if above is None:
                above = self.rule.broken(self.pricer.measure(token).exposures)
                above = above and f"priced after {shown_start(token)}, {above}"
        return above
