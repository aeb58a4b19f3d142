"""What a server says of the next token: the likeliest few, and a bound for all others.

As numbers, in one array: first the bound, then a token and its log-probability in turn.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from canary.errors import ServerError, UnsupportedError
from canary.models.noise import EPSILON, not_finite
from canary.models.served.client import Client, RefusedError
from canary.models.served.handshake import (
    ALIGNED,
    LEAST,
    SAFETY,
    SAME,
    Agreed,
    Probe,
    other_tokenizer,
)
from canary.models.served.request_format import Floats, Manner, least_told
from canary.models.served.token_texts import Texts, bare
from canary.models.served.wire import PATH, check_sum, completion
from canary.statistics.units import LN2
from canary.tokens.tokenizer import Tokenizer

__all__ = ["agree_on_next", "distance", "log_probs_of", "read_next"]

_SURE = 1e-6
_ROUNDING = 1e-5  # by so much may the likeliest tokens sum to too little


def read_next(manner: Manner, answer: Any, ids: Sequence[int]) -> Floats:
    """The likeliest tokens after `ids`, and the bound for the others.

    A token that is not told has at most what is left of the probability, and at most that of
    the least likely one that is told. The token that was sampled does not count for that:
    servers tell it beside the likeliest ones, and it need not be among them. One that is told
    by a text which stands for several tokens may be any of them.

    Raises
    ------
    ServerError
        If the answer tells of no tokens, or their probabilities sum to more than 1.
    ModelError
        If a number is NaN.
    """
    choice = manner.read(answer, ids)
    if not choice.tokens or not choice.top or not choice.top[0]:
        raise ServerError(
            "does not tell the likeliest next tokens",
            cure="use a server that gives log-probabilities of generated tokens (logprobs)",
            where=manner.where,
        )
    told = dict(choice.top[0])
    values = np.array(list(told.values()))
    if np.isnan(values).any():
        raise not_finite(manner.model)
    total = check_sum(told.values(), where=manner.where, rest=manner.most_left(choice))
    named: dict[int, float] = {}
    unnamed = -math.inf
    for said, value in told.items():
        token = manner.texts.number(said)
        if token is None:
            unnamed = max(unnamed, value)
        else:
            named[token] = value
    rest = math.log(max(1.0 - total, 0.0) + _ROUNDING)
    bound = max(min(rest, least_told(choice)), unnamed)
    flat = [number for pair in named.items() for number in pair]
    return np.array([min(bound, 0.0), *flat])


def log_probs_of(told: Floats, tokens: NDArray[np.int32]) -> tuple[Floats, NDArray[np.bool_]]:
    """Log-probabilities of some next tokens, and which of them are more than bounds."""
    order = np.argsort(told[1::2], kind="stable")
    named, values = told[1::2][order], told[2::2][order]
    if not len(named):
        return np.full(len(tokens), told[0]), np.zeros(len(tokens), np.bool_)
    at = np.minimum(np.searchsorted(named, tokens), len(named) - 1)
    exact = named[at] == tokens
    return np.where(exact, values[at], told[0]), exact


def distance(now: Floats, then: Floats) -> float:
    """How far two answers to one question are apart, in nats."""
    here, there = (dict(zip(a[1::2], a[2::2], strict=True)) for a in (now, then))
    both = here.keys() & there.keys()
    if 2 * len(both) < max(len(here), len(there)):
        return math.inf
    return max((abs(here[token] - there[token]) for token in both), default=0.0)


def agree_on_next(
    client: Client, model: str, tokenizer: Tokenizer, top: int, *, where: str
) -> Agreed:
    """Find out how a server is asked for next tokens, and how far its numbers move.

    Costs about 10 requests. Nothing is echoed, so whether the server makes the right tokens
    of a text is known by their number, and by what it holds likely after them.

    Raises
    ------
    ServerError
        If it gives none.
    """
    manner = _manner(client, model, tokenizer, top, where)

    def ask(ids: Sequence[int]) -> Floats:
        request = manner.request(ids, echo=False, top=top)
        return read_next(manner, client.post(PATH, request, quote=True), ids)

    rows = manner.texts.probes()
    probes = tuple(Probe(row, ask(row)) for row in rows)
    if all(len(probe.log_probs) == 1 for probe in probes):
        raise ServerError(
            "tells next tokens that are none of the tokenizer's",
            cure="name the tokenizer that the model was trained with (--tokenizer)",
            where=where,
        )
    if all(probe.log_probs[2::2].max() > -_SURE for probe in probes):
        raise ServerError(
            "gives the most likely next token a probability of 1 behind random tokens: these are "
            "its choices at temperature 0, and not the model's probabilities",
            cure="have it give log-probabilities before sampling (vLLM: --logprobs-mode "
            "raw_logprobs)",
            where=where,
        )
    moved = max(distance(ask(probe.ids), probe.log_probs) for probe in probes)
    spread = float(np.std(np.concatenate([probe.log_probs[2::2] for probe in probes])))
    if not manner.as_text:
        _check_text(client, manner, probes, top, max(ALIGNED * spread, SAFETY * moved, LEAST))
    return Agreed(
        manner,
        probes,
        tolerance=max(2 * SAFETY * moved, SAME * spread, LEAST),
        noise_bits_per_token=SAFETY * max(moved, EPSILON["float32"]) / LN2,
    )


def _check_text(
    client: Client, manner: Manner, probes: Sequence[Probe], top: int, allowed: float
) -> None:
    """That the same tokens are likely after a text as after the tokens that it is for us.

    A start token that the server puts before a text may be one that the tokenizer puts there.
    A server that takes no texts is believed.
    """
    texts = manner.texts
    for probe in probes:
        if not texts.comes_back(probe.ids):
            continue
        text = texts.tokenizer.decode(probe.ids)
        body = completion(manner.model, text, echo=False, top=top, numbered=manner.numbered)
        try:
            answer = client.post(PATH, body, quote=True, trying=True)
        except RefusedError:
            return
        found = read_next(replace(manner, hidden=None), answer, probe.ids)
        if distance(found, probe.log_probs) <= allowed:
            continue
        (whole,) = texts.tokenizer.encode([text])
        request = manner.request(list(whole.ids), echo=False, top=top)
        started = read_next(manner, client.post(PATH, request, quote=True), whole.ids)
        if distance(found, started) > allowed:
            raise other_tokenizer(manner.where)


def _manner(client: Client, model: str, tokenizer: Tokenizer, top: int, where: str) -> Manner:
    texts = Texts(tokenizer)
    probe = texts.probes()[0]
    said = ""
    for as_text, numbered in ((False, True), (False, False), (True, False)):
        own = Texts(bare(tokenizer)) if as_text else texts
        way = Manner(model, own, where, as_text=as_text, numbered=numbered)
        try:
            request = way.request(probe, echo=False, top=top)
            answer = client.post(PATH, request, quote=True, trying=True)
        except RefusedError as error:
            said = said or error.problem
            continue
        manner = way.told_of(way.read(answer, probe), len(probe))
        wanted = texts.before if as_text else 0
        if manner.hidden is None and as_text:
            raise UnsupportedError(
                "the server takes texts only and does not say how many tokens it makes of them "
                "(usage.prompt_tokens), so that nothing can be checked",
                cure="use a server that takes token ids or says how many it read",
            )
        if manner.hidden not in {None, wanted}:
            raise ServerError(
                f"reads {manner.hidden} tokens before a text, the tokenizer puts {wanted} there",
                cure="name the tokenizer that the model was trained with (--tokenizer)",
                where=where,
            )
        return manner
    raise ServerError(
        f"takes no request for the {top} likeliest next tokens: it {said}",
        cure="ask for fewer with --top-k: 5 or 20 are usual limits",
        where=where,
    )
