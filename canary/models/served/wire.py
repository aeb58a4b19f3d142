"""Answers as they come over the wire of the completions API."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from canary.errors import ServerError

PATH = "/completions"
CHAT_PATH = "/chat/completions"

_MOST = 1e-3  # rounding may lift a log-probability above 0 by so little


@dataclass(frozen=True)
class Choice:
    """What one answer says.

    The model and its build (``system_fingerprint``) as the server calls them, and how many tokens
    it read, are None where it does not say so. `tokens` are those that have log-probabilities,
    None if the answer has none. `log_probs` are in nats, NaN as it came; None where the server
    gives none. `top` has the most likely tokens in the place of each.
    """

    model: str | None
    build: str | None
    prompt_tokens: int | None
    tokens: tuple[str, ...] | None = field(repr=False)
    log_probs: tuple[float | None, ...] = ()
    top: tuple[Mapping[str, float], ...] = field(default=(), repr=False)


def read_json(text: str, rewrite: Callable[[str], str]) -> Any:
    """An answer, each text in it rewritten; a ValueError or RecursionError if it is no JSON.

    Numbers that bear one name, as log-probabilities of tokens that have one text do, become
    the largest of them.
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
        return [texts(part) for part in value] if isinstance(value, list) else value

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
        read = (answer.get("usage") or {}).get("prompt_tokens")
        about = (
            _text(answer.get("model")),
            _text(answer.get("system_fingerprint")),
            read if isinstance(read, int) else None,
        )
        told = choice.get("logprobs")
        if not told:
            return Choice(*about, None)
        return Choice(*about, *(_by_token if "content" in told else _by_kind)(told))
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
    places = told.get("top_logprobs") or ()
    return tokens, log_probs, tuple(_named((place or {}).items()) for place in places)


def _by_token(told: Mapping[str, Any]) -> _Read:
    """An object for each token, with its number where the server tells it."""

    def said(item: Mapping[str, Any]) -> str:
        number = item.get("id")
        return f"token_id:{number}" if isinstance(number, int) else _token(item["token"])

    content = told["content"]
    top = [[(said(t), t["logprob"]) for t in item.get("top_logprobs") or ()] for item in content]
    return (
        tuple(said(item) for item in content),
        tuple(_log_prob(item["logprob"]) for item in content),
        tuple(map(_named, top)),
    )


def _named(pairs: Iterable[tuple[Any, Any]]) -> dict[str, float]:
    """Alternatives by their texts; of several tokens with one text the most likely."""
    named: dict[str, float] = {}
    for token, written in pairs:
        text, value = _token(token), _log_prob(written)
        if value is not None:
            named[text] = max(value, named.get(text, -math.inf))
    return named


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
