"""Questions to a served model: never twice, many at once, and never two models mixed."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from canary.errors import InputError, ServerError
from canary.models.served.answer_store import Answers
from canary.models.served.client import Client
from canary.models.served.endpoint import Endpoint
from canary.models.served.parallel import in_parallel
from canary.models.served.wire import PATH

__all__ = ["Asking"]

_BLOCK = 64

Floats = NDArray[np.float64]
Question = TypeVar("Question", bound=Hashable)


class AskAgain(Protocol):
    """Asks for a probe by its number; gives how far it is from what it was, in nats."""

    def __call__(self, number: int, *, hurried: bool) -> float:
        """`hurried`: neither wait long nor try again."""
        ...


class Asking:
    """Asks, and keeps what was answered once a probe has vouched for it.

    A block of answers is kept, and used, only after a row that was asked for at the
    beginning has been asked for again and has its numbers still: whoever answers the block
    and the probes at both its ends is taken for one model.

    Parameters
    ----------
    client : Client
    endpoint : Endpoint
    answers : Answers
    probe : AskAgain
    tolerance : float
        How far it may be.
    """

    def __init__(
        self,
        client: Client,
        endpoint: Endpoint,
        answers: Answers,
        *,
        probe: AskAgain,
        tolerance: float,
    ) -> None:
        self._client, self._endpoint, self._answers = client, endpoint, answers
        self._probe, self._tolerance = probe, tolerance
        self._probed = 0

    def expect(self, rows: int, *, at_most: int = 0) -> None:
        """Say how many requests are to come, and refuse a run that would not be done.

        Parameters
        ----------
        rows : int
            Those that are sure, if no answer to them is known.
        at_most : int
            What a search may need besides.

        Raises
        ------
        InputError
            If more are sure than may be sent.
        """
        known, sent = len(self._answers), self._client.sent
        sure = rows + -(-rows // _BLOCK)
        limit = self._endpoint.max_requests
        if self._endpoint.tell is not None:
            more = f", and at most {at_most:,} for the search" if at_most else ""
            kept = f"; {known:,} earlier answers are kept and not asked for again" if known else ""
            self._endpoint.tell(
                f"Requests to {self._endpoint.base}: {sent:,} to see what it can do, about "
                f"{sure:,} to come{more}{kept}"
            )
        if limit is not None and sent + sure - known > limit:
            raise InputError(
                f"about {sent + max(sure - known, 0):,} requests are needed, and {limit:,} allowed",
                cure="allow more with --max-requests, or ask for less: fewer --draws, a smaller "
                "--budget",
                where=self._endpoint.base,
            )

    def ask(
        self,
        questions: Sequence[Question],
        request: Callable[[Question], dict[str, Any]],
        read: Callable[[Any, Question], Floats],
    ) -> dict[Question, Floats]:
        """What is answered to each question.

        Parameters
        ----------
        questions : sequence
            The same one may stand in it several times.
        request : callable
            The body of the request for a question.
        read : callable
            The numbers of an answer to a question; raises where the answer is none.

        Raises
        ------
        ServerError
            If the server fails, refuses, or is another than at the beginning. It says how many
            answers are kept: those that were vouched for until then.
        """
        found: dict[Question, Floats] = {}
        todo: list[tuple[Question, bytes, dict[str, Any]]] = []
        for question in dict.fromkeys(questions):
            body = request(question)
            key = self._answers.key(body)
            known = self._answers.get(key)
            if known is None:
                todo.append((question, key, body))
            else:
                found[question] = known
        for at in range(0, len(todo), _BLOCK):
            found.update(self._block(todo[at : at + _BLOCK], read))
        return found

    def _block(
        self,
        todo: Sequence[tuple[Question, bytes, dict[str, Any]]],
        read: Callable[[Any, Question], Floats],
    ) -> dict[Question, Floats]:
        def one(item: tuple[Question, bytes, dict[str, Any]]) -> Floats:
            question, _, body = item
            return read(self._client.post(PATH, body), question)

        got: list[tuple[bytes, Floats]] = []
        found: dict[Question, Floats] = {}
        failed: BaseException | None = None
        try:
            for outcome in in_parallel(one, todo, at_once=self._endpoint.in_flight):
                if outcome.error is not None:
                    failed = failed or outcome.error
                    continue
                question, key, _ = todo[outcome.place]
                found[question] = outcome.value()
                got.append((key, found[question]))
            if failed is not None:
                raise failed
        except BaseException as error:
            if got and self._same_still(hurried=True):
                self._answers.add(got)
            if isinstance(error, ServerError):
                error.cure += f": {self._kept()}"
            raise
        if not self._same_still(hurried=False):
            raise ServerError(
                "does not answer as it did: another model is served there now",
                cure="see to it that one model is served from beginning to end, and start again: "
                "what the first one answered is kept",
                where=self._endpoint.base,
            )
        self._answers.add(got)
        return found

    def _kept(self) -> str:
        kept = len(self._answers)
        return f"{kept:,} answers are kept and not asked for again" if kept else "no answer is kept"

    def _same_still(self, *, hurried: bool) -> bool:
        self._probed += 1
        try:
            return self._probe(self._probed, hurried=hurried) <= self._tolerance
        except Exception:
            if hurried:  # something else is being raised
                return False
            raise
