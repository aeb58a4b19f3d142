"""How one server is asked for one model, and what its answers must look like.

What an answer says of a row is one array of numbers. Of an echo: the log-probability of each token
but the first. Of next tokens: a bound for all that are not named, then a token and its
log-probability in turn.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from canary.errors import ServerError
from canary.models.answered import not_finite
from canary.models.served.token_texts import Texts
from canary.models.served.wire import Choice, read_choice

Floats = NDArray[np.float64]

_EXCESS = 1e-2
_ROUNDING = 1e-5  # by so much may the likeliest tokens sum to too little
_LEAST = -1e4  # a probability of 0 is as far from another as from itself
_WITHOUT_ECHO = (
    "use a server that gives log-probabilities of a prompt (vLLM does), or canary exposure, "
    "extract or membership order with --top-k, which take the most likely next tokens; "
    "if it returns text only, canary sample"
)
_TOKENIZER = "name the tokenizer that the model was trained with (--tokenizer)"
_SHOWN = (
    f"{_TOKENIZER}; if it is that one, the server names tokens by texts that are not theirs: use "
    "one that names them by number (return_tokens_as_token_ids, as vLLM does)"
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


@dataclass(frozen=True)
class Manner:
    """How a server is asked for the model that it calls `model`, at the address `where`.

    Parameters
    ----------
    texts : Texts
        Of the tokenizer that the model was trained with.
    top : int or None
        How many of the likeliest next tokens to ask for; None to have rows echoed.
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
    top: int | None
    as_text: bool
    numbered: bool
    shown: int = 0
    hidden: int | None = None
    build: str | None = None

    def request(self, ids: Sequence[int], *, following: int | None = None) -> dict[str, Any]:
        """What to ask for a row of tokens; or for the `following` most likely tokens after it."""
        prompt = self.texts.text(ids) if self.as_text else [int(token) for token in ids]
        return self.body(prompt, following or self.top)

    def body(self, prompt: str | list[int], top: int | None) -> dict[str, Any]:
        """The body of a request for the `top` most likely tokens after a prompt; None: for an echo.

        One token is always generated: some servers take no fewer, and others read 0 as no limit.
        """
        body = {"model": self.model, "prompt": prompt, "max_tokens": 1, "temperature": 0}
        options = {"echo": top is None, "return_tokens_as_token_ids": self.numbered}
        wanted = {name: True for name, value in options.items() if value}
        return body | {"logprobs": top or 1} | wanted

    def numbers(self, answer: Any, ids: Sequence[int]) -> Floats:
        """What an answer says of a row.

        A ServerError if it is not about these tokens, or cannot be what it seems to be; a
        ModelError if a number is NaN.
        """
        choice = self.read(answer, ids)
        numbers = self._echoed(choice, ids) if self.top is None else self._next(choice)
        if np.isnan(numbers).any():
            raise not_finite(self.model)
        return numbers

    def apart(self, now: Floats, then: Floats) -> float:
        """How far two answers to one question are apart, in nats."""
        if self.top is None:
            if len(now) != len(then):
                return math.inf
            return float(np.abs(np.maximum(now, _LEAST) - np.maximum(then, _LEAST)).max())
        here, there = (dict(zip(a[1::2], a[2::2], strict=True)) for a in (now, then))
        both = here.keys() & there.keys()
        if 2 * len(both) < max(len(here), len(there)):
            return math.inf
        return max((abs(here[token] - there[token]) for token in both), default=0.0)

    def read(self, answer: Any, ids: Sequence[int]) -> Choice:
        """An answer about `ids`, if it comes from the model that was asked."""
        choice = read_choice(answer, where=self.where)
        for name, said, agreed in (
            ("model", choice.model, self.model),
            ("build", choice.build, self.build),
        ):
            if said is not None and agreed is not None and said != agreed:
                raise self.odd(
                    f"answered as the {name} {said!r}, and {agreed!r} was asked",
                    "name the model that is served with --served-model; numbers of two models "
                    "are never mixed",
                )
        read = choice.prompt_tokens
        if self.hidden is not None and read is not None and read != len(ids) + self.hidden:
            raise self.odd(
                f"says that it read {read} tokens (usage.prompt_tokens) where "
                f"{len(ids) + self.hidden} were meant",
                _MISCOUNTED if self.as_text else _CUT,
            )
        return choice

    def next_log_probs(self, choice: Choice) -> dict[str, float]:
        """What an answer says of the next token, if it can be probabilities.

        Logarithms of base 10 are too large for natural ones: together they are more than 1. Those
        of base 2 are too small, which shows where the model has few tokens, or is nearly sure
        of one: what is left for all others is not enough.
        """
        named = dict(choice.top[0]) if choice.top else {}
        total = math.fsum(map(math.exp, named.values()))
        # A text that stands for several tokens hides all but one of them. Models may have more
        # tokens than their tokenizers, but hardly twice as many.
        rest = math.inf
        if named and all(self.texts.number(said) is not None for said in named):
            rest = 2 * self.texts.tokenizer.size * math.exp(_least_told(choice))
        problem = ""
        if total > 1 + _EXCESS:
            problem = f"gives the most likely next tokens a probability of {total:.3g} together"
        if total + rest < 1 - _EXCESS:
            problem = f"leaves all next tokens a probability of at most {total + rest:.3g} together"
        if problem:
            raise self.odd(
                problem,
                "have it give natural logarithms of the model's probabilities, before sampling",
            )
        return named

    def told_of(self, choice: Choice, tokens: int) -> Manner:
        """The manner, with what the first answer about these tokens says besides.

        A ServerError if token ids were sent, and the server read others besides.
        """
        read = choice.prompt_tokens
        hidden = None if read is None else read - tokens
        if hidden and not self.as_text:
            raise self.odd(
                f"says that it read {read} tokens (usage.prompt_tokens) where {tokens} were sent",
                f"it puts tokens of its own before a prompt: {_NO_START}" if hidden > 0 else _CUT,
            )
        return replace(self, build=choice.build, hidden=hidden)

    def fits(self, told: Sequence[str], ids: Sequence[int]) -> bool:
        """Whether the answer of a server begins with these tokens."""
        return len(told) >= len(ids) and all(map(self.texts.is_token, told, ids))

    def _echoed(self, choice: Choice, ids: Sequence[int]) -> Floats:
        n = len(ids)
        if choice.tokens is None:
            raise self.odd("gives no log-probabilities with its answers", _WITHOUT_ECHO)
        told = choice.tokens[self.shown :]
        if len(told) < n:
            raise self.odd(
                f"was sent {n} tokens to echo, and returned {len(told)}: it does not echo a "
                "prompt, or makes fewer tokens of it",
                _WITHOUT_ECHO,
            )
        for place, (said, token) in enumerate(zip(told, ids, strict=False)):
            if not self.texts.is_token(said, token):
                if place == 0 and self.fits(told[1:], ids):
                    raise self.odd("puts a token before a prompt that was not sent", _NO_START)
                raise self.odd(
                    f"makes other tokens of a prompt: number {place + 1} of {n} is another",
                    _TOKENIZER if self.as_text else _SHOWN,
                )
        if choice.log_probs[0] is not None:
            raise self.odd(
                "gives the first token of all a log-probability: it puts a token before a prompt "
                "that was not sent, or the number is not of this token",
                f"{_NO_START}; the number of the first token is null then, as vLLM's is",
            )
        values = choice.log_probs[self.shown + 1 : self.shown + n]
        if None in values:
            raise self.odd(
                f"gives no log-probability of token {values.index(None) + 2} of {n}",
                _WITHOUT_ECHO,
            )
        return np.array(values, np.float64)

    def _next(self, choice: Choice) -> Floats:
        """The likeliest next tokens, and the bound for the others.

        A token that is not told has at most what is left of the probability, and at most that
        of the least likely one that is told. One that is told by a text which stands for
        several tokens may be any of them.
        """
        if not choice.tokens or not choice.top or not choice.top[0]:
            raise self.odd(
                "does not return the most likely next tokens",
                "use a server that gives log-probabilities of generated tokens (logprobs)",
            )
        if any(map(math.isnan, choice.top[0].values())):
            raise not_finite(self.model)
        told = self.next_log_probs(choice)
        named: dict[int, float] = {}
        unnamed = -math.inf
        for said, value in told.items():
            token = self.texts.number(said)
            if token is None:
                unnamed = max(unnamed, value)
            else:
                named[token] = value
        left = 1.0 - math.fsum(map(math.exp, told.values()))
        bound = max(min(math.log(max(left, 0.0) + _ROUNDING), _least_told(choice)), unnamed)
        return np.array([min(bound, 0.0), *(number for pair in named.items() for number in pair)])

    def odd(self, problem: str, cure: str) -> ServerError:
        """What is wrong with the server, at its address."""
        return ServerError(problem, cure=cure, where=self.where)


def log_probs_of(told: Floats, tokens: NDArray[np.int32]) -> tuple[Floats, NDArray[np.bool_]]:
    """Log-probabilities of some next tokens, and which of them are more than bounds."""
    order = np.argsort(told[1::2], kind="stable")
    named, values = told[1::2][order], told[2::2][order]
    if not len(named):
        return np.full(len(tokens), told[0]), np.zeros(len(tokens), np.bool_)
    at = np.minimum(np.searchsorted(named, tokens), len(named) - 1)
    exact = named[at] == tokens
    return np.where(exact, values[at], told[0]), exact


def _least_told(choice: Choice) -> float:
    """Log-probability that no next token exceeds which an answer does not name.

    The token that was sampled does not count: servers tell it beside the likeliest ones, and it
    need not be among them.
    """
    sampled = (choice.tokens or ("",))[0]
    listed = [value for said, value in choice.top[0].items() if said != sampled]
    return min(listed, default=0.0)
