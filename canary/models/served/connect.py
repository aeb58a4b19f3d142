"""From the address of a server to a model behind the seam."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np

from canary.errors import InputError, ServerError
from canary.models.language_model import LanguageModel, ModelFacts
from canary.models.served.answer_store import Answers, open_answers
from canary.models.served.client import Client
from canary.models.served.echoed import EchoedModel
from canary.models.served.endpoint import Endpoint
from canary.models.served.handshake import Agreed, check_aligned_at, model_served, shake_hands
from canary.models.served.next_tokens import agree_on_next, distance, read_next
from canary.models.served.request_format import Floats
from canary.models.served.top_k_model import LikeliestModel
from canary.models.served.verified_cache import Asking
from canary.models.served.wire import PATH
from canary.tokens.tokenizer import Tokenizer

__all__ = ["open_endpoint"]


def open_endpoint(endpoint: Endpoint, tokenizer: Tokenizer | None) -> LanguageModel:
    """The model at an endpoint, after a handshake.

    Raises
    ------
    InputError
        If no tokenizer was named, or the model's name is needed.
    ServerError
        If the server cannot be reached or its numbers cannot be used, with the reason.
    MissingExtraError
        If the HTTP client is not installed.
    """
    if tokenizer is None:
        raise InputError(
            "a served model needs the tokenizer that it was trained with",
            cure="name its folder or tokenizer.json with --tokenizer",
            where=endpoint.base,
        )
    client, base, top = Client(endpoint), endpoint.base, endpoint.top_k
    name, limit = model_served(client, endpoint.model, where=base)
    if top is None:
        agreed = shake_hands(client, name, tokenizer, where=base, in_flight=endpoint.in_flight)
    else:
        agreed = agree_on_next(client, name, tokenizer, top, where=base)
    apart = _farthest if top is None else distance
    answers = _answers(endpoint, name, tokenizer)
    first = _first(agreed, answers, apart, base)
    facts = ModelFacts(
        name=name,
        vocabulary=tokenizer.size,
        length_limit=None if limit is None else limit - 1,  # one token is generated
        dtype="unknown",
        attention="unknown",
        device="served",
        fingerprint=hashlib.sha256(f"{name}\n".encode() + first.tobytes()).hexdigest(),
        noise_bits_per_token=agreed.noise_bits_per_token,
        capabilities=("score", "expand") if top is None else ("expand",),
    )
    asking = Asking(
        client,
        endpoint,
        answers,
        probe=_prober(client, agreed, top, apart),
        tolerance=agreed.tolerance,
    )
    if top is None:
        return EchoedModel(
            agreed.manner,
            asking,
            facts,
            checked=max(len(probe.ids) for probe in agreed.probes),
            check=lambda ids: check_aligned_at(client, agreed, ids),
        )
    return LikeliestModel(agreed.manner, asking, facts, top=top)


def _prober(
    client: Client, agreed: Agreed, top: int | None, apart: Callable[[Floats, Floats], float]
) -> Any:
    """What asks for a probe again."""
    manner, probes = agreed.manner, agreed.probes

    def probe(number: int, *, hurried: bool) -> float:
        chosen = probes[number % len(probes)]
        request = manner.request(chosen.ids, echo=top is None, top=top or 1)
        answer = client.post(PATH, request, hurried=hurried, last=True, quote=True)
        if top is None:
            found = manner.echoed(answer, chosen.ids)
        else:
            found = read_next(manner, answer, chosen.ids)
        return apart(found, chosen.log_probs)

    return probe


def _farthest(now: Floats, then: Floats) -> float:
    if len(now) != len(then):
        return np.inf
    least = -1e4  # a probability of 0 is as far from another as from itself
    return float(np.abs(np.maximum(now, least) - np.maximum(then, least)).max())


def _answers(endpoint: Endpoint, name: str, tokenizer: Tokenizer) -> Answers:
    top = endpoint.top_k
    identity = {
        "task": "answers of a served model",
        "server": endpoint.base,
        "served model": name,
        "tokenizer": getattr(tokenizer, "fingerprint", tokenizer.size),
        "asked for": "echo" if top is None else f"the {top} likeliest",
    }
    return open_answers(endpoint.folder, name, identity)


def _first(
    agreed: Agreed, answers: Answers, apart: Callable[[Floats, Floats], float], where: str
) -> Floats:
    """What the model said of the probes first of all; another model's answers are refused."""
    now = [probe.log_probs for probe in agreed.probes]
    first = answers.first(np.concatenate([(float(len(part)), *part) for part in now]))
    then, at = [], 0
    while at < len(first):
        end = at + 1 + int(first[at])
        then.append(first[at + 1 : end])
        at = end
    moved = [apart(*both) for both in zip(now, then, strict=False)]
    if len(then) != len(now) or max(moved) > agreed.tolerance:
        raise ServerError(
            f"serves another model under this name than when {len(answers):,} answers were kept "
            f"(log-probabilities differ by {max(moved, default=np.inf):.2g} nats)",
            cure=f"serve the one that was asked then, or remove {answers.folder} to begin anew",
            where=where,
        )
    return first
