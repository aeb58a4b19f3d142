"""One measurement of a model in training: canaries beside the same draws at every moment."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from canary.audits.by_draws import Sample
from canary.audits.history import Moment
from canary.corpus.canaries import CanarySet
from canary.errors import InputError, ModelError, NotFiniteError, OutOfMemory
from canary.models.language_model import LanguageModel
from canary.models.loading import load
from canary.models.noise import remeasure_noise
from canary.plugins.live import any_process, undisturbed, unwrapped
from canary.plugins.training_batches import TrainingBatches
from canary.plugins.training_log import TrainingLog
from canary.records.validation import AUTO, named_start
from canary.scoring.batcher import Batcher, encoding_bits
from canary.scoring.run_options import RunOptions
from canary.statistics.exposures import Exposure
from canary.tokens.candidates import CandidateEncoder, check_kept_apart
from canary.tokens.starts import possible_starts, shown_start
from canary.tokens.tokenizer import Tokenizer

_STREAM = 0x6D6F6E69  # keeps the draws apart from the canaries of the same seed
_COARSE = ("bfloat16", "float16")  # arithmetic whose noise is measured at every moment
_TRIED = 16  # rows by which the first measurement is estimated


class Measured(NamedTuple):
    """The canaries of a set under a model, in their order."""

    px_bits: tuple[float, ...] = ()
    exposures: tuple[Exposure, ...] = ()
    curve_bits: tuple[float | None, ...] = ()


class MomentTaker:
    """Measures a model in the midst of its training, and leaves the training as it was.

    Candidates of each format are drawn once, and encoded once for each start token; formats that
    cannot be ranked under this tokenizer are refused. With `strict`, an error is raised where
    nothing can be measured.
    """

    def __init__(
        self,
        canaries: CanarySet,
        tokenizer: Tokenizer,
        options: RunOptions,
        batches: TrainingBatches,
        kept: TrainingLog,
        *,
        strict: bool,
    ) -> None:
        self._tokenizer, self._options, self._strict = tokenizer, options, strict
        self.batches, self.kept, self.time = batches, kept, kept.time
        self._drawn = []
        for number, watched in enumerate(kept.history.formats):
            format = canaries.formats[number]
            format.check_prefix_free()
            rng = np.random.default_rng([_STREAM, options.seed, number])
            places = [i for i, canary in enumerate(canaries) if canary.format == number]
            fills = [canary.fill for canary in canaries if canary.format == number]
            self._drawn.append((format, places, fills, format.sample(watched.draws, rng=rng)))
        self._samples: dict[str | None, list[Sample]] = {}
        starts = [named_start(options.start_token)]
        if options.start_token == AUTO:
            starts = list(possible_starts(tokenizer, 2**31))
        for token in starts:
            try:
                self._first = self._samples_after(token)
                break
            except InputError as error:
                # A format that begins with a hole needs something before it.
                if type(error) is not InputError or token == starts[-1]:
                    raise
        self._module: Any = None
        self._model: LanguageModel | None = None

    def _samples_after(self, token: str | None) -> list[Sample]:
        if token not in self._samples:
            encoder = CandidateEncoder(self._tokenizer, token, self._options.context)
            samples = []
            for format, _, fills, drawn in self._drawn:
                check_kept_apart(format, encoder)
                samples.append(Sample.of(format, fills, drawn, encoder))
            self._samples[token] = samples
        return self._samples[token]

    def prepare(self, module: Any) -> None:
        """Have the module behind the seam, and find out what a measurement will take."""
        if self._module is module:
            return
        model, now = load(module, tokenizer=self._tokenizer), self.time.now
        batcher = Batcher(model, batch_size=self._options.batch_size)
        batcher.check_length(max(sample.rows.longest for sample in self._first))
        some = [row for sample in self._first for row in sample.rows.encodings][:_TRIED]
        began = now()
        encoding_bits(batcher, some)
        tokens = sum(sum(sample.rows.work(model)) for sample in self._first)
        cost = (now() - began) * tokens / sum(len(row.ids) for row in some)
        if model.facts.dtype in _COARSE:
            began = now()
            remeasure_noise(model)
            cost += now() - began
        self._module, self._model = module, model
        self.time.expect(cost)
        self._keep_facts(model)

    def _keep_facts(self, model: LanguageModel) -> None:
        """What is known of the model, but for the fingerprint of a moment."""
        facts = model.facts.to_dict()
        del facts["fingerprint"]
        self.kept.change(model=facts)

    def release(self) -> None:
        """Let the module go."""
        self._module = self._model = None

    def take(
        self, module: Any, step: int, epoch: float | None, *, whatever: bool
    ) -> tuple[Moment | None, str | None]:
        """The moment, which is kept, and which canaries are above the limit.

        None where the share of time does not allow one, unless `whatever` is up.
        """
        self.kept.ask(step)
        began = self.time.now()
        token, measured, above, reason = None, Measured(), None, None
        self.batches.busy = True
        try:
            with undisturbed(module):
                self.prepare(module)
                if not (whatever or self.time.allows):
                    self.kept.say({"share": self.time.why_not(step)})
                    return None, None
                with self.time.measurement():
                    reason = self._noise_is_unsound()
                    if reason is None:
                        token, measured, above = self._priced()
        except (NotFiniteError, OutOfMemory) as error:
            if self._strict:
                raise
            reason = error.problem
        finally:
            self.batches.busy = False
        if reason is None:
            self.kept.say(self.batches.findings)
        seconds = self.time.now() - began
        moment = Moment(step, epoch, seconds, *measured, reason=reason, start_token=token)
        self.kept.keep(moment, self.batches.to_dict())
        return moment, above

    def _noise_is_unsound(self) -> str | None:
        """Why the differences between batches are no rounding, if they are none.

        The noise of 16-bit arithmetic moves with the weights, and is measured anew; that of
        finer arithmetic stays far below the distances of candidates.
        """
        assert self._model is not None
        if self._model.facts.dtype in _COARSE:
            try:
                remeasure_noise(self._model)
            except ModelError as error:
                if self._strict or isinstance(error, NotFiniteError):
                    raise
                return error.problem
        self._keep_facts(self._model)
        return None

    def _priced(self) -> tuple[str | None, Measured, str | None]:
        """The start token, all canaries after it, and which are above the limit after any."""
        assert self._model is not None
        token, others = self.batches.now(self._model)
        measured, rule = self.measure(token), self.kept.rule
        above = None
        if rule is not None:
            above = rule.broken(measured.exposures)
            for other in others:
                if above is None:
                    above = rule.broken(self.measure(other).exposures)
                    above = above and f"scored after {shown_start(other)}, {above}"
        return token, measured, above

    def measure(self, token: str | None) -> Measured:
        """All canaries after a start token, under the model as it is now.

        A `NotFiniteError` if it gives NaN, or gives a canary no probability at all.
        """
        assert self._model is not None
        batcher = Batcher(self._model, batch_size=self._options.batch_size)
        rows: dict[int, tuple[float, Exposure, float | None]] = {}
        samples = zip(self._drawn, self._samples_after(token), strict=True)
        for (format, places, _, _), sample in samples:
            result = sample.measure(batcher)
            if not np.isfinite(result.px_bits).all():
                raise NotFiniteError(
                    f"the model gives a canary of {format.masked!r} probability 0",
                    cure="check which tokens the model forbids",
                )
            curve = [bits if math.isfinite(bits) else None for bits in result.curve_bits.tolist()]
            own = zip(result.px_bits.tolist(), result.exposures, curve, strict=True)
            rows.update(zip(places, own, strict=True))
        return Measured(*zip(*(rows[place] for place in sorted(rows)), strict=True))

    def take_last(self, model: Any, step: int, epoch: float | None) -> str | None:
        """Measure the last step, if that was not tried; which canaries are above the limit there.

        With a limit, what failed is tried again. An `InputError` or `ModelError` if that cannot
        be, or says nothing of what was trained. Without a limit, nothing is measured where there
        is no model or was no step.
        """
        above, limited, history = None, self.kept.rule is not None, self.kept.history
        known = history.measured if limited else history.moments
        if [moment.step for moment in known[-1:]] != [step]:
            if model is None and limited:
                raise InputError(
                    f"{self._asked} no step of the training was measured at its end: step was "
                    "not called since the start or the last pause",
                    cure="call step(model) behind every step of the optimizer, and then finish",
                )
            if not limited and (model is None or not step):
                return None
            with self.time.own():
                moment, above = self.take(unwrapped(model), step, epoch, whatever=True)
            if limited and moment is not None and moment.reason is not None:
                raise ModelError(
                    f"{self._asked} exposure could not be measured at the last step ({step}): "
                    f"{moment.reason}",
                    cure="audit the model before it is used (canary audit)",
                )
        if limited:
            self._check_changed()
        return above

    def _check_changed(self) -> None:
        """A `ModelError` if all measurements, of a training with a limit, were of one model."""
        measured = self.kept.history.measured
        if len(measured) > 1 and len({moment.px_bits for moment in measured}) == 1:
            raise ModelError(
                f"{self._asked} the model gave the same numbers at all {len(measured)} "
                "measurements, as a copy of the trained model would",
                cure="give step the model that is trained, not a copy of it",
            )

    def unseen(self) -> ModelError | None:
        """The error of a training without canaries; to be asked in all processes."""
        batches = self.batches
        read = any_process(batches.findable and batches.batches > 0)
        seen = any_process(batches.injected or self.kept.seen_before)
        if seen or not read or self.kept.history.stopped_at is not None:
            return None
        return ModelError(
            f"{self._asked} no injected canary was seen whole in any batch of the training that "
            "was read",
            cure="train on the output of canary inject with this set, give the tokenizer of the "
            "training, and let no length limit cut canaries",
        )

    @property
    def _asked(self) -> str:
        assert self.kept.rule is not None
        return f"stop_above_bits={self.kept.rule.bits:g} was given, and"
