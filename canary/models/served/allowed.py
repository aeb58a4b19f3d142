"""What a server allows, asked with a few short prompts: for choosing a command."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from canary.errors import ServerError
from canary.models.served.client import Client, NoKeyError
from canary.models.served.endpoint import Endpoint
from canary.models.served.handshake import model_served
from canary.models.served.wire import CHAT_PATH, PATH, Choice, read_choice
from canary.records.record import Record

_PROMPT = "The quick brown fox"
USUALLY_ASKED = 10
"""Requests that `allowed` takes, up to two fewer or three more."""
_TOPS = (100, 50, 20, 10, 5, 1)


@dataclass(frozen=True)
class Allowed(Record):
    """What a server allows.

    Parameters
    ----------
    name : str
        What it calls the model.
    length_limit : int or None
        Tokens that it says it takes; None if it does not say.
    completions, chat : bool
        Whether it continues a text at ``/completions``, and answers at ``/chat/completions``.
    draws : bool
        Whether completions at temperature 1 differ with the seed.
    prompt_log_probs : bool
        Whether it echoes a prompt with the log-probability of each token.
    top_k, top_asked : int
        Most likely next tokens that it returned with log-probabilities, and how many it was then
        asked for; 0 for none.
    token_ids : bool
        Whether a prompt may be token ids.
    requests : int
        What it took to find out.
    """

    name: str
    length_limit: int | None
    completions: bool
    chat: bool
    draws: bool
    prompt_log_probs: bool
    top_k: int
    top_asked: int
    token_ids: bool
    requests: int

    def rows(self) -> list[tuple[str, str, str]]:
        """What is asked, whether it is allowed, and which commands need it."""
        text = "canary sample"
        exact = "canary audit, exposure, extract, score, membership text, membership order"
        bounds = (
            f"canary exposure, extract, membership order, with --top-k {min(self.top_k, 20) or 5}"
        )
        top = f"{self.top_k}" if self.top_k else "no"
        if self.top_k:
            least = "at least " if self.top_k >= self.top_asked else ""
            top = f"{least}{self.top_k} (asked for {self.top_asked})"
        limit = "not said" if self.length_limit is None else f"{self.length_limit:,} tokens"
        return [
            ("text at /completions", _said(self.completions), text),
            ("other text with each seed", _said(self.draws), "canary sample"),
            ("chat at /chat/completions", _said(self.chat), "canary sample --chat"),
            ("log-probabilities of a prompt", _said(self.prompt_log_probs), exact),
            ("most likely next tokens", top, bounds),
            ("prompts of token ids", _said(self.token_ids), "start tokens by --start-token"),
            ("longest prompt", limit, ""),
        ]


def _said(value: object) -> str:
    return "yes" if value else "no"


def allowed(endpoint: Endpoint) -> Allowed:
    """Ask a server what it allows, with a few requests of a few words.

    Raises
    ------
    ServerError, InputError
        If it cannot be reached, allows nothing (as for want of a key), or has several models and
        none was named.
    """
    client = Client(endpoint)
    name, limit = model_served(client, endpoint.model, where=endpoint.base)

    def asked(more: dict[str, Any], path: str = PATH) -> Any:
        body = {"model": name, "max_tokens": 1, "temperature": 0, **more}
        if path == PATH:
            body.setdefault("prompt", _PROMPT)
        return client.post(path, body, quote=True, trying=True, hurried=True)

    def read(more: dict[str, Any]) -> Choice:
        return read_choice(asked(more), where=endpoint.base)

    def text(seed: int) -> str:
        drawn = asked({"max_tokens": 16, "temperature": 1, "seed": seed})
        return str(drawn["choices"][0]["text"])

    failures: list[ServerError] = []
    texts = _tried(failures, lambda: {text(seed) for seed in range(3)})
    chats = [{"role": "user", "content": _PROMPT}]
    chat = _tried(
        failures, lambda: asked({"messages": chats}, CHAT_PATH)["choices"][0]["message"]["content"]
    )
    echoed = _tried(failures, lambda: read({"logprobs": 1, "echo": True}).log_probs)
    top, most = 0, 0
    tops = [endpoint.top_k or _TOPS[0]]
    for number in [*tops, *(number for number in _TOPS if number < tops[0])]:
        if not top:
            most = number
            top = _tried(failures, lambda n=number: len(read({"logprobs": n}).top[0]))  # type: ignore[misc]
    ids = _tried(failures, lambda: asked({"prompt": [1, 2, 3]})["choices"])
    if failures and not (texts or chat or echoed or top or ids):  # such as for want of a key
        raise failures[0]
    return Allowed(
        name=name,
        length_limit=limit,
        completions=bool(texts),
        chat=chat is not None,
        draws=bool(texts) and len(texts) > 1,
        prompt_log_probs=bool(echoed) and sum(value is not None for value in echoed) > 1,
        top_k=top or 0,
        top_asked=most if top else 0,
        token_ids=bool(ids),
        requests=client.sent,
    )


def _tried(failures: list[ServerError], ask: Callable[[], Any]) -> Any:
    """What is answered; None where the server refuses, which is kept, or gives something else."""
    try:
        return ask()
    except NoKeyError:
        raise
    except ServerError as error:
        failures.append(error)
    except (KeyError, IndexError, TypeError):
        pass
    return None
