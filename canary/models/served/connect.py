"""From the address of a server to a model behind the seam."""

from __future__ import annotations

import hashlib

import numpy as np

from canary.errors import InputError, ServerError
from canary.models.language_model import LanguageModel, ModelFacts
from canary.models.served.answer_store import Answers, open_answers
from canary.models.served.client import Client
from canary.models.served.echoed import EchoedModel
from canary.models.served.endpoint import Endpoint
from canary.models.served.handshake import Agreed, check_aligned_at, model_served, shake_hands
from canary.models.served.request_format import Floats
from canary.models.served.top_k_model import LikeliestModel
from canary.models.served.verified_cache import Asking
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
    if tokenizer is None:
        raise InputError(
            "a served model needs the tokenizer that it was trained with",
            cure="name its folder or tokenizer.json with --tokenizer",
            where=base,
        )
    client = Client(endpoint)
    name, limit = model_served(client, endpoint.model, where=base)
    agreed = shake_hands(client, name, tokenizer, top=top, where=base, in_flight=endpoint.in_flight)
    identity = {
        "task": "answers of a served model",
        "server": base,
        "served model": name,
        "tokenizer": getattr(tokenizer, "fingerprint", tokenizer.size),
        "asked for": "echo" if top is None else f"the {top} likeliest",
    }
    answers = open_answers(endpoint.folder, name, identity)
    first = _first(agreed, answers, base)
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
    asking = Asking(client, endpoint, answers, agreed)
    named = agreed.manner.texts.tokenizer
    if top is not None:
        return LikeliestModel(asking, facts, named)
    return EchoedModel(
        asking,
        facts,
        named,
        checked=max(len(probe.ids) for probe in agreed.probes),
        check=lambda ids: check_aligned_at(client, agreed, ids),
    )


def _first(agreed: Agreed, answers: Answers, where: str) -> Floats:
    """What the model said of the probes first of all; another model's answers are refused."""
    now = [probe.numbers for probe in agreed.probes]
    first = answers.first(np.concatenate([(float(len(part)), *part) for part in now]))
    then, at = [], 0
    while at < len(first):
        end = at + 1 + int(first[at])
        then.append(first[at + 1 : end])
        at = end
    moved = [agreed.manner.apart(*both) for both in zip(now, then, strict=False)]
    if len(then) != len(now) or max(moved) > agreed.tolerance:
        raise ServerError(
            f"serves another model under this name than when {len(answers):,} answers were kept "
            f"(log-probabilities differ by {max(moved, default=np.inf):.2g} nats)",
            cure=f"serve the one that was asked then, or remove {answers.folder} to begin anew",
            where=where,
        )
    return first
