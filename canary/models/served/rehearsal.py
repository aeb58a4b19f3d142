"""What a run would send to a server, counted before it sends anything.

The run goes on as it would on a model whose numbers are made up. Nothing is sent but the question
which models the server has, and nothing of the run is shown or kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from canary.errors import EstimationError, InputError, ModelError, RequestsSpentError
from canary.models.language_model import FloatArray, LanguageModel, Rows
from canary.models.served.endpoint import Endpoint
from canary.models.served.handshake import Agreed, Probe
from canary.models.served.opening import found_at, identity_of
from canary.models.served.request_format import Floats, Manner
from canary.models.served.served_model import (
    BLOCK,
    EchoedModel,
    LikeliestModel,
    Row,
    ServedModel,
    most_sent,
)
from canary.models.served.throttle import Throttle
from canary.models.served.token_texts import Texts
from canary.models.served.verified_cache import known_answers
from canary.statistics.numbers import plural
from canary.tokens.fast import as_tokenizer

CHECKS = {"echo": 22, "top": 13}
"""Requests of a handshake with a server that takes token ids, the list of models apart."""
CLOSE = 4
"""Requests more or less by which a run differs from its rehearsal, by how the server answers."""

_CHECKS = "checks of server and model"
_ALIGNED = 3  # requests each time that rows are longer than any before
_TRIES = 256  # requests of a search from which the length of one is estimated


@dataclass
class _Counter:
    """Stands in for a client: it has the counts, and sends nothing."""

    throttle: Throttle
    most: int | None = None  # a rehearsal is never refused
    parts: dict[str, tuple[int, int]] = field(default_factory=dict)
    search: int = 0
    tried: int = 0
    tried_tokens: int = 0
    spared: int = 0

    @property
    def sent(self) -> int:
        """Requests of all parts, without a search."""
        return sum(requests for requests, _ in self.parts.values())

    @property
    def tokens(self) -> int:
        """Tokens of their prompts."""
        return sum(tokens for _, tokens in self.parts.values())

    def add(self, requests: int, tokens: int, part: str = _CHECKS) -> None:
        """Count requests, and the tokens of all their prompts together."""
        before, read = self.parts.get(part, (0, 0))
        self.parts[part] = before + requests, read + tokens


class Rehearsed(ServedModel):
    """A served model that makes its numbers up and counts what it would have asked for."""

    client: Any

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self._searching, self._tries, self._longest, self._part = False, 0, 0, _CHECKS
        self._seen = set[Row]()
        spread = np.random.default_rng(0).uniform(1.0, 1.2, self.facts.vocabulary)
        self._each = -spread * math.log(self.facts.vocabulary)

    def counted(self) -> str:
        """What would be sent, in one line."""
        told = self.client
        sent = f"{plural(told.sent, 'request')} ({plural(told.tokens, 'token')} in prompts)"
        line = f"Will send {self._endpoint.base} about {sent}, give or take {CLOSE}"
        if told.search:
            most = self._most_searched()
            mean = told.tried_tokens / max(told.tried, 1)
            line += (
                f", and for the search at most {plural(most, 'more request', 'more requests')} "
                f"(about {plural(round(most * mean), 'token')})"
            )
        line += ". Each answer has one generated token. Requests that fail are sent again"
        if told.spared:
            line += f". {plural(told.spared, 'answer')} of earlier runs need not be asked for again"
        return line

    def counts(self) -> dict[str, Any]:
        """The same as numbers; of a search the most."""
        told, most = self.client, self._most_searched()
        return {
            "requests": told.sent,
            "prompt_tokens": told.tokens,
            "search_requests_at_most": most,
            "requests_at_most": told.sent + most,
            "answers_kept": told.spared,
            "parts": {
                part: {"requests": requests, "prompt_tokens": tokens}
                for part, (requests, tokens) in told.parts.items()
                if requests
            },
        }

    def rows(self) -> Iterator[tuple[str, str, str]]:
        """What is sent, part by part: of each its name, requests and tokens; then all together."""
        told, most = self.client, self._most_searched()
        parts = {part: numbers for part, numbers in told.parts.items() if numbers[0]}
        for part, (requests, tokens) in parts.items():
            yield part, f"{requests:,}", f"{tokens:,}"
        read = round(most * told.tried_tokens / max(told.tried, 1))
        if most:
            yield "search", f"at most {most:,}", f"about {read:,}"
        if len(parts) + bool(most) > 1:
            bound = "at most " if most else ""
            yield "total", f"{bound}{told.sent + most:,}", f"about {told.tokens + read:,}"

    def check_allowed(self) -> None:
        """An InputError if more requests are sure than may be sent."""
        needed, (limit, by) = self.client.sent, self._endpoint.most
        before = self._endpoint.counted(by)
        if limit is not None and needed > limit:
            raise InputError(
                f"about {needed:,} requests are needed in this run, and {limit:,} allowed",
                cure=f"give {by} {before + needed + CLOSE} or more, or ask for less. That the "
                "server returns what this needs is not known: canary doctor asks (about eight "
                "requests)",
            )

    def _most_searched(self) -> int:
        (limit, _), told = self._endpoint.most, self.client
        return int(told.search if limit is None else min(told.search, max(limit - told.sent, 0)))

    def expect(
        self, rows: int | Sequence[int], *, at_most: int = 0, after: int | None = None
    ) -> None:
        """What follows is a search, or it is not."""
        self._searching = bool(at_most) and not rows and after is None
        if self._searching:
            self.client.search += most_sent(at_most)
            self._tries = _TRIES

    def part(self, name: str) -> str:
        """Name what follows, and give the name of what came before; checks if it has none."""
        before, self._part = self._part, name or _CHECKS
        return before

    def ask(self, rows: Sequence[Row]) -> dict[Row, Floats]:
        """Numbers that are made up; of a search only the first."""
        todo = [row for row in dict.fromkeys(rows) if row not in self._seen]
        self._seen.update(todo)
        if self._answers:
            known = {
                row
                for row in todo
                if self._answers.get(self._answers.key(self._manner.request(row))) is not None
            }
            self.client.spared += len(known)
            todo = [row for row in todo if row not in known]
        tokens = sum(map(len, todo))
        probes = -(-len(todo) // BLOCK)
        probe = len(self._agreed.probes[0].ids)
        if self._searching:
            if self._tries <= 0:
                raise RequestsSpentError("a rehearsal searches no further", cure="")
            self._tries -= len(todo)
            self.client.tried += len(todo) + probes
            self.client.tried_tokens += tokens + probes * probe
        else:
            self.client.add(len(todo), tokens, self._part)
            self.client.add(probes, probes * probe)
        return {row: self._numbers(row) for row in dict.fromkeys(rows)}

    def lengthened(self, longest: int) -> None:
        """Rows are longer than any before, which is checked."""
        if longest > max(self._longest, len(self._agreed.probes[0].ids)):
            self._longest = longest
            self.client.add(_ALIGNED, _ALIGNED * longest)

    def _numbers(self, row: Row) -> Floats:
        raise NotImplementedError


class _Echoed(Rehearsed, EchoedModel):
    """Each token about as likely as any; what it is does not depend on those before it."""

    def score(self, rows: Rows) -> FloatArray:
        """Numbers that are made up."""
        self._checked = 2**62
        self.lengthened(max((int(end) for end in np.diff(rows.offsets)), default=0))
        return EchoedModel.score(self, rows)

    def _numbers(self, row: Row) -> Floats:
        return self._each[np.asarray(row[1:], np.int64)]


class _Likeliest(Rehearsed, LikeliestModel):
    """The same tokens are the most likely ones everywhere."""

    def _numbers(self, row: Row) -> Floats:
        named = np.argsort(-self._each, kind="stable")[: self._manner.top]
        values = self._each[named]
        told = np.stack([named.astype(np.float64), values], axis=1).ravel()
        return np.append(values.min(), told)


class Reworded:
    """Stands in for a model that rewrites texts: the same words in another order."""

    facts: Mapping[str, Any] = {}

    def rewrite(self, texts: Sequence[str], *, share: float, rng: np.random.Generator) -> list[str]:
        """Copies of about as many tokens."""
        return [" ".join(rng.permutation(text.split())) for text in texts]


def count_requests(
    run: Callable[[LanguageModel], object],
    endpoint: Endpoint | str,
    *,
    tokenizer: Any,
    top_k: int | None = None,
) -> dict[str, Any]:
    """What a call would send to a server, part by part, as ``--dry-run`` counts it.

    Parameters
    ----------
    run : callable
        Called with a model in place of the one at the endpoint, such as
        ``lambda model: canary.audit(model, canaries, draws=300)``.
    endpoint : Endpoint or str
        The server, which is only asked for its list of models.
    tokenizer : Any
    top_k : int, optional
        As for `canary.load`; without it, a server that echoes log-probabilities is counted.

    Returns
    -------
    dict
        ``requests`` and ``prompt_tokens`` that are sure, the most of a search
        (``search_requests_at_most``) and of both (``requests_at_most``), the answers of earlier
        runs that are not asked for again (``answers_kept``), and the ``parts``. ``counted_until``
        is empty, or says why the count ended early: then more may follow.

    Raises
    ------
    InputError, ServerError, MissingExtraError
        As `rehearsed`, and what the call raises; but a ModelError or an EstimationError, which
        made-up numbers may cause, only ends the count.
    """
    place = Endpoint(endpoint) if isinstance(endpoint, str) else endpoint
    top = place.top_k if top_k is None else top_k
    model: Any = rehearsed(replace(place, top_k=top), tokenizer)  # it keeps no count of its own
    stopped = counted_until(lambda: run(model))
    return {**model.counts(), "counted_until": stopped}


def counted_until(run: Callable[[], object]) -> str:
    """Run something on made-up numbers; what ended it early, which these may have caused."""
    try:
        run()
    except (EstimationError, ModelError) as error:
        return error.problem
    return ""


def rehearsed(endpoint: Endpoint, tokenizer: Any) -> LanguageModel:
    """A substitute for the model at an endpoint, which counts what it is asked.

    Raises
    ------
    InputError, ServerError, MissingExtraError
        As for a served model, if its name cannot be found out.
    """
    top = endpoint.top_k
    endpoint.ledger.leave_no_trace()
    given = None if tokenizer is None else as_tokenizer(tokenizer)
    client, tokenizer, facts = found_at(endpoint, given)
    endpoint.known.update(client.got)
    texts = Texts(tokenizer)
    manner = Manner(facts.name, texts, endpoint.base, top, as_text=False, numbered=True)
    probes = tuple(Probe(row, np.zeros(0)) for row in texts.probes())
    agreed = Agreed(manner, probes, math.inf, facts.noise_bits_per_token, math.inf)
    counter = _Counter(Throttle(endpoint.in_flight, None))
    known = known_answers(endpoint.folder, facts.name, identity_of(endpoint, facts, tokenizer))
    kind: Any = _Echoed if top is None else _Likeliest
    model: LanguageModel = kind(counter, endpoint, known, agreed, facts)
    checks = CHECKS["echo" if top is None else "top"]
    # One more is for the list of models, which has no prompt.
    counter.add(checks + 1, checks * len(probes[0].ids))
    return model
