"""Canaries beside the same draws at every moment of a training, after any start token."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from canary.audits.history import WatchedCanary, WatchedFormat
from canary.audits.sample import Sample
from canary.corpus.canaries import CanarySet
from canary.errors import InputError, ModelError, NotFiniteError
from canary.models.language_model import LanguageModel
from canary.models.loading import load
from canary.models.noise import remeasure_noise
from canary.records.validation import AUTO, named_start
from canary.scoring.batcher import Batcher
from canary.scoring.run_options import RunOptions
from canary.scoring.texts import score_encodings
from canary.statistics.exposures import Exposure, exposure_by_draws
from canary.tokens.candidates import CandidateEncoder
from canary.tokens.normalization_check import check_kept_apart
from canary.tokens.starts import possible_starts
from canary.tokens.tokenizer import Tokenizer

_STREAM = 0x6D6F6E69  # keeps the draws apart from the canaries of the same seed
_COARSE = ("bfloat16", "float16")  # arithmetic whose noise is measured at every moment
_TRIED = 16  # rows by which the first measurement is estimated


@dataclass(frozen=True, eq=False)
class Measured:
    """The canaries of a set under a model, in their order."""

    px_bits: tuple[float, ...]
    exposures: tuple[Exposure, ...]
    curve_bits: tuple[float | None, ...]


class LivePricer:
    """Draws from each format, made once and encoded once for each start token.

    Parameters
    ----------
    canaries : CanarySet
    tokenizer : Tokenizer
    options : RunOptions
    draws : int
        From each format.

    Attributes
    ----------
    canaries, formats
        What a history says of them.
    model : LanguageModel or None
        The module behind the seam, once it is prepared.

    Raises
    ------
    FormatError, InputError, ModelError
        If a format cannot be ranked under this tokenizer.
    """

    def __init__(
        self, canaries: CanarySet, tokenizer: Tokenizer, options: RunOptions, *, draws: int
    ) -> None:
        self._tokenizer, self._options = tokenizer, options
        self.canaries = tuple(WatchedCanary(c.id, c.format, c.repetitions) for c in canaries)
        self._fills = [c.fill for c in canaries]
        self._drawn = []
        for number, format in enumerate(canaries.formats):
            format.check_prefix_free()
            rng = np.random.default_rng([_STREAM, options.seed, number])
            self._drawn.append((format, format.sample(min(draws, format.size), rng=rng)))
        self.formats = tuple(
            WatchedFormat(format.text, format.masked, format.size, len(drawn))
            for format, drawn in self._drawn
        )
        self._samples: dict[str | None, list[Sample]] = {}
        self._first = self._first_samples()
        self._module: Any = None
        self.model: LanguageModel | None = None

    def _places(self, number: int) -> list[int]:
        return [at for at, canary in enumerate(self.canaries) if canary.format == number]

    def _first_samples(self) -> list[Sample]:
        """After the start token that was asked for, or the first that serves."""
        asked = self._options.start_token
        tokens = [named_start(asked)]
        if asked == AUTO:
            tokens = list(possible_starts(self._tokenizer, 2**31))
        for token in tokens:
            try:
                return self._samples_after(token)
            except InputError as error:
                if type(error) is not InputError or token == tokens[-1]:
                    raise
                # A format that begins with a hole needs something before it.
        raise AssertionError("no start token at all")

    def _samples_after(self, token: str | None) -> list[Sample]:
        if token not in self._samples:
            encoder = CandidateEncoder(self._tokenizer, token, self._options.context)
            samples = []
            for number, (format, drawn) in enumerate(self._drawn):
                check_kept_apart(format, encoder)
                fills = [self._fills[at] for at in self._places(number)]
                samples.append(Sample.of(format, fills, drawn, encoder))
            self._samples[token] = samples
        return self._samples[token]

    def certain_bits(self) -> tuple[float, ...]:
        """Of each format, the largest exposure that its draws can show: no draw as likely."""
        return tuple(
            exposure_by_draws([0.0], np.ones(f.draws), space_size=f.space_size)[0].lower_bits
            for f in self.formats
        )

    def prepare(self, module: Any, now: Callable[[], float]) -> float | None:
        """Have the module behind the seam; the seconds that a measurement will take.

        None if the module is the same as before.
        """
        if self._module is module:
            return None
        model = load(module, tokenizer=self._tokenizer)
        batcher = self._batcher(model)
        batcher.check_length(max(sample.rows.longest for sample in self._first))
        some = [row for sample in self._first for row in sample.rows.encodings][:_TRIED]
        began = now()
        score_encodings(batcher, some)
        tokens = sum(sample.rows.tokens(model) for sample in self._first)
        cost = (now() - began) * tokens / sum(len(row.ids) for row in some)
        if model.facts.dtype in _COARSE:
            began = now()
            remeasure_noise(model)
            cost += now() - began
        self._module, self.model = module, model
        return cost

    def release(self) -> None:
        """Let the module go."""
        self._module = self.model = None

    def facts(self) -> dict[str, Any]:
        """What is known of the model, but for the fingerprint of a moment."""
        assert self.model is not None
        facts = self.model.facts.to_dict()
        del facts["fingerprint"]
        return facts

    def follow_noise(self, *, strict: bool) -> str | None:
        """Measure the noise of 16-bit arithmetic anew: it moves with the weights.

        That of finer arithmetic stays far below the distances of candidates. Returns why
        nothing can be measured, if the differences are no rounding; raises that if `strict`.
        """
        assert self.model is not None
        if self.model.facts.dtype not in _COARSE:
            return None
        try:
            remeasure_noise(self.model)
        except NotFiniteError:
            raise
        except ModelError as error:
            if strict:
                raise
            return error.problem
        return None

    def measure(self, token: str | None) -> Measured:
        """All canaries after a start token, under the model as it is now.

        Raises
        ------
        NotFiniteError
            If the model gives NaN, or gives a canary no probability at all.
        OutOfMemory
            If not even one row fits.
        """
        assert self.model is not None
        found: dict[int, tuple[float, Exposure, float | None]] = {}
        batcher = self._batcher(self.model)
        for number, sample in enumerate(self._samples_after(token)):
            result = sample.measure(batcher)
            if not np.isfinite(result.px_bits).all():
                raise NotFiniteError(
                    f"the model gives a canary of {self.formats[number].masked!r} probability 0",
                    cure="check which tokens the model forbids",
                )
            curve = [bits if math.isfinite(bits) else None for bits in result.curve_bits.tolist()]
            parts = zip(result.px_bits.tolist(), result.exposures, curve, strict=True)
            found.update(zip(self._places(number), parts, strict=True))
        ordered = [found[at] for at in sorted(found)]
        return Measured(*(tuple(column) for column in zip(*ordered, strict=True)))

    def _batcher(self, model: LanguageModel) -> Batcher:
        return Batcher(model, batch_size=self._options.batch_size)
