"""Whether the numbers of a server are what they seem to be, found out before they are used.

A server that ignores a part of a request says nothing of it, and one that is off by one
gives plausible numbers. So a few rows of random tokens are asked for in several ways:

1. echoed: each token must be ours, the first without a number and all others with one;
2. as the text that these tokens are: the server must make the same tokens of it, or it has
   another tokenizer than the one that was named;
3. followed by one token that the server itself named as likely to come next: echoed, it
   must have the log-probability that it had there, and change nothing before it;
4. once more: what moves is the noise.

Its numbers must also be whole: neither cut off, nor rounded to fewer than three decimals.

The third is done again at the length of the rows that are scored, whenever they are longer than
any before: a server may compute long prompts in another way than short ones. Where only next
tokens are asked for, nothing is echoed: the second compares what is likely after both.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from canary.errors import InputError, ServerError, UnsupportedError
from canary.models.noise import EPSILON
from canary.models.served.client import Client, PassingError, RefusedError
from canary.models.served.request_format import Floats, Manner
from canary.models.served.throttle import in_parallel
from canary.models.served.token_texts import Texts
from canary.models.served.wire import PATH, read_choice
from canary.records.validation import brief
from canary.statistics.number_checks import LN2
from canary.tokens.tokenizer import Tokenizer

_TOP = 5
_EACH = 2  # next tokens that are tried after each probe
_FEWEST = 3
_START = 3  # tokens that a server may put before a text, and one more
_SURE = 1e-6
_LOWEST, _FLOOR = 3, -1_000.0  # equal numbers that show a cut; below the floor, there is no number
_FEWEST_NUMBERS = 8  # different ones that show a rounding
_COARSE, _FINE = (1.0, 0.1, 0.01), (1e-3, 1e-4, 1e-5)  # refused, and counted as noise
_SAFETY = 4.0
# Of the spread of the log-probabilities: what a token may move where it is the same one.
_ALIGNED, _SAME, _LEAST = 0.1, 0.02, 1e-4
_OTHER = "makes other tokens of a text than the tokenizer that was named"
_TOKENIZER = "name the tokenizer that the model was trained with (--tokenizer)"


@dataclass(frozen=True, eq=False)
class Probe:
    """A row of tokens, and what the server said of it first."""

    ids: list[int]
    numbers: Floats


@dataclass(frozen=True, eq=False)
class Agreed:
    """How a server is asked, and what it said of the probes.

    `tolerance` is how many nats a token of a probe may move while the model is the same,
    `aligned` how many it may have more or less in an echo than as the next token; infinity where
    nothing is echoed. The noise is as in `ModelFacts`.
    """

    manner: Manner
    probes: tuple[Probe, ...]
    tolerance: float
    noise_bits_per_token: float
    aligned: float


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
    client: Client, model: str, tokenizer: Tokenizer, *, top: int | None, where: str, in_flight: int
) -> Agreed:
    """Find out how a server is asked, and whether its numbers can be used.

    Costs about 20 requests; 10 where only the `top` likeliest next tokens are asked for.

    Raises
    ------
    ServerError
        If they cannot, with the reason.
    """
    manner = _manner(client, model, tokenizer, top, where)

    def ask(ids: Sequence[int]) -> Floats:
        return manner.numbers(client.post(PATH, manner.request(ids), quote=True), ids)

    rows = manner.texts.probes()
    probes = tuple(Probe(row, ask(row)) for row in rows)
    numbers = [probe.numbers if top is None else probe.numbers[2::2] for probe in probes]
    grain = _check_whole(manner, np.concatenate(numbers), top)
    aligned = math.inf
    if top is not None:
        if all(len(probe.numbers) == 1 for probe in probes):
            raise manner.odd("names next tokens that the tokenizer does not have", _TOKENIZER)
        if all(likely.max(initial=-np.inf) > -_SURE for likely in numbers):
            raise manner.odd(
                "gives the most likely next token a probability of 1 behind random tokens: these "
                "are its choices at temperature 0, and not the model's probabilities",
                "have it give log-probabilities before sampling (vLLM: --logprobs-mode "
                "raw_logprobs)",
            )
        spread = float(np.std(np.concatenate(numbers)))
        worst = noise = max(manner.apart(ask(probe.ids), probe.numbers) for probe in probes)
        if not manner.as_text:
            allowed = max(_ALIGNED * spread, _SAFETY * worst, _LEAST)
            with suppress(RefusedError):  # a server that takes no texts is believed
                _check_text_by_next(client, manner, probes, allowed)
    else:
        if not manner.as_text:
            with suppress(RefusedError):
                _check_text(client, manner, rows)
        spread = float(np.std(np.concatenate(numbers)))
        followed = _followed(client, manner, rows, quote=True)
        if len(followed) < _FEWEST:
            raise manner.odd(
                "does not say which tokens are likely to come next, so that it cannot be "
                "seen whether it gives the log-probability of each token in its place",
                "use a server that gives log-probabilities of generated tokens, too",
            )
        before = {tuple(probe.ids): probe.numbers for probe in probes}
        apart = [
            ask([*ids, token]) - np.append(before[tuple(ids)], log_prob)
            for ids, token, log_prob in followed
        ]
        aligned = max(_ALIGNED * spread, _LEAST)
        _check_aligned(manner, apart, aligned)
        for place, outcome in in_parallel(ask, rows, at_once=in_flight):
            apart.append(outcome.result() - probes[place].numbers)
        worst = max(float(np.abs(part).max()) for part in apart)
        noise = max(abs(float(part.sum())) / len(part) for part in apart)
    return Agreed(
        manner,
        probes,
        tolerance=max(2 * _SAFETY * worst, _SAME * spread, _LEAST),
        noise_bits_per_token=max(_SAFETY * max(noise, EPSILON["float32"]), grain) / LN2,
        aligned=aligned,
    )


def check_aligned_at(client: Client, agreed: Agreed, ids: Sequence[int]) -> None:
    """The third question of the handshake at the length of a row that is scored.

    Costs up to 3 requests. What the server says of them is not repeated: they hold the row.

    Raises
    ------
    ServerError
        If a likely next token has another log-probability there when it is echoed, or if the
        server names none, so that it cannot be seen.
    """
    manner = agreed.manner
    beginning = list(ids[:-1])  # with a token behind it, it is as long as the row
    if manner.as_text and not manner.texts.comes_back(beginning):
        beginning = list(ids)
    followed = _followed(client, manner, [beginning], quote=False)
    if not followed:
        raise manner.odd(
            f"names no token that may come after {len(ids) - 1} others, so that it cannot be "
            "seen whether it gives the log-probability of each in its place at this length",
            "use a server that takes token ids, or texts of another length",
        )
    apart = []
    for _, token, log_prob in followed:
        row = [*beginning, token]
        apart.append(manner.numbers(client.post(PATH, manner.request(row)), row)[-1:] - log_prob)
    _check_aligned(manner, apart, agreed.aligned, f"behind {len(beginning):,} tokens it ")


def _manner(
    client: Client, model: str, tokenizer: Tokenizer, top: int | None, where: str
) -> Manner:
    """The first way of asking that the server takes."""
    texts = Texts(tokenizer)
    probe = texts.probes()[0]
    refused = ""
    for as_text, numbered in ((False, True), (False, False), (True, False)):
        own = texts.bare() if as_text else texts
        way = Manner(model, own, where, top, as_text=as_text, numbered=numbered)
        try:
            answer = client.post(PATH, way.request(probe), quote=True, trying=True)
        except RefusedError as error:
            refused = refused or error.problem
            continue
        except PassingError as error:
            works = "check that the server works, and start again"
            why = error.cure if error.dropped else works
            raise ServerError(
                f"{error.problem}, when log-probabilities are asked for, though it lists its "
                "models",
                cure=f"{why}; if it returns text only, use canary sample",
                where=error.where,
            ) from None
        choice = way.read(answer, probe)
        manner = way.told_of(choice, len(probe))
        return _as_text(manner, texts.before, choice.tokens, probe) if as_text else manner
    what = "to echo a prompt with log-probabilities"
    cure = (
        "use a server that does (vLLM), or canary exposure, extract or membership order with "
        "--top-k 5, which take the most likely next tokens; if it returns text only, canary sample"
    )
    if top is not None:
        what = f"for the {top} likeliest next tokens"
        cure = "ask for fewer with --top-k: 5 or 20 are usual limits"
    raise ServerError(f"takes no request {what}: it {refused}", cure=cure, where=where)


def _as_text(manner: Manner, before: int, tokens: Sequence[str] | None, probe: list[int]) -> Manner:
    """The manner of a server that takes texts only, if it puts the right tokens before them."""
    if manner.hidden is None and manner.top is not None:
        raise UnsupportedError(
            "the server takes texts only and does not say how many tokens it makes of them "
            "(usage.prompt_tokens), so that nothing can be checked",
            cure="use a server that takes token ids or says how many it read",
        )
    if manner.hidden not in {None, before}:
        raise manner.odd(
            f"says that it reads {len(probe) + (manner.hidden or 0)} tokens (usage.prompt_tokens) "
            f"where the tokenizer makes {len(probe) + before} of a text",
            f"{_TOKENIZER}, and have the server put the same start token before a text; if both "
            "is so, it counts wrongly: use one that does not",
        )
    showing = manner.top is None and tokens and not manner.texts.is_token(tokens[0], probe[0])
    return replace(manner, shown=before if showing else 0)


def _check_text(client: Client, manner: Manner, rows: Sequence[list[int]]) -> None:
    """That a server makes our tokens of a text, behind a start token or none.

    Where it is only sent numbers, and answers in numbers, another tokenizer shows in nothing
    else, and all candidates are other texts.
    """
    for ids in filter(manner.texts.comes_back, rows):
        answer = _asked_as_text(client, manner, ids)
        tokens = read_choice(answer, where=manner.where).tokens or ()
        if len(tokens) < len(ids) or any(manner.fits(tokens[n:], ids) for n in range(_START)):
            return
        raise manner.odd(_OTHER, _TOKENIZER)


def _check_text_by_next(
    client: Client, manner: Manner, probes: Sequence[Probe], allowed: float
) -> None:
    """That the same tokens are likely after a text as after the tokens that it is for us.

    A start token that the server puts before a text may be one that the tokenizer puts there.
    """
    for probe in probes:
        if not manner.texts.comes_back(probe.ids):
            continue
        answer = _asked_as_text(client, manner, probe.ids)
        likely = replace(manner, hidden=None).numbers(answer, probe.ids)
        if manner.apart(likely, probe.numbers) <= allowed:
            continue
        tokenizer = manner.texts.tokenizer
        (whole,) = tokenizer.encode([tokenizer.decode(probe.ids)])
        answer = client.post(PATH, manner.request(list(whole.ids)), quote=True)
        if manner.apart(likely, manner.numbers(answer, whole.ids)) > allowed:
            raise manner.odd(_OTHER, _TOKENIZER)


def _asked_as_text(client: Client, manner: Manner, ids: list[int]) -> Any:
    """What a server that takes token ids answers to their text."""
    body = manner.body(manner.texts.tokenizer.decode(ids), manner.top)
    return client.post(PATH, body, quote=True, trying=True)


def _followed(
    client: Client, manner: Manner, rows: Sequence[list[int]], *, quote: bool
) -> list[tuple[list[int], int, float]]:
    """Rows, likely next tokens, and what these cost there according to the server."""
    followed: list[tuple[list[int], int, float]] = []
    for ids in rows:
        answer = client.post(PATH, manner.request(ids, following=_TOP), quote=quote)
        choice = manner.read(answer, ids)
        if not choice.tokens:
            continue
        named: dict[str, float | None] = {**manner.next_log_probs(choice)}
        named.setdefault(choice.tokens[0], choice.log_probs[0])
        fitting = (
            (ids, token, float(log_prob))
            for said, log_prob in named.items()
            if log_prob is not None
            and (token := manner.texts.number(said)) is not None
            and (not manner.as_text or manner.texts.comes_back([*ids, token]))
        )
        followed += itertools.islice(fitting, _EACH)
    return followed


def _check_whole(manner: Manner, numbers: Floats, top: int | None) -> float:
    """That log-probabilities were neither rounded nor, in an echo, cut off at a lowest one.

    Gives the step of a finer rounding, by which two tokens may be wrong together, or 0. A network
    gives random tokens after random ones numbers of their own. All alike are those of a model that
    knows nothing, unless they are much too probable for that.
    """
    said = numbers[numbers > _FLOOR]
    different = np.unique(said)
    if not len(said):
        return 0.0
    steps = (*_COARSE, *_FINE) if len(different) >= _FEWEST_NUMBERS else ()
    tenfold = (step for step in steps if np.abs(said / step - np.round(said / step)).max() < 1e-6)
    if (step := next(tenfold, 0.0)) in _COARSE:
        raise manner.odd(
            f"rounds its log-probabilities to multiples of {step:g} nats",
            "have it give them with three decimals or more: what is rounded has no exact rank",
        )
    lowest = int((said == different[:1]).sum())
    untrained = len(different) == 1 and said[0] < 0.5 - math.log(manner.texts.tokenizer.size)
    if top is None and lowest >= max(_LOWEST, len(said) // 10) and not untrained:
        raise manner.odd(
            f"cuts its log-probabilities off: {lowest} of {len(said)} random tokens share the "
            f"lowest value ({different[0]:.4g} nats)",
            "have it give them as the model computes them, without a lowest value",
        )
    return step


def _check_aligned(
    manner: Manner, apart: Sequence[Floats], allowed: float, which: str = ""
) -> None:
    last = max(abs(float(part[-1])) for part in apart)
    before = max(float(np.abs(part[:-1]).max(initial=0.0)) for part in apart)
    if max(last, before) <= allowed:
        return
    problem = f"gives a token {last:.2g} nats more or less in an echo than as the next token"
    if before > allowed:
        problem = f"lets later tokens change earlier ones, by up to {before:.2g} nats"
    raise manner.odd(
        f"{which}{problem}: its log-probabilities are in the places of other tokens, or are off "
        "by one",
        "use a server that gives each token its own. llama-cpp-python does where the model has a "
        "start token; vLLM does",
    )
