"""Questions to a served model: never twice, many at once, and never two models mixed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from canary.errors import InputError, ServerError
from canary.models.served.answer_store import Answers
from canary.models.served.client import Client
from canary.models.served.endpoint import Endpoint
from canary.models.served.handshake import Agreed
from canary.models.served.parallel import in_parallel
from canary.models.served.request_format import Floats
from canary.models.served.wire import PATH

_BLOCK = 64

Row = tuple[int, ...]


class Asking:
    """Asks, and keeps what was answered once a probe has vouched for it.

    A block of answers is kept, and used, only after a row that was asked for at the
    beginning has been asked for again and has its numbers still: whoever answers the block
    and the probes at both its ends is taken for one model.
    """

    def __init__(
        self, client: Client, endpoint: Endpoint, answers: Answers, agreed: Agreed
    ) -> None:
        self._client, self._endpoint, self._answers = client, endpoint, answers
        self._agreed, self._manner, self.top = agreed, agreed.manner, agreed.manner.top
        self._probed = 0

    def expect(self, rows: int, *, at_most: int = 0) -> None:
        """Say how many requests are to come, and refuse a run that would not be done.

        As many as `rows` are sure, if no answer to them is known; a search may need `at_most`
        besides. If more are sure than may be sent, that is an InputError.
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

    def ask(self, rows: Sequence[Row]) -> dict[Row, Floats]:
        """What is answered to each row; the same one may stand in it several times.

        Raises
        ------
        ServerError
            If the server fails, refuses, or is another than at the beginning. It says how many
            answers are kept: those that were vouched for until then.
        """
        known: dict[Row, Floats] = {}
        todo: list[tuple[Row, bytes, dict[str, Any]]] = []
        for row in dict.fromkeys(rows):
            body = self._manner.request(row)
            key = self._answers.key(body)
            numbers = self._answers.get(key)
            if numbers is None:
                todo.append((row, key, body))
            else:
                known[row] = numbers
        for at in range(0, len(todo), _BLOCK):
            self._ask_block(todo[at : at + _BLOCK], known)
        return known

    def _ask_block(
        self, todo: Sequence[tuple[Row, bytes, dict[str, Any]]], known: dict[Row, Floats]
    ) -> None:
        def post(item: tuple[Row, bytes, dict[str, Any]]) -> Floats:
            return self._manner.numbers(self._client.post(PATH, item[2]), item[0])

        answered: list[tuple[bytes, Floats]] = []
        failed: BaseException | None = None
        try:
            for place, outcome in in_parallel(post, todo, at_once=self._endpoint.in_flight):
                if outcome.exception() is not None:
                    failed = failed or outcome.exception()
                    continue
                row, key, _ = todo[place]
                known[row] = outcome.result()
                answered.append((key, known[row]))
            if failed is not None:
                raise failed
        except BaseException as error:
            if answered and self._same_still(hurried=True):
                self._answers.add(answered)
            if isinstance(error, ServerError):
                kept = len(self._answers)
                told = f"{kept:,} answers are kept and not asked for again"
                error.cure += f": {told if kept else 'no answer is kept'}"
            raise
        if not self._same_still(hurried=False):
            raise ServerError(
                "does not answer as it did: another model is served there now",
                cure="see to it that one model is served from beginning to end, and start again: "
                "what the first one answered is kept",
                where=self._endpoint.base,
            )
        self._answers.add(answered)

    def _same_still(self, *, hurried: bool) -> bool:
        """Whether a probe has its numbers still; `hurried` where something else is being raised."""
        self._probed += 1
        probe = self._agreed.probes[self._probed % len(self._agreed.probes)]
        request = self._manner.request(probe.ids)
        try:
            answer = self._client.post(PATH, request, hurried=hurried, last=True, quote=True)
            moved = self._manner.apart(self._manner.numbers(answer, probe.ids), probe.numbers)
        except Exception:
            if hurried:
                return False
            raise
        return moved <= self._agreed.tolerance
