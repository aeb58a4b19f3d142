"""Canaries and draws priced under a model in the midst of its training, after any start token."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from canary.corpus.canaries import CanarySet
from canary.errors import InputError, ModelError, NotFiniteError
from canary.models.language_model import LanguageModel
from canary.models.loading import load
from canary.models.noise import remeasure_noise
from canary.plugins.shared_draws import Measured, SharedDraws
from canary.records.validation import AUTO, named_start
from canary.scoring.batcher import Batcher
from canary.scoring.texts import score_encodings
from canary.tokens.candidates import CandidateEncoder
from canary.tokens.starts import possible_starts
from canary.tokens.tokenizer import Tokenizer

__all__ = ["LivePricer"]

_COARSE = ("bfloat16", "float16")  # arithmetic whose noise is measured at every moment
_TRIED = 16  # rows by which the first measurement is estimated


class LivePricer:
    """The same draws at every moment; the module behind the seam as long as it is kept.

    Parameters
    ----------
    canaries : CanarySet
    tokenizer : Tokenizer
    start_token, context : str
        The start token that was asked for, or ``"auto"``.
    draws, seed : int
    batch_size : int, optional

    Attributes
    ----------
    draws : SharedDraws
        After the start token that was asked for, or the first that serves.
    model : LanguageModel or None
        The module behind the seam, once it is prepared.

    Raises
    ------
    FormatError, InputError, ModelError
        If a format cannot be ranked under this tokenizer.
    """

    def __init__(
        self,
        canaries: CanarySet,
        tokenizer: Tokenizer,
        *,
        start_token: str | None,
        context: str,
        draws: int,
        seed: int,
        batch_size: int | None,
    ) -> None:
        self._tokenizer, self._context = tokenizer, context
        self.batch_size = batch_size
        self._draw = partial(SharedDraws.of, canaries, draws=draws, seed=seed)
        self._by_start: dict[str | None, SharedDraws] = {}
        self._module: Any = None
        self.model: LanguageModel | None = None
        self.draws = self._first(start_token)

    def prepare(self, module: Any, now: Callable[[], float]) -> float | None:
        """Have the module behind the seam; the seconds that a measurement will take.

        None if the module is the same as before.
        """
        if self._module is module:
            return None
        model = load(module, tokenizer=self._tokenizer)
        batcher = Batcher(model, batch_size=self.batch_size)
        batcher.check_length(self.draws.longest)
        some = self.draws.some(_TRIED)
        began = now()
        score_encodings(batcher, some)
        tokens = sum(len(row.ids) for row in some)
        cost = (now() - began) * self.draws.tokens(model) / tokens
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
        """All canaries after a start token, under the model as it is now."""
        assert self.model is not None
        if token not in self._by_start:
            self._by_start[token] = self._drawn(token)
        return self._by_start[token].measure(self.model, batch_size=self.batch_size)

    def _drawn(self, token: str | None) -> SharedDraws:
        return self._draw(CandidateEncoder(self._tokenizer, token, self._context))

    def _first(self, asked: str | None) -> SharedDraws:
        tokens = [named_start(asked)]
        if asked == AUTO:
            tokens = list(possible_starts(self._tokenizer, 2**31))
        for token in tokens:
            try:
                self._by_start[token] = self._drawn(token)
            except InputError as error:
                if type(error) is not InputError or token == tokens[-1]:
                    raise
                continue  # a format that begins with a hole needs something before it
            break
        return self._by_start[token]
