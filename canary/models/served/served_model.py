"""A served model behind the seam.

It asks nothing twice, many things at once, and never mixes two models.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from canary.errors import InputError, ServerError, UnsupportedError
from canary.models.by_scoring import RowWalker
from canary.models.facts import ModelFacts
from canary.models.language_model import (
    Children,
    Context,
    Expansion,
    FloatArray,
    IntArray,
    Memory,
    Nodes,
    Rows,
    Walker,
)
from canary.models.served.client import Client
from canary.models.served.endpoint import Endpoint
from canary.models.served.handshake import Agreed, check_aligned_at
from canary.models.served.request_format import Floats, log_probs_of
from canary.models.served.throttle import in_parallel
from canary.models.served.verified_cache import Answers
from canary.models.served.wire import PATH

_FREE_BYTES = 2**30
NO_BOUND = 10**18
BLOCK = 64
"""Answers after which a probe is asked for again."""

Row = tuple[int, ...]


def most_sent(queries: int) -> int:
    """Requests that a search of some queries takes at most: each may be followed by a probe."""
    return 2 * queries


class ServedModel:
    """What all served models have in common: they ask, and keep what a probe has vouched for.

    A block of answers is kept, and used, only after a row that was asked for at the
    beginning has been asked for again and has its numbers still: whoever answers the block
    and the probes at both its ends is taken for one model.

    The tokenizer is the one that was named; without its special tokens where prompts are texts.
    """

    def __init__(
        self,
        client: Client,
        endpoint: Endpoint,
        answers: Answers,
        agreed: Agreed,
        facts: ModelFacts,
    ) -> None:
        self.client, self._endpoint, self._answers = client, endpoint, answers
        self._agreed, self._manner, self.facts = agreed, agreed.manner, facts
        self.tokenizer = self._manner.texts.tokenizer
        self._probed, self._before = 0, len(answers)
        self._asked = set[bytes]()  # keys of this run, sent or not
        self._reused, self._reused_tokens, self._spared_probes = 0, 0, 0
        self._began = time.perf_counter()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.facts}>"

    def memory(self) -> Memory:
        """Nothing is held here."""
        return Memory(_FREE_BYTES, 1)

    def requests(self) -> dict[str, Any]:
        """What was sent in this run, and how; those that were throttled are said."""
        self.client.throttle.say_all()
        sent: dict[str, Any] = {
            "requests_in_this_run": self.client.sent,
            "prompt_tokens_in_this_run": self.client.tokens,
        }
        sent["seconds_in_this_run"] = round(time.perf_counter() - self._began, 1)
        sent |= {"answers_kept_before": self._before} if self._before else {}
        if self._reused:  # what somebody without these answers pays
            probes = self._spared_probes
            tokens = self._reused_tokens + probes * len(self._agreed.probes[0].ids)
            sent["requests_without_earlier_answers"] = self.client.sent + self._reused + probes
            sent["prompt_tokens_without_earlier_answers"] = self.client.tokens + tokens
        sent |= self._endpoint.ledger.told()
        return sent if self._manner.top is None else {**sent, "top_k": self._manner.top}

    def queries_within(self, budget: int) -> int:
        """The budget; no bound if it is that of the requests: an answer that is kept is free."""
        return NO_BOUND if budget == self._endpoint.budget else budget

    def all_sent(self) -> bool:
        """Whether no request is left of those that may be sent, but the last for a probe."""
        most = self.client.most
        return most is not None and self.client.sent >= most - 1

    @contextmanager
    def sharing(self, parts: int) -> Iterator[None]:
        """Within it, one of some parts of the requests that are left may be sent."""
        client = self.client
        limit = client.most
        if limit is not None:
            client.most = client.sent + (limit - client.sent) // parts
        try:
            yield
        finally:
            client.most = limit

    def expect(
        self, rows: int | Sequence[int], *, at_most: int = 0, after: int | None = None
    ) -> None:
        """Say how many requests are to come, and refuse a run that would not be done.

        As many as `rows` (each time, of several) are sure, if no answer to them is known, and
        probes behind their blocks; a search may need `at_most` queries besides. Where `rows` are a
        check of the start token, `after` is sure to follow, and then a search. If more are sure
        than may be sent, that is an InputError.
        """
        known, sent, limit = len(self._answers), self.client.sent, self.client.most
        each = rows if isinstance(rows, Sequence) else [rows]
        first, then = (sum(n + -(-n // BLOCK) for n in some) for some in (each, [after or 0]))
        sure = first + then
        left = math.inf if limit is None else max(limit - sent - sure, 0)
        at_most = most_sent(at_most)
        if self._endpoint.say is not None:
            parts = [f"about {sure:,} to come in this step"] if sure or not at_most else []
            if after is not None:
                parts = [f"check of the start token {first:,}", f"draws {then:,}"]
                at_most = 0 if limit is None else limit
            parts += [f"search at most {min(at_most, left):,}"] if at_most else []
            before = self._before  # those of this run are none of an earlier one
            kept = f"; {before:,} earlier answers are kept and not asked for again" * bool(before)
            self._endpoint.say(
                f"Requests to {self._endpoint.base}: {sent:,} sent so far; {', '.join(parts)}{kept}"
            )
        if limit is not None and sent + sure - known > limit:
            enough = self._endpoint.counted(self.client.bound) + sent + sure - known
            raise InputError(
                f"about {sent + max(sure - known, 0):,} requests are needed in this run, and "
                f"{limit:,} allowed",
                cure=f"give {self.client.bound} {enough} or more, or ask for "
                "less: fewer texts or --draws, a start token that you name (--start-token)",
                where=self._endpoint.base,
            )

    def ask(self, rows: Sequence[Row]) -> dict[Row, Floats]:
        """What is answered to each row; the same one may be in it several times.

        Raises
        ------
        ServerError
            If the server fails, refuses, or is another than at the beginning. It says how many
            answers are kept: those that were vouched for until then.
        """
        known: dict[Row, Floats] = {}
        spared = 0
        todo: list[tuple[Row, bytes, dict[str, Any]]] = []
        for row in dict.fromkeys(rows):
            body = self._manner.request(row)
            key = self._answers.key(body)
            numbers = self._answers.get(key)
            if numbers is None:
                todo.append((row, key, body))
                continue
            known[row] = numbers
            if key not in self._asked:
                self._asked.add(key)
                self._reused_tokens += len(row)
                spared += 1
        blocks = -(-len(todo) // BLOCK)
        self._reused += spared
        self._spared_probes += -(-(len(todo) + spared) // BLOCK) - blocks
        for first in range(0, len(todo), BLOCK):
            known |= self._ask_block(todo[first : first + BLOCK])
        return known

    def _ask_block(self, todo: Sequence[tuple[Row, bytes, dict[str, Any]]]) -> dict[Row, Floats]:
        def post(item: tuple[Row, bytes, dict[str, Any]]) -> Floats:
            return self._manner.numbers(self.client.post(PATH, item[2]), item[0])

        answered: list[tuple[int, Floats]] = []
        failed: BaseException | None = None
        try:
            for place, outcome in in_parallel(post, todo, at_once=self._endpoint.in_flight):
                if outcome.exception() is None:
                    answered.append((place, outcome.result()))
                else:
                    failed = failed or outcome.exception()
            if failed is not None:
                raise failed
        except BaseException as error:
            if answered and self._same_still(hurried=True):
                self._keep([(todo[place][1], numbers) for place, numbers in answered])
            kept = len(self._answers)
            told = f"{kept:,} answers are kept and not asked for again"
            if isinstance(error, ServerError):
                error.cure += f": {told if kept else 'no answer is kept'}"
            elif kept and self._endpoint.say is not None and not isinstance(error, Exception):
                self._endpoint.say(f"{told}: run the same command again to go on")
            raise
        if not self._same_still(hurried=False):
            raise ServerError(
                "does not answer as it did: another model is served there now",
                cure="see to it that one model is served from beginning to end, and start again: "
                "what the first one answered is kept",
                where=self._endpoint.base,
            )
        self._keep([(todo[place][1], numbers) for place, numbers in answered])
        return {todo[place][0]: numbers for place, numbers in answered}

    def _keep(self, answers: Sequence[tuple[bytes, Floats]]) -> None:
        """Keep answers, and count the requests that were sent until now."""
        if answers:
            self._answers.add(answers)
            self._asked.update(key for key, _ in answers)
            self._endpoint.ledger.flush()

    def _same_still(self, *, hurried: bool) -> bool:
        """Whether a probe has its numbers still; `hurried` where something else is being raised."""
        self._probed += 1
        probe = self._agreed.probes[self._probed % len(self._agreed.probes)]
        request = self._manner.request(probe.ids)
        try:
            answer = self.client.post(PATH, request, hurried=hurried, last=True, quote=True)
            moved = self._manner.apart(self._manner.numbers(answer, probe.ids), probe.numbers)
        except Exception:
            if hurried:
                return False
            raise
        return moved <= self._agreed.tolerance


class EchoedModel(ServedModel):
    """Scores whole rows, each with a request of its own."""

    _checked = 0  # tokens of the longest row whose numbers are known to be in their places

    def score(self, rows: Rows) -> FloatArray:
        """Log-probability of each scored token, flat, in nats.

        Raises
        ------
        ServerError
            If the server fails, refuses, or is another than at the beginning; or if it returns
            numbers in other places than their own in rows as long as these.
        UnsupportedError
            If the server takes texts only, and a row is not what it makes of its text.
        """
        sequences = [tuple(row.tolist()) for row in np.split(rows.ids, rows.offsets[1:-1])]
        scored = zip(sequences, rows.scored.tolist(), strict=True)
        asked = [(ids, count) for ids, count in scored if count]
        longest = max((ids for ids, _ in asked), key=len, default=())
        probed = max(len(probe.ids) for probe in self._agreed.probes)
        if len(longest) > max(self._checked, probed):
            check_aligned_at(self.client, self._agreed, longest)
            self._checked = len(longest)
        numbers = self.ask([ids for ids, _ in asked])
        values = [numbers[ids][len(ids) - 1 - count :] for ids, count in asked]
        return np.concatenate([np.zeros(0), *values]).astype(np.float32)

    def open(self, context: Context, *, memory_bytes: int) -> Walker:
        """A walker that scores a row for each child and holds nothing."""
        return _Whole(self, context)


class LikeliestModel(ServedModel):
    """Expands nodes, each with a request of its own for the tokens that may come next.

    It tells only the most likely of them, so that the others have bounds.
    """

    def score(self, rows: Rows) -> FloatArray:
        """Refused: what is not among the most likely has no log-probability, only a bound."""
        raise UnsupportedError(
            f"the server of {self.facts.name!r} was asked only for the {self._manner.top} most "
            "likely next tokens, so whole texts have no log-perplexity",
            cure="use canary exposure, extract or membership order, which take --top-k, or leave "
            "it out if the server echoes prompts with log-probabilities (as vLLM does)",
        )

    def score_at_most(self, rows: Rows) -> FloatArray:
        """As `EchoedModel.score`, with an upper bound for each token that was not returned.

        A request for each scored token.
        """
        told = [
            (tuple(row[:at].tolist()), np.asarray(row[at : at + 1], np.int32))
            for row, first in zip(np.split(rows.ids, rows.offsets[1:-1]), rows.start, strict=True)
            for at in range(int(first), len(row))
        ]
        answers = self.ask([before for before, _ in told])
        values = [log_probs_of(answers[before], token)[0] for before, token in told]
        return np.concatenate([np.zeros(0), *values]).astype(np.float32)

    def open(self, context: Context, *, memory_bytes: int) -> Walker:
        """A walker that asks for the next tokens at each node and holds nothing."""
        return _Below(self, context)


class _Whole(RowWalker):
    """Scores a row for each child; a query is a request."""

    def expand(self, nodes: Nodes, tokens: Children, *, keep: bool = True) -> Expansion:
        """See `canary.models.language_model.Walker.expand`."""
        rows = int(np.maximum(tokens.counts(len(nodes)), 1).sum())
        return replace(super().expand(nodes, tokens, keep=keep), queries=rows)

    def most_queries(self, nodes: Nodes, held: IntArray, degrees: IntArray) -> NDArray[np.int64]:
        """See `canary.models.language_model.TellsQueries`; each child is a row of its own."""
        return np.maximum(np.asarray(degrees, np.int64), 1)


class _Below(RowWalker):
    """Costs below a context. The context's own is left out: no server of this kind tells it."""

    def __init__(self, model: ServedModel, context: Context) -> None:
        super().__init__(model, context)
        self._before = tuple(self._context.tolist())
        self.context_log_probs: FloatArray = np.zeros(len(self._before) - 1, np.float32)

    def expand(self, nodes: Nodes, tokens: Children, *, keep: bool = True) -> Expansion:
        """See `canary.models.language_model.Walker.expand`; upper bounds for tokens not returned.

        Where that is one of the path, all children are marked. A query is a request.
        """
        n = len(nodes)
        paths = [tuple(p[:k].tolist()) for p, k in zip(nodes.paths, nodes.lengths, strict=True)]
        priced = np.asarray(nodes.priced, np.int64).tolist()
        wanted = [
            self._before + path[:depth]
            for path, first in zip(paths, priced, strict=True)
            for depth in range(first, len(path) + 1)
        ]
        told = self._model.ask(wanted)
        path_log_probs, values, exact = np.zeros(n), [], []
        for node, (path, first) in enumerate(zip(paths, priced, strict=True)):
            sure = True
            for depth in range(first, len(path)):
                token = np.array(path[depth : depth + 1], np.int32)
                value, known = log_probs_of(told[self._before + path[:depth]], token)
                path_log_probs[node] += value[0]
                sure &= bool(known[0])
            children: Any = tokens.tokens
            if tokens.offsets is not None:
                children = children[tokens.offsets[node] : tokens.offsets[node + 1]]
            below, known = log_probs_of(told[self._before + path], children)
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
