"""A server that is asked for text alone: what it writes after a prompt."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from canary.errors import ServerError
from canary.models.served.client import Client, RefusedError
from canary.models.served.endpoint import Endpoint
from canary.models.served.handshake import model_served
from canary.models.served.wire import CHAT_PATH, PATH

_PROBE, _PROBE_TOKENS, _PROBES = "The", 24, 4
_BEGINNINGS = ("The", "the man said", "and then we")
CHECKS = 1 + _PROBES + 2 * len(_BEGINNINGS)
"""Requests before the first sample of a run: the list of models, draws, and what is repeated."""
_TRIES = 3
_DRAWN = "drawn"
_REQUEST = "Continue this text. Answer with the continuation only.\n\n"


@dataclass(frozen=True)
class Written:
    """An answer, with white space as single spaces, and whether a limit ended it.

    `lowered` if that was a lower limit than the one asked for.
    """

    text: str = field(repr=False)
    cut: bool
    lowered: bool = False


class Writer:
    """What a server writes after a prompt, each time drawn anew.

    Parameters
    ----------
    endpoint : Endpoint
        `answers` and `top_k` are not used.
    temperature : float
        0 asks for the most probable token each time.
    chat : bool
        Ask ``/chat/completions`` to continue a text; else ``/completions``.

    Raises
    ------
    ServerError
        If the server cannot be reached, answers in no known form, writes nothing, or writes the
        same text again and again although it should draw.
    InputError
        If the model's name is needed.
    MissingExtraError
        If the HTTP client is not installed.

    Notes
    -----
    Five requests are sent before the first one that counts, and `recognize` sends up to six.
    """

    def __init__(self, endpoint: Endpoint, *, temperature: float, chat: bool) -> None:
        self._client, self._where = Client(endpoint), endpoint.base
        self._temperature, self._chat, self._seeded = temperature, chat, True
        self.likeliest: list[str] = []
        """Digests of what it repeats at temperature 0, after each of some beginnings.

        Else "drawn" where it did not even begin with the same word, as servers do that draw.
        """
        self.answered = ""
        """What the server calls the model that answers."""
        self.name, _ = model_served(self._client, endpoint.model, where=endpoint.base)
        self._check()

    @property
    def sent(self) -> int:
        """Requests sent so far, retries included."""
        return self._client.sent

    @property
    def tokens(self) -> int:
        """Tokens of the prompts so far, roughly."""
        return self._client.tokens

    @property
    def repeats(self) -> bool:
        """Whether it repeats any text at temperature 0."""
        return any(text not in ("", _DRAWN) for text in self.likeliest)

    @property
    def forces(self) -> bool:
        """Whether it draws at temperature 0, after each beginning: it keeps none that is given."""
        return bool(self.likeliest) and all(text == _DRAWN for text in self.likeliest)

    def say_throttled(self) -> None:
        """Say how often the server refused requests because they were too many, if it did."""
        self._client.throttle.say_all()

    def recognize(self, known: list[str] | None = None) -> None:
        """Find out what it repeats at temperature 0, or refuse another model than the `known`."""
        if known is not None:
            self.likeliest = known
            for number in range(len(known)):
                self.check_same(number)
            return
        with suppress(RefusedError):  # some take no temperature of 0
            for text in _BEGINNINGS:
                # Numerical noise rarely changes the first word; a seed decides draws only.
                first, second = (self._greedy(text, seed=seed) for seed in range(2))
                alike = first.split()[:1] == second.split()[:1]
                differs = "" if alike or not first or not second else _DRAWN
                self.likeliest.append(_digest(first) if first == second else differs)

    def check_same(self, number: int, *, hurried: bool = False) -> None:
        """Refuse a model that writes other texts at temperature 0 than the one asked first.

        `hurried` where something else is being raised: then neither wait long nor try again.
        """
        at = number % len(_BEGINNINGS)
        known = self.likeliest[at] if self.likeliest[at:] else ""
        ask = {"last": True, "hurried": hurried}
        repeated = known not in ("", _DRAWN)
        again = (self._greedy(_BEGINNINGS[at], **ask) for _ in range(_TRIES))
        if repeated and all(_digest(text) != known for text in again):
            raise ServerError(
                "serves another model under this name than the one that was sampled first: at "
                "temperature 0 it writes other texts",
                cure="serve the first one and start again, which keeps what is finished; or "
                "begin anew in another folder",
                where=self._where,
            )

    def _greedy(self, prompt: str, *, seed: int = 0, **how: bool) -> str:
        return self.write(prompt, seed=seed, tokens=_PROBE_TOKENS, temperature=0.0, **how).text

    def write(
        self,
        prompt: str,
        *,
        seed: int,
        tokens: int,
        temperature: float | None = None,
        **how: bool,
    ) -> Written:
        """What the server writes after `prompt`, at most this number of tokens.

        `how` goes to `Client.post`.
        """
        body: dict[str, Any] = {
            "model": self.name,
            "max_tokens": tokens,
            "temperature": self._temperature if temperature is None else temperature,
        }
        if self._chat:
            body["messages"] = [{"role": "user", "content": _REQUEST + prompt}]
        else:
            body["prompt"] = prompt
        # Without one of its own each time, some servers draw the same text for all.
        seeded = {"seed": seed} if self._seeded else {}
        path = CHAT_PATH if self._chat else PATH
        return self._read(self._client.post(path, body | seeded, **how), tokens)

    def _check(self) -> None:
        def probes() -> list[Written]:
            ask = {"tokens": _PROBE_TOKENS, "trying": True}
            return [self.write(_PROBE, seed=n, **ask) for n in range(_PROBES)]  # type: ignore[arg-type]

        try:
            found = probes()
        except RefusedError:
            self._seeded = False
            found = probes()
        texts = {each.text for each in found}
        if texts == {""}:
            raise ServerError(
                "writes nothing after a prompt",
                cure="check the name of the model, or ask as a chat (--chat) where it only chats",
                where=self._where,
            )
        if self._temperature > 0 and len(texts) == 1:
            raise ServerError(
                f"wrote the same text {_PROBES} times: it does not draw, so no number of samples "
                "shows what it can write",
                cure="turn off its cache, or raise --temperature; with --temperature 0 one "
                "sample for each prompt shows what it writes",
                where=self._where,
            )

    def _read(self, answer: Any, tokens: int) -> Written:
        try:
            (choice,) = answer["choices"]
            said = choice["message"]["content"] if self._chat else choice["text"]
            ended = choice.get("finish_reason")
            used = (answer.get("usage") or {}).get("completion_tokens")
            text = plain(said or "")
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ServerError(
                f"gave an answer that cannot be read ({type(error).__name__})",
                cure="give the address of an OpenAI-compatible server (…/v1), and --chat if it "
                "only chats",
                where=self._where,
            ) from None
        self._same_model(answer)
        cut = ended == "length" or used == tokens
        # No token is shorter than a byte.
        fewer = len((said or "").encode()) < tokens or (isinstance(used, int) and used < tokens)
        return Written(text, cut, cut and fewer)

    def _same_model(self, answer: Mapping[str, Any]) -> None:
        """Refuse a second name; the first may be longer than the one that was asked for."""
        said = answer.get("model")
        if not isinstance(said, str) or not said:
            return
        self.answered = self.answered or said
        if said != self.answered:
            raise ServerError(
                f"answered as the model {self.answered!r} and then as {said!r}",
                cure="name one model with --served-model; answers of two are never mixed",
                where=self._where,
            )


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest() if text else ""


def plain(text: str) -> str:
    """A text with each run of white space as one space, and none around it."""
    return re.sub(r"\s+", " ", text).strip()
