"""Questions to a served model: never twice, many at once, and never two models mixed.

Every answer is kept on disk: a folder for each model of each server, with the pieces of
`canary.records.shards`, that only its owner may read. An answer is found by the SHA-256 of the
model and of what was asked; its text is not kept. Yet whoever reads the folder and guesses a text
can see whether it was asked for, so it is to be kept like the canaries themselves.
"""

from __future__ import annotations

import hashlib
import json
import re
import weakref
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from canary.errors import InputError, RecordError, ServerError
from canary.models.served.client import Client, in_parallel
from canary.models.served.endpoint import Endpoint
from canary.models.served.handshake import Agreed
from canary.models.served.request_format import Floats
from canary.models.served.wire import PATH
from canary.records.files import make_folder
from canary.records.shards import open_run

_BLOCK = 64
_KEY_BYTES, _COUNT_BYTES = 32, 4
_NUMBER = np.dtype("<f8")
_NAME_LENGTH = 40

Row = tuple[int, ...]

_OPEN: weakref.WeakValueDictionary[Path, Answers] = weakref.WeakValueDictionary()


class Answers:
    """The answers of one model of one server, those of earlier runs included.

    `folder` is held against other processes as long as this object lives. `identity` says in
    plain JSON which model of which server it is, and how it is asked.
    """

    def __init__(self, folder: Path, identity: Mapping[str, Any]) -> None:
        self.folder = folder
        self._identity = json.dumps(identity, sort_keys=True)
        make_folder(folder.parent)
        stack = ExitStack()
        run = stack.enter_context(open_run(folder, identity))
        self._release = weakref.finalize(self, stack.close)
        self._series, self._first = run.series("answers"), run.series("first")
        self._known: dict[bytes, Floats] = {}
        for shard in self._series:
            self._read(shard.body)

    def __len__(self) -> int:
        return len(self._known)

    def key(self, request: Mapping[str, Any]) -> bytes:
        """Under what an answer to `request` is kept."""
        asked = json.dumps(request, sort_keys=True)
        return hashlib.sha256(f"{self._identity}\n{asked}".encode()).digest()

    def get(self, key: bytes) -> Floats | None:
        """What was answered, if it is known."""
        return self._known.get(key)

    def add(self, answers: Sequence[tuple[bytes, Floats]]) -> None:
        """Keep some answers; when this returns, no kill undoes it. An OutputError without room."""
        if answers:
            body = b"".join(
                key + len(values).to_bytes(_COUNT_BYTES, "little") + _bytes(values)
                for key, values in answers
            )
            self._series.append({"answers": len(answers)}, body)
            self._known.update(answers)

    def first(self, numbers: Floats) -> Floats:
        """Numbers that were given first of all, here or in an earlier run."""
        if not len(self._first):
            self._first.append({}, _bytes(numbers))
        return np.frombuffer(self._first[0].body, _NUMBER)

    def _read(self, body: bytes) -> None:
        start = 0
        while start < len(body):
            count, head = start + _KEY_BYTES, start + _KEY_BYTES + _COUNT_BYTES
            end = head + _NUMBER.itemsize * int.from_bytes(body[count:head], "little")
            if end > len(body):
                raise RecordError(
                    "holds an answer that is not whole",
                    cure="remove the folder: everything is asked again",
                    where=str(self.folder),
                )
            self._known[body[start:count]] = np.frombuffer(body[head:end], _NUMBER)
            start = end


def open_answers(root: Path, name: str, identity: Mapping[str, Any]) -> Answers:
    """The answers of a model in its own folder below `root`.

    Raises
    ------
    OutputError
        If another process is at work in it, or it cannot be written to.
    RecordError
        If it is damaged.
    """
    digest = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()
    plain = re.sub("[^A-Za-z0-9]+", "-", name).strip("-")[-_NAME_LENGTH:]
    folder = root.absolute() / f"{plain}-{digest[:12]}"
    answers = _OPEN.get(folder)
    if answers is None:
        answers = _OPEN[folder] = Answers(folder, identity)
    return answers


def _bytes(values: Floats) -> bytes:
    return bytes(values.astype(_NUMBER).tobytes())


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
        for first in range(0, len(todo), _BLOCK):
            known |= self._ask_block(todo[first : first + _BLOCK])
        return known

    def _ask_block(self, todo: Sequence[tuple[Row, bytes, dict[str, Any]]]) -> dict[Row, Floats]:
        def post(item: tuple[Row, bytes, dict[str, Any]]) -> Floats:
            return self._manner.numbers(self._client.post(PATH, item[2]), item[0])

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
                self._answers.add([(todo[place][1], numbers) for place, numbers in answered])
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
        self._answers.add([(todo[place][1], numbers) for place, numbers in answered])
        return {todo[place][0]: numbers for place, numbers in answered}

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
