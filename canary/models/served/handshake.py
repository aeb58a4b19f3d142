"""Whether the numbers of a server are what they seem to be, found out before they are used.

A server that ignores a part of a request says nothing of it, and one that is off by one
gives plausible numbers. So a few rows of random tokens are asked for in several ways:

1. echoed: each token must be ours, the first without a number and all others with one;
2. as the text that these tokens are: the server must make the same tokens of it, or it has
   another tokenizer than the one that was named;
3. followed by one token that the server itself named as likely to come next: echoed, it
   must have the log-probability that it had there, and change nothing before it;
4. once more, all at once: what moves is the noise.

The third is done again at the length of the rows that are asked for in earnest, whenever they
are longer than any before: a server may compute long prompts in another way than short ones.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from canary.errors import InputError, ServerError
from canary.models.noise import EPSILON
from canary.models.served.client import Client, RefusedError
from canary.models.served.parallel import in_parallel
from canary.models.served.request_format import Floats, Manner
from canary.models.served.token_texts import Texts, bare
from canary.models.served.wire import PATH, check_sum, completion, read_choice
from canary.records.fields import brief
from canary.statistics.units import LN2
from canary.tokens.tokenizer import Tokenizer

__all__ = [
    "Agreed",
    "Probe",
    "check_aligned_at",
    "model_served",
    "other_tokenizer",
    "shake_hands",
]

_TOP = 5
_EACH = 2  # next tokens that are tried after each probe
_FEWEST = 3
_START = 3  # tokens that a server may put before a text, and one more
SAFETY = 4.0
# Of the spread of the log-probabilities: what a token may move where it is the same one.
ALIGNED = 0.1
SAME = 0.02
LEAST = 1e-4


@dataclass(frozen=True, eq=False)
class Probe:
    """A row of tokens and its log-probabilities, all but the first token's, in nats."""

    ids: list[int]
    log_probs: Floats


@dataclass(frozen=True, eq=False)
class Agreed:
    """What came out.

    Parameters
    ----------
    manner : Manner
    probes : tuple of Probe
        What the model says of some rows.
    tolerance : float
        Nats that a token of a probe may move while the model is the same.
    noise_bits_per_token : float
        As in `ModelFacts`.
    aligned : float
        Nats that a token may have more or less in an echo than as the next token; infinity
        where nothing is echoed.
    """

    manner: Manner
    probes: tuple[Probe, ...]
    tolerance: float
    noise_bits_per_token: float
    aligned: float = math.inf


def model_served(client: Client, asked: str | None, *, where: str) -> tuple[str, int | None]:
    """The name of the model to ask for, and how many tokens the server says it takes.

    Raises
    ------
    ServerError, InputError
        If the server does not have the model, or has several and none was named.
    """
    try:
        listed = client.get("/models")
    except RefusedError:
        if asked is None:
            raise
        return asked, None
    try:
        served = {str(item["id"]): item.get("max_model_len") for item in listed["data"]}
    except (KeyError, TypeError, AttributeError):
        raise ServerError(
            "gave a list of models that cannot be read",
            cure="give the address of an OpenAI-compatible server (…/v1)",
            where=f"{where}/models",
        ) from None
    names = ", ".join(brief(name) for name in itertools.islice(served, 10)) or "none"
    if asked is None and len(served) != 1:
        raise InputError(
            f"the server has {len(served)} models ({names})",
            cure="name one with --served-model",
            where=where,
        )
    name = next(iter(served)) if asked is None else asked
    if name not in served:
        raise ServerError(
            f"does not have the model {brief(name)}; it has {names}",
            cure="name one of those with --served-model, or start the server with that one",
            where=where,
        )
    limit = served[name]
    return name, limit if isinstance(limit, int) else None


