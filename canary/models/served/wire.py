"""Requests and answers as they go over the wire of the completions API."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from canary.errors import ServerError

PATH = "/completions"

_MOST = 1e-3  # rounding may lift a log-probability above 0 by so little


@dataclass(frozen=True)
class Choice:
    """What one answer says.

    Parameters
    ----------
    model : str or None
        The model that the server says it is.
    build : str or None
        Its ``system_fingerprint``.
    prompt_tokens : int or None
        How many tokens the server read.
    tokens : tuple of str, or None
        The tokens that have log-probabilities; None if the answer has none.
    log_probs : tuple of float or None
        Nats of each, NaN as it came; None where the server gives none.
    top : tuple of mappings
        The likeliest tokens in the place of each, with their log-probabilities.
    """

    model: str | None
    build: str | None
    prompt_tokens: int | None
    tokens: tuple[str, ...] | None = field(repr=False)
    log_probs: tuple[float | None, ...] = ()
    top: tuple[Mapping[str, float], ...] = field(default=(), repr=False)


def completion(
    model: str, prompt: str | Sequence[int], *, echo: bool, top: int, numbered: bool
) -> dict[str, Any]:
    """The body of a request for the `top` likeliest tokens after a prompt.

    With `echo` for the tokens of the prompt as well; `numbered`: by their numbers (vLLM). One
    token is always generated: some servers take no fewer, and others read 0 as no limit.
    """
    body: dict[str, Any] = {
        "model": model,
        "prompt": prompt if isinstance(prompt, str) else list(prompt),
        "max_tokens": 1,
        "temperature": 0,
        "logprobs": top,
    }
    if echo:
        body["echo"] = True
    if numbered:
        body["return_tokens_as_token_ids"] = True
    return body


def read_json(text: str, rewrite: Callable[[str], str]) -> Any:
    """An answer, each text in it rewritten.

    Numbers that bear one name, as log-probabilities of tokens that have one text do, become
    the largest of them.

    Raises
    ------
    ValueError, RecursionError
        If it is no JSON.
    """

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for written, value in pairs:
            name = rewrite(written)
            before = made.get(name)
            numbers = isinstance(value, int | float) and isinstance(before, int | float)
            made[name] = max(value, before) if numbers else texts(value)
        return made

    def texts(value: Any) -> Any:
        if isinstance(value, str):
            return rewrite(value)
        return [texts(one) for one in value] if isinstance(value, list) else value

    return texts(json.loads(text, object_pairs_hook=members))


def token_number(token: str) -> int | None:
    """The number in ``token_id:123``; None of another text."""
    number = re.fullmatch(r"token_id:(\d{1,9})", token)
    return None if number is None else int(number[1])


def read_choice(answer: Any, *, where: str) -> Choice:
    """The one choice of an answer.

    Raises
    ------
    ServerError
        If the answer has another shape, or a log-probability is none.
    """
    try:
        (choice,) = answer["choices"]
        usage = answer.get("usage") or {}
        model, build = _text(answer.get("model")), _text(answer.get("system_fingerprint"))
        read = usage.get("prompt_tokens")
        told = choice.get("logprobs")
        prompt_tokens = read if isinstance(read, int) else None
        if not told:
            return Choice(model, build, prompt_tokens, None)
        if "content" in told:
            tokens, log_probs, top = _by_token(told["content"])
        else:
            tokens, log_probs, top = _by_kind(told)
        return Choice(model, build, prompt_tokens, tokens, log_probs, top)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise ServerError(
            f"gave an answer that cannot be read ({type(error).__name__})",
            cure="give the address of an OpenAI-compatible server (…/v1)",
            where=where,
        ) from None


_Read = tuple[tuple[str, ...], tuple[float | None, ...], tuple[dict[str, float], ...]]


def _by_kind(told: Mapping[str, Any]) -> _Read:
    """Tokens, log-probabilities and alternatives each in a list of their own."""
    tokens = tuple(_token(token) for token in told["tokens"])
    log_probs = tuple(_log_prob(value) for value in told["token_logprobs"])
    if len(tokens) != len(log_probs):
        raise ValueError("lists of different lengths")
    top = tuple(
        {_token(t): value for t, v in (place or {}).items() if (value := _log_prob(v)) is not None}
        for place in told.get("top_logprobs") or ()
    )
    return tokens, log_probs, top


def _by_token(content: Sequence[Mapping[str, Any]]) -> _Read:
    """An object for each token, with its number where the server tells it."""
    tokens = tuple(_named(item) for item in content)
    log_probs = tuple(_log_prob(item["logprob"]) for item in content)
    top = []
    for item in content:
        pairs = [(_named(t), _log_prob(t["logprob"])) for t in item.get("top_logprobs") or ()]
        place: dict[str, float] = {}
        for name, value in pairs:  # several tokens may have one text: it stands for the likeliest
            if value is not None:
                place[name] = max(value, place.get(name, -math.inf))
        top.append(place)
    return tokens, log_probs, tuple(top)


def _named(item: Mapping[str, Any]) -> str:
    number = item.get("id")
    return f"token_id:{number}" if isinstance(number, int) else _token(item["token"])


def _token(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("a token that is no text")
    return value


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _log_prob(value: Any) -> float | None:
    if value is None:
        return None
    number = float(value)
    if number > _MOST:
        raise ValueError("no log-probability")
    return number if math.isnan(number) else min(number, 0.0)
