"""From the address of a server to a model behind the seam."""

from __future__ import annotations

import hashlib
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from canary.errors import InputError, ServerError, UnsupportedError
from canary.models.by_scoring import RowWalker
from canary.models.language_model import (
    Children,
    Context,
    Expansion,
    FloatArray,
    IntArray,
    LanguageModel,
    Memory,
    ModelFacts,
    Nodes,
    Rows,
    Walker,
)
from canary.models.served.client import Client
from canary.models.served.endpoint import Endpoint
from canary.models.served.handshake import Agreed, check_aligned_at, model_served, shake_hands
from canary.models.served.request_format import Floats, log_probs_of
from canary.models.served.verified_cache import Answers, Asking, open_answers
from canary.tokens.tokenizer import Tokenizer

_FREE_BYTES = 2**30


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
    kind = EchoedModel if top is None else LikeliestModel
    return kind(Asking(client, endpoint, answers, agreed), facts, client, agreed)


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


class ServedModel:
    """What all served models have in common.

    The tokenizer is the one that was named; without its special tokens where prompts are texts.
    """

    def __init__(self, asking: Asking, facts: ModelFacts, client: Client, agreed: Agreed) -> None:
        self._asking, self.facts = asking, facts
        self.tokenizer = agreed.manner.texts.tokenizer
        self._client, self._agreed = client, agreed
        self._checked = max(len(probe.ids) for probe in agreed.probes)

    def expect(self, rows: int, *, at_most: int = 0) -> None:
        """See `Asking.expect`."""
        self._asking.expect(rows, at_most=at_most)

    def memory(self) -> Memory:
        """Nothing is held here."""
        return Memory(_FREE_BYTES, 1)


class EchoedModel(ServedModel):
    """Scores whole rows, each with a request of its own."""

    def score(self, rows: Rows) -> FloatArray:
        """Log-probability of each scored token, flat, in nats.

        Raises
        ------
        ServerError
            If the server fails, refuses, or is another than at the beginning; or if it tells
            numbers in other places than their own in rows as long as these.
        UnsupportedError
            If the server takes texts only, and a row is not what it makes of its text.
        """
        sequences = [tuple(row.tolist()) for row in np.split(rows.ids, rows.offsets[1:-1])]
        scored = zip(sequences, rows.scored.tolist(), strict=True)
        asked = [(ids, count) for ids, count in scored if count]
        longest = max((ids for ids, _ in asked), key=len, default=())
        if len(longest) > self._checked:
            check_aligned_at(self._client, self._agreed, longest)
            self._checked = len(longest)
        numbers = self._asking.ask([ids for ids, _ in asked])
        values = [numbers[ids][len(ids) - 1 - count :] for ids, count in asked]
        return np.concatenate([np.zeros(0), *values]).astype(np.float32)

    def open(self, context: Context, *, memory_bytes: int) -> Walker:
        """A walker that scores a row for each child and holds nothing."""
        return RowWalker(self, context)


class LikeliestModel(ServedModel):
    """Expands nodes, each with a request of its own for the tokens that may come next.

    It tells only the most likely of them, so that the others have bounds.
    """

    def score(self, rows: Rows) -> FloatArray:
        """Refused: what is not among the likeliest has no log-probability, only a bound."""
        raise UnsupportedError(
            f"the server of {self.facts.name!r} tells only the {self._asking.top} likeliest next "
            "tokens, so whole texts have no log-perplexity",
            cure="use canary exposure or extract, which give bounds, or a server that echoes "
            "prompts with log-probabilities (vLLM)",
        )

    def open(self, context: Context, *, memory_bytes: int) -> Walker:
        """A walker that asks for the next tokens at each node and holds nothing."""
        return _Below(self._asking, context)


class _Below:
    """Costs below a context. The context's own is left out: no server of this kind tells it."""

    room = 0

    def __init__(self, asking: Asking, context: Context) -> None:
        self._asking = asking
        self._context = tuple(np.asarray(context.ids).tolist())
        self.context_log_probs: FloatArray = np.zeros(len(self._context) - 1, np.float32)

    def expand(self, nodes: Nodes, tokens: Children, *, keep: bool = True) -> Expansion:
        """See `canary.models.language_model.Walker.expand`; upper bounds where a token is not told.

        Where that is one of the path, all children are marked. A query is a request.
        """
        n = len(nodes)
        paths = [tuple(p[:k].tolist()) for p, k in zip(nodes.paths, nodes.lengths, strict=True)]
        priced = np.asarray(nodes.priced, np.int64).tolist()
        wanted = [
            self._context + path[:depth]
            for path, first in zip(paths, priced, strict=True)
            for depth in range(first, len(path) + 1)
        ]
        told = self._asking.ask(wanted)
        path_log_probs, values, exact = np.zeros(n), [], []
        for node, (path, first) in enumerate(zip(paths, priced, strict=True)):
            sure = True
            for depth in range(first, len(path)):
                token = np.array(path[depth : depth + 1], np.int32)
                value, known = log_probs_of(told[self._context + path[:depth]], token)
                path_log_probs[node] += value[0]
                sure &= bool(known[0])
            children: Any = tokens.tokens
            if tokens.offsets is not None:
                children = children[tokens.offsets[node] : tokens.offsets[node + 1]]
            below, known = log_probs_of(told[self._context + path], children)
            values.append(below)
            exact.append(known & sure)
        shape = (n, -1) if tokens.offsets is None else (-1,)
        return Expansion(
            path_log_probs,
            np.concatenate(values).astype(np.float32).reshape(shape),
            np.full(n, -1, np.int64),
            len(set(wanted)),
            np.concatenate(exact).reshape(shape),
        )

    def most_queries(self, nodes: Nodes, held: IntArray, degrees: IntArray) -> NDArray[np.int64]:
        """See `canary.models.language_model.TellsQueries`: one for each token without a price."""
        queries: NDArray[np.int64] = np.asarray(nodes.lengths) - np.asarray(nodes.priced) + 1
        return queries

    def release(self, handles: IntArray) -> None:
        """Nothing is held."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        return None
