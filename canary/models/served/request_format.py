"""How one server is asked for one model, and what its answers must look like."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from canary.errors import ServerError
from canary.models.noise import not_finite
from canary.models.served.token_texts import Texts
from canary.models.served.wire import Choice, completion, read_choice

__all__ = ["Floats", "Manner", "least_told"]

Floats = NDArray[np.float64]

_WITHOUT_ECHO = (
    "use a server that gives log-probabilities of a prompt (vLLM does), or ask for bounds from "
    "the likeliest next tokens with --top-k"
)
_TOKENIZER = "name the tokenizer that the model was trained with (--tokenizer)"
_SHOWN = (
    f"{_TOKENIZER}; if it is that one, the server tells tokens by texts that are not theirs: use "
    "one that tells them by number (return_tokens_as_token_ids, as vLLM does)"
)
_MISCOUNTED = (
    f"{_TOKENIZER}; if it is that one, the server cuts prompts off, puts tokens before some of "
    "them only, or counts wrongly: use one that does not"
)
_NO_START = (
    "turn that off on the server (a start token is sent with the others, see --start-token); if "
    "it puts none there, it counts wrongly: use a server that does not"
)
_CUT = (
    "it was sent the numbers of tokens, so no tokenizer is the cause: the server cuts prompts "
    "off, puts tokens before some of them only, or counts wrongly; use one that does not"
)


def least_told(choice: Choice) -> float:
    """Log-probability that no next token exceeds which an answer (without echo) does not name.

    The token that was sampled does not count: servers tell it beside the likeliest ones, and it
    need not be among them.
    """
    sampled = (choice.tokens or ("",))[0]
    listed = [value for said, value in choice.top[0].items() if said != sampled]
    return min(listed, default=0.0)


@dataclass(frozen=True)
class Manner:
    """How a server is asked.

    Parameters
    ----------
    model : str
        The name by which the server knows the model.
    texts : Texts
        Of the tokenizer that the model was trained with.
    where : str
        The address, for errors.
    as_text : bool
        Prompts go as texts, which the server tokenizes itself; else as token ids.
    numbered : bool
        Tokens are asked for by their numbers.
    shown : int
        Tokens that answers show before ours.
    hidden : int or None
        Tokens that the server reads before ours, shown or not; None if it does not tell.
    build : str or None
        The ``system_fingerprint`` of the first answer.
    """

    model: str
    texts: Texts
    where: str
    as_text: bool
    numbered: bool
    shown: int = 0
    hidden: int | None = None
    build: str | None = None

    def request(self, ids: Sequence[int], *, echo: bool, top: int = 1) -> dict[str, Any]:
        """What to ask for a row of tokens."""
        prompt = self.texts.text(ids) if self.as_text else [int(token) for token in ids]
        return completion(self.model, prompt, echo=echo, top=top, numbered=self.numbered)

    def read(self, answer: Any, ids: Sequence[int]) -> Choice:
        """An answer about `ids`, if it comes from the model that was asked.

        Raises
        ------
        ServerError
            If it cannot be read, or comes from another model.
        """
        choice = read_choice(answer, where=self.where)
        for name, said, agreed in (
            ("model", choice.model, self.model),
            ("build", choice.build, self.build),
        ):
            if said is not None and agreed is not None and said != agreed:
                raise ServerError(
                    f"answered as the {name} {said!r}, and {agreed!r} was asked",
                    cure="name the model that is served with --served-model; numbers of two "
                    "models are never mixed",
                    where=self.where,
                )
        read = choice.prompt_tokens
        if self.hidden is not None and read is not None and read != len(ids) + self.hidden:
            raise ServerError(
                f"says that it read {read} tokens (usage.prompt_tokens) where "
                f"{len(ids) + self.hidden} were meant",
                cure=_MISCOUNTED if self.as_text else _CUT,
                where=self.where,
            )
        return choice

    def echoed(self, answer: Any, ids: Sequence[int]) -> Floats:
        """Log-probabilities of all tokens of `ids` but the first, in nats.

        Raises
        ------
        ServerError
            If the answer is not about these tokens, one by one.
        ModelError
            If a number is NaN.
        """
        choice, n = self.read(answer, ids), len(ids)
        if choice.tokens is None:
            raise self._odd("gives no log-probabilities with its answers", _WITHOUT_ECHO)
        told = choice.tokens[self.shown :]
        if len(told) < n:
            raise self._odd(
                f"was sent {n} tokens to echo, and told of {len(told)}: it does not echo a "
                "prompt, or makes fewer tokens of it",
                _WITHOUT_ECHO,
            )
        for place, (said, token) in enumerate(zip(told, ids, strict=False)):
            if not self.texts.is_token(said, token):
                if place == 0 and self.fits(told[1:], ids):
                    raise self._odd("puts a token before a prompt that was not sent", _NO_START)
                raise self._odd(
                    f"makes other tokens of a prompt: number {place + 1} of {n} is another",
                    _TOKENIZER if self.as_text else _SHOWN,
                )
        if choice.log_probs[0] is not None:
            raise self._odd(
                "gives the first token of all a log-probability: it puts a token before a prompt "
                "that was not sent, or the number is not of this token",
                f"{_NO_START}; the number of the first token is null then, as vLLM's is",
            )
        values = choice.log_probs[self.shown + 1 : self.shown + n]
        if None in values:
            raise self._odd(
                f"gives no log-probability of token {values.index(None) + 2} of {n}",
                _WITHOUT_ECHO,
            )
        found = np.array(values, np.float64)
        if np.isnan(found).any():
            raise not_finite(self.model)
        return found

    def most_left(self, choice: Choice) -> float:
        """What the next tokens that an answer does not name may have together at the most."""
        if not choice.top or any(self.texts.number(said) is None for said in choice.top[0]):
            return math.inf  # a text that stands for several tokens hides all but one of them
        # Models may have more tokens than their tokenizers, but hardly twice as many.
        return 2 * self.texts.tokenizer.size * math.exp(least_told(choice))

    def told_of(self, choice: Choice, tokens: int) -> Manner:
        """The manner, with what the first answer about so many tokens tells besides.

        Raises
        ------
        ServerError
            If token ids were sent, and the server read others besides.
        """
        read = choice.prompt_tokens
        hidden = None if read is None else read - tokens
        if hidden and not self.as_text:
            raise self._odd(
                f"says that it read {read} tokens (usage.prompt_tokens) where {tokens} were sent",
                f"it puts tokens of its own before a prompt: {_NO_START}" if hidden > 0 else _CUT,
            )
        return replace(self, build=choice.build, hidden=hidden)

    def fits(self, told: Sequence[str], ids: Sequence[int]) -> bool:
        """Whether what a server tells begins with these tokens."""
        return len(told) >= len(ids) and all(map(self.texts.is_token, told, ids))

    def _odd(self, problem: str, cure: str) -> ServerError:
        return ServerError(problem, cure=cure, where=self.where)