def shake_hands(
    client: Client, model: str, tokenizer: Tokenizer, *, where: str, in_flight: int
) -> Agreed:
    """Find out how a server is asked, and whether its numbers can be used.

    Costs about 20 requests.

    Raises
    ------
    ServerError
        If they cannot, with the reason.
    """
    manner = _manner(client, model, tokenizer, where)

    def ask(ids: Sequence[int]) -> Floats:
        answer = client.post(PATH, manner.request(ids, echo=True), quote=True)
        return manner.echoed(answer, ids)

    rows = manner.texts.probes()
    probes = tuple(Probe(row, ask(row)) for row in rows)
    if not manner.as_text:
        _check_text(client, manner, rows)
    spread = float(np.std(np.concatenate([probe.log_probs for probe in probes])))
    followed = _followed(client, manner, rows, quote=True)
    if len(followed) < _FEWEST:
        raise ServerError(
            "does not say which tokens it holds likely to come next, so that it cannot be "
            "seen whether it tells the log-probability of each token in its place",
            cure="use a server that gives log-probabilities of generated tokens, too",
            where=where,
        )
    moved = []
    before = {tuple(probe.ids): probe.log_probs for probe in probes}
    for ids, token, log_prob in followed:
        moved.append(ask([*ids, token]) - np.append(before[tuple(ids)], log_prob))
    aligned = max(ALIGNED * spread, LEAST)
    _check_aligned(moved, aligned, where)
    moved += [
        outcome.value() - probes[outcome.place].log_probs
        for outcome in in_parallel(ask, rows, at_once=in_flight)
    ]
    worst = max(float(np.abs(part).max()) for part in moved)
    sums = max(abs(float(part.sum())) / len(part) for part in moved)
    return Agreed(
        manner,
        probes,
        tolerance=max(2 * SAFETY * worst, SAME * spread, LEAST),
        noise_bits_per_token=SAFETY * max(sums, EPSILON["float32"]) / LN2,
        aligned=aligned,
    )


def check_aligned_at(client: Client, agreed: Agreed, ids: Sequence[int]) -> None:
    """The third question of the handshake at the length of a row that is asked for in earnest.

    Costs up to 3 requests. What the server says of them is not repeated: they hold the row.

    Raises
    ------
    ServerError
        If a likely next token has another log-probability there when it is echoed, or if the
        server names none, so that it cannot be seen.
    """
    manner = agreed.manner
    beginnings = [list(ids[:-1])]  # with a token behind it, it is as long as the row
    if manner.as_text and not manner.texts.comes_back(beginnings[0]):
        beginnings = [list(ids)]
    followed = _followed(client, manner, beginnings, quote=False)
    if not followed:
        raise ServerError(
            f"names no token that may come after {len(ids) - 1} others, so that it cannot be "
            "seen whether it tells the log-probability of each in its place at this length",
            cure="use a server that takes token ids, or texts of another length",
            where=manner.where,
        )
    moved = []
    for beginning, token, log_prob in followed:
        row = [*beginning, token]
        echoed = manner.echoed(client.post(PATH, manner.request(row, echo=True)), row)
        moved.append(echoed[-1:] - log_prob)
    _check_aligned(moved, agreed.aligned, manner.where, f"behind {len(beginnings[0]):,} tokens it ")


def _manner(client: Client, model: str, tokenizer: Tokenizer, where: str) -> Manner:
    """The first way of asking that the server takes."""
    texts = Texts(tokenizer)
    ways = [
        Manner(model, texts, where, as_text=False, numbered=True),
        Manner(model, texts, where, as_text=False, numbered=False),
    ]
    probe = texts.probes()[0]
    refusal: RefusedError | None = None
    for way in ways:
        try:
            answer = client.post(PATH, way.request(probe, echo=True), quote=True, trying=True)
        except RefusedError as error:
            refusal = error
            continue
        return way.told_of(way.read(answer, probe), len(probe))
    plain = Manner(model, Texts(bare(tokenizer)), where, as_text=True, numbered=False)
    try:
        answer = client.post(PATH, plain.request(probe, echo=True), quote=True, trying=True)
    except RefusedError:
        assert refusal is not None
        raise ServerError(
            f"takes no request to echo a prompt with log-probabilities: it {refusal.problem}",
            cure="use a server that does (vLLM), or ask for bounds from the likeliest next "
            "tokens with --top-k",
            where=where,
        ) from None
    choice = plain.read(answer, probe)
    manner = plain.told_of(choice, len(probe))
    if manner.hidden is not None and manner.hidden != texts.before:
        raise ServerError(
            f"says that it reads {len(probe) + manner.hidden} tokens (usage.prompt_tokens) where "
            f"the tokenizer makes {len(probe) + texts.before} of a text",
            cure="name the tokenizer that the model was trained with (--tokenizer), and have the "
            "server put the same start token before a text; if both is so, it counts wrongly: "
            "use one that does not",
            where=where,
        )
    showing = choice.tokens is not None and not plain.texts.is_token(choice.tokens[0], probe[0])
    return replace(manner, shown=texts.before if showing else 0)


