"""From the address of a server to a model behind the seam."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any

import numpy as np

from canary.errors import InputError, ServerError
from canary.models.facts import ModelFacts
from canary.models.language_model import LanguageModel
from canary.models.noise import EPSILON
from canary.models.served.client import Client
from canary.models.served.endpoint import Endpoint
from canary.models.served.handshake import Agreed, model_served, shake_hands
from canary.models.served.request_format import Floats
from canary.models.served.served_model import EchoedModel, LikeliestModel
from canary.models.served.verified_cache import Answers, open_answers
from canary.tokens.tokenizer import Tokenizer


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
    base, top = endpoint.base, endpoint.top_k
    client, tokenizer, facts = found_at(endpoint, tokenizer)
    agreed = shake_hands(
        client, facts.name, tokenizer, top=top, where=base, in_flight=endpoint.in_flight
    )
    answers = open_answers(endpoint.folder, facts.name, identity_of(endpoint, facts, tokenizer))
    first = _first(agreed, answers, base)
    facts = replace(
        facts,
        fingerprint=hashlib.sha256(f"{facts.name}\n".encode() + first.tobytes()).hexdigest(),
        noise_bits_per_token=agreed.noise_bits_per_token,
    )
    kind = EchoedModel if top is None else LikeliestModel
    return kind(client, endpoint, answers, agreed, facts)


def found_at(
    endpoint: Endpoint, tokenizer: Tokenizer | None
) -> tuple[Client, Tokenizer, ModelFacts]:
    """What is known of a model before it is asked anything, for one request.

    Raises
    ------
    InputError, ServerError, MissingExtraError
        As `open_endpoint`.
    """
    if tokenizer is None:
        raise InputError(
            "a served model needs the tokenizer that it was trained with",
            cure="name its folder or tokenizer.json with --tokenizer, in Python tokenizer",
            where=endpoint.base,
        )
    client = Client(endpoint)
    name, limit = model_served(client, endpoint.model, where=endpoint.base)
    facts = ModelFacts(
        name=name,
        vocabulary=tokenizer.size,
        length_limit=None if limit is None else limit - 1,  # one token is generated
        dtype="unknown",
        attention="unknown",
        device="served",
        fingerprint="",
        noise_bits_per_token=EPSILON["float32"],
        capabilities=("score", "expand") if endpoint.top_k is None else ("expand",),
    )
    return client, tokenizer, facts


def identity_of(endpoint: Endpoint, facts: ModelFacts, tokenizer: Tokenizer) -> dict[str, Any]:
    """What answers have in common that are kept together."""
    top = endpoint.top_k
    return {
        "task": "answers of a served model",
        "server": endpoint.base,
        "served model": facts.name,
        "tokenizer": getattr(tokenizer, "fingerprint", tokenizer.size),
        "asked for": "echo" if top is None else f"the {top} likeliest",
    }


def _first(agreed: Agreed, answers: Answers, where: str) -> Floats:
    """What the model said of the probes first of all; another model's answers are refused."""
    now = [probe.numbers for probe in agreed.probes]
    first = answers.first(np.concatenate([(float(len(part)), *part) for part in now]))
    then, start = [], 0
    while start < len(first):
        end = start + 1 + int(first[start])
        then.append(first[start + 1 : end])
        start = end
    moved = [agreed.manner.apart(*both) for both in zip(now, then, strict=False)]
    if len(then) != len(now) or max(moved) > agreed.tolerance:
        raise ServerError(
            f"serves another model under this name than when {len(answers):,} answers were kept "
            f"(log-probabilities differ by {max(moved, default=np.inf):.2g} nats)",
            cure=f"serve the one that was asked then, or remove {answers.folder} to begin anew",
            where=where,
        )
    return first
