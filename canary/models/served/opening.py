"""From the address of a server to a model behind the seam."""

from __future__ import annotations

import hashlib

import numpy as np

from canary.errors import InputError, ServerError
from canary.models.base import LanguageModel, ModelFacts
from canary.models.served.answers import Answers, open_answers
from canary.models.served.asking import Asking
from canary.models.served.client import Client
from canary.models.served.echoed import EchoedModel
from canary.models.served.endpoint import Endpoint
from canary.models.served.handshake import Agreed, model_served, shake_hands
from canary.models.served.manner import Floats
from canary.models.served.wire import PATH
from canary.tokens.base import Tokenizer

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
    client, base = Client(endpoint), endpoint.base
    name, limit = model_served(client, endpoint.model, where=base)
    agreed = shake_hands(client, name, tokenizer, where=base, in_flight=endpoint.in_flight)
    answers = _answers(endpoint, name, tokenizer, "echo")
    first = answers.first(np.concatenate([probe.log_probs for probe in agreed.probes]))
    _check_same(agreed, first, answers, base)
    manner, probes = agreed.manner, agreed.probes

    def probe(number: int, *, hurried: bool) -> float:
        chosen = probes[number % len(probes)]
        request = manner.request(chosen.ids, echo=True)
        answer = client.post(PATH, request, hurried=hurried, last=True, quote=True)
        return float(np.abs(manner.echoed(answer, chosen.ids) - chosen.log_probs).max())

    asking = Asking(client, endpoint, answers, probe=probe, tolerance=agreed.tolerance)
    facts = ModelFacts(
        name=name,
        vocabulary=tokenizer.size,
        length_limit=None if limit is None else limit - 1,  # one token is generated
        dtype="unknown",
        attention="unknown",
        device="served",
        fingerprint=hashlib.sha256(f"{name}\n".encode() + first.tobytes()).hexdigest(),
        noise_bits_per_token=agreed.noise_bits_per_token,
    )
    return EchoedModel(manner, asking, facts)


def _answers(endpoint: Endpoint, name: str, tokenizer: Tokenizer, kind: str) -> Answers:
    identity = {
        "task": "answers of a served model",
        "server": endpoint.base,
        "served model": name,
        "tokenizer": getattr(tokenizer, "fingerprint", tokenizer.size),
        "asked for": kind,
    }
    return open_answers(endpoint.folder, name, identity)


def _check_same(agreed: Agreed, first: Floats, answers: Answers, where: str) -> None:
    """Refuse to go on with the answers of another model."""
    now = np.concatenate([probe.log_probs for probe in agreed.probes])
    moved = float(np.abs(now - first).max()) if len(now) == len(first) else np.inf
    if moved > agreed.tolerance:
        raise ServerError(
            f"serves another model under this name than when {len(answers):,} answers were kept "
            f"(log-probabilities differ by {moved:.2g} nats)",
            cure=f"serve the one that was asked then, or remove {answers.folder} to begin anew",
            where=where,
        )