def _check_text(client: Client, manner: Manner, rows: Sequence[list[int]]) -> None:
    """That a server makes our tokens of a text, behind a start token or none.

    Where it is only sent numbers, and answers in numbers, another tokenizer shows in nothing
    else, and all candidates are other texts. A server that takes no texts is believed.
    """
    for ids in rows:
        if not manner.texts.comes_back(ids):
            continue
        text = manner.texts.tokenizer.decode(ids)
        body = completion(manner.model, text, echo=True, top=1, numbered=manner.numbered)
        try:
            told = read_choice(client.post(PATH, body, quote=True, trying=True), where=manner.where)
        except RefusedError:
            return
        tokens = told.tokens or ()
        if len(tokens) < len(ids) or any(manner.fits(tokens[at:], ids) for at in range(_START)):
            return
        raise other_tokenizer(manner.where)


def other_tokenizer(where: str) -> ServerError:
    """That the server has another tokenizer than the one that was named."""
    return ServerError(
        "makes other tokens of a text than the tokenizer that was named",
        cure="name the tokenizer that the model was trained with (--tokenizer)",
        where=where,
    )


def _followed(
    client: Client, manner: Manner, rows: Sequence[list[int]], *, quote: bool
) -> list[tuple[list[int], int, float]]:
    """Rows, likely next tokens, and what these cost there according to the server."""
    found: list[tuple[list[int], int, float]] = []
    for ids in rows:
        request = manner.request(ids, echo=False, top=_TOP)
        choice = manner.read(client.post(PATH, request, quote=quote), ids)
        if not choice.tokens:
            continue
        named: dict[str, float | None] = dict(choice.top[0]) if choice.top else {}
        told = (value for value in named.values() if value is not None)
        check_sum(told, where=manner.where, rest=manner.most_left(choice))
        named.setdefault(choice.tokens[0], choice.log_probs[0])
        fitting = (
            (ids, token, float(log_prob))
            for said, log_prob in named.items()
            if log_prob is not None
            and (token := manner.texts.number(said)) is not None
            and _joins(manner, ids, token)
        )
        found += itertools.islice(fitting, _EACH)
    return found


def _joins(manner: Manner, ids: list[int], token: int) -> bool:
    """Whether a server can be asked for the row with the token behind it."""
    if not manner.as_text:
        return True
    return manner.texts.comes_back([*ids, token])


def _check_aligned(moved: Sequence[Floats], allowed: float, where: str, which: str = "") -> None:
    last = max(abs(float(part[-1])) for part in moved)
    before = max(float(np.abs(part[:-1]).max(initial=0.0)) for part in moved)
    if max(last, before) <= allowed:
        return
    if before > allowed:
        problem = f"lets later tokens change earlier ones, by up to {before:.2g} nats"
    else:
        problem = f"gives a token {last:.2g} nats more or less in an echo than as the next token"
    raise ServerError(
        f"{which}{problem}: its log-probabilities stand in the places of other tokens, or are "
        "off by one",
        cure="use a server that gives each token its own. llama-cpp-python does where the model "
        "has a start token; vLLM does",
        where=where,
    )
